"""The published methods as score x design x budget, and the names of policies.

A method is here if its choice of rows is one of ours with these settings; `differs` says what it does beside that and
we do not. Only designs that draw with known probabilities can have a certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from fewer.errors import bad
from fewer.evict.score import SCORES, check_score_name

__all__ = ["BUDGETS", "DESIGN_NAMES", "METHODS", "Method", "parse_policy_name"]

DESIGN_NAMES = ("topk", "poisson", "systematic", "pivotal", "conditional-poisson")
BUDGETS: dict[str, tuple[Literal["uniform", "pyramid", "adaptive"], Literal["equal", "adaptive"]]] = {
    "uniform": ("uniform", "equal"),  # layers and heads of a fewer.evict.budget.Budget
    "pyramid": ("pyramid", "equal"),
    "adaptive": ("uniform", "adaptive"),
    "pyramid, adaptive": ("pyramid", "adaptive"),
    "over layers": ("adaptive", "equal"),
    "over all layers": ("adaptive", "adaptive"),
}

_XIE = "Xie 2026, Error Certificates for KV-Cache Eviction"
_PUBLISHED = "core=0 size=score floor=1e-6 radius=paper, and pi clipped once, by (2)"


@dataclass(frozen=True, slots=True)
class Method:
    """A method by the parts that it is made of; `policy` is what to ask for."""

    name: str
    paper: str  # authors, year and arXiv number; empty for what nobody published
    score: str  # a key of SCORES, or one with "+spread" behind it
    design: str  # one of DESIGN_NAMES
    budget: str  # a key of BUDGETS
    differs: str  # what the publication does otherwise; empty where nothing is known

    @property
    def policy(self) -> str:
        """Its name for `parse_policy_name`."""
        return self.score if self.design == "topk" else f"{self.design}:{self.score}"

    @property
    def estimator(self) -> Literal["plug-in", "hajek"]:
        """Attention over what is left as it is, or each row weighted by 1/pi."""
        return "plug-in" if self.design == "topk" else "hajek"

    @property
    def certificate(self) -> bool:
        """Whether the error can be estimated from what is retained: only where the probabilities are known."""
        return self.design != "topk"


METHODS: tuple[Method, ...] = (
    Method("StreamingLLM", "Xiao et al. 2024, 2309.17453", "streaming", "topk", "uniform", "renumbers positions"),
    Method("H2O", "Zhang et al. 2023, 2306.14048", "h2o", "topk", "uniform", "half of the budget for recent rows"),
    Method("TOVA", "Oren et al. 2024, 2401.06104", "tova", "topk", "uniform", "drops a row at every step, no sinks"),
    Method(
        "SnapKV", "Li et al. 2024, 2404.14469", "snapkv", "topk", "uniform", "a set per query head; averages in pooling"
    ),
    Method("PyramidKV", "Cai et al. 2024, 2406.02069", "snapkv", "topk", "pyramid", "a set per query head"),
    Method("Ada-SnapKV", "Feng et al. 2024, 2407.11550", "snapkv", "topk", "adaptive", "a budget per query head"),
    Method(
        "Ada-Pyramid", "Feng et al. 2024, 2407.11550", "snapkv", "topk", "pyramid, adaptive", "a budget per query head"
    ),
    Method("key norm", "Devoto et al. 2024, 2406.11430", "keynorm", "topk", "uniform", "first layers left whole"),
    Method("KVzip", "Kim et al. 2025, 2505.23416", "kvzip", "topk", "over all layers", "no share for every head alike"),
    Method("KVzip, whole layers", "", "kvzip", "topk", "over layers", ""),
    Method("aware top-k", _XIE, "question", "topk", "uniform", "no pooling is described"),
    Method("Poisson on SnapKV", _XIE, "snapkv", "poisson", "uniform", _PUBLISHED),
    Method("Poisson on H2O", _XIE, "h2o", "poisson", "uniform", _PUBLISHED),
    Method("aware Poisson", _XIE, "question", "poisson", "uniform", _PUBLISHED),
    Method("fixed size, systematic", "", "question", "systematic", "uniform", ""),
    Method("fixed size, pivotal", "", "question", "pivotal", "uniform", ""),
    Method("fixed size, maximum entropy", "", "question", "conditional-poisson", "uniform", ""),
    Method("Neyman allocation", "", "question+spread", "systematic", "uniform", "core=0 size=score before=0 behind=0"),
)


def parse_policy_name(name: str) -> tuple[str, str]:
    """The design's name and the score's: "poisson:snapkv", or "snapkv" alone for ("topk", "snapkv").

    A score may have "+spread" behind it. Spaces around the parts and capitals do not matter. Raises BadInput, which for
    a method of the catalogue that is no score says how to ask for it.
    """
    legal = "a score, or a design and a score with a colon between them"
    way_out = "Write for example snapkv, or systematic:question."
    if not isinstance(name, str) or not 1 <= len(parts := name.strip().lower().split(":")) <= 2:
        raise bad("policy", name, legal, way_out)
    design, score = ("topk", parts[0]) if len(parts) == 1 else (parts[0].strip(), parts[1].strip())
    if not design or not score:
        raise bad("policy", name, legal, way_out)
    if len(parts) == 1 and score in DESIGN_NAMES:
        raise bad("policy", name, legal, f"{score} is a design: add a score, as in {score}:snapkv.")
    if design not in DESIGN_NAMES:
        near = get_close_matches(design, DESIGN_NAMES, 1)
        raise bad(
            "design",
            design,
            f"one of {', '.join(DESIGN_NAMES)}",
            f"Did you mean {near[0]}?" if near else "Leave it out for topk.",
        )
    for method in METHODS:
        if _flat(method.name) == _flat(score) and method.score != score:
            layers, heads = BUDGETS[method.budget]
            how = "" if method.budget == "uniform" else f" with layers='{layers}' and heads='{heads}'"
            raise bad("score", score, f"one of {', '.join(SCORES)}", f"{method.name} is {method.policy}{how}.")
    check_score_name(score)
    return design, score


def _flat(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
