"""What a certificate stands on: probabilities that were known when rows were drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.types import KnownDesign, Sample

__all__ = ["KnownProbabilities", "Variance"]

Variance = Literal["poisson", "fixed_size"]


@dataclass(frozen=True, slots=True, eq=False)
class KnownProbabilities:
    """How likely each row of one layer was to stay, and which variance estimator fits how they were drawn.

    pi: [kv_heads, n] in (0, 1]: 1 for rows that were certain to stay, and for padding. Rows drawn more than once have
    the product of their probabilities. variance: "poisson", or "fixed_size" where every draw was of fixed size.

    Raises BadInput for anything else, in particular for a `Selection`: what a deterministic design keeps says nothing
    about what it evicted.
    """

    pi: Tensor
    variance: Variance

    def __post_init__(self) -> None:
        if not isinstance(self.pi, Tensor):
            raise bad(
                "pi",
                type(self.pi).__name__,
                "a tensor of known inclusion probabilities",
                "What a deterministic design keeps stays the same whatever the evicted values were (Theorem 1), so no "
                "certificate can be computed from it; sample instead, with the design 'poisson' or 'systematic'.",
            )
        if self.pi.dim() != 2 or not self.pi.is_floating_point():
            shown = f"{self.pi.dtype} {list(self.pi.shape)}"
            raise bad("pi", shown, "floating point and of shape [kv_heads, n]", "Pass one number per head and row.")
        if not bool(((self.pi > 0) & (self.pi <= 1)).all()):
            wrong = self.pi[~((self.pi > 0) & (self.pi <= 1))][0].item()
            raise bad("pi", wrong, "above 0 and at most 1", "Padding has 1, and a row with 0 can never have been kept.")
        if self.variance not in ("poisson", "fixed_size"):
            raise bad("variance", self.variance, "'poisson' or 'fixed_size'", "Pass the design's own.")

    @classmethod
    def of(cls, sample: Sample, design: KnownDesign, earlier: KnownProbabilities | None = None) -> KnownProbabilities:
        """From what a design drew. earlier: of the rows it drew from, where these had been drawn before.

        Raises BadInput where `sample` is a plain Selection.
        """
        if not isinstance(sample, Sample):
            return cls(sample, design.variance)  # refused above
        if earlier is None:
            return cls(sample.pi, design.variance)
        pi = torch.where(sample.valid, sample.pi * earlier.pi.gather(1, sample.idx), 1.0)
        both = design.variance == earlier.variance == "fixed_size"
        return cls(pi, "fixed_size" if both else "poisson")
