"""Retained-attention entropy from weights: by hand, against the definition, and what a meter remembers."""

from __future__ import annotations

import math

import pytest
import torch

from fewer.decide.entropy import EntropyMeter, measure_entropy
from tolerances import FP32, FP64


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([0.25, 0.25, 0.25, 0.25], 1.0),
        ([0.5, 0.5, 0.0, 0.0], 1.0),  # two rows are seen
        ([1.0, 0.0, 0.0, 0.0], 0.0),
        ([1.0], 0.0),
        ([0.5, 0.25, 0.25], 1.5 * math.log(2) / math.log(3)),
        ([0.9, 0.1], -(0.9 * math.log(0.9) + 0.1 * math.log(0.1)) / math.log(2)),
    ],
)
def test_by_hand(weights: list[float], expected: float) -> None:
    assert float(measure_entropy(torch.tensor(weights, dtype=torch.float64))) == pytest.approx(expected, abs=FP64)


def test_float32_is_near_the_definition_in_float64_and_never_above_one() -> None:
    generator = torch.Generator().manual_seed(0)
    weights = torch.softmax(3 * torch.randn(5, 4, 300, generator=generator, dtype=torch.float64), -1)
    expected = [[sum(-w * math.log(w) for w in row) / math.log(300) for row in head] for head in weights.tolist()]
    found = measure_entropy(weights.float())
    assert (found.double() - torch.tensor(expected, dtype=torch.float64)).abs().max() < FP32
    assert float(measure_entropy(torch.full((4096,), 1 / 4096))) <= 1


def test_the_order_of_rows_does_not_matter() -> None:
    weights = torch.softmax(torch.randn(40, generator=torch.Generator().manual_seed(1), dtype=torch.float64), -1)
    assert float(measure_entropy(weights)) == pytest.approx(float(measure_entropy(weights.flip(0))), abs=FP64)


def rows(seed: int, count: int) -> torch.Tensor:
    return torch.softmax(torch.randn(3, count, 9, generator=torch.Generator().manual_seed(seed)), -1)


def test_a_meter_joins_pieces_and_layers() -> None:
    meter = EntropyMeter()
    pieces = {(layer, first): rows(10 * layer + first, 2) for layer in range(2) for first in (0, 2)}
    for (layer, first), weights in pieces.items():
        meter.see(layer, first, weights)
    found = meter.finish()
    assert found.shape == (2, 3, 4)
    for (layer, first), weights in pieces.items():
        assert torch.equal(found[layer, :, first : first + 2], measure_entropy(weights))
    assert meter.finish() is None


def test_a_pass_that_starts_again_forgets_the_one_before() -> None:
    meter = EntropyMeter()
    meter.see(0, 0, rows(0, 4))
    meter.see(1, 0, rows(1, 2))  # and fails here
    for layer in range(2):
        meter.see(layer, 0, rows(5 + layer, 3))
    found = meter.finish()
    assert torch.equal(found, torch.stack([measure_entropy(rows(5 + layer, 3)) for layer in range(2)]))


def test_one_row_passes_are_summed_together_whatever_their_lengths() -> None:
    meter = EntropyMeter()
    layers = [torch.softmax(torch.randn(3, 1, 5 + 2 * layer, dtype=torch.float64), -1) for layer in range(4)]
    for layer, weights in enumerate(layers):
        meter.see(layer, 0, weights)
    expected = torch.stack([measure_entropy(weights) for weights in layers]).float()
    assert (meter.finish() - expected).abs().max() < FP32
    for layer, weights in enumerate(layers[:2]):
        meter.see(layer, 0, weights)  # and fails
    for layer in range(2):
        meter.see(layer, 0, layers[3])
    assert meter.finish().shape == (2, 3, 1)


def test_what_waits_to_be_summed_is_bounded() -> None:
    meter = EntropyMeter()
    wide = torch.full((4, 1, 1 << 18), 1 / (1 << 18))
    for layer in range(3):
        meter.see(layer, 0, wide)
        assert len(meter._pending) <= 1
    assert float((meter.finish() - 1).abs().max()) < FP32
