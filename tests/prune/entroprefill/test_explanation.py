"""What an explanation says, against the verdict that it explains."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from made_rows import attention

from fewer.errors import BadInput
from fewer.prune.entroprefill import EntroPrefill
from fewer.prune.entroprefill.envelope import chi_square
from fewer.prune.entroprefill.explain import Explanation, explain
from fewer.prune.entroprefill.screening import exact
from fewer.prune.entroprefill.situation import Situation
from fewer.prune.entroprefill.watch import Watch
from fewer.types import Chunk, Decision, Look, Looked, ModelFacts, Observation, Plan, Prompt

FACTS = ModelFacts("made up", "0" * 32, 6, 4, 2, (None,) * 6)
SIZES = (5, 9, 4, 7, 6)
SETTINGS = {"shortest": 0, "preset": "paper", "keep": "85%", "monitor": {2: [0, 3], 3: "all"}, "observers": 3}


def prompt_of(sizes: tuple[int, ...] = SIZES) -> Prompt:
    """Two sinks, the chunks with a protected token behind each, a query of six, a last token."""
    chunks, start = [], 2
    for number, size in enumerate(sizes):
        chunks.append(Chunk(f"c{number}", start, start + size))
        start += size + 1
    total = start + 7
    protected = torch.ones(total, dtype=torch.bool)
    for chunk in chunks:
        protected[chunk.start : chunk.stop] = False
    return Prompt(torch.arange(total), protected, tuple(chunks), (start, start + 6))


def watch(prompt: Prompt, acts: bool = False, sharp: float = 1.0, **settings: object) -> tuple[Watch, list[object]]:
    """A watcher over made-up attention, and what it answered at each layer."""
    planner = EntroPrefill(**{**SETTINGS, **settings}).fitted(FACTS)
    watcher, looked, answers = Watch(planner, acts), {}, []
    for look in watcher.looks(prompt, 6):
        rows = attention(look.layer, 4, len(look.rows), len(prompt), sharp=sharp)
        looked[look] = Looked(torch.arange(len(prompt)), rows)
    pos = torch.arange(len(prompt))
    for layer in watcher.layers(6):
        seen = Observation(layer, pos, prompt, torch.Generator(), looked=looked)
        answers.append(watcher.after(seen))
        if isinstance(answers[-1], Plan):
            pos = answers[-1].keep
    return watcher, answers


def explained(layer: int | None = None, sharp: float = 1.0, **settings: object) -> tuple[Watch, Explanation]:
    prompt = prompt_of()
    watcher, _ = watch(prompt, sharp=sharp, **settings)
    return watcher, explain(watcher.planner, prompt, watcher.verdicts, layer, lambda token: f"<{token}>")


def test_a_watcher_judges_as_the_planner_and_leaves_nothing_out():
    prompt = prompt_of()
    quiet, said = watch(prompt, tolerance=0.5, audit_tolerance=0.5)
    assert said == [None, None]
    acting, answers = watch(prompt, acts=True, tolerance=0.5, audit_tolerance=0.5)
    assert [type(answer) for answer in answers] == [Plan, type(None)]
    assert [each.layer for each in quiet.verdicts] == [2, 3]
    assert [each.layer for each in acting.verdicts] == [2]
    wanted = acting.verdicts[0].proposal.removal.removed
    assert np.array_equal(quiet.verdicts[0].proposal.removal.removed, wanted)
    refused, answers = watch(prompt, acts=True, tolerance=0.01)
    assert [type(answer) for answer in answers] == [Decision, Decision]
    assert answers[0].outcome == refused.verdicts[0].outcome


def test_chunks_rows_and_bounds_are_those_of_the_verdict():
    watcher, found = explained(tolerance=0.25, keep="40%", keep_at_most="90%", audit_tolerance=0.25)
    shown, verdict = found.shown, watcher.verdicts[0]
    proposal, situation = verdict.proposal, watcher.planner.settings
    assert found.acted == shown.layer == verdict.layer == 2
    assert [each.asked for each in found.layers] == [True, False]
    assert [each.would_act for each in found.layers] == [True, False]
    assert found.layers[0].numbers == verdict.numbers
    assert [chunk.tokens for chunk in shown.chunks] == list(SIZES)
    assert [chunk.score for chunk in shown.chunks] == proposal.priorities.score.tolist()
    assert [chunk.mass for chunk in shown.chunks] == proposal.priorities.mass.tolist()
    assert [chunk.fate == "removed" for chunk in shown.chunks] == proposal.removal.removed.tolist()
    assert sorted(chunk.place for chunk in shown.chunks) == [1, 2, 3, 4, 5]
    assert [shown.chunks[index].place for index in proposal.order] == [1, 2, 3, 4, 5]
    mass = proposal.screen.mass
    used = mass[:, proposal.removal.removed].sum(axis=1)
    names = [(str(head), position) for head in (0, 3) for position in found.observers]
    for index, chunk in enumerate(shown.chunks):
        share = mass[:, index] / 0.25
        assert chunk.largest_share == pytest.approx(share.max(), abs=1e-12)
        assert (chunk.heaviest_head, chunk.heaviest_position) == names[share.argmax()]
        if chunk.fate == "removed":
            assert chunk.slack is None
            continue
        after = 0.25 - used - mass[:, index]
        assert chunk.slack == pytest.approx(after.min(), abs=1e-12)
        assert (chunk.blocking_head, chunk.blocking_position) == names[after.argmin()]
    assert [row.slack for row in shown.rows] == sorted(row.slack for row in shown.rows)
    assert shown.rows[0].slack == pytest.approx((0.25 - used).min(), abs=1e-12)
    assert (shown.rows[0].head, shown.rows[0].position) == names[(0.25 - used).argmin()]
    assert shown.rows[0].token == f"<{shown.rows[0].position}>"
    assert shown.num_rows == 2 * situation.observers
    priced = {(row.head, row.position): row.price for row in shown.rows if row.price}
    assert priced == {name: price for name, price in zip(names, verdict.bound.prices.rows, strict=True) if price}
    bounds = shown.bounds
    assert bounds.saving <= bounds.unstopped <= bounds.exact <= bounds.dual
    assert bounds.exact == exact(proposal.screen, 5.0)
    assert bounds.gap == bounds.dual - bounds.saving == verdict.numbers["dual_gap"]


def test_the_audit_and_the_heads():
    watcher, found = explained(2, tolerance=0.3, audit="hoeffding", audit_tolerance=0.4, audit_draws=40)
    shown, result = found.shown, watcher.verdicts[0].audit
    assert shown.audit.half_width == shown.audit.hoeffding_b == result.b > 0
    assert shown.audit.bound == result.bound.max()
    assert shown.audit.num_pairs == 6
    assert shown.audit.hoeffding_room == 0.4 - result.b
    assert [head.monitored for head in shown.heads] == [True, False, False, True]
    assert [head.audit_mean for head in shown.heads if head.monitored] == result.etahat.tolist()
    assert [head.audit_margin for head in shown.heads if head.monitored] == result.margin.tolist()
    assert shown.heads[1].audit_mean is None
    assert [head.group for head in shown.heads] == [0, 0, 1, 1]
    for group in (0, 1):
        assert sum(head.weight for head in shown.heads if head.group == group) == pytest.approx(1.0, abs=1e-12)
    assert all(0 < head.envelope <= 1 for head in shown.heads)
    assert shown.envelope >= max(row.used for row in shown.rows)
    drawn = Situation.of(watcher.planner.settings, watcher.planner.heads, prompt_of()).draw()
    assert (found.audit_positions, len(found.audit_positions)) == (drawn.positions, 40)


@pytest.mark.parametrize("rows", ["each", "mean"])
def test_envelopes_of_heads_bound_what_is_pooled(rows):
    watcher, found = explained(2, tolerance=0.3, audit_tolerance=0.3, rows=rows, sharp=0.3, keep="90%")
    verdict, situation = watcher.verdicts[0], Situation.of(watcher.planner.settings, watcher.planner.heads, prompt_of())
    positions = situation.positions
    own = attention(2, 4, len(positions), len(prompt_of()), sharp=0.3)[:, [positions.index(p) for p in found.observers]]
    chunks = [chunk for chunk in found.shown.chunks if chunk.fate == "removed"]
    gone = torch.cat([torch.arange(chunk.start, chunk.stop) for chunk in chunks])
    lost, means = own[..., gone].sum(-1), own.mean(1)
    divergence = chi_square(means, verdict.proposal.pooled.mu)
    for head in found.shown.heads:
        number = int(head.head)
        worst = lost[number].max() if rows == "each" else lost[number].mean()
        assert worst <= head.envelope + 1e-12
        assert lost[number].mean() <= head.sharp_envelope + 1e-12
        assert head.sharp_envelope <= head.mean_envelope <= head.envelope
        assert (head.mean_envelope == head.envelope) == (rows == "mean" or head.mean_envelope == 1)
        assert head.chi_square == pytest.approx(float(divergence[number]), rel=1e-12)
        q = found.shown.removed_mass
        third = q + (head.chi_square * q * (1 - q)) ** 0.5
        assert head.sharp_envelope == pytest.approx(min(head.mean_envelope, third), abs=1e-12)
        assert head.row_entropy < head.entropy
    assert any(head.sharp_envelope < head.mean_envelope for head in found.shown.heads)


@pytest.mark.parametrize("rows", ["each", "mean"])
def test_the_constraint_table_is_whole(rows):
    watcher, found = explained(2, tolerance=0.3, audit_tolerance=0.3, rows=rows)
    table, screen = found.shown.constraints, watcher.verdicts[0].proposal.screen
    assert table.chunks == found.candidates
    assert np.array_equal(table.masses, screen.mass)
    assert np.array_equal(table.prices, watcher.verdicts[0].bound.prices.rows)
    places = found.observers if rows == "each" else (None,)
    names = [(head, position) for head in ("0", "3") for position in places]
    assert list(zip(table.heads, table.positions, strict=True)) == names
    gone = [chunk.fate == "removed" for chunk in found.shown.chunks]
    assert table.tolerances == (0.3,) * len(names)
    np.testing.assert_allclose(table.slacks, 0.3 - screen.mass[:, gone].sum(axis=1), atol=1e-12)
    assert explained(document_min=1.0)[1].shown.constraints is None


def test_the_exact_audit_reads_the_query_and_none_reads_nothing():
    assert explained()[1].audit_positions == tuple(range(*prompt_of().query))
    assert explained(audit="off")[1].audit_positions == ()


def test_what_stays_is_counted_where_it_acts():
    acting, refusing = explained(tolerance=0.5, audit_tolerance=0.5)[1], explained(tolerance=0.001)[1]
    gone = sum(chunk.tokens for chunk in acting.shown.chunks if chunk.fate == "removed")
    assert acting.num_retained == len(prompt_of()) - gone < len(prompt_of())
    assert refusing.num_retained == len(prompt_of())


@pytest.mark.parametrize("settings", [{"streak": 1}, {"audit_tolerance": 0.0}], ids=str)
def test_a_proposal_that_is_refused_has_bounds_too(settings):
    _, found = explained(2, tolerance=0.5, **settings)
    numbers = found.layers[0].numbers
    assert found.layers[0].outcome in ("streak", "audit")
    assert found.shown.bounds.dual == numbers["dual_bound"] >= numbers["saving"] > 0
    assert "none could be more than" in found.shown.says


def test_with_tolerances_of_zero_there_is_an_explanation():
    _, found = explained(tolerance=0.0)
    assert {chunk.fate for chunk in found.shown.chunks} == {"does not fit"}
    told = json.loads(json.dumps(found.to_object(), allow_nan=False))
    assert [each["tolerance"] for each in told["shown"]["sensitivity"]["variants"]] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("settings", "fates"),
    [
        ({"tolerance": 0.001}, {"does not fit"}),
        ({"tolerance": 0.9}, {"removed", "target met before"}),
        ({"tolerance": 0.9, "keep": 1, "min_chunks": 4}, {"removed", "min_chunks must stay"}),
        ({"document_min": 1.0}, {"no proposal"}),
    ],
)
def test_every_fate_is_named(settings, fates):
    _, found = explained(**settings)
    assert {chunk.fate for chunk in found.shown.chunks} == fates


def test_which_layer_is_shown():
    _, found = explained(tolerance=0.001)
    assert found.acted is None
    assert found.shown.layer == 3
    assert all(each.asked and not each.would_act for each in found.layers)
    assert explained(2, tolerance=0.001)[1].shown.layer == 2
    with pytest.raises(BadInput, match=r"layer is 5; it must be a monitored one \(2, 3\)"):
        explained(5)


def test_a_declined_prompt():
    prompt = prompt_of(())
    watcher, answers = watch(prompt)
    found = explain(watcher.planner, prompt, watcher.verdicts)
    assert answers == [None, None]
    assert found.declined.startswith("no chunks")
    assert found.shown is None
    assert found.layers == found.candidates == ()


def test_attention_that_is_not_finite_is_explained_in_json():
    prompt = prompt_of()
    planner = EntroPrefill(**SETTINGS).fitted(FACTS)
    watcher = Watch(planner, False)
    looked = {}
    for look in watcher.looks(prompt, 6):
        rows = torch.full((4, len(look.rows), len(prompt)), torch.nan, dtype=torch.float64)
        looked[look] = Looked(torch.arange(len(prompt)), rows)
    watcher.after(Observation(2, torch.arange(len(prompt)), prompt, torch.Generator(), looked=looked))
    found = explain(planner, prompt, watcher.verdicts)
    assert found.shown.outcome == "attention not finite"
    assert found.shown.bounds is None
    told = json.loads(json.dumps(found.to_object(), allow_nan=False))
    assert told["shown"]["heads"][0]["residual"] is None


def test_json_has_every_field():
    _, found = explained(tolerance=0.3)
    told = json.loads(json.dumps(found.to_object(), allow_nan=False))
    assert set(told) == set(Explanation.__dataclass_fields__)
    assert told["shown"]["chunks"][1]["title"] == "c1"
    assert told["shown"]["sensitivity"]["tolerance"] == 0.3
    assert told["layers"][0]["numbers"]["target"] == found.target


def test_looks_are_the_planners():
    prompt = prompt_of()
    watcher, _ = watch(prompt)
    assert watcher.looks(prompt, 6) == watcher.planner.looks(prompt, 6)
    assert all(isinstance(look, Look) and look.reduce is None for look in watcher.looks(prompt, 6))
    assert watcher.describe() == watcher.planner.describe()
