"""Attribution: for an answer that is wrong or doubted, which channel stands out, the cache or the question.

The cache's number is the certificate, the question's is the answer's mean log-probability. Which numbers are high, and
what that has meant, is measured: a table of odds from a study of the same model, policy, budget and condition. Without
one the numbers are shown and nothing is said about them. An attribution is never a verdict: it says how often answers
with such numbers were broken by the cache in that study, and no more is known about this one.

Not covered: pruned prompts, text that was appended after a compression, and answers that are wrong for other reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from fewer.decide.evidence import Evidence
from fewer.decide.odds import Level, Odds, Setting
from fewer.decide.reading import ON_RECEIPTS, Radii, Reading, read_evidence, read_receipt
from fewer.decide.statement import state
from fewer.errors import bad
from fewer.receipt import Receipt

__all__ = ["Attribution", "Channel", "HeadPart", "Part", "attribute"]

TOP = 3  # parts that are named
CLIPPED = ON_RECEIPTS[0]  # radii above 1 count as 1: the number that receipts show first

Channel = Literal["cache", "question", "both", "neither", "unknown"]


@dataclass(frozen=True, slots=True)
class Part:
    """A layer or a step (from 1), its radius, and its share of the sum over all of them, 0 to 1."""

    index: int
    radius: float
    share: float


@dataclass(frozen=True, slots=True)
class HeadPart:
    """A query head: layer from 1, head from 0; the rest as for `Part`."""

    layer: int
    head: int
    radius: float
    share: float


@dataclass(frozen=True, slots=True)
class Attribution:
    """What can be said about one answer.

    channel: "cache" where the certificate is in the highest bin of the odds' table, "question" where the mean
    log-probability is in the lowest, "both", "neither", or "unknown" without one of the numbers or without a table.
    statement: the same in words, with the odds. certificate: the value of `signal`, which is the table's, or without
    one the clipped certificate. levels are None without a table. odds: the table; missing: what is not there, with the
    reason and the way to get it.

    layers, heads, steps: the largest few. Of layers and heads each is at its largest of the first six steps, so their
    shares are of a sum that no single step had; heads are known from evidence only, receipts have none. Where the
    signal is the clipped certificate, radii above 1 count as 1 here too (of heads that tie, the largest before clipping
    come first); otherwise they count as they are.
    """

    channel: Channel
    statement: str
    signal: str
    certificate: float | None
    logprob: float | None  # nats
    certificate_level: Level | None
    logprob_level: Level | None
    odds: Odds | None
    missing: tuple[str, ...]
    layers: tuple[Part, ...]
    heads: tuple[HeadPart, ...]
    steps: tuple[Part, ...]
    radii: Radii  # all of them

    def to_object(self) -> dict[str, Any]:
        """Everything as plain JSON, with the cell of the table and not the whole of it."""
        names = ("channel", "statement", "signal", "certificate", "logprob", "certificate_level", "logprob_level")
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        found["missing"] = list(self.missing)
        for name in ("layers", "heads", "steps"):
            found[name] = [asdict(part) for part in getattr(self, name)]
        found |= {"radius_per_layer": list(self.radii.per_layer), "radius_per_step": list(self.radii.steps)}
        found["odds"] = None
        if self.odds is not None:
            table = self.odds
            found["odds"] = {"study": table.study, "condition": table.condition, "level": table.level}
            found["odds"] |= {"such": None, "all": table.whole.model_dump(mode="json")}
            if self.certificate is not None and self.logprob is not None:
                found["odds"]["such"] = table.find(self.certificate, self.logprob).model_dump(mode="json")
        return found


def attribute(answered: Receipt | Evidence, odds: Odds | None = None, *, setting: Setting | None = None) -> Attribution:
    """Which channel stands out for this answer, and how often that has meant what.

    odds: a measured table; `fewer.decide.load_odds` reads one. setting: for evidence, under which the answer was given,
    needed with a table; a receipt says it itself. Raises BadInput for a table of another model, policy, budget or
    condition, for one over a signal that is not there, and for evidence with a table and no setting.
    """
    if isinstance(answered, Receipt):
        if setting is not None:
            raise bad("setting", setting, "left out for a receipt", "The receipt says it.")
        reading = read_receipt(answered)
    elif isinstance(answered, Evidence):
        reading = read_evidence(answered, setting)
        if odds is not None and setting is None:
            way_out = "Pass Setting(engine.adapter.facts.fingerprint, policy.describe(), condition)."
            raise bad("setting", None, "given where evidence is held against odds", way_out)
    else:
        raise bad("what is attributed", answered, "a Receipt or Evidence", "Take answer.receipt or answer.evidence.")
    if odds is not None and reading.setting is not None:
        odds.check(reading.setting)
    signal = CLIPPED if odds is None else odds.signal
    certificate = reading.values.get(signal)
    if certificate is None and "certificate" not in reading.missing:
        there = ", ".join(reading.values)
        raise bad("the signal of the odds", signal, f"one that there is here ({there})", "Attribute answer.evidence.")
    if certificate is not None:
        reading = replace(reading, missing={name: why for name, why in reading.missing.items() if name == "logprob"})
    levels = _find_levels(odds, certificate, reading.logprob)
    channel = _find_channel(*levels)
    statement = state(reading, channel, odds, certificate, levels)
    return _complete(reading, channel, statement, signal, certificate, levels, odds)


def _find_levels(
    odds: Odds | None, certificate: float | None, logprob: float | None
) -> tuple[Level | None, Level | None]:
    if odds is None:
        return None, None
    return (
        None if certificate is None else odds.certificate.level(certificate),
        None if logprob is None else odds.logprob.level(logprob),
    )


def _find_channel(certificate: Level | None, logprob: Level | None) -> Channel:
    if certificate is None or logprob is None:
        return "unknown"
    if certificate == "high":
        return "both" if logprob == "low" else "cache"
    return "question" if logprob == "low" else "neither"


def _complete(
    reading: Reading,
    channel: Channel,
    statement: str,
    signal: str,
    certificate: float | None,
    levels: tuple[Level | None, Level | None],
    odds: Odds | None,
) -> Attribution:
    radii = reading.clipped if signal == CLIPPED else reading.radii
    flat = [radius for heads in radii.heads for radius in heads]
    width = len(radii.heads[0]) if radii.heads else 0
    heads = (
        HeadPart((part.index - 1) // width + 1, (part.index - 1) % width, part.radius, part.share)
        for part in _list_top(flat, [radius for heads in reading.radii.heads for radius in heads])
    )
    return Attribution(
        channel=channel,
        statement=statement,
        signal=signal,
        certificate=certificate,
        logprob=reading.logprob,
        certificate_level=levels[0],
        logprob_level=levels[1],
        odds=odds,
        missing=tuple(f"{name}: {why}" for name, why in reading.missing.items()),
        layers=_list_top(radii.per_layer),
        heads=tuple(heads),
        steps=_list_top(radii.steps),
        radii=radii,
    )


def _list_top(radii: Sequence[float], otherwise: Sequence[float] | None = None) -> tuple[Part, ...]:
    """The largest few, of equals those that are larger otherwise, then the first; none where all are 0."""
    total = sum(radii)
    if not total:
        return ()
    ties = radii if otherwise is None else otherwise
    ranked = sorted(range(len(radii)), key=lambda at: (-radii[at], -ties[at]))
    return tuple(Part(at + 1, radii[at], radii[at] / total) for at in ranked[:TOP])
