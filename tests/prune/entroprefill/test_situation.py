"""What is fixed before attention is seen: observers, audit positions, budgets, sinks, and their seeds."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from deciding import LAYER, attention_of, prompt_of, rows_at, settings_of, situation_of

from fewer import Prompt
from fewer.prune.entroprefill.situation import Situation, why_not

PROMPT = prompt_of(10, 10, 10, query=40)  # the query is 35 to 74
QUERY = tuple(range(35, 75))


def test_observers_are_the_last_rows_of_the_query() -> None:
    for count in (1, 3, 39, 40, 41, 10**6):
        assert situation_of(PROMPT, observers=count).observers == QUERY[-min(40, count) :]


def test_sampled_observers_depend_on_the_seed_and_the_prompts_ids_alone() -> None:
    def observers(prompt: Prompt = PROMPT, **changes: object) -> tuple[int, ...]:
        return situation_of(prompt, choose_observers="sample", **{"observers": 8, **changes}).observers

    first = observers()
    assert first == observers() == observers(tolerance=0.9) == observers(prompt_of(10, 10, 10, query=40))
    assert (len(set(first)), tuple(sorted(first))) == (8, first)
    assert set(first) <= set(QUERY)
    others = {observers(seed=seed) for seed in range(1, 9)} | {
        observers(prompt_of(10, 10, 10, query=40, seed=seed)) for seed in range(1, 9)
    }
    assert len(others | {first}) == 17  # of 77 million choices: two alike by chance 2e-6
    assert observers(observers=99) == QUERY
    many = [observers(seed=seed) for seed in range(300)]
    hits = [sum(position in each for each in many) for position in QUERY]
    assert 25 < min(hits) <= max(hits) < 102  # 60 each in the mean; outside by chance below 1e-4


def test_the_audit_reads_the_whole_query_or_draws_from_it() -> None:
    exact = situation_of(PROMPT, observers=2)
    assert (exact.protocol.mode, exact.positions, exact.draw().positions) == ("exact", QUERY, QUERY)
    drawn = situation_of(PROMPT, observers=2, audit="hoeffding", audit_draws=12)
    assert drawn.protocol.mode == "hoeffding"
    assert len(drawn.draw().positions) == 12
    assert drawn.draw().positions == drawn.draw().positions
    assert drawn.positions == tuple(sorted({*drawn.draw().positions, 73, 74}))
    assert set(drawn.positions) <= set(QUERY)
    seeds = {situation_of(PROMPT, audit="hoeffding", audit_draws=12, seed=seed).draw().positions for seed in range(9)}
    ids = {
        situation_of(prompt_of(10, 10, 10, query=40, seed=seed), audit="hoeffding", audit_draws=12).draw().positions
        for seed in range(1, 9)
    }
    assert len(seeds | ids) == 17
    assert situation_of(PROMPT, observers=2, audit="off").positions == (73, 74)


@pytest.mark.parametrize(("limit", "mode"), [(39, "hoeffding"), (40, "exact"), (41, "exact")])
def test_auto_is_exact_up_to_the_limit(limit: int, mode: str) -> None:
    assert situation_of(PROMPT, exact_limit=limit).protocol.mode == mode


def test_any_other_setting_is_another_protocol() -> None:
    base = situation_of(PROMPT)
    changes = ({"tolerance": 0.2}, {"tau": 2.0}, {"min_chunks": 0}, {"order": "mass"}, {"keep": "41%"}, {"sinks": 1})
    others = [situation_of(PROMPT, **change) for change in changes]
    others += [situation_of(prompt_of(10, 10, 10, query=40, seed=5)), situation_of(PROMPT, heads=(1,))]
    assert len({each.protocol.digest for each in (base, *others)}) == 9
    assert situation_of(PROMPT).protocol.digest == base.protocol.digest
    assert situation_of(PROMPT, mass="absolute").protocol.relative is False
    assert base.protocol.relative is True
    assert base.protocol.monitored == ((LAYER, (0, 1, 2, 3)),)
    assert (base.protocol.tolerance, base.protocol.population) == (0.3, QUERY)


@pytest.mark.parametrize(
    ("keep", "most", "target", "least"),
    [
        ("60%", "80%", 30, 15),  # 76 tokens, 30 of them in chunks; 46 and 61 stay
        ("80%", "80%", 15, 15),
        ("20%", "80%", 30, 15),  # there is no more to leave out
        ("20%", "30%", 30, 53),
        (60, 60, 16, 16),
        (76, 76, 0, 1),
        (1, "100%", 30, 1),
    ],
)
def test_budgets_are_of_the_whole_prompt(keep: object, most: object, target: int, least: int) -> None:
    situation = situation_of(PROMPT, keep=keep, keep_at_most=most)
    assert (situation.target, situation.least) == (target, least)


def test_sinks_are_protected_tokens_at_the_start() -> None:
    device = torch.device("cpu")
    for count, expected in ((0, []), (1, [0]), (2, [0, 1]), (9, [0, 1])):  # two are protected, and then a chunk
        assert situation_of(PROMPT, sinks=count).sinks(device).nonzero().flatten().tolist() == expected
    assert situation_of(prompt_of(3, sinks=0), sinks=2).sinks(device).sum() == 0


def test_observers_rows_are_picked_by_position() -> None:
    rows = attention_of(PROMPT, 1)
    for audit in ("exact", "hoeffding", "off"):
        situation = situation_of(PROMPT, observers=5, choose_observers="sample", audit=audit)
        picked = situation.pick_observers(rows_at(PROMPT, rows, situation.positions))
        assert torch.equal(picked, rows_at(PROMPT, rows, situation.observers))


def test_why_a_prompt_is_not_asked_about() -> None:
    assert why_not(PROMPT) is None
    assert why_not(replace(PROMPT, query=(75, 75))) == "no query: the prompt does not say which positions ask"
    no_chunks = "no chunks: nothing before the query may be left out as a whole"
    assert why_not(prompt_of()) == why_not(replace(PROMPT, query=(0, 5))) == no_chunks
    assert why_not(Prompt.from_ids(range(9), sinks=9)) == no_chunks
    assert why_not(Prompt.from_ids(range(9))) is None


@pytest.mark.parametrize(
    ("least", "why"),
    [
        (0, None),
        (2, None),
        (3, "3 chunks must stay (min_chunks), and 3 may leave: nothing could"),
        (8, "8 chunks must stay (min_chunks), and 3 may leave: nothing could"),
    ],
)
def test_a_prompt_of_no_more_chunks_than_must_stay(least: int, why: str | None) -> None:
    assert why_not(PROMPT, least) == why
    assert why_not(prompt_of(9), 1) == "1 chunk must stay (min_chunks), and 1 may leave: nothing could"
    assert why_not(prompt_of(), least) == "no chunks: nothing before the query may be left out as a whole"


def test_a_query_shorter_than_the_observers() -> None:
    prompt = prompt_of(5, 5, query=1)
    situation = Situation.of(settings_of(observers=8), {LAYER: (0,)}, prompt)
    assert situation.observers == situation.positions == (prompt.query[0],)
