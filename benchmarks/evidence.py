"""What collecting evidence costs: decode steps and the question's pass with it over those without, in processor time.

    python -m benchmarks.evidence [--length 2048] [--budget 25%] [--policies pivotal:question snapkv] [--steps 48]

Two requests over one prompt take turns step by step in one process, each in a batch of its own; they answer the same,
which is checked. The context is compressed before its last 24 tokens, the question, are read. `step` is the median over
the steps of a step's own ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.speed import read_ids
from fewer import Chunk, Engine, Policy, Prompt, Request, Sampling
from fewer.engine.batch import Batch
from fewer.evict import make_policy

QUERY = 24


def time_passes(engine: Engine, prompt: Prompt, policy: Policy, steps: int) -> tuple[list[float], list[float]]:
    """Processor seconds of the question's pass and of each step after it, without evidence and with it."""
    sampling = Sampling(max_tokens=steps + 1, ignore_eos=True, logprobs=0)
    batches = [Batch(engine.adapter, engine.tokenizer, engine.end_tokens) for _ in range(2)]
    pairs = [
        (batch, batch.add(Request(prompt, sampling, evict=policy, evidence=evidence)))
        for batch, evidence in zip(batches, (False, True), strict=True)
    ]
    found: tuple[list[float], list[float]] = ([], [])
    while not all(batch.idle for batch in batches):
        for (batch, _), seconds in zip(pairs, found, strict=True):
            begin = time.process_time()
            batch.step()
            seconds.append(time.process_time() - begin)
    assert pairs[0][1].ids == pairs[1][1].ids
    return found[0][1:], found[1][1:]  # the first pass reads the context, which nobody measures


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--budget", default="25%")
    parser.add_argument("--policies", nargs="+", default=["pivotal:question", "snapkv"])
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--text", type=Path, nargs="+", default=sorted(Path("docs").glob("*.md")))
    given = parser.parse_args()
    engine = Engine.load(dtype=given.dtype)
    ids = read_ids(given.text, engine.tokenizer)[: given.length]
    protected = torch.ones(given.length, dtype=torch.bool)
    protected[: given.length - QUERY] = False
    context = Chunk("context", 0, given.length - QUERY)
    prompt = Prompt(ids, protected, (context,), (given.length - QUERY, given.length))
    table = Table(
        title=f"{given.length} tokens, {given.budget} kept, {engine.adapter.dtype}: with evidence over without"
    )
    for heading in ("policy", "step", "the question's pass", "a step without"):
        table.add_column(heading, justify="left" if heading == "policy" else "right")
    for name in given.policies:
        policy = make_policy(name, given.budget, moment="context")
        assert policy is not None
        plain, measured = time_passes(engine, prompt, policy, given.steps)
        ratios = [mine / other for mine, other in zip(measured[1:], plain[1:], strict=True)]
        step, question = statistics.median(ratios), measured[0] / plain[0]
        table.add_row(name, f"{step:.3f}x", f"{question:.2f}x", f"{statistics.median(plain[1:]) * 1e3:.1f} ms")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
