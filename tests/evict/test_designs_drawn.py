"""What the designs really draw, against the exact distribution of their samples. Each head is one repetition.

Chi-square tests on seeded draws: each fails by chance with probability 1e-6 over seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from outcomes import (
    Outcomes,
    list_conditional_poisson,
    list_poisson,
    list_systematic,
    list_tournament,
    shuffle,
)
from scipy.stats import chi2

from fewer.evict.design import ConditionalPoisson, Pivotal, Poisson, Systematic
from fewer.evict.design.target import FLOOR
from fewer.evict.design.working import find_working
from fewer.evict.inclusion import inclusion
from fewer.types import KnownDesign

INF = float("inf")
BY_CHANCE = 1e-6
SIZES = [([0.2, 2.0, 1.0, 1.5, 0.7], 2), ([1.8, 0.5, 0.5, 1.5, 1.2], 3)]


def list_maximum_entropy(pi: Sequence[float]) -> Outcomes:
    m = round(sum(pi))
    return list_conditional_poisson(find_working(np.array(pi), m)[0].tolist(), m)


DRAWN: list[tuple[KnownDesign, Callable[[Sequence[float]], Outcomes], int]] = [
    (Poisson(), list_poisson, 20_000),
    (Systematic(order="position"), list_systematic, 20_000),
    (Systematic(order="random"), lambda pi: shuffle(list_systematic, pi), 20_000),
    (Pivotal(order="position"), list_tournament, 20_000),
    (Pivotal(order="random"), lambda pi: shuffle(list_tournament, pi), 20_000),
    (ConditionalPoisson(), list_maximum_entropy, 400),
]


def name_of(value: object) -> str | None:
    return repr(value) if hasattr(value, "draw") else None


def draw_sets(design: KnownDesign, size: list[float], keep: int, times: int) -> Counter[frozenset[int]]:
    score = torch.tensor(size, dtype=torch.float64).expand(times, -1)
    found = design.draw(score, torch.full((times,), keep), torch.Generator().manual_seed(5))
    idx = found.idx.tolist()
    return Counter(frozenset(rows[:count]) for rows, count in zip(idx, found.count.tolist(), strict=True))


def distance(seen: Counter[frozenset[int]], wanted: Outcomes) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom; outcomes expected fewer than 5 times are taken together."""
    times = sum(seen.values())
    often = {kept: chance for kept, chance in wanted.items() if chance * times >= 5}
    expected = [*often.values(), max(1.0 - sum(often.values()), 0.0)]
    counted = [*(seen[kept] for kept in often), sum(count for kept, count in seen.items() if kept not in often)]
    if expected[-1] * times < 1e-6:
        assert counted.pop() == 0
        expected.pop()
    statistic = sum(
        (have - times * chance) ** 2 / (times * chance) for have, chance in zip(counted, expected, strict=True)
    )
    return statistic, len(expected) - 1


@pytest.mark.parametrize(("design", "listing", "times"), DRAWN, ids=name_of)
@pytest.mark.parametrize(("size", "keep"), SIZES)
def test_samples_come_as_often_as_they_should(
    design: KnownDesign, listing: Callable[[Sequence[float]], Outcomes], times: int, size: list[float], keep: int
) -> None:
    pi = inclusion(torch.tensor([size], dtype=torch.float64), torch.tensor([keep]), FLOOR)[0].tolist()
    assert max(pi) < 1
    seen = draw_sets(design, size, keep, times)
    assert set(seen) <= {kept for kept, chance in listing(pi).items() if chance > 0}
    statistic, freedom = distance(seen, listing(pi))
    assert statistic < chi2.isf(BY_CHANCE, freedom)


@pytest.mark.parametrize("design", [design for design, _, _ in DRAWN], ids=repr)
def test_rows_stay_as_often_as_they_should_beside_certain_ones_and_padding(design: KnownDesign) -> None:
    times = 400 if isinstance(design, ConditionalPoisson) else 20_000
    size = [INF, 2.0, 30.0, -INF, 0.0, 1.0, INF, 4.0, 0.5, -INF]
    pi = inclusion(torch.tensor([size], dtype=torch.float64), torch.tensor([5]), FLOOR)[0]
    seen = draw_sets(design, size, 5, times)
    stayed = torch.tensor([sum(count for kept, count in seen.items() if row in kept) for row in range(10)]) / times
    assert (stayed[pi == 1] == 1).all()
    assert (stayed[pi == 0] == 0).all()
    error = (pi * (1 - pi) / times).sqrt()
    assert ((stayed - pi).abs() <= 5.4 * error).all()  # 10 rows, 7e-8 each: by chance fewer than 1e-6
