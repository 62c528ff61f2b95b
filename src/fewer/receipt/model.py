"""The receipt of one answered request, and everything one can do with it.

It says what was computed, what was left out, what that cost in measured seconds and bytes, and what can be claimed
about the part left out. It is refused when its own numbers contradict each other: a token-layer is either computed
or skipped, a prompt token is either protected or in one chunk, and a cached row that stayed was certain or drawn.

The published schema is docs/receipt.schema.json. A change of meaning, or a field that older readers would refuse,
is a new `SCHEMA_VERSION`. Not covered: whether the answer is right.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, model_validator

from fewer.errors import bad
from fewer.receipt.claims import CertificateRecord, DecisionRecord, PlanRecord
from fewer.receipt.eviction import EvictionRecord, check_chunks
from fewer.receipt.fields import STRICT, Text
from fewer.receipt.files import write_file
from fewer.receipt.gate import GateRecord, check_gate
from fewer.receipt.parts import (
    ComputedRecord,
    MemoryRecord,
    ModelRecord,
    OutputRecord,
    PromptRecord,
    RunRecord,
    SecondsRecord,
    SettingsRecord,
    VersionsRecord,
)
from fewer.receipt.revival import RevivalRecord
from fewer.receipt.units import write_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fewer.receipt.compare import Comparison

SCHEMA_VERSION: Literal["6"] = "6"


class Receipt(BaseModel):
    """What one answered request computed, what it left out, what that cost, and what can be claimed about it."""

    model_config = STRICT

    schema_version: Literal["6"]
    """The version of this format."""
    model: ModelRecord
    """The model that answered."""
    run: RunRecord
    """The circumstances the request ran under."""
    versions: VersionsRecord
    """The software that computed the answer."""
    prompt: PromptRecord
    """The prompt by part, and how much of each part every layer computed."""
    settings: SettingsRecord
    """What was asked for."""
    computed: ComputedRecord
    """The work, in token-layers: one token passing through one layer."""
    plans: tuple[PlanRecord, ...]
    """What the pruning left out, in the order it was decided."""
    decisions: tuple[DecisionRecord, ...]
    """What came of every time the planner was asked in the prefill, for planners that account for it."""
    revival: RevivalRecord | None
    """Tokens that came back after the prefill; null for prunings that bring none back, and where none happened."""
    eviction: EvictionRecord | None
    """The eviction of keys and values after the prefill; null where none was asked for."""
    bypass: tuple[Text, ...]
    """Why a pruning or an eviction that was asked for left nothing out; empty where it did, or none was asked for."""
    seconds: SecondsRecord
    """Where the time went, measured."""
    memory: MemoryRecord
    """Bytes held, measured except where the name says estimate."""
    output: OutputRecord
    """The answer, without its text."""
    certificate: CertificateRecord
    """What can be claimed about the part left out."""
    gate: GateRecord | None
    """Whether a gate had the answer computed again, and why; null where none was asked. Then the rest of the receipt is
    about the answer that was given, and `gate.first` about the one before it."""

    @model_validator(mode="before")
    @classmethod
    def _check_version(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("schema_version") != SCHEMA_VERSION:
            way_out = "Read it with the version of fewer that wrote it, or run the request again."
            raise bad("schema_version", data.get("schema_version"), f"{SCHEMA_VERSION!r} for this reader", way_out)
        return data

    @model_validator(mode="after")
    def _check(self) -> Receipt:
        size = self.model.num_layers
        for name, numbers in self._per_layer().items():
            if len(numbers) != size:
                raise bad(f"the length of {name}", len(numbers), f"{size}, one number a layer", "Fill every layer.")
        prompt, computed = self.prompt, self.computed
        for index, rows in enumerate(computed.prefill_rows_per_layer):
            parts = prompt.protected_per_layer[index] + sum(chunk.kept_per_layer[index] for chunk in prompt.chunks)
            if parts != rows:
                name = f"protected and kept tokens at layer {index + 1}"
                raise bad(name, parts, f"prefill_rows_per_layer = {rows}", "Count each token once.")
        new = prompt.num_tokens - prompt.num_before
        full = (new + computed.decode_steps) * size
        if computed.token_layers_full != full:
            legal = f"(prompt tokens not read before + decode_steps) x layers = {full}"
            raise bad("token_layers_full", computed.token_layers_full, legal, "Count the prompt and the steps.")
        if (most := max(computed.prefill_rows_per_layer, default=0)) > new:
            legal = f"at most {new}, the prompt tokens not read before"
            raise bad("prefill_rows_per_layer", most, legal, "Count what this request computed.")
        if computed.token_layers_computed < sum(computed.prefill_rows_per_layer):
            legal = f"at least the prefill's rows, {sum(computed.prefill_rows_per_layer)}"
            raise bad("token_layers_computed", computed.token_layers_computed, legal, "Add prefill and decoding.")
        back = sum(sum(chunk.revived_per_layer) for chunk in prompt.chunks)
        if self.revival is None and (back or computed.token_layers_repeated):
            raise bad("revival", None, "a record where tokens came back", "Record what the steps did.")
        for layer in [*(plan.layer for plan in self.plans), *(decision.layer for decision in self.decisions)]:
            if layer > size:
                way_out = "Number layers from 1; 0 is the embedding."
                raise bad("the layer of a plan or decision", layer, f"0 to {size}", way_out)
        self._check_eviction()
        check_gate(self)
        return self

    def _check_eviction(self) -> None:
        """It is there where it was asked for, has the model's shape and time, and no more tokens than there were."""
        record, asked = self.eviction, self.settings.evict is not None
        if (record is not None) != asked:
            legal = "a record where settings.evict asks for one, else null"
            raise bad("eviction", None if record is None else record.name, legal, "Record what the policy did.")
        compressions = record.compressions if record else ()
        most = self.prompt.num_tokens + self.output.num_tokens
        for each in compressions:
            shape = [len(heads) for heads in each.rows_before]
            if shape != [self.model.num_kv_heads] * self.model.num_layers:
                legal = f"{self.model.num_layers} layers of {self.model.num_kv_heads} heads"
                raise bad("the heads of rows_before by layer", shape, legal, "Fill every layer and head.")
            if each.num_seen > most:
                raise bad("num_seen", each.num_seen, f"at most {most}, prompt and answer", "Count tokens seen.")
        took = sum(each.evict_s for each in compressions)
        if self.seconds.evict_s < took * (1 - 1e-6):
            legal = f"at least the sum of the compressions', {took:.6g}"
            raise bad("evict_s", self.seconds.evict_s, legal, "Add up the compressions.")
        if record is not None:
            check_chunks(record, [chunk.stop - chunk.start for chunk in self.prompt.chunks], self.model.num_kv_heads)
        if len(self.certificate.steps) > self.computed.decode_steps:
            legal = f"at most {self.computed.decode_steps}, the decode steps"
            raise bad("the certificate's steps", len(self.certificate.steps), legal, "Leave out a step without token.")

    def _per_layer(self) -> dict[str, tuple[int | float, ...]]:
        """Every sequence that has one number a layer, by name."""
        found: dict[str, tuple[int | float, ...]] = {
            "protected_per_layer": self.prompt.protected_per_layer,
            "prefill_rows_per_layer": self.computed.prefill_rows_per_layer,
            "kv_bytes_per_layer": self.memory.kv_bytes_per_layer,
            "kv_used_bytes_per_layer": self.memory.kv_used_bytes_per_layer,
            "kv_padding_bytes_per_layer": self.memory.kv_padding_bytes_per_layer,
            "kv_bytes_full_estimate": self.memory.kv_bytes_full_estimate,
        }
        for number, chunk in enumerate(self.prompt.chunks, 1):
            found[f"kept_per_layer of chunk {number}"] = chunk.kept_per_layer
            found[f"revived_per_layer of chunk {number}"] = chunk.revived_per_layer
        if self.certificate.per_layer is not None:
            found["per_layer of the certificate"] = self.certificate.per_layer
        for number, rows in enumerate(self.eviction.rows_per_chunk if self.eviction else (), 1):
            found[f"rows_per_chunk of chunk {number}"] = rows
        return found

    def to_table(self) -> RenderableType:
        """A table for the terminal, from 60 columns on; print it with rich."""
        from fewer.receipt.table import ReceiptTable

        return ReceiptTable(self)

    def to_html(self) -> str:
        """A page that stands alone: no network, no script, no font; light, dark, and down to a phone's width."""
        from fewer.receipt.page import render_page

        return render_page(self)

    def to_json(self) -> str:
        """The receipt as indented JSON with one line for each list of numbers; `model_validate_json` reads it back."""
        return write_json(self.model_dump(mode="json"))

    def save_html(self, path: str | PathLike[str]) -> None:
        """Write `to_html` to a file, whole or not at all. Raises BadInput for the path, StorageError for the disk."""
        write_file(path, self.to_html())

    def save_json(self, path: str | PathLike[str]) -> None:
        """Write `to_json` to a file, whole or not at all. Raises BadInput for the path, StorageError for the disk."""
        write_file(path, self.to_json() + "\n")

    def compare(self, other: Receipt) -> Comparison:
        """This receipt's numbers over the other's, and which of them cannot be compared, and why."""
        from fewer.receipt.compare import compare_receipts

        if not isinstance(other, Receipt):
            raise bad("the other receipt", other, "a Receipt", "Take it from an answer, or read it from its JSON.")
        return compare_receipts(self, other)
