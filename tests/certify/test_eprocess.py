"""Evidence that may be read at any time: valid against a reader who stops at the worst moment, and where it is not."""

from __future__ import annotations

import pytest
import torch
from heads import full_output, linear_terms, make_heads, poisson_probability, subsets
from scipy.stats import binom
from torch import Tensor

from fewer.certify import EProcess, poisson_variance
from fewer.errors import BadInput
from tolerances import FP64

DELTA, RUNS, DRAWS, HEADS = 0.1, 700, 15, 3
BY_CHANCE = 1e-9
MOST = int(binom.isf(BY_CHANCE, RUNS, DELTA))  # were the true rate delta, more would come with probability below 1e-9


def make_world(seed: int, spiky: bool) -> tuple[Tensor, Tensor]:
    """(Vhat's terms (1 - pi)/pi^2 ||x||^2 by head and row, pi): HEADS heads over the same 12 rows and their luck."""
    generator = torch.Generator().manual_seed(seed)
    pi = 0.3 + 0.6 * torch.rand(12, dtype=torch.float64, generator=generator)
    norms = torch.rand(HEADS, 12, dtype=torch.float64, generator=generator)
    if spiky:  # nearly all of the variance in one row that is rarely drawn
        pi[0], norms[:, 0] = 0.02, 40.0
    return (1 - pi) / pi.square() * norms, pi


WORLDS = {spiky: make_world(1, spiky) for spiky in (False, True)}


def run(seed: int) -> EProcess:
    """The reader picks the world of the next draw by all that was seen; every null holds, with nothing to spare.

    Behind, it asks for rare large wins; ahead, for small steady ones. It stops whenever it likes: `rejects` looks at
    the largest value on the way.
    """
    process, generator = EProcess(HEADS), torch.Generator().manual_seed(seed)
    for draw in range(DRAWS):
        terms, pi = WORLDS[process.value < 3.0]
        kept = torch.rand(12, dtype=torch.float64, generator=generator) < pi
        variance = (terms * pi).sum(1)  # E[Vhat] of each head
        process.add(draw, (terms * kept).sum(1), variance.sqrt())
    return process


def test_a_reader_who_stops_at_the_worst_time_is_misled_no_more_often_than_delta() -> None:
    processes = [run(seed) for seed in range(RUNS)]
    misled = sum(process.rejects(DELTA) for process in processes)
    assert 20 < misled <= MOST  # the test has teeth: some are misled
    assert max(process.largest for process in processes) > 1 / DELTA


def test_vhat_over_what_is_allowed_is_an_e_value_of_the_true_null() -> None:
    """Over all samples: exactly 1 on average where the mean square error is what was allowed, with the true y and N."""
    a, v = make_heads(1, 8, 3, 4)
    a, v, y = a[0], v[0], full_output(a, v)[0]
    pi = torch.linspace(0.2, 0.9, 8, dtype=torch.float64)
    variance = ((1 - pi) / pi * linear_terms(a, v).square().sum(1)).sum()
    average = 0.0
    for kept in subsets(8):
        rows = list(kept)
        vhat = poisson_variance(a[rows] / (pi[rows] * a.sum()), pi[rows], v[rows], y)
        process = EProcess(1, bet=0.7)
        average += poisson_probability(pi, kept) * process.add(0, vhat[None], variance.sqrt()[None])
    assert average == pytest.approx(1, abs=FP64)


def test_it_finds_what_is_worse_than_allowed() -> None:
    terms, pi = WORLDS[False]
    process, generator = EProcess(HEADS), torch.Generator().manual_seed(0)
    for draw in range(DRAWS):
        kept = torch.rand(12, dtype=torch.float64, generator=generator) < pi
        process.add(draw, (terms * kept).sum(1), (terms * pi).sum(1).sqrt() / 2)
    assert process.rejects(1e-4)


def test_a_draw_counts_once() -> None:
    """One row with pi = .15: kept, Vhat is 1/pi times the variance. As fresh evidence twice over it would pass 1/delta
    with probability .15, which is above delta = .1; so the second time is refused."""
    pi, bet = 0.15, 0.5
    once = 1 + bet * (1 / pi - 1)
    assert once < 1 / DELTA < once**2
    process = EProcess(1, bet)
    assert process.add(7, torch.tensor([1 / pi], dtype=torch.float64), torch.tensor(1.0)) == pytest.approx(
        once, abs=FP64
    )
    with pytest.raises(
        BadInput, match=r"draw is 7; it must be above 7. Steps that share a draw are not fresh evidence"
    ):
        process.add(7, torch.tensor([1 / pi], dtype=torch.float64), torch.tensor(1.0))
    assert process.value == pytest.approx(once, abs=FP64)


def test_a_query_that_depends_on_the_draw_breaks_it() -> None:
    """Each of eight queries has all its error on a row of its own, and a mean square error of exactly 1.

    A query that was fixed has an average Vhat of 1. The query that looks at a row which was kept sees 1/pi instead:
    this is why only the first step after a draw may count.
    """
    pi, n = 0.2, 8
    chosen = sum(
        poisson_probability(torch.full((n,), pi, dtype=torch.float64), kept) / pi for kept in subsets(n) if kept
    )
    assert chosen == pytest.approx((1 - (1 - pi) ** n) / pi, abs=FP64)
    assert chosen > 4


def test_the_mean_over_heads_and_the_product_over_draws() -> None:
    process = EProcess(2, bet=1.0)
    process.add(1, torch.tensor([4.0, 1.0]), torch.tensor([1.0, 1.0]))
    process.add(2, torch.tensor([0.5, 8.0]), torch.tensor([1.0, 2.0]))
    assert process.heads.tolist() == [2.0, 2.0]
    process.add(3, torch.tensor([0.0, 0.0]), torch.tensor(1.0))
    assert process.value == 0.0
    assert process.largest == 2.5
    assert process.rejects(0.4)
    assert not process.rejects(0.39)


@pytest.mark.parametrize(
    ("vhat", "allowed", "message"),
    [
        ([1.0], [1.0, 1.0], r"vhat is \[1\]; it must be 2 numbers"),
        ([1.0, -1.0], [1.0, 1.0], "finite and at least 0"),
        ([1.0, float("nan")], [1.0, 1.0], "finite and at least 0"),
        ([1.0, 1.0], [1.0, 0.0], "allowed is .* finite and above 0"),
    ],
)
def test_bad_numbers(vhat, allowed, message) -> None:
    with pytest.raises(BadInput, match=message):
        EProcess(2).add(0, torch.tensor(vhat), torch.tensor(allowed))


def test_bad_settings() -> None:
    with pytest.raises(BadInput, match="num_heads is 0"):
        EProcess(0)
    with pytest.raises(BadInput, match=r"bet is 1\.5"):
        EProcess(1, 1.5)
    with pytest.raises(BadInput, match="delta is 0"):
        EProcess(1).rejects(0.0)
