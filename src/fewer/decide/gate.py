"""A gate: whether an answer is to be computed again, from its signal's value and from the values before it.

A threshold gate fires above a number. A rate gate holds a budget of recomputations online. It ranks the value among the
last `window` earlier ones, with a coin for ties and for its own place (u of [0, 1), a hash of seed and count):

    p = (earlier values above it + u x (1 + earlier values equal to it)) / (1 + earlier values)
    level = rate + max(0, rate x answers before - recomputations before) / window
    it fires if p < level, and recomputations, this one included, <= rate x answers, this one included, + slack

p is the rank that conformal prediction calls a smoothed p-value (Vovk, Gammerman, Shafer 2005, section 2.3): while
values are exchangeable it is uniform on [0, 1) however few there are, so the first answers need no rule of their own.
Budget that was not spent is offered to the next `window` answers. The last line holds whatever the values do. Nothing
looks ahead. Not covered: which signal is worth a gate, and whether the answer gets better.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import threading
from bisect import bisect_left, bisect_right, insort
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from os import PathLike
from typing import Any, Literal

from fewer.decide.plain import read_plain, read_text
from fewer.decide.signals import SIGNALS, Signal
from fewer.errors import bad
from fewer.receipt.files import write_file
from fewer.types.number import check_number

__all__ = ["LARGEST", "Gate", "GateDecision", "Missing", "as_value", "find_signal"]

Missing = Literal["recompute", "accept"]

LARGEST = sys.float_info.max  # stands for infinity, which JSON has no word for; a threshold that nothing exceeds
_VERSION = 1
_FORMAT = "fewer gate"
_WINDOW, _SLACK, _SEED = 256, 4, 0


@dataclass(frozen=True, slots=True)
class GateDecision:
    """What a gate said about one answer.

    value: the signal's, None where it had none. threshold: values above it fire. Of a rate gate it is the earlier value
    below which none would have fired this time: above the next larger one all would have, from one to the other the
    coin decides; None where there was no such value. reason: one sentence, for the receipt.
    """

    fires: bool
    value: float | None
    threshold: float | None
    reason: str


class Gate:
    """Fires where an answer is to be computed again. Exactly one of threshold and rate.

    signal: one of `SIGNALS` by its name, or an object with `name`, `channel` and `__call__`. threshold: in the signal's
    unit; it fires above, not at. rate: the share of answers to recompute, above 0 and at most 1; `window` (256, earlier
    values it compares with), `slack` (4, how many recomputations it may be ahead of the rate) and `seed` (0, of the
    coin) belong to it. missing: what to do where the signal has no value, or NaN: "recompute", since an answer nobody
    has looked at was not found to be sound; or "accept". A rate gate's budget holds for these too, and they are not
    compared with later. Infinite values count as the largest number there is.

    A decision counts once it is made, also if the recomputation then fails. Safe to share between threads; the order in
    which answers arrive is then that of the threads. Raises BadInput.
    """

    def __init__(
        self,
        signal: Signal | str,
        *,
        threshold: float | None = None,
        rate: float | None = None,
        missing: Missing = "recompute",
        window: int | None = None,
        slack: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.signal = find_signal(signal)
        if (threshold is None) == (rate is None):
            way_out = "Fire above a number, or for a share of the answers: Gate(signal, rate=0.25)."
            raise bad("threshold and rate", (threshold, rate), "one number and one None", way_out)
        if missing not in ("recompute", "accept"):
            raise bad("missing", missing, "'recompute' or 'accept'", "Leave it out for recompute.")
        if threshold is not None:
            check_number("threshold", threshold, float, -LARGEST, LARGEST, "It is in the signal's own unit.")
            for name, given in (("window", window), ("slack", slack), ("seed", seed)):
                if given is not None:
                    raise bad(name, given, "left out of a gate with a threshold", "It belongs to rate=.")
        if rate is not None:
            check_number("rate", rate, float, 0.0, 1.0, '0.25 is a quarter; for none pass "never".', open_low=True)
        self.threshold, self.rate, self.missing = threshold, rate, missing
        self.window = _WINDOW if window is None else window
        self.slack = _SLACK if slack is None else slack
        self.seed = _SEED if seed is None else seed
        check_number("window", self.window, int, 1, 1_000_000, f"{_WINDOW} is the default.")
        check_number("slack", self.slack, int, 0, 1_000_000, f"{_SLACK} is the default.")
        check_number("seed", self.seed, int, 0, 2**63 - 1, "Pass a whole number.")
        self._lock = threading.Lock()
        self._num_decided = self._num_fired = 0
        self._values: deque[float] = deque()
        self._ordered: list[float] = []

    @property
    def num_decided(self) -> int:
        """Answers it was asked about."""
        return self._num_decided

    @property
    def num_fired(self) -> int:
        """Of these, how many it sent back."""
        return self._num_fired

    def decide(self, value: float | None) -> GateDecision:
        """About the next answer, from its signal's value. Raises BadInput for what is no number."""
        value = as_value(value)
        with self._lock:
            self._num_decided += 1
            decision = self._by_threshold(value) if self.rate is None else self._by_rate(value, self.rate)
            self._num_fired += decision.fires
            if self.rate is not None and value is not None:
                self._remember(value)
        return decision

    def _by_threshold(self, value: float | None) -> GateDecision:
        assert self.threshold is not None
        if value is None:
            return GateDecision(self.missing == "recompute", None, self.threshold, self._say_missing())
        fires = value > self.threshold
        says = f"{self.signal.name} {value:.4g} is {'above' if fires else 'not above'} {self.threshold:.4g}"
        return GateDecision(fires, value, self.threshold, says)

    def _by_rate(self, value: float | None, rate: float) -> GateDecision:
        count, ordered = self._num_decided, self._ordered
        size = len(ordered)
        if value is None:
            wants, threshold, says = self.missing == "recompute", None, self._say_missing()
        else:
            low, high = bisect_left(ordered, value), bisect_right(ordered, value)
            place = (size - high + self._coin() * (1 + high - low)) / (1 + size)
            level = min(1.0, rate + max(0.0, rate * (count - 1) - self._num_fired) / self.window)
            wants, certain = place < level, math.floor(level * (1 + size))
            threshold = ordered[size - 1 - certain] if certain < size else None
            among = f"{'' if wants else 'not '}among the highest {level:.3g} of"
            says = f"{self.signal.name} {value:.4g} is {among} the {size} values before it"
            if not size:
                says = f"{self.signal.name} {value:.4g} is the first value: a coin of {level:.3g} fell for "
                says += "recomputing it" if wants else "accepting it"
        if wants and self._num_fired >= self._most(count):
            says += (
                f"; but {self._num_fired} of {count - 1} answers were recomputed, and the rate {rate:g} allows no more"
            )
            wants = False
        return GateDecision(wants, value, threshold, says)

    def _most(self, count: int) -> int:
        """How many of so many answers it may have sent back."""
        if self.rate is None:
            return count
        return min(count, math.floor(Fraction(str(self.rate)) * count + self.slack))

    def _coin(self) -> float:
        """Of [0, 1), the same for the same seed and count."""
        digest = hashlib.blake2b(f"{self.seed} {self._num_decided}".encode(), digest_size=8).digest()
        return (int.from_bytes(digest) >> 11) / 2**53

    def _say_missing(self) -> str:
        verb = "is recomputed" if self.missing == "recompute" else "stands"
        return f"{self.signal.name} has no value for this answer, which {verb}: missing is {self.missing!r}"

    def _remember(self, value: float) -> None:
        self._values.append(value)
        insort(self._ordered, value)
        if len(self._values) > self.window:
            del self._ordered[bisect_left(self._ordered, self._values.popleft())]

    def to_json(self) -> str:
        """The gate and what it has seen; it holds signal values and counts, no text."""
        with self._lock:
            plain: dict[str, Any] = {"format": _FORMAT, "version": _VERSION, "signal": self.signal.name}
            plain |= {"threshold": self.threshold, "rate": self.rate, "missing": self.missing}
            plain |= {"window": self.window, "slack": self.slack, "seed": self.seed} if self.rate is not None else {}
            plain |= {"num_decided": self._num_decided, "num_fired": self._num_fired, "values": [*self._values]}
        return json.dumps(plain, allow_nan=False)

    def save(self, path: str | PathLike[str]) -> None:
        """Write `to_json` to a file, whole or not at all. Raises BadInput for the path, StorageError for the disk."""
        write_file(path, self.to_json() + "\n")

    @classmethod
    def load(cls, path: str | PathLike[str], signal: Signal | None = None) -> Gate:
        """Read one back from a file, as `from_json` does."""
        return cls.from_json(read_text(path), signal)

    @classmethod
    def from_json(cls, text: str, signal: Signal | None = None) -> Gate:
        """One that goes on where the other stood. signal: only where it is one of your own. Raises BadInput."""
        plain = read_plain(text, _FORMAT, _VERSION)
        name = plain.pop("signal", None)
        own = name if signal is None else find_signal(signal).name
        if own != name:
            raise bad("signal", own, f"{name!r}, as in the gate's JSON", "Pass that signal.")
        counts = [plain.pop(each, None) for each in ("num_decided", "num_fired")]
        values = plain.pop("values", None)
        try:
            gate = cls(signal or name, **plain)
            decided, fired = counts
            check_number("num_decided", decided, int, 0, None, "The gate's JSON was changed.")
            check_number("num_fired", fired, int, 0, gate._most(decided), "The gate's JSON was changed.")
            most = 0 if gate.rate is None else min(gate.window, decided)
            if not isinstance(values, list) or len(values) > most:
                legal = "no more than answers and the window, and none with a threshold"
                raise bad("values", values, legal, "The gate's JSON was changed.")
            for value in values:
                check_number("value", value, float, -LARGEST, LARGEST, "The gate's JSON was changed.")
                gate._remember(float(value))
        except TypeError as error:
            raise bad(
                "gate", str(error), "the JSON of Gate.to_json", "Its fields were changed; save it again."
            ) from None
        gate._num_decided, gate._num_fired = decided, fired
        return gate


def find_signal(signal: Signal | str) -> Signal:
    """The signal of this name, or the object itself. Raises BadInput."""
    if isinstance(signal, str):
        if signal not in SIGNALS:
            raise bad("signal", signal, f"one of {', '.join(SIGNALS)}", "Or pass an object with name and __call__.")
        return SIGNALS[signal]
    if isinstance(signal, type) or not callable(signal) or not isinstance(getattr(signal, "name", None), str):
        raise bad("signal", signal, "a signal or its name", 'Write for example Gate("certificate", rate=0.25).')
    return signal


def as_value(value: object) -> float | None:
    """A signal's value as a finite number; None for NaN. Raises BadInput for what is no number."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise bad("value", value, "a number, or None where the signal has no value", "Pass what the signal returned.")
    try:
        found = float(value)
    except OverflowError:  # a whole number beyond them
        found = math.inf if value > Fraction(0) else -math.inf
    return None if math.isnan(found) else max(-LARGEST, min(LARGEST, found))
