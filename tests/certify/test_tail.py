"""The copy of the rows that chance could have taken: which rows, what of them, and parts of it."""

from __future__ import annotations

import pytest
import torch

from fewer.certify.tail import BLOCK, Tail
from tolerances import FP32

DIM = 4


def make(sampled: list[list[int]], n: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """(pi, values) of a layer whose heads have so many sampled rows, spread over the n."""
    pi = torch.ones(len(sampled), n)
    for head, rows in enumerate(sampled):
        pi[head, rows] = 0.25
    return pi, torch.randn(len(sampled), n, DIM, generator=torch.Generator().manual_seed(n)).to(dtype)


LAYERS = [
    make([list(range(0, 300, 2)), [7]], 300),
    make([[], list(range(BLOCK))], BLOCK + 5),
    make([[], []], 20),
    make([[3, 1], [19]], 20),
]


def test_every_sampled_row_is_there_once_in_order_and_the_rest_counts_for_nothing() -> None:
    tail = Tail.of(LAYERS)
    assert [rows.shape[1] for rows in tail.index] == [2 * BLOCK, BLOCK, 0, BLOCK]
    start = 0
    for layer, (pi, values) in enumerate(LAYERS):
        for head in range(2):
            rows = tail.index[layer][head]
            part = slice(start, start + len(rows))
            counts = tail.evicts[part] > 0
            assert rows[counts].tolist() == (pi[head] < 1).nonzero().flatten().tolist()
            assert (tail.evicts[part][counts] == 0.75).all()
            assert (tail.evicts[part][~counts] == 0).all()
            moved = values[head, rows] - tail.centre[layer, head]
            assert torch.equal(tail.values.view(-1, DIM)[part], moved)
            assert (tail.squares[part] - moved.square().sum(-1)).abs().max() < FP32 if len(rows) else True
            assert (tail.heads[start // BLOCK : part.stop // BLOCK] == 2 * layer + head).all()
            start = part.stop
    assert start == tail.squares.numel() == tail.values.shape[0] * BLOCK


def test_what_is_filled_up_repeats_the_last_sampled_row_of_the_head() -> None:
    (rows,) = Tail.of([LAYERS[3]]).index
    assert rows[:, :2].tolist() == [[1, 3], [19, 19]]
    assert (rows[0, 2:] == 3).all()
    assert (rows[1] == 19).all()


@pytest.mark.parametrize(("first", "last"), [(0, 3), (0, 0), (1, 2), (2, 2), (3, 3)])
def test_a_part_is_what_those_layers_alone_would_have(first: int, last: int) -> None:
    part, alone = Tail.of(LAYERS).at(first, last), Tail.of(LAYERS[first : last + 1])
    assert all(torch.equal(one, other) for one, other in zip(part.index, alone.index, strict=True))
    for name in ("values", "squares", "evicts", "heads", "centre"):
        assert torch.equal(getattr(part, name), getattr(alone, name))


def test_squares_are_of_the_values_as_they_are_held() -> None:
    """Rounded to the model's type, so that with the product they give a distance between two points."""
    pi, values = make([[0, 2], [1]], 5, torch.bfloat16)
    tail = Tail.of([(pi, values + 3)])
    assert tail.values.dtype == torch.bfloat16
    assert torch.equal(tail.squares, tail.values.float().square().sum(-1).flatten())
