"""Theorem 1: what a deterministic selection keeps says nothing about its error; what a sample keeps does."""

from __future__ import annotations

import pytest
import torch
from heads import attend_retained, full_output, make_heads
from scipy.stats import binom
from torch import Tensor

from fewer.certify import KnownProbabilities, poisson_variance, radius, range_term
from fewer.evict.design import Poisson, TopK
from fewer.types import Selection

HEADS, N, DIM, KEEP, WORLDS = 8, 120, 6, 40, 12
LEVEL = 0.85  # of coverage, below the nominal .9: the radius is not a theorem
BY_CHANCE = 1e-9
FEWEST = int(binom.ppf(BY_CHANCE, HEADS * WORLDS, LEVEL))  # were the rate LEVEL, fewer would be covered once in 1e9


def relative_error(found: Tensor, truth: Tensor) -> Tensor:
    return (found - truth).norm(dim=-1) / truth.norm(dim=-1)


def retained_statistics(a: Tensor, v: Tensor, score: Tensor, kept: Selection) -> list[Tensor]:
    """What a serving system could compute from a top-k cache: its output and spread, entropy, mass, margin."""
    ones = torch.ones(kept.idx.shape)
    weights, values, out = attend_retained(a, v, kept.idx, ones, kept.valid)
    mass = score.gather(1, kept.idx)
    spread = (weights * (values - out[:, None]).square().sum(-1)).sum(1)
    entropy = -torch.special.xlogy(weights, weights).sum(1)
    gone = score.scatter(1, kept.idx, -1.0)
    return [values, weights, out, spread, entropy, mass.sum(1) / score.sum(1), mass.amin(1) - gone.amax(1)]


def make_population() -> tuple[Tensor, Tensor, Tensor]:
    """(a, v, score): a score that knows the attention up to noise."""
    a, v = make_heads(HEADS, N, DIM, 3)
    noise = torch.randn(HEADS, N, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    return a, v, a * torch.exp(0.3 * noise)


def change(v: Tensor, evicted: Tensor, scale: float) -> Tensor:
    """The evicted values moved by `scale` along one direction."""
    moved = v.clone()
    moved[..., 0] += scale * evicted
    return moved


@pytest.mark.parametrize("most", [1.0, 1e3, 1e6])
def test_a_deterministic_selection_cannot_see_an_error_of_any_size(most: float) -> None:
    a, v, score = make_population()
    keep = torch.full((HEADS,), KEEP)
    kept = TopK().draw(score, keep, torch.Generator().manual_seed(0))
    evicted = torch.ones(HEADS, N, dtype=torch.float64).scatter(1, kept.idx, 0.0)
    share = (a * evicted).sum(1) / a.sum(1)
    scale = float(3 * most / share.min())
    other = change(v, evicted, scale)
    again = TopK().draw(score, keep, torch.Generator().manual_seed(0))
    before, after = (retained_statistics(a, values, score, kept) for values in (v, other))
    assert torch.equal(kept.idx, again.idx)
    assert all(torch.equal(first, second) for first, second in zip(before, after, strict=True))
    errors = [(before[2] - full_output(a, values)).norm(dim=-1) for values in (v, other)]
    assert ((errors[1] - errors[0]) > most).all()


def test_permuted_evicted_values_move_the_error_of_top_k_and_nothing_that_it_keeps() -> None:
    a, v, score = make_population()
    kept = TopK().draw(score, torch.full((HEADS,), KEEP), torch.Generator().manual_seed(0))
    errors, seen = [], []
    for values in permuted(v, kept):
        seen.append(retained_statistics(a, values, score, kept))
        errors.append(relative_error(seen[-1][2], full_output(a, values)))
    for statistics in seen[1:]:
        assert all(torch.equal(first, second) for first, second in zip(seen[0], statistics, strict=True))
    worlds = torch.stack(errors)
    assert (worlds.amax(0) / worlds.amin(0)).median() > 1.3


def test_in_the_same_worlds_the_radius_of_a_fresh_sample_covers() -> None:
    """Each world is drawn from anew: no certificate can see a change that is made after the draw."""
    a, v, score = make_population()
    kept = TopK().draw(score, torch.full((HEADS,), KEEP), torch.Generator().manual_seed(0))
    design, covered, radii = Poisson(floor=0.1), 0, []
    for seed, values in enumerate(permuted(v, kept)):
        sample = design.draw(score, torch.full((HEADS,), KEEP), torch.Generator().manual_seed(seed))
        pi = KnownProbabilities.of(sample, design).pi
        weights, rows, out = attend_retained(a, values, sample.idx, pi, sample.valid)
        parts = poisson_variance(weights, pi, rows, out), range_term(weights, pi, rows, out), out.norm(dim=-1)
        radii.append(radius(*parts, 0.1))
        covered += int((relative_error(out, full_output(a, values)) <= radii[-1]).sum())
    assert covered >= FEWEST
    assert not torch.equal(radii[0], radii[1])


def permuted(v: Tensor, kept: Selection) -> list[Tensor]:
    """Worlds in which the values that top-k evicted are dealt out anew."""
    worlds = [v]
    for seed in range(1, WORLDS):
        generator, other = torch.Generator().manual_seed(seed), v.clone()
        for head in range(HEADS):
            gone = torch.ones(N, dtype=torch.bool)
            gone[kept.idx[head]] = False
            rows = gone.nonzero()[:, 0]
            other[head, rows] = v[head, rows[torch.randperm(len(rows), generator=generator)]]
        worlds.append(other)
    return worlds
