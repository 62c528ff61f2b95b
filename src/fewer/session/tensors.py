"""A session's cache as named tensors, and back again, to the bit.

Of layer i, from 0: k.i, v.i [kv_heads, n, d]; pos.i [1 | kv_heads, n]; where they are known log_w.i, pi.i, gathered.i
[1 | kv_heads, n]; and the queries that a score will look with, q.i [heads, m, d] and q_pos.i [m].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fewer.kv import LayerKV, State
from fewer.query_log import QueryLog
from fewer.types import Needs

__all__ = ["Attends", "read_attends", "read_queries", "read_state", "write_state"]

Attends = Sequence[tuple[float, int | None]]  # of each layer: by what logits are scaled, and the sliding window


@torch.inference_mode()
def write_state(state: State) -> dict[str, Tensor]:
    """The cache's tensors, in storages of their own on the CPU; none before anything was read. Thins the queries."""
    found: dict[str, Tensor | None] = {}
    for index, kv in enumerate(state.layers if state.num_seen else ()):
        found |= {f"k.{index}": kv.k, f"v.{index}": kv.v, f"pos.{index}": kv.pos}
        found |= {f"log_w.{index}": kv.log_w, f"pi.{index}": kv.pi, f"gathered.{index}": kv.gathered}
        if state.queries is not None:
            q, pos = state.queries.at(index)
            if pos.numel():
                found |= {f"q.{index}": q, f"q_pos.{index}": pos}
    whole = {name: tensor for name, tensor in found.items() if tensor is not None}
    return {name: tensor.clone(memory_format=torch.contiguous_format).cpu() for name, tensor in whole.items()}


def read_attends(state: State) -> list[tuple[float, int | None]] | None:
    """How each layer attends, where queries are set aside."""
    return None if state.queries is None else [state.queries.attends(index) for index in range(len(state.layers))]


@torch.inference_mode()
def read_state(
    tensors: Mapping[str, Tensor], num_layers: int, num_seen: int, rows: Sequence[int], headroom: int
) -> State:
    """The cache of these tensors, where they are. rows: of each layer after the last compression; may be empty."""
    state = State.new(num_layers, headroom)
    if num_seen:
        parts = [_of_layer(tensors, index) for index in range(num_layers)]
        counts = rows or [0] * num_layers
        state.layers = [_read_layer(part, count, headroom) for part, count in zip(parts, counts, strict=True)]
        state.num_seen = num_seen
    return state


@torch.inference_mode()
def read_queries(tensors: Mapping[str, Tensor], needs: Needs, attends: Attends, num_seen: int) -> QueryLog:
    """The queries that were set aside, open for more."""
    log = QueryLog(needs, len(attends))
    for index, (scaling, window) in enumerate(attends):
        part = _of_layer(tensors, index)
        log.open = "q" in part
        q, pos = (part["q"], part["q_pos"]) if log.open else (torch.empty(1, 0, 1), torch.empty(0, dtype=torch.int64))
        log.record(index, q, pos, 0, num_seen, scaling, window)
    log.open = True
    return log


def _of_layer(tensors: Mapping[str, Tensor], index: int) -> dict[str, Tensor]:
    return {name.rpartition(".")[0]: tensor for name, tensor in tensors.items() if name.endswith(f".{index}")}


def _read_layer(part: Mapping[str, Tensor], count: int, headroom: int) -> LayerKV:
    """A layer whose first `count` rows are what a compression left, and the others came later."""
    both, pos = torch.stack([part["k"], part["v"]]), part["pos"]
    kv = LayerKV(headroom)
    if count:
        size = int(pos[:, :count].max()) + 1  # of the rows there once were, for a moment
        kv.append(both.new_zeros(2, both.shape[1], size, both.shape[3]), torch.arange(size, device=both.device), 0)
        index = pos[0, :count] if pos.shape[0] == 1 else pos[:, :count]
        kv.select(index, _first(part, "log_w", count), _first(part, "pi", count))
        kv.k.copy_(both[0, :, :count])
        kv.v.copy_(both[1, :, :count])
        if (gathered := _first(part, "gathered", count)) is not None:
            kv.gather(gathered)
    if count < pos.shape[1]:
        kv.append(both[:, :, count:], pos[0, count:], int(pos[0, count]))
    return kv


def _first(part: Mapping[str, Tensor], name: str, count: int) -> Tensor | None:
    marks = part.get(name)
    return None if marks is None else marks[:, :count].contiguous()
