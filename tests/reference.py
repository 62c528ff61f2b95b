"""Slow references in float64, written from the definitions. They share no code with the package.

`attend` is attention over stored keys, one query and one head at a time. `Dense` runs all rows of one sequence
through a float64 copy of a transformers model's own layers, with an additive bias per layer: what a token may
look at is written out as a matrix, and dropped rows are computed like the others and never looked at.
`sight` writes that matrix, one pair of tokens at a time. Layers are numbered 1..L; 0 is the embedding.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from types import MethodType

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

Drops = Sequence[tuple[int, Sequence[int]]]  # (after layer, positions that go deeper), shallow first
Windows = Sequence[int | None]  # per layer: a query sees this many positions, its own among them; None is all


def attend(
    q: Tensor,  # [heads, m, d]
    k: Tensor,  # [kv_heads, n, d]
    v: Tensor,  # [kv_heads, n, d]
    query_pos: Tensor,  # [m]
    key_pos: Tensor,  # [kv_heads or 1, n]
    log_w: Tensor | None,  # [kv_heads or 1, n]
    scale: float,
    window: int | None = None,
) -> Tensor:  # [m, heads, d] float64
    """Softmax of `scale q.k + log_w` over the keys at or before the query and inside its window, times the values."""
    heads, kv_heads = q.shape[0], k.shape[0]
    q, k, v, query_pos = q.double().cpu(), k.double().cpu(), v.double().cpu(), query_pos.cpu()
    key_pos = key_pos.cpu().expand(kv_heads, -1)
    log_w = torch.zeros(key_pos.shape) if log_w is None else log_w.cpu().expand(kv_heads, -1)
    out = torch.zeros(q.shape[1], heads, v.shape[-1], dtype=torch.float64)
    for head in range(heads):
        group = head * kv_heads // heads
        for row, here in enumerate(query_pos):
            visible = key_pos[group] <= here
            if window is not None:
                visible &= here - key_pos[group] < window
            logits = scale * (k[group][visible] @ q[head, row]) + log_w[group][visible]
            weights = (logits - logits.max()).exp()
            out[row, head] = (weights / weights.sum()) @ v[group][visible]
    return out


def sight(
    total: int, windows: Windows, prompt_len: int | None = None, drops: Drops = (), release: bool = False
) -> Tensor:
    """Which token each token sees in each layer: [L, total, total] bool, `[layer, query, key]`.

    Without drops this is causal attention inside each layer's window. After a drop, the rows of the prompt see in
    layer l what was still active there; the rows that follow see the same if the shallow keys stayed
    (`release=False`), and only what was kept at the end in every layer if they were freed.
    """
    prompt_len = total if prompt_len is None else prompt_len
    at_the_end = set(drops[-1][1]) if drops else set(range(prompt_len))
    layers = []
    for index, window in enumerate(windows):
        active = set(range(prompt_len))
        for after, keep in drops:
            if after <= index:
                active = set(keep)
        rows = []
        for query in range(total):
            stored = active if query < prompt_len or not release else at_the_end
            rows.append(
                [_in_reach(query, key, window) and (key >= prompt_len or key in stored) for key in range(total)]
            )
            rows[-1][query] = True  # a dropped row needs something to look at; nobody looks at it
        layers.append(rows)
    return torch.tensor(layers)


def bias_of(visible: Tensor) -> Tensor:
    """The additive form, float64: 0 where visible, -inf elsewhere."""
    return torch.zeros(visible.shape, dtype=torch.float64).masked_fill(~visible, -math.inf)


def widen(model: nn.Module) -> nn.Module:
    """A float64 copy whose norms are computed in float64 too; transformers rounds them to float32 inside."""
    model = copy.deepcopy(model).double().eval()
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = MethodType(_rms_norm, module)
    return model


class Dense:
    """One sequence through a float64 copy of the model, every row of every layer, with an explicit bias."""

    def __init__(self, model: nn.Module) -> None:
        self.model = widen(model)
        self.model.config._attn_implementation = "dense_float64"
        self.layers = self.model.model.layers

    @torch.no_grad()
    def run(self, ids: Tensor, bias: Tensor, pos: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
        """Logits [T, vocab] and each layer's attention weights [heads, T, T], all float64.

        bias: [L, T, T], or [L, heads, T, T] where heads see different things. pos: [T], 0..T-1 unless given.
        """
        body, config = self.model.model, self.model.config
        device = body.embed_tokens.weight.device
        pos = (torch.arange(ids.numel()) if pos is None else pos)[None].to(device)
        bias = bias.to(device)
        hidden = body.embed_tokens(ids[None].to(device)) * getattr(config, "embedding_multiplier", 1.0)
        weights: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            mask = bias[index][None, None] if bias.dim() == 3 else bias[index][None]  # [1, 1 or heads, T, T]
            kind = (config.layer_types[index],) if config.model_type == "gemma3_text" else ()
            rotary = body.rotary_emb(hidden, pos, *kind)
            hidden = layer(hidden, position_embeddings=rotary, attention_mask=mask, record=weights)
        logits = self.model.lm_head(body.norm(hidden)) / getattr(config, "logits_scaling", 1.0)
        if (cap := getattr(config, "final_logit_softcapping", None)) is not None:
            logits = cap * torch.tanh(logits / cap)
        return logits[0], weights

    def logits(self, ids: Tensor, visible: Tensor) -> Tensor:
        """Logits [T, vocab] where each row sees what `visible` [L, T, T] says."""
        return self.run(ids, bias_of(visible))[0]


def _in_reach(query: int, key: int, window: int | None) -> bool:
    return key <= query and (window is None or query - key < window)


def _rms_norm(self: nn.Module, x: Tensor) -> Tensor:
    eps = self.eps if hasattr(self, "eps") else self.variance_epsilon
    gain = 1.0 + self.weight if type(self).__name__.startswith("Gemma") else self.weight
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * gain


def _dense_attention(
    module: nn.Module, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scaling: float, record: list[Tensor], **_: object
) -> tuple[Tensor, None]:
    """transformers' attention interface: q [1, heads, T, d], k and v [1, kv_heads, T, d] -> [1, T, heads, d]."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    weights = torch.softmax(scaling * (q @ k.transpose(2, 3)) + bias, dim=-1)
    record.append(weights[0])
    return (weights @ v).transpose(1, 2), None


AttentionInterface.register("dense_float64", _dense_attention)
