"""EntroPrefill as a planner: presets and what overrides them, plans and decisions, what it declines or refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from algorithm import slow_decide
from deciding import (
    ALL,
    FACTS,
    GROUPS,
    HEADS,
    LAYER,
    attention_of,
    observe,
    plain_of,
    plain_rows,
    planner_of,
    prompt_of,
    removed_of,
    situation_of,
    spread,
    verdict_of,
)

from fewer import BadInput, Decision, EntroPrefill, Keep, Look, ModelFacts, Plan
from fewer.prune import PLANNERS, make_planner, settings_of
from fewer.prune.entroprefill.settings import GENERAL, PAPER, PARAMETERS
from fewer.prune.entroprefill.situation import Situation

PROMPT = prompt_of(10, 10, 10, 10)
SHARES = (0.05, 0.3, 0.1, 0.2)


def test_an_accepted_layer_is_a_plan() -> None:
    planner = planner_of(mass="absolute", tolerance=0.2, keep="65%")
    plan = planner.after(observe(PROMPT, planner, spread(PROMPT, *SHARES)))
    assert isinstance(plan, Plan)
    gone = {*range(2, 12), *range(24, 34)}
    assert plan.keep.tolist() == [position for position in range(len(PROMPT)) if position not in gone]
    assert (plan.layer, plan.release, plan.score) == (LAYER, True, None)
    assert (plan.bound, plan.dual_gap) == (pytest.approx(0.15), pytest.approx(2.5))
    assert plan.reason == "2 of 4 chunks removed"
    decision = plan.decision
    assert (decision.layer, decision.outcome) == (LAYER, "accepted")
    words = "20 of 40 tokens left out, asked for 5 to 18; none could be more than 22; audit 15.0% against 30.0%"
    assert decision.says == words
    assert decision.numbers["saving"] == 20


@pytest.mark.parametrize(
    ("shares", "changes", "outcome", "says"),
    [
        ((0.01,) * 4, {"document_min": 0.05}, "no document mass", "the documents hold 4.0% of the pooled attention"),
        ((0.0,) * 4, {"residual_min": 0.9}, "no residual mass", "0 heads look beyond the sinks"),
        (
            (0.1, 0.1, 0.1, 0.6),
            {"mass": "absolute", "tolerance": 0.15, "keep": "50%", "keep_at_most": "50%"},
            "target infeasible",
            "10 of 40 tokens may leave, asked for 25; none could be more than 15",
        ),
        (
            SHARES,
            {"streak": 1, "tolerance": 0.5, "keep": "65%", "monitor": "2-3:all"},
            "streak",
            "20 of 40 tokens may leave, asked for 5 to 18; none could be more than 28; "
            "the choice has been the same for 0 of 1 transition",
        ),
        (
            SHARES,
            {"mass": "absolute", "tolerance": 0.2, "keep": "65%", "audit_tolerance": 0.1},
            "audit",
            "20 of 40 tokens may leave, asked for 5 to 18; none could be more than 22; audit 15.0% against 10.0%",
        ),
        ((float("nan"),) * 4, {}, "attention not finite", "the attention has NaN or infinite numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_any_other_outcome_is_a_decision(
    shares: tuple[float, ...], changes: dict[str, Any], outcome: str, says: str
) -> None:
    planner = planner_of(**changes)
    sink = 0.5 if outcome == "no residual mass" else 0.0
    decision = planner.after(observe(PROMPT, planner, spread(PROMPT, *shares, sink=sink)))
    assert isinstance(decision, Decision)
    assert (decision.layer, decision.outcome, decision.says) == (LAYER, outcome, says)
    assert all(torch.isfinite(torch.tensor(value)) for value in decision.numbers.values())


def test_plans_are_the_plain_algorithms() -> None:
    accepted = 0
    for seed in range(30):
        prompt = prompt_of(*(3 + (seed * 7 + 5 * i) % 11 for i in range(6)), query=5, seed=seed)
        changes = {"tolerance": 0.5, "keep": "60%", "keep_at_most": "80%", "audit_tolerance": 0.4}
        planner, rows = planner_of(**changes), attention_of(prompt, seed)
        answer = planner.after(observe(prompt, planner, rows))
        situation = Situation.of(planner.settings, planner.heads, prompt)
        plain, query = plain_of(prompt), range(*prompt.query)
        expected = slow_decide(
            plain, plain_rows(prompt, rows), HEADS, GROUPS, ALL, situation.observers, query, 4, planner.settings
        )
        decision = answer.decision if isinstance(answer, Plan) else answer
        assert decision.outcome in expected.outcomes
        if isinstance(answer, Plan):
            accepted += 1
            gone = {j for number in expected.removed for j in range(*plain.chunks[number])}
            assert set(answer.keep.tolist()) == set(range(len(prompt))) - gone
    assert accepted >= 5


def test_it_is_a_pure_function_of_what_it_sees() -> None:
    planner = planner_of(audit="hoeffding", audit_draws=900, tolerance=0.6, audit_tolerance=0.6)
    rows = attention_of(PROMPT, 3)
    first, second = (planner.after(observe(PROMPT, planner, rows)) for _ in range(2))
    assert type(first) is type(second) is Plan
    assert first.keep.tolist() == second.keep.tolist()
    assert first.bound == second.bound


def test_it_is_not_asked_again_once_tokens_have_left() -> None:
    planner = planner_of(monitor={2: "all", 3: "all"}, mass="absolute", tolerance=0.2, keep="65%")
    rows = spread(PROMPT, *SHARES)
    seen = observe(PROMPT, planner, rows, layer=3)
    assert isinstance(planner.after(seen), Plan)
    assert planner.after(replace(seen, pos=torch.arange(30))) is None


def test_its_repr_is_what_is_set() -> None:
    assert repr(EntroPrefill()) == "EntroPrefill()"
    given = EntroPrefill(keep="40%", monitor="9:8.7+0", profile=None, tau=2)
    assert repr(given) == "EntroPrefill(keep='40%', profile=None, monitor='9:0+8.7', tau=2.0)"
    fitted = repr(planner_of(monitor="2:1"))
    assert "monitor='2:1'" in fitted
    assert fitted.endswith(") fitted to made up")


def test_looks_are_at_the_querys_rows_of_every_monitored_layer() -> None:
    planner = planner_of(monitor="2:1, 4:all", observers=2)
    query = tuple(range(*PROMPT.query))
    assert planner.looks(PROMPT, 6) == (Look(2, None, query), Look(4, None, query))
    assert planner.layers(6) == (2, 4)
    assert planner.heads == {2: (1,), 4: (0, 1, 2, 3)}
    assert planner_of(audit="off", observers=2).looks(PROMPT, 6) == (Look(2, None, query[-2:]),)


@pytest.mark.parametrize(
    ("changes", "prompt", "why"),
    [
        ({"shortest": 52}, PROMPT, "the prompt has 51 tokens, fewer than shortest asks for (52)"),
        ({"shortest": 51}, PROMPT, None),
        ({"shortest": 10**9}, PROMPT, "the prompt has 51 tokens, fewer than shortest asks for (1000000000)"),
        ({"min_chunks": 3}, PROMPT, None),
        ({"min_chunks": 4}, PROMPT, "4 chunks must stay (min_chunks), and 4 may leave: nothing could"),
        ({}, prompt_of(), "no chunks: nothing before the query may be left out as a whole"),
        ({}, replace(PROMPT, query=(50, 50)), "no query: the prompt does not say which positions ask"),
        ({"keep": "100%", "keep_at_most": "100%"}, PROMPT, "the budget covers every token"),
        ({"keep": 51, "keep_at_most": 51}, PROMPT, "the budget covers every token"),
        ({"keep": 50, "keep_at_most": 50}, PROMPT, None),
    ],
    ids=str,
)
def test_prompts_it_declines(changes: dict[str, Any], prompt: Any, why: str | None) -> None:
    planner = planner_of(**changes)
    planner.check(prompt)
    assert planner.declines(prompt) == why
    assert (planner.looks(prompt, 6) == ()) == (why is not None)
    if why is not None:
        seen = replace(observe(PROMPT, planner_of(), spread(PROMPT, *SHARES)), prompt=prompt)
        assert planner.after(replace(seen, pos=torch.arange(len(prompt)))) is None


def test_budgets_that_a_prompt_cannot_meet() -> None:
    with pytest.raises(BadInput, match="keep is 52; it must be at most 51, the prompt's tokens"):
        planner_of(keep=52, keep_at_most=52).check(PROMPT)
    mixed = planner_of(keep="50%", keep_at_most=20)
    with pytest.raises(BadInput) as caught:
        mixed.check(PROMPT)
    legal = "keep_at_most is '20 tokens (20 tokens)'; it must be at least the 26 tokens of keep. "
    assert str(caught.value) == legal + "Raise it, or leave it out."
    mixed.check(prompt_of(10, 10))
    for keep, most in (("60%", "50%"), (30, 20)):
        with pytest.raises(BadInput, match=f"keep_at_most is '?{most}"):
            EntroPrefill(keep=keep, keep_at_most=most)


def test_what_was_given_comes_before_the_preset() -> None:
    general, paper = EntroPrefill(profile=None).fitted(FACTS), EntroPrefill(preset="paper").fitted(FACTS)
    assert general.layers(6) == (3, 4, 5)  # 0.53-0.8 of 6
    assert paper.layers(6) == (1, 2, 3, 4, 5)
    for planner, preset in ((general, GENERAL), (paper, PAPER)):
        for name in set(PARAMETERS) - {"keep", "keep_at_most", "monitor"}:
            assert getattr(planner.settings, name) == preset[name]
    assert (general.settings.keep, general.settings.keep_at_most) == (Keep(fraction=0.5), Keep(fraction=0.75))
    changed = EntroPrefill(keep="30%", tau=2, monitor="4:1", profile=None).fitted(FACTS)
    assert (changed.settings.keep, changed.settings.keep_at_most) == (Keep(fraction=0.3), Keep(fraction=0.3))
    assert (changed.settings.tau, changed.heads, changed.settings.zeta) == (2.0, {4: (1,)}, 0.1)
    both = EntroPrefill(keep="30%", keep_at_most="60%", profile=None).fitted(FACTS)
    assert both.settings.keep_at_most == Keep(fraction=0.6)
    assert EntroPrefill(preset="general").fitted(FACTS).settings == general.settings
    assert general.fitted(FACTS) == general
    assert hash(general) == hash(EntroPrefill(profile=None).fitted(FACTS))


@pytest.mark.parametrize(
    ("given", "idle"),
    [({"preset": "paper"}, {"streak_change": 0.5}), ({"preset": "general"}, {"concentration": 2.0})],
    ids=str,
)
def test_what_the_preset_makes_idle_is_refused(given: dict[str, Any], idle: dict[str, Any]) -> None:
    (name,) = idle
    with pytest.raises(BadInput, match=f"^{name} is "):
        EntroPrefill(**given, **idle).fitted(FACTS)
    EntroPrefill(**given).fitted(FACTS)
    EntroPrefill(preset="paper", order="entropy", concentration=2.0, streak=1, streak_change=0.5).fitted(FACTS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "best"}, "preset is 'best'; it must be default, paper or general"),
        ({"profile": 7}, "profile is 7; it must be auto, None, a file or a Calibrated"),
        ({"preset": "paper", "profile": "a.json"}, r"profile is 'a\.json'; it must be left out with preset paper"),
        ({"shortest": -1}, "shortest is -1; it must be a whole number of at least 0"),
        ({"shortest": True}, "shortest is True"),
        ({"shortest": 1.0}, r"shortest is 1\.0"),
        ({"monitor": "0"}, "a layer of monitor is '0'"),
    ],
    ids=str,
)
def test_what_it_refuses(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        EntroPrefill(**settings)


def test_a_model_without_the_layers_or_heads_is_refused() -> None:
    with pytest.raises(BadInput, match="monitor is '6'; it must be layers from 1 to 5"):
        EntroPrefill(monitor="6", profile=None).fitted(FACTS)
    with pytest.raises(BadInput, match="a head of monitor is 4; it must be from 0 to 3"):
        EntroPrefill(monitor="5:4", profile=None).fitted(FACTS)
    with pytest.raises(BadInput, match="monitor is '6'; it must be layers from 1 to 5"):
        EntroPrefill(monitor="6").layers(6)  # a study asks before there is a model
    assert EntroPrefill(monitor="5:9").layers(6) == (5,)
    assert EntroPrefill().layers(6) == ()
    windowed = ModelFacts("made up", "0" * 32, 6, 4, 2, (None, 8, None, 8, 8, 8))
    with pytest.raises(BadInput, match="a layer of monitor is 2; it must be a layer without a sliding window"):
        EntroPrefill(monitor="2", profile=None).fitted(windowed)
    assert EntroPrefill(monitor="0.1-0.9", profile=None).fitted(windowed).layers(6) == (1, 3)


def test_before_it_is_fitted_there_are_no_settings() -> None:
    with pytest.raises(BadInput, match=r"facts is None; it must be those of a model"):
        _ = EntroPrefill().settings


def test_what_the_receipt_says_of_it() -> None:
    assert EntroPrefill(keep="50%", tau=2).describe() == {
        "preset": "default",
        "profile": "auto",
        "keep": "50%",
        "tau": 2.0,
    }
    shown = EntroPrefill(keep="50%", monitor="2:1+3, 4:all", profile=None).fitted(FACTS).describe()
    assert set(shown) == {"preset", "profile", *PARAMETERS}
    assert (shown["monitor"], shown["profile"], shown["keep_at_most"]) == ("2:1+3, 4:0+1+2+3", "none", "50%")
    assert all(isinstance(value, (str, int, float)) for value in shown.values())


def test_by_name() -> None:
    assert PLANNERS["entroprefill"] is EntroPrefill
    names = settings_of("entroprefill")
    assert set(names) == {"preset", "profile", *PARAMETERS}
    planner = make_planner("entroprefill", keep="50%", profile="none", tolerance=0.2, monitor="8:7, 16:all")
    assert planner == EntroPrefill(keep="50%", profile=None, tolerance=0.2, monitor={8: [7], 16: "all"})
    assert make_planner("entroprefill") == EntroPrefill()
    with pytest.raises(BadInput, match="the setting facts of entroprefill is None; it must be one of keep, "):
        make_planner("entroprefill", facts=None)
    with pytest.raises(BadInput, match="the setting grain of entroprefill is 'chunk'"):
        make_planner("entroprefill", grain="chunk")


def test_one_situation_for_the_planner_and_by_hand() -> None:
    rows = attention_of(PROMPT, 8)
    planner = planner_of(tolerance=0.5)
    verdict = planner.judge(PROMPT, LAYER, observe(PROMPT, planner, rows).looked)
    situation = situation_of(PROMPT, tolerance=0.5)
    by_hand = verdict_of(situation, rows)
    assert removed_of(verdict, situation) == removed_of(by_hand, situation)
    assert verdict.outcome == by_hand.outcome
