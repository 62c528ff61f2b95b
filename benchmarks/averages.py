"""How steady averages of radii are: over draws of one cache, beside how far apart prompts and budgets are.

    python -m benchmarks.averages [--lengths 256 512 1024 2048] [--budgets 64 128 256 512] [--draws 4]

Generated prompts, each read once by the embedded model and answered with every budget and draw of `pivotal:question`.
The certificate of an answer is an average over layers and heads, the largest of its first six steps. `draws`: the
standard deviation of its logarithm over draws of one prompt and budget. `worst`: the largest of these. `between`: that
of its mean over prompts and budgets, with that of the draws taken off. It says which number is steady, not which one
is right.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from fewer import Engine, Request, Sampling
from fewer.evict import make_policy
from fewer.study.item import lay_out_item
from fewer.study.tasks.generate import generate_task

TASKS = ("ruler_niah_single_2", "ruler_niah_multikey_1")
AVERAGES: dict[str, Callable[[Tensor], Tensor]] = {  # of [L, heads, steps], for each step
    "mean (the paper's)": lambda radius: radius.mean((0, 1)),
    "mean of min(radius, 1)": lambda radius: radius.clamp(max=1).mean((0, 1)),
    "median over heads, mean over layers": lambda radius: radius.quantile(0.5, dim=1).mean(0),
    "median over layers and heads": lambda radius: radius.flatten(0, 1).quantile(0.5, dim=0),
    "root mean square": lambda radius: radius.square().mean((0, 1)).sqrt(),
    "geometric mean, .001 at least": lambda radius: radius.clamp(min=1e-3).log().mean((0, 1)).exp(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048])
    parser.add_argument("--budgets", type=int, nargs="+", default=[64, 128, 256, 512])
    parser.add_argument("--draws", type=int, default=4)
    chosen = parser.parse_args()
    engine = Engine.load(dtype="bfloat16")
    groups: dict[tuple[str, int, int], list[Tensor]] = {}
    for task in TASKS:
        for length in chosen.lengths:
            (item,) = generate_task(task, engine.tokenizer, length=length, num_items=1, seed=5)
            prompt = lay_out_item(engine.tokenizer, item, engine.adapter.max_positions)
            cells = [
                (budget, draw) for budget in chosen.budgets if budget < 0.6 * length for draw in range(chosen.draws)
            ]
            requests = [
                Request(
                    prompt,
                    Sampling(max_tokens=8, seed=draw, ignore_eos=True),
                    evict=make_policy("pivotal:question", budget),
                    evidence=True,
                )
                for budget, draw in cells
            ]
            for (budget, _), outcome in zip(cells, engine.fan_out(requests), strict=True):
                groups.setdefault((task, length, budget), []).append(outcome.answer.evidence.answer[..., :6].double())
    report(groups)


def report(groups: dict[tuple[str, int, int], list[Tensor]]) -> None:
    table = Table(box=None, title=f"{len(groups)} prompts and budgets")
    for heading in ("average", "draws", "worst", "between", "between/draws", "mean"):
        table.add_column(heading, justify="left" if heading == "average" else "right", no_wrap=True)
    for name, average in AVERAGES.items():
        logs = np.log([[float(average(radius).max()) for radius in draws] for draws in groups.values()])
        within = logs.std(1, ddof=1)
        spread = float(np.sqrt((within**2).mean()))
        between = float(np.sqrt(max(0.0, logs.mean(1).var(ddof=1) - spread**2 / logs.shape[1])))
        numbers = (spread, within.max(), between, between / spread, np.exp(logs.mean()))
        table.add_row(name, *(f"{number:.3f}" for number in numbers))
    Console(width=120).print(table)
    for budget in sorted({budget for _, _, budget in groups}):
        cells = torch.cat([one.flatten() for (_, _, kept), draws in groups.items() if kept == budget for one in draws])
        above = cells[cells > 1]
        print(
            f"{budget} rows: {len(above) / len(cells):.3f} of the radii are above 1 and have "
            f"{float(above.sum() / cells.sum()):.2f} of their sum; the largest is {float(cells.max()):.1f}"
        )


if __name__ == "__main__":
    main()
