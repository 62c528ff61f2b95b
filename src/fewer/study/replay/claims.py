"""What became of each claim of a replay: it holds, it is killed, or neither can be said.

At each condition and budget the interval over prompts decides, as `fewer.study.replay.spec.Claim` says. Nothing is
judged before all prompts are in, so that nobody stops at a lucky moment, nor with fewer than the study asks for. Levels
are not raised for the number of intervals: of 40 at 95%, two miss by chance even where everything is as it should be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fewer.study.replay.estimates import Estimates, Place
from fewer.study.replay.spec import Claim, ReplayStudy
from fewer.study.stats import Interval

__all__ = ["Verdict", "Word", "judge_replay"]

Word = Literal["holds", "killed", "undecided"]


@dataclass(frozen=True)
class Verdict:
    """What became of one claim, as a whole and at each of its places."""

    claim: Claim
    word: Word
    parts: tuple[tuple[Place, Word, Interval | None], ...]


def judge_replay(study: ReplayStudy, estimates: Estimates, complete: bool) -> tuple[Verdict, ...]:
    """A verdict for every claim, in its order. complete: whether all prompts are in; if not, all are undecided."""
    return tuple(_judge(study, claim, estimates, complete) for claim in study.claims)


def _judge(study: ReplayStudy, claim: Claim, estimates: Estimates, complete: bool) -> Verdict:
    parts: list[tuple[Place, Word, Interval | None]] = []
    for condition in claim.conditions or study.conditions:
        for budget in claim.budgets or study.budgets:
            place = (condition, budget, claim.arm or study.main)
            found = estimates.measure(claim.measure, place)
            enough = complete and found is not None and found.clusters >= study.fewest
            parts.append((place, _decide(claim, found) if enough else "undecided", found))
    words = [word for _, word, _ in parts]
    whole: Word = "killed" if "killed" in words else "holds" if set(words) == {"holds"} else "undecided"
    return Verdict(claim, whole, tuple(parts))


def _decide(claim: Claim, found: Interval | None) -> Word:
    if found is None or found.lower is None or found.upper is None:
        return "undecided"
    low = float("-inf") if claim.at_least is None else claim.at_least
    high = float("inf") if claim.at_most is None else claim.at_most
    if found.lower >= low and found.upper <= high:
        return "holds"
    return "killed" if found.upper < low or found.lower > high else "undecided"
