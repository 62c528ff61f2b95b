"""Greedy tokens of the full run against transformers' `generate`, in float32, on whole prompts from a folder of tasks.

    python -m benchmarks.agreement FOLDER [--prompts 30] [--tokens 64] [--longest 2500]

FOLDER holds `<task>.jsonl.gz` files, a row a line with `question` and `context_chunks` of {title, text}. One prompt is
taken from each task in turn, laid out as the engine lays it out and never cut; longer ones than --longest are passed
over. Prints one line a prompt, with the margin of transformers' best token where the two first differ, and exits with
1 if any differs.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import GenerationConfig

from fewer import Engine, Prompt, Request, Sampling
from fewer.errors import FewerError
from fewer.model.store import load_model, resolve


def read_prompts(engine: Engine, folder: Path, longest: int, tokens: int) -> Iterator[tuple[str, Prompt]]:
    """Prompts of every task in turn: the first row of each, then the second, and so on."""
    paths = sorted(folder.glob("*.jsonl.gz"))
    names = [path.name.removesuffix(".jsonl.gz") for path in paths]
    files = [gzip.decompress(path.read_bytes()).decode("utf-8").splitlines() for path in paths]
    for lines in itertools.zip_longest(*files):
        for name, line in zip(names, lines, strict=True):
            row = json.loads(line) if line else {}
            documents = [chunk for chunk in row.get("context_chunks", []) if chunk["text"].strip()]
            if not row.get("question", "").strip() or not documents:
                continue
            try:
                prompt = engine.prompt(row["question"], documents, max_tokens=tokens)
            except FewerError:  # longer than the model's positions
                continue
            if len(prompt) <= longest:
                yield name, prompt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prompts", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--longest", type=int, default=2500)
    options = parser.parse_args()
    engine = Engine.load(dtype="float32", device="cpu")
    model, _ = load_model(resolve(None), torch.float32)
    config = GenerationConfig(max_new_tokens=options.tokens, eos_token_id=sorted(engine.end_tokens), pad_token_id=0)
    same = total = 0
    for name, prompt in itertools.islice(
        read_prompts(engine, options.folder, options.longest, options.tokens), options.prompts
    ):
        ours = list(engine.generate([Request(prompt, Sampling(max_tokens=options.tokens))])[0].ids)
        ids = prompt.ids[None]
        theirs = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)[0, len(prompt) :]
        equal = ours == theirs.tolist()
        total, same, told = total + 1, same + equal, "equal"
        if not equal:
            at = next(i for i, pair in enumerate(itertools.zip_longest(ours, theirs.tolist())) if pair[0] != pair[1])
            with torch.no_grad():
                best = model(torch.cat([prompt.ids, theirs[:at]])[None]).logits[0, -1].topk(2).values
            told = f"differs at token {at}, where the best leads by {float(best[0] - best[1]):.1e}"
        print(f"{name}: {len(prompt)} tokens, {len(ours)} generated, {told}", flush=True)
    print(f"{same} of {total} equal")
    sys.exit(same != total)


if __name__ == "__main__":
    main()
