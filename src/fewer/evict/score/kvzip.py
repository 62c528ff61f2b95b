"""KVzip: what the model looks at when it has to repeat the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fewer.errors import bad
from fewer.evict.score.attention import Group, aggregate_group, check_group
from fewer.types import CacheView, Needs
from fewer.types.number import check_number

__all__ = ["KVzip"]


@dataclass(frozen=True, slots=True)
class KVzip:
    """The largest attention a row gets while the text is repeated (Kim et al. 2025, arXiv 2505.23416, section 3).

    It does not depend on any question, so what stays serves questions that come later. The text since the last
    compression is repeated, `stretch` tokens at a time, over everything that is still there: one to two more prefills.
    Rows of earlier compressions keep the score they had. group: how the query heads of a key-value head are aggregated,
    "max" as published. Unit: share of a query's attention, at most 1.

    Few heads carry a text, so the score belongs to a budget that goes to the layers where it is high; a policy made by
    name has one, with as many rows in each head of a layer, so that no bytes are spent on padding. Not covered: the
    authors' score without repeating, from a calibrated head profile.
    """

    stretch: int = 512
    group: Group = "max"

    budget: ClassVar[Mapping[str, str]] = {"layers": "adaptive"}

    def __post_init__(self) -> None:
        check_number("stretch", self.stretch, int, 1, None, "512 tokens are repeated at a time.")
        check_group(self.group)

    @property
    def name(self) -> str:
        """Its name on the command line and on receipts."""
        return "kvzip"

    @property
    def needs(self) -> Needs:
        """The text once more."""
        return Needs("repeat", self.stretch)

    @property
    def gathers(self) -> bool:
        """A text is repeated once."""
        return True

    def __call__(self, view: CacheView) -> Tensor:
        """[kv_heads, n] float32. Raises BadInput where nothing was repeated."""
        if view.repeated is None:
            raise bad("repeated", None, "what was seen while the text was repeated", "Compress with an Engine.")
        score = aggregate_group(view.repeated, view.k.shape[0], self.group)
        return score if view.gathered is None else score + view.gathered

    def describe(self) -> Mapping[str, str | int | float | None]:
        """The settings, for the receipt."""
        return {"stretch": self.stretch, "group": self.group}
