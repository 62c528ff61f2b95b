"""Products in other forms than a plain matrix, against float64: packed bfloat16, and 8-bit weights."""

from __future__ import annotations

import pytest
import torch

from fewer.model.blocks import Product
from tolerances import BF16

ROWS = (1, 2, 8, 9, 40)  # 8-bit products change their way after 8


def make(out: int, inner: int, bias: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    generator = torch.Generator().manual_seed(out)
    weight = torch.randn(out, inner, generator=generator) / inner**0.5
    return weight.bfloat16(), torch.randn(out, generator=generator).bfloat16() if bias else None


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", ROWS)
def test_a_packed_product(rows: int, bias: bool) -> None:
    weight, offset = make(96, 64, bias)
    x = torch.randn(rows, 64, generator=torch.Generator().manual_seed(rows)).bfloat16()
    expected = x.double() @ weight.double().T + (offset.double() if offset is not None else 0)
    with torch.inference_mode():
        product = Product(weight.clone(), offset)
        assert (product(x).double() - expected).abs().max() < BF16 * expected.abs().max()
        assert product(x[None]).shape == (1, rows, 96)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", ROWS)
def test_an_eight_bit_product(rows: int, bias: bool) -> None:
    weight, offset = make(96, 64, bias)
    x = torch.randn(rows, 64, generator=torch.Generator().manual_seed(rows)).bfloat16()
    with torch.inference_mode():
        product = Product(weight.clone(), offset, int8=True)
        assert product.scale is not None
        assert product.weight.dtype == torch.int8
        stored = product.weight.double() * product.scale.double()[:, None]
        expected = x.double() @ stored.T + (offset.double() if offset is not None else 0)
        assert (product(x).double() - expected).abs().max() < BF16 * expected.abs().max()
    step = product.scale.double()[:, None]
    assert ((stored - weight.double()).abs() <= 0.51 * step).all()  # rounded to the nearest; the scale is bfloat16
    assert product.weight.abs().max() == 127
