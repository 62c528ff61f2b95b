"""Which chunks may be removed, and the mass of attention rows on them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from made_rows import attention, candidates_of, spans_of
from slow import slow_masses

from fewer import BadInput, Chunk, Prompt
from fewer.prune.entroprefill.chunks import Candidates
from tolerances import FP32, FP64


def prompt(spans: list[tuple[int, int]], query: tuple[int, int], size: int = 20, also: tuple[int, ...] = ()) -> Prompt:
    """Everything outside the spans is protected, and these positions too."""
    protected = torch.ones(size, dtype=torch.bool)
    for start, stop in spans:
        protected[start:stop] = False
    protected[list(also)] = True
    protected[-1] = True
    return Prompt(torch.arange(size), protected, tuple(Chunk("", *span) for span in spans), query)


def test_chunks_before_the_query_without_protected_tokens_are_candidates() -> None:
    made = prompt([(2, 5), (5, 9), (10, 12)], query=(12, 19))
    found = Candidates.of(made)
    assert found.index == (0, 1, 2)
    assert (found.starts.tolist(), found.stops.tolist()) == ([2, 5, 10], [5, 9, 12])
    assert (found.sizes.tolist(), found.num_tokens, len(found)) == ([3, 4, 2], 9, 3)


@pytest.mark.parametrize("touched", [5, 6, 8])
def test_a_chunk_that_touches_a_protected_position_is_protected_whole(touched: int) -> None:
    found = Candidates.of(prompt([(2, 5), (5, 9), (10, 12)], query=(12, 19), also=(touched,)))
    assert found.index == (0, 2)
    assert found.num_tokens == 5


@pytest.mark.parametrize(("begin", "index"), [(12, (0, 1, 2)), (11, (0, 1)), (9, (0, 1)), (4, ()), (0, ())])
def test_a_chunk_that_ends_after_the_query_begins_is_no_candidate(begin: int, index: tuple[int, ...]) -> None:
    assert Candidates.of(prompt([(2, 5), (5, 9), (10, 12)], query=(begin, 19))).index == index


def test_without_query_positions_no_chunk_is_after_them() -> None:
    assert Candidates.of(prompt([(2, 5), (5, 9)], query=(0, 0))).index == (0, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_masses_are_the_sums_over_each_chunk(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
    candidates = candidates_of(1, 7, 1, 30, 2)
    rows = attention(0, *shape, 60, dtype=dtype).to(device)
    found = candidates.mass(rows)
    assert found.dtype == torch.float64
    assert found.device == rows.device
    expected = [slow_masses(row, spans_of(candidates)) for row in rows.double().reshape(-1, 60).tolist()]
    np.testing.assert_allclose(found.cpu().reshape(-1, 5), expected, rtol=1e-14, atol=0)


def test_long_rows_lose_no_digits() -> None:
    candidates = candidates_of(*[1600] * 20)
    rows = attention(1, 2, 32_100, dtype=torch.float32)
    expected = [slow_masses(row, spans_of(candidates)) for row in rows.double().tolist()]
    np.testing.assert_allclose(candidates.mass(rows), expected, rtol=1e-14, atol=0)


def test_chunks_gaps_and_the_rest_add_up_to_the_row() -> None:
    candidates, row = candidates_of(5, 9, 3), attention(2, 40)
    outside = torch.ones(40, dtype=torch.bool)
    for start, stop in spans_of(candidates):
        outside[start:stop] = False
    assert float(candidates.mass(row).sum() + row[outside].sum()) == pytest.approx(1.0, abs=FP64)


def test_equal_chunks_have_equal_masses_bit_for_bit() -> None:
    part = attention(3, 13, dtype=torch.float32)
    masses = candidates_of(*[13] * 7, first=3, gap=0).mass(torch.cat([torch.ones(3), *[part] * 7, torch.ones(1)]))
    assert len(set(masses.tolist())) == 1


def test_moving_chunks_moves_their_masses() -> None:
    parts = [attention(seed, size, dtype=torch.float32) for seed, size in enumerate((4, 9, 1, 17))]
    swap = [2, 0, 3, 1]
    there = candidates_of(4, 9, 1, 17, first=0, gap=0).mass(torch.cat(parts))
    moved = candidates_of(*(len(parts[i]) for i in swap), first=0, gap=0).mass(torch.cat([parts[i] for i in swap]))
    assert torch.equal(moved, there[swap])


def test_no_candidates_have_no_masses() -> None:
    none = Candidates.of(prompt([(2, 5)], query=(1, 19)))
    assert (len(none), none.num_tokens) == (0, 0)
    assert none.mass(torch.ones(2, 3, 20)).shape == (2, 3, 0)
    assert none.mass(torch.ones(2, 3, 20)).dtype == torch.float64


def test_numbers_that_are_not_finite_come_through() -> None:
    row = torch.full((20,), 0.05)
    row[3] = torch.nan
    row[12] = torch.inf
    first, second, third = candidates_of(3, 4, 6).mass(row).tolist()
    assert np.isnan(first)
    assert second == pytest.approx(0.2, abs=FP32)
    assert third == np.inf


@pytest.mark.parametrize("shape", [(11,), (3, 11), ()])
def test_rows_that_end_before_the_last_chunk_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="with n at least 12"):
        candidates_of(4, 5).mass(torch.ones(shape))
