"""LazyLLM's mechanism against our own full run: first token, later tokens, and what the floating-point count promises.

    python -m benchmarks.lazyllm [--lengths 4096 7500] [--repeats 3] [--text FILE...]

All contenders take turns in one process, in one number format, after the prefills step by step; each figure is the best
of the repeats. The schedules are given ones, by the paper's score, so that the figures are about the mechanism and not
about what it chooses. `recomputed` keeps no states of tokens left out and runs those that come back from the embedding
(`aux="recompute"`): beside it stands what the states are worth.
`predicted` counts multiplications and additions of projections and attention for the rows that each layer really had.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.speed import read_ids
from fewer import Engine, LazyLLM, Prompt
from fewer.kv import State
from fewer.model.adapter import Adapter
from fewer.model.forward import forward
from fewer.model.segment import Segment

SCHEDULES = {
    ".7/.5/.3 after 10/18/25": "10:70%,18:50%,25:30%",
    ".5/.3/.1 after 10/18/25": "10:50%,18:30%,25:10%",
    ".3/.15/.05 after 5/15/23": "5:30%,15:15%,23:5%",
}
CONTENDERS: dict[str, LazyLLM | None] = {
    "full": None,
    "everything kept": LazyLLM("10:100%,18:100%,25:100%", profile=None),
    **{name: LazyLLM(schedule, profile=None) for name, schedule in SCHEDULES.items()},
    **{f"{name}, recomputed": LazyLLM(schedule, "recompute", profile=None) for name, schedule in SCHEDULES.items()},
}
STEPS = 63  # after the first token


@dataclass
class Timing:
    """Seconds of one contender, a list for each repeat."""

    prefill: list[float] = field(default_factory=list)
    steps: list[list[float]] = field(default_factory=list)
    rows: tuple[int, ...] = ()
    revived: tuple[int, ...] = ()
    aux_bytes: int = 0
    kv_bytes: int = 0

    @property
    def first_s(self) -> float:
        """The best prefill."""
        return min(self.prefill)

    @property
    def best_steps(self) -> list[float]:
        """The best of each step."""
        return [min(each) for each in zip(*self.steps, strict=True)]

    @property
    def whole_s(self) -> float:
        """The best prefill and the best of each step."""
        return self.first_s + sum(self.best_steps)


def count_operations(adapter: Adapter, rows: tuple[int, ...]) -> float:
    """Floating-point operations of a prefill whose layers have so many rows; causal attention counts half."""
    config = adapter.config
    queries, keys = adapter.num_heads * adapter.head_dim, adapter.num_kv_heads * adapter.head_dim
    width, inner = adapter.hidden_size, config.intermediate_size
    linear = 2 * (width * (queries + 2 * keys) + queries * width + 3 * width * inner)
    return sum(linear * each + 2 * queries * each * each for each in rows)


class Generation:
    """One contender's prefill and its greedy steps, timed one by one."""

    def __init__(self, adapter: Adapter, ids: torch.Tensor, planner: LazyLLM | None, timing: Timing) -> None:
        self.adapter, self.timing = adapter, timing
        self.state = State.new(adapter.num_layers, headroom=256)
        prompt = Prompt.from_ids(ids, sinks=4, recent=16)
        segment = Segment(self.state, ids, planner, prompt if planner else None)
        begin = time.perf_counter()
        self.token = int(forward(adapter, [segment])[0][-1].argmax())
        timing.prefill.append(time.perf_counter() - begin)
        timing.rows = tuple(segment.rows_per_layer)
        timing.steps.append([])

    def step(self) -> None:
        """The next token."""
        begin = time.perf_counter()
        self.token = int(forward(self.adapter, [Segment(self.state, torch.tensor([self.token]))])[0][-1].argmax())
        self.timing.steps[-1].append(time.perf_counter() - begin)

    def finish(self) -> None:
        """Note what came back and what is held."""
        self.timing.kv_bytes = self.state.nbytes
        if self.state.aux is not None:
            self.timing.revived = tuple(step.revived for step in self.state.aux.steps)
            self.timing.aux_bytes = self.state.aux.nbytes


def measure(engine: Engine, ids: torch.Tensor, repeats: int) -> dict[str, Timing]:
    """Every contender in turn, so often: all prefills, then a step of each after the other."""
    timings = {name: Timing() for name in CONTENDERS}
    for _ in range(repeats):
        runs = [Generation(engine.adapter, ids, planner, timings[name]) for name, planner in CONTENDERS.items()]
        for _ in range(STEPS):
            for run in runs:
                run.step()
        for run in runs:
            run.finish()
    return timings


def tabulate(engine: Engine, length: int, timings: dict[str, Timing]) -> Table:
    """Ratios to the full run."""
    full = timings["full"]
    step = median(full.best_steps)
    table = Table(
        title=f"{length} tokens, {engine.adapter.dtype}; full: {full.first_s:.2f} s, then {step * 1e3:.1f} ms"
    )
    for heading in (
        "schedule", "first token", "predicted", "of it", "step, none back", "first step back", "mean of 32 steps",
        "64 tokens", "came back", "states/KV",
    ):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "schedule" else "right")
    for name, timing in timings.items():
        faster = full.first_s / timing.first_s
        promised = count_operations(engine.adapter, full.rows) / count_operations(engine.adapter, timing.rows)
        ratios = [each / base for each, base in zip(timing.best_steps, full.best_steps, strict=True)]
        quiet = [ratio for ratio, back in zip(ratios, timing.revived, strict=False) if not back]
        busy = [ratio for ratio, back in zip(ratios, timing.revived, strict=False) if back]
        table.add_row(
            name,
            f"{faster:.2f}x",
            f"{promised:.2f}x",
            f"{faster / promised:.0%}",
            f"{median(quiet):.2f}" if quiet else "-",
            f"{busy[0]:.2f}" if busy else "-",
            f"{mean(ratios[:32]):.2f}",
            f"{full.whole_s / timing.whole_s:.2f}x",
            f"{sum(timing.revived)}",
            f"{timing.aux_bytes / timing.kv_bytes:.1%}",
        )
    return table


def main() -> None:
    """Print one table a length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[200, 4096, 7500])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--text", type=Path, nargs="+", default=sorted(Path("docs").glob("*.md")))
    given = parser.parse_args()
    engine = Engine.load(dtype=given.dtype)
    ids = read_ids(given.text, engine.tokenizer)
    for length in given.lengths:
        Console(width=160).print(tabulate(engine, length, measure(engine, ids[:length], given.repeats)))


if __name__ == "__main__":
    main()
