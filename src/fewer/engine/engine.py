"""The engine: a loaded model that answers. The only owner of device and dtype."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from fewer.engine.batch import Batch
from fewer.engine.device import choose_device, choose_dtype
from fewer.engine.diagnosis import Diagnosis
from fewer.engine.evidence import collect_evidence
from fewer.engine.fan import Outcome, fan_out
from fewer.engine.judging import explain_request
from fewer.engine.record import Setting, write_receipt
from fewer.engine.reference import diagnose
from fewer.engine.request import Answer, Request, as_request, make_sampling
from fewer.engine.score import Score, as_tokens, score_requests
from fewer.engine.sequence import Sequence as Running
from fewer.errors import bad
from fewer.evict import Policy
from fewer.model.adapter import Adapter
from fewer.model.conversion import cache_directory
from fewer.model.store import load_model, resolve
from fewer.prompt import lay_out
from fewer.prune.entroprefill.explain import Explanation
from fewer.types import Document, Planner, Prompt, Wording

__all__ = ["Engine", "Stream"]

_LOADING = threading.Lock()

Documents = Sequence[str | Mapping[str, str] | Document]


class Stream:
    """An answer while it is written: iterate for the pieces of text, then read `answer`.

    Closing it early, or leaving a `with` block, ends the request; `answer` then says "cancelled".
    """

    def __init__(self, engine: Engine, request: Request, arrived: float, progress: Callable[[int, int], None] | None):
        self._engine = engine
        self._batch = engine._batch(progress)
        self._sequence = self._batch.add(request, arrived)
        self._answer: Answer | None = None

    def __iter__(self) -> Iterator[str]:
        given = len(self._sequence.text.text)
        while not self._batch.idle:
            self._batch.step()
            text = self._sequence.text.text
            if len(text) > given:
                yield text[given:]
                given = len(text)
        if self._sequence.error is not None:
            raise self._sequence.error

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop here; what was generated stays in the answer."""
        self._batch.cancel(self._sequence)

    @property
    def answer(self) -> Answer:
        """The whole answer and its receipt. Generates what is missing, if the iteration stopped early."""
        if self._answer is None:
            for _ in self:
                pass
            self._answer = self._engine._answer(self._sequence)
            self._sequence.state.clear()
        return self._answer


class Engine:
    """A model ready to answer. Make one with `Engine.load`.

    Safe to use from several threads: a request keeps all of its state to itself. Not covered: more than one device.
    """

    def __init__(self, adapter: Adapter, tokenizer: PreTrainedTokenizerBase, setting: Setting) -> None:
        self.adapter, self.tokenizer, self.setting = adapter, tokenizer, setting
        self.end_tokens = _end_tokens(adapter, tokenizer)

    @classmethod
    def load(
        cls,
        name_or_path: str | Path | None = None,
        device: str = "auto",
        dtype: str | torch.dtype = "auto",
        *,
        weights: str = "native",
        allow_pickle: bool = False,
        progress: Callable[[str], None] | None = None,
    ) -> Engine:
        """Load a model: None is the embedded one; otherwise a local directory, a GGUF file, or a hub name.

        device: "auto", "cpu", "cuda", ... dtype: "auto" takes bfloat16 where this machine computes it faster (the
        choice is on every receipt), or "float32", "bfloat16". weights: "native", or "int8" for weight-only 8-bit
        products. Pickled weights are refused unless `allow_pickle`. `progress` is told what takes long.

        Raises ModelError, StorageError, or BadInput.
        """
        begin = time.perf_counter()
        place = choose_device(device)
        kind, reason = choose_dtype(dtype, place, cache_directory())
        if weights not in ("native", "int8"):
            raise bad("weights", weights, "'native' or 'int8'", "Leave it out for the weights as they are.")
        with _LOADING:  # transformers' loading and its verbosity belong to the whole process
            source = resolve(name_or_path, allow_pickle=allow_pickle, progress=progress)
            model, tokenizer = load_model(source, kind, allow_pickle=allow_pickle)
            adapter = Adapter(model.to(place), weights=weights, name=source.name)
        return cls(adapter, tokenizer, Setting(source, reason, time.perf_counter() - begin))

    def prompt(
        self,
        question: str,
        documents: Documents = (),
        *,
        system: str | None = None,
        split: str = "document",
        sinks: int = 4,
        answer_prefix: str = "",
        max_tokens: int = 256,
        truncate: bool = False,
        chat: bool = True,
        wording: Wording | None = None,
    ) -> Prompt:
        """Lay out a question over documents: token ids, the spans of the chunks, and what is protected.

        split: "document", "paragraph", or a number of tokens. `chat=False` leaves the model's chat template out, and a
        `wording` replaces the words around documents and question. Raises PromptTooLong when it does not fit together
        with `max_tokens`, unless `truncate` allows cutting document text from the end.
        """
        return lay_out(
            self.tokenizer,
            question,
            documents,
            system=system,
            split=split,
            sinks=sinks,
            max_positions=self.adapter.max_positions,
            max_tokens=max_tokens,
            truncate=truncate,
            answer_prefix=answer_prefix,
            chat=chat,
            wording=wording,
        )

    def request(
        self,
        question: str,
        documents: Documents = (),
        *,
        prune: Planner | None = None,
        evict: Policy | None = None,
        evidence: bool = False,
        system: str | None = None,
        split: str = "document",
        sinks: int = 4,
        answer_prefix: str = "",
        truncate: bool = False,
        chat: bool = True,
        wording: Wording | None = None,
        **sampling: Any,
    ) -> Request:
        """A request for `generate`. Keywords that are not about the layout are those of `Sampling`."""
        begin = time.perf_counter()
        settings = make_sampling(sampling)
        prompt = self.prompt(
            question,
            documents,
            system=system,
            split=split,
            sinks=sinks,
            answer_prefix=answer_prefix,
            max_tokens=settings.max_tokens,
            truncate=truncate,
            chat=chat,
            wording=wording,
        )
        return Request(prompt, settings, prune, time.perf_counter() - begin, evict, evidence)

    def ask(self, question: str, documents: Documents = (), **settings: Any) -> Answer:
        """Answer one question. Keywords: those of `request`, such as prune, evict, max_tokens, temperature, seed."""
        return self.generate([self.request(question, documents, **settings)])[0]

    def stream(
        self,
        question: str,
        documents: Documents = (),
        *,
        progress: Callable[[int, int], None] | None = None,
        **settings: Any,
    ) -> Stream:
        """Answer one question piece by piece. `progress` is called with (layer, layers) during the prefill."""
        request = self.request(question, documents, **settings)
        return Stream(self, request, time.perf_counter(), progress)

    def generate(self, requests: Iterable[Request | Prompt], *, max_running: int = 32) -> list[Answer]:
        """Answer many requests at once, by continuous batching; answers come in the order of the requests.

        Each gets the tokens it would get alone. A Prompt is a request with default settings. All are checked before
        anything runs. One that fails while it runs does not take the others along: they finish first, then the first
        error is raised, with everyone's answer (None where one failed) in its attribute `answers`.
        """
        if isinstance(max_running, bool) or not isinstance(max_running, int) or max_running < 1:
            raise bad("max_running", max_running, "a whole number of at least 1", "It bounds the memory in use.")
        if isinstance(requests, (Request, Prompt)) or not isinstance(requests, Iterable):
            raise bad("requests", type(requests).__name__, "several requests or prompts", "Put them into a list.")
        batch = self._batch(max_running=max_running)
        sequences = [batch.add(as_request(item)) for item in requests]
        answers: dict[int, Answer] = {}
        while not batch.idle:
            for sequence in batch.step():
                if sequence.finish_reason:
                    try:
                        answers[id(sequence)] = self._answer(sequence)
                    except Exception as error:  # a planner may describe itself as something no receipt can hold
                        sequence.error = error
                if sequence.finish_reason or sequence.error:
                    sequence.state.clear()  # its memory is free for the next one
        for failed in (sequence.error for sequence in sequences if sequence.error):
            failed.answers = [answers.get(id(sequence)) for sequence in sequences]  # type: ignore[attr-defined]
            raise failed
        return [answers[id(sequence)] for sequence in sequences]

    def score(self, requests: Sequence[Request | Prompt], continuations: Sequence[Sequence[int]]) -> list[Score]:
        """How likely each continuation (token ids) is after its request's prompt, under the request's pruning.

        Equal prompts in a row are prefilled once. What the request says about sampling is not used, except the seed.
        """
        if len(requests) != len(continuations):
            raise bad("continuations", len(continuations), f"{len(requests)}, one each", "Pass one for every request.")
        whole = [as_request(item) for item in requests]
        tokens = [as_tokens(continuation, self.adapter.vocab_size) for continuation in continuations]
        scores = []
        for sequence in score_requests(self._batch(), whole, tokens):
            logprobs = tuple(entry.logprob for entry in sequence.sampler.logprobs)
            receipt = write_receipt(sequence, self.adapter, self.setting)
            scores.append(Score(logprobs, tuple(sequence.greedy), receipt))
            sequence.state.clear()
        return scores

    def fan_out(self, requests: Sequence[Request], reference: Sequence[int] | None = None) -> list[Outcome]:
        """Answer one prompt in several ways (planners, seeds, samplings), sharing the prefill as far as it goes.

        With a `reference` (token ids), each outcome says how likely it was after what that way's prefill left. An error
        stays in the outcome of its request. All requests hold one Prompt object: `prompt = engine.prompt(...)`,
        then `Request(prompt, Sampling(max_tokens=64), planner)` for each way.
        """
        whole = [as_request(item) for item in requests]
        if not whole:
            raise bad("requests", [], "at least one request", "Pass the ways to answer in.")
        tokens = None if reference is None else as_tokens(reference, self.adapter.vocab_size)
        return fan_out(self._batch(max_running=len(whole)), whole, tokens, self._answer)

    def explain(self, request: Request, layer: int | None = None, *, bandwidth: float = 10.0) -> Explanation:
        """Why EntroPrefill, the request's planner, would act or not: one full prefill in which nothing leaves.

        layer: the monitored layer to show in full; None is the one that decides. bandwidth: Gbit/s at which the cache
        would be handed on. Raises BadInput.
        """
        return explain_request(self._batch(), self.tokenizer, as_request(request), layer, bandwidth)

    def diagnose(self, request: Request, *, max_tokens: int = 32) -> Diagnosis:
        """What the request's pruning lost, measured with the full model beside it; greedy answers of `max_tokens`."""
        return diagnose(self._batch(), as_request(request), max_tokens)

    def _batch(self, progress: Callable[[int, int], None] | None = None, max_running: int = 32) -> Batch:
        return Batch(self.adapter, self.tokenizer, self.end_tokens, max_running, progress=progress)

    def _answer(self, sequence: Running) -> Answer:
        return Answer(
            text=sequence.text.text,
            ids=tuple(sequence.ids),
            finish_reason=sequence.finish_reason,
            receipt=write_receipt(sequence, self.adapter, self.setting),
            logprobs=None if sequence.request.sampling.logprobs is None else tuple(sequence.sampler.logprobs),
            evidence=collect_evidence(sequence),
        )


def _end_tokens(adapter: Adapter, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """What ends an answer: the model's own generation settings, or else the tokenizer's end token."""
    ends = getattr(adapter.model.generation_config, "eos_token_id", None)
    if ends is None:
        ends = tokenizer.eos_token_id
    return frozenset([ends] if isinstance(ends, int) else ends or [])
