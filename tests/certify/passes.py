"""A made-up pass of attention over sampled layers, and the slow certificate of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fewer.certify import Certifier, KnownProbabilities, StepCertificate, poisson_variance, radius, range_term

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


def watch(
    certifier: Certifier, layers: list[Layer], rows: int = 1, along: bool = False, first: int = 0
) -> StepCertificate | None:
    """Show it one pass; `along`: with the further rows multiplied in attention's own product."""
    for index, layer in enumerate(layers, first):
        further = certifier.rows(index, layer.weights) if along else None
        weights = layer.weights.reshape(HEADS, rows, -1)
        out = layer.out.reshape(HEADS, rows, DIM).transpose(0, 1)
        certifier.see(index, weights, out, layer.values, None if further is None else further @ layer.values)
    return certifier.finish()


def certify(layers: list[Layer], rows: int = 1, exact: bool = True, **how) -> StepCertificate:
    """A certifier for these layers, and what it says of one pass."""
    certifier = Certifier([layer.known for layer in layers], [layer.stored for layer in layers], exact=exact)
    step = watch(certifier, layers, rows, **how)
    assert step is not None
    return step


def certify_slowly(layer: Layer, rows: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """(radius, Vhat, range term) of one layer from the clear functions: [heads, rows] float64, on the CPU."""
    pi = torch.nn.functional.pad(layer.known.pi, (0, LATER), value=1.0)[:, None].cpu()
    values, weights, out = layer.values[:, None].cpu(), layer.weights.cpu(), layer.out.cpu()
    vhat, largest = poisson_variance(weights, pi, values, out), range_term(weights, pi, values, out)
    if layer.known.variance == "fixed_size":
        count = (layer.known.pi < 1).sum(1, keepdim=True).double().cpu()
        vhat = vhat * count / (count - 1)
    found = radius(vhat, largest, out.double().norm(dim=-1)), vhat, largest
    return tuple(part.reshape(HEADS, rows) for part in found)  # type: ignore[return-value]
