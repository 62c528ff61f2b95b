"""Deciding, after an answer, whether to trust it: signals, gates that spend recomputation, and attribution."""

from __future__ import annotations

from fewer.decide.attribute import Attribution, attribute
from fewer.decide.calibrated import CalibratedGate, calibrate
from fewer.decide.conformal import ControlledRisk, control_risk
from fewer.decide.evidence import Evidence
from fewer.decide.gate import Gate, GateDecision
from fewer.decide.odds import Odds, Setting, load_odds
from fewer.decide.signals import SIGNALS, Signal
from fewer.decide.tables import find_odds

__all__ = [
    "SIGNALS",
    "Attribution",
    "CalibratedGate",
    "ControlledRisk",
    "Evidence",
    "Gate",
    "GateDecision",
    "Odds",
    "Setting",
    "Signal",
    "attribute",
    "calibrate",
    "control_risk",
    "find_odds",
    "load_odds",
]
