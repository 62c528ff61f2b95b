"""From what was seen to a window, the layers from which tokens may leave, and the heads to look at there.

Everything is chosen on the first half of the prompts. The second decides only whether a head is added, and all numbers
that are reported are its own: close to what new prompts of these tasks would give, a little above it where heads were
added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from torch import Tensor

from fewer.errors import BadInput
from fewer.study.calibrate.capture import Seen
from fewer.study.calibrate.half import Half, Where, halve
from fewer.study.calibrate.recall import FRACTIONS, random_recall
from fewer.types import ModelFacts

__all__ = ["Fit", "Gate", "fit"]

WINDOWS = tuple(product((0, 6, 12, 24), (0, 12, 24, 48)))
"""(before, after) to choose from: tokens to which a score flows, on either side."""
ENOUGH = (0.9, 0.97)
"""Shares of the best head's recall: the first layer that has as much is a gate."""
MOST_HEADS = 3
GAIN = 0.003
"""What a further head has to add to the recall, on either half, and on the second at least one standard error."""
CANDIDATES = 24
"""Heads that are tried as further ones: the best by themselves."""
SIGNAL = 0.1
"""What the best head has to have above a random ranking, and above its own ranking of other prompts, on either half."""


@dataclass(frozen=True)
class Gate:
    """A layer from which tokens may leave, and what its score gets on the second half: recall at each fraction."""

    layer: int
    heads: tuple[Where, ...]
    recalls: tuple[float, ...]
    paper: tuple[float, ...]
    """The same of the newest row's attention, mean over the layer's heads."""

    def describe(self) -> dict[str, Any]:
        """For the profile's record."""
        at = [f"{fraction:.0%}" for fraction in FRACTIONS]
        return {
            "layer": self.layer,
            "heads": [list(where) for where in self.heads],
            "recall": _mean(self.recalls),
            "recall_paper": _mean(self.paper),
            "recall_at": dict(zip(at, self.recalls, strict=True)),
            "recall_paper_at": dict(zip(at, self.paper, strict=True)),
        }


@dataclass(frozen=True)
class Fit:
    """All that was chosen, and two controls on the second half.

    best: the head with the highest recall by itself. random: what a random ranking gets. place: what the best head gets
    with its rankings of the first half's prompts, place by place: by where answers stand and not by what they are.
    """

    before: int
    after: int
    gates: tuple[Gate, ...]
    best: Where
    random: float
    place: float


def fit(prompts: Sequence[Seen], facts: ModelFacts) -> Fit:
    """Choose the window, the gates and their heads; each task has at least two prompts.

    Heads and gates are of layers that see the whole prompt, where there are any, and below the last layer. Raises
    BadInput where no head points at the answers clearly better than both controls.
    """
    layers = [layer for layer in facts.global_layers if layer < facts.num_layers] or list(range(1, facts.num_layers))
    if not layers:
        raise BadInput(f"The model {facts.name} has one layer; nothing can leave before it. Calibrate a deeper one.")
    first, second = halve(prompts)
    before, after = _choose_window(first, layers, facts.num_layers)
    choose, accept = Half(first, before, after), Half(second, before, after)
    singles = choose.singles(layers)
    ranked = sorted(product(range(len(layers)), range(singles.shape[1])), key=lambda at: -float(singles[at]))
    heads = [(layers[row], head) for row, head in ranked]
    place = _check_signal(choose, accept, heads[0], facts)
    best_so_far = singles.amax(1).cummax(0).values
    gates: list[Gate] = []
    for share in ENOUGH:
        layer = layers[int((best_so_far >= share * best_so_far[-1]).nonzero()[0])]
        if layer not in [gate.layer for gate in gates]:
            chosen = _add_heads(choose, accept, [where for where in heads if where[0] <= layer])
            gates.append(Gate(layer, chosen, _numbers(accept.of(chosen)), _numbers(accept.paper(layer))))
    return Fit(before, after, tuple(gates), heads[0], random_recall(second), place)


def _choose_window(first: tuple[Seen, ...], layers: list[int], num_layers: int) -> tuple[int, int]:
    """The one through which the best head of the first half of the layers gets most; of equal ones the smaller."""
    early = _early(layers, num_layers)
    reached = [float(Half(first, *window).singles(early).max()) for window in WINDOWS]
    return WINDOWS[max(range(len(WINDOWS)), key=lambda index: reached[index])]


def _early(layers: list[int], num_layers: int) -> list[int]:
    return [layer for layer in layers if 2 * layer <= num_layers] or layers[:1]


def _add_heads(choose: Half, accept: Half, heads: list[Where]) -> tuple[Where, ...]:
    """The best head, and as many more as help on both halves. heads: all that may be, best first."""
    chosen = heads[:1]
    while len(chosen) < MOST_HEADS and (more := [where for where in heads[:CANDIDATES] if where not in chosen]):
        reached = choose.together(chosen, more).mean(-1)
        added = [*chosen, more[int(reached.argmax())]]
        (chosen_gain, _), (gain, error) = choose.gain(chosen, added), accept.gain(chosen, added)
        if chosen_gain < GAIN or gain < max(GAIN, error):
            break
        chosen = added
    return tuple(chosen)


def _check_signal(choose: Half, accept: Half, best: Where, facts: ModelFacts) -> float:
    """Raise BadInput where the best head is not clearly above both controls; else the recall by place alone."""
    reached = [float(half.of([best]).mean()) for half in (choose, accept)]
    place = accept.by_place(best, choose)
    controls = [max(random_recall(half.prompts), place) for half in (choose, accept)]
    if min(each - control for each, control in zip(reached, controls, strict=True)) < SIGNAL:
        raise BadInput(
            f"No head of {facts.name} points at the answers: the best one, head {best[1]} of layer {best[0]}, has a "
            f"recall of {reached[0]:.2f} on the prompts it was chosen by and of {reached[1]:.2f} on the others; a "
            f"random ranking has {random_recall(accept.prompts):.2f}, and its rankings of other prompts have "
            f"{place:.2f}. It takes {SIGNAL} more than both. No profile was made. Try prompts that this model can "
            "answer, more of them, and answers in many places."
        )
    return place


def _numbers(values: Tensor) -> tuple[float, ...]:
    return tuple(round(float(value), 4) for value in values)


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4)
