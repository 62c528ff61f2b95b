"""Heads of earlier layers that a later one is decided by, and one constraint for the mean of a head's observers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from deciding import FACTS, HEADS, prompt_of
from torch import Tensor

from fewer import BadInput, EntroPrefill, Look, Looked, Observation, Plan
from fewer.prune.entroprefill.audit import document_shares
from fewer.prune.entroprefill.heads import list_heads
from fewer.prune.entroprefill.monitor import fit_monitor, parse_monitor
from fewer.prune.entroprefill.situation import Situation

PROMPT = prompt_of(10, 10, 10, 10)
SETTINGS = {"mass": "document", "tolerance": 0.2, "audit_tolerance": 0.25, "order": "row", "min_chunks": 1,
            "keep": "40%", "keep_at_most": "95%", "document_min": 1e-9, "shortest": 0, "profile": None}  # fmt: skip


def attention(seed: int, num_rows: int, heads: int = HEADS) -> Tensor:
    """[heads, rows, T] rows that sum to one."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(heads, num_rows, len(PROMPT), generator=generator, dtype=torch.float64).pow(6).softmax(-1)


def judge(monitor: str, own: Tensor, earlier: Tensor, rows: str = "mean") -> tuple[EntroPrefill, Plan | None, dict]:
    """What the planner answers after layer 3, where head 1 of layer 2 is watched too."""
    planner = EntroPrefill(monitor=monitor, rows=rows, **SETTINGS).fitted(FACTS)
    positions = Situation.of(planner.settings, planner.heads, PROMPT).positions
    looks = planner.looks(PROMPT, FACTS.num_layers)
    pos = torch.arange(len(PROMPT))
    looked = {look: Looked(pos, own if look.layer == 3 else earlier) for look in looks}
    assert set(looks) == {Look(3, None, positions), Look(2, (1,), positions)}
    observation = Observation(3, pos, PROMPT, torch.Generator(), num_layers=FACTS.num_layers, looked=looked)
    answer = planner.after(observation)
    plan = answer if isinstance(answer, Plan) else None
    return planner, plan, dict((plan.decision if plan else answer).numbers)


@pytest.mark.parametrize("seed", range(20))
def test_the_constraints_are_those_of_the_named_heads(seed: int) -> None:
    num_rows = len(range(*PROMPT.query))
    own, earlier = attention(seed, num_rows), attention(100 + seed, num_rows, 1)
    planner, plan, numbers = judge("3:2.1+0", own, earlier)
    situation = Situation.of(planner.settings, planner.heads, PROMPT)
    mass = situation.candidates.mass(torch.cat([own[:1], earlier]))  # [2, rows, k]
    shares = document_shares(mass.numpy().mean(1))
    removed = np.zeros(4, dtype=bool)
    if plan is not None:
        kept = set(plan.keep.tolist())
        removed = np.array([chunk.start not in kept for chunk in PROMPT.chunks])
        assert (shares[:, removed].sum(1) <= 0.2).all()
        lost = document_shares(mass.numpy())[..., removed].sum(-1).mean(1)
        assert numbers["audit_bound"] == pytest.approx(lost.max(), abs=1e-12)
        assert (numbers["audit_worst_layer"], numbers["audit_worst_head"]) == ((3, 0), (2, 1))[int(lost.argmax())]
    # By the largest share, one after the other while both heads lose at most a fifth, until 40% stay.
    order, used, expected = np.argsort(shares.max(0), kind="stable"), np.zeros(2), np.zeros(4, dtype=bool)
    for chunk in order:
        if expected.sum() * 10 < situation.target and ((used + shares[:, chunk]) <= 0.2).all():
            used, expected[chunk] = used + shares[:, chunk], True
    assert numbers["saving"] == 10 * expected.sum()
    assert plan is None or removed.tolist() == expected.tolist()


def test_an_earlier_head_decides_and_is_not_pooled() -> None:
    num_rows = len(range(*PROMPT.query))
    own = attention(1, num_rows)
    chunk = PROMPT.chunks[2]
    pointing = torch.zeros(1, num_rows, len(PROMPT), dtype=torch.float64)
    pointing[..., chunk.start : chunk.stop] = 0.1
    _, plan, numbers = judge("3:2.1", own, pointing)
    gone = set(range(len(PROMPT))) - set(plan.keep.tolist())
    assert not gone & set(range(chunk.start, chunk.stop))
    assert numbers["document_mass"] == pytest.approx(
        float(
            EntroPrefill(monitor="3:0", **SETTINGS).fitted(FACTS).judge(PROMPT, 3, _only(own)).numbers["document_mass"]
        )
    )


def _only(own: Tensor) -> dict[Look, Looked]:
    planner = EntroPrefill(monitor="3:0", **SETTINGS).fitted(FACTS)
    return {look: Looked(torch.arange(len(PROMPT)), own) for look in planner.looks(PROMPT, FACTS.num_layers)}


@pytest.mark.parametrize("audit", ["exact", "off"])
def test_an_earlier_head_that_is_not_finite_is_an_outcome(audit: str) -> None:
    num_rows = len(range(*PROMPT.query))
    settings = {name: value for name, value in SETTINGS.items() if audit == "exact" or name != "audit_tolerance"}
    planner = EntroPrefill(monitor="3:2.1", audit=audit, **settings).fitted(FACTS)
    broken = torch.full((1, num_rows, len(PROMPT)), torch.nan)
    pos, looks = torch.arange(len(PROMPT)), planner.looks(PROMPT, FACTS.num_layers)
    looked = {look: Looked(pos, attention(1, num_rows) if look.layer == 3 else broken) for look in looks}
    assert planner.judge(PROMPT, 3, looked).outcome == "attention not finite"


@pytest.mark.parametrize("rows", ["each", "mean"])
def test_no_envelope_bounds_an_earlier_head(rows: str) -> None:
    num_rows = len(range(*PROMPT.query))
    own, pointing = attention(1, num_rows), torch.zeros(1, num_rows, len(PROMPT), dtype=torch.float64)
    own[..., PROMPT.chunks[0].start : PROMPT.chunks[0].stop] = 1e-12
    pointing[..., PROMPT.chunks[0].start] = 0.15
    changes = {"mass": "absolute", "order": "mass", "keep": 41, "keep_at_most": 41, "rows": rows}
    planner = EntroPrefill(monitor="3:2.1+0", **SETTINGS | changes).fitted(FACTS)
    pos = torch.arange(len(PROMPT))
    looks = planner.looks(PROMPT, FACTS.num_layers)
    looked = {look: Looked(pos, own if look.layer == 3 else pointing) for look in looks}
    verdict = planner.judge(PROMPT, 3, looked)
    assert verdict.outcome == "accepted"
    assert verdict.numbers["envelope"] < 1e-6
    assert verdict.numbers["largest_row_loss"] == pytest.approx(0.15)
    lines = list_heads(Situation.of(planner.settings, planner.heads, PROMPT), verdict, FACTS.num_kv_heads)
    assert [line.head for line in lines] == ["0", "1", "2", "3", "2.1"]
    assert (lines[-1].envelope, lines[-1].mean_envelope, lines[-1].weight) == (None, None, None)
    assert lines[-1].audit_mean == pytest.approx(0.15)
    assert all(line.envelope < 1e-6 for line in lines[:-1])


@pytest.mark.parametrize(
    ("monitor", "says"),
    [("3:4.1", "of a layer up to 3, the watched one"), (f"3:2.{HEADS}", f"from 0 to {HEADS - 1}")],
)
def test_what_is_not_there_is_refused(monitor: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        fit_monitor(parse_monitor(monitor), FACTS)


def test_names_survive_the_receipt() -> None:
    planner = EntroPrefill(monitor="3:2.1+0", **SETTINGS).fitted(FACTS)
    assert planner.describe()["monitor"] == "3:0+2.1"
