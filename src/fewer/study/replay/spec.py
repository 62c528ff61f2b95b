"""The replay study as its file says it: prompts, arms, budgets and claims, checked before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fewer.errors import BadInput, bad
from fewer.study.document import read_document
from fewer.study.files import hash_json

__all__ = ["MEASURES", "PACKAGED", "ArmSpec", "Claim", "Condition", "ReplayStudy", "load_replay"]

STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
PACKAGED = Path(__file__).with_name("replay.yaml")

Condition = Literal["aware", "stream"]
"""aware: compressed when the question has been read. stream: compressed before it; it and the answer come later."""
Measure = Literal[
    "calibrated_coverage",
    "calibrated_over_error",
    "coverage",
    "coverage_largest",
    "error_over_reference",
    "radius_over_main",
    "spearman",
    "variance_over_truth",
]
MEASURES: dict[Measure, str] = {
    "coverage": "cells whose error is at most the radius",
    "coverage_largest": "the same, of the tenth of cells with the largest error",
    "spearman": "rank correlation of radius and error, first draw",
    "error_over_reference": "median error over the reference arm's",
    "variance_over_truth": "average variance estimate over the average squared error, both relative to the output",
    "calibrated_coverage": "coverage of the radius times the factor",
    "calibrated_over_error": "median radius times the factor, over the median error",
    "radius_over_main": "median radius over the main arm's",
}
Share = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(strict=True, ge=1)]


class Generated(BaseModel):
    """One generated prompt."""

    model_config = STRICT

    task: str
    length: Count


class Documents(BaseModel):
    """Prompts from a folder of tasks with rows: of each task its first item, in the study's order, that fits."""

    model_config = STRICT

    tasks: tuple[str, ...]
    shortest: Count
    longest: Count


class ArmSpec(BaseModel):
    """A policy by its name and settings, and what is done to its score and its sets. draws: samples of each cache.

    rows: whose queries the score looks with. "question": aware, those of the question and what follows it; stream, the
    newest of the context. "own": as many of the newest as the score itself asks for.
    """

    model_config = STRICT

    name: str
    says: str
    policy: str
    settings: dict[str, Any] = Field(default_factory=dict)
    rows: Literal["question", "own"] = "question"
    score: Literal["own", "shuffled", "reversed"] = "own"
    sets: Literal["query head", "key-value head", "layer"] = "key-value head"
    draws: Count = 1


class Worlds(BaseModel):
    """Theorem 1: how often the evicted values are permuted, at which budget."""

    model_config = STRICT

    permutations: Count
    budget: Share


class Claim(BaseModel):
    """A claim about one measure of one arm, at every budget and condition named; none is all.

    At each of them it holds where the whole interval is at least `at_least` and at most `at_most`, is killed where the
    whole interval is outside of that, and is undecided otherwise. As a whole it holds where it holds everywhere, and is
    killed where it is killed anywhere.
    """

    model_config = STRICT

    id: str
    statement: str
    measure: Measure
    arm: str | None = None
    budgets: tuple[Share, ...] = ()
    conditions: tuple[Condition, ...] = ()
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _check(self) -> Claim:
        low, high = self.at_least, self.at_most
        if (low is None and high is None) or (low is not None and high is not None and low > high):
            raise bad(f"the bounds of claim {self.id}", (low, high), "one of them, or two in order", "Give a bound.")
        return self


class ReplayStudy(BaseModel):
    """A whole replay study. See `replay.yaml`, the one that comes along."""

    model_config = STRICT

    name: str
    title: str
    seed: Annotated[int, Field(strict=True, ge=0)]
    steps: Count
    budgets: Annotated[tuple[Share, ...], Field(min_length=1)]
    conditions: Annotated[tuple[Condition, ...], Field(min_length=1)]
    delta: Annotated[float, Field(gt=0, le=0.5)]
    main: str
    reference: str
    factor: Annotated[float, Field(gt=0)]
    generated: Annotated[tuple[Generated, ...], Field(min_length=1)]
    documents: Documents
    arms: Annotated[tuple[ArmSpec, ...], Field(min_length=1)]
    fewest: Count
    """Prompts without which no claim is judged."""
    worlds: Worlds
    claims: tuple[Claim, ...]

    @model_validator(mode="after")
    def _check(self) -> ReplayStudy:
        arms = [arm.name for arm in self.arms]
        _refuse_twice("arm", arms)
        _refuse_twice("claim", [claim.id for claim in self.claims])
        _refuse_twice("budget", [f"{budget:g}" for budget in self.budgets])
        named = {"main": self.main, "reference": self.reference}
        named |= {f"the arm of claim {claim.id}": claim.arm for claim in self.claims if claim.arm is not None}
        for what, name in named.items():
            if name not in arms:
                raise bad(what, name, f"one of {', '.join(arms)}", "Name an arm.")
        for claim in self.claims:
            for budget in claim.budgets:
                if budget not in self.budgets:
                    raise bad(f"a budget of claim {claim.id}", budget, f"one of {self.budgets}", "Name one of them.")
        return self

    @property
    def sha256(self) -> str:
        """The hash of the study's canonical JSON."""
        return hash_json(self.model_dump(mode="json"))

    def arm(self, name: str) -> ArmSpec:
        """The arm of this name."""
        return next(arm for arm in self.arms if arm.name == name)


def load_replay(path: str | Path = PACKAGED) -> ReplayStudy:
    """Read a replay study's file. Raises BadInput with the place, the value and the legal range."""
    try:
        return ReplayStudy.model_validate(read_document(Path(path)))
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"]) or "the study"
        raise BadInput(f"{path}: {place}: {fault['msg']}.") from None


def _refuse_twice(what: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise bad(what, name, "given once", "Take one of the two out.")
