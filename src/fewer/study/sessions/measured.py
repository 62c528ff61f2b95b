"""Measured odds from a finished run: what became of one policy's answers, by certificate and log-probability.

The setting that the table is for (model, policy, budget, condition) is what the answers' receipts say, so a table fits
exactly the answers that were given as these were. Not covered: several runs in one table, arms that prune as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from pydantic import ValidationError

from fewer.decide.odds import Odds, Setting
from fewer.decide.reading import ON_RECEIPTS, read_receipt
from fewer.decide.tabulate import build_odds
from fewer.errors import bad
from fewer.receipt import Receipt
from fewer.study.answers import Answer, ByItem, read_answers
from fewer.study.folder import Run
from fewer.study.sessions.outcomes import find_threshold
from fewer.study.sessions.places import Place, find_places

__all__ = ["Measured", "measure_odds"]


@dataclass(frozen=True)
class Measured:
    """A table, and the answers that are not in it: how many, by the reason."""

    odds: Odds
    left_out: Mapping[str, int]


def measure_odds(run: Run, arm: str, signal: str = ON_RECEIPTS[0], command: str = "") -> Measured:
    """The odds of an arm's answers; arms that differ by their seed alone are draws of one policy and count together.

    signal: one that receipts have, so that `fewer why` can look it up. command: what is said to have made the table.
    Broken and wrong are by the study's own threshold of a right answer, against the arm `full` on the same item;
    clusters are the study's. Left out are answers that did not come, here or from the full cache, that lack one of the
    numbers, or that were given over a whole cache. Raises BadInput for a run that is not finished, an arm without
    certificates, receipts of another version, receipts that disagree about the setting, and too few clusters.
    """
    if signal not in ON_RECEIPTS:
        raise bad("signal", signal, f"one of {', '.join(ON_RECEIPTS)}", "Leave it out for the clipped certificate.")
    _check_finished(run)
    threshold = find_threshold(run.study)
    if threshold is None:
        legal = "a study with an outcome that is nothing but at_least"
        raise bad("the run's study", run.study.name, legal, "It says from which score on an answer is right.")
    answers = read_answers(run.rows, (signal, "mean_logprob", "receipt"))
    place = _find_place(run, answers, arm)
    known = {item for item, given in answers["full"].items() if all(answer.came for answer in given)}
    kept: list[tuple[int, Setting]] = []
    reasons: Counter[str] = Counter()
    model = ""
    for number, answer in enumerate(place.answers):
        why, found = _look(answer, signal) if answer.item in known else ("no answer with the full cache", None)
        if found is None:
            reasons[why] += 1
            continue
        setting = read_receipt(found).setting
        if setting is None:
            reasons["nothing had left the cache"] += 1
            continue
        model = found.model.name
        kept.append((number, setting))
    if not kept:
        said = ", ".join(f"{count}: {why}" for why, count in reasons.items())
        drawn = ", ".join(one.name for one in run.study.expanded if one.prune == "none" and one.draws)
        way_out = f"Take an arm that draws: {drawn}." if drawn else "Run a policy that draws, with evidence."
        raise bad("answers to be counted", 0, f"at least one ({said})", way_out)
    _check_alike([setting for _, setting in kept])
    inside = np.array([number for number, _ in kept])
    right, full = place.score[inside] >= threshold, place.full[inside] >= threshold
    odds = build_odds(
        place.column(signal)[inside],
        place.column("mean_logprob")[inside],
        full & ~right,
        ~full & ~right,
        [place.clusters[number] for number in inside],
        study=run.study.name,
        command=command,
        model=model,
        setting=kept[0][1],
        signal=signal,
    )
    return Measured(odds, dict(reasons))


def _check_finished(run: Run) -> None:
    done, units = len(set(run.rows["unit"].to_pylist())), len(run.header["units"])
    if done < units:
        legal = f"finished: {done} of {units} items are in"
        raise bad("the run", str(run.folder), legal, "Go on with fewer study run; a part is no study.")


def _find_place(run: Run, answers: dict[str, ByItem], arm: str) -> Place:
    """All draws of the arm's policy at its budget and in its condition."""
    arms = run.study.expanded
    drawn = [one.name for one in arms if one.prune == "none" and one.evict != "none"]
    if arm not in drawn:
        legal = f"one of {', '.join(drawn)}" if drawn else "an arm that evicts; this study has none"
        raise bad("arm", arm, legal, "Name the arm as the report does.")
    return next(place for place in find_places(arms, answers) if arm in place.arms)


def _look(answer: Answer, signal: str) -> tuple[str, Receipt | None]:
    """The receipt of an answer that counts, or why it does not."""
    if not answer.came or not answer.values["receipt"]:
        return "no answer", None
    for name, said in ((signal, "no certificate"), ("mean_logprob", "no log-probability")):
        value = answer.values[name]
        if value is None or not np.isfinite(value):
            return said, None
    try:
        return "", Receipt.model_validate_json(answer.values["receipt"])
    except ValidationError as error:
        says = error.errors()[0]["msg"]
        raise bad(f"the receipt of {answer.item}", says, "of this version", "Run the study again.") from None


def _check_alike(settings: list[Setting]) -> None:
    first = settings[0]
    for other in settings[1:]:
        if other != first:
            theirs, ours = dict(other.policy), dict(first.policy)
            names = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
            differ = ", ".join(names) or "the model or the condition"
            raise bad("the setting of the answers", differ, "the same on all receipts", "Take another arm.")
