"""An attribution in words. They follow the evidence: how often, in which study, with which interval, and no verdict."""

from __future__ import annotations

from fewer.decide.odds import LEAST, Cell, Level, Odds, Share
from fewer.decide.reading import Reading

__all__ = ["name_signal", "state"]

_LEADS = {
    "cache": "The cache may have caused this",
    "question": "The question may have been hard for the model, whatever the cache",
    "both": "The cache may have caused this, and the question may have been hard as well",
    "neither": "Neither the cache nor the question stands out",
}


def state(
    reading: Reading,
    channel: str,
    odds: Odds | None,
    certificate: float | None,
    levels: tuple[Level | None, Level | None],
) -> str:
    """One to six sentences. certificate: the value of the odds' signal; levels: its and the log-probability's."""
    said = _state(reading, channel, odds, certificate, levels)
    if reading.again is None:
        return said
    return f"This answer was computed again ({reading.again}); what follows is about the second run. {said}"


def _state(
    reading: Reading,
    channel: str,
    odds: Odds | None,
    certificate: float | None,
    levels: tuple[Level | None, Level | None],
) -> str:
    if reading.whole:
        return f"Nothing had left the cache, so it did not cause this; {_say_logprob(reading.logprob)}."
    if reading.missing:
        lack = "; ".join(f"no {_NAMES[name]}, since {why}" for name, why in reading.missing.items())
        shown = [] if certificate is None else [f"{_name(odds)} is {certificate:.3g}"]
        shown += [] if reading.logprob is None else [_say_logprob(reading.logprob)]
        there = f" {_upper('; '.join(shown))}." if shown else ""
        return f"Which channel is unknown: {lack}.{there}"
    assert certificate is not None
    assert reading.logprob is not None
    if odds is None:
        return (
            f"No measured odds for this model and policy: {_name(odds)} is {certificate:.3g} and "
            f"{_say_logprob(reading.logprob)}, and whether that is high or low has not been measured."
        )
    cell = odds.find(certificate, reading.logprob)
    what = _name(odds)
    seen = f"{what} is {levels[0]} ({certificate:.3g}), the log-probability {levels[1]} ({reading.logprob:.3g})"
    sentences = [f"{_lead(channel, cell, odds)}: {seen}.", *_say_odds(cell, odds)]
    for name, axis, value in (
        (what, odds.certificate, certificate),
        ("the log-probability", odds.logprob, reading.logprob),
    ):
        if axis.outside(value):
            span = f"{axis.least:.3g} to {axis.most:.3g}"
            sentences.append(f"{_upper(name)} is outside what {odds.study} saw ({span}), so the odds may not hold.")
    return " ".join(sentences)


_NAMES = {"certificate": "certificate", "logprob": "log-probability"}


def _lead(channel: str, cell: Cell, odds: Odds) -> str:
    """What stands out, as far as the table bears it out: its bin's interval lies above the share among all answers."""
    if cell.broken.share is None:
        stands = {"cache": _upper(_name(odds)), "question": "The log-probability", "both": "Each of the two numbers"}
        return f"{stands[channel]} stands out" if channel in stands else _LEADS[channel]
    broke, failed = _above(cell.broken, odds.whole.broken), _above(cell.wrong, odds.whole.wrong)
    if channel == "cache" and not broke:
        return f"{_upper(_name(odds))} is high, which in {odds.study} did not clearly mark answers that the cache broke"
    if channel == "question" and not failed:
        return f"The log-probability is low, which in {odds.study} did not clearly mark answers that were wrong anyway"
    if channel == "both" and not (broke and failed):
        if not broke and not failed:
            return f"Both numbers stand out, which in {odds.study} did not clearly mark answers that went wrong"
        return _LEADS["cache" if broke else "question"] + ", though both numbers stand out"
    return _LEADS[channel]


def name_signal(signal: str) -> str:
    """A signal in words."""
    known = {"certificate": "certificate", "certificate_clipped": "clipped certificate"}
    return known.get(signal, f"signal {signal}")


def _name(odds: Odds | None) -> str:
    """The signal that stands for the certificate; without a table the clipped one."""
    return f"the {name_signal('certificate_clipped' if odds is None else odds.signal)}"


def _above(such: Share, every: Share) -> bool:
    return such.low is not None and every.share is not None and such.low > every.share


def _say_odds(cell: Cell, odds: Odds) -> list[str]:
    where = f"in {odds.study} ({odds.condition}, budget {odds.budget})"
    if cell.broken.share is None:
        few = f"{cell.n} answers from {cell.broken.clusters} clusters {where} looked like this"
        return [f"Only {few}, too few for odds (at least {LEAST} clusters).", _say_all(odds)]
    found = [
        f"Of {cell.n} such answers {where} the cache broke {_percent(cell.broken)}, and {_percent(cell.wrong)} were "
        "wrong with the full cache too."
    ]
    if cell.broken_of_failed.share is not None:
        found.append(f"Of those that were wrong, the cache had broken {_percent(cell.broken_of_failed)}.")
    return [*found, _say_all(odds)]


def _say_all(odds: Odds) -> str:
    every = odds.whole
    shares = f"{_percent(every.broken)} broken, {_percent(every.wrong)} wrong anyway"
    return f"Of all {every.n} answers there: {shares} ({odds.level:.0%} intervals)."


def _percent(share: Share) -> str:
    """`31% [24, 38]`."""
    if share.share is None or share.low is None or share.high is None:
        return "an unknown share"
    return f"{share.share:.0%} [{100 * share.low:.0f}, {100 * share.high:.0f}]"


def _say_logprob(logprob: float | None) -> str:
    if logprob is None:
        return "the log-probability was not asked for"
    return f"the mean log-probability is {logprob:.3g} nats"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
