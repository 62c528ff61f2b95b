"""Verdicts: what holds, what is killed, what cannot be said, and which answers were counted."""

from __future__ import annotations

import pytest
from madeup import ARMS, ITEMS, RANDOM, STATIC, Change, alone, answer, claim, look, study, usual

from fewer.study.row import to_table
from fewer.study.verdict import note_on_many


def test_a_difference_holds_where_its_interval_reaches_the_bound() -> None:
    made = study(claim())
    (found,) = look(made, answer(made, [("a", number) for number in range(320)], usual))
    assert found.verdict == "holds"
    assert (found.interval.estimate, found.interval.n, found.interval.clusters) == (0, 320, 160)
    assert -0.05 < found.interval.lower < 0 < found.interval.upper
    assert found.sentence.startswith(f"holds: score of {STATIC} minus that of full is 0.000, 95% interval [-0.0")
    assert found.sentence.endswith("320 items in 160 clusters). It was to be at least -0.05.")


def test_equal_arms_leave_what_so_few_clusters_cannot_exclude() -> None:
    made = study(claim(at_least=-0.05))
    (few,) = look(made, answer(made, ITEMS[:40], usual))
    assert few.verdict == "undecided"
    assert few.interval.lower < -0.05
    assert "Clopper-Pearson" in few.sentence
    assert few.sentence.endswith("It holds from -0.05 and is killed below -0.1.")


def test_a_difference_is_killed_where_all_of_its_interval_is_below() -> None:
    made = study(claim(arm=RANDOM))
    (found,) = look(made, answer(made, ITEMS, usual))
    assert found.verdict == "killed"
    assert found.interval.estimate == pytest.approx(-0.375)  # half of three quarters
    assert found.sentence.startswith(f"killed: score of {RANDOM} minus that of full is -0.375, 95% interval [")
    assert "80 items in 40 clusters" in found.sentence
    assert "cluster bootstrap, BCa, 1000 resamples, seed 0" in found.sentence
    assert found.sentence.endswith("It was to be killed below -0.1.")


def test_seeds_are_averaged_within_an_item_before_anything_varies() -> None:
    made = study(claim(kind="level", arm=RANDOM, at_least=0.5, kill_below=0.4))

    def say(task: str, number: int, arm: str, seed: int) -> Change:
        return alone((number + seed) % 2 if arm == RANDOM else number % 2, arm)

    (found,) = look(made, answer(made, ITEMS, say))
    assert found.interval.estimate == 0.5  # every item's average is one half: nothing varies over items
    assert "clusters agree" in found.interval.method
    assert found.interval.n == 80


def test_refused_and_failed_stay_in_with_zero_and_bypassed_with_their_score() -> None:
    made = study(claim(kind="level", at_least=0.5, kill_below=0.4))

    def say(task: str, number: int, arm: str, seed: int) -> Change:
        score = alone(number < 60, arm)
        if arm == STATIC and number < 3:
            return {"status": "refused", "score": None}
        if arm == STATIC and number in (3, 4):
            return {"status": "failed", "score": 1.0}
        return score | ({"status": "bypassed"} if arm == STATIC and number == 5 else {})

    (found,) = look(made, answer(made, ITEMS, say))
    assert found.interval.estimate == pytest.approx(55 / 80)
    assert found.notes[:2] == (
        f"Of 80 answers of {STATIC}, 3 refused and 2 failed count with score 0.",
        f"Of 80 answers of {STATIC}, 1 are full runs (bypassed), with their scores.",
    )


def test_an_outcome_may_look_at_the_full_run() -> None:
    made = study(claim(kind="level", arm=RANDOM, outcome="lost", at_least=0.3, kill_below=0.2))
    (found,) = look(made, answer(made, ITEMS, usual))
    assert found.interval.estimate == pytest.approx(0.375)
    assert found.verdict == "undecided" or found.interval.lower >= 0.3


def test_tasks_that_cannot_carry_claims_are_left_out_and_named() -> None:
    made = study(claim(arm=RANDOM), claim(id="c2", tasks=["b"]))

    def say(task: str, number: int, arm: str, seed: int) -> Change:
        return usual(task, number, arm, seed) if task == "a" else {"score": 1.0}

    rows = answer(made, [*ITEMS, *(("b", number) for number in range(30))], say)
    pooled, alone = look(made, rows)
    reason = "full model scored 100%, not below 98%: shown, no claim"
    assert pooled.excluded == (("b", reason),)
    assert pooled.interval.n == 80
    assert pooled.sentence.endswith(f"Left out: b: {reason}.")
    assert (alone.verdict, alone.sentence, alone.interval) == ("no claim", f"no claim: b: {reason}.", None)


def test_a_length_at_the_floor_stays_in_its_task() -> None:
    made = study(claim(arm=RANDOM))

    def say(task: str, number: int, arm: str, seed: int) -> Change:
        long = number >= 40
        return ({"score": 0.0} if long else usual(task, number, arm, seed)) | {"asked_length": 8192 if long else 1024}

    (found,) = look(made, answer(made, ITEMS, say))
    assert found.excluded == ()
    assert found.interval.n == 80
    assert found.interval.estimate == pytest.approx(-0.1875)  # half of three quarters of one half of the items
    assert "Left out" not in found.sentence


def test_a_task_at_the_floor_carries_nothing_at_any_of_its_lengths() -> None:
    made = study(claim(arm=RANDOM))

    def say(task: str, number: int, arm: str, seed: int) -> Change:
        long = number >= 24
        return ({"score": 0.0} if long else usual(task, number, arm, seed)) | {"asked_length": 8192 if long else 1024}

    (found,) = look(made, answer(made, [("a", number) for number in range(200)], say))
    reason = "full model scored 9%, not above 10%: shown, no claim"
    assert (found.verdict, found.excluded) == ("no claim", (("a", reason),))
    assert (found.sentence, found.interval) == (f"no claim: a: {reason}.", None)


def test_a_task_that_may_measure_memory_is_left_out_and_named() -> None:
    made = study(claim(arm=RANDOM), claim(id="c2", tasks=["b"]), claim(id="c3", kind="speedup", at_least=1.5))

    def say(task: str, number: int, arm: str, seed: int) -> Change:
        score = usual(task, number, arm, seed) if task == "a" else {"score": float(number % 4 != 0)}
        return score | {"first_token_s": (1.0 + number % 3) / (2 + number // 2 % 2 if arm == STATIC else 1)}

    rows = answer(made, [*ITEMS, *(("b", number) for number in range(40))], say)
    pooled, memory, speed = look(made, rows)
    told = "Without context the model scored 75%, not clearly below its 75% with it"
    reason = f"{told}: this may measure memory or chance: no claim"
    assert (pooled.verdict, pooled.interval.n, pooled.excluded) == ("killed", 80, (("b", reason),))
    assert pooled.sentence.endswith(f"Left out: b: {reason}.")
    assert (memory.verdict, memory.sentence, memory.interval) == ("no claim", f"no claim: b: {reason}.", None)
    assert not any("memory" in note for found in (pooled, memory, speed) for note in found.notes)
    assert (speed.verdict, speed.interval.n, speed.excluded) == ("holds", 120, ())  # speed is not about scores


def test_a_claim_is_judged_and_noted_where_memory_is_not_known() -> None:
    made = study(claim(arm=RANDOM), arms=[arm for arm in ARMS if "condition" not in arm])
    (found,) = look(made, answer(made, ITEMS, usual))
    assert (found.verdict, found.interval.n, found.excluded) == ("killed", 80, ())
    unknown = "a: No arm without context was run: whether the model answers from memory is not known."
    assert found.notes == (unknown,)


def test_an_unfinished_run_is_not_judged() -> None:
    made = study(claim(arm=RANDOM))
    rows = answer(made, ITEMS[:20], usual)
    (found,) = look(made, rows, num_items={"a": 80})
    assert (found.verdict, found.interval) == ("undecided", None)
    assert found.sentence == "undecided: 60 of 240 answers are in."  # full once, random with two seeds
    short = to_table([row for row in rows.to_pylist() if (row["item"], row["seed"]) != ("a/3", 1)])
    assert look(made, short)[0].sentence == "undecided: 59 of 60 answers are in."
    assert look(made, rows.slice(0, 0))[0].sentence == "undecided: no answers are in."
    assert look(made, rows.slice(0, 0), num_items={"a": 1_000})[0].sentence == "undecided: 0 of 3,000 answers are in."


def test_missing_answers_of_other_arms_and_tasks_do_not_matter() -> None:
    made = study(claim(tasks=["a"]))
    whole = answer(made, [*ITEMS, ("b", 0)], usual).to_pylist()
    rows = to_table([row for row in whole if row["arm"] in ("full", STATIC) and row["task"] == "a"])
    assert look(made, rows, num_items={"a": 80, "b": 500})[0].interval.n == 80


def test_too_few_clusters_are_undecided_whatever_the_interval() -> None:
    made = study(claim(arm=RANDOM, min_clusters=41))
    (found,) = look(made, answer(made, ITEMS, usual))
    assert found.verdict == "undecided"
    assert found.interval.upper < -0.1
    assert "40 clusters are fewer than the 41 the claim asks for." in found.sentence


def test_many_claims_owe_their_reader_a_note() -> None:
    claims = [claim(id=f"c{number}", arm=RANDOM, level=0.9) for number in range(5)]
    made = study(*claims)
    found = look(made, answer(made, ITEMS, usual))
    assert [one.adjusted for one in found] == ["killed"] * 5
    note = note_on_many(found)
    assert note.startswith("5 intervals at 90%: about 0.5 would miss the truth by chance")
    assert note.endswith("With the levels raised for 5 claims (Bonferroni), 5 of 5 decided claims keep their verdict.")
    assert note_on_many(()) == "No claim has an interval."


def test_a_verdict_that_rests_on_one_interval_alone_is_told() -> None:
    """Near the bound: killed at its own level, not at that of one claim in twenty."""
    made = study(*(claim(id=f"c{number}", arm=RANDOM, at_least=0, kill_below=-0.18) for number in range(20)))

    def say(task: str, number: int, arm: str, seed: int) -> Change:
        right = number % 4 != 0
        return alone(right and (arm != RANDOM or number % 4 == 1 or number % 16 < 7), arm)

    found = look(made, answer(made, ITEMS, say))
    assert found[0].interval.estimate == -0.3125
    assert -0.2 < found[0].interval.upper < -0.18
    assert {(one.verdict, one.adjusted) for one in found} == {("killed", "undecided")}
    assert note_on_many(found).endswith("0 of 20 decided claims keep their verdict.")
