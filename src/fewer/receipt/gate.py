"""What a gate did with one answer over a compressed cache: let it stand, or have it computed again, and why.

Not covered: which of two answers is right, and their texts.
"""

from __future__ import annotations

from math import isclose
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, model_validator

from fewer.errors import bad
from fewer.receipt.fields import STRICT, Count, Number, Seconds, Text

if TYPE_CHECKING:
    from fewer.receipt.model import Receipt


class AnswerRecord(BaseModel):
    """One of the runs for an answer."""

    model_config = STRICT

    num_tokens: Count
    """Tokens in its answer."""
    finish_reason: Literal["stop", "length", "stop_string", "cancelled"]
    """What ended it, as in output."""
    token_layers_computed: Count
    """The work of this run."""
    kv_used_bytes: Count
    """Keys and values in use when it ended."""
    total_s: Seconds
    """From the start of the run to its end."""


class GateRecord(BaseModel):
    """What was decided about the first answer. The receipt around it is that of the answer that was given."""

    model_config = STRICT

    rule: Literal["always", "threshold", "rate", "calibrated"]
    """Always: every answer is computed again. threshold: where the signal is above a number. rate: so that a share of
    the answers is. calibrated: above a number that was found on other answers, with a claim about the expected loss."""
    signal: Text | None
    """What the gate looked at; null for always."""
    value: Number | None
    """The signal's value for the first answer; larger is more doubt. Null where it had none, or was not looked at."""
    threshold: Number | None
    """Values above it are computed again; for a rate, the earlier value below which none would have been. Or null."""
    level: Number | None
    """The rate, or the calibrated risk; null for the other rules."""
    fired: bool
    """Whether the answer was computed again."""
    reason: Text
    """Why, in one sentence."""
    escalate: Text
    """What it is computed again with: full, for the whole cache, or a larger budget."""
    first: AnswerRecord
    """The run over the compressed cache."""
    again: AnswerRecord | None
    """The second run, whose answer was given; null where there was none."""
    num_agreeing: Count | None
    """Tokens before the first that differs between the two answers; null where there is one answer."""
    kept_token_layers: Count
    """Work of reading the given answer into the compressed cache, where it was not the one written there."""
    kept_s: Seconds
    """The time of that, after the answer was given."""

    @model_validator(mode="after")
    def _check(self) -> GateRecord:
        if self.fired != (self.again is not None):
            raise bad("fired", self.fired, "true where there is a second run, else false", "Record what was run.")
        if (self.num_agreeing is None) == self.fired:
            raise bad("num_agreeing", self.num_agreeing, "a count where there are two answers", "Compare their tokens.")
        if self.again is not None:
            most = min(self.first.num_tokens, self.again.num_tokens)
            if (self.num_agreeing or 0) > most:
                raise bad("num_agreeing", self.num_agreeing, f"at most {most}, the shorter answer", "Compare tokens.")
        if not self.fired and (self.kept_token_layers or self.kept_s):
            raise bad("kept_token_layers", self.kept_token_layers, "0 where the first answer stands", "Leave it out.")
        if (self.rule in ("rate", "calibrated")) != (self.level is not None):
            raise bad("level", self.level, "a number for the rules rate and calibrated alone", "Record the rule.")
        if (self.rule == "always") != (self.signal is None):
            raise bad("signal", self.signal, "null for the rule always alone", "Record what was looked at.")
        return self


def check_gate(receipt: Receipt) -> None:
    """Raise BadInput where the run that gave the answer is not the one that the receipt is of."""
    record = receipt.gate
    if record is None:
        return
    given, output = record.again or record.first, receipt.output
    for name, found, wanted in (
        ("num_tokens", given.num_tokens, output.num_tokens),
        ("finish_reason", given.finish_reason, output.finish_reason),
        ("token_layers_computed", given.token_layers_computed, receipt.computed.token_layers_computed),
        ("kv_used_bytes", given.kv_used_bytes, sum(receipt.memory.kv_used_bytes_per_layer)),
    ):
        if found != wanted:
            raise bad(
                f"the gate's {name}", found, f"{wanted!r}, as in the rest", "Record the run that gave the answer."
            )
    if not isclose(given.total_s, receipt.seconds.total_s, rel_tol=1e-6):
        legal = f"{receipt.seconds.total_s:.6g}, as in seconds"
        raise bad("the gate's total_s", given.total_s, legal, "Record the run that gave the answer.")
