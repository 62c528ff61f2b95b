"""Every kernel gives what the general one gives: around the length where they change, with windows, in pieces."""

from __future__ import annotations

import pytest
import torch

from fewer.kv import LayerKV
from fewer.model import attention
from tolerances import BF16, FP32

HEADS, KV_HEADS, DIM = 6, 2, 16
TOLERANCES = {torch.float32: FP32, torch.bfloat16: BF16}


@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
@pytest.mark.parametrize("window", [None, 1, 5, attention._LONG - 1, attention._LONG, attention._LONG + 32])
@pytest.mark.parametrize("rows", [1, 2, 130, 200])
@pytest.mark.parametrize("keys", [attention._LONG - 1, attention._LONG, 900])
def test_all_kernels_agree(keys: int, rows: int, window: int | None, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(keys + rows)
    q = torch.randn(HEADS, rows, DIM, generator=generator).to(dtype)
    kv = torch.randn(2, KV_HEADS, keys, DIM, generator=generator).to(dtype)
    layer = LayerKV()
    layer.append(kv, torch.arange(keys), first=0)
    pos = torch.arange(keys - rows, keys)
    with torch.inference_mode():
        found = attention._attend(q, layer, pos, DIM**-0.5, window)
        wide = LayerKV()
        wide.append(kv.double(), torch.arange(keys), first=0)
        expected = attention._by_position(q.double(), wide, pos, DIM**-0.5, window)
        fused = attention._fused(q, layer.k, layer.v, DIM**-0.5, window)
    for out in (found, fused):
        assert out.shape == (rows, HEADS, DIM)
        assert (out.double() - expected).abs().max() < TOLERANCES[dtype]
