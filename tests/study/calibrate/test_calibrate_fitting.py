"""Choosing the window, the layers and the heads, on made-up attention with planted heads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fewer.errors import BadInput
from fewer.prune.profile import Head, Profile, Score
from fewer.study.calibrate import make_presets
from fewer.study.calibrate.capture import Seen
from fewer.study.calibrate.fitting import fit
from fewer.study.calibrate.half import halve
from fewer.study.calibrate.recall import FRACTIONS, random_recall, recall, spread
from fewer.types import ModelFacts

LAYERS, HEADS, SIZE = 8, 4, 240
FACTS = ModelFacts("made up", "f" * 32, LAYERS, HEADS, 1, (None,) * LAYERS)
Right = Callable[[int], bool]


def make_prompts(
    planted: dict[tuple[int, int], Right], tasks: tuple[str, ...] = ("a", "b"), each: int = 28
) -> list[Seen]:
    """Noise everywhere; a planted head (layer, head) looks eight tokens before the answer of the prompts it knows."""
    random = torch.Generator().manual_seed(0)
    found = []
    for task in tasks:
        for number in range(each):
            free = torch.arange(10, SIZE - 10)
            start = int(torch.randint(20, 200, (1,), generator=random))
            answer = (free >= start) & (free < start + 4)
            shares = torch.rand(LAYERS, HEADS, free.numel(), generator=random)
            for (layer, head), right in planted.items():
                if right(number):
                    shares[layer - 1, head, start - 8 - 10 : start - 4 - 10] += 100
            newest = torch.rand(LAYERS, free.numel(), generator=random)
            found.append(Seen(task, SIZE, free, answer, shares / shares.sum(-1, keepdim=True), newest))
    return found


def always(number: int) -> bool:
    return True


def test_a_planted_head_its_layer_and_its_window_are_found() -> None:
    found = fit(make_prompts({(3, 1): always}), FACTS)
    assert found.best == (3, 1)
    assert (found.before, found.after) == (0, 12)  # the smallest that reaches eight tokens on
    (gate,) = found.gates
    assert (gate.layer, gate.heads) == (3, ((3, 1),))
    assert gate.recalls == (1, 1, 1, 1)
    assert sum(gate.paper) / 4 == pytest.approx(found.random, abs=0.08)  # 56 prompts of noise: 4 standard errors
    assert found.place < 0.3  # answers stand in many places
    assert found.random == pytest.approx(sum(FRACTIONS) / 4, abs=0.01)
    assert gate.describe()["recall"] == 1
    assert gate.describe()["recall_at"] == {"5%": 1, "10%": 1, "20%": 1, "30%": 1}


def test_a_second_gate_where_a_deeper_head_knows_more() -> None:
    found = fit(make_prompts({(2, 0): lambda number: number not in (4, 5), (6, 3): always}), FACTS)
    assert [gate.layer for gate in found.gates] == [2, 6]
    assert found.gates[1].heads[0] == found.best == (6, 3)
    assert found.gates[0].heads[0] == (2, 0)
    assert sum(found.gates[0].recalls) < sum(found.gates[1].recalls) == 4


def test_heads_that_know_different_prompts_are_joined() -> None:
    found = fit(
        make_prompts({(2, 0): lambda n: n % 4 < 2, (3, 2): lambda n: n % 4 >= 2, (5, 1): lambda n: False}), FACTS
    )
    gate = found.gates[-1]
    assert set(gate.heads) == {(2, 0), (3, 2)}
    assert min(gate.recalls) > 0.9


def test_a_head_that_helps_on_the_first_half_alone_is_not_added() -> None:
    planted = {(2, 0): lambda n: n % 4 < 2 or n > 9, (1, 2): lambda n: n in (2, 6)}
    joined = {(2, 0): planted[2, 0], (1, 2): lambda n: n in (2, 3, 6, 7)}
    assert [gate.heads for gate in fit(make_prompts(planted), FACTS).gates] == [((2, 0),)]
    assert [gate.heads for gate in fit(make_prompts(joined), FACTS).gates] == [((2, 0), (1, 2))]


def test_the_halves_are_dealt_within_each_task() -> None:
    prompts = make_prompts({}, ("a", "b"), 5)
    first, second = halve(prompts)
    assert first == (*prompts[0:5:2], *prompts[5:10:2])
    assert second == (*prompts[1:5:2], *prompts[6:10:2])


def test_what_a_head_knows_of_the_second_half_chooses_nothing() -> None:
    planted = {(4, 0): always, (2, 2): lambda number: number % 2 == 1}
    assert [gate.heads for gate in fit(make_prompts(planted), FACTS).gates] == [((4, 0),)]


def test_layers_that_do_not_see_everything_are_left_alone() -> None:
    facts = ModelFacts("windows", "f" * 32, LAYERS, HEADS, 1, (None, 64, 64, 64, None, 64, 64, None))
    found = fit(make_prompts({(3, 1): always, (5, 2): always, (8, 0): always}), facts)
    assert [(gate.layer, gate.heads) for gate in found.gates] == [(5, ((5, 2),))]


def test_without_signal_there_is_no_profile() -> None:
    with pytest.raises(
        BadInput,
        match=r"No head of made up points at the answers.*a random ranking has 0\.16, and its rankings",
    ):
        fit(make_prompts({}), FACTS)


def test_a_head_that_shines_by_luck_is_no_signal() -> None:
    with pytest.raises(BadInput, match="No profile was made"):
        fit(make_prompts({(3, 1): lambda number: number % 2 == 0}), FACTS)


def test_a_head_that_knows_places_and_not_answers_is_no_signal() -> None:
    prompts = make_prompts({(3, 1): always})
    still = [Seen(p.task, p.size, p.free, prompts[0].answer, prompts[0].shares, p.newest) for p in prompts]
    with pytest.raises(BadInput, match=r"its rankings of other prompts have 1\.00.*answers in many places"):
        fit(still, FACTS)


def test_a_model_of_one_layer_is_refused() -> None:
    with pytest.raises(BadInput, match="has one layer"):
        fit(make_prompts({(1, 1): always}), ModelFacts("flat", "f" * 32, 1, HEADS, 1, (None,)))


def test_recall_is_the_share_of_the_answer_among_the_highest() -> None:
    score = torch.arange(20.0)
    answer = torch.zeros(20, dtype=torch.bool)
    answer[[19, 18, 15, 0]] = True  # the best, the second, the fifth and the last of 20
    assert recall(score, answer).tolist() == [0.25, 0.5, 0.5, 0.75]
    assert recall(torch.zeros(20), answer).tolist() == [0.25, 0.25, 0.25, 0.25]  # of equals the earlier: token 0 only
    assert recall(torch.stack([score, -score]), answer)[1].tolist() == [0.25, 0.25, 0.25, 0.25]


def test_every_task_counts_the_same() -> None:
    few, many = make_prompts({}, ("a",), 2), make_prompts({}, ("b",), 30)
    assert random_recall(few + many) == pytest.approx(random_recall(few) / 2 + random_recall(many) / 2)


@pytest.mark.parametrize(("before", "after"), [(0, 0), (6, 12), (24, 48)])
def test_the_window_is_the_profiles(before: int, after: int) -> None:
    (seen, *_) = make_prompts({}, ("a",), 2)
    profile = Profile(
        format="fewer-profile",
        version=1,
        model="made up",
        fingerprint="f" * 32,
        num_layers=LAYERS,
        num_heads=HEADS,
        before=before,
        after=after,
        scores=(Score(layer=1, heads=(Head(layer=1, head=0),)),),
        presets=make_presets([1]),
        fitted_on={},
    )
    whole = torch.zeros(SIZE)
    whole[seen.free] = seen.shares[0, 0]
    found = spread(seen.shares[0, 0], seen, before, after) / (before + after + 1)
    torch.testing.assert_close(found.float(), profile.spread(whole)[seen.free], rtol=1e-5, atol=1e-7)


def test_presets_have_a_stop_for_every_gate() -> None:
    assert make_presets([8, 16]) == {
        "mild": "8:55%, 16:35%",
        "balanced": "8:35%, 16:20%",
        "aggressive": "8:20%, 16:12%",
    }
    assert make_presets([5]) == {"mild": "5:55%", "balanced": "5:35%", "aggressive": "5:20%"}
