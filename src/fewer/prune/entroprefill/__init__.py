"""EntroPrefill: chunks are proposed for removal from a layer's attention, held to constraints, audited, and deleted."""

from fewer.prune.entroprefill.calibrated import Calibrated, load_calibrated, shipped_calibrated
from fewer.prune.entroprefill.planner import EntroPrefill
from fewer.prune.entroprefill.procedure import OUTCOMES, Verdict
from fewer.prune.entroprefill.settings import PARAMETERS, Settings

__all__ = [
    "OUTCOMES",
    "PARAMETERS",
    "Calibrated",
    "EntroPrefill",
    "Settings",
    "Verdict",
    "load_calibrated",
    "shipped_calibrated",
]
