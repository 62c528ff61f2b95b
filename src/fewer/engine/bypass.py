"""Why a pruning or an eviction that was asked for left nothing out."""

from __future__ import annotations

from fewer.engine.sequence import Sequence

__all__ = ["list_bypasses"]


def list_bypasses(sequence: Sequence) -> tuple[str, ...]:
    """A sentence for each that left nothing out; none where both did, or where nothing was asked for."""
    pruning, keeper = sequence.request.prune is not None, sequence.keeper
    waiting = keeper is not None and not keeper.evictions
    if sequence.prefill is None:
        return ("the request ended before it ran",) if pruning or waiting else ()
    why = "the budget covers every row of the cache" if keeper and keeper.turns else "nothing was compressed yet"
    return _why_unpruned(sequence) + ((why,) if waiting else ())


def _why_unpruned(sequence: Sequence) -> tuple[str, ...]:
    planner, prefill = sequence.request.prune, sequence.prefill
    if planner is None or prefill is None:
        return ()
    declines = getattr(planner, "declines", None)
    if declines is not None and (why := declines(sequence.request.prompt)):
        return (why,)
    if not prefill.plans:
        refusals = tuple(f"after layer {each.layer}: {each.outcome}" for each in prefill.decisions)
        return refusals or ("the planner made no plan",)
    if all(plan.keep.numel() == len(sequence.request.prompt) for plan in prefill.plans):
        return ("the budget covers every token that may be left out",)
    return ()
