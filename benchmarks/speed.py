"""First token, decoding and memory of the full run, against transformers in float32 on the same weights and prompts.

    python -m benchmarks.speed [--lengths 128 1024 4096 7500] [--repeats 3] [--text FILE...]

Contenders take turns in one process, so that a machine that slows down slows all of them; each figure is the best of
the repeats, and ratios are of processor time (user and system, all threads) and of wall time. Memory is the peak
resident set of a process of its own for each contender and length. Not measured here: GPUs, pruning, eviction.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from fewer import Engine, Prompt, Request, Sampling
from fewer.engine.batch import Batch
from fewer.engine.device import measure_peak as measure_peak_bytes
from fewer.model.store import load_model, resolve

Tick = Callable[[], None]
Run = Callable[[int, Tick], None]  # generate so many tokens, and call the second after each
TOKENS = 32
OURS = {
    "fewer float32": ("float32", "native"),
    "fewer bfloat16": ("bfloat16", "native"),
    "fewer int8": ("bfloat16", "int8"),
}
PEERS = {"transformers float32": torch.float32, "transformers bfloat16": torch.bfloat16}


def read_ids(files: list[Path], tokenizer: Any) -> torch.Tensor:
    """Token ids of the texts, one after the other, repeated until there are enough."""
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in files)
    ids = torch.tensor(tokenizer(text)["input_ids"])
    return ids.repeat(-(-8000 // ids.numel()))


class Ticker:
    """What transformers calls with the prompt and then with each token."""

    def __init__(self, tick: Tick) -> None:
        self.tick, self.calls = tick, 0

    def put(self, value: torch.Tensor) -> None:
        """The prompt at first, then one token at a time."""
        self.calls += 1
        if self.calls > 1:
            self.tick()

    def end(self) -> None:
        """Nothing is left to do."""


def our_run(engine: Engine, ids: torch.Tensor) -> Run:
    def run(tokens: int, tick: Tick) -> None:
        batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
        batch.add(Request(Prompt.from_ids(ids), Sampling(max_tokens=tokens, ignore_eos=True)))
        while not batch.idle:
            batch.step()
            tick()

    return run


def their_run(model: Any, ids: torch.Tensor) -> Run:
    def run(tokens: int, tick: Tick) -> None:
        model.generate(
            ids[None],
            attention_mask=torch.ones_like(ids)[None],
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            streamer=Ticker(tick),
        )

    return run


def measure(run: Run) -> list[float]:
    """First token in wall and processor seconds, and each further token likewise."""
    times: list[tuple[float, float]] = []
    gc.collect()
    begin = time.perf_counter(), time.process_time()
    run(1 + TOKENS, lambda: times.append((time.perf_counter(), time.process_time())))
    first, last = times[0], times[-1]
    return [first[0] - begin[0], first[1] - begin[1], (last[0] - first[0]) / TOKENS, (last[1] - first[1]) / TOKENS]


def compare(length: int, ids: torch.Tensor, repeats: int, models: dict[str, Any]) -> list[list[str]]:
    """One row a contender: first token and each further token, as ratios to transformers float32."""
    runs = {
        name: our_run(model, ids[:length]) if isinstance(model, Engine) else their_run(model, ids[:length])
        for name, model in models.items()
    }
    best: dict[str, list[float]] = {}
    for _ in range(repeats):
        for name, run in runs.items():
            found = measure(run)
            best[name] = [min(pair) for pair in zip(found, best.get(name, found), strict=True)]
    base = best["transformers float32"]
    rows = []
    for name, found in best.items():
        ratios = [f"{value / unit:.2f}" for value, unit in zip(found, base, strict=True)]
        peak = f"{measure_peak(name, length):.0f}"
        rows.append([str(length), name, f"{found[0]:.3f}", *ratios[:2], f"{1000 * found[2]:.1f}", *ratios[2:], peak])
    return rows


def compare_batch(engine: Engine, ids: torch.Tensor, length: int, width: int = 8) -> str:
    """Tokens per second of eight requests decoded together over those of eight in a row, prefill left out."""

    def decode_s(spans: list[int]) -> float:
        batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
        for start in spans:
            prompt = Prompt.from_ids(ids[start : start + length])
            batch.add(Request(prompt, Sampling(max_tokens=1 + TOKENS, ignore_eos=True)))
        batch.step()
        begin = time.perf_counter()
        while not batch.idle:
            batch.step()
        return time.perf_counter() - begin

    spans = [50 * number for number in range(width)]
    together, alone = decode_s(spans), sum(decode_s([start]) for start in spans)
    what = f"{width} requests of {length} tokens together, {engine.adapter.dtype}, {engine.adapter.weights} weights"
    return f"{what}: {alone / together:.2f} times the tokens per second of {width} in a row"


def measure_peak(name: str, length: int) -> float:
    """Peak resident megabytes of a fresh process that loads this contender and answers once."""
    command = [sys.executable, "-m", "benchmarks.speed", "--peak", name, str(length)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def print_peak(name: str, length: int) -> None:
    """The body of `measure_peak`'s process."""
    ids = torch.randint(0, 40000, (length,), generator=torch.Generator().manual_seed(0))
    model = load(name)
    run = our_run(model, ids) if isinstance(model, Engine) else their_run(model, ids)
    run(4, lambda: None)
    print(measure_peak_bytes(torch.device("cpu"))[0] / 2**20)


def load(name: str) -> Any:
    """A contender by its name. The peer reads the same files, in the form that suits its dtype best."""
    if name in OURS:
        dtype, weights = OURS[name]
        return Engine.load(dtype=dtype, weights=weights)
    model, _ = load_model(resolve(None), PEERS[name])

    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 1024, 4096, 7500])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--text", type=Path, nargs="+", help="texts to take prompts from (default: the documentation)")
    parser.add_argument("--peak", nargs=2, metavar=("NAME", "LENGTH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print_peak(options.peak[0], int(options.peak[1]))
        return
    root = Path(__file__).parent.parent
    files = options.text or sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("examples/*/*")])
    models = {name: load(name) for name in (*PEERS, *OURS)}
    engine = models["fewer bfloat16"]
    assert isinstance(engine, Engine)
    ids = read_ids(files, engine.tokenizer)
    table = Table(
        "tokens", "contender", "first token, s", "wall", "cpu", "per token, ms", "wall", "cpu", "peak MB",
        title=f"Ratios to transformers float32; {torch.get_num_threads()} threads, torch {torch.__version__}",
    )  # fmt: skip
    console = Console(width=120)
    for length in options.lengths:
        for row in compare(length, ids, options.repeats, models):
            table.add_row(*row)
            console.print("  ".join(row), style="dim")
    console.print(table)
    for name in OURS:
        engine = models[name]
        assert isinstance(engine, Engine)
        console.print(compare_batch(engine, ids, 512))


if __name__ == "__main__":
    main()
