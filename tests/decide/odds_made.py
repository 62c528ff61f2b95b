"""A made-up study: the cache breaks answers with high certificates, and hard questions have low log-probabilities."""

from __future__ import annotations

import numpy as np

from fewer.decide.odds import Odds, Setting
from fewer.decide.tabulate import build_odds

POLICY = {"name": "systematic:snapkv", "score": "snapkv", "budget.keep": "25%", "sinks": 4, "delta": 0.1}
FINGERPRINT = "0123456789abcdef" * 2
SETTING = Setting(FINGERPRINT, {**POLICY, "moment": "context"}, "stream")


def made_rows(size: int = 900, per_cluster: int = 5, seed: int = 0) -> dict[str, list]:
    """Both signals uniform on [0, 1) and [-1, 0). Broken: .6 of the upper third; wrong: .5 of the lower third."""
    rng = np.random.default_rng(seed)
    certificate, logprob = rng.random(size), -rng.random(size)
    wrong = (logprob < -2 / 3) & (rng.random(size) < 0.5)
    broken = (certificate > 2 / 3) & ~wrong & (rng.random(size) < 0.6)
    return {
        "certificate": certificate.tolist(),
        "logprob": logprob.tolist(),
        "broken": broken.astype(int).tolist(),
        "wrong": wrong.astype(int).tolist(),
        "cluster": [f"text {at // per_cluster}" for at in range(size)],
    }


def made_odds(setting: Setting = SETTING, rows: dict[str, list] | None = None, **settings: object) -> Odds:
    """The table of these answers."""
    names = {"study": "MADE UP", "command": "none", "model": "made"}
    return build_odds(**(rows or made_rows()), setting=setting, **{**names, **settings})
