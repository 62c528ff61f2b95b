"""Independence of proposal and audit: how rows are divided, and every way around it that the types close."""

from __future__ import annotations

import copy
import pickle
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from auditing import FIRST, QUERY, audited, plain_mean, proposed, protocol_of, rows_of, two_chunks

from fewer.errors import BadInput, FewerError, NonFiniteError
from fewer.prune.entroprefill.audit import audit
from fewer.prune.entroprefill.independence import Candidate, ProposalRows, SealedRows, split_rows
from fewer.prune.entroprefill.protocol import AuditDraw, AuditRefused, draw

COPIES = (copy.copy, copy.deepcopy, pickle.dumps)


def test_the_proposal_sees_its_own_rows_alone() -> None:
    drawn = draw(protocol_of(mode="hoeffding", num_draws=3), 1)
    rows = rows_of(4)
    seen, sealed = split_rows(drawn, 4, rows, QUERY, two_chunks)
    torch.testing.assert_close(seen.values, rows[:, [6, 7]], rtol=0, atol=0)
    assert (seen.heads, seen.num_chunks, sealed.heads) == ((0, 1, 2), 2, (0, 2))
    assert drawn.rows == tuple(sorted({18, 19, *drawn.positions}))


def test_rows_come_in_any_order_and_heads_by_name() -> None:
    expected = audited(draw(protocol_of(), 0)).etahat
    drawn = draw(protocol_of(), 0)
    rows = rows_of(4)[[2, 0]][:, list(range(7, -1, -1))]
    seen, sealed = split_rows(drawn, 4, rows, QUERY[::-1], two_chunks, heads=(2, 0))
    np.testing.assert_array_equal(audit(drawn, seen.propose(FIRST, "settings"), sealed).etahat, expected)
    torch.testing.assert_close(seen.values, rows_of(4)[[2, 0]][:, [6, 7]], rtol=0, atol=0)


def test_later_layers_are_proposed_after_earlier_audits() -> None:
    drawn = draw(protocol_of(), 0)
    first = audited(drawn, 4)
    second = audited(drawn, 6)
    assert (first.layer, second.layer, second.heads, drawn.opened) == (4, 6, (1,), (4, 6))
    assert second.etahat[0] == pytest.approx(plain_mean(rows_of(6), 1, QUERY, False), abs=1e-12)


def test_a_mutated_array_changes_nothing() -> None:
    expected = audited(draw(protocol_of(), 0)).etahat
    drawn, rows, mask = draw(protocol_of(), 0), rows_of(4), FIRST.copy()
    seen, sealed = split_rows(drawn, 4, rows, QUERY, two_chunks)
    candidate = seen.propose(mask, "settings")
    rows.zero_()
    mask[:] = False
    result = audit(drawn, candidate, sealed)
    np.testing.assert_array_equal(result.etahat, expected)
    assert candidate.removed == (True, False)
    with pytest.raises(ValueError, match="read-only"):
        result.etahat[0] = 0.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        result.etahat.setflags(write=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"settings_digest": "other"},
        {"tolerance": 0.3},
        {"delta": 0.1},
        {"num_draws": 65},
        {"proposal": (17, 18, 19)},
        {"monitored": ((4, (0, 2)),)},
        {"population": QUERY[1:]},
        {"mode": "hoeffding"},
        {"relative": True},
    ],
)
def test_a_candidate_of_another_protocol_needs_a_fresh_draw(changes: dict[str, object]) -> None:
    drawn = draw(protocol_of(), 0)
    seen, sealed = split_rows(drawn, 4, rows_of(4), QUERY, two_chunks)
    candidate, _ = proposed(draw(protocol_of(**changes), 0))
    with pytest.raises(AuditRefused, match="fresh draw"):
        audit(drawn, candidate, sealed)
    assert drawn.stage(4) == "split"  # and nothing was opened
    assert audit(drawn, seen.propose(FIRST, "settings"), sealed).layer == 4


def test_thresholds_edited_after_an_audit() -> None:
    drawn = draw(protocol_of(), 0)
    audited(drawn, 4)
    seen, _ = split_rows(drawn, 6, rows_of(6), QUERY, two_chunks)
    with pytest.raises(AuditRefused, match=r"'edited'; it must be the protocol's .* need a fresh draw"):
        seen.propose(FIRST, "edited")


def test_a_second_try_on_the_same_draw() -> None:
    drawn = draw(protocol_of(), 0)
    seen, sealed = split_rows(drawn, 4, rows_of(4), QUERY, two_chunks)
    candidate = seen.propose(FIRST, "settings")
    with pytest.raises(AuditRefused, match="Layer 4 of this draw is proposed and cannot be proposed"):
        seen.propose(~FIRST, "settings")
    audit(drawn, candidate, sealed)
    with pytest.raises(AuditRefused, match=r"is opened and cannot be opened: .* fresh draw"):
        audit(drawn, candidate, sealed)
    with pytest.raises(AuditRefused, match="is opened and cannot be proposed"):
        seen.propose(~FIRST, "settings")
    with pytest.raises(AuditRefused, match="is opened and cannot be split"):
        split_rows(drawn, 4, rows_of(5), QUERY, two_chunks)
    assert drawn.opened == (4,)


def test_another_seed_is_another_draw() -> None:
    protocol = protocol_of(mode="hoeffding")
    old, new = draw(protocol, 0), draw(protocol, 0)
    candidate, sealed = proposed(old)
    with pytest.raises(AuditRefused, match="sealed under another draw"):
        audit(new, candidate, sealed)
    _, fresh = proposed(new)
    with pytest.raises(AuditRefused, match="another draw's rows"):
        audit(new, candidate, fresh)
    assert audit(old, candidate, sealed).layer == 4


def test_a_candidate_of_another_layer() -> None:
    drawn = draw(protocol_of(), 0)
    candidate, _ = proposed(drawn, 4)
    _, sealed = proposed(drawn, 6)
    with pytest.raises(AuditRefused, match="of layer 6; they must be of layer 4"):
        audit(drawn, candidate, sealed)


def test_a_layer_that_is_not_monitored() -> None:
    with pytest.raises(AuditRefused, match=r"layer is 5; .* monitors \(4, 6\)"):
        split_rows(draw(protocol_of(), 0), 5, rows_of(5), QUERY, two_chunks)


def test_nothing_is_made_by_hand_edited_or_copied() -> None:
    drawn = draw(protocol_of(), 0)
    seen, sealed = split_rows(drawn, 4, rows_of(4), QUERY, two_chunks)
    candidate = seen.propose(FIRST, "settings")
    for make in (
        lambda: AuditDraw(drawn.protocol, 0, (12, 12)),
        lambda: Candidate(drawn, 4, (True, True)),
        lambda: ProposalRows(drawn, 4, (0, 1, 2), 2, seen.values),
        lambda: SealedRows(drawn, 4, (0, 2), b""),
        lambda: replace(drawn, positions=(12, 12)),
        lambda: replace(candidate, removed=(True, True)),
        lambda: replace(candidate, layer=6),
        lambda: replace(seen, layer=6),
        lambda: setattr(sealed, "layer", 6),
        *(lambda thing=thing, way=way: way(thing) for thing in (drawn, seen, sealed, candidate) for way in COPIES),
    ):
        with pytest.raises(AuditRefused):
            make()
    for edit in (lambda: setattr(candidate, "removed", (True, True)), lambda: setattr(drawn, "positions", (12,))):
        with pytest.raises(AttributeError):
            edit()
    with pytest.raises(TypeError):
        replace(sealed, layer=6)  # type: ignore[type-var]
    assert issubclass(AuditRefused, FewerError)
    assert audit(drawn, candidate, sealed).layer == 4


def test_sealed_values_have_no_public_way_out() -> None:
    _, sealed = proposed(draw(protocol_of(), 0))
    public = {name: getattr(sealed, name) for name in dir(sealed) if not name.startswith("_")}
    assert sorted(public) == ["draw", "heads", "layer"]
    assert repr(sealed) == "SealedRows(layer=4, heads=(0, 2), 8 rows)"
    assert np.asarray(sealed).dtype == object
    for reads in (vars, asdict, iter, len, memoryview, torch.as_tensor):
        with pytest.raises((TypeError, RuntimeError)):
            reads(sealed)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("rows", "positions", "heads", "match"),
    [
        (rows_of(4).half(), QUERY, None, "rows"),
        (rows_of(4)[0], QUERY, None, "rows"),
        (rows_of(4) * 4, QUERY, None, "no row above 1"),
        (rows_of(4) - 0.2, QUERY, None, "nothing negative"),
        (rows_of(4)[:, 1:], QUERY[1:], None, "positions"),
        (rows_of(4), (12, *QUERY[:-1]), None, "positions"),
        (rows_of(4), QUERY, (0, 1), "heads"),
        (rows_of(4), QUERY, (0, 1, 1), "heads"),
        (rows_of(4), QUERY, (0, 1, 3), "heads"),
    ],
)
def test_what_rows_cannot_be(
    rows: torch.Tensor, positions: tuple[int, ...], heads: tuple[int, ...] | None, match: str
) -> None:
    drawn = draw(protocol_of(), 0)
    with pytest.raises(BadInput, match=match):
        split_rows(drawn, 4, rows, positions, two_chunks, heads)
    assert drawn.stage(4) == "untouched"


def test_rows_that_are_not_finite() -> None:
    rows = rows_of(4)
    rows[1, 3, 4] = float("nan")
    with pytest.raises(NonFiniteError, match="layer 4"):
        split_rows(draw(protocol_of(), 0), 4, rows, QUERY, two_chunks)


@pytest.mark.parametrize("removed", [[True], [1, 0], [[True, False]], [True, False, False]])
def test_what_a_removal_cannot_be(removed: object) -> None:
    seen, _ = split_rows(draw(protocol_of(), 0), 4, rows_of(4), QUERY, two_chunks)
    with pytest.raises(BadInput, match="removed"):
        seen.propose(np.array(removed), "settings")
