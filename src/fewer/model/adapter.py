"""The five parts of a decoder that the loop needs: embed, rope, layers, norm and head. Refuses what it cannot run.

A model is supported when its decoder layers attend through transformers' attention interface, its keys and values are
per position and head, and its rotary angles depend on the position alone. Each supported family is listed below and
held against `model(ids).logits` in the tests. Everything else is refused by name, with the reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from fewer.errors import ModelError, bad
from fewer.model import attention
from fewer.model.blocks import FUSED, FusedBlock, Product, signed_angles
from fewer.model.mapped import forget_pages
from fewer.types import ModelFacts

if TYPE_CHECKING:
    from fewer.model.segment import Segment

__all__ = ["SUPPORTED", "Adapter", "Angles", "refusal"]

Angles = dict[str, tuple[Tensor, Tensor]]  # cosines and sines [1, rows, d] by the layer's kind
Layer = Callable[[Tensor, Angles, "list[Segment]"], Tensor]

_FEW_IDS = 64  # more than these touch enough of a mapped embedding to be worth giving its pages back

SUPPORTED = ("gemma3_text", "granite", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3", "smollm3")


class Adapter:
    """One loaded model, opened up for the loop. Takes the model over: its attention is set to ours.

    fused: run families of the Llama kind through blocks with joined projections (the same numbers in fewer and larger
    products, and nothing is held twice; the model itself cannot be called any more where its weights were packed).
    weights: "native", or "int8" for weight-only 8-bit products (fused families only). name: for messages.
    """

    def __init__(self, model: PreTrainedModel, fused: bool = True, weights: str = "native", name: str = "") -> None:
        if reason := refusal(model.config):
            raise ModelError(reason)
        if not hasattr(model, "lm_head"):
            raise ModelError(f"{type(model).__name__} has no language-model head. Load it with AutoModelForCausalLM.")
        config = model.config
        self.model = model.eval().requires_grad_(False)
        self.config = config
        self.name = name or type(model).__name__
        self.family: str = config.model_type
        self.num_layers: int = config.num_hidden_layers
        self.num_heads: int = config.num_attention_heads
        self.num_kv_heads: int = config.num_key_value_heads
        self.hidden_size: int = config.hidden_size
        self.head_dim: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.vocab_size: int = config.vocab_size
        self.max_positions: int = config.max_position_embeddings
        self.num_parameters = sum(p.numel() for p in model.parameters())  # tied ones once
        model.set_attn_implementation(attention.NAME)
        self._decoder, self._lm_head = model.model, model.lm_head
        self._kinds: list[str] = list(config.layer_types) if self.family == "gemma3_text" else [""] * self.num_layers
        self._fingerprint = _take_fingerprint(model)
        self.fused = fused and self.family in FUSED and getattr(config, "hidden_act", "") == "silu"
        if weights not in ("native", "int8"):
            raise bad("weights", weights, "'native' or 'int8'", "Leave it out for the weights as they are.")
        if weights == "int8" and not self.fused:
            raise ModelError(
                f"weights 'int8' is not available for the family {self.family!r}; it is for "
                f"{', '.join(sorted(FUSED))}. Use weights='native'."
            )
        self.weights = weights
        if self.fused:  # a read of one mapped norm would make a megabyte around it resident, in every layer
            for parameter in model.parameters():
                if parameter.dim() == 1:
                    parameter.data = parameter.data.clone()
        self.layers: list[Layer] = [self._open(index, layer) for index, layer in enumerate(self._decoder.layers)]
        self._project: Callable[[Tensor], Tensor] = self._lm_head
        if self.fused:
            self._project = Product(self._lm_head.weight, self._lm_head.bias, int8=weights == "int8")
            if self._project.own_bytes:
                forget_pages([self._lm_head.weight])
                if self._lm_head.weight is not self._decoder.embed_tokens.weight:
                    self._lm_head.weight = nn.Parameter(self._lm_head.weight.new_empty(0), requires_grad=False)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._decoder.embed_tokens.weight.device  # type: ignore[no-any-return]

    @property
    def dtype(self) -> torch.dtype:
        """The type of hidden states, keys and values."""
        return self._decoder.embed_tokens.weight.dtype  # type: ignore[no-any-return]

    @property
    def weights_bytes(self) -> int:
        """Bytes of all weights held, each storage once."""
        held = [parameter.untyped_storage() for parameter in self.model.parameters() if parameter.numel()]
        products = [self._project, *(p for b in self.layers if isinstance(b, FusedBlock) for p in b.products)]
        own: int = sum(product.own_bytes for product in products if isinstance(product, Product))
        shared: dict[int, int] = {storage.data_ptr(): storage.nbytes() for storage in held}
        return own + sum(shared.values())

    @cached_property
    def facts(self) -> ModelFacts:
        """What planners may know about it."""
        windows = tuple(self._window(index) for index in range(self.num_layers))
        return ModelFacts(self.name, self._fingerprint, self.num_layers, self.num_heads, self.num_kv_heads, windows)

    def settle(self) -> None:
        """Wait until the device has done what it was asked for, so that a clock read next means something."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def embed(self, ids: Tensor) -> Tensor:
        """[rows] token ids to [1, rows, width]."""
        hidden: Tensor = self._decoder.embed_tokens(ids[None])
        if isinstance(self._project, Product) and self._project.own_bytes and ids.numel() > _FEW_IDS:
            forget_pages([self._decoder.embed_tokens.weight])  # nothing else reads the table
        if self.family == "granite":
            hidden = hidden * self._decoder.embedding_multiplier
        return hidden

    def rope(self, hidden: Tensor, pos: Tensor) -> Angles:
        """Cosines and sines at absolute positions `pos` [rows], per kind of layer; [1, rows, d] each."""
        rotary = self._decoder.rotary_emb
        if self.family == "gemma3_text":
            return {kind: rotary(hidden, pos[None], kind) for kind in set(self._kinds)}
        angles = rotary(hidden, pos[None])
        return {"": signed_angles(*angles) if self.fused else angles}

    def head(self, hidden: Tensor) -> Tensor:
        """[1, rows, width] to logits [rows, vocab] in float32, or wider where the model is."""
        logits = self._project(self._decoder.norm(hidden[0]))
        if self.family == "granite":
            logits = logits / self.config.logits_scaling
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if cap := getattr(self.config, "final_logit_softcapping", None):
            logits = torch.tanh(logits / cap) * cap
        return logits

    def _open(self, index: int, layer: nn.Module) -> Layer:
        """A decoder layer as the loop calls it."""
        if self.fused:
            window = self._window(index)
            return FusedBlock(layer, index, window, int8=self.weights == "int8")
        kind = self._kinds[index]

        def call(hidden: Tensor, angles: Angles, segments: list[Segment]) -> Tensor:
            out: Tensor = layer(hidden, position_embeddings=angles[kind], attention_mask=None, fewer=segments)
            return out

        return call

    def _window(self, index: int) -> int | None:
        """The sliding window of a layer, as its own attention would have it."""
        if self.family in ("mistral", "phi3"):
            return getattr(self.config, "sliding_window", None)
        return getattr(self._decoder.layers[index].self_attn, "sliding_window", None)


def _take_fingerprint(model: PreTrainedModel) -> str:
    """A digest of the shapes of all weights and of the first rows of each, in bfloat16, to which all types round."""
    digest = hashlib.sha256(model.config.model_type.encode())
    for name, weight in sorted(model.named_parameters()):
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        rows = weight.detach()[:2].to("cpu", torch.bfloat16)
        digest.update(rows.contiguous().view(torch.int16).numpy().tobytes())
    return digest.hexdigest()[:32]


def refusal(config: Any) -> str | None:
    """Why a model with this config cannot be run here, in one sentence; None where it can."""
    kind = getattr(config, "model_type", "unknown")
    name = (getattr(config, "architectures", None) or [kind])[0]
    why = None
    layer_types = getattr(config, "layer_types", None) or []
    if getattr(config, "is_encoder_decoder", False):
        why = "it is an encoder-decoder; fewer runs decoder-only models"
    elif getattr(config, "kv_lora_rank", None):
        why = "it uses multi-head latent attention (MLA), which stores no keys and values per head"
    elif any(word in t for t in layer_types for word in ("linear", "mamba", "recurrent", "conv", "hybrid")) or any(
        hasattr(config, key)
        for key in ("mamba_d_state", "ssm_cfg", "state_size", "linear_num_key_heads", "attn_layer_period")
    ):
        why = "it has linear-attention or state-space layers, whose state cannot leave tokens out"
    elif kind == "gpt_oss":
        why = "it adds learned attention sinks to the softmax, which log-weights per key do not cover"
    elif any(getattr(config, key, None) for key in ("num_local_experts", "num_experts", "n_routed_experts")):
        why = "it is a mixture of experts, which has not been held against its reference"
    elif kind not in SUPPORTED:
        why = "its family has not been held against its reference"
    elif getattr(config, "attn_logit_softcapping", None):
        why = "it soft-caps attention logits"
    elif getattr(config, "use_bidirectional_attention", None):
        why = "it attends in both directions"
    elif (rope := _length_dependent_rope(config)) is not None:
        why = f"its rotary angles ({rope}) depend on the length of the sequence, so stored keys would change meaning"
    if why is None:
        return None
    return f"The model {name} ({kind}) is not supported: {why}. Supported families: {', '.join(SUPPORTED)}."


def _length_dependent_rope(config: Any) -> str | None:
    """The rope type, where it changes with the sequence length."""
    rope = getattr(config, "rope_parameters", None) or {}
    entries = [rope] if "rope_type" in rope else [entry for entry in rope.values() if isinstance(entry, dict)]
    for entry in entries:
        if entry.get("rope_type") in ("dynamic", "longrope"):
            return str(entry["rope_type"])
    return None
