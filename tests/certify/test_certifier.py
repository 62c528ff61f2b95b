"""The fast certificate against the slow one, and what a pass may look like."""

from __future__ import annotations

import pytest
import torch
from passes import DIM, GROUP, HEADS, KV_HEADS, LATER, certify, certify_slowly, make_layer, watch

from fewer.certify import Certifier, KnownProbabilities, certifier, leave_one_out_variance
from fewer.certify.tail import BLOCK
from fewer.errors import BadInput
from tolerances import BF16, FP32

SIZES = [40, 40, 31]


def compare(layers, step, rows: int, tolerance: float) -> None:
    """Radius, Vhat and range term of every layer, head and row; relative where they are above 1."""
    for index, layer in enumerate(layers):
        slow = certify_slowly(layer, rows, step.form)
        for found, expected in zip((step.radius, step.vhat, step.range_term), slow, strict=True):
            assert found[index].dtype == torch.float32
            assert ((found[index].cpu() - expected) / expected.clamp(min=1)).abs().max() < tolerance
            assert expected.min() > 0


@pytest.mark.parametrize("form", ["audited", "paper"])
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("variance", ["poisson", "fixed_size"])
def test_every_layer_head_and_row_is_as_the_formulas_say(rows, variance, form, device, fp32) -> None:
    layers = [make_layer(size, seed, rows=rows, variance=variance, device=device) for seed, size in enumerate(SIZES)]
    step = certify(layers, rows, form=form)
    assert (step.form, step.audited) == (form, False)
    assert step.radius.shape == (3, HEADS, rows)
    assert step.radius.device.type == device.type
    compare(layers, step, rows, fp32)


@pytest.mark.parametrize("form", ["audited", "paper"])
@pytest.mark.parametrize("common", [0.0, 5.0])
def test_bfloat16(common, form) -> None:
    layers = [make_layer(size, seed, torch.bfloat16, 2, common=common) for seed, size in enumerate(SIZES)]
    step = certify(layers, 2, form=form)
    if form == "paper":
        compare(layers, step, 2, BF16)
        return
    for index, layer in enumerate(layers):
        size, vhat, largest = certify_slowly(layer, 2)  # from weights that sum to 1, and an output that is not rounded
        assert (step.vhat[index] / vhat - 1).abs().max() < 2 * BF16  # as in the next test
        for found, expected in ((step.radius, size), (step.range_term, largest)):
            assert (found[index] / expected - 1).abs().max() < 2 * BF16


@pytest.mark.parametrize("form", ["audited", "paper"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("dominant", [6.0, 8.0])
def test_a_sampled_row_with_nearly_all_the_weight(dtype, form, dominant) -> None:
    """v is near y and 1 - w is rounded away: what is left is measured in differences, 1 - w is what the others have."""
    layer = make_layer(40, 1, dtype, dominant=dominant)
    step = certify([layer], form=form)
    _, vhat, largest = certify_slowly(layer, form=form)
    assert layer.weights[..., 1].amax() > 0.95
    assert (step.vhat[0] / vhat - 1).abs().max() < 2 * BF16  # rounding may move Vhat by a fiftieth before it is noticed
    assert (step.range_term[0] / largest - 1).abs().max() < 2 * BF16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_sampled_row_with_all_the_weight(dtype) -> None:
    """1 - w is 0 and says nothing of the others; a radius that is no number would be worse than a small one."""
    layer = make_layer(40, 1, dtype, dominant=60.0)
    assert (layer.weights[..., 1] == 1).all()
    step = certify([layer])
    assert bool(torch.isfinite(step.radius).all())
    assert step.vhat.max() < FP32


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_certain_row_with_all_the_weight(dtype) -> None:
    layer = make_layer(40, 1, dtype)
    layer.weights = torch.zeros_like(layer.weights)
    layer.weights[..., 0] = 1.0  # pi is 1
    assert certify([layer]).radius.abs().max() == 0


def test_leaving_one_out_is_the_distance_from_the_mean_of_the_others() -> None:
    layer = make_layer(12, 3)
    pi = torch.nn.functional.pad(layer.known.pi, (0, LATER), value=1.0).double()
    expected = torch.zeros(HEADS, dtype=torch.float64)
    for head in range(HEADS):
        group, row = divmod(head, HEADS // KV_HEADS)
        w, v = layer.weights[group, row].double(), layer.values[group].double()
        for one in range(len(w)):
            others = torch.arange(len(w)) != one
            mean = (w[others, None] * v[others]).sum(0) / w[others].sum()
            expected[head] += (1 - pi[group, one]) * w[one] ** 2 * (v[one] - mean).square().sum()
    assert (certify([layer]).vhat[0, :, 0] - expected).abs().max() < FP32
    slow = leave_one_out_variance(layer.weights, pi[:, None], layer.values[:, None], layer.out)
    assert (slow.flatten() - expected).abs().max() < FP32  # weights and outputs are float32


def test_the_audit_factor_multiplies_the_radius_and_nothing_else() -> None:
    layers = [make_layer(size, seed) for seed, size in enumerate(SIZES)]
    kappa = [1.0 + torch.rand(HEADS, generator=torch.Generator().manual_seed(layer)) for layer in range(3)]
    plain, audited = certify(layers), certify(layers, kappa=kappa)
    assert audited.audited
    assert torch.equal(audited.radius, plain.radius * torch.stack(kappa)[..., None])
    assert torch.equal(audited.vhat, plain.vhat)
    assert torch.equal(audited.range_term, plain.range_term)
    some = certify(layers, kappa=[None, kappa[1], None])
    assert not some.audited
    assert torch.equal(some.radius[0], plain.radius[0])
    assert torch.equal(some.radius[1], audited.radius[1])


@pytest.mark.parametrize("form", ["audited", "paper"])
def test_layers_of_different_widths(form) -> None:
    """Ragged layers are filled up to the longest one; what is behind a layer's own rows is not looked at."""
    layers = [make_layer(size, seed) for seed, size in enumerate([70, 3, 40, 33])]
    compare(layers, certify(layers, form=form), 1, FP32)
    for index, layer in enumerate(layers):
        alone = certify([layer], form=form)
        assert (certify(layers, form=form).radius[index] - alone.radius[0]).abs().max() < FP32


def test_small_weights_do_not_underflow_in_float16() -> None:
    layer = make_layer(3000, 2, torch.float16)
    step = certify([layer])
    assert layer.weights.square().median() == 0
    assert (step.vhat[0] / certify_slowly(layer)[1] - 1).abs().max() < BF16


def test_rows_that_came_later_are_certain() -> None:
    layer = make_layer(40, 3)
    layer.weights = torch.zeros_like(layer.weights)
    layer.weights[..., -LATER:] = 1 / LATER
    assert certify([layer]).radius.abs().max() == 0
    layer.weights[..., 1] = 0.5
    layer.weights /= layer.weights.sum(-1, keepdim=True)
    compare([layer], certify([layer]), 1, FP32)


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


@pytest.mark.parametrize("form", ["audited", "paper"])
@pytest.mark.parametrize("rows", [1, 3])
def test_more_sampled_rows_than_a_block_holds(rows, form) -> None:
    """And as many as fit, none at all, and another number in each head."""
    layers = [make_layer(size, seed, rows=rows) for seed, size in enumerate([700, 40, 391, 260])]
    layers[0].known.pi[0, 100:] = 1.0
    layers[2].known.pi[:] = 1.0
    layers[2].known.pi[1, :BLOCK] = 0.5
    layers[3].known.pi[:] = 1.0
    step = certify(layers, rows, form=form)
    for index, layer in enumerate(layers):
        for found, expected in zip((step.radius, step.vhat), certify_slowly(layer, rows, form), strict=False):
            assert (found[index] - expected).abs().max() < FP32
    assert step.radius[3].abs().max() == 0
    assert step.radius[2, :GROUP].abs().max() == 0
    assert step.radius[2, GROUP:].min() > 0


def test_rounded_values_move_the_variance_by_less_than_their_own_rounding() -> None:
    """In bfloat16, where no row has much weight: distances between rounded points, whose errors average out."""
    layers = [make_layer(2000, seed, torch.bfloat16, common=1.0) for seed in range(4)]
    step = certify(layers, form="paper")
    off = [(step.vhat[index] / certify_slowly(layer, form="paper")[1] - 1).abs() for index, layer in enumerate(layers)]
    assert torch.stack(off).max() < torch.finfo(torch.bfloat16).eps / 2


def test_what_it_holds_is_counted() -> None:
    """A value, its square, 1 - pi and its number for each row that could have left; nothing for the certain ones."""
    layer, larger = make_layer(40, 3), make_layer(40, 3)
    engine = Certifier([layer.known], [layer.stored])
    per_row = DIM * 4 + 4 + 4 + 8
    blocks, centre = KV_HEADS * 8, KV_HEADS * DIM * 4
    before = engine.nbytes
    assert before == KV_HEADS * BLOCK * per_row + blocks + centre
    assert watch(engine, [layer]) is not None
    assert engine.nbytes == before + 2 * KV_HEADS * BLOCK * GROUP * 4
    larger.known.pi[:, 1::3] = 1.0
    assert Certifier([larger.known], [larger.stored]).nbytes == before
    assert Certifier([None], [layer.stored]).nbytes == 0


def test_layers_that_were_not_sampled() -> None:
    layer = make_layer(20, 6)
    engine = Certifier([None, layer.known, None], [layer.stored] * 3)
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


@pytest.mark.parametrize("most", [1, 2000])
def test_large_passes_are_summed_in_parts(monkeypatch, most) -> None:
    layers = [make_layer(size, seed, rows=4) for seed, size in enumerate([*SIZES, 20])]
    whole = certify(layers, 4)
    monkeypatch.setattr(certifier, "_MOST", most)
    parts = certify(layers, 4)
    assert torch.allclose(whole.radius, parts.radius, rtol=0, atol=FP32)
    compare(layers, parts, 4, FP32)


def test_sampled_layers_apart_from_each_other() -> None:
    layers = [make_layer(size, seed) for seed, size in enumerate([*SIZES, 20])]
    known = [None if place % 2 else layer.known for place, layer in enumerate(layers)]
    step = watch(Certifier(known, [layer.stored for layer in layers]), layers)
    for place, layer in enumerate(layers):
        expected = torch.zeros(HEADS, 1) if place % 2 else certify([layer]).radius[0]
        assert torch.allclose(step.radius[place], expected, rtol=0, atol=FP32)


def test_bad_input() -> None:
    layer = make_layer(20, 7)
    with pytest.raises(BadInput, match=r"known is 1; it must be one for each of 2 layers"):
        Certifier([layer.known], [layer.stored] * 2)
    with pytest.raises(BadInput, match=r"values is \[2, 24, 8\]; it must be \[2, 20\] rows"):
        Certifier([layer.known], [layer.values])
    with pytest.raises(BadInput, match="delta is 2"):
        Certifier([layer.known], [layer.stored], 2)
    with pytest.raises(BadInput, match="form is 'bernstein'; it must be 'audited' or 'paper'"):
        Certifier([layer.known], [layer.stored], form="bernstein")
    for kappa, words in (([], "one for each of 1 layers"), ([torch.tensor([0.5, 1.0])], "at least 1 per head")):
        with pytest.raises(BadInput, match=words):
            Certifier([layer.known], [layer.stored], kappa=kappa)
    with pytest.raises(BadInput, match="kappa is 1; it must be None in the form 'paper'"):
        Certifier([layer.known], [layer.stored], form="paper", kappa=[None])
    engine = Certifier([layer.known], [layer.stored])
    layer.values = layer.values[:, :10]
    layer.weights = layer.weights[..., :10]
    with pytest.raises(BadInput, match=r"values is 10; it must be at least the 20 rows.*Make a new certifier"):
        watch(engine, [layer])
