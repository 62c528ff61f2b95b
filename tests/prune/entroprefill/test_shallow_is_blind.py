"""Proposition 6.1, built and run: no statement about shallow attention bounds what a deletion does to the output.

Two prompts differ in the sign of one coordinate of one token. A shallow layer gives that token as little attention as
one likes and passes everything on unchanged; a later head gives it all but gamma and reads the coordinate. The prompts
have the same shallow attention, retained states and so the same reduced output, while the full outputs are opposite.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from tolerances import FP64

T, EVIDENCE = 6, 2  # tokens; the one removed
SHALLOW, DEEP, QUERY, SIGNED = range(4)  # the coordinates of a state: two keys, a constant, and the value
RETAINED = [position for position in range(T) if position != EVIDENCE]
TWO_LOGITS = torch.tensor([[1.0, -1.0]], dtype=torch.float64)  # token 0 for a positive output, 1 for a negative one


@dataclass(frozen=True)
class Head:
    """One causal attention head on states [n, 4] with projections [4, d]."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor

    def attend(self, states: Tensor) -> Tensor:
        """Its attention, [n, n]; positions are ordered, so any subset is causal in the same way."""
        scores = (states @ self.query) @ (states @ self.key).T
        return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf).softmax(-1)

    def __call__(self, states: Tensor) -> Tensor:
        """States after a residual block without a feed-forward map."""
        return states + self.attend(states) @ states @ self.value @ self.output


def reading(coordinate: int) -> Tensor:
    return torch.eye(4, dtype=torch.float64)[:, [coordinate]]


def network(epsilon: float, gamma: float) -> tuple[Head, Head]:
    """The last token gives the evidence mass epsilon in the shallow head and 1 - gamma in the deep one.

    Of T tokens one has key 1 and the others 0, so a query of ln(mass (T-1)/(1-mass)) gives that one `mass`.
    """

    def strength(mass: float) -> Tensor:
        return torch.log(torch.tensor(mass * (T - 1) / (1 - mass), dtype=torch.float64))

    nothing = torch.zeros(1, 4, dtype=torch.float64)
    shallow = Head(reading(QUERY) * strength(epsilon), reading(SHALLOW), reading(SIGNED), nothing)
    deep = Head(reading(QUERY) * strength(1 - gamma), reading(DEEP), reading(SIGNED), reading(SIGNED).T)
    return shallow, deep


def prompt(value: float) -> Tensor:
    """Embeddings: all tokens alike, but for the evidence's keys and the value it carries."""
    states = torch.zeros(T, 4, dtype=torch.float64)
    states[:, QUERY] = 1.0
    states[EVIDENCE] = torch.tensor([1.0, 1.0, 1.0, value])
    return states


@dataclass(frozen=True)
class Run:
    """What two runs of one network on one prompt show: all of it, and without the evidence after the shallow layer."""

    attention: Tensor  # [T, T] of the shallow layer
    retained: Tensor  # [T-1, 4] states after it
    full: Tensor  # the last token's output
    reduced: Tensor

    @property
    def error(self) -> float:
        return float((self.full - self.reduced).abs())


def run(epsilon: float, gamma: float, value: float) -> Run:
    shallow, deep = network(epsilon, gamma)
    states = prompt(value)
    after = shallow(states)
    full, reduced = (deep(some)[-1, SIGNED] for some in (after, after[RETAINED]))
    return Run(shallow.attend(states), after[RETAINED], full, reduced)


@pytest.mark.parametrize("epsilon", [1e-1, 1e-4, 1e-12])
@pytest.mark.parametrize("gamma", [0.5, 0.1, 1e-6])
@pytest.mark.parametrize("size", [0.5, 30.0])
def test_shallow_attention_does_not_bound_the_output(epsilon: float, gamma: float, size: float) -> None:
    plus, minus = run(epsilon, gamma, size), run(epsilon, gamma, -size)
    assert torch.equal(plus.attention, minus.attention)
    assert torch.equal(plus.retained, minus.retained)
    assert torch.equal(plus.reduced, minus.reduced)
    assert float(plus.attention[-1, EVIDENCE]) == pytest.approx(epsilon, rel=FP64)
    for found, sign in ((plus, 1), (minus, -1)):
        assert float(found.full) == pytest.approx(sign * (1 - gamma) * size, rel=FP64)
    assert plus.error + minus.error >= 2 * (1 - gamma) * size * (1 - FP64)
    assert max(plus.error, minus.error) >= (1 - gamma) * size * (1 - FP64)


def test_every_row_that_sees_the_evidence_gives_it_little_in_the_shallow_layer() -> None:
    seen = run(1e-12, 0.1, 1.0).attention[EVIDENCE + 1 :, EVIDENCE]
    assert float(seen.max()) < 2e-12


def test_the_shallow_layer_passes_everything_on() -> None:
    shallow, _ = network(1e-3, 0.1)
    assert torch.equal(shallow(prompt(1.0)), prompt(1.0))


def test_the_error_stays_while_the_shallow_mass_goes_to_zero() -> None:
    masses = [10.0**-power for power in range(1, 15)]
    runs = [run(mass, 0.1, 1.0) for mass in masses]
    assert [float(found.attention[-1, EVIDENCE]) for found in runs] == pytest.approx(masses, rel=FP64)
    assert [found.error for found in runs] == pytest.approx([0.9] * 14, abs=FP64)


def test_the_first_token_of_the_two_prompts_differs_and_deletion_makes_one_of_them_wrong() -> None:
    plus, minus = run(1e-12, 0.1, 1.0), run(1e-12, 0.1, -1.0)
    full = [int((found.full[None] @ TWO_LOGITS).argmax()) for found in (plus, minus)]
    reduced = [int((found.reduced[None] @ TWO_LOGITS).argmax()) for found in (plus, minus)]
    assert full == [0, 1]
    assert reduced[0] == reduced[1]
    assert sum(before != after for before, after in zip(full, reduced, strict=True)) == 1
