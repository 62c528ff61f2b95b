"""Choosing the next token. The arithmetic is that of transformers' own logits processors, in generate()'s order.

Each request has a generator of its own, so a seed gives the same draws in any batch.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from fewer.engine.request import TokenLogprob
from fewer.types import Sampling

__all__ = ["Sampler"]


class Sampler:
    """Draws the tokens of one request, and remembers how close the calls were.

    `margins`: the best logit minus the second, of the model itself, at every token. `logprobs`: of every token, where
    the sampling or `keeps_logprobs` asks for them.
    """

    def __init__(
        self, sampling: Sampling, prompt_ids: Tensor, device: torch.device, keeps_logprobs: bool = False
    ) -> None:
        self.sampling = sampling
        self.margins: list[float] = []
        self.logprobs: list[TokenLogprob] = []
        self._keeps_logprobs = keeps_logprobs or sampling.logprobs is not None
        self._generator = torch.Generator(device).manual_seed(sampling.seed)
        self._processors = _processors(sampling)
        self._penalised = sampling.repetition_penalty != 1.0
        self._ids = prompt_ids.to(device)[None] if self._penalised else torch.zeros(1, 0, dtype=torch.int64)

    def choose(self, logits: Tensor) -> int | None:
        """The next token for logits [1, vocab]; None where any of them is not finite."""
        if not bool(torch.isfinite(logits).all()):
            return None
        best = logits.topk(min(2, logits.shape[-1]), dim=-1)
        top, index = best.values[0].tolist(), best.indices[0].tolist()
        self.margins.append(top[0] - top[-1])
        token: int = index[0]
        if self._processors:
            scores: Tensor = self._processors(self._ids, logits)
            if self.sampling.temperature > 0:
                token = int(torch.multinomial(scores.softmax(-1), 1, generator=self._generator))
            else:
                token = int(scores.argmax())
        if self._keeps_logprobs:
            self.logprobs.append(_logprob(logits[0], token, self.sampling.logprobs or 0))
        if self._penalised:
            self._ids = torch.cat([self._ids, self._ids.new_tensor([[token]])], dim=1)
        return token


def _processors(sampling: Sampling) -> LogitsProcessorList:
    """Penalty first, then temperature, top-k, top-p and min-p, as generate() orders them."""
    found = LogitsProcessorList()
    if sampling.repetition_penalty != 1.0:
        found.append(RepetitionPenaltyLogitsProcessor(float(sampling.repetition_penalty)))
    if sampling.temperature > 0:
        found.append(TemperatureLogitsWarper(float(sampling.temperature)))
        if sampling.top_k:
            found.append(TopKLogitsWarper(sampling.top_k))
        if sampling.top_p < 1:
            found.append(TopPLogitsWarper(float(sampling.top_p)))
        if sampling.min_p > 0:
            found.append(MinPLogitsWarper(float(sampling.min_p)))
    return found


def _logprob(logits: Tensor, token: int, num_top: int) -> TokenLogprob:
    logprobs = logits.log_softmax(-1)
    top = logprobs.topk(num_top) if num_top else None
    alternatives = tuple(zip(top.indices.tolist(), top.values.tolist(), strict=True)) if top is not None else ()
    return TokenLogprob(token, float(logprobs[token]), alternatives)
