"""The parts of a receipt: plain records of what one request measured.

Numbers carry their unit in the name: `_s` seconds, `_bytes`, `num_` counts, `_len` lengths, and `_per_layer` has one
number for each of the model's layers 1..L, in order. Every docstring under a field is its description in the
published JSON schema. Parts check their own numbers; what must agree between parts is checked by `Receipt`.

Not covered: the text of the question, the documents and the answer. A receipt holds the titles of the chunks and
nothing else that the user wrote, apart from the settings.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from fewer.errors import bad
from fewer.receipt.fields import STRICT, Count, Number, PerLayer, Seconds, Settings, Text


class ModelRecord(BaseModel):
    """The model that answered."""

    model_config = STRICT

    name: Text
    """The name or path the model was asked for by."""
    family: Text
    """The architecture, such as llama or qwen3."""
    source: Text
    """What kind of place the weights came from, such as embedded, hub, directory or gguf."""
    num_layers: Annotated[int, Field(ge=1, strict=True)]
    """Decoder layers, L."""
    num_heads: Count
    """Query heads per layer."""
    num_kv_heads: Count
    """Key and value heads per layer."""
    head_dim: Count
    """Numbers in one head's key."""
    hidden_size: Count
    """Numbers in one token's hidden state."""
    num_parameters: Count
    """Weights in the model, tied ones counted once."""
    sha256: Text | None
    """The checksum of the weights' file, or null where it was not computed."""
    fingerprint: Text
    """Of the shapes and of some rows of every weight: the same in every number format, and in every place."""


class RunRecord(BaseModel):
    """The circumstances the request ran under."""

    model_config = STRICT

    device: Text
    """Where the layers ran, such as cpu or cuda:0."""
    dtype: Literal["float32", "bfloat16"]
    """The number format of the activations and of the keys and values."""
    weights: Literal["float32", "bfloat16", "int8"]
    """The number format the weights are held in; int8 is weight-only quantisation."""
    dtype_reason: Text
    """Why this dtype: "asked for", or what made the automatic choice."""
    num_threads: Count
    """Processor threads used inside one operation."""
    seed: Count
    """The seed of every random choice in this request."""
    batch_mates: Count
    """The largest number of other requests that shared a step with this one; they slow down its seconds."""
    shared_prefill: bool
    """Whether layers of the prefill were computed once for several requests; its seconds are then a sum of parts."""


class VersionsRecord(BaseModel):
    """The software that computed the answer."""

    model_config = STRICT

    fewer: Text
    """Version of this library."""
    torch: Text
    """Version of PyTorch."""
    transformers: Text
    """Version of Hugging Face transformers."""
    python: Text
    """Version of Python."""


class ChunkRecord(BaseModel):
    """One chunk of the prompt and how much of it each layer computed."""

    model_config = STRICT

    title: Text
    """The chunk's title as the user gave it; may be empty."""
    start: Count
    """The first token's position in the prompt."""
    stop: Count
    """One past the last token's position in the prompt."""
    num_tokens: Count
    """The chunk's tokens that may be left out; fewer than stop - start where some are protected."""
    kept_per_layer: PerLayer
    """How many of num_tokens were computed at each layer in the prefill."""
    num_revived: Count
    """Its tokens that came back after the prefill at some step, each once."""
    revived_per_layer: PerLayer
    """How many of num_tokens were computed at each layer after the prefill, because a later step wanted them."""

    @model_validator(mode="after")
    def _check(self) -> ChunkRecord:
        if self.num_tokens > self.stop - self.start:
            raise bad(
                "num_tokens", self.num_tokens, f"at most stop - start = {self.stop - self.start}", "Fix the span."
            )
        both = [kept + later for kept, later in zip(self.kept_per_layer, self.revived_per_layer, strict=False)]
        if max(both, default=0) > self.num_tokens:
            name = "kept_per_layer" if max(self.kept_per_layer) > self.num_tokens else "kept and revived tokens"
            raise bad(name, max(both), f"at most {self.num_tokens}", "Count each token once.")
        return self


class PromptRecord(BaseModel):
    """The prompt by part. Every token counts once: it is protected, or it belongs to one chunk."""

    model_config = STRICT

    num_tokens: Count
    """Tokens in the prompt that was run."""
    num_before: Count
    """The first of them that an earlier request of the same session had read; no layer computed them for this one."""
    num_protected: Count
    """Tokens that no pruning may leave out: system text, template, delimiters, question, sinks."""
    query_len: Count
    """Tokens of the question itself; they are among the protected ones."""
    truncated_tokens: Count
    """Tokens cut off before the run because truncation was asked for; they are not in num_tokens."""
    protected_per_layer: PerLayer
    """How many protected tokens were computed at each layer in the prefill."""
    chunks: tuple[ChunkRecord, ...]
    """The chunks in the order of the prompt."""

    @model_validator(mode="after")
    def _check(self) -> PromptRecord:
        parts = self.num_protected + sum(chunk.num_tokens for chunk in self.chunks)
        if parts != self.num_tokens:
            way_out = "Count each token once: as protected, or in its chunk."
            raise bad("num_protected plus the chunks' num_tokens", parts, f"num_tokens = {self.num_tokens}", way_out)
        if max(self.protected_per_layer, default=0) > self.num_protected:
            legal, way_out = f"at most num_protected = {self.num_protected}", "Count each token once."
            raise bad("protected_per_layer", max(self.protected_per_layer), legal, way_out)
        if self.num_before > self.num_tokens:
            legal, way_out = f"at most num_tokens = {self.num_tokens}", "Count tokens of the prompt."
            raise bad("num_before", self.num_before, legal, way_out)
        return self


class SettingsRecord(BaseModel):
    """What was asked for."""

    model_config = STRICT

    sampling: Settings
    """How the next token was chosen and when to stop."""
    prune: Settings | None
    """The pruning of the prefill, or null for none."""
    evict: Settings | None
    """The eviction of keys and values after the prefill, or null for none."""


class ComputedRecord(BaseModel):
    """The work, in token-layers: one token passing through one layer."""

    model_config = STRICT

    token_layers_full: Count
    """What a full run computes for this prompt and answer: (num_tokens - num_before + decode_steps) x layers."""
    token_layers_computed: Count
    """What this run computed, prefill and decoding."""
    token_layers_repeated: Count
    """Of token_layers_computed: computed before, because no state had been kept."""
    token_layers_skipped: Count
    """token_layers_full - (token_layers_computed - token_layers_repeated)."""
    prefill_rows_per_layer: PerLayer
    """Prompt tokens computed at each layer in the prefill."""
    decode_steps: Count
    """Output tokens that went through the layers; the answer's last token never does."""

    @model_validator(mode="after")
    def _check(self) -> ComputedRecord:
        both = self.token_layers_computed - self.token_layers_repeated + self.token_layers_skipped
        if both != self.token_layers_full:
            legal, way_out = f"token_layers_full = {self.token_layers_full}", "Count each token-layer once."
            raise bad("token_layers_computed - token_layers_repeated + token_layers_skipped", both, legal, way_out)
        return self


class SpreadRecord(BaseModel):
    """Seconds of the step that gave one output token, after the first; a stream's reader is not in them."""

    model_config = STRICT

    mean: Seconds
    """The mean, in seconds."""
    median: Seconds
    """The median, in seconds."""
    max: Seconds
    """The slowest token, in seconds."""


class SecondsRecord(BaseModel):
    """Where the time went, on a monotonic clock."""

    model_config = STRICT

    load_s: Seconds
    """Loading the model, once, before the request; not part of total_s."""
    layout_s: Seconds
    """Tokenising the documents and laying out the prompt."""
    queue_s: Seconds
    """Waiting for a place among other requests."""
    prefill_s: Seconds
    """Running the prompt through the layers."""
    evict_s: Seconds
    """Compressing the cache, also where nothing left it: part of the time of the token before which it ran."""
    first_token_s: Seconds | None
    """From the start of the request to its first output token; null if it has none."""
    per_output_token_s: SpreadRecord | None
    """One output token after the first; null if there are fewer than two."""
    total_s: Seconds
    """From the start of the request to its end."""


class MemoryRecord(BaseModel):
    """Bytes held at the end of the answer."""

    model_config = STRICT

    kv_bytes_per_layer: PerLayer
    """Keys and values, measured from the tensors' storages: with the rows reserved for tokens that may come."""
    kv_used_bytes_per_layer: PerLayer
    """Of kv_bytes_per_layer: the rows that are there, with padding; to be compared with kv_bytes_full_estimate."""
    kv_padding_bytes_per_layer: PerLayer
    """Of kv_used_bytes_per_layer: rows that hold nothing, where heads of a layer keep different numbers of rows."""
    kv_bytes_full_estimate: PerLayer
    """What a full run would use in each layer, without reserved rows: computed from the shapes, not measured."""
    kv_total_bytes: Count
    """The sum of kv_bytes_per_layer."""
    weights_bytes: Count
    """The model's weights."""
    peak_bytes: Count
    """The highest memory use; peak_scope says of what and since when."""
    peak_scope: Text
    """What peak_bytes covers, such as "process resident set since start"."""

    @model_validator(mode="after")
    def _check(self) -> MemoryRecord:
        if self.kv_total_bytes != sum(self.kv_bytes_per_layer):
            legal = f"the sum of kv_bytes_per_layer, {sum(self.kv_bytes_per_layer)}"
            raise bad("kv_total_bytes", self.kv_total_bytes, legal, "Add up the layers.")
        for used, held in zip(self.kv_used_bytes_per_layer, self.kv_bytes_per_layer, strict=False):
            if used > held:
                way_out = "Count the rows that are stored."
                raise bad("kv_used_bytes_per_layer", used, f"at most {held}, what the layer holds", way_out)
        for padding, used in zip(self.kv_padding_bytes_per_layer, self.kv_used_bytes_per_layer, strict=False):
            if padding > used:
                legal, way_out = f"at most {used}, what is in use", "Count the rows that hold nothing."
                raise bad("kv_padding_bytes_per_layer", padding, legal, way_out)
        return self


class OutputRecord(BaseModel):
    """The answer, without its text."""

    model_config = STRICT

    num_tokens: Count
    """Tokens in the answer."""
    finish_reason: Literal["stop", "length", "stop_string", "cancelled", "scored"]
    """What ended it: the model's end token, max_tokens, a stop string, the caller; or its tokens were given."""
    mean_logprob: Number | None
    """Mean log-probability of the answer's tokens in nats, or null where it was not asked for."""
    first_token_margin: Annotated[Number, Field(ge=0)] | None
    """Best minus second-best logit at the first output token, or null. Small: a small error could change the token."""
    min_margin: Annotated[Number, Field(ge=0)] | None
    """The smallest such margin over the answer's tokens, or null."""
