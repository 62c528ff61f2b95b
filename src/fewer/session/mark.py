"""A moment of a session to which it can return, also after its cache was compressed.

As long as nothing is compressed, returning is forgetting the rows that came later, and costs nothing to prepare. A
compression takes rows away for good, so the rows of that moment are copied right before one (`Mark.copy_rows`).
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

from fewer.engine.keeper import Keeper
from fewer.kv import LayerKV, State
from fewer.query_log import QueryLog
from fewer.session.transcript import Transcript

__all__ = ["Mark"]

_SPARE = 256  # free rows of a layer that are not worth a copy


@dataclass(frozen=True)
class Mark:
    """What a session was. It is never written to. state: a copy of the cache, or None where forgetting rows does."""

    ids: tuple[int, ...]
    transcript: Transcript
    keeper: Keeper | None
    num_seen: int
    rows: tuple[int, ...]  # of each layer
    queries: QueryLog | None
    state: State | None = None

    @classmethod
    def of(cls, ids: tuple[int, ...], transcript: Transcript, keeper: Keeper | None, state: State) -> Mark:
        """This moment."""
        queries = None if state.queries is None else state.queries.fork()
        rows = tuple(kv.num_rows for kv in state.layers)
        return cls(ids, transcript.copy(), keeper, state.num_seen, rows, queries)

    def copy_rows(self, state: State) -> Mark:
        """The same with the rows of that moment copied from the session's cache, which still begins with them."""
        if self.state is not None:
            return self
        layers = []
        for kv, rows in zip(state.layers, self.rows, strict=True):
            part = copy(kv)
            part.truncate(rows)
            layers.append(part.fork())
        return replace(self, state=State(layers, self.num_seen, queries=self.queries))

    def restore(self, state: State) -> State:
        """The cache of that moment; `state` is the session's and is used up. The mark can be used again."""
        if self.state is not None:
            return self.state.fork()
        for index, (kv, rows) in enumerate(zip(state.layers, self.rows, strict=True)):
            kv.truncate(rows)
            if _free_rows(kv) > max(_SPARE + kv.headroom, kv.num_rows):
                state.layers[index] = kv.fork()
        state.num_seen = self.num_seen
        state.queries = None if self.queries is None else self.queries.fork()
        return state


def _free_rows(kv: LayerKV) -> int:
    return 0 if kv.buffer is None else kv.buffer.shape[2] - kv.num_rows
