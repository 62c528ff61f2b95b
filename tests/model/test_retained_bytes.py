"""2 e L G d T' of a retained cache, against the bytes that a real one holds after pruning."""

from __future__ import annotations

import pytest
import torch
from cases import CASES, NUM_LAYERS
from test_entroprefill import ALL_FULL, make_prompt, planner_of, prefill

from fewer.prune.entroprefill.transfer import transfer_bytes


@pytest.mark.parametrize("name", ALL_FULL)
def test_a_pruned_cache_has_the_bytes_of_the_formula(name: str) -> None:
    case, pruned = CASES[name], 0
    shape = (torch.float64.itemsize, NUM_LAYERS, case.wide.num_kv_heads, case.wide.head_dim)
    for seed in range(3):
        prompt = make_prompt(seed)
        for planner in (planner_of(case), None):
            segment, _ = prefill(case, prompt, planner)
            retained = segment.rows_per_layer[-1]
            assert segment.state.nbytes == transfer_bytes(*shape, retained)
            pruned += retained < len(prompt)
        assert retained == len(prompt)
    assert pruned >= 1
