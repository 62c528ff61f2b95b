"""What a model with its whole cache held and asked: keys, values, the queries that compress it, those that decode.

Not covered: sliding-window layers, whose rows leave for certain; models that have them are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fewer.engine import Engine
from fewer.errors import NonFiniteError, bad
from fewer.kv import State
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.query_log import QueryLog
from fewer.study.replay.items import MOST_ROWS, Unit
from fewer.types import Needs

__all__ = ["Captured", "capture"]


@dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """One prompt and the first tokens of its answer, by layer. N: tokens in all; the last `steps` are the answer's."""

    k: tuple[Tensor, ...]  # [kv_heads, N, d]
    v: tuple[Tensor, ...]  # [kv_heads, N, d]
    q: tuple[Tensor, ...]  # [heads, m, d], rotated
    pos: Tensor  # [m] int64, of q; the last `steps` are the decode queries'
    scaling: tuple[float, ...]
    steps: int

    def restore(self, num_rows: int, needs: Needs, values: tuple[Tensor, ...] | None = None) -> State:
        """The sequence as it was when it had seen so many tokens, with the queries that `needs` asks for.

        values: other values in place of its own. Raises BadInput where queries were asked for that were not kept.
        """
        if needs.observers in ("strided", "repeat") or (needs.observers != "none" and needs.count > MOST_ROWS):
            legal = f"none, or at most {MOST_ROWS} of the newest"
            raise bad("the queries of a replayed score", f"{needs.observers} {needs.count}", legal, "Ask for fewer.")
        state = State.new(len(self.k))
        log = QueryLog(needs, len(self.k))
        rows = torch.arange(num_rows)
        seen = self.pos < num_rows
        for index, (k, v) in enumerate(zip(self.k, self.v if values is None else values, strict=True)):
            state.layers[index].append(torch.stack((k[:, :num_rows], v[:, :num_rows])), rows, 0)
            log.record(index, self.q[index][:, seen], self.pos[seen], 0, num_rows, self.scaling[index], None)
        state.num_seen, state.queries = num_rows, log
        return state

    def widen(self) -> Captured:
        """As if every query head had keys and values of its own."""
        group = self.q[0].shape[0] // self.k[0].shape[0]
        k, v = (tuple(part.repeat_interleave(group, 0) for part in parts) for parts in (self.k, self.v))
        return replace(self, k=k, v=v)


def capture(engine: Engine, unit: Unit, steps: int) -> Captured:
    """Read a prompt and decode greedily, at most `steps` tokens, fewer where the answer ends before.

    All tensors are on the CPU in the model's type. Raises BadInput for models with sliding windows, NonFiniteError.
    """
    adapter, prompt = engine.adapter, unit.prompt
    length, ask = len(prompt), prompt.query[0]
    wanted = MOST_ROWS + length - min(ask, unit.context) + steps
    state = State.new(adapter.num_layers, headroom=steps)
    state.queries = QueryLog(Needs("window", wanted), adapter.num_layers)
    ids, done = prompt.ids, 0
    while True:
        logits = forward(adapter, [Segment(state, ids)])[0]
        if not bool(torch.isfinite(logits).all()):
            raise NonFiniteError(f"The model's logits are not finite on the prompt {unit.item.id}.")
        token = int(logits[-1].argmax())
        if done == steps or token in engine.end_tokens:
            break
        ids, done = torch.tensor([token]), done + 1
    log = state.queries
    attends = [log.attends(index) for index in range(adapter.num_layers)]
    if any(window is not None for _, window in attends):
        raise bad("the model", adapter.facts.name, "one without sliding-window layers", "Replay another model.")
    seen = [log.at(index) for index in range(adapter.num_layers)]
    return Captured(
        k=tuple(kv.k.cpu() for kv in state.layers),
        v=tuple(kv.v.cpu() for kv in state.layers),
        q=tuple(q.cpu() for q, _ in seen),
        pos=seen[0][1].cpu(),
        scaling=tuple(scaling for scaling, _ in attends),
        steps=done,
    )
