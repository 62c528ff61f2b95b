"""Speedups and areas: which seconds and which pairs count, and which way a signal points."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from madeup import ITEMS, STATIC, Change, alone, answer, claim, look, study, usual


def timed(task: str, number: int, arm: str, seed: int) -> Change:
    """Static takes half of the time on one half of the items and an eighth on the other: a quarter, geometrically."""
    seconds = 1.0 + number
    if arm == STATIC:
        seconds /= 2 if number % 4 < 2 else 8
    return usual(task, number, arm, seed) | {"first_token_s": seconds}


def test_a_speedup_is_the_geometric_mean_of_the_items_ratios() -> None:
    made = study(claim(kind="speedup", at_least=3.0, kill_below=2.0), claim(id="c2", kind="speedup", arm="full"))
    rows = answer(made, ITEMS, timed)
    found, same = look(made, rows)
    assert found.interval.estimate == pytest.approx(4.0)
    assert found.verdict == "holds"
    assert found.sentence.startswith(
        f"holds: the ratio of seconds to the first token, full over {STATIC} (geometric mean over items), is 4.00x, "
    )
    assert same.interval.estimate == pytest.approx(1.0)
    assert (same.interval.known, same.verdict) == (False, "undecided")  # nothing varies: no honest interval


def test_only_seconds_of_ok_and_bypassed_answers_that_ran_alone_count() -> None:
    made = study(claim(kind="speedup", at_least=3.0, kill_below=2.0))

    def say(task: str, number: int, arm: str, seed: int) -> Change:
        odd = {0: {"status": "bypassed"}, 1: {"shared": True}, 2: {"status": "failed", "shared": None}}
        odd[3] = {"first_token_s": None}
        return timed(task, number, arm, seed) | (odd.get(number, {}) if arm == STATIC else {})

    (found,) = look(made, answer(made, ITEMS, say))
    assert found.interval.n == 77
    counts = "1 failed, 2 shared or untimed"
    assert found.notes[0] == f"The seconds of 3 of 80 answers of {STATIC} do not count: {counts}."
    assert found.notes[1].startswith("Speed says nothing of the answers: the arm scores ")
    (none,) = look(made, answer(made, ITEMS, lambda *where: timed(*where) | {"shared": True}))
    assert none.verdict == "no claim"
    assert "no item has seconds that count under both arms" in none.sentence


def test_a_bypassed_answer_stays_in_the_ratio_with_the_seconds_of_its_full_run() -> None:
    made = study(claim(kind="speedup", at_least=3.0, kill_below=2.0))

    def say(task: str, number: int, arm: str, seed: int) -> Change:
        full_run = {"status": "bypassed", "first_token_s": 1.0 + number}
        return timed(task, number, arm, seed) | (full_run if arm == STATIC and number < 20 else {})

    (found,) = look(made, answer(made, ITEMS, say))
    assert found.interval.estimate == pytest.approx(4 ** (60 / 80))  # 20 of 80 items are as slow as the full run
    said = "Speed says nothing of the answers: the arm scores 0.750 here, the reference 0.750."
    assert (found.interval.n, found.notes) == (80, (said,))


def ranked(sign: float) -> Callable[[str, int, str, int], Change]:
    """The margin is high where static is right, and by chance otherwise, so that some pairs are out of order."""
    noise = np.random.default_rng(0).normal(size=len(ITEMS))

    def say(task: str, number: int, arm: str, seed: int) -> Change:
        right = number % 3 != 0 if arm == STATIC else number % 6 != 0
        return alone(right, arm) | {"min_margin": float(sign * (1.5 * right + noise[number])), "nll": 1.0}

    return say


def auc_claim(**changes: object) -> Change:
    base = {"kind": "auc", "signal": "min_margin", "outcome": "lost", "at_least": 0.7, "kill_below": 0.6}
    return claim(**base | changes)


def area(positive: list[float], negative: list[float]) -> float:
    """The share of pairs in order, slowly."""
    wins = [1.0 if high > low else 0.5 if high == low else 0.0 for high in positive for low in negative]
    return math.fsum(wins) / len(wins)


def test_a_low_margin_is_taken_as_likelier_lost_and_a_high_one_as_likelier_correct() -> None:
    made = study(auc_claim(), auc_claim(id="c2", outcome="correct"))
    rows = answer(made, ITEMS, ranked(1.0))
    lost, correct = look(made, rows)
    mine = [row for row in rows.to_pylist() if row["arm"] == STATIC]
    right = {row["item"] for row in rows.to_pylist() if row["arm"] == "full" and row["score"]}
    margins: dict[bool, list[float]] = {True: [], False: []}
    for row in mine:
        margins[not row["score"] and row["item"] in right].append(-row["min_margin"])
    assert lost.interval.estimate == pytest.approx(area(margins[True], margins[False]))
    assert lost.interval.n == 80
    assert "the AUC of min_margin (lower taken as likelier lost)" in lost.sentence
    assert "80 answers in 40 clusters" in lost.sentence
    good = [row["min_margin"] for row in mine if row["score"]], [row["min_margin"] for row in mine if not row["score"]]
    assert correct.interval.estimate == pytest.approx(area(*good))
    assert "(higher taken as likelier correct)" in correct.sentence
    assert lost.verdict == "holds" if lost.interval.lower >= 0.7 else lost.verdict == "undecided"
    turned = look(made, answer(made, ITEMS, ranked(-1.0)))
    assert turned[0].interval.estimate == pytest.approx(1 - lost.interval.estimate)
    assert turned[0].verdict == "killed"


def test_a_high_nll_speaks_for_a_bad_answer() -> None:
    made = study(auc_claim(signal="nll"))

    def say(task: str, number: int, arm: str, seed: int) -> Change:
        right = number % 3 != 0 if arm == STATIC else number % 6 != 0
        return alone(right, arm) | {"nll": float(number % 5 if right else 4 + number % 2)}

    (found,) = look(made, answer(made, ITEMS, say))
    assert found.interval.estimate > 0.8
    assert "(higher taken as likelier lost)" in found.sentence


def test_pairs_from_different_tasks_or_lengths_are_not_ranked() -> None:
    made = study(auc_claim(outcome="correct"))

    def say(task: str, number: int, arm: str, seed: int) -> Change:
        """Task b is harder and its margins are lower; within a task margins say nothing at all."""
        hard = task == "b"
        right = number % 4 == 1 if hard else number % 4 != 0
        return alone(right, arm) | {"min_margin": 0.0 if hard else 5.0}

    rows = answer(made, [*ITEMS, *(("b", number) for number in range(80))], say)
    (found,) = look(made, rows)
    assert (found.interval.estimate, found.interval.n) == (0.5, 160)


def test_answers_without_the_signal_are_counted_and_not_ranked() -> None:
    made = study(auc_claim())

    def say(task: str, number: int, arm: str, seed: int) -> Change:
        return ranked(1.0)(task, number, arm, seed) | ({"min_margin": None} if number < 5 else {})

    (found,) = look(made, answer(made, ITEMS, say))
    assert found.interval.n == 75
    assert f"5 of 80 answers of {STATIC} have no min_margin and are not ranked." in found.notes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outcome": "lost"}, "no claim: 0 of 80 ranked answers are lost"),
    ],
)
def test_where_nothing_can_be_ranked_there_is_no_claim(changes: Change, message: str) -> None:
    made = study(auc_claim(**changes))
    rows = answer(made, ITEMS, lambda *where: usual(*where) | {"min_margin": 1.0})
    (found,) = look(made, rows)
    assert found.verdict == "no claim"
    assert found.sentence.startswith(message)
