"""Calibrated settings of EntroPrefill: a small JSON file that names its model and the data it was fitted on.

Made by `fewer calibrate --method entroprefill`. It is refused for any other model. Not covered: other tasks than
those it names.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from fewer.errors import bad
from fewer.prune.entroprefill.settings import PARAMETERS, check_setting, check_together
from fewer.prune.shipped import check_model, find_shipped, read_model_file
from fewer.types import ModelFacts

__all__ = ["Calibrated", "load_calibrated", "shipped_calibrated"]

_WAY_OUT = "Make one with fewer calibrate --method entroprefill."


class Calibrated(BaseModel):
    """What calibration chose for one model. `settings` has only what differs from the preset for models without."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    format: Literal["fewer-entroprefill"]
    version: Literal[1]
    model: str
    fingerprint: str
    num_layers: Annotated[int, Field(ge=1)]
    num_heads: Annotated[int, Field(ge=1)]
    settings: dict[str, JsonValue]
    fitted_on: dict[str, Any]  # tasks, seeds, prompts, and what was reached on them

    @model_validator(mode="after")
    def _check(self) -> Calibrated:
        for name in self.settings:
            if name not in PARAMETERS:
                raise bad("a setting", name, f"one of {', '.join(PARAMETERS)}", _WAY_OUT)
        checked = {name: check_setting(name, value) for name, value in self.settings.items()}
        check_together(checked, checked)
        return self

    def __hash__(self) -> int:
        return hash(self.title)

    @property
    def title(self) -> str:
        """What to call it on a receipt: the model, and a digest of the file's content."""
        digest = hashlib.sha256(self.model_dump_json().encode()).hexdigest()
        return f"{self.model} ({digest[:8]})"

    def check_model(self, facts: ModelFacts) -> None:
        """Raise BadInput for another model than its own."""
        way_out = "Calibrate that one with fewer calibrate --method entroprefill, or use preset general."
        check_model(self.model, self.fingerprint, self.num_layers, self.num_heads, facts, way_out)


def load_calibrated(path: str | Path) -> Calibrated:
    """From a file. Raises BadInput where it cannot be read, or is none."""
    return read_model_file(Calibrated, path, "profile", _WAY_OUT)


def shipped_calibrated(fingerprint: str) -> Calibrated | None:
    """What comes with the package for this model, if anything does."""
    return find_shipped(Calibrated, "entroprefill", fingerprint, _WAY_OUT)
