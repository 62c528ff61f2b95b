"""A gate whose threshold was found on held-out answers, as a file that knows for what it was found.

The claim (`alpha`, see `fewer.decide.conformal`) is about one signal, one model, one policy with its budget, and
answers exchangeable with those of the data. The model and the policy are checked; the rest cannot be, and is written
down. It is a claim about recomputing with the full cache.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

from fewer.decide.conformal import ControlledRisk, control_risk
from fewer.decide.gate import LARGEST, GateDecision, as_value, find_signal
from fewer.decide.plain import read_plain, read_text
from fewer.decide.signals import Signal
from fewer.errors import bad
from fewer.receipt.files import write_file
from fewer.types import ModelFacts
from fewer.types.number import check_number

__all__ = ["CalibratedGate", "calibrate"]

_FORMAT = "fewer calibrated gate"
_VERSION = 1
_CHANGED = "The file was changed; calibrate again."


@dataclass(frozen=True)
class CalibratedGate:
    """Fires above its threshold, and where the signal has no value. `calibrate` makes one.

    data: what it was calibrated on, in words. loss: what a loss of 1 means, in words. fingerprint, policy: of the model
    and the policy whose answers they were (`Policy.describe`).
    """

    signal: Signal
    found: ControlledRisk
    data: str
    loss: str
    model: str
    fingerprint: str
    policy: Mapping[str, str | int | float | None]

    @property
    def threshold(self) -> float:
        """Values above it fire."""
        return self.found.threshold

    def decide(self, value: float | None) -> GateDecision:
        """About one answer; earlier ones do not matter. Raises BadInput for what is no number."""
        value, threshold = as_value(value), self.threshold
        ground = f"calibrated on {self.data} to risk {self.found.alpha:g}"
        if value is None:
            says = f"{self.signal.name} has no value for this answer, and what has none is recomputed"
            return GateDecision(True, None, threshold, f"{says}; {ground}")
        fires = value > threshold
        limit = "the largest number there is" if threshold == LARGEST else f"{threshold:.4g}"
        says = f"{self.signal.name} {value:.4g} is {'above' if fires else 'not above'} {limit}"
        return GateDecision(fires, value, threshold, f"{says}; {ground}")

    def check(self, facts: ModelFacts, policy: Mapping[str, str | int | float | None]) -> None:
        """Raise BadInput for another model or another policy than those it was calibrated for."""
        way_out = "Calibrate a gate for this one, or use Gate(signal, rate=0.25), which claims nothing."
        if facts.fingerprint != self.fingerprint:
            legal = f"{self.model} ({self.fingerprint[:8]}), which the gate was calibrated for"
            raise bad("the model", f"{facts.name} ({facts.fingerprint[:8]})", legal, way_out)
        mine, other = dict(self.policy), dict(policy)
        if differs := sorted(name for name in {*mine, *other} if mine.get(name) != other.get(name)):
            shown = ", ".join(f"{name} {other.get(name)} (calibrated: {mine.get(name)})" for name in differs)
            raise bad("the policy", shown, "the one that the gate was calibrated for", way_out)

    def to_json(self) -> str:
        """The gate as one JSON object."""
        plain = {"format": _FORMAT, "version": _VERSION, "signal": self.signal.name, **asdict(self.found)}
        plain |= {"data": self.data, "loss": self.loss}
        plain |= {"model": self.model, "fingerprint": self.fingerprint, "policy": dict(self.policy)}
        return json.dumps(plain, indent=1, allow_nan=False)

    def save(self, path: str | PathLike[str]) -> None:
        """Write `to_json` to a file, whole or not at all. Raises BadInput for the path, StorageError for the disk."""
        write_file(path, self.to_json() + "\n")

    @classmethod
    def load(cls, path: str | PathLike[str], signal: Signal | None = None) -> CalibratedGate:
        """Read one back from a file, as `from_json` does."""
        return cls.from_json(read_text(path), signal)

    @classmethod
    def from_json(cls, text: str, signal: Signal | None = None) -> CalibratedGate:
        """Read one back. signal: only where it is one of your own. Raises BadInput."""
        plain = read_plain(text, _FORMAT, _VERSION)
        name, policy = plain.pop("signal", None), plain.pop("policy", None)
        own = name if signal is None else find_signal(signal).name
        if own != name:
            raise bad("signal", own, f"{name!r}, which the gate was calibrated for", "Pass that signal.")
        if not isinstance(policy, dict):
            raise bad("policy", policy, "a JSON object", _CHANGED)
        words = {each: plain.pop(each, None) for each in ("data", "loss", "model", "fingerprint")}
        for each, word in words.items():
            if not isinstance(word, str) or not word:
                raise bad(each, word, "a text", _CHANGED)
        return cls(find_signal(signal or name), _read_found(plain), policy=policy, **words)


def calibrate(
    signal: Signal | str,
    values: Sequence[float | None],
    losses: Sequence[float | bool],
    alpha: float,
    *,
    data: str,
    loss: str,
    facts: ModelFacts,
    policy: Mapping[str, str | int | float | None],
    clusters: Sequence[Hashable] | None = None,
) -> CalibratedGate:
    """A gate with the threshold that `control_risk` finds. The words `data` and `loss` go into its file.

    facts, policy: of the model (`engine.adapter.facts`) and the policy (`Policy.describe()`) that gave the answers.
    Raises BadInput as `control_risk` does.
    """
    for name, word in (("data", data), ("loss", loss)):
        if not isinstance(word, str) or not word.strip():
            raise bad(name, word, "a few words", "Say what the answers were, and what a loss of 1 is.")
    found = control_risk(values, losses, alpha, clusters)
    return CalibratedGate(find_signal(signal), found, data, loss, facts.name, facts.fingerprint, dict(policy))


def _read_found(plain: dict[str, Any]) -> ControlledRisk:
    try:
        found = ControlledRisk(**plain)
    except TypeError as error:
        raise bad("gate", str(error), "the JSON of CalibratedGate.to_json", _CHANGED) from None
    check_number("threshold", found.threshold, float, -LARGEST, LARGEST, _CHANGED)
    check_number("alpha", found.alpha, float, 0.0, 1.0, _CHANGED, open_low=True)
    for name in ("num_answers", "num_clusters"):
        check_number(name, getattr(found, name), int, 1, None, _CHANGED)
    for name in ("risk", "risk_without", "recomputed"):
        check_number(name, getattr(found, name), float, 0.0, 1.0, _CHANGED)
    return found
