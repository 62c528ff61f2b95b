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

import torch
from rich.console import Console
from rich.table import Table

from fewer import Engine, Prompt, Request, Sampling
from fewer.model.store import load_model, resolve

Run = Callable[[int], None]  # generate so many tokens
TOKENS = 32
OURS = {
    "fewer float32": ("float32", "native"),
    "fewer bfloat16": ("bfloat16", "native"),
    "fewer int8": ("bfloat16", "int8"),
}
PEERS = {"transformers float32": torch.float32, "transformers bfloat16": torch.bfloat16}


def read_ids(files: list[Path], tokenizer: object) -> torch.Tensor:
    """Token ids of the texts, one after the other, repeated until there are enough."""
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in files)
    ids = torch.tensor(tokenizer(text)["input_ids"])  # type: ignore[operator]
    return ids.repeat(-(-8000 // ids.numel()))


def our_run(engine: Engine, ids: torch.Tensor) -> Run:
    def run(tokens: int) -> None:
        engine.generate([Request(Prompt.from_ids(ids), Sampling(max_tokens=tokens, ignore_eos=True))])

    return run


def their_run(model: object, ids: torch.Tensor) -> Run:
    def run(tokens: int) -> None:
        model.generate(  # type: ignore[attr-defined]
            ids[None],
            attention_mask=torch.ones_like(ids)[None],
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
        )

    return run


def measure(run: Run, tokens: int) -> tuple[float, float]:
    """Wall and processor seconds."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    run(tokens)
    return time.perf_counter() - wall, time.process_time() - cpu


def compare(length: int, ids: torch.Tensor, repeats: int, models: dict[str, object]) -> list[list[str]]:
    """One row a contender: first token and each further token, as ratios to transformers float32."""
    runs = {
        name: our_run(model, ids[:length]) if isinstance(model, Engine) else their_run(model, ids[:length])
        for name, model in models.items()
    }
    best: dict[str, list[float]] = {}
    for _ in range(repeats):
        for name, run in runs.items():
            first, whole = measure(run, 1), measure(run, 1 + TOKENS)
            found = [*first, (whole[0] - first[0]) / TOKENS, (whole[1] - first[1]) / TOKENS]
            best[name] = [min(pair) for pair in zip(found, best.get(name, found), strict=True)]
    base = best["transformers float32"]
    rows = []
    for name, found in best.items():
        ratios = [f"{value / unit:.2f}" for value, unit in zip(found, base, strict=True)]
        peak = measure_peak(name, length)
        rows.append(
            [str(length), name, f"{found[0]:.3f}", *ratios[:2], f"{1000 * found[2]:.1f}", *ratios[2:], f"{peak:.0f}"]
        )
    return rows


def compare_batch(engine: Engine, ids: torch.Tensor, length: int, width: int = 8) -> str:
    """Tokens per second of eight requests decoded together over those of eight in a row, prefill left out."""

    def seconds(groups: list[list[Request]]) -> float:
        return sum(measure(lambda _, group=group: engine.generate(group) and None, 0)[0] for group in groups)  # type: ignore[misc]

    def requests(tokens: int) -> list[Request]:
        sampling = Sampling(max_tokens=tokens, ignore_eos=True)
        return [Request(Prompt.from_ids(ids[i * 50 : i * 50 + length]), sampling) for i in range(width)]

    together = seconds([requests(1 + TOKENS)]) - seconds([requests(1)])
    alone = seconds([[r] for r in requests(1 + TOKENS)]) - seconds([[r] for r in requests(1)])
    what = f"{width} requests of {length} tokens together, {engine.adapter.dtype}, {engine.adapter.weights} weights"
    return f"{what}: {alone / together:.2f} times the tokens per second of {width} in a row"


def measure_peak(name: str, length: int) -> float:
    """Peak resident megabytes of a fresh process that loads this contender and answers once."""
    command = [sys.executable, "-m", "benchmarks.speed", "--peak", name, str(length)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def print_peak(name: str, length: int) -> None:
    """The body of `measure_peak`'s process."""
    import resource

    ids = torch.randint(0, 40000, (length,), generator=torch.Generator().manual_seed(0))
    model = load(name)
    run = our_run(model, ids) if isinstance(model, Engine) else their_run(model, ids)
    run(4)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 2**20))


def load(name: str) -> object:
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
    for length in options.lengths:
        for row in compare(length, ids, options.repeats, models):
            table.add_row(*row)
    console = Console(width=120)
    console.print(table)
    for name in OURS:
        engine = models[name]
        assert isinstance(engine, Engine)
        console.print(compare_batch(engine, ids, 512))


if __name__ == "__main__":
    main()
