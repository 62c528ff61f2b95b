"""A made-up pass of attention over sampled layers, and the slow certificate of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fewer.certify import Certifier, Form, KnownProbabilities, StepCertificate

KV_HEADS, GROUP, DIM, LATER = 2, 3, 8, 4
HEADS = KV_HEADS * GROUP


@dataclass
class Layer:
    """One sampled layer and what attention made of it."""

    known: KnownProbabilities
    values: Tensor  # [kv_heads, n, d]
    weights: Tensor  # [kv_heads, group * rows, n]

    @property
    def out(self) -> Tensor:
        """[kv_heads, group * rows, d]."""
        return self.weights @ self.values

    @property
    def stored(self) -> Tensor:
        """The values that were there when it was sampled."""
        return self.values[:, : self.known.pi.shape[1]]


def make_layer(
    size: int,
    seed: int,
    dtype: torch.dtype = torch.float32,
    rows: int = 1,
    variance: Literal["poisson", "fixed_size"] = "poisson",
    device: torch.device | str = "cpu",
    dominant: float = 0.0,
    common: float = 0.0,
) -> Layer:
    """`size` sampled rows and LATER ones behind; `dominant` is added to one sampled row's logit, `common` to values."""
    generator = torch.Generator().manual_seed(seed)
    pi = 0.1 + 0.9 * torch.rand(KV_HEADS, size, generator=generator)
    pi[:, ::3] = 1.0
    values = torch.randn(KV_HEADS, size + LATER, DIM, generator=generator) + common
    logits = torch.randn(KV_HEADS, GROUP * rows, size + LATER, generator=generator)
    logits[..., :size] -= pi.log()[:, None]
    logits[..., 1] += dominant
    weights = torch.softmax(logits, -1)
    known = KnownProbabilities(pi.to(device), variance)
    return Layer(known, values.to(device, dtype), weights.to(device, dtype))


def watch(certifier: Certifier, layers: list[Layer], rows: int = 1) -> StepCertificate | None:
    """Show it one pass."""
    for index, layer in enumerate(layers):
        weights = layer.weights.reshape(HEADS, rows, -1)
        certifier.see(index, weights, layer.out.reshape(HEADS, rows, DIM).transpose(0, 1), layer.values)
    return certifier.finish()


def certify(
    layers: list[Layer],
    rows: int = 1,
    form: Form = "audited",
    kappa: list[Tensor | None] | None = None,
) -> StepCertificate:
    """A certifier for these layers, and what it says of one pass."""
    known, stored = [layer.known for layer in layers], [layer.stored for layer in layers]
    step = watch(Certifier(known, stored, 0.1, form, kappa), layers, rows)
    assert step is not None
    return step


def certify_slowly(layer: Layer, rows: int = 1, form: Form = "audited") -> tuple[Tensor, Tensor, Tensor]:
    """(radius, Vhat, range term) of one layer from the formulas: [heads, rows] float64, on the CPU; kappa is 1.

    From the weights as they are, which need not sum to 1 where they are rounded; then 1 - w is what the others sum to
    once they do.
    """
    pi = torch.nn.functional.pad(layer.known.pi, (0, LATER), value=1.0)[:, None].double().cpu()
    values, weights, out = layer.values[:, None].double().cpu(), layer.weights.double().cpu(), layer.out.double().cpu()
    if form == "audited":
        weights = weights / weights.sum(-1, keepdim=True)
        out = (weights[..., None] * values).sum(-2)
    distance = (values - out[..., None, :]).square().sum(-1).sqrt()
    if form == "audited":
        distance = distance / (1 - weights).clamp(min=1e-3)
    terms = (1 - pi) * (weights * distance) ** 2
    vhat, largest = terms.sum(-1), terms.amax(-1).sqrt()
    if form == "paper" and layer.known.variance == "fixed_size":
        count = (layer.known.pi < 1).sum(1, keepdim=True).double().cpu()
        vhat = vhat * count / (count - 1)
    level = math.log(10)
    deviation, share = (1.5, 0.5) if form == "audited" else (1.0, 1.0)
    size = deviation * (2 * vhat * level).sqrt() + share * largest * level
    found = size / (layer.out.double().cpu().norm(dim=-1) + 1e-9), vhat, largest
    return tuple(part.reshape(HEADS, rows) for part in found)  # type: ignore[return-value]
