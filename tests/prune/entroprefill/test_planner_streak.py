"""A streak in a planner: the layers it waits for, what it says until then, and one that no layer can reach."""

from __future__ import annotations

import pytest
import torch
from deciding import observe, planner_of, prompt_of, spread

from fewer import BadInput, Plan

PROMPT = prompt_of(10, 10, 10, 10)
SHARES = (0.05, 0.3, 0.1, 0.2)


def test_a_streak_looks_at_the_layers_before() -> None:
    planner = planner_of(monitor="1-4:all", streak=2, tolerance=0.5, audit_tolerance=0.5, keep="65%")
    one, other = spread(PROMPT, *SHARES), spread(PROMPT, 0.3, 0.05, 0.2, 0.1)

    def outcomes(*rows: torch.Tensor) -> list[str]:
        seen = dict(enumerate(rows, 1))
        answers = [planner.after(observe(PROMPT, planner, seen, layer)) for layer in seen]
        return [(answer.decision if isinstance(answer, Plan) else answer).outcome for answer in answers]

    assert outcomes(one, one, one, one) == ["streak", "streak", "accepted", "accepted"]
    assert outcomes(one, other, one, one) == ["streak"] * 4
    assert outcomes(other, one, one, one) == ["streak", "streak", "streak", "accepted"]


def test_a_streak_says_how_far_it_came() -> None:
    planner = planner_of(monitor="1-4:all", streak=3, streak_change=0.2, tolerance=0.5, audit_tolerance=0.5, keep="65%")
    one, other = spread(PROMPT, *SHARES), spread(PROMPT, 0.3, 0.05, 0.2, 0.1)
    seen = dict(enumerate((one, other, other), 1))
    found = [planner.after(observe(PROMPT, planner, seen, layer)) for layer in seen]
    assert [each.numbers["streak"] for each in found] == [0, 0, 1]
    assert {each.numbers["streak_asked"] for each in found} == {3}
    assert [each.numbers.get("change") for each in found] == [None, pytest.approx(1.0), 0.0]
    words = "; the choice has been the same within 20.0% for {} of 3 transitions"
    assert found[0].says.endswith(words.format(0))
    assert found[1].says.endswith(words.format(0) + "; the last changed 100.0% of it")
    assert found[2].says.endswith(words.format(1) + "; the last changed 0.0% of it")
    assert "streak" not in planner_of().after(observe(PROMPT, planner_of(), one)).decision.numbers


@pytest.mark.parametrize(("monitor", "most"), [("2:all", 0), ("1-4:all", 3), ("2:1, 2:3, 5:0", 1)])
def test_a_streak_that_no_layer_can_reach_is_refused(monitor: str, most: int) -> None:
    assert planner_of(monitor=monitor, streak=most).settings.streak == most
    for streak in (most + 1, 99):
        with pytest.raises(BadInput, match=rf"^streak is {streak}; it must be at most {most}, since monitor has"):
            planner_of(monitor=monitor, streak=streak)
