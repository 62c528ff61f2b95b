"""A made-up table of odds for the tiny model's answers, written to a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fewer import Receipt
from fewer.decide.reading import read_receipt
from fewer.decide.tabulate import build_odds


def write_odds(path: Path, receipt: Receipt, certificate: float, signal: str = "certificate_clipped") -> Path:
    """For the receipt's own setting, with half of the certificates below the one given; high ones were broken."""
    rng = np.random.default_rng(0)
    values = certificate + rng.normal(size=400)
    broken = (values > np.quantile(values, 2 / 3)) & (rng.random(400) < 0.5)
    made = build_odds(
        values,
        -10 * rng.random(400),
        broken,
        np.zeros(400),
        [at // 4 for at in range(400)],
        study="MADE UP",
        command="none",
        model=receipt.model.name,
        setting=read_receipt(receipt).setting,
        signal=signal,
    )
    made.save(path)
    return path
