"""What happened to the tokens left out after the prefill: which came back, and what that took.

Not covered: which tokens they were, beyond the counts by chunk and layer.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, model_validator

from fewer.errors import bad
from fewer.receipt.fields import STRICT, Count


class RevivalRecord(BaseModel):
    """The steps of a pruning that may choose anew after the prefill. A step gives one output token."""

    model_config = STRICT

    aux: Literal["keep", "recompute", "off"]
    """keep: states of tokens left out are stored. recompute: they are not, and computed again. off: none comes back."""
    num_revived: Count
    """Prompt tokens that came back at some step, each once."""
    revived_per_step: tuple[Count, ...]
    """How many came back at each step."""
    active_per_step: tuple[tuple[Count, ...], ...]
    """How many prompt tokens the newest position saw behind each of the schedule's layers, step by step."""
    token_layers_revived: Count
    """Token-layers computed for them; part of token_layers_computed."""
    aux_bytes: Count
    """Bytes of the stored hidden states, measured; the keys and values are not in it."""

    @model_validator(mode="after")
    def _check(self) -> RevivalRecord:
        if len(self.active_per_step) != len(self.revived_per_step):
            legal = f"{len(self.revived_per_step)}, as revived_per_step"
            raise bad("the length of active_per_step", len(self.active_per_step), legal, "Record every step.")
        if self.num_revived > sum(self.revived_per_step):
            legal = f"at most {sum(self.revived_per_step)}, the sum of revived_per_step"
            raise bad("num_revived", self.num_revived, legal, "Count a token once.")
        if self.aux == "off" and any(self.revived_per_step):
            raise bad("aux", "off", "keep or recompute where tokens came back", "Record what was set.")
        return self
