"""What cannot be run is refused by name, with the reason, before any weight is touched."""

from __future__ import annotations

import pytest
import torch
import transformers

from fewer.errors import ModelError
from fewer.model.adapter import Adapter

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0] * 4,
    "long_factor": [2.0] * 4,
    "factor": 2.0,
}
REFUSED = [
    ("DeepseekV2ForCausalLM", {}, "latent attention"),
    ("DeepseekV3ForCausalLM", {"first_k_dense_replace": 1}, "latent attention"),
    ("MambaForCausalLM", {}, "state-space"),
    ("JambaForCausalLM", {}, "state-space"),
    ("FalconH1ForCausalLM", {}, "state-space"),
    ("RecurrentGemmaForCausalLM", {}, "linear-attention"),
    ("Qwen3NextForCausalLM", {}, "linear-attention"),
    ("T5ForConditionalGeneration", {}, "encoder-decoder"),
    ("GptOssForCausalLM", {}, "attention sinks"),
    ("MixtralForCausalLM", {}, "mixture of experts"),
    ("Qwen3MoeForCausalLM", {}, "mixture of experts"),
    ("Gemma2ForCausalLM", {}, "family"),
    ("BloomForCausalLM", {}, "family"),
    ("GPT2LMHeadModel", {}, "family"),
    ("Gemma3ForCausalLM", {"use_bidirectional_attention": True}, "both directions"),
    ("Gemma3ForCausalLM", {"attn_logit_softcapping": 20.0}, "soft-caps"),
    ("Phi3ForCausalLM", {"rope_parameters": LONGROPE, "original_max_position_embeddings": 16}, "longrope"),
    ("LlamaForCausalLM", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "dynamic"),
]


def build(architecture: str, settings: dict[str, object]) -> transformers.PreTrainedModel:
    """On the meta device: shapes without numbers."""
    kind = getattr(transformers, architecture)
    with torch.device("meta"):
        return kind(kind.config_class(**{**SMALL, **settings}))


@pytest.mark.parametrize(("architecture", "settings", "reason"), REFUSED)
def test_refused_by_name_and_reason(architecture: str, settings: dict[str, object], reason: str) -> None:
    model = build(architecture, settings)
    with pytest.raises(ModelError, match=reason) as refusal:
        Adapter(model)
    assert model.config.model_type in str(refusal.value)
    assert "Supported families: " in str(refusal.value)


@pytest.mark.parametrize("architecture", ["LlamaModel", "LlamaForSequenceClassification"])
def test_refused_without_a_language_model_head(architecture: str) -> None:
    with pytest.raises(ModelError, match="head"):
        Adapter(build(architecture, {}))


def test_a_checkpoints_own_name_is_used() -> None:
    model = build("MixtralForCausalLM", {})
    model.config.architectures = ["MixtralForCausalLM"]
    with pytest.raises(ModelError, match="MixtralForCausalLM"):
        Adapter(model)
