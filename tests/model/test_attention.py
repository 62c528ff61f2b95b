"""Attention over what a sequence has stored: windows, log-weights, keys kept per head, against float64 references.

The kernels are held against attention written from its definition, and a whole model whose heads keep different keys
at different weights against the dense reference with the weights in its bias.
"""

from __future__ import annotations

import math

import pytest
import torch
from cases import MORE, NUM_LAYERS, Case, T, gap, others
from torch import Tensor

from fewer.kv import LayerKV, State
from fewer.model.attention import attend_rows
from fewer.model.segment import Segment
from reference import attend, bias_of, sight
from tolerances import BF16, FP64

DIM, SCALE = 16, 0.25


def noise(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Attention:
    """One layer's keys and values in some dtype, grown through `attend_rows`."""

    def __init__(self, heads: int, kv_heads: int, dtype: torch.dtype, device: torch.device) -> None:
        self.heads, self.kv_heads, self.dtype, self.device = heads, kv_heads, dtype, device
        self.state = State.new(1)

    @property
    def layer(self) -> LayerKV:
        return self.state.layers[0]

    def segment(self, rows: int, start: int = 0) -> Segment:
        segment = Segment(self.state, torch.zeros(rows, dtype=torch.int64))
        segment.pos = torch.arange(self.state.num_seen, self.state.num_seen + rows, device=self.device)
        segment.first, segment.rows = self.state.num_seen, slice(start, start + rows)
        self.state.num_seen += rows
        return segment

    def rows(self, rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Queries [heads, rows, d], keys and values [2, kv_heads, rows, d]."""
        q, kv = noise(seed, self.heads, rows, DIM), noise(seed + 1, 2, self.kv_heads, rows, DIM)
        return q.to(self.device, self.dtype), kv.to(self.device, self.dtype)

    def grow(self, rows: int, window: int | None = None, seed: int = 0) -> tuple[Tensor, Tensor]:
        """What the kernels say of the new rows, and what the definition says of the same numbers: [rows, heads, d]."""
        q, kv = self.rows(rows, seed)
        segment = self.segment(rows)
        ours = attend_rows(0, q, kv, [segment], SCALE, window)
        layer = self.layer
        return ours, attend(q, layer.k, layer.v, segment.pos, layer.pos, layer.log_w, SCALE, window)


@pytest.fixture(params=[(3, 3), (4, 2), (8, 1)], ids=["r1", "r2", "r8"])
def heads(request: pytest.FixtureRequest) -> tuple[int, int]:
    return request.param


@pytest.fixture(params=[torch.float64, torch.float32, torch.bfloat16], ids=["fp64", "fp32", "bf16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


@pytest.fixture
def tolerance(dtype: torch.dtype, fp32: float) -> float:
    return {torch.float64: FP64, torch.float32: fp32, torch.bfloat16: BF16}[dtype]


@pytest.mark.parametrize("window", [None, 1, 4, 130])
@pytest.mark.parametrize("pieces", [(1,), (9,), (6, 1, 1), (1, 8, 3)], ids=str)
def test_stored_in_order(
    heads: tuple[int, int],
    dtype: torch.dtype,
    device: torch.device,
    tolerance: float,
    pieces: tuple[int, ...],
    window: int | None,
) -> None:
    attention = Attention(*heads, dtype, device)
    for seed, rows in enumerate(pieces):
        ours, reference = attention.grow(rows, window, seed)
        assert ours.dtype == dtype
        assert gap(ours, reference) < tolerance


@pytest.mark.parametrize("window", [None, 4, 130])
@pytest.mark.parametrize("pieces", [(3, 140), (300,)], ids=str)
def test_more_rows_than_a_block(
    dtype: torch.dtype, device: torch.device, tolerance: float, pieces: tuple[int, ...], window: int | None
) -> None:
    attention = Attention(4, 2, dtype, device)
    for seed, rows in enumerate(pieces):
        ours, reference = attention.grow(rows, window, seed)
        assert gap(ours, reference) < tolerance


def test_more_rows_than_a_block_after_a_selection(dtype: torch.dtype, device: torch.device, tolerance: float) -> None:
    attention = Attention(4, 2, dtype, device)
    attention.grow(12)
    attention.layer.select(PER_HEAD, noise(4, 2, 6))
    ours, reference = attention.grow(150, 20)
    assert gap(ours, reference) < tolerance


KEPT = torch.tensor([0, 1, 4, 7, 8, 11])
PER_HEAD = torch.stack([KEPT, torch.tensor([0, 2, 3, 5, 9, 10])])
SELECTIONS: dict[str, tuple[Tensor, Tensor | None]] = {
    "the same for every head": (KEPT, None),
    "the same for every head, weighted": (KEPT, noise(3, 6)),
    "per head": (PER_HEAD, None),
    "per head, weighted": (PER_HEAD, noise(4, 2, 6)),
    "per head, padded": (PER_HEAD, torch.tensor([[0.0] * 6, [0.0, 0.0, 0.5, 0.0, -math.inf, -math.inf]])),
    "per head, all padding": (PER_HEAD, torch.tensor([[0.1] * 6, [-math.inf] * 6])),
}


@pytest.mark.parametrize("window", [None, 5])
@pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS)
def test_after_a_selection(
    dtype: torch.dtype,
    device: torch.device,
    tolerance: float,
    selection: tuple[Tensor, Tensor | None],
    window: int | None,
) -> None:
    index, log_w = selection
    attention = Attention(4, 2, dtype, device)
    attention.grow(12)
    old = attention.layer.k.cpu().clone(), attention.layer.v.cpu().clone()
    attention.layer.select(index, log_w)
    layer = attention.layer
    for group, rows in enumerate(index.expand(2, -1)):
        assert torch.equal(layer.k[group].cpu(), old[0][group, rows])
        assert torch.equal(layer.v[group].cpu(), old[1][group, rows])
        assert layer.pos.expand(2, -1)[group].tolist() == rows.tolist()
    assert layer.nbytes == 2 * 2 * 6 * DIM * dtype.itemsize
    for seed, rows in enumerate((1, 3, 1)):
        ours, reference = attention.grow(rows, window, seed)
        assert gap(ours, reference) < tolerance
    assert layer.pos[:, -5:].tolist() == [[12, 13, 14, 15, 16]] * layer.pos.shape[0]


def test_weights_add_over_selections(device: torch.device) -> None:
    attention = Attention(4, 2, torch.float64, device)
    attention.grow(12)
    first, second = noise(5, 6), noise(6, 2, 4)
    attention.layer.select(KEPT, first)
    attention.grow(2, seed=2)
    rows = torch.tensor([[0, 2, 3, 7], [1, 2, 5, 6]])
    attention.layer.select(rows, second)
    assert attention.layer.log_w is not None
    carried = torch.cat([first, torch.zeros(2)])
    assert gap(attention.layer.log_w, carried[rows] + second) < FP64
    assert attention.layer.pos.tolist() == torch.cat([KEPT, torch.tensor([12, 13])])[rows].tolist()
    ours, reference = attention.grow(3, seed=4)
    assert gap(ours, reference) < FP64


def test_hajek_weights_are_the_ratio_of_weighted_sums(device: torch.device) -> None:
    attention = Attention(2, 2, torch.float64, device)
    attention.grow(12)
    pi = torch.rand(6, generator=torch.Generator().manual_seed(8), dtype=torch.float64) * 0.8 + 0.1
    attention.layer.select(KEPT, -pi.log())
    ours, _ = attention.grow(1, seed=2)
    q, layer = attention.rows(1, seed=2)[0].cpu(), attention.layer
    for head in range(2):
        k, v = layer.k[head].cpu(), layer.v[head].cpu()
        mass = (SCALE * (k @ q[head, 0])).exp() / torch.cat([pi, torch.ones(1, dtype=torch.float64)])
        assert gap(ours[0, head], (mass[:, None] * v).sum(0) / mass.sum()) < FP64


def test_packed_segments_do_not_see_each_other(dtype: torch.dtype, device: torch.device, tolerance: float) -> None:
    stores = [Attention(4, 2, dtype, device) for _ in range(3)]
    stores[1].grow(12)
    stores[1].layer.select(PER_HEAD, noise(4, 2, 6))
    stores[2].grow(5)
    new = (7, 2, 1)
    rows = [store.rows(size, seed=10 + i) for i, (store, size) in enumerate(zip(stores, new, strict=True))]
    segments = [store.segment(size, sum(new[:i])) for i, (store, size) in enumerate(zip(stores, new, strict=True))]
    q, kv = torch.cat([row[0] for row in rows], 1), torch.cat([row[1] for row in rows], 2)
    ours = attend_rows(0, q, kv, segments, SCALE, 6)
    for store, segment, (query, _) in zip(stores, segments, rows, strict=True):
        layer = store.layer
        reference = attend(query, layer.k, layer.v, segment.pos, layer.pos, layer.log_w, SCALE, 6)
        assert gap(ours[segment.rows], reference) < tolerance


def test_a_model_whose_heads_keep_different_keys(case: Case, ids: Tensor) -> None:
    """Per layer and key head another set of keys and other weights, some of it padding; then decode over them."""
    adapter, dense = case.wide, case.tiny.dense
    kv_heads, group = adapter.num_kv_heads, adapter.num_heads // adapter.num_kv_heads
    total, kept = T + MORE, 9
    bias = bias_of(sight(total, case.tiny.windows))[:, None].repeat(1, kv_heads, 1, 1)  # [L, kv_heads, total, total]
    state = case.new()
    case.run(state, ids[:T], wide=True)
    for index, layer in enumerate(state.layers):
        rows = torch.stack([torch.randperm(T, generator=generator(index, head))[:kept] for head in range(kv_heads)])
        rows = rows.sort(1).values
        log_w = noise(index, kv_heads, kept)
        log_w[0, 5:7] = -math.inf
        layer.select(rows, log_w)
        spread = torch.full((kv_heads, T), -math.inf, dtype=torch.float64).scatter(1, rows, log_w)
        bias[index, :, T:, :T] += spread[:, None]
    reference, _ = dense.run(ids, bias.repeat_interleave(group, 1))
    forked = state.fork()
    together = case.run(state, ids[T:], wide=True)
    assert gap(together, reference[T:]) < FP64
    one_by_one = torch.cat([case.run(forked, token, wide=True) for token in ids[T:].split(1)])
    assert gap(one_by_one, reference[T:]) < FP64
    assert [layer.num_rows for layer in state.layers] == [kept + MORE] * NUM_LAYERS
    assert gap(dense.logits(ids, sight(total, case.tiny.windows))[T:], reference[T:]) > 1e-2


def test_the_taken_over_model_refuses_a_direct_call(plain: Case, ids: Tensor) -> None:
    assert plain.narrow.num_layers == NUM_LAYERS
    if not plain.fused:
        with pytest.raises(RuntimeError, match="fewer"):
            plain.narrow.model(others(1, 5)[None].to(plain.narrow.device))


def generator(*numbers: int) -> torch.Generator:
    return torch.Generator().manual_seed(sum(100**place * number for place, number in enumerate(numbers)))
