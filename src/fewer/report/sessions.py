"""The report's part on sessions: failures made by the cache and others, and what the signals tell and are good for.

There where a study collects evidence and evicts, and has an outcome that is nothing but `at_least`: an answer is right
from the first such threshold on.
"""

from __future__ import annotations

from fewer.report.block import Section
from fewer.report.estimates import Estimates
from fewer.report.sessions_gating import list_gating
from fewer.report.sessions_outcomes import list_outcomes
from fewer.report.sessions_panel import open_panel
from fewer.report.sessions_search import list_search
from fewer.report.sessions_signals import list_signals

__all__ = ["list_sessions"]


def list_sessions(estimates: Estimates, name: str = "") -> list[Section]:
    """The sections; none where the run is not of this kind."""
    panel = open_panel(estimates)
    if panel is None:
        return []
    search = list_search(panel, name)
    sections = [list_outcomes(panel, name), list_signals(panel, name), list_gating(panel, name)]
    return [*sections, *([search] if search else [])]
