"""What a run over a compressed cache leaves behind, for signals to read: all of it was there while it ran.

L layers, H query heads, G key-value heads; rows are query rows in the order in which they passed. A part that was not
collected is None, and a signal that needs it has no value then, which is not the value 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

__all__ = ["Evidence"]


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Of one answer. Radii are those of the certificate, relative to the output's norm; all tensors are float32.

    question: of the rows that were read after the context was compressed and before the answer; None where the whole
    prompt was there when the cache was compressed. answer: of its decode steps, one fewer than its tokens, since the
    first comes from the prompt. Radii are None where the policy has no certificate or nothing was evicted, entropies
    where nothing was compressed, mass and margin where nothing was evicted.
    """

    question: Tensor | None = None  # [L, H, rows], radii
    answer: Tensor | None = None  # [L, H, steps], radii
    question_entropy: Tensor | None = None  # [L, H, rows], attention over retained rows: entropy / log(rows), 0 to 1
    answer_entropy: Tensor | None = None  # [L, H, steps]
    evicted_mass: Tensor | None = None  # [L, G], share of the score that the last compression evicted, 0 to 1
    boundary_margin: Tensor | None = None  # [L, G], (least kept - largest evicted score) / SD; NaN where undefined
    logprobs: tuple[float, ...] = ()  # nats, of the answer's tokens
    ids: tuple[int, ...] = ()  # the answer's tokens
    second_ids: tuple[int, ...] | None = None  # those of a second answer, over another draw of the same policy
