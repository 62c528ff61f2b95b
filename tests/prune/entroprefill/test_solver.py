"""When SciPy's solver is imported: with the planner for a model, so that no prompt waits for it, and not before."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys, fewer
seen = ["scipy" in sys.modules]
planner = fewer.EntroPrefill(profile=None)
seen.append("scipy" in sys.modules)
planner.fitted(fewer.ModelFacts("made up", "0" * 32, 6, 4, 2, (None,) * 6))
print(*seen, "scipy.optimize" in sys.modules)
"""


def test_the_solver_is_loaded_with_the_model_and_not_with_the_package() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False", "True"]
