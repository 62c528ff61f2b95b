"""`fewer` as a model of lm-evaluation-harness (lm_eval 0.4.13).

    python -m fewer.study.lm_eval_model --model fewer \\
        --model_args pretrained=DIR,dtype=float32,prune=static,keep=0.5,layer=20 --tasks ...

takes the arguments of `lm_eval`. The harness looks for models in a table of its own and nowhere else (no entry
points), so its plain command cannot find this one; `import fewer.study.lm_eval_model` adds it for
`lm_eval.simple_evaluate(model="fewer", ...)`. The model arguments are in `fewer.study.lm_eval.arguments`.

On the full run in float32 the numbers are those of the harness's `hf` model with one request at a time. With pruning
the context is the prompt: it is prefilled with the planner, and the continuation is read, or generated, on what that
left. All choices of a document are read on the same pruned context. The contexts of `loglikelihood_rolling` are one
token but for the last window of a text longer than `max_length`: there is next to nothing to prune in them.

The harness's `--use_cache` file knows requests and not model arguments: give each setting a file of its own.

Not covered: several processes, and stop strings that hold a control token beside other text.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress

try:
    from lm_eval.api.model import TemplateLM
    from lm_eval.api.registry import model_registry
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
except ImportError as error:
    raise ImportError(f"lm-evaluation-harness is needed ({error}). Run: pip install 'fewer[lm-eval]'") from error

import fewer
from fewer.engine import Engine
from fewer.errors import FewerError, bad
from fewer.study.lm_eval.arguments import read_arguments
from fewer.study.lm_eval.contexts import Contexts
from fewer.study.lm_eval.generation import read_decoding
from fewer.study.lm_eval.texts import Texts, load_tokenizer
from fewer.study.lm_eval.trail import Trail

__all__ = ["FewerLM", "main"]

_log = logging.getLogger("lm_eval.models.fewer")

_SAVED_AFTER = 8  # generations, in batches: results reach the cache and the receipts' file at least this often

Pair = tuple[Any, list[int], list[int]]  # the request's strings, the context's tokens, the continuation's tokens
Name = dict[str, Any]


class FewerLM(TemplateLM):  # type: ignore[misc]
    """The model. Its arguments are those of `fewer.study.lm_eval.arguments.Arguments`.

    Raises BadInput for an unknown one, ModelError or StorageError.
    """

    def __init__(self, pretrained: str | None = None, **arguments: Any) -> None:
        super().__init__()
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise bad("WORLD_SIZE", os.environ["WORLD_SIZE"], "1", "Start one process; fewer runs on one device.")
        given = self.arguments = read_arguments({"pretrained": pretrained, **arguments})
        device = given.device
        if (
            device.startswith("cuda") and not torch.cuda.is_available()
        ):  # what the harness asks for unless told otherwise
            _log.warning("There is no %s here; the model runs on the CPU.", device)
            device = "cpu"
        engine = Engine.load(
            given.pretrained, device, given.dtype, weights=given.weights, allow_pickle=given.allow_pickle
        )
        if given.add_bos_token is not None:
            tokenizer = load_tokenizer(engine.setting.source.path, given.add_bos_token)
            engine = Engine(engine.adapter, tokenizer, engine.setting)
        self.engine, self.tokenizer = engine, engine.tokenizer
        positions, vocabulary = engine.adapter.max_positions, engine.adapter.vocab_size
        if given.max_length is not None and given.max_length > positions:
            raise bad("max_length", given.max_length, f"at most {positions}, the model's positions", "Leave it out.")
        if given.prefix_token_id is not None and given.prefix_token_id >= vocabulary:
            raise bad("prefix_token_id", given.prefix_token_id, f"below {vocabulary}, the vocabulary", "Leave it out.")
        if given.planner is not None:
            given.planner.layers(engine.adapter.num_layers)
        self._texts = Texts(engine.tokenizer, given)
        self._contexts = Contexts(given, given.planner)
        self._trail = Trail(given.receipts)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.engine.adapter.device

    @property
    def eot_token_id(self) -> int | None:
        """The tokenizer's end token."""
        return self.tokenizer.eos_token_id  # type: ignore[no-any-return]

    @property
    def prefix_token_id(self) -> int:
        """What stands for an empty context."""
        return self._texts.prefix

    @property
    def max_length(self) -> int:
        """Tokens of context and continuation together."""
        return self.arguments.max_length or self.engine.adapter.max_positions

    @property
    def batch_size(self) -> int:
        """Contexts computed together."""
        return self.arguments.batch_size

    @property
    def tokenizer_name(self) -> str:
        """Names the harness's cache of requests."""
        return str(self.tokenizer.name_or_path).replace("/", "__")

    def get_model_info(self) -> dict[str, Any]:
        """What the harness writes into its results beside the arguments."""
        adapter, planner, counts = self.engine.adapter, self._contexts.planner, self._contexts
        return {
            "model_dtype": str(adapter.dtype),
            "model_sha": self.engine.setting.source.sha256 or "",
            "fewer": {
                "version": fewer.__version__,
                "device": str(adapter.device),
                "dtype_reason": self.engine.setting.dtype_reason,
                "prune": None if planner is None else {"name": planner.name, **planner.describe()},
                "requests": counts.requests,
                "requests_truncated": counts.truncated,
                "tokens_truncated": counts.truncated_tokens,
                "requests_with_nothing_to_prune": counts.unpruned,
            },
        }

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        """Token ids of a text to be scored."""
        return self._texts.encode(string, add_special_tokens)

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """A conversation as the model's template writes it."""
        return self._texts.write_chat(chat_history, add_generation_prompt)

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """(log-probability in nats, whether every token was the likeliest) for each (context, continuation)."""
        if self.arguments.enable_thinking:
            raise bad("enable_thinking", True, "left out for log-likelihoods", "Use it with tasks that generate.")
        pairs = [(request.args, *self._encode_request(*request.args)) for request in requests]
        return self._loglikelihood_tokens(pairs, disable_tqdm, [_name(request) for request in requests])

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        """The log-probability of each whole text, in nats, read in windows of `max_length` tokens."""
        if self._contexts.planner is not None:
            _log.warning("loglikelihood_rolling: contexts of one token, nothing to prune: numbers of the full model")
        pairs: list[Pair] = []
        names, owners = [], []
        for index, request in enumerate(requests):
            ids = self.tok_encode(request.args[0])
            windows = get_rolling_token_windows(ids, self.prefix_token_id, self.max_length, 1)
            for number, window in enumerate(map(make_disjoint_window, windows)):
                pairs.append((None, *window))
                names.append({**_name(request), "window": number})
                owners.append(index)
        totals = [0.0] * len(requests)
        for owner, (logprob, _) in zip(owners, self._loglikelihood_tokens(pairs, disable_tqdm, names), strict=True):
            totals[owner] += logprob
        for request, total in zip(requests, totals, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return totals

    def _loglikelihood_tokens(
        self, requests: Sequence[Pair], disable_tqdm: bool = False, names: Sequence[Name] = (), **_: Any
    ) -> list[tuple[float, bool]]:
        """Score continuations of contexts. Equal contexts are computed once, `batch_size` different ones together."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for index, (strings, context, continuation) in enumerate(requests):
            if not 1 <= len(continuation) <= self.max_length:
                legal = f"from 1 to {self.max_length} tokens long; it has {len(continuation)}"
                raise bad("the continuation in", strings, legal, "Check the task, or raise max_length.")
            groups.setdefault((min(len(context), self._room(continuation)), *context), []).append(index)
        found: list[tuple[float, bool]] = [(0.0, False)] * len(requests)
        with _progress("log-likelihoods", len(requests), disable_tqdm) as advance:
            for some in _batched(list(groups.values()), self.batch_size):
                order, made = [index for group in some for index in group], []
                for group in some:
                    _, context, continuation = requests[group[0]]
                    made += [self._contexts.make(context, self._room(continuation), uses=len(group))] * len(group)
                scores = self.engine.score(made, [requests[index][2] for index in order])
                for index, score in zip(order, scores, strict=True):
                    found[index] = (score.total, all(score.greedy))
                    if (strings := requests[index][0]) is not None:
                        self.cache_hook.add_partial("loglikelihood", strings, found[index])
                receipts = [score.receipt for score in scores]
                self._trail.add([names[index] if names else {} for index in order], receipts)
                advance(len(order))
        self._contexts.report()
        return found

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """A text for each (context, generation arguments), cut at the first of its stop strings."""
        groups: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            groups.setdefault(json.dumps(request.args[1], sort_keys=True, default=str), []).append(index)
        texts = [""] * len(requests)
        with _progress("generations", len(requests), disable_tqdm) as advance:
            for group in groups.values():
                for some, answers in self._generate([requests[index] for index in group]):
                    for index, text in zip(group[some], answers, strict=True):
                        texts[index] = text
                        self.cache_hook.add_partial("generate_until", requests[index].args, text)
                    advance(len(answers))
        self._contexts.report()
        return texts

    def _generate(self, requests: list[Any]) -> Iterator[tuple[slice, list[str]]]:
        """Texts for requests with the same generation arguments, some at a time."""
        own = getattr(self.engine.adapter.model, "generation_config", None)
        decoding = read_decoding(requests[0].args[1], own, self.tokenizer, self.engine.adapter.vocab_size)
        length = decoding.sampling.max_tokens
        if length >= self.max_length:
            raise bad("max_gen_toks", length, f"below {self.max_length}, the model's length", "Ask for fewer tokens.")
        engine = Engine(self.engine.adapter, self.tokenizer, self.engine.setting)
        engine.end_tokens |= decoding.end_tokens
        repeats = Counter[str]()
        for start in range(0, len(requests), _SAVED_AFTER * self.batch_size):
            some = slice(start, start + _SAVED_AFTER * self.batch_size)
            made, names = [], []
            for request in requests[some]:
                context = request.args[0]
                ids, repeat = self._texts.encode_prompt(context), repeats[context]
                made.append(self._contexts.make(ids, self.max_length - length, decoding.sampling, repeat))
                names.append({**_name(request), "repeat": repeat})
                repeats[context] += 1
            answers = engine.generate(made, max_running=self.batch_size)
            self._trail.add(names, [answer.receipt for answer in answers])
            yield some, [self._texts.decode(answer.ids, decoding.until) for answer in answers]

    def _encode_request(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """A context's and a continuation's tokens; an empty context is the prefix token."""
        if context:
            return self._encode_pair(context, continuation)  # type: ignore[no-any-return]
        ids = self._texts.encode(continuation, special=False)
        return (ids[:1], ids[1:]) if ids[:1] == [self.prefix_token_id] else ([self.prefix_token_id], ids)

    def _room(self, continuation: list[int]) -> int:
        """Tokens of context that fit; the continuation's last one is judged and takes no place."""
        return self.max_length + 1 - len(continuation)


def main() -> None:
    """The harness's own command line, with this model known to it."""
    from lm_eval.__main__ import cli_evaluate

    try:
        cli_evaluate()
    except FewerError as error:
        print(f"fewer: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _name(request: Any) -> Name:
    """Which request it is, for its line among the receipts."""
    return {
        "request": request.request_type,
        "task": request.task_name,
        "doc_id": request.doc_id,
        "idx": request.idx,
    }


def _batched(items: list[list[int]], size: int) -> Iterator[list[list[int]]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


@contextmanager
def _progress(what: str, total: int, hidden: bool) -> Iterator[Callable[[int], None]]:
    """A bar on standard error; call what it gives with the number of requests done."""
    with Progress(console=Console(stderr=True), disable=hidden) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


if "fewer" not in model_registry:
    import_module("lm_eval.models")  # the harness fills its table only while that is empty
    model_registry.register("fewer", target="fewer.study.lm_eval_model:FewerLM")

if __name__ == "__main__":
    main()
