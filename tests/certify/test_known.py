"""Only known probabilities can have a certificate."""

from __future__ import annotations

import typing
from collections.abc import Sequence

import pytest
import torch

from fewer.certify import Certifier, KnownProbabilities
from fewer.errors import BadInput
from fewer.evict.design import Poisson, Systematic, TopK
from fewer.types import KnownDesign, Sample
from tolerances import FP32


def draw(design, n: int = 30, keep: int = 12, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    score = torch.rand(2, n, generator=generator)
    score[:, :2] = float("inf")
    return design.draw(score, torch.full((2,), keep), generator)


@pytest.mark.parametrize("design", [Poisson(), Systematic()])
def test_a_sample_has_one(design) -> None:
    sample = draw(design)
    known = KnownProbabilities.of(sample, design)
    assert torch.equal(known.pi, sample.pi)
    assert known.variance == design.variance


def test_a_selection_has_none() -> None:
    hints = typing.get_type_hints(KnownProbabilities.of)
    assert (hints["sample"], hints["design"]) == (Sample, KnownDesign)
    with pytest.raises(BadInput, match=r"pi is 'Selection'.*stays the same whatever the evicted values.*Theorem 1"):
        KnownProbabilities.of(draw(TopK()), Poisson())
    with pytest.raises(BadInput, match="sample instead"):
        KnownProbabilities(draw(TopK()), "poisson")
    assert typing.get_type_hints(Certifier.__init__)["known"] == Sequence[KnownProbabilities | None]


@pytest.mark.parametrize(("first", "second", "both"), [(0, 0, "poisson"), (0, 1, "poisson"), (1, 1, "fixed_size")])
def test_probabilities_of_two_draws_multiply(first, second, both) -> None:
    designs = Poisson(), Systematic()
    one = draw(designs[first], seed=1)
    earlier = KnownProbabilities.of(one, designs[first])
    score = torch.where(one.valid, torch.rand(one.idx.shape), -torch.inf)
    two = designs[second].draw(score, torch.full((2,), 5), torch.Generator().manual_seed(3))
    known = KnownProbabilities.of(two, designs[second], earlier)
    for head in range(2):
        for j in range(int(two.count[head])):
            product = float(two.pi[head, j]) * float(one.pi[head, two.idx[head, j]])
            assert float(known.pi[head, j]) == pytest.approx(product, abs=FP32)
        assert (known.pi[head, int(two.count[head]) :] == 1).all()
    assert known.variance == both


@pytest.mark.parametrize(
    ("pi", "variance", "message"),
    [
        (torch.tensor([[0.5, 0.0]]), "poisson", r"pi is 0\.0; it must be above 0 and at most 1"),
        (torch.tensor([[0.5, 1.5]]), "poisson", r"pi is 1\.5"),
        (torch.tensor([[0.5, float("nan")]]), "poisson", "pi is nan"),
        (torch.tensor([0.5]), "poisson", r"shape \[kv_heads, n\]"),
        (torch.tensor([[1, 1]]), "poisson", "floating point"),
        (torch.tensor([[0.5]]), "srswor", "variance is 'srswor'; it must be 'poisson' or 'fixed_size'"),
    ],
)
def test_what_is_no_probability(pi, variance, message) -> None:
    with pytest.raises(BadInput, match=message):
        KnownProbabilities(pi, variance)
