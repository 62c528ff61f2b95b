"""What the audit fixes before any attention is seen, and the positions that it draws (Algorithm 1, step 1; section 5).

Everything a candidate may depend on is in a `Protocol` or under its `settings_digest`. The protocol's own digest seeds
the draw, so that a protocol with any other value gets other draws. One AuditDraw goes through each monitored layer
once, and cannot be copied: what it has opened stays opened.

No type can stop: calling `draw` again with the same protocol and seed, which gives the same positions with a blank
record; choosing a seed after seeing what it draws; leaving something that matters out of `settings_digest`. The same
positions may serve at every layer as long as nothing was tuned by what they showed. To audit other sets on them after
values were seen spends the guarantee. Who tries N draws or N protocols until one passes has spent N delta.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import InitVar, asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from math import log, sqrt
from typing import Literal, NoReturn

import numpy as np

from fewer.errors import BadInput, bad
from fewer.types.number import check_number

__all__ = [
    "LEAST_DELTA",
    "AuditDraw",
    "AuditRefused",
    "Mode",
    "Protocol",
    "Stage",
    "draw",
    "draws_for",
    "hoeffding_width",
]

Mode = Literal["exact", "hoeffding"]
Stage = Literal["untouched", "split", "proposed", "opened"]

_NEXT: dict[Stage, Stage] = {"untouched": "split", "split": "proposed", "proposed": "opened"}
LEAST_DELTA = 1e-12  # smaller ones divide into infinity, and are no probability that anything here can keep
_MOST_DRAWS = 1_000_000
_OURS = object()


class AuditRefused(BadInput):
    """What was asked would make the audit depend on the proposal, or the proposal on the audit."""


@dataclass(frozen=True)
class Protocol:
    """All that is fixed before attention is seen. Raises BadInput for a value out of its range.

    monitored: (layer, heads) pairs, layers from 1 and heads from 0, both ascending. proposal: the proposal observers'
    positions. population: the positions of the whole query; the audit is uniform on them. Both ascending.
    num_draws: m_a. delta: the probability, over the draws, that the bound fails somewhere. In the mode "exact" nothing
    is drawn and no delta spent; the two then only say what drawing would have cost. tolerance: eps_audit in [0, 1), a
    share of a row's attention, or, where `relative`, of its attention to the candidate chunks.
    settings_digest: of everything else that a candidate is computed from: thresholds, ordering, prompt, chunks.
    """

    monitored: tuple[tuple[int, tuple[int, ...]], ...]
    proposal: tuple[int, ...]
    population: tuple[int, ...]
    mode: Mode
    num_draws: int
    delta: float
    tolerance: float
    relative: bool
    settings_digest: str

    def __post_init__(self) -> None:
        pairs = self.monitored
        if not isinstance(pairs, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            raise bad("monitored", pairs, "a tuple of (layer, heads) pairs", "Pass tuple(heads_by_layer.items()).")
        _check_ascending("monitored layers", tuple(layer for layer, _ in pairs), 1)
        for layer, heads in pairs:
            _check_ascending(f"monitored heads of layer {layer}", heads, 0)
        _check_ascending("proposal", self.proposal, 0)
        _check_ascending("population", self.population, 0)
        if self.mode not in ("exact", "hoeffding"):
            raise bad("mode", self.mode, "'exact' or 'hoeffding'", "Use 'exact' where the query is short.")
        check_number("num_draws", self.num_draws, int, 1, _MOST_DRAWS, "It is how many positions the audit draws.")
        check_number("delta", self.delta, float, LEAST_DELTA, 1.0, "It is how often the bound may fail.")
        check_number("tolerance", self.tolerance, float, 0.0, 1.0, "It is what a head may lose on average.")
        for name, value in (("delta", self.delta), ("tolerance", self.tolerance)):
            if value == 1:
                raise bad(name, value, "below 1", "At 1 the audit says nothing.")
            object.__setattr__(self, name, float(value))
        if not isinstance(self.relative, bool):
            raise bad("relative", self.relative, "True or False", "Use False for the paper's absolute tolerances.")
        if not isinstance(self.settings_digest, str) or not self.settings_digest:
            raise bad("settings_digest", self.settings_digest, "a non-empty text", "Pass a hash of the settings.")

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all fields, in hex."""
        return hashlib.sha256(json.dumps(["audit protocol 1", asdict(self)]).encode()).hexdigest()

    @property
    def num_pairs(self) -> int:
        """J H_Q of (17): the monitored (layer, head) pairs, over which the union bound goes."""
        return sum(len(heads) for _, heads in self.monitored)

    def heads(self, layer: int) -> tuple[int, ...]:
        """The monitored heads of a layer. Raises AuditRefused where it is not monitored."""
        found = dict(self.monitored).get(layer)
        if found is None:
            known = ", ".join(str(layer) for layer, _ in self.monitored)
            raise AuditRefused(
                f"layer is {layer}; it must be one that the protocol monitors ({known}). "
                "The bound counts the layers that were named beforehand: name it in a new protocol with a fresh draw."
            )
        return found


@dataclass(frozen=True, slots=True, eq=False)
class AuditDraw:
    """The audit's positions, and how far each monitored layer has gone with this object. Made by `draw`; not copied."""

    protocol: Protocol
    seed: int
    positions: tuple[int, ...]  # hoeffding: m_a of them as drawn, with repeats; exact: the population
    token: InitVar[object] = None
    _stages: dict[int, Stage] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self, token: object) -> None:
        if token is not _OURS:
            raise AuditRefused("An AuditDraw is made by hand or edited; it must come from draw(protocol, seed).")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise AuditRefused("An AuditDraw cannot be copied, or an opened audit could be used again. Pass it on itself.")

    @property
    def distinct(self) -> tuple[int, ...]:
        """The positions whose rows the audit reads, ascending."""
        return tuple(sorted(set(self.positions)))

    @property
    def counts(self) -> tuple[int, ...]:
        """How often each of `distinct` was drawn."""
        found = Counter(self.positions)
        return tuple(found[position] for position in self.distinct)

    @property
    def rows(self) -> tuple[int, ...]:
        """All positions whose attention rows are needed, of proposal and audit, ascending."""
        return tuple(sorted({*self.protocol.proposal, *self.positions}))

    @property
    def opened(self) -> tuple[int, ...]:
        """The layers whose audit values have been seen, in that order."""
        return tuple(layer for layer, stage in self._stages.items() if stage == "opened")

    def stage(self, layer: int) -> Stage:
        """How far a monitored layer has gone. Raises AuditRefused for another layer."""
        self.protocol.heads(layer)
        return self._stages.get(layer, "untouched")

    def advance(self, layer: int, to: Stage) -> None:
        """Take a layer one step on: split, proposed, opened. Raises AuditRefused for any other step."""
        now = self.stage(layer)
        if _NEXT.get(now) != to:
            raise AuditRefused(
                f"Layer {layer} of this draw is {now} and cannot be {to}: a draw takes each layer through "
                "split, proposed and opened once. Anything tried again needs a fresh draw by another seed, and spends "
                "its delta again."
            )
        self._stages.pop(layer, None)
        self._stages[layer] = to


def draw(protocol: Protocol, seed: int) -> AuditDraw:
    """The audit's positions: m_a uniform draws with replacement from the population, or all of it once (exact).

    The generator is seeded by the seed and the protocol's digest: the same two give the same positions, and a blank
    record. They are independent of the proposal observers, which
    are fixed in the protocol, so the same position may serve both: what has to be random is which rows are read, given
    the candidate; leaving the proposal's rows out would change the distribution that the bound speaks of.
    """
    check_number("seed", seed, int, 0, 2**63 - 1, "Pass a whole number, chosen beforehand.")
    positions = protocol.population
    if protocol.mode == "hoeffding":
        entropy = hashlib.sha256(f"audit|{seed}|{protocol.digest}".encode()).digest()
        generator = np.random.default_rng(int.from_bytes(entropy, "big"))
        chosen = generator.integers(0, len(positions), protocol.num_draws)
        positions = tuple(positions[index] for index in chosen.tolist())
    return AuditDraw(protocol, seed, positions, _OURS)


def hoeffding_width(num_pairs: int, delta: float, num_draws: int) -> float:
    """b of (17): sqrt(ln(num_pairs / delta) / (2 num_draws)), one-sided, simultaneous over the pairs."""
    return sqrt(log(num_pairs / delta) / (2 * num_draws))


def draws_for(width: float, num_pairs: int, delta: float) -> int | None:
    """The fewest draws whose b is at most `width`; None where a protocol cannot have so many (1,000,000)."""
    if width <= 0 or hoeffding_width(num_pairs, delta, _MOST_DRAWS) > width:
        return None
    needed = max(1, int(log(num_pairs / delta) / (2 * width**2)))
    while hoeffding_width(num_pairs, delta, needed) > width:
        needed += 1
    return needed


def _check_ascending(name: str, values: tuple[int, ...], low: int) -> None:
    whole = isinstance(values, tuple) and len(values) > 0 and all(type(value) is int for value in values)
    if not whole or values[0] < low or any(a >= b for a, b in pairwise(values)):
        raise bad(
            name, values, f"a tuple of whole numbers from {low}, ascending, at least one", "Sort them; no repeats."
        )
