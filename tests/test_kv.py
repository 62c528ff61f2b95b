"""What a sequence remembers: rows come, go and are copied; positions and weights travel with them; bytes are real."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fewer.kv import LayerKV, State

HEADS, DIM = 3, 4
ROW = 2 * HEADS * DIM * 4  # bytes of one row in float32


def rows(first: int, count: int) -> Tensor:
    """[2, heads, count, d]: every number says whose it is."""
    place = torch.arange(first, first + count, dtype=torch.float32)[None, None, :, None]
    head = torch.arange(HEADS, dtype=torch.float32)[None, :, None, None]
    part = torch.tensor([0.0, 0.5])[:, None, None, None]
    return (place * 10 + head + part).expand(2, HEADS, count, DIM)


def filled(count: int, headroom: int = 0, first: int = 0) -> LayerKV:
    layer = LayerKV(headroom)
    layer.append(rows(first, count), torch.arange(first, first + count), first)
    return layer


def check(layer: LayerKV, positions: list[int] | list[list[int]]) -> None:
    """Keys, values and positions belong together, for every head."""
    per_head = positions if positions and isinstance(positions[0], list) else [positions] * HEADS
    assert layer.num_rows == len(per_head[0])
    assert layer.pos.expand(HEADS, -1).tolist() == per_head
    assert layer.k.shape == layer.v.shape == (HEADS, layer.num_rows, DIM)
    for head, places in enumerate(per_head):
        expected = torch.tensor(places, dtype=torch.float32)[:, None] * 10 + head
        assert torch.equal(layer.k[head], expected.expand(-1, DIM))
        assert torch.equal(layer.v[head], expected.expand(-1, DIM) + 0.5)


def test_empty() -> None:
    layer = LayerKV()
    assert (layer.num_rows, layer.nbytes, layer.pos.shape, layer.contiguous) == (0, 0, (1, 0), True)
    state = State.new(3)
    assert (len(state.layers), state.num_seen, state.nbytes) == (3, 0, 0)


def test_append() -> None:
    layer = filled(5)
    layer.append(rows(5, 1), torch.tensor([5]), 5)
    layer.append(rows(6, 3), torch.arange(6, 9), 6)
    check(layer, list(range(9)))
    assert layer.contiguous
    layer.append(rows(12, 2), torch.tensor([12, 13]), 12)
    check(layer, [*range(9), 12, 13])
    assert not layer.contiguous


def test_rows_that_are_not_consecutive() -> None:
    layer = LayerKV()
    layer.append(rows(0, 8)[:, :, [0, 3, 7]], torch.tensor([0, 3, 7]), None)
    check(layer, [0, 3, 7])
    assert not layer.contiguous


@pytest.mark.parametrize("headroom", [0, 3, 40])
def test_room_is_reserved_and_grows(headroom: int) -> None:
    layer = filled(7, headroom)
    assert layer.nbytes == (7 + headroom) * ROW
    for place in range(7, 7 + headroom):
        before = layer.buffer.data_ptr()
        layer.append(rows(place, 1), torch.tensor([place]), place)
        assert layer.buffer.data_ptr() == before  # no copy on the way
    assert layer.nbytes == (7 + headroom) * ROW
    layer.append(rows(7 + headroom, 1), torch.tensor([7 + headroom]), 7 + headroom)
    assert layer.nbytes >= (8 + headroom + 255) * ROW  # room for many more
    check(layer, list(range(8 + headroom)))


def test_bytes_are_the_storage() -> None:
    layer = filled(7, 5)
    assert layer.nbytes == layer.k.untyped_storage().nbytes() == layer.v.untyped_storage().nbytes()
    state = State([filled(7, 5), filled(3), LayerKV()], 7)
    assert state.nbytes == 15 * ROW


@pytest.mark.parametrize("headroom", [0, 6])
@pytest.mark.parametrize("kept", [[0], [6], [0, 2, 5], [1, 2, 3, 4, 5, 6]])
def test_select_frees_the_rest(headroom: int, kept: list[int]) -> None:
    layer = filled(7, headroom)
    old = weakref.ref(layer.buffer.untyped_storage())
    assert old() is not None
    address, before = layer.buffer.data_ptr(), layer.nbytes
    layer.select(torch.tensor(kept))
    gc.collect()
    assert old() is None
    check(layer, kept)
    assert layer.buffer.data_ptr() != address
    assert before - layer.nbytes == (7 - len(kept)) * ROW
    assert layer.k.untyped_storage().nbytes() == layer.nbytes
    assert not layer.contiguous
    layer.append(rows(7, 1), torch.tensor([7]), 7)
    check(layer, [*kept, 7])


def test_no_view_keeps_what_was_freed() -> None:
    layer = filled(7)
    seen = layer.k  # somebody looks at it
    old = weakref.ref(layer.buffer.untyped_storage())
    layer.select(torch.tensor([1, 2]))
    assert layer.k.untyped_storage().data_ptr() != seen.untyped_storage().data_ptr()
    assert old() is not None
    del seen
    gc.collect()
    assert old() is None


def test_selecting_all_changes_nothing() -> None:
    layer = filled(7, 4)
    address = layer.buffer.data_ptr()
    layer.select(torch.arange(7))
    assert (layer.buffer.data_ptr(), layer.nbytes, layer.contiguous) == (address, 11 * ROW, True)
    check(layer, list(range(7)))


def test_select_per_head() -> None:
    layer = filled(6)
    layer.select(torch.tensor([[0, 1, 5], [0, 2, 3], [3, 4, 5]]))
    check(layer, [[0, 1, 5], [0, 2, 3], [3, 4, 5]])
    layer.append(rows(6, 2), torch.tensor([6, 7]), 6)
    check(layer, [[0, 1, 5, 6, 7], [0, 2, 3, 6, 7], [3, 4, 5, 6, 7]])
    layer.select(torch.tensor([0, 2, 4]))  # the same rows of every head, which hold different positions
    check(layer, [[0, 5, 7], [0, 3, 7], [3, 5, 7]])
    layer.select(torch.tensor([[0, 1], [1, 2], [0, 2]]))
    check(layer, [[0, 5], [3, 7], [3, 7]])


def test_weights_travel_with_the_rows() -> None:
    layer = filled(5)
    layer.select(torch.tensor([0, 2, 4]), torch.tensor([0.0, 0.5, 1.5]))
    assert layer.log_w.tolist() == [[0.0, 0.5, 1.5]]
    layer.append(rows(5, 1), torch.tensor([5]), 5)
    assert layer.log_w.tolist() == [[0.0, 0.5, 1.5, 0.0]]
    layer.select(torch.tensor([1, 2, 3]))
    check(layer, [2, 4, 5])
    assert layer.log_w.tolist() == [[0.5, 1.5, 0.0]]
    index = torch.tensor([[0, 1], [0, 2], [1, 2]])
    layer.select(index, torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.25, 0.0]]))
    check(layer, [[2, 4], [2, 5], [4, 5]])
    assert layer.log_w.tolist() == [[1.5, 1.5], [2.5, 0.0], [1.75, 0.0]]


def test_weights_on_all_rows() -> None:
    layer = filled(3)
    layer.select(torch.arange(3), torch.tensor([0.0, 1.0, 2.0]))
    check(layer, [0, 1, 2])
    assert layer.log_w.tolist() == [[0.0, 1.0, 2.0]]


@pytest.mark.parametrize("left", [0, 1, 4, 6])
def test_truncate_forgets_what_came_after(left: int) -> None:
    layer = filled(4, 8)
    layer.append(rows(4, 2), torch.tensor([4, 5]), 4)
    layer.truncate(left)
    check(layer, list(range(left)))
    layer.append(rows(left, 3), torch.arange(left, left + 3), left)
    check(layer, list(range(left + 3)))
    assert layer.contiguous


def test_truncate_after_rows_that_were_not_consecutive() -> None:
    layer = LayerKV()
    layer.append(rows(0, 8)[:, :, [0, 3]], torch.tensor([0, 3]), None)
    layer.truncate(0)
    assert layer.contiguous
    layer.append(rows(0, 2), torch.arange(2), 0)
    check(layer, [0, 1])
    assert layer.contiguous


def test_truncate_with_weights() -> None:
    layer = filled(5)
    layer.select(torch.tensor([0, 2, 4]), torch.tensor([0.1, 0.2, 0.3]))
    layer.append(rows(5, 2), torch.tensor([5, 6]), 5)
    layer.truncate(3)
    check(layer, [0, 2, 4])
    assert layer.log_w.shape == (1, 3)
    layer.append(rows(5, 1), torch.tensor([5]), 5)
    assert layer.log_w.tolist()[0] == pytest.approx([0.1, 0.2, 0.3, 0.0])


def test_a_fork_is_independent() -> None:
    state = State([filled(5, 3), LayerKV(), filled(4)], num_seen=5)
    state.layers[2].select(torch.tensor([0, 2]), torch.tensor([0.0, 1.0]))
    copy = state.fork()
    assert (copy.num_seen, copy.layers[1].num_rows) == (5, 0)
    check(copy.layers[0], list(range(5)))
    check(copy.layers[2], [0, 2])
    addresses = {layer.buffer.untyped_storage().data_ptr() for one in (state, copy) for layer in one.layers[::2]}
    assert len(addresses) == 4
    copy.layers[0].append(rows(5, 1), torch.tensor([5]), 5)
    copy.layers[0].k.zero_()
    copy.layers[2].truncate(1)
    copy.num_seen += 1
    check(state.layers[0], list(range(5)))
    check(state.layers[2], [0, 2])
    assert (state.num_seen, state.layers[2].log_w.tolist()) == (5, [[0.0, 1.0]])
    assert (copy.layers[0].contiguous, copy.layers[2].contiguous) == (True, False)


@given(
    st.lists(st.tuples(st.sampled_from("ast"), st.integers(1, 9), st.integers(0, 2**20)), max_size=12),
    st.integers(0, 5),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_any_sequence_of_operations(steps: list[tuple[str, int, int]], headroom: int) -> None:
    layer, held, seen = LayerKV(headroom), [], 0
    for kind, size, choice in steps:
        if kind == "a":
            layer.append(rows(seen, size), torch.arange(seen, seen + size), seen)
            held += range(seen, seen + size)
            seen += size
        elif kind == "s" and held:
            index = [place for place in range(len(held)) if choice >> place % 20 & 1] or [len(held) - 1]
            layer.select(torch.tensor(index))
            held = [held[place] for place in index]
        elif kind == "t" and held:
            layer.truncate(size % (len(held) + 1))
            held = held[: size % (len(held) + 1)]
        if layer.buffer is not None:
            check(layer, held)
            assert layer.nbytes == layer.buffer.untyped_storage().nbytes() >= len(held) * ROW
        assert not layer.contiguous or held == list(range(len(held)))
