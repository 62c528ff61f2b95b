"""How often the radius covers, over independent made-up heads; what a bad score does to it, and where it breaks it."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from heads import attend_retained, full_output, make_heads
from scipy.stats import binom
from torch import Tensor

from fewer.certify import fixed_size_variance, poisson_variance, radius, range_term
from fewer.evict.design import Poisson, Systematic
from fewer.types import KnownDesign

HEADS, N, DIM, KEEP = 1500, 240, 2, 40
NOMINAL = 0.9
BY_CHANCE = 1e-9
FEWEST = int(binom.ppf(BY_CHANCE, HEADS, NOMINAL))  # were the true rate .9, fewer would be covered once in 1e9
DESIGNS: list[KnownDesign] = [Poisson(floor=0.1), Systematic(floor=0.1, order="random")]
QUALITIES = {"exact": 0.0, "noisy": 0.7, "unrelated": 50.0}


def make_score(a: Tensor, noise: float) -> Tensor:
    """The attention itself, with noise, or nothing but noise."""
    luck = torch.randn(a.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    return torch.exp(luck) if noise > 10 else a * torch.exp(noise * luck)


@cache
def cover(design: KnownDesign, quality: str, spread: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(error, radius, Vhat, squared error of the output), relative where they are relative: [HEADS] each."""
    a, v = make_heads(HEADS, N, DIM, 1, spread)
    score = make_score(a, QUALITIES[quality])
    sample = design.draw(score, torch.full((HEADS,), KEEP), torch.Generator().manual_seed(5))
    weights, values, out = attend_retained(a, v, sample.idx, sample.pi, sample.valid)
    estimate = poisson_variance if design.variance == "poisson" else fixed_size_variance
    vhat = estimate(weights, sample.pi, values, out)
    largest, norm = range_term(weights, sample.pi, values, out), out.norm(dim=-1)
    missing = out - full_output(a, v)
    error = missing.norm(dim=-1) / full_output(a, v).norm(dim=-1)
    return error, radius(vhat, largest, norm, 1 - NOMINAL), vhat, missing.square().sum(-1)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
@pytest.mark.parametrize("quality", QUALITIES)
def test_it_covers_at_least_as_often_as_it_says(design, quality) -> None:
    error, found, _, _ = cover(design, quality)
    assert int((error <= found).sum()) >= FEWEST
    assert int((error <= found / 2).sum()) < NOMINAL * HEADS  # half of it would not do
    assert found.median() < 4 * error.median()


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_a_worse_score_is_a_wider_radius(design) -> None:
    error, found = zip(*(cover(design, quality)[:2] for quality in QUALITIES), strict=True)
    for widths in (error, found):
        assert widths[0].median() < widths[1].median() < widths[2].median()
    assert found[2].median() > 1.5 * found[0].median()


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_vhat_is_near_the_mean_square_error_on_average(design) -> None:
    """With a score that knows the attention up to noise, and a floor in the design; over 1,500 heads."""
    _, _, vhat, squares = cover(design, "noisy")
    assert abs(float(vhat.sum() / squares.sum()) - 1) < 1 / 6


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_a_blind_score_breaks_it_where_few_rows_hold_the_attention(design) -> None:
    """Validity does not rest on the design alone. Here a few rows hold the attention and the score knows nothing of
    them: most samples miss them, and what is missed is missing in Vhat too. With a score that does know, it covers."""
    error, found, vhat, squares = cover(design, "unrelated", spread=2.0)
    assert float((error <= found).double().mean()) < NOMINAL
    largest = error.topk(HEADS // 10).indices
    assert float((error <= found)[largest].double().mean()) < 0.5
    assert vhat.sum() < 0.5 * squares.sum()
    error, found, _, _ = cover(design, "noisy", spread=2.0)
    assert int((error <= found).sum()) >= FEWEST
