"""The arms of a replay: policies as they are served, and scores and designs that are worse on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from fewer.evict import Policy, make_policy
from fewer.study.replay.spec import ArmSpec
from fewer.types import CacheView, KnownDesign, Needs, RowScore, Sample

__all__ = ["OneSet", "Reversed", "Shuffled", "make_arm"]

Described = Mapping[str, str | int | float | None]


def make_arm(arm: ArmSpec, budget: float, delta: float, count: int, seed: int) -> Policy:
    """The arm's policy at this budget. count: the rows of the question that it looks with, unless it asks for its own.

    seed: of the shuffled score. Raises BadInput as `make_policy` does.
    """
    rows = {"count": count} if arm.rows == "question" else {}
    policy = make_policy(arm.policy, budget, **arm.settings, **rows)
    assert policy is not None
    if policy.certified:
        policy = replace(policy, delta=delta)
    if arm.score == "shuffled":
        policy = replace(policy, score=Shuffled(policy.score, seed))
    elif arm.score == "reversed":
        policy = replace(policy, score=Reversed(policy.score))
    if arm.sets == "layer":
        assert policy.certified is not None
        policy = replace(policy, design=OneSet(policy.certified))
    return policy


@dataclass(frozen=True, slots=True)
class Shuffled:
    """Another score's numbers, dealt out to rows at random: as uneven as it, and it knows nothing."""

    inner: RowScore
    seed: int

    @property
    def name(self) -> str:
        """Its name on receipts."""
        return f"{self.inner.name}, shuffled"

    @property
    def needs(self) -> Needs:
        """What the inner score needs; its queries are those that the audit looks with."""
        return self.inner.needs

    @property
    def gathers(self) -> bool:
        """Nothing."""
        return False

    def __call__(self, view: CacheView) -> Tensor:
        """[kv_heads, n] float32."""
        score = self.inner(view)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + view.layer)
        order = torch.rand(score.shape, generator=generator).argsort(1).to(score.device)
        return score.gather(1, order)

    def describe(self) -> Described:
        """The seed, and the inner score's settings."""
        return {"seed": self.seed, **self.inner.describe()}


@dataclass(frozen=True, slots=True)
class Reversed:
    """Another score's numbers the wrong way round: the row with the highest gets the lowest, and so on."""

    inner: RowScore

    @property
    def name(self) -> str:
        """Its name on receipts."""
        return f"{self.inner.name}, reversed"

    @property
    def needs(self) -> Needs:
        """What the inner score needs; its queries are those that the audit looks with."""
        return self.inner.needs

    @property
    def gathers(self) -> bool:
        """Nothing."""
        return False

    def __call__(self, view: CacheView) -> Tensor:
        """[kv_heads, n] float32."""
        ranked = self.inner(view).sort(dim=1, stable=True)
        return torch.empty_like(ranked.values).scatter(1, ranked.indices, ranked.values.flip(1))

    def describe(self) -> Described:
        """The inner score's settings."""
        return self.inner.describe()


@dataclass(frozen=True, slots=True)
class OneSet:
    """Another design, drawn once a layer by the mean size over its key-value heads: all of them keep the same rows."""

    inner: KnownDesign

    @property
    def name(self) -> str:
        """Its name on receipts."""
        return f"{self.inner.name}, one set"

    @property
    def variance(self) -> Literal["poisson", "fixed_size"]:
        """The inner design's."""
        return self.inner.variance

    def draw(self, score: Tensor, keep: Tensor, generator: torch.Generator) -> Sample:
        """As in `fewer.types.KnownDesign`; every head keeps as many rows as the first one is asked to."""
        one = self.inner.draw(score.mean(0, keepdim=True), keep[:1], generator)
        heads = score.shape[0]
        return Sample(one.idx.expand(heads, -1), one.count.expand(heads), one.pi.expand(heads, -1))

    def describe(self) -> Described:
        """The inner design's settings."""
        return self.inner.describe()
