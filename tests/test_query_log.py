"""Which queries are set aside, by position, through passes, failures and forks."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from fewer.query_log import QueryLog
from fewer.types import Needs

HEADS, DIM = 3, 4


def queries(start: int, stop: int) -> torch.Tensor:
    """Every number is the position of its row."""
    return torch.arange(start, stop, dtype=torch.float32)[None, :, None].expand(HEADS, -1, DIM)


def read(log: QueryLog, start: int, stop: int) -> None:
    log.record(0, queries(start, stop), torch.arange(start, stop), start, stop, 0.5, 7)


def held(log: QueryLog) -> list[int]:
    q, pos = log.at(0)
    if pos.numel():
        assert q.shape == (HEADS, pos.numel(), DIM)
        assert torch.equal(q[0, :, 0], pos.float())
    return pos.tolist()


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        (Needs("none"), []),
        (Needs("last"), [19]),
        (Needs("window", 4), [16, 17, 18, 19]),
        (Needs("window", 40), list(range(20))),
        (Needs("strided", 4), [4, 9, 14, 19]),
        (Needs("strided", 6), [2, 5, 9, 12, 15, 19]),
        (Needs("strided", 20), list(range(20))),
    ],
)
def test_the_rows_of_one_pass(needs: Needs, expected: list[int]) -> None:
    log = QueryLog(needs, 1)
    read(log, 0, 20)
    assert held(log) == expected
    assert log.attends(0) == (0.5, 7)
    assert log.nbytes == sum(4 * HEADS * DIM for _ in expected)


@pytest.mark.parametrize("parts", [(0, 7, 20), (0, 1, 2, 20), tuple(range(21)), (0, 19, 20)])
@pytest.mark.parametrize("needs", [Needs("last"), Needs("window", 4), Needs("strided", 40)])
def test_a_prompt_in_parts_leaves_what_it_leaves_at_once(needs: Needs, parts: tuple[int, ...]) -> None:
    whole, pieces = QueryLog(needs, 1), QueryLog(needs, 1)
    read(whole, 0, 20)
    for start, stop in pairwise(parts):
        read(pieces, start, stop)
    assert held(pieces) == held(whole)


def test_strided_rows_of_many_steps_stay_spread_and_few() -> None:
    log = QueryLog(Needs("strided", 8), 1)
    for start in range(1000):
        read(log, start, start + 1)
        assert log.nbytes <= 17 * 4 * HEADS * DIM
    rows = held(log)
    assert len(rows) == 8
    assert rows[-1] == 999
    assert max(b - a for a, b in pairwise(rows)) < 600
    log.compressed()
    assert held(log) == []
    read(log, 1000, 1001)
    assert held(log) == [1000]


@pytest.mark.parametrize(
    ("parts", "expected"), [((0, 4096), [7, 15, 4095]), ((0, 12, *range(13, 21)), [5, 13, 17, 19])]
)
def test_strided_rows_are_even_in_rank(parts: tuple[int, ...], expected: list[int]) -> None:
    """As docs/eviction.md has it: of one pass every eighth token; of tokens that come singly the newer are denser."""
    log = QueryLog(Needs("strided", 512 if parts[-1] > 20 else 4), 1)
    for start, stop in pairwise(parts):
        read(log, start, stop)
    rows = held(log)
    assert (rows if len(rows) == 4 else [*rows[:2], rows[-1]]) == expected


def test_a_compression_leaves_a_window() -> None:
    log = QueryLog(Needs("window", 3), 1)
    read(log, 0, 9)
    log.compressed()
    assert held(log) == [6, 7, 8]


def test_a_failed_pass_is_forgotten() -> None:
    log = QueryLog(Needs("window", 4), 1)
    read(log, 0, 6)
    read(log, 6, 9)  # the pass failed behind this layer; its tokens come again
    read(log, 6, 8)
    assert held(log) == [4, 5, 6, 7]
    log.truncate(5)
    assert held(log) == [4]
    read(log, 5, 7)
    assert held(log) == [4, 5, 6]


def test_a_fork_is_independent() -> None:
    log = QueryLog(Needs("window", 3), 1)
    read(log, 0, 5)
    copy = log.fork()
    read(copy, 5, 7)
    read(log, 5, 6)
    assert (held(copy), held(log)) == ([4, 5, 6], [3, 4, 5])


def test_a_closed_log_takes_nothing() -> None:
    log = QueryLog(Needs("window", 3), 1)
    read(log, 0, 5)
    log.open = False
    read(log, 5, 9)
    assert held(log) == [2, 3, 4]


def test_rows_that_did_not_come_this_far() -> None:
    log = QueryLog(Needs("window", 3), 1)
    pos = torch.tensor([0, 1, 5, 9])
    log.record(0, pos[None, :, None].float().expand(HEADS, -1, DIM), pos, 0, 10, 1.0, None)
    assert held(log) == [1, 5, 9]
