"""EntroPrefill's rule is found on made-up tables: a planted head, the goal, and tasks that choose nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng

from fewer.errors import BadInput
from fewer.prune.entroprefill.priority import Priorities, order_chunks
from fewer.prune.entroprefill.screening import Screen, scan
from fewer.study.calibrate.entroprefill import ledger, search
from fewer.study.calibrate.entroprefill.fitting import GOAL, fit_settings
from fewer.study.calibrate.entroprefill.ledger import RULES, Ledger
from fewer.study.calibrate.entroprefill.record import summarise
from fewer.study.calibrate.entroprefill.rule import AUDIT_ROOM, SHORTEST, Outcome, Rule, count_least, judge, try_rules
from fewer.study.calibrate.entroprefill.search import Failed, Found, Goal
from fewer.study.calibrate.entroprefill.tables import Table

LAYERS, HEADS, CHUNKS, DEPTH = 4, 3, 12, 12
Where = tuple[int, int]


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "POOL", 3)


def make_tables(
    pointing: Callable[[int], Sequence[Where]], tasks: Sequence[str] = ("a", "b", "c"), each: int = 4, seed: int = 0
) -> list[Table]:
    """Heads look anywhere; by the prompt's number, those that point put 60% or more on the chunk with the evidence."""
    random = default_rng(seed)
    found = []
    for task in tasks:
        for number in range(each):
            gold = int(random.integers(CHUNKS))
            shares = random.dirichlet(np.full(CHUNKS, 3.0), (LAYERS, HEADS))
            for layer, head in pointing(number):
                shares[layer - 1, head] *= 0.4 - 0.2 * random.random()
                shares[layer - 1, head, gold] += 1 - shares[layer - 1, head].sum()
            sizes = random.integers(40, 60, CHUNKS)
            supporting = np.arange(CHUNKS) == gold
            mass = np.full(LAYERS, 0.5)
            size = int(sizes.sum()) + 40
            found.append(Table(task, size, 9, sizes, supporting, np.arange(1, LAYERS + 1), shares, shares.copy(), mass))
    return found


def make_table(task: str, heads: Sequence[tuple[int, Sequence[float]]], gold: int = 0) -> Table:
    """Chunks of 50 tokens and 40 more; of each layer one head, and what it puts on each chunk."""
    shares = np.array([[each] for _, each in heads])
    layers = np.array([layer for layer, _ in heads])
    sizes = np.full(CHUNKS, 50)
    supporting = np.arange(CHUNKS) == gold
    return Table(task, 640, 9, sizes, supporting, layers, shares, shares.copy(), np.full(len(layers), 0.5))


def lose(tables: Sequence[Table], head: Where) -> list[Table]:
    """The same, but this head puts nothing on the evidence, and what it had there on the next chunk."""
    found = []
    for table in tables:
        shares = table.shares.copy()
        row = shares[head[0] - 1, head[1]]
        row += np.roll(row * table.supporting, 1)
        row[table.supporting] = 0.0
        found.append(replace(table, shares=shares, audited=shares.copy()))
    return found


def find(tables: Sequence[Table], saving: float = 0.27, rate: float = 0.95) -> Found:
    found = search.search(tables, DEPTH, Goal(saving, rate))
    assert isinstance(found, Found)
    return found


def mean_saving(tables: Sequence[Table], rule: Rule) -> float:
    return float(np.mean([judge(table, rule, DEPTH).saving for table in tables]))


def test_a_head_that_points_is_found() -> None:
    found = find(make_tables(lambda number: [(2, 1)]))
    assert found.rule.heads == ((2, 1),)
    assert found.rule.layer == 2
    assert found.rule.monitor == "2:1"
    assert {rule.heads for rule in found.folds.values()} == {((2, 1),)}
    assert all(each.survives and each.pruned for each in found.crossed)


def test_heads_that_point_in_different_prompts_are_found_together() -> None:
    tables = make_tables(lambda number: [(1, 2), (2, 0)])
    for place in range(len(tables)):  # in two of four one of them points elsewhere
        if place % 4 < 2:
            tables[place : place + 1] = lose(tables[place : place + 1], ((1, 2), (2, 0))[place % 4])
    found = find(tables)
    assert found.rule.heads == ((1, 2), (2, 0))
    assert found.rule.monitor == "2:1.2+0"


def test_the_earlier_of_two_equal_heads_is_taken() -> None:
    assert find(make_tables(lambda number: [(1, 0), (4, 0)])).rule.heads == ((1, 0),)


def test_without_a_head_that_points_nothing_is_found() -> None:
    tables = make_tables(lambda number: [], each=16)
    assert search.search(tables, DEPTH, Goal(0.27, 0.97)) == Failed(None)
    with pytest.raises(BadInput, match=r"No heads save 25% .* the evidence of 95% .*no rule does.*No file was made"):
        fit_settings(tables, {}, DEPTH)


def test_a_saving_that_no_rule_reaches() -> None:
    tables = make_tables(lambda number: [(2, 1)])
    most = max(find(tables, saving=0.4).crossed, key=lambda each: each.saving).saving
    assert 0.4 < most < 0.6
    assert search.search(tables, DEPTH, Goal(0.6, 0.01)) == Failed(None)
    with pytest.raises(BadInput, match="No heads save 60% of the prefill"):
        fit_settings(tables, {}, DEPTH, Goal(0.6, 0.01))


def test_of_rules_that_save_enough_the_one_with_fewer_losses_wins() -> None:
    tables = make_tables(lambda number: [(1, 0), (4, 0)])
    for place in (0, 4, 8):  # one of each task
        tables[place : place + 1] = lose(tables[place : place + 1], (1, 0))
    kept = find(tables, rate=0.7)
    assert kept.rule.heads == ((4, 0),)
    assert all(each.survives for each in kept.crossed)
    more = find(tables, saving=0.45, rate=0.7)  # more than can be saved after the fourth of twelve layers
    assert more.rule.layer < 4
    assert sum(not each.survives for each in more.crossed) > 0
    assert min(mean_saving(tables, each.rule) for each in (kept, more)) >= 0.27


def test_a_prompt_of_another_task_that_prunes_counts_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both heads keep all evidence and save enough. After layer 1 the other tasks prune as well, after layer 2 not."""
    sharp, even = [0.4, *[0.6 / 11] * 11], [1 / 12] * 12
    needles = [make_table(task, [(1, sharp), (2, sharp)]) for task in ("passcode", "reordered")]
    others = [make_table(task, [(1, sharp), (2, even)]) for task in "ab"]
    both = find([*needles, *others])
    assert both.rule.layer == 2
    assert [each.pruned for each in both.crossed] == [True, True, False, False]
    assert find(needles).rule.layer == 1
    monkeypatch.setattr(search, "PRIOR", 0.0)
    assert find([*needles, *others]).rule.layer == 1  # it saves more


def test_tasks_left_out_contradict_the_rate() -> None:
    tables = make_tables(lambda number: [(1, 0), (3, 0)])
    tables[8:] = lose(tables[8:], (1, 0))  # without the last task, the earlier head is as safe and saves more
    assert search.search(tables[:8], DEPTH, Goal(0.27, 0.97)) != Failed(None)
    assert search.search(tables, DEPTH, Goal(0.27, 0.97)) == Failed(8 / 12)
    with pytest.raises(BadInput, match=r"\(67% on tasks that were left out\)"):
        fit_settings(tables, {}, DEPTH)


def test_the_saving_is_that_of_needles_where_there_are_some() -> None:
    shares = [0.4, *[0.6 / 11] * 11]
    tables = [make_table(task, [(2, shares)]) for task in ("passcode", "reordered", "b", "c")]
    tables[2:] = [replace(table, document_mass=np.zeros(1)) for table in tables[2:]]  # they never prune
    found = find(tables, saving=0.3)
    assert [each.pruned for each in found.crossed] == [True, True, False, False]
    assert mean_saving(tables[:2], found.rule) >= 0.3 > mean_saving(tables, found.rule)
    others = [replace(table, task=task) for table, task in zip(tables, "abcd", strict=True)]
    assert search.search(others, DEPTH, Goal(0.3, 0.95)) == Failed(None)


def test_a_rate_that_is_just_reached_is_enough() -> None:
    shares = [0.4, *[0.6 / 11] * 11]
    tables = [make_table(task, [(2, shares)], gold=int(number < 1)) for task in "ab" for number in range(5)]
    assert sum(each.survives for each in find(tables, rate=0.8).crossed) == 8  # 1 - 0.8 is a little less than 0.2
    assert search.search(tables, DEPTH, Goal(0.27, 0.81)) == Failed(None)


def test_a_head_that_fails_on_one_task_does_not_pass_there() -> None:
    right, wrong = (make_tables(lambda number: [(2, 1)], tasks) for tasks in (("a", "b"), ("c",)))
    wrong = [replace(table, supporting=np.roll(table.supporting, 1)) for table in wrong]
    assert isinstance(search.search([*right, *wrong], DEPTH, Goal(0.27, 0.97)), Failed)


def test_the_search_is_deterministic() -> None:
    tables = make_tables(lambda number: [(2, 1)])
    assert find(tables) == find(tables)


def test_held_out_tables_choose_nothing() -> None:
    fit = make_tables(lambda number: [(2, 1)])
    kind = make_tables(lambda number: [(2, 1)], ("x", "y"), seed=5)
    cruel = [replace(table, supporting=~table.supporting) for table in kind]
    settings, record = fit_settings(fit, {"held_out": kind}, DEPTH)
    others, other_record = fit_settings(fit, {"held_out": cruel}, DEPTH)
    assert settings == others
    assert {name: record[name] for name in record if name != "held_out"} == {
        name: other_record[name] for name in other_record if name != "held_out"
    }
    assert record["held_out"]["all"]["survives_rate"] == 1.0
    assert other_record["held_out"]["all"]["survives_rate"] == 0.0


def test_settings_and_what_was_reached() -> None:
    fit = make_tables(lambda number: [(2, 1)], ("passcode", "reordered", "ruler_qa_1"))
    settings, record = fit_settings(fit, {"held_out": []}, DEPTH)
    assert settings["monitor"] == "2:1"
    assert record["goal"] == {"saving": GOAL.saving, "rate": GOAL.rate}
    assert record["fit"]["needles"]["saving"] >= GOAL.saving
    assert settings["audit_tolerance"] == pytest.approx(settings["tolerance"] + AUDIT_ROOM)
    assert (record["fit"]["all"]["n"], record["fit"]["needles"]["n"], record["fit"]["tasks"]["passcode"]["n"]) == (
        12,
        12,
        4,
    )
    assert record["held_out"]["all"] == {**dict.fromkeys(record["fit"]["all"]), "n": 0, "pruned": 0, "survives": 0}
    assert set(record["without"]) == {"passcode", "reordered", "ruler_qa_1"}


@pytest.mark.parametrize("num_heads", [1, 2, 3])
def test_a_scan_is_the_planners(num_heads: int) -> None:
    heads = ((1, 0), (2, 1), (3, 2))[:num_heads]
    grid = [rule[:4] for rule in RULES[:: len(RULES) // 40]]
    losses = 0
    for table in make_tables(lambda number: [(2, 1)], ("a",)):
        removed, lost = try_rules(table, [heads], grid)
        mass = np.stack([table.shares[layer - 1, head] for layer, head in heads])
        for place, (tolerance, lift, min_chunks, keep) in enumerate(grid):
            target = min(int(table.sizes.sum()), table.size - round(keep * table.size))
            barred = (mass * table.sizes.sum() / table.sizes).max(axis=0) > lift
            screen = Screen(mass, np.full(num_heads, tolerance), table.sizes, min_chunks, target, barred)
            blank = np.zeros(CHUNKS)
            order = order_chunks("row", Priorities(1.0, *[blank] * 4), screen.shares, table.sizes)
            removal = scan(screen, order)
            assert removed[0, place] == removal.saving
            assert lost[0, place] == (removal.removed & table.supporting).any()
        assert len(np.unique(removed)) > 2
        losses += int(lost.sum())
    assert (losses > 0) == (num_heads == 1)  # a head that points keeps the evidence


def test_the_audit_and_the_document_mass_refuse() -> None:
    (table, *_) = make_tables(lambda number: [(2, 1)])
    rule = Rule(((2, 1),), 0.2, 1e6, 1, 0.5, 0.85, 0)
    assert judge(table, rule, DEPTH).pruned
    assert not judge(replace(table, audited=table.audited * 3), rule, DEPTH).pruned
    assert not judge(replace(table, document_mass=np.array([1, 0.04, 1, 1])), rule, DEPTH).pruned
    assert judge(replace(table, document_mass=np.array([0, 0.05, 0, 0])), rule, DEPTH).pruned


def test_the_outcome_counts_layers_and_tokens() -> None:
    sizes, shares = np.array([50, 30, 20]), np.array([[[0.1, 0.2, 0.7]]])
    table = Table("t", 200, 5, sizes, np.array([False, True, False]), np.array([1]), shares, shares, np.ones(1))
    rule = Rule(((1, 0),), 0.2, 1e6, 1, 0.5, 0.8, 200)
    assert judge(table, rule, 4) == Outcome("t", True, True, 0.75 * 50 / 200, 0.5)
    assert judge(table, replace(rule, tolerance=0.35), 4) == Outcome("t", True, False, 0.75 * 80 / 200, 0.8)
    nothing = Outcome("t", False, True, 0.0, 0.0)
    assert judge(table, replace(rule, keep_at_most=0.7), 4) == nothing
    assert judge(table, replace(rule, shortest=201), 4) == nothing
    # the chunks have .2, .67 and 3.5 of an even share
    assert judge(table, replace(rule, tolerance=0.35, lift_at_most=0.6), 4).documents == 0.5
    assert judge(table, replace(rule, tolerance=0.35, lift_at_most=0.67), 4).documents == 0.8
    assert judge(table, replace(rule, lift_at_most=0.1), 4) == nothing
    assert count_least(table, 0.7) == 60


def test_sums_are_those_of_single_rules() -> None:
    tables = make_tables(lambda number: [(2, 1)])
    tables[::3] = [replace(table, size=max(SHORTEST) + 600) for table in tables[::3]]
    found = Ledger(tables, DEPTH)
    heads = ((1, 1), (2, 1))
    found.add([heads])
    for task in (None, "b"):
        pruned, survived, saving = found.totals([heads], found.all_but(task))
        for place in range(0, len(RULES), 97):
            rule = Rule(heads, *RULES[place])
            if rule.keep > rule.keep_at_most:
                assert pruned[0, place] == 0
                continue
            outcomes = [judge(table, rule, DEPTH) for table in tables if table.task != task]
            assert pruned[0, place] == sum(each.pruned for each in outcomes)
            assert survived[0, place] == sum(each.pruned and each.survives for each in outcomes)
            assert saving[0, place] == pytest.approx(np.mean([each.saving for each in outcomes]), rel=1e-5)
    assert found.num_rules == len(ledger.RULES)


def test_the_lower_bound_is_clopper_and_pearsons() -> None:
    survived = [Outcome("t", True, True, 0.3, 0.5)] * 20
    assert summarise(survived)["survives_at_least"] == pytest.approx(0.05 ** (1 / 20), abs=1e-4)
    found = summarise([*survived, Outcome("t", False, True, 0.0, 0.0)])
    assert (found["n"], found["pruned"], found["saving"]) == (21, 20, round(0.3 * 20 / 21, 4))
