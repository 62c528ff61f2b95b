"""A tiny model in a directory with a tokenizer, and the harness run on the tasks beside this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lm_eval
import yaml
from lm_eval.api.instance import Instance
from lm_eval.tasks import TaskManager
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import fewer.study.lm_eval_model  # noqa: F401  (makes `fewer` known to the harness)
from tiny import SHAPE, randomise

TASKS = Path(__file__).parent / "lm_eval_tasks"
START, END, TURN = "<|start|>", "<|end|>", "<|turn|>"
MERGES = ["h e", "t h", "th e", "Ġ the", "Ġ a", "o r", "i n", "e r", "a n", "Ġ w", "l l", "o u", "s t", "r i"]
POSITIONS = 192
CHAT = (
    "{% for turn in messages %}{% if turn['role'] == 'system' and not allow_system %}"
    "{{ raise_exception('no system') }}{% endif %}<|turn|>{{ turn['role'] }}\n{{ turn['content'] }}"
    "{% if not loop.last or add_generation_prompt %}<|end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)


def make_tokenizer(bos: bool, system: bool = True) -> PreTrainedTokenizerFast:
    """Byte-level BPE with an end and a turn token; with `bos` also a start token, put before every text."""
    merges = [tuple(merge.split(" ")) for merge in MERGES]
    symbols = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(merge) for merge in merges)]
    core = Tokenizer(models.BPE({symbol: number for number, symbol in enumerate(symbols)}, merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    names = {"bos_token": START, "add_bos_token": True} if bos else {}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=END, additional_special_tokens=[TURN], **names)
    tokenizer.chat_template = CHAT.replace("allow_system", "true" if system else "false")
    return tokenizer


def save_model(folder: Path, bos: bool, system: bool = True, **generation: Any) -> Path:
    """Save a tiny Llama with random weights, inclined to end and to take turns.

    `generation` goes into its generation_config.json.
    """
    tokenizer = make_tokenizer(bos, system)
    settings = {**SHAPE, "vocab_size": len(tokenizer), "max_position_embeddings": POSITIONS}
    model = randomise(LlamaForCausalLM(LlamaConfig(**settings)))
    model.lm_head.weight.data[tokenizer.convert_tokens_to_ids([END, TURN])] *= 1.5
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    for name, value in generation.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def read_task(name: str, cache: Path, **changes: Any) -> dict[str, Any]:
    """A task's configuration, its data by absolute path; `cache` is for the harness's copy of the data."""
    config = yaml.safe_load((TASKS / f"{name}.yaml").read_text("utf-8"))
    data = str(TASKS / config["dataset_kwargs"]["data_files"]["test"])
    config["dataset_kwargs"] = {"data_files": {"test": data}, "cache_dir": str(cache)}
    return {**config, **changes}


def evaluate(model: str, folder: Path, tasks: list[dict[str, Any]], settings: Any = None, **args: Any) -> Any:
    """What the harness says, with its samples. `settings` are its own; `args` are model arguments."""
    return lm_eval.simple_evaluate(
        model=model,
        model_args={"pretrained": str(folder), "dtype": "float32", "device": "cpu", **args},
        tasks=[dict(task) for task in tasks],
        task_manager=TaskManager(include_defaults=False),
        bootstrap_iters=0,
        **(settings or {}),
    )


def read_answers(results: Any) -> dict[str, list[Any]]:
    """What the model answered: for each task, for each document, for each of its requests."""
    return {
        name: [[response[0] for response in sample["resps"]] for sample in samples]
        for name, samples in results["samples"].items()
    }


def ask(kind: str, *arguments: tuple[Any, ...]) -> list[Instance]:
    """Requests as the harness makes them."""
    return [
        Instance(kind, {}, argument, 0, metadata=("made_up", number, 1)) for number, argument in enumerate(arguments)
    ]


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
