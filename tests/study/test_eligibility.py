"""Which tasks can carry claims, at which lengths, and which may measure memory."""

from __future__ import annotations

import pytest
from madeup import Change, row

from fewer.errors import BadInput
from fewer.study.answers import average, read_answers
from fewer.study.eligibility import MIN_ITEMS, Eligibility, assess, choose_method, find_judge
from fewer.study.row import to_table


def look(rows: list[Change]) -> tuple[Eligibility, ...]:
    return assess(to_table(rows), resamples=500)


def full(task: str, right: int, of: int, **changes: object) -> list[Change]:
    """Of the full run: the first `right` items are right."""
    return [row(task, number, "full", score=float(number < right), **changes) for number in range(of)]


@pytest.mark.parametrize(
    ("right", "of", "reason"),
    [
        (2, 50, "full model scored 4%, not above 10%: shown, no claim"),
        (5, 50, "full model scored 10%, not above 10%: shown, no claim"),
        (6, 50, ""),
        (48, 50, ""),
        (49, 50, "full model scored 98%, not below 98%: shown, no claim"),
        (50, 50, "full model scored 100%, not below 98%: shown, no claim"),
        (10, 19, "19 items, fewer than 20: shown, no claim"),
        (10, 20, ""),
    ],
)
def test_a_task_needs_a_full_score_between_floor_and_ceiling_and_items(right: int, of: int, reason: str) -> None:
    (found,) = look(full("a", right, of))
    assert (found.eligible, found.reason) == (not reason, reason)
    assert found.full.estimate == pytest.approx(right / of)
    assert (found.full.n, found.full.clusters) == (of, (of + 1) // 2)
    assert found.full.lower is not None
    assert found.full.lower <= right / of <= found.full.upper


def test_refused_and_failed_answers_count_with_zero() -> None:
    rows = full("a", 30, 40)
    rows[0] |= {"status": "refused", "reason": "too long", "score": None}
    rows[1] |= {"status": "failed", "reason": "error", "score": 1.0}
    rows[2] |= {"status": "bypassed", "reason": "no plan"}
    (found,) = look(rows)
    assert (found.num_refused, found.num_failed) == (1, 1)
    assert found.full.estimate == pytest.approx(28 / 40)
    assert found.full.n == 40


def test_lengths_are_shown_and_their_task_decides() -> None:
    rows = full("niah", 24, 25, asked_length=1024)
    rows += [one | {"item": f"{one['item']}l", "asked_length": 8192} for one in full("niah", 1, 25)]
    rows += [one | {"item": f"{one['item']}s", "asked_length": 2048} for one in full("niah", 4, 5)]
    found = look(rows)
    assert [(one.label, one.full.n) for one in found] == [
        ("niah", 55),
        ("niah at 1,024 tokens", 25),
        ("niah at 2,048 tokens", 5),
        ("niah at 8,192 tokens", 25),
    ]
    assert [one.eligible for one in found] == [True, True, False, False]
    assert find_judge(found, "niah") is find_judge(reversed(found), "niah") is found[0]
    with pytest.raises(KeyError):
        find_judge(found, "other")
    with pytest.raises(KeyError):
        find_judge(found[1:], "niah")  # lengths do not stand in for their task


def test_a_task_at_the_floor_is_not_saved_by_one_of_its_lengths() -> None:
    rows = full("niah", 15, 25, asked_length=1024)
    rows += [one | {"item": f"{one['item']}l", "asked_length": 8192} for one in full("niah", 0, 175)]
    found = look(rows)
    assert [(one.label, one.eligible) for one in found] == [
        ("niah", False),
        ("niah at 1,024 tokens", True),
        ("niah at 8,192 tokens", False),
    ]
    assert find_judge(found, "niah").reason == "full model scored 7.5%, not above 10%: shown, no claim"


def test_a_task_that_the_question_alone_answers_is_suspected_of_memory_and_carries_no_claim() -> None:
    def control(right: int) -> list[Change]:
        return [
            row("a", number, "no_context", score=float(number < right), condition="no_context") for number in range(60)
        ]

    (suspected,) = look(full("a", 40, 60) + control(39))
    assert suspected.memory == "suspected"
    told = "Without context the model scored 65%, not clearly below its 66.7% with it"
    assert not suspected.eligible
    assert suspected.reason == f"{told}: this may measure memory or chance: no claim"
    assert suspected.remark == ""
    assert suspected.no_context.estimate == pytest.approx(39 / 60)
    assert suspected.context_gain.estimate == pytest.approx(1 / 60)
    assert suspected.context_gain.lower <= 0
    (clear,) = look(full("a", 40, 60) + control(5))
    assert (clear.memory, clear.eligible, clear.reason, clear.remark) == ("no", True, "", "")
    assert clear.context_gain.lower > 0
    (unknown,) = look(full("a", 40, 60))
    assert (unknown.memory, unknown.eligible, unknown.reason) == ("unknown", True, "")
    assert unknown.no_context is None
    assert "not known" in unknown.remark
    (few,) = look(full("a", 40, 60) + control(0)[:19])
    assert (few.memory, few.eligible, few.reason) == ("unknown", True, "")
    assert few.remark == "19 items in 10 clusters are too few to tell memory from context."


def test_a_task_at_the_ceiling_says_so_and_not_that_it_may_be_memory() -> None:
    rows = full("a", 60, 60) + [row("a", number, "no_context", condition="no_context") for number in range(60)]
    (found,) = look(rows)
    assert (found.memory, found.eligible, found.remark) == ("suspected", False, "")
    assert found.reason == "full model scored 100%, not below 98%: shown, no claim"


def test_a_task_without_a_full_run_carries_nothing() -> None:
    (found,) = look([row("a", number, "static") for number in range(30)])
    assert (found.eligible, found.reason, found.full.estimate) == (
        False,
        "the full model has no answers: no claim",
        None,
    )


def test_the_method_depends_on_the_number_of_clusters_alone() -> None:
    assert choose_method(str(number % 19) for number in range(100)) == "t"
    assert choose_method(str(number % 20) for number in range(100)) == "bca"
    (found,) = look(full("a", 12, MIN_ITEMS))
    assert found.full.method == "cluster-robust t, 9 degrees of freedom"


@pytest.mark.parametrize("score", [None, 1.5, -0.1])
def test_a_score_that_is_none_is_refused(score: float | None) -> None:
    with pytest.raises(BadInput, match=r"the score of item 'a/3' under 'full'"):
        read_answers(to_table([row("a", 3, "full", score=score)]))


def test_a_seed_given_twice_is_refused() -> None:
    with pytest.raises(BadInput, match="seed of item 'a/3' under 'full' is 1; it must be there once"):
        read_answers(to_table([row("a", 3, "full", 1), row("a", 3, "full", 1)]))


def test_answers_come_by_arm_and_item_with_the_columns_asked_for() -> None:
    rows = [row("a", 3, "full"), row("a", 3, "random", 0, nll=1.5), row("a", 3, "random", 1, status="refused")]
    arms = read_answers(to_table(rows), ("nll",))
    assert {arm: {item: len(some) for item, some in by_item.items()} for arm, by_item in arms.items()} == {
        "full": {"a/3": 1},
        "random": {"a/3": 2},
    }
    first, second = arms["random"]["a/3"]
    assert (first.values, first.came, first.score) == ({"nll": 1.5}, True, 1.0)
    assert (second.values, second.came, second.score) == ({"nll": None}, False, 0.0)


def test_averages_are_rounded_once() -> None:
    assert average([0.1] * 10) == 0.1
    assert average([1e16, 1.0, -1e16]) == pytest.approx(1 / 3)
