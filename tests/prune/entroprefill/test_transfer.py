"""Section 8.2: bytes and the least seconds of handing a cache on. A real cache's bytes are in tests/model."""

from __future__ import annotations

import math

import pytest

from fewer import BadInput
from fewer.prune.entroprefill.transfer import Transfer, transfer_bytes


def test_the_payload_is_the_papers() -> None:
    """30 layers of 3 groups of 64 numbers in bfloat16: 23,040 bytes a token."""
    assert transfer_bytes(2, 30, 3, 64, 1) == 2 * 2 * 30 * 3 * 64 == 23_040
    assert transfer_bytes(2, 30, 3, 64, 4096) == 4096 * 23_040
    assert transfer_bytes(4, 1, 1, 1, 0) == 0


def test_bandwidth_bounds_the_time_from_below() -> None:
    found = Transfer(5 * 10**9, 10**10, 10.0)
    assert (found.retained_seconds, found.full_seconds) == (4.0, 8.0)
    assert Transfer(5 * 10**9, 10**10, 40).full_seconds == 2.0


@pytest.mark.parametrize("bandwidth", [0, 0.0, -1.0, math.nan, math.inf, "10", None, True])
def test_a_bandwidth_that_is_none_is_refused(bandwidth: object) -> None:
    with pytest.raises(BadInput, match=r"^bandwidth is .*; it must be a number above 0"):
        Transfer(1, 1, bandwidth)  # type: ignore[arg-type]
