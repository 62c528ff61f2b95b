"""What goes into the engine and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fewer.decide import Evidence
from fewer.errors import bad
from fewer.evict import Policy
from fewer.prune import PLANNERS
from fewer.receipt import Receipt
from fewer.types import Planner, Prompt, Sampling

__all__ = ["Answer", "Request", "TokenLogprob", "as_request", "make_sampling"]


@dataclass(frozen=True)
class Request:
    """A prompt with its own settings. `prune` decides which prompt tokens go deeper; None computes them all.

    evict: which keys and values stay when the prompt has been read, and after; None keeps them all.
    layout_s: seconds already spent on tokenising and laying out, for the receipt. evidence: whether to collect what
    `fewer.decide.signals` read, on the answer's `evidence`; it changes no token, and costs time.
    """

    prompt: Prompt
    sampling: Sampling = field(default_factory=Sampling)
    prune: Planner | None = None
    layout_s: float = 0.0
    evict: Policy | None = None
    evidence: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.prompt, Prompt):
            raise bad("prompt", self.prompt, "a Prompt", "Make one with engine.prompt(question, documents).")
        if not isinstance(self.sampling, Sampling):
            raise bad("sampling", self.sampling, "a Sampling", "Make one with Sampling(max_tokens=64).")
        parts = ("name", "needs", "layers", "check", "after", "describe")
        if not isinstance(self.layout_s, (int, float)) or not 0 <= self.layout_s < float("inf"):
            raise bad("layout_s", self.layout_s, "seconds of at least 0", "Leave it out where nothing was timed.")
        if self.prune is not None and (
            isinstance(self.prune, type) or not all(hasattr(self.prune, part) for part in parts)
        ):
            raise bad("prune", self.prune, "a planner or None", _suggest(self.prune))
        if self.evict is not None and not isinstance(self.evict, Policy):
            way_out = 'Make one with fewer.evict.make_policy("systematic:question", budget="25%").'
            raise bad("evict", self.evict, "a Policy or None", way_out)
        if not isinstance(self.evidence, bool):
            raise bad("evidence", self.evidence, "True or False", "Leave it out where no signal is wanted.")


def _suggest(given: object) -> str:
    """How to write the planner that was meant by its name or its class."""
    name = given.strip().lower() if isinstance(given, str) else None
    if name == "none":
        return "Pass None, or leave it out."
    written = {
        "random": 'RandomPrune(keep="50%")',
        "static": 'StaticPrune(keep="50%")',
        "ends": 'EndsPrune(keep="50%")',
        "lexical": 'LexicalPrune(keep="50%")',
        "lazyllm": 'LazyLLM("balanced")',
        "entroprefill": "EntroPrefill()",
    }
    for planner, example in written.items():
        if name == planner or given is PLANNERS[planner]:
            return f"Pass {example}, or fewer.prune.make_planner({planner!r}, ...)."
    return f"Pass for example {written['lazyllm']} or {written['static']}."


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Log-probability of one generated token under the model itself, before temperature and truncation (nats)."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()  # the most likely tokens and theirs, best first


@dataclass(frozen=True)
class Answer:
    """The answer to one request. `ids` are all generated tokens, the end token included where one was generated.

    finish_reason: "stop" (end token), "length" (max_tokens), "stop_string", or "cancelled".
    """

    text: str
    ids: tuple[int, ...]
    finish_reason: str
    receipt: Receipt
    logprobs: tuple[TokenLogprob, ...] | None = None
    evidence: Evidence | None = None  # where the request asked for it
    first: Answer | None = None  # in a session: the answer over the compressed cache, where this one replaced it


def as_request(item: object) -> Request:
    """A request, or a prompt with default settings as one. Raises BadInput for anything else."""
    if isinstance(item, Prompt):
        return Request(item)
    if not isinstance(item, Request):
        raise bad("request", item, "a Request or a Prompt", "Make one with engine.request(question, documents).")
    return item


def make_sampling(settings: dict[str, Any]) -> Sampling:
    """From keywords. Raises TypeError for one that neither `Sampling` nor the engine's layout knows."""
    unknown = sorted(set(settings) - set(Sampling.__dataclass_fields__))
    if unknown:
        raise TypeError(
            f"unknown keyword {unknown[0]!r}; known ones are prune, evict, evidence, system, split, sinks, "
            "answer_prefix, truncate, chat, wording, " + ", ".join(Sampling.__dataclass_fields__)
        )
    return Sampling(**settings)
