"""Prompts, attention of their queries and verdicts for tests of Algorithm 1; no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from algorithm import PlainPrompt, Rows
from torch import Tensor

from fewer import Chunk, Look, Looked, ModelFacts, Observation, Prompt
from fewer.prune.entroprefill import EntroPrefill
from fewer.prune.entroprefill.procedure import Proposal, Verdict, decide
from fewer.prune.entroprefill.settings import GENERAL, Settings
from fewer.prune.entroprefill.situation import Situation

HEADS, GROUPS, LAYER = 4, 2, 2
FACTS = ModelFacts("made up", "0" * 32, 6, HEADS, GROUPS, (None,) * 6)
ALL = tuple(range(HEADS))
EASY = {"keep": "40%", "keep_at_most": "90%", "document_min": 1e-9, "residual_min": 1e-6, "tolerance": 0.4}


def prompt_of(*sizes: int, sinks: int = 2, gap: int = 1, query: int = 4, tail: int = 1, seed: int = 0) -> Prompt:
    """Sinks, chunks of these sizes with protected gaps between, the query, and a tail that is not the query's."""
    chunks, at = [], sinks
    for number, size in enumerate(sizes):
        chunks.append(Chunk(f"chunk {number}", at, at + size))
        at += size + gap
    total = at + query + tail
    protected = torch.ones(total, dtype=torch.bool)
    for chunk in chunks:
        protected[chunk.start : chunk.stop] = False
    ids = torch.randint(0, 1000, (total,), generator=torch.Generator().manual_seed(seed))
    return Prompt(ids, protected, tuple(chunks), (at, at + query))


def plain_of(prompt: Prompt) -> PlainPrompt:
    return PlainPrompt(prompt.protected.tolist(), [(chunk.start, chunk.stop) for chunk in prompt.chunks], prompt.query)


def settings_of(**changes: Any) -> Settings:
    return Settings(**{**GENERAL, **EASY, **changes})


def situation_of(prompt: Prompt, heads: tuple[int, ...] = ALL, **changes: Any) -> Situation:
    return Situation.of(settings_of(**changes), {LAYER: heads}, prompt)


def planner_of(**changes: Any) -> EntroPrefill:
    """Fitted, at one layer with all heads unless told otherwise."""
    given = {"monitor": {LAYER: "all"}, "profile": None, "shortest": 0, **EASY, **changes}
    return EntroPrefill(**given).fitted(FACTS)


def attention_of(prompt: Prompt, seed: int, sharp: float = 2.0) -> Tensor:
    """Random causal attention of the query's rows: [heads, rows, T] in float64."""
    begin, end = prompt.query
    generator = torch.Generator().manual_seed(seed)
    logits = sharp * torch.randn(HEADS, end - begin, len(prompt), generator=generator, dtype=torch.float64)
    future = torch.arange(len(prompt)) > torch.arange(begin, end)[:, None]
    return logits.masked_fill(future, -torch.inf).softmax(-1)


def spread(prompt: Prompt, *shares: float, sink: float = 0.0) -> Tensor:
    """Rows that are all alike: these shares on the chunks, evenly within each; `sink` on the first token, the rest
    on the query's first: [heads, rows, T]."""
    row = torch.zeros(len(prompt), dtype=torch.float64)
    for chunk, share in zip(prompt.chunks, shares, strict=True):
        row[chunk.start : chunk.stop] = share / chunk.num_tokens
    row[0] = sink
    row[prompt.query[0]] += 1.0 - float(row.sum())
    return row.expand(HEADS, prompt.query[1] - prompt.query[0], -1).clone()


def rows_at(prompt: Prompt, rows: Tensor, positions: Sequence[int]) -> Tensor:
    return rows[:, [position - prompt.query[0] for position in positions]]


def plain_rows(prompt: Prompt, rows: Tensor) -> Rows:
    begin, end = prompt.query
    return {(head, position): rows[head, position - begin].tolist() for head in ALL for position in range(begin, end)}


def verdict_of(situation: Situation, rows: Tensor, earlier: Sequence[Proposal] = ()) -> Verdict:
    """rows: of the whole query."""
    prompt = situation.prompt
    return decide(situation, LAYER, rows_at(prompt, rows, situation.positions), GROUPS, earlier)


def removed_of(verdict: Verdict, situation: Situation) -> list[int] | None:
    """Numbers of the prompt's chunks that the layer would remove."""
    removal = verdict.proposal.removal
    if removal is None:
        return None
    return [number for number, gone in zip(situation.candidates.index, removal.removed, strict=True) if gone]


def observe(prompt: Prompt, planner: EntroPrefill, rows: Tensor | dict[int, Tensor], layer: int = LAYER) -> Observation:
    """What the planner would see after `layer`; rows of the whole query, of each monitored layer so far."""
    looked = {}
    for look in planner.looks(prompt, FACTS.num_layers):
        assert isinstance(look, Look)
        if look.layer <= layer:
            given = rows[look.layer] if isinstance(rows, dict) else rows
            looked[look] = Looked(torch.arange(len(prompt)), rows_at(prompt, given, look.rows))
    generator = torch.Generator().manual_seed(0)
    return Observation(layer, torch.arange(len(prompt)), prompt, generator, None, FACTS.num_layers, looked=looked)
