"""The audit factor against sums that are written out, and what it looks at."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from fewer.certify import audit
from fewer.errors import BadInput
from fewer.types import CacheView, Sample
from tolerances import FP32

KV_HEADS, GROUP, DIM = 2, 3, 4
HEADS = KV_HEADS * GROUP
SCALING = 0.5


def make_view(n: int = 24, m: int = 5, seed: int = 0, size: float = 2.0, **more) -> CacheView:
    """A layer of `n` rows and the queries of its newest `m` tokens."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    pos = torch.arange(n).expand(KV_HEADS, -1)
    q, q_pos = size * draw(HEADS, m, DIM), torch.arange(n - m, n)
    k, v = draw(KV_HEADS, n, DIM), draw(KV_HEADS, n, DIM)
    return replace(CacheView(1, 1, k, v, pos, q, q_pos, SCALING, n), **more)


def make_sample(n: int = 24, seed: int = 0, counts: tuple[int, int] = (9, 12)) -> Sample:
    """Rows of ragged heads, the newest two certain; the padding repeats the last one."""
    generator = torch.Generator().manual_seed(seed)
    idx, pi = torch.zeros(KV_HEADS, max(counts), dtype=torch.int64), torch.ones(KV_HEADS, max(counts))
    for head, count in enumerate(counts):
        rows = torch.cat([torch.randperm(n - 2, generator=generator)[: count - 2], torch.tensor([n - 2, n - 1])])
        idx[head, :count] = rows.sort().values
        idx[head, count:] = n - 1
        pi[head, : count - 2] = 0.1 + 0.8 * torch.rand(count - 2, generator=generator)
    return Sample(idx, torch.tensor(counts), pi)


def audit_slowly(view: CacheView, sample: Sample, most: int = 16) -> list[float]:
    """kappa of every query head, row by row in Python floats."""
    found = []
    for head in range(HEADS):
        group = head // GROUP
        worst = 1.0
        for at in range(view.q.shape[1])[-most:]:
            where = int(view.q_pos[at])

            def mass(row: int, head: int = head, group: int = group, at: int = at, where: int = where) -> float:
                pos = int(view.pos[group, row])
                if pos > where:
                    return 0.0
                if view.window is not None and pos <= max(where, view.next_pos) - view.window:
                    return 0.0
                logit = float(view.q[head, at].double() @ view.k[group, row].double()) * view.scaling
                return math.exp(logit + (0.0 if view.log_w is None else float(view.log_w[group, row])))

            v = view.v[group].double()
            full = torch.tensor([mass(row) for row in range(v.shape[0])], dtype=torch.float64)
            rows = sample.idx[group, : int(sample.count[group])]
            pi = sample.pi[group, : len(rows)].double()
            kept = full[rows] / pi
            if kept.sum() == 0:
                continue
            w = kept / kept.sum()
            y, out = full @ v / full.sum(), w @ v[rows]
            distance = (v[rows] - out).norm(dim=1) / (1 - w).clamp(min=1e-3)
            terms = (1 - pi) * (w * distance) ** 2
            level = math.log(10)
            size = math.sqrt(2 * terms.sum() * level) + math.sqrt(terms.max()) * level
            radius = max(1e-3, size / (float(out.norm()) + 1e-9))
            worst = max(worst, float((out - y).norm() / y.norm()) / radius)
        found.append(worst)
    return found


LOG_W = torch.where(torch.arange(24) % 5 == 0, 0.7, 0.0).expand(KV_HEADS, -1).clone()
LOG_W[1, 3] = -math.inf  # padding


@pytest.mark.parametrize(
    "more",
    [{}, {"window": 9}, {"log_w": LOG_W}, {"q_pos": torch.tensor([6, 9, 14, 15, 22])}, {"window": 30, "log_w": LOG_W}],
    ids=["plain", "window", "earlier draws", "between", "both"],
)
@pytest.mark.parametrize("seed", range(3))
def test_kappa_is_the_largest_error_over_radius(more, seed, device, fp32) -> None:
    view, sample = make_view(seed=seed, **more), make_sample(seed=seed + 10)
    for one in range(KV_HEADS):  # a design never draws padding
        if view.log_w is not None:
            idx = sample.idx[one]
            idx[torch.isneginf(view.log_w[one, idx])] = 4
    expected = torch.tensor(audit_slowly(view, sample))
    tensors = {name: getattr(view, name).to(device) for name in ("k", "v", "pos", "q", "q_pos")}
    moved = Sample(sample.idx.to(device), sample.count.to(device), sample.pi.to(device))
    log_w = None if view.log_w is None else view.log_w.to(device)
    found = audit(replace(view, **tensors, log_w=log_w), moved)
    assert (found.dtype, found.shape, found.device.type) == (torch.float32, (HEADS,), device.type)
    assert (found.cpu() / expected - 1).abs().max() < fp32
    assert found.min() >= 1


def test_a_sample_that_missed_what_the_queries_want_has_a_large_factor() -> None:
    """Row 5 holds the attention of every query and did not stay; nothing that stayed says so."""
    view = make_view(size=0.1)
    view.q[:, :, 0] = 8.0
    view.k[:, 5, 0] = 8.0
    view.v.add_(3.0)[:, 5] = -3.0
    without = make_sample(counts=(20, 20))
    without.idx[without.idx == 5] = 6
    with_it = Sample(without.idx.clone(), without.count, without.pi)
    with_it.idx[:, 0], with_it.pi[:, 0] = 5, 0.9
    assert audit(view, without).min() > 1.5
    assert torch.equal(audit(view, with_it), torch.ones(HEADS))


def test_the_newest_sixteen_queries_count() -> None:
    view, sample = make_view(n=60, m=40), make_sample(60, counts=(20, 25))
    newest = replace(view, q=view.q[:, -16:], q_pos=view.q_pos[-16:])
    assert torch.equal(audit(view, sample), audit(newest, sample))
    assert audit(view, sample).tolist() == pytest.approx(audit_slowly(view, sample), abs=FP32)
    assert audit_slowly(view, sample, most=40) != pytest.approx(audit_slowly(view, sample), abs=FP32)


def test_where_every_row_was_certain_nothing_can_be_wrong() -> None:
    view = make_view()
    everything = Sample(torch.arange(24).expand(KV_HEADS, -1), torch.full((KV_HEADS,), 24), torch.ones(KV_HEADS, 24))
    assert torch.equal(audit(view, everything), torch.ones(HEADS))
    assert audit_slowly(view, everything) == [1.0] * HEADS


def test_without_queries_there_is_no_audit() -> None:
    view = make_view(m=0)
    assert audit(view, make_sample()) is None


def test_queries_that_see_no_row_of_the_sample_count_for_nothing() -> None:
    view, sample = make_view(), make_sample()
    sample.idx[:, 0] = 2  # the oldest row that stayed
    sample.idx[sample.idx < 2] = 3
    early = replace(view, q=view.q[:, :1], q_pos=torch.tensor([1]))
    assert torch.equal(audit(early, sample), torch.ones(HEADS))


def test_half_precision_is_computed_in_float32() -> None:
    view, sample = make_view(), make_sample()
    half = {name: getattr(view, name).bfloat16() for name in ("k", "v", "q")}
    same = {name: part.float() for name, part in half.items()}
    assert torch.equal(audit(replace(view, **half), sample), audit(replace(view, **same), sample))


def test_bad_input() -> None:
    with pytest.raises(BadInput, match="delta is 1"):
        audit(make_view(), make_sample(), 1.0)
