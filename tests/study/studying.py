"""A tiny model on disk, rows of a made-up task, and a study over them: a whole run takes seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tiny import Tiny

END = "<|end|>"
TIMED = ("prefill_s", "first_token_s", "per_output_token_s", "total_s", "ended", "receipt")  # differ from run to run
ARMS: list[dict[str, Any]] = [
    {"name": "full"},
    {"condition": "no_context"},
    {"prune": ["random", "static"], "keep": ["50%", "25%"], "layer": 1},
    {"name": "ends of it", "prune": "ends", "keep": 0.5},
]


def save_model(folder: Path) -> Path:
    """A random Llama of four layers over bytes, with 512 positions."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({symbol: number for number, symbol in enumerate(alphabet)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=END)
    settings = {"vocab_size": len(tokenizer), "max_position_embeddings": 512, "eos_token_id": len(tokenizer) - 1}
    Tiny("studied", "Llama", settings=settings).model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_rows(num_items: int, task: str = "tower_qa", chunk: str = "The lamp of tower {i} is red.") -> list[dict]:
    """Rows of a task in the format of DATA.md; two items to a group."""
    return [
        {
            "id": f"{task}-{i}",
            "task": task,
            "category": "single_doc_qa",
            "group": f"{task}-{i // 2}",
            "context_chunks": [
                {"title": f"T{j}", "text": chunk.format(i=i) + " " + "It is old. " * j} for j in range(3)
            ],
            "question": f"What colour is the lamp of tower {i}?",
            "answers": ["red"],
            "supporting": [i % 3],
            "metric": "qa_f1",
            "meta": {},
            "n_tokens": 10,
            "source": {"repo": "none", "path": "none", "commit": "none", "licence": "CC0"},
        }
        for i in range(num_items)
    ]


def write_rows(folder: Path, rows: list[dict]) -> None:
    """One file for the rows' task."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{rows[0]['task']}.jsonl").write_text(text, encoding="utf-8")


def write_study(folder: Path, model: Path, num_items: int = 6, **changes: Any) -> Path:
    """A study's file with its rows beside it."""
    write_rows(folder / "rows", make_rows(num_items))
    content = {
        "name": "towers",
        "model": {"path": str(model), "dtype": "float32"},
        "tasks": [{"name": "tower_qa", "data": "rows"}],
        "arms": ARMS,
        "seeds": [0, 1],
        "sampling": {"max_tokens": 6},
    } | changes
    file = folder / "study.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return file
