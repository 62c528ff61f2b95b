"""A small protocol and attention rows for tests of the audit: 2 chunks of 3 tokens in a prompt of 20, 8 of it query."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fewer.prune.entroprefill.audit import AuditResult, audit
from fewer.prune.entroprefill.independence import Candidate, SealedRows, split_rows
from fewer.prune.entroprefill.protocol import AuditDraw, Protocol

LENGTH = 20
QUERY = tuple(range(12, 20))
FIRST = np.array([True, False])  # remove the first chunk


def protocol_of(**changes: object) -> Protocol:
    values: dict[str, object] = {
        "monitored": ((4, (0, 2)), (6, (1,))),
        "proposal": (18, 19),
        "population": QUERY,
        "mode": "exact",
        "num_draws": 64,
        "delta": 0.05,
        "tolerance": 0.2,
        "relative": False,
        "settings_digest": "settings",
    }
    return Protocol(**{**values, **changes})  # type: ignore[arg-type]


def rows_of(seed: int, heads: int = 3, length: int = LENGTH) -> Tensor:
    """Random attention of the whole query, [heads, 8, 20] float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(heads, len(QUERY), length, generator=generator, dtype=torch.float64).softmax(-1)


def plain_mean(rows: torch.Tensor, head: int, positions: tuple[int, ...], relative: bool) -> float:
    """The mean mass of the first chunk over the positions, in plain Python."""
    total = 0.0
    for position in positions:
        row = rows[head, QUERY.index(position)].tolist()
        total += sum(row[2:5]) / (sum(row[2:8]) if relative else 1.0)
    return total / len(positions)


def two_chunks(rows: Tensor) -> Tensor:
    return torch.stack([rows[..., 2:5].sum(-1), rows[..., 5:8].sum(-1)], -1)


def proposed(
    drawn: AuditDraw, layer: int = 4, rows: Tensor | None = None, removed: object = FIRST
) -> tuple[Candidate, SealedRows]:
    given = rows_of(layer) if rows is None else rows
    seen, sealed = split_rows(drawn, layer, given, QUERY, two_chunks)
    return seen.propose(removed, drawn.protocol.settings_digest), sealed  # type: ignore[arg-type]


def audited(drawn: AuditDraw, layer: int = 4, rows: Tensor | None = None, removed: object = FIRST) -> AuditResult:
    return audit(drawn, *proposed(drawn, layer, rows, removed))
