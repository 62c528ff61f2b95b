"""The audit: its numbers against plain loops, its draws, and what a protocol may say."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log, sqrt

import numpy as np
import pytest
import torch
from auditing import FIRST, LENGTH, QUERY, audited, plain_mean, protocol_of, rows_of

from fewer.errors import BadInput
from fewer.prune.entroprefill.audit import document_shares
from fewer.prune.entroprefill.protocol import draw, draws_for, hoeffding_width


@pytest.mark.parametrize("relative", [False, True])
def test_exact_is_the_mean_over_the_query(relative: bool) -> None:
    drawn = draw(protocol_of(relative=relative, tolerance=0.9), 0)
    result, rows = audited(drawn), rows_of(4)
    expected = [plain_mean(rows, head, QUERY, relative) for head in (0, 2)]
    np.testing.assert_allclose(result.etahat, expected, rtol=0, atol=1e-12)
    assert (result.heads, result.b, result.delta_spent) == ((0, 2), 0.0, 0.0)
    assert (result.num_positions, result.num_distinct, drawn.positions) == (8, 8, QUERY)
    np.testing.assert_array_equal(result.bound, result.etahat)
    np.testing.assert_allclose(result.margin, 0.9 - result.etahat, rtol=0, atol=1e-15)
    assert result.passed
    assert result.worst_head == (0, 2)[int(np.argmax(expected))]


@pytest.mark.parametrize("relative", [False, True])
def test_drawn_positions_count_as_often_as_they_were_drawn(relative: bool) -> None:
    protocol = protocol_of(mode="hoeffding", num_draws=30, relative=relative)
    drawn = draw(protocol, 5)
    assert len(drawn.positions) == sum(drawn.counts) == 30
    assert set(drawn.positions) <= set(QUERY)
    result, rows = audited(drawn), rows_of(4)
    expected = [plain_mean(rows, head, drawn.positions, relative) for head in (0, 2)]
    np.testing.assert_allclose(result.etahat, expected, rtol=0, atol=1e-12)
    assert result.b == pytest.approx(sqrt(log(3 / 0.05) / 60), abs=1e-15)
    np.testing.assert_array_equal(result.bound, np.minimum(1.0, result.etahat + result.b))
    assert (result.num_positions, result.delta_spent) == (30, 0.05)


def test_acceptance_is_at_the_tolerance() -> None:
    eta = float(audited(draw(protocol_of(), 0)).etahat.max())
    assert audited(draw(protocol_of(tolerance=eta), 0)).passed
    assert not audited(draw(protocol_of(tolerance=np.nextafter(eta, 0.0).item()), 0)).passed


def test_one_failing_head_fails_the_layer() -> None:
    rows = torch.full((3, 8, LENGTH), 0.0, dtype=torch.float64)
    rows[..., 0] = 1.0
    rows[2] = 0.0
    rows[2, :, 3] = 1.0
    result = audited(draw(protocol_of(), 0), rows=rows)
    assert (result.etahat.tolist(), result.worst_head, result.passed) == ([0.0, 1.0], 2, False)
    result = audited(draw(protocol_of(), 0), rows=rows, removed=~FIRST)
    assert (result.etahat.tolist(), result.worst_head, result.passed) == ([0.0, 0.0], 0, True)


def test_hoeffding_by_hand() -> None:
    assert hoeffding_width(36, 0.05, 64) == pytest.approx(0.22671, abs=1e-5)  # 9 heads, 4 layers
    assert hoeffding_width(81, 0.05, 64) == pytest.approx(0.24029, abs=1e-5)  # 9 heads, 9 layers
    assert draws_for(0.1, 36, 0.05) == 329
    assert draws_for(0.05, 81, 0.05) == 1479
    for width in (0.01, 0.05, 0.2, 0.7, 3.0):
        needed = draws_for(width, 36, 0.05)
        assert needed == ceil(log(720) / (2 * width**2))
        assert hoeffding_width(36, 0.05, needed) <= width
    assert [draws_for(width, 36, 0.05) for width in (0.0, -0.1, 1e-4, 1e-300)] == [None] * 4


def test_few_draws_are_vacuous_and_say_so() -> None:
    heads = tuple(range(9))
    protocol = protocol_of(
        monitored=tuple((layer, heads) for layer in (2, 4, 6, 8)), mode="hoeffding", num_draws=64, tolerance=0.1
    )
    rows = torch.zeros(9, 8, LENGTH)
    rows[..., 0] = 1.0  # no attention to any chunk
    result = audited(draw(protocol, 0), rows=rows)
    assert result.etahat.max() == 0.0
    assert not result.passed
    assert result.hoeffding_room == pytest.approx(0.1 - 0.22671, abs=1e-5)
    assert (result.draws_floor, result.draws_needed) == (329, 329)
    assert audited(draw(replace(protocol, num_draws=329), 0), rows=rows).passed
    assert not audited(draw(replace(protocol, num_draws=328), 0), rows=rows).passed


def test_exact_says_what_drawing_would_have_cost() -> None:
    result = audited(draw(protocol_of(), 0))
    assert result.hoeffding_b == hoeffding_width(3, 0.05, 64)
    room = 0.2 - float(result.etahat.max())
    assert result.draws_needed == (ceil(log(60) / (2 * room**2)) if room > 0 else None)
    assert audited(draw(protocol_of(tolerance=0.0), 0)).draws_floor is None


def test_a_row_that_looks_at_no_chunk_loses_everything_with_any() -> None:
    shares = document_shares(np.array([[0.1, 0.3], [0.0, 0.0], [0.0, 1e-310]]))
    np.testing.assert_allclose(shares, [[0.25, 0.75], [1.0, 1.0], [0.0, 1.0]], rtol=0, atol=1e-15)
    rows = rows_of(4)
    rows[0, :, 2:8] = 0.0
    protocol = protocol_of(relative=True, tolerance=0.95)
    result = audited(draw(protocol, 0), rows=rows)
    assert (result.etahat[0], result.passed) == (1.0, False)
    assert audited(draw(protocol, 0), rows=rows, removed=np.array([True, True])).etahat[0] == 1.0
    nothing = audited(draw(protocol, 0), rows=rows, removed=np.array([False, False]))
    assert (nothing.etahat.tolist(), nothing.passed) == ([0.0, 0.0], True)
    assert audited(draw(replace(protocol, relative=False), 0), rows=rows).etahat[0] == 0.0


def test_draws_follow_the_seed_and_the_protocol() -> None:
    protocol = protocol_of(mode="hoeffding", population=tuple(range(1000)))
    first = draw(protocol, 7).positions
    assert draw(protocol_of(mode="hoeffding", population=tuple(range(1000))), 7).positions == first
    others = [draw(protocol, 8)]
    changes = {"tolerance": 0.21, "delta": 0.06, "proposal": (17, 19), "settings_digest": "other", "relative": True}
    others += [draw(replace(protocol, **{name: value}), 7) for name, value in changes.items()]
    others += [draw(replace(protocol, monitored=((4, (0,)), (6, (1,)))), 7)]
    for other in others:  # two independent draws share a place in the order with probability 1/1000
        assert sum(a == b for a, b in zip(first, other.positions, strict=True)) < 5
    assert len({other.protocol.digest for other in others[1:]} | {protocol.digest}) == 7
    assert replace(protocol, tolerance=0.2).digest == protocol.digest


def test_positions_are_uniform_on_the_query() -> None:
    drawn = draw(protocol_of(mode="hoeffding", num_draws=80_000), 3)
    assert drawn.distinct == QUERY
    expected, spread = 10_000, sqrt(80_000 * 7 / 64)
    assert max(abs(count - expected) for count in drawn.counts) < 6 * spread  # by chance: 8 normal tails, below 2e-8


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("monitored", ()),
        ("monitored", {4: (0,)}),
        ("monitored", ((6, (0,)), (4, (0,)))),
        ("monitored", ((0, (0,)),)),
        ("monitored", ((4, ()),)),
        ("monitored", ((4, (1, 1)),)),
        ("proposal", ()),
        ("proposal", (19, 18)),
        ("population", ()),
        ("population", [12, 13]),
        ("population", (-1, 3)),
        ("mode", "bernstein"),
        ("num_draws", 0),
        ("num_draws", 2_000_000),
        ("delta", 0.0),
        ("delta", 1.0),
        ("tolerance", 1.0),
        ("tolerance", float("nan")),
        ("tolerance", -0.1),
        ("relative", 1),
        ("settings_digest", ""),
    ],
)
def test_what_a_protocol_refuses(name: str, value: object) -> None:
    with pytest.raises(BadInput, match=name.rstrip("ed")):
        protocol_of(**{name: value})


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, True])
def test_what_a_seed_cannot_be(seed: object) -> None:
    with pytest.raises(BadInput, match="seed"):
        draw(protocol_of(), seed)  # type: ignore[arg-type]
