"""EntroPrefill's mechanism against our own full run: first token, what equation (32) promises, and what deciding costs.

    python -m benchmarks.entroprefill [--lengths 4096 7500] [--repeats 5] [--text FILE...]

Half of the document tokens leave after a third of the layers, whatever they are (tolerances that bind nothing), so
that the figures are about the mechanism and not about what it chooses. Contenders take turns in one process, in one
number format; each figure is the best of the repeats. `predicted` is from the seconds that whole layers took at the two
lengths in the same run: (32), without its quadratic model. `watching` is what a layer took longer because its attention
rows were wanted, over what it took.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.speed import read_ids
from fewer import Chunk, Engine, EntroPrefill, Prompt
from fewer.kv import State
from fewer.model.adapter import Adapter
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.types import Planner

CHUNK, QUERY, SINKS = 200, 24, 4
OPEN = {"tolerance": 0.999, "audit_tolerance": 0.999, "document_min": 1e-9, "mass": "absolute", "min_chunks": 0}


@dataclass
class Timing:
    """Best seconds of one contender: of all, of each layer with what follows it, and of deciding."""

    prefill: float = float("inf")
    layers: list[float] = field(default_factory=list)
    deciding: float = 0.0
    rows: tuple[int, ...] = ()


def make_prompt(ids: torch.Tensor) -> Prompt:
    """Sinks, chunks of 200 tokens, a query of 24."""
    size = ids.numel()
    protected = torch.ones(size, dtype=torch.bool)
    protected[SINKS : size - QUERY] = False
    bounds = [*range(SINKS, size - QUERY, CHUNK), size - QUERY]
    chunks = tuple(Chunk(f"chunk {i}", a, b) for i, (a, b) in enumerate(pairwise(bounds)))
    return Prompt(ids, protected, chunks, (size - QUERY, size))


def run_once(adapter: Adapter, prompt: Prompt, planner: Planner | None, timing: Timing) -> None:
    """One prefill; keeps the best of what it took."""
    marks: list[float] = []
    segment = Segment(State.new(adapter.num_layers), prompt.ids, planner, prompt if planner else None)
    begin = time.perf_counter()
    forward(adapter, [segment], lambda layer, hidden: marks.append(time.perf_counter()))
    seconds = time.perf_counter() - begin
    layers = [after - before for before, after in zip([begin, *marks], marks, strict=False)]
    timing.prefill = min(timing.prefill, seconds)
    timing.layers = [min(pair) for pair in zip(timing.layers or layers, layers, strict=True)]
    timing.deciding = sum(decision.numbers["seconds"] for decision in segment.decisions)
    timing.rows = tuple(segment.rows_per_layer)


def measure(engine: Engine, ids: torch.Tensor, repeats: int) -> dict[str, Timing]:
    """Full, watched at one layer and refused, pruned, and a full run of the length that remains."""
    adapter, prompt = engine.adapter, make_prompt(ids)
    size, layer = len(prompt), adapter.num_layers // 3
    documents = size - prompt.num_protected
    keep = size - (documents - CHUNK) // 2  # the scan ends with the chunk that reaches it
    pruned = EntroPrefill(keep, monitor=[layer], **OPEN).fitted(adapter.facts)
    watched = EntroPrefill(keep, monitor=[layer], **{**OPEN, "min_chunks": len(prompt.chunks)}).fitted(adapter.facts)
    timings = {name: Timing() for name in ("full", "watched", "pruned", "short")}
    for _ in range(repeats):
        run_once(adapter, prompt, None, timings["full"])
        run_once(adapter, prompt, watched, timings["watched"])
        run_once(adapter, prompt, pruned, timings["pruned"])
        left = timings["pruned"].rows[-1]
        run_once(adapter, make_prompt(ids[:left]), None, timings["short"])
    return timings


def describe(engine: Engine, length: int, timings: dict[str, Timing]) -> list[str]:
    """A row of the table."""
    full, watched, pruned, short = (timings[name] for name in ("full", "watched", "pruned", "short"))
    layer, size = engine.adapter.num_layers // 3, engine.adapter.num_layers
    rest = full.prefill - sum(full.layers)
    promised = full.prefill / (rest + sum(full.layers[:layer]) + sum(short.layers[layer:]))
    faster = full.prefill / pruned.prefill
    watching = watched.layers[layer - 1] / full.layers[layer - 1] - 1
    share = f"{pruned.rows[-1]} of {length} after {layer} of {size}"
    deciding = f"{pruned.deciding * 1e3:.1f} ms, {pruned.deciding / full.prefill:.1%}"
    return [share, f"{full.prefill:.2f} s", f"{faster:.2f}x", f"{promised:.2f}x", f"{faster / promised:.0%}",
            f"{watching:+.1%}", deciding]  # fmt: skip


def main() -> None:
    """Print one row a length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[4096, 7500])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--text", type=Path, nargs="+", default=sorted(Path("docs").glob("*.md")))
    given = parser.parse_args()
    engine = Engine.load(dtype=given.dtype)
    ids = read_ids(given.text, engine.tokenizer)
    table = Table(title=f"EntroPrefill, {engine.adapter.dtype}")
    for heading in ("tokens", "full", "first token", "predicted", "of it", "watching one layer", "deciding"):
        table.add_column(heading, justify="right")
    for length in given.lengths:
        table.add_row(*describe(engine, length, measure(engine, ids[:length], given.repeats)))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
