"""Eviction's mechanism: a step after it against one over the full cache, compressing, bytes, the certificate.

    python -m benchmarks.eviction [--lengths 2048 7500] [--budgets 50% 25% 12.5%] [--policies snapkv ...] [--steps 32]

Contenders take turns in one process, in one number format, each on its own copy of the same prefilled state; a step's
figure is the best of the steps, since a slower one was disturbed. `certified` is the same whole step, sampled, with the
certificate of every layer and head over that without it: in seconds, best over best, and in processor time (user and
system, all threads), the median over the steps of a step's own ratio, which is the steadier number on a busy machine.
`bytes` are of the keys' and values' storages, and behind the plus of what the certificate holds besides. The last table
reads the prompt block by block, compressing after each: the most bytes the cache ever held, over the full cache's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.speed import read_ids
from fewer import Engine, Policy, Prompt
from fewer.engine.keeper import Keeper
from fewer.evict import make_policy
from fewer.kv import State
from fewer.model.forward import forward
from fewer.model.segment import Segment

HEADROOM = 64
QUERY = 24


@dataclass
class Contender:
    """One cache that steps are taken over. policy: None keeps everything."""

    name: str
    policy: Policy | None
    state: State = field(default_factory=lambda: State([]))
    keeper: Keeper | None = None
    best_s: float = float("inf")
    cpu_s: list[float] = field(default_factory=list)  # of each step
    compress_s: float = 0.0
    num_bytes: int = 0


def prefill(engine: Engine, prompt: Prompt, contenders: list[Contender]) -> None:
    """The prompt for each contender, and its cache brought down to its budget."""
    for one in contenders:
        one.state = State.new(engine.adapter.num_layers, HEADROOM)
        if one.policy is not None:
            one.keeper = Keeper(one.policy, prompt, seed=0)
            one.keeper.open(one.state)
        forward(engine.adapter, [Segment(one.state, prompt.ids)])
        if one.keeper is not None:
            one.keeper.settle(one.state)
            one.compress_s = one.keeper.seconds
        one.num_bytes = one.state.nbytes


def step(engine: Engine, one: Contender, token: torch.Tensor) -> None:
    """One token over the contender's cache, with its certificate if it has one."""
    begin, cpu_begin = time.perf_counter(), time.process_time()
    forward(engine.adapter, [Segment(one.state, token, witness=one.keeper.witness if one.keeper else None)])
    if one.keeper is not None:
        one.keeper.settle(one.state)
    one.cpu_s.append(time.process_time() - cpu_begin)
    one.best_s = min(one.best_s, time.perf_counter() - begin)


def measure(engine: Engine, ids: torch.Tensor, names: list[str], budgets: list[str], steps: int) -> list[Contender]:
    """The full cache first; each policy at each budget, sampled ones without and with their certificate."""
    size = ids.numel()
    protected = torch.ones(size, dtype=torch.bool)
    prompt = Prompt(ids, protected, (), (size - QUERY, size))
    contenders = [Contender("full", None)]
    for name in names:
        for budget in budgets:
            policy = make_policy(name, budget)
            assert policy is not None
            plain = replace(policy, certify=False) if policy.certified else policy
            contenders.append(Contender(f"{name} {budget}", plain))
            if policy.certified:
                contenders.append(Contender(f"{name} {budget}, certified", policy))
    prefill(engine, prompt, contenders)
    token = ids[:1]
    for number in range(steps):
        for one in contenders[number % len(contenders) :] + contenders[: number % len(contenders)]:
            step(engine, one, token)
    return contenders


def show(length: int, contenders: list[Contender]) -> Table:
    """A row for each contender."""
    table = Table(title=f"{length} tokens")
    for heading in ("cache", "step", "tokens/s", "against full", "certified", "in CPU time", "bytes", "compressing"):
        table.add_column(heading, justify="left" if heading == "cache" else "right")
    full = contenders[0]
    by_name = {one.name: one for one in contenders}
    for one in contenders:
        plain = by_name.get(one.name.removesuffix(", certified"))
        extra = cpu_extra = more_bytes = ""
        if plain is not None and plain is not one:
            extra = f"{one.best_s / plain.best_s:.3f}x"
            ratios = [mine / other for mine, other in zip(one.cpu_s, plain.cpu_s, strict=True)]
            cpu_extra = f"{statistics.median(ratios):.3f}x"
        if one.keeper is not None and one.keeper.witness is not None:
            more_bytes = f" + {one.keeper.witness.nbytes / full.num_bytes:.1%}"
        table.add_row(
            one.name,
            f"{one.best_s * 1e3:.1f} ms",
            f"{1 / one.best_s:.1f}",
            f"{full.best_s / one.best_s:.2f}x",
            extra,
            cpu_extra,
            f"{one.num_bytes / full.num_bytes:.0%}{more_bytes}",
            f"{one.compress_s:.2f} s" if one.policy else "",
        )
    return table


def read_in_blocks(engine: Engine, ids: torch.Tensor, name: str, keep: int, block: int) -> Table:
    """The prompt at once and block by block: seconds, and the most bytes of keys and values at any time."""
    size = ids.numel()
    prompt = Prompt(ids, torch.ones(size, dtype=torch.bool), (), (size - QUERY, size))
    whole = State.new(engine.adapter.num_layers, HEADROOM)
    begin = time.perf_counter()
    forward(engine.adapter, [Segment(whole, ids)])
    full_s, full_bytes = time.perf_counter() - begin, whole.nbytes
    whole.clear()
    policy = make_policy(name, keep, block=block)
    assert policy is not None
    keeper, state = Keeper(policy, prompt, seed=0), State.new(engine.adapter.num_layers, HEADROOM)
    keeper.open(state)
    begin = time.perf_counter()
    while state.num_seen < size:
        forward(engine.adapter, [Segment(state, ids[keeper.part(state)], witness=keeper.witness)])
        keeper.settle(state)
    blocks_s = time.perf_counter() - begin
    table = Table(title=f"{size} tokens, {name}, {keep} rows kept, in blocks of {block}")
    for heading in ("", "seconds", "of them compressing", "most bytes", "of the full cache"):
        table.add_column(heading, justify="right")
    table.add_row("at once, full", f"{full_s:.2f}", "", f"{full_bytes / 2**20:.1f} MiB", "100%")
    share = f"{keeper.most_bytes / full_bytes:.0%}"
    table.add_row(
        "in blocks", f"{blocks_s:.2f}", f"{keeper.seconds:.2f}", f"{keeper.most_bytes / 2**20:.1f} MiB", share
    )
    return table


def main() -> None:
    """Print a table for each length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 7500])
    parser.add_argument("--budgets", nargs="+", default=["50%", "25%", "12.5%"])
    parser.add_argument("--policies", nargs="+", default=["question", "pivotal:question", "poisson:question"])
    parser.add_argument("--block", type=int, default=512)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--text", type=Path, nargs="+", default=sorted(Path("docs").glob("*.md")))
    given = parser.parse_args()
    engine = Engine.load(dtype=given.dtype)
    ids = read_ids(given.text, engine.tokenizer)
    for length in given.lengths:
        if given.block < length:
            Console(width=120).print(read_in_blocks(engine, ids[:length], given.policies[0], length // 8, given.block))
        Console(width=120).print(
            show(length, measure(engine, ids[:length], given.policies, given.budgets, given.steps))
        )


if __name__ == "__main__":
    main()
