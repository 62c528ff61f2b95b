"""The radius that is a theorem, by simulation, beside the published one."""

from __future__ import annotations

from math import log

import pytest
import torch
from scipy.stats import binom

from fewer.certify import bernstein_radius, radius
from fewer.errors import BadInput
from tolerances import FP64

DELTA, TRIALS, BLOCKS = 0.1, 4000, 10
BY_CHANCE = 1e-9
MOST = int(binom.isf(BY_CHANCE, TRIALS, DELTA))


def draw_errors(pi: torch.Tensor, x: torch.Tensor, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """TRIALS fresh samples: the norm of the error, Vhat, and the range term of each."""
    kept = torch.rand(TRIALS, len(pi), dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) < pi
    terms = kept * ((1 - pi) / pi.square() * x.square().sum(1))
    return ((kept / pi - 1) @ x).norm(dim=1), terms.sum(1), terms.amax(1).sqrt()


@pytest.mark.parametrize("missing", [False, True])
def test_it_holds_also_where_most_draws_miss_what_decides(missing) -> None:
    """`missing`: one row has nearly all of the error and is kept once in five draws. In the other four Vhat and the
    range of the retained rows know nothing of it, and the published shape, which stands on them alone, fails."""
    generator = torch.Generator().manual_seed(0)
    pi = torch.full((60,), 0.3, dtype=torch.float64)
    x = torch.randn(60, 4, dtype=torch.float64, generator=generator)
    if missing:
        pi[0], x[0] = 0.2, torch.tensor([500.0, 0, 0, 0], dtype=torch.float64)
    error, vhat, largest = draw_errors(pi, x, 1)
    bound = float((x.norm(dim=1) / pi).max())
    assert (error > bernstein_radius(vhat, bound, DELTA)).sum() <= MOST
    missed = float((error > radius(vhat, largest, torch.tensor(1.0 - 1e-9), DELTA)).double().mean())
    assert (missed > 0.75) if missing else (missed < 0.01)


def test_several_draws_hold_together_at_spent_levels() -> None:
    """Draw number b at delta/(b (b + 1)); at the same level each, ten would fail together more often than delta."""
    pi = torch.full((8,), 0.5, dtype=torch.float64)
    x = torch.eye(8, dtype=torch.float64)
    missed = torch.zeros(TRIALS, dtype=torch.bool)
    for block in range(1, BLOCKS + 1):
        error, vhat, _ = draw_errors(pi, x, block)
        missed |= error > bernstein_radius(vhat, 2.0, DELTA / (block * (block + 1)))
    assert missed.sum() <= MOST


def test_what_it_costs_beside_the_published_radius() -> None:
    vhat = torch.tensor(1.0, dtype=torch.float64)
    published = radius(vhat, torch.tensor(0.6, dtype=torch.float64), torch.tensor(1.0 - 1e-9), DELTA)
    assert 1.7 < float(bernstein_radius(vhat, 0.6, DELTA) / published) < 1.8


def test_without_range_it_is_a_gaussian_shape() -> None:
    vhat = torch.tensor([1.0, 4.0], dtype=torch.float64)
    expected = (2 * vhat * log(4 / DELTA)).sqrt()
    assert bernstein_radius(vhat, 1e-12, DELTA).tolist() == pytest.approx(expected.tolist(), abs=FP64)


@pytest.mark.parametrize("bound", [0.0, -1.0, float("inf"), float("nan")])
def test_a_bound_that_is_none(bound) -> None:
    with pytest.raises(BadInput, match=r"bound is .* a finite number above 0"):
        bernstein_radius(torch.tensor(1.0), bound)
