"""What handing a prompt's cache to another worker costs: section 8.2 of the paper.

The payload of a dense cache without replication or scales is 2 e L G d T' bytes, and bandwidth bounds its time from
below. Not covered: queueing, layout conversion, setup, pages; other figures of speed than this one.
"""

from __future__ import annotations

from dataclasses import dataclass

from fewer.types.number import check_number

__all__ = ["Transfer", "transfer_bytes"]


def transfer_bytes(element_bytes: int, num_layers: int, num_groups: int, head_dim: int, num_tokens: int) -> int:
    """2 e L G d T': keys and values of T' tokens in each of L layers, of G key-value heads of d elements."""
    return 2 * element_bytes * num_layers * num_groups * head_dim * num_tokens


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes of the prompt's cache as it would be left, and in full. Raises BadInput for a bandwidth of 0 or less."""

    retained_bytes: int
    full_bytes: int
    bandwidth: float  # Gbit/s, achieved; 10^9 bits

    def __post_init__(self) -> None:
        check_number("bandwidth", self.bandwidth, float, 0.0, None, "It is in Gbit/s.", open_low=True)

    @property
    def retained_seconds(self) -> float:
        """The least that sending the retained cache takes."""
        return self._seconds(self.retained_bytes)

    @property
    def full_seconds(self) -> float:
        """The same for the whole prompt's."""
        return self._seconds(self.full_bytes)

    def _seconds(self, num_bytes: int) -> float:
        return 8 * num_bytes / (self.bandwidth * 1e9)
