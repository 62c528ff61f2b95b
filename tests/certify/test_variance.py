"""The variance estimators against enumerated truth, and the radius against the formula by hand."""

from __future__ import annotations

from itertools import combinations
from math import log, sqrt

import pytest
import torch
from heads import full_output, linear_terms, make_heads, poisson_probability, subsets
from torch import Tensor

from fewer.certify import fixed_size_variance, poisson_variance, radius, range_term
from fewer.errors import BadInput
from tolerances import FP32, FP64

HIGH_ENTROPY = 0.06  # of the true variance: how far off the average may be on eight rows (0.059 at worst here)


def small_head(n: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(a, v, y, pi) of one head of n rows."""
    a, v = make_heads(1, n, 3, seed)
    pi = 0.15 + 0.8 * torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return a[0], v[0], full_output(a, v)[0], pi


def known_form(a: Tensor, v: Tensor, y: Tensor, pi: Tensor, kept: tuple[int, ...]) -> tuple[Tensor, ...]:
    """What the estimators take, with the true y and N: the Horvitz-Thompson form."""
    rows = list(kept)
    return a[rows] / (pi[rows] * a.sum()), pi[rows], v[rows], y


def true_variance(x: Tensor, pi: Tensor, samples: dict[tuple[int, ...], float]) -> float:
    """E ||sum over the sample of x/pi - sum of x||^2."""
    return sum(
        p * float(((x[list(kept)] / pi[list(kept), None]).sum(0) - x.sum(0)).square().sum())
        for kept, p in samples.items()
    )


@pytest.mark.parametrize("seed", range(3))
def test_poisson_is_unbiased_over_all_samples(seed: int) -> None:
    a, v, y, pi = small_head(8, seed)
    samples = {kept: poisson_probability(pi, kept) for kept in subsets(8)}
    average = sum(p * float(poisson_variance(*known_form(a, v, y, pi, kept))) for kept, p in samples.items())
    assert sum(samples.values()) == pytest.approx(1, abs=FP64)
    assert average == pytest.approx(true_variance(linear_terms(a, v), pi, samples), abs=FP64)


@pytest.mark.parametrize("seed", range(3))
def test_poisson_accounts_for_two_draws(seed: int) -> None:
    """The second probabilities depend on what the first draw kept, as they do when a cache is compressed again."""
    a, v, y, pi1 = small_head(5, seed)
    x = linear_terms(a, v)
    average, variance, total = 0.0, 0.0, 0.0
    for first in subsets(5):
        rows = list(first)
        pi2 = (a[rows] / a[rows].sum() * 1.5).clamp(0.1, 1)
        for second in subsets(len(rows)):
            p = poisson_probability(pi1, first) * poisson_probability(pi2, second)
            kept = [rows[j] for j in second]
            pi = pi1[kept] * pi2[list(second)]
            error = (x[kept] / pi[:, None]).sum(0) - x.sum(0)
            average += p * float(poisson_variance(a[kept] / (pi * a.sum()), pi, v[kept], y))
            variance += p * float(error.square().sum())
            total += p
    assert total == pytest.approx(1, abs=FP64)
    assert average == pytest.approx(variance, abs=FP64)


def conditional_poisson(odds: Tensor, size: int) -> tuple[dict[tuple[int, ...], float], Tensor]:
    """Every sample of this size with its probability, and the inclusion probabilities."""
    weights = {kept: float(odds[list(kept)].prod()) for kept in combinations(range(len(odds)), size)}
    samples = {kept: weight / sum(weights.values()) for kept, weight in weights.items()}
    pi = torch.zeros(len(odds), dtype=torch.float64)
    for kept, p in samples.items():
        pi[list(kept)] += p
    return samples, pi


@pytest.mark.parametrize("seed", range(4))
def test_hajek_deville_over_all_samples_of_a_high_entropy_design(seed: int) -> None:
    a, v, y, _ = small_head(8, seed)
    samples, pi = conditional_poisson(a.sqrt(), 4)
    truth = true_variance(linear_terms(a, v), pi, samples)
    average = sum(p * float(fixed_size_variance(*known_form(a, v, y, pi, kept))) for kept, p in samples.items())
    assert pi.sum() == pytest.approx(4, abs=FP64)
    assert abs(average / truth - 1) < HIGH_ENTROPY


@pytest.mark.parametrize("seed", range(4))
def test_the_papers_form_of_a_fixed_size_design_is_above_the_variance(seed: int) -> None:
    """As docs/certificates.md has it: with m/(m - 1) and no centring 17 to 18% above, with neither 12% below."""
    a, v, y, _ = small_head(8, seed)
    samples, pi = conditional_poisson(a.sqrt(), 4)
    truth = true_variance(linear_terms(a, v), pi, samples)
    plain = sum(p * float(poisson_variance(*known_form(a, v, y, pi, kept))) for kept, p in samples.items())
    assert 1.16 < plain * 4 / 3 / truth < 1.18
    assert 0.87 < plain / truth < 0.89


def test_without_centring_the_fixed_size_estimate_can_only_be_larger() -> None:
    a, v, y, pi = small_head(8, 5)
    weights = a / pi / (a / pi).sum()
    plain = float(poisson_variance(weights, pi, v, y)) * 8 / 7
    assert 0 < float(fixed_size_variance(weights, pi, v, y)) <= plain


def test_one_sampled_row_is_not_centred() -> None:
    a, v, y, pi = small_head(4, 6)
    pi[1:] = 1.0
    weights = a / pi / (a / pi).sum()
    found = fixed_size_variance(weights, pi, v, y)
    assert float(found) == pytest.approx(float(poisson_variance(weights, pi, v, y)), abs=FP64)
    assert float(found) > 0


@pytest.mark.parametrize("estimate", [poisson_variance, fixed_size_variance, range_term])
def test_nothing_is_uncertain_where_every_row_is_certain(estimate) -> None:
    a, v, y, _ = small_head(6, 7)
    assert float(estimate(a / a.sum(), torch.ones(6, dtype=torch.float64), v, y)) == 0.0


def test_heads_are_apart() -> None:
    a, v = make_heads(3, 7, 4, 8)
    pi = torch.full_like(a, 0.5)
    weights, y = a / a.sum(1, keepdim=True), full_output(a, v)
    for estimate in (poisson_variance, fixed_size_variance, range_term):
        alone = [float(estimate(weights[h], pi[h], v[h], y[h])) for h in range(3)]
        assert estimate(weights, pi, v, y).tolist() == pytest.approx(alone, abs=FP64)


def test_by_hand() -> None:
    weights = torch.tensor([0.5, 0.3, 0.2])
    pi = torch.tensor([1.0, 0.36, 0.75])
    values = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    out = torch.tensor([1.0, 0.0])
    first, second = 0.64 * 0.09 * 5, 0.25 * 0.04 * 4
    assert float(poisson_variance(weights, pi, values, out)) == pytest.approx(first + second, abs=FP32)
    assert float(range_term(weights, pi, values, out)) == pytest.approx(sqrt(first), abs=FP32)
    level = log(10)
    expected = (sqrt(2 * 0.5 * level) + 0.25 * level) / (2 + 1e-9)
    assert float(radius(torch.tensor(0.5), torch.tensor(0.25), torch.tensor(2.0))) == pytest.approx(expected, abs=FP32)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, float("nan"), "0.1"])
def test_a_level_that_is_none(delta) -> None:
    with pytest.raises(BadInput, match=r"delta is .* 0\.1 is the published level"):
        radius(torch.tensor(1.0), torch.tensor(1.0), torch.tensor(1.0), delta)
