"""The settings of EntroPrefill: symbol, unit, legal range, meaning. The symbols are the paper's.

The paper fixes none of the values. `PAPER` is its rule as it is printed, with values that a user would try first.
Defaults of a model come from its calibration file (calibrated.py); `GENERAL` is for models that have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import index
from typing import Any, Literal

import numpy as np

from fewer.errors import BadInput, bad
from fewer.prune.entroprefill.monitor import Monitor, parse_monitor
from fewer.prune.entroprefill.protocol import LEAST_DELTA
from fewer.types import Keep
from fewer.types.number import check_number

__all__ = ["GENERAL", "PAPER", "PARAMETERS", "Parameter", "Settings", "check_setting", "check_together", "plain_number"]

Order = Literal["entropy", "mass", "row"]
Audit = Literal["auto", "exact", "hoeffding", "off"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One setting: a number in [low, high], or one of `choices`."""

    symbol: str
    unit: str
    says: str
    kind: type = float
    low: float = 0.0
    high: float | None = None
    open_low: bool = False
    choices: tuple[str, ...] = ()

    @property
    def legal(self) -> str:
        """The legal range, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind not in (int, float):
            return self.unit
        words = f"{'a whole number' if self.kind is int else 'a number'} {'above' if self.open_low else 'from'} "
        return words + f"{self.low:g}" + (f" to {self.high:g}" if self.high is not None else " on")


def _share(symbol: str, says: str) -> Parameter:
    return Parameter(symbol, "share of attention", says, high=1.0, open_low=True)


PARAMETERS: dict[str, Parameter] = {
    "keep": Parameter(
        "B_pref",
        "tokens, or a share, of the prompt",
        "chunks leave until so much of the whole prompt stays; B_pref is that without the protected tokens",
        kind=Keep,
    ),
    "keep_at_most": Parameter(
        "-", "tokens, or a share, of the prompt", "pruning is refused where more would stay; the paper: keep", kind=Keep
    ),
    "shortest": Parameter("-", "tokens", "shorter prompts are computed whole", kind=int),
    "monitor": Parameter(
        "L",
        "layers, and heads of them",
        "where a proposal is made and which heads hold it back; 9:8.7+0 is layer 9, held by head 7 of layer 8 and by "
        "its own head 0",
        kind=dict,
    ),
    "observers": Parameter("W_p", "query positions", "how many rows propose", kind=int, low=1),
    "choose_observers": Parameter("Q_p", "", "the query's last rows, or a seeded sample", choices=("suffix", "sample")),
    "rows": Parameter(
        "-", "", "one constraint for each observer of a head, or one for their mean", choices=("each", "mean")
    ),
    "sinks": Parameter("S", "tokens", "so many protected tokens at the start are sinks", kind=int),
    "tau": Parameter("tau", "nats", "how strongly concentrated heads count", high=1e6, open_low=True),
    "zeta": Parameter(
        "zeta",
        "share of a group's weight",
        "shared out evenly within a group of r heads: every head gets at least zeta/r",
        open_low=True,
        high=1.0,
    ),
    "residual_min": _share("z_min", "a head that looks at less than this outside the sinks is not weighed"),
    "document_min": _share("Z_min", "a layer that looks at less of the documents than this is passed over"),
    "smoothing": Parameter("eps_s", "share of the document mass", "flattens chunk masses", high=1e6, open_low=True),
    "concentration": Parameter("lambda", "nats", "how much concentration within a chunk counts", high=1e6),
    "order": Parameter(
        "-",
        "",
        "who leaves first: lowest S_i, lowest lift (attention against length), or lowest largest row mass",
        choices=("entropy", "mass", "row"),
    ),
    "mass": Parameter(
        "-",
        "",
        "what tolerances are shares of: all attention of a row, or its attention to documents",
        choices=("absolute", "document"),
    ),
    "tolerance": Parameter(
        "eps_a",
        "share of a row's mass",
        "what every observer of a watched head may lose, or with rows=mean the mean of its observers",
        high=0.999,
    ),
    "min_chunks": Parameter("m_0", "chunks", "so many stay at least", kind=int),
    "lift_at_most": Parameter(
        "-",
        "times an even share",
        "no chunk leaves that a constraint row looks at more than this: its part of the row's attention to documents "
        "against its part of their tokens",
        high=1e6,
        open_low=True,
    ),
    "audit": Parameter("-", "", "how the query's rows are checked", choices=("auto", "exact", "hoeffding", "off")),
    "audit_tolerance": Parameter(
        "eps_audit", "share of a row's mass", "what a watched head may lose on average over the query", high=0.999
    ),
    "audit_draws": Parameter("m_a", "positions", "how many rows hoeffding draws", kind=int, low=1, high=1e6),
    "exact_limit": Parameter("-", "positions", "auto is exact for queries up to this length", kind=int, low=1),
    "delta": Parameter("delta", "probability", "that hoeffding's bound fails", low=LEAST_DELTA, high=0.999999),
    "streak": Parameter("v", "transitions", "how often in a row the choice must have stayed; 0 is off", kind=int),
    "streak_change": Parameter("theta", "share of the retained chunks", "what counts as having stayed", high=1.0),
    "lp_seconds": Parameter(
        "-", "seconds", "the linear program's time; beyond it, prices from single rows", high=3600, open_low=True
    ),
    "seed": Parameter("-", "", "of observers and draws, beside the prompt's ids", kind=int, high=2**63 - 1),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings with values; `PARAMETERS` says what they are. Raises BadInput for a value out of its range."""

    keep: Keep
    keep_at_most: Keep
    shortest: int
    monitor: Monitor
    observers: int
    choose_observers: Literal["suffix", "sample"]
    rows: Literal["each", "mean"]
    sinks: int
    tau: float
    zeta: float
    residual_min: float
    document_min: float
    smoothing: float
    concentration: float
    order: Order
    mass: Literal["absolute", "document"]
    tolerance: float
    min_chunks: int
    lift_at_most: float
    audit: Audit
    audit_tolerance: float
    audit_draws: int
    exact_limit: int
    delta: float
    streak: int
    streak_change: float
    lp_seconds: float
    seed: int

    def __post_init__(self) -> None:
        for name in PARAMETERS:
            object.__setattr__(self, name, check_setting(name, getattr(self, name)))


def plain_number(value: Any) -> Any:
    """A whole number or float of NumPy as Python's own; anything else as it is."""
    if isinstance(value, np.integer):
        return index(value)
    return float(value) if isinstance(value, np.floating) else value


def check_setting(name: str, value: Any) -> Any:
    """The value in its own type, NumPy's numbers as Python's. Raises BadInput."""
    parameter, value = PARAMETERS[name], plain_number(value)
    if parameter.choices:
        if value not in parameter.choices:
            raise bad(name, value, parameter.legal, "Leave it out for the preset's.")
        return value
    if parameter.kind is Keep:
        try:
            return Keep.parse(value)
        except BadInput as error:
            raise BadInput(str(error).replace("keep", name, 1)) from None
    if parameter.kind is dict:
        return parse_monitor(value)
    way_out = f"It is {parameter.says}."
    check_number(name, value, parameter.kind, parameter.low, parameter.high, way_out, parameter.open_low)
    return parameter.kind(value)


_IDLE: Mapping[str, Mapping[Any, tuple[str, ...]]] = {  # what a value makes do nothing
    "audit": {
        "exact": ("audit_draws", "delta", "exact_limit"),
        "hoeffding": ("exact_limit",),
        "off": ("audit_draws", "delta", "exact_limit", "audit_tolerance"),
    },
    "streak": {0: ("streak_change",)},
    "order": {"row": ("concentration", "smoothing"), "mass": ("concentration", "smoothing")},
}


def check_together(given: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Refuse what was given where another of the values makes it do nothing. Raises BadInput."""
    for name, cases in _IDLE.items():
        value = values.get(name)
        for other in cases.get(value, ()) if value is not None else ():
            if other in given:
                raise bad(other, given[other], f"left out where {name} is {value}", "Drop one of the two.")
    drawn = values.get("choose_observers") != "suffix" or values.get("audit") not in ("exact", "off")
    if "seed" in given and not drawn:
        legal = f"left out where observers are a suffix and audit is {values['audit']}"
        raise bad("seed", given["seed"], legal, "Nothing is drawn.")
    keep, most = given.get("keep"), given.get("keep_at_most")
    if keep and most:
        grows = (keep.fraction or 0) > (most.fraction or 1) or (keep.tokens or 0) > (most.tokens or 2**63)
        if grows:
            raise bad("keep_at_most", str(most), f"at least {keep}, as keep", "Raise it, or leave it out.")


_SHARED: Mapping[str, Any] = {
    "shortest": 256,
    "observers": 8,
    "choose_observers": "suffix",
    "rows": "each",
    "sinks": 4,
    "tau": 1.0,
    "zeta": 0.1,
    "residual_min": 0.01,
    "document_min": 0.05,
    "smoothing": 0.01,
    "concentration": 1.0,
    "min_chunks": 1,
    "lift_at_most": 1e6,
    "audit": "auto",
    "audit_draws": 64,
    "exact_limit": 64,
    "delta": 0.05,
    "streak": 0,
    "streak_change": 0.0,
    "lp_seconds": 0.05,
    "seed": 0,
}

PAPER: Mapping[str, Any] = {
    **_SHARED,
    "keep": "60%",
    "keep_at_most": "60%",
    "monitor": "0.1-0.9:all",
    "order": "entropy",
    "mass": "absolute",
    "tolerance": 0.2,
    "audit_tolerance": 0.2,
}
"""Algorithm 1: absolute tolerances on every head of every monitored layer, the earliest that passes wins.

Two things are not as printed: queries of up to `exact_limit` positions are audited whole, with b = 0, in place of a
draw, and `keep` counts the whole prompt, so that B_pref is `keep` less the protected tokens.
"""

GENERAL: Mapping[str, Any] = {
    **_SHARED,
    "keep": "50%",
    "keep_at_most": "75%",
    "monitor": "0.53-0.8:all",
    "order": "row",
    "mass": "document",
    "tolerance": 0.3,
    "audit_tolerance": 0.3,
}
"""For a model without calibration: shares of the document mass, asked from the middle of the depth on."""
