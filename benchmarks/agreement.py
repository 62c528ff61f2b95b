"""Greedy tokens of a study's full arm against transformers' `generate`, in float32, on the study's own prompts.

    python -m benchmarks.agreement STUDY.yaml [--prompts 30] [--longest 4200] [--out FILE.md]

Tasks take turns, as they do in a run. Prompts longer than --longest are passed over, and counted. Prints one line a
prompt, with the margin of transformers' best token where the two first differ, and exits with 1 if any differs.
"""

from __future__ import annotations

import argparse
import sys
from itertools import zip_longest
from pathlib import Path

import torch
from transformers import GenerationConfig

from fewer import Engine, Request, Sampling
from fewer.model.store import load_model, resolve
from fewer.study.files import write_whole
from fewer.study.item import lay_out_item
from fewer.study.prepare import prepare
from fewer.study.spec import load_study


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("--prompts", type=int, default=30)
    parser.add_argument("--longest", type=int, default=4200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    study = load_study(options.study)
    engine = Engine.load(study.model.path, "cpu", "float32")
    model, _ = load_model(resolve(study.model.path), torch.float32)
    units = prepare(study, engine.tokenizer, options.study.parent).units
    short = [unit for unit in units if unit.num_tokens <= options.longest][: options.prompts]
    lines = ["| task | item | prompt tokens | generated | against transformers |", "|---|---|---|---|---|"]
    same = 0
    for unit in short:
        item = unit.item
        prompt = lay_out_item(engine.tokenizer, item, engine.adapter.max_positions)
        tokens = min(item.max_tokens, study.sampling.max_tokens or item.max_tokens)
        (answer,) = engine.generate([Request(prompt, Sampling(max_tokens=tokens, stop=item.stop))])
        config = GenerationConfig(max_new_tokens=tokens, eos_token_id=sorted(engine.end_tokens), pad_token_id=0)
        ids, mask = prompt.ids[None], torch.ones_like(prompt.ids[None])
        theirs = model.generate(ids, attention_mask=mask, generation_config=config)[0, len(prompt) :].tolist()
        if answer.finish_reason == "stop_string":  # theirs knows no stop strings
            theirs = theirs[: len(answer.ids)]
        told = "equal"
        if list(answer.ids) != theirs:
            at = next(i for i, pair in enumerate(zip_longest(answer.ids, theirs)) if pair[0] != pair[1])
            with torch.no_grad():
                best = model(torch.cat([prompt.ids, torch.tensor(theirs[:at])])[None]).logits[0, -1].topk(2).values
            told = f"differs at token {at}, where the best leads by {float(best[0] - best[1]):.1e}"
        same += told == "equal"
        lines.append(f"| {item.task} | {item.id} | {len(prompt)} | {len(answer.ids)} | {told} |")
        print(lines[-1], flush=True)
    left = len(units) - len(short)
    total = f"{same} of {len(short)} equal ({left} of the study's {len(units)} prompts not compared)."
    print(total)
    if options.out:
        write_whole(options.out, "\n".join([total, "", *lines, ""]))
    sys.exit(same != len(short))


if __name__ == "__main__":
    main()
