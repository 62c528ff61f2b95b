"""Tiny random models, one for each way a supported family can be set up, and the reference beside each.

The weights are scaled so that logits are of order one and attention is far from uniform: a wrong mask or a wrong
position then moves the logits by thousands of tolerances.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
import transformers
from torch import Tensor

from reference import Dense

VOCAB = 131
SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 256,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
MIXED = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


@dataclass(eq=False)
class Tiny:
    """A family's tiny model in float32, the window of each layer as the family defines it, and the reference."""

    name: str
    family: str  # the prefix of transformers' classes
    windows: tuple[int | None, ...] = (None,) * 4
    settings: dict[str, object] = field(default_factory=dict)
    tail: str = ""  # between the family and "Config" in the configuration's name
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def on(self, device: torch.device) -> Tiny:
        """Where to build it; before it is built."""
        self.device = device
        return self

    @cached_property
    def model(self) -> torch.nn.Module:
        config = getattr(transformers, f"{self.family}{self.tail}Config")(**{**SHAPE, **self.settings})
        return randomise(getattr(transformers, f"{self.family}ForCausalLM")(config).to(self.device).eval())

    @cached_property
    def dense(self) -> Dense:
        return Dense(self.model)

    @torch.no_grad()
    def theirs(self, ids: Tensor) -> Tensor:
        """What transformers says: [T, vocab]."""
        return self.model(ids[None].to(self.device)).logits[0].float()


TINY = {
    tiny.name: tiny
    for tiny in (
        Tiny("llama-r2", "Llama", settings={"attention_bias": True, "mlp_bias": True}),
        Tiny("llama-r1", "Llama", settings={"num_key_value_heads": 4, "tie_word_embeddings": True}),
        Tiny("llama-r8", "Llama", settings={"num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 8}),
        Tiny("llama3-rope", "Llama", settings={"rope_parameters": LLAMA3}),
        Tiny("mistral", "Mistral", (6,) * 4, {"sliding_window": 6}),
        Tiny(
            "mistral-r8",
            "Mistral",
            settings={"sliding_window": None, "num_attention_heads": 16, "head_dim": 8, "hidden_act": "gelu"},
        ),
        Tiny("qwen2", "Qwen2"),
        Tiny(
            "qwen2-sliding",
            "Qwen2",
            (None, None, 5, 5),
            {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 2},
        ),
        Tiny("qwen3", "Qwen3"),
        Tiny(
            "qwen3-sliding",
            "Qwen3",
            (7, None, 7, None),
            {"use_sliding_window": True, "sliding_window": 7, "layer_types": MIXED, "attention_bias": True},
        ),
        Tiny("phi3", "Phi3"),
        Tiny(
            "phi3-sliding",
            "Phi3",
            (5,) * 4,
            {
                "hidden_size": 64,
                "head_dim": 16,
                "sliding_window": 5,
                "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
            },
        ),
        Tiny(
            "gemma3",
            "Gemma3",
            (5, None, 5, None),
            {
                "sliding_window": 5,
                "layer_types": MIXED,
                "query_pre_attn_scalar": 10,
                "final_logit_softcapping": 4.0,
                "rope_parameters": {
                    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                    "full_attention": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
                },
            },
            tail="Text",
        ),
        Tiny("smollm3", "SmolLM3", settings={"tie_word_embeddings": False, "no_rope_layers": [1, 0, 1, 0]}),
        Tiny(
            "smollm3-sliding",
            "SmolLM3",
            (None, 6, None, 6),
            {
                "tie_word_embeddings": False,
                "no_rope_layers": [1, 0, 1, 0],
                "use_sliding_window": True,
                "sliding_window": 6,
            },
        ),
        Tiny(
            "granite",
            "Granite",
            settings={
                "attention_bias": True,
                "mlp_bias": True,
                "embedding_multiplier": 3.0,
                "logits_scaling": 2.0,
                "residual_multiplier": 0.6,
                "attention_multiplier": 0.4,
            },
        ),
        Tiny("olmo2", "Olmo2", settings={"num_key_value_heads": 4}),
        Tiny("olmo2-r2", "Olmo2"),
    )
}


@torch.no_grad()
def randomise(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Fill every weight from one generator, at scales that keep logits of order one and attention peaked."""
    generator = torch.Generator().manual_seed(seed)
    tied = model.config.tie_word_embeddings
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator).to(weight.device)
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            weight.add_(0.4 + 0.2 * noise)
        elif "norm" in name:
            weight.add_(0.2 * noise - (0.5 if "post_" in name else 0.0))
        elif name.endswith("bias"):
            weight.copy_(0.3 * noise)
        elif "embed_tokens" in name and not tied:
            weight.copy_(noise)
        else:
            weight.copy_(noise / weight.shape[1] ** 0.5)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            weight.mul_(1.4)
        if name.endswith("qkv_proj.weight"):
            heads, kv_heads = model.config.num_attention_heads, model.config.num_key_value_heads
            weight[: len(weight) * (heads + kv_heads) // (heads + 2 * kv_heads)].mul_(1.4)
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            weight.mul_(0.2 if tied else 0.6)
    return model
