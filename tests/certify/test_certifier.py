"""The fast certificate against the slow one, and what a pass may look like."""

from __future__ import annotations

import pytest
import torch
from passes import DIM, HEADS, KV_HEADS, LATER, certify, certify_slowly, make_layer, watch

from fewer.certify import Certifier, KnownProbabilities, certifier
from fewer.errors import BadInput
from tolerances import BF16, FP32

SIZES = [40, 40, 31]


def compare(layers, step, rows: int, tolerance: float) -> None:
    """Radius, Vhat and range term of every layer, head and row."""
    for index, layer in enumerate(layers):
        for found, expected in zip((step.radius, step.vhat, step.range_term), certify_slowly(layer, rows), strict=True):
            assert found[index].dtype == torch.float32
            assert (found[index].cpu() - expected).abs().max() < tolerance
            assert expected.min() > 0


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("variance", ["poisson", "fixed_size"])
def test_every_layer_head_and_row_is_as_the_formulas_say(rows, variance, device, fp32) -> None:
    layers = [make_layer(size, seed, rows=rows, variance=variance, device=device) for seed, size in enumerate(SIZES)]
    step = certify(layers, rows)
    assert step.radius.shape == (3, HEADS, rows)
    assert step.radius.device.type == device.type
    compare(layers, step, rows, fp32)


@pytest.mark.parametrize("common", [0.0, 5.0])
def test_bfloat16(common) -> None:
    layers = [make_layer(size, seed, torch.bfloat16, 2, common=common) for seed, size in enumerate(SIZES)]
    compare(layers, certify(layers, 2), 2, BF16)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_sampled_row_with_nearly_all_the_weight(dtype) -> None:
    """v is near y, the expanded square cancels, and what is left is measured in differences."""
    layer = make_layer(40, 1, dtype, dominant=8.0)
    step = certify([layer])
    _, vhat, largest = certify_slowly(layer)
    assert layer.weights[..., 1].min() > 0.9
    assert (step.vhat[0] / vhat - 1).abs().max() < 0.06  # rounding may move Vhat by a twentieth before it is noticed
    assert (step.range_term[0] / largest - 1).abs().max() < BF16


def test_small_weights_do_not_underflow_in_float16() -> None:
    layer = make_layer(3000, 2, torch.float16)
    step = certify([layer], along=True)
    assert layer.weights.square().median() == 0
    assert (step.vhat[0] / certify_slowly(layer)[1] - 1).abs().max() < BF16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_product_may_be_taken_along(dtype) -> None:
    layers = [make_layer(size, seed, dtype) for seed, size in enumerate(SIZES)]
    alone, along = certify(layers), certify(layers, along=True)
    for name in ("radius", "vhat", "range_term", "out_norm"):
        assert torch.equal(getattr(alone, name), getattr(along, name))


def test_rows_that_came_later_are_certain() -> None:
    layer = make_layer(40, 3)
    further = Certifier([layer.known], [layer.stored]).rows(0, layer.weights)
    assert further[..., -LATER:].abs().sum() == 0
    assert further[..., :3:3].abs().sum() == 0  # pi is 1
    assert (further[..., 1:3] > 0).all()


def test_many_later_rows() -> None:
    layer = make_layer(30, 4)
    engine = Certifier([layer.known], [layer.stored])
    before = watch(engine, [layer])
    layer.weights = torch.nn.functional.pad(layer.weights, (0, 700))
    layer.values = torch.nn.functional.pad(layer.values, (0, 0, 0, 700), value=3.0)
    after = watch(engine, [layer])
    assert torch.allclose(before.radius, after.radius, rtol=0, atol=FP32)


def test_padding_of_ragged_heads_counts_for_nothing() -> None:
    layer = make_layer(20, 5)
    ragged = make_layer(20, 5)
    pi = torch.nn.functional.pad(layer.known.pi, (0, 3), value=1.0)
    ragged.known = KnownProbabilities(pi, "poisson")
    ragged.weights = torch.cat([layer.weights[..., :20], torch.zeros(KV_HEADS, 3, 3), layer.weights[..., 20:]], -1)
    ragged.values = torch.cat([layer.values[:, :20], layer.values[:, :1].expand(-1, 3, -1), layer.values[:, 20:]], 1)
    assert torch.allclose(certify([layer]).radius, certify([ragged]).radius, rtol=0, atol=FP32)


def test_layers_that_were_not_sampled() -> None:
    layer = make_layer(20, 6)
    engine = Certifier([None, layer.known, None], [layer.stored] * 3)
    assert engine.rows(0, layer.weights).shape == (KV_HEADS, 0, 20 + LATER)
    step = watch(engine, [layer] * 3)
    assert step.radius[0].abs().sum() == step.radius[2].abs().sum() == 0
    assert torch.equal(step.radius[1], certify([layer]).radius[0])
    nothing = Certifier([None], [layer.stored])
    assert watch(nothing, [layer]) is None


def test_one_pass_after_the_other() -> None:
    layers = [make_layer(size, seed) for seed, size in enumerate(SIZES)]
    engine = Certifier([layer.known for layer in layers], [layer.stored for layer in layers])
    assert engine.finish() is None
    first, second = watch(engine, layers), watch(engine, layers)
    assert torch.equal(first.radius, second.radius)
    assert engine.finish() is None


def test_a_pass_that_starts_again_forgets_the_unfinished_one() -> None:
    layers = [make_layer(size, seed) for seed, size in enumerate(SIZES)]
    engine = Certifier([layer.known for layer in layers], [layer.stored for layer in layers])
    for layer in make_layer(40, 9), make_layer(40, 8):
        engine.see(
            0, layer.weights.reshape(HEADS, 1, -1), layer.out.reshape(HEADS, 1, DIM).transpose(0, 1), layer.values
        )
    assert torch.equal(watch(engine, layers).radius, certify(layers).radius)


def test_large_passes_are_summed_in_parts(monkeypatch) -> None:
    layers = [make_layer(size, seed, rows=4) for seed, size in enumerate(SIZES)]
    whole = certify(layers, 4)
    monkeypatch.setattr(certifier, "_MOST", 1)
    parts = certify(layers, 4)
    assert torch.allclose(whole.radius, parts.radius, rtol=0, atol=FP32)


@pytest.mark.parametrize("dominant", [0.0, 4.0])
def test_a_bound_for_the_range_term_is_a_bound(dominant) -> None:
    layers = [make_layer(200, seed, dominant=dominant) for seed in range(4)]
    exact, bounded = certify(layers), certify(layers, exact=False)
    assert torch.equal(exact.vhat, bounded.vhat)
    assert (bounded.range_term >= exact.range_term).all()
    assert (bounded.range_term > 1.01 * exact.range_term).any()
    assert (bounded.range_term.square() <= bounded.vhat * (1 + FP32)).all()
    assert (bounded.radius / exact.radius).max() < 2.08


def test_bad_input() -> None:
    layer = make_layer(20, 7)
    with pytest.raises(BadInput, match=r"known is 1; it must be one for each of 2 layers"):
        Certifier([layer.known], [layer.stored] * 2)
    with pytest.raises(BadInput, match=r"values is \[2, 24, 8\]; it must be \[2, 20\] rows"):
        Certifier([layer.known], [layer.values])
    with pytest.raises(BadInput, match="delta is 2"):
        Certifier([layer.known], [layer.stored], 2)
    engine = Certifier([layer.known], [layer.stored])
    layer.values = layer.values[:, :10]
    layer.weights = layer.weights[..., :10]
    with pytest.raises(BadInput, match=r"values is 10; it must be at least the 20 rows.*Make a new certifier"):
        watch(engine, [layer])
