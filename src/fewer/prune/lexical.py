"""Dropping text before the model reads it: what shares the question's rarer tokens stays. No model is needed.

The classical opponent of every method that looks at attention: BM25 (Robertson and Zaragoza 2009, equation 3.15, times
k1 + 1, which changes no order, with Lucene's idf, which is never negative) over the prompt's own passages, of the
question's own token ids, each counted once. What it drops is gone, before the first layer.

It cannot follow a paraphrase, a pronoun or a second hop, and knows nothing of words: an inflected form, another case or
another way to cut a word into tokens is another term. Rarity is counted in this prompt alone. No certificate is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from fewer.prune.planner import Grain, at_layer, check_grain, plan_by_chunk, plan_by_token
from fewer.types import Keep, Observation, Plan, Prompt

__all__ = ["LexicalPrune", "score_bm25"]

_PASSAGE = 32  # tokens
_K1, _B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class LexicalPrune:
    """Keep what has the most in common with the question, by BM25 with k1 = 1.2 and b = 0.75.

    keep: `256` tokens, `0.25` or `"25%"` of the prompt. layer: None is 0, before the first layer.
    grain: "token" ranks passages of 32 tokens, cut from each chunk's start, and fills the budget to the token; "chunk"
    ranks and keeps whole chunks. Ties keep the earlier, so a question that shares nothing keeps the beginning.
    """

    keep: int | float | str | Keep
    layer: int | None = None
    grain: Grain = "token"

    name: ClassVar[str] = "lexical"
    needs: ClassVar[Literal["nothing", "last_query"]] = "nothing"

    def __post_init__(self) -> None:
        object.__setattr__(self, "keep", Keep.parse(self.keep))
        check_grain(self.grain)

    def layers(self, num_layers: int) -> tuple[int, ...]:
        """The one layer to be asked after."""
        return at_layer(0 if self.layer is None else self.layer, num_layers, lowest=0)

    def check(self, prompt: Prompt) -> None:
        """A budget of more tokens than the prompt has is BadInput."""
        Keep.parse(self.keep).count(len(prompt))

    def describe(self) -> dict[str, str | int | float | None]:
        """The settings, for the receipt."""
        return {"keep": str(self.keep), "layer": self.layer, "grain": self.grain}

    def after(self, observation: Observation) -> Plan:
        """Rank by the question's tokens."""
        prompt, budget = observation.prompt, Keep.parse(self.keep)
        spans = [(chunk.start, chunk.stop) for chunk in prompt.chunks]
        if self.grain == "chunk":
            return plan_by_chunk(observation, budget, _rank(prompt, spans).tolist(), "chunks like the question")
        passages = [
            (first, min(stop, first + _PASSAGE)) for start, stop in spans for first in range(start, stop, _PASSAGE)
        ]
        place = torch.zeros(len(prompt), dtype=torch.int64)  # of each token's passage, among all
        for rank, index in enumerate(_rank(prompt, passages).tolist()):
            place[slice(*passages[index])] = rank
        pos = observation.pos.cpu()
        free = (~prompt.protected[pos]).nonzero().flatten()
        order = free[place[pos[free]].argsort(stable=True)]
        return plan_by_token(observation, budget, order, "passages like the question")


def score_bm25(query: NDArray[np.int64], passages: list[NDArray[np.int64]]) -> NDArray[np.float64]:
    """BM25 of each passage for the distinct token ids of the query: [passages], at least 0. query: [m].

    Sum over terms of idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length)), with idf = ln(1 + (N - df +
    0.5) / (df + 0.5)): tf is the term's count in the passage, df the number of the N passages that have it.
    """
    sizes = np.array([passage.size for passage in passages], dtype=np.float64)
    score = np.zeros(len(passages))
    if not len(passages):
        return score
    owner, ids = np.repeat(np.arange(len(passages)), sizes.astype(np.int64)), np.concatenate(passages)
    damping = _K1 * (1 - _B + _B * sizes / sizes.mean())
    for term in np.unique(query):
        count = np.bincount(owner[ids == term], minlength=len(passages)).astype(np.float64)
        having = np.count_nonzero(count)
        idf = np.log1p((len(passages) - having + 0.5) / (having + 0.5))
        score += idf * count * (_K1 + 1) / (count + damping)
    return score


def _rank(prompt: Prompt, spans: list[tuple[int, int]]) -> NDArray[np.int64]:
    """Indices of the spans, best first, of equal ones the earlier."""
    ids = prompt.ids.numpy()
    score = score_bm25(ids[slice(*prompt.query)], [ids[start:stop] for start, stop in spans])
    return np.argsort(-score, kind="stable")
