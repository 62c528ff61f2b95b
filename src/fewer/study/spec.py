"""A study, as its file says it: model, tasks, arms, seeds, signals, outcomes and claims.

A study is one YAML file, or one Python file that defines `STUDY` (a `Study`, or a dict of the same shape). Everything
in it is checked before anything runs; an unknown key is an error. `Study.sha256` is that of its canonical JSON.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from fewer.errors import BadInput, bad
from fewer.study.arms import Arm, expand_arms
from fewer.study.claim import MEASURED_BY, STRICT, Claim, Count, Name, Real, Signal
from fewer.study.document import check_plain, read_document
from fewer.study.files import hash_json
from fewer.study.sessions.legal import asks_of_doubts, check_study
from fewer.study.signals import CERTIFICATES

__all__ = ["Claim", "ModelChoice", "Outcome", "SamplingChoice", "Study", "TaskChoice", "load_study"]

Seed = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Flag = Annotated[bool, Field(strict=True)]


class ModelChoice(BaseModel):
    """Which model answers; the fields are those of `Engine.load`."""

    model_config = STRICT

    path: str | None = None
    """None is the embedded model; otherwise a directory, a GGUF file, or a hub name."""
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    weights: Literal["native", "int8"] = "native"


class TaskChoice(BaseModel):
    """Which items of which task."""

    model_config = STRICT

    name: Name
    """A task of the folder `data`, of the shipped sample, or of a generator."""
    data: str | None = None
    """A folder with rows, or with a benchmark in its published format; relative to the study's file."""
    num_items: Count | None = None
    """Items to take (for generators: of each length and depth); None takes all."""
    lengths: tuple[Count, ...] = ()
    """For a generator: the whole prompt's tokens, exactly. `data` is then where it takes questions from."""
    depths: tuple[Annotated[Real, Field(ge=0, le=1)], ...] = ()
    """Generators only: where the needle lies, 0 to 1; without them it is spread."""
    max_length: Count | None = None
    """Items whose prompt is longer are left out before the run, and counted on every page."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """A generator's further settings."""


class SamplingChoice(BaseModel):
    """How tokens are chosen. An answer has at most the tokens that its benchmark allows."""

    model_config = STRICT

    max_tokens: Count | None = None
    """At most this many where the benchmark allows more."""
    temperature: Annotated[Real, Field(ge=0)] = 0.0
    top_p: Annotated[Real, Field(gt=0, le=1)] = 1.0


class Outcome(BaseModel):
    """A yes-or-no outcome of an answer, from its score and, where wanted, the full run's score on the same item."""

    model_config = STRICT

    name: Name
    at_least: Real | None = None
    """The answer's own score is at least this."""
    below: Real | None = None
    """The answer's own score is below this."""
    full_at_least: Real | None = None
    """The full run's score on the item is at least this."""
    full_below: Real | None = None
    """The full run's score on the item is below this."""

    @model_validator(mode="after")
    def _check(self) -> Outcome:
        bounds = (self.at_least, self.below, self.full_at_least, self.full_below)
        if self.name == "score" or all(bound is None for bound in bounds):
            raise bad("outcome", self.name, "another name than score, with at least one bound", "Give it a bound.")
        return self

    def holds(self, score: float, full: float) -> bool:
        """Whether an answer with this score, beside this score of the full run, has the outcome."""
        return (
            (self.at_least is None or score >= self.at_least)
            and (self.below is None or score < self.below)
            and (self.full_at_least is None or full >= self.full_at_least)
            and (self.full_below is None or full < self.full_below)
        )


class Study(BaseModel):
    """A whole study. The arm that leaves nothing out and sees the context is the reference, named `full`."""

    model_config = STRICT

    name: Name
    title: str = ""
    model: ModelChoice = Field(default_factory=ModelChoice)
    tasks: Annotated[tuple[TaskChoice, ...], Field(min_length=1)]
    arms: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)]
    """As written; lists in a field stand for every combination. `expanded` has them one by one."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0,)
    """Arms that draw run once for each; the others once, with the first."""
    task_seed: Seed = 0
    """Which items are taken or generated."""
    sampling: SamplingChoice = Field(default_factory=SamplingChoice)
    signals: tuple[Signal, ...] = ("agreement", "margins", "nll")
    outcomes: tuple[Outcome, ...] = (Outcome(name="correct", at_least=0.5),)
    claims: tuple[Claim, ...] = ()
    share: Flag = True
    """Arms over the same prompt share layers and steps. Seconds are then sums of parts; `false` runs each alone."""
    truncate: Flag = False
    """Cut the documents of prompts that do not fit; otherwise they are refused and counted as wrong."""

    @model_validator(mode="before")
    @classmethod
    def _check_plain(cls, content: Any) -> Any:
        check_plain(content)
        return content

    @model_validator(mode="after")
    def _check(self) -> Study:
        arms = {arm.name for arm in self.expanded}
        tasks = [task.name for task in self.tasks]
        _refuse_twice("task", [task.model_dump_json(exclude={"num_items"}) for task in self.tasks])
        _refuse_twice("outcome", [outcome.name for outcome in self.outcomes])
        _refuse_twice("claim", [claim.id for claim in self.claims])
        _refuse_twice("seed", [str(seed) for seed in self.seeds])
        for claim in self.claims:
            for name in (claim.arm, claim.reference, *claim.also):
                if name not in arms:
                    raise bad(f"the arm of claim {claim.id}", name, f"one of {', '.join(sorted(arms))}", "Name an arm.")
            for name in claim.tasks:
                if name not in tasks:
                    raise bad(f"the task of claim {claim.id}", name, f"one of {', '.join(tasks)}", "Name a task.")
            names = ["score", *(outcome.name for outcome in self.outcomes)]
            for name in (claim.outcome, *([claim.among] if claim.among else [])):
                if name not in names:
                    raise bad(f"the outcome of claim {claim.id}", name, f"one of {', '.join(names)}", "Define it.")
            if asks_of_doubts(claim):
                check_study(self, claim)
            elif claim.signal is not None:
                self._check_signal(claim, claim.signal)
            if claim.kind == "speedup" and self.share:
                raise bad(
                    f"share, with the speedup of claim {claim.id}",
                    True,
                    "false",
                    "Seconds count only where an arm ran alone.",
                )
        return self

    def _check_signal(self, claim: Claim, signal: str) -> None:
        """Raise BadInput where no answer of the claim's arm can have the signal."""
        if signal in CERTIFICATES:
            policy = next(arm.policy for arm in self.expanded if arm.name == claim.arm)
            if policy is None or policy.certified is None:
                legal = "left to arms that draw with known probabilities, by hajek, and without certify: false"
                raise bad(f"the signal of claim {claim.id}", signal, legal, f"{claim.arm} has no certificate.")
        elif MEASURED_BY[signal] not in self.signals:
            legal = f"with {MEASURED_BY[signal]}, which measures the {signal} of claim {claim.id}"
            raise bad("signals", list(self.signals), legal, "Add it to signals.")

    @property
    def expanded(self) -> tuple[Arm, ...]:
        """Every arm, one by one."""
        return expand_arms(self.arms)

    @property
    def sha256(self) -> str:
        """The hash of the study's canonical JSON."""
        return hash_json(self.model_dump(mode="json"))


def load_study(path: str | Path) -> Study:
    """Read a study's file. Raises BadInput with the file, the place in it, the value and the legal range."""
    path = Path(path)
    content = read_document(path)
    if isinstance(content, Study):
        return content
    if not isinstance(content, dict):
        raise bad(f"{path}", type(content).__name__, "a mapping with name, tasks and arms", "See docs/studies.md.")
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        raise BadInput(f"{path}: {_describe(error)}") from None


def _describe(error: ValidationError) -> str:
    """The first three faults, each with its place and the value."""
    lines = []
    for fault in error.errors()[:3]:
        place = ".".join(str(part) for part in fault["loc"]) or "the study"
        message = fault["msg"].removeprefix("Value error, ").rstrip(".")
        shown = "" if fault["type"] in ("missing", "value_error") else f" (it is {fault['input']!r:.80})"
        lines.append(f"{place}: {message}{shown}.")
    more = error.error_count() - len(lines)
    return " ".join(lines) + (f" And {more} more." if more > 0 else "")


def _refuse_twice(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise bad(what, name, "given once", "Take one of the two out.")
        seen.add(name)
