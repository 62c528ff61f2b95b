"""What a metric is: a name, a function of one output, and what its number means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fewer.study.metrics.fields import Answers, Meta

__all__ = ["Metric"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One way to score one output.

    function: of the output, the answers and the row's meta, to a score within `range`; it sees nothing else.
    what: what is counted, in a sentence. source: who published it; "fewer" where it is this project's own.
    chance: what a uniform guess among the possible answers scores, None where that has no meaning or is not known;
    `choices_in` names the list in meta that is guessed from, where chance depends on the row (one over its length).
    needs: the keys that meta must have. blank_answers: whether an answer may be blank ("there is none").
    """

    name: str
    function: Callable[[str, Answers, Meta], float]
    what: str
    source: str
    chance: float | None = None
    choices_in: str | None = None
    needs: tuple[str, ...] = ()
    range: tuple[float, float] = (0.0, 1.0)
    blank_answers: bool = False
