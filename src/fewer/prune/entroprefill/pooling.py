"""From a layer's attention rows to one measure over the prompt: sinks set aside, sharp heads weighted up.

Equations (2) to (5) of the paper; collision sums are order-2 Rényi entropies. `H` query heads in `G` groups of `r`, `W`
observers, `n` prompt tokens. Not covered: whether the heads weighted up are those that find the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.types.number import check_number

__all__ = ["Pooled", "omega", "pool"]


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """A layer's pooled measure and where it comes from. Tensors are float64 on the device of the rows.

    finite: no number of the rows was NaN or infinite. Where it is False, `mu` is not a measure, heads with such numbers
    count as not eligible, and the caller has to bypass: nothing is raised, since the model, not the settings, failed.
    """

    residual: Tensor  # [H] z_h, the attention off the sinks
    entropy: Tensor  # [H] in nats, at least 0; NaN for a head that puts nothing off the sinks
    eligible: Tensor  # [H] bool: the residual is large enough for its entropy to count
    weights: Tensor  # [H] w_h: each group's sum to one, none is below zeta/r
    mu: Tensor  # [n] the pooled measure; as close to summing to one as the rows are
    num_fallback_groups: int  # groups with no eligible head; their heads weigh the same
    finite: bool

    @property
    def all_fell_back(self) -> bool:
        """No head of any group is eligible: the paper bypasses pruning here."""
        return not bool(self.eligible.any())


def pool(rows: Tensor, sinks: Tensor, num_groups: int, tau: float, zeta: float, z_min: float) -> Pooled:
    """Pool attention rows, [H, W, n] float32 or float64, over observers first and then heads.

    sinks: [n] bool, left out of entropies but not of `mu`. Heads are ordered by group, r = H/num_groups in each. tau:
    nats that make a weight e times smaller. zeta in (0, 1]: the part shared out evenly; 1 is the plain mean. z_min in
    (0, 1]: the least residual of an eligible head. Sums are in float64; C^(1/tau) never underflows to a zero sum, since
    entropies are compared before they are exponentiated. That each row sums to one is not checked. Raises BadInput.
    """
    if rows.dim() != 3 or rows.dtype not in (torch.float32, torch.float64) or not rows.numel():
        raise bad(
            "rows", (tuple(rows.shape), rows.dtype), "[heads, rows, n] in float32 or float64", "Widen them first."
        )
    heads, observers, size = rows.shape
    if sinks.dtype != torch.bool or sinks.shape != (size,):
        raise bad("sinks", (tuple(sinks.shape), sinks.dtype), f"{size} booleans", "Pass one for each token.")
    check_number("num_groups", num_groups, int, 1, heads, "Use the model's number of key-value heads.")
    if heads % num_groups:
        raise bad("num_groups", num_groups, f"a divisor of the {heads} heads", "Pass all heads of every group.")
    check_number("tau", tau, float, 0.0, None, "Larger is more even.", open_low=True)
    check_number("zeta", zeta, float, 0.0, 1.0, "Use 1 for the plain mean.", open_low=True)
    check_number("z_min", z_min, float, 0.0, 1.0, "Use a small one, such as 0.01.", open_low=True)

    means = rows[:, 0].to(torch.float64, copy=True)
    for observer in range(1, observers):  # one at a time: a float64 copy of all rows would be the largest thing here
        means += rows[:, observer]
    means /= observers
    outside = means * ~sinks
    residual = outside.sum(dim=1)
    collision = (outside / residual[:, None]).square().sum(dim=1)
    entropy = -collision.log().clamp(max=0.0) + 0.0  # the sum turns -0.0 into 0.0
    eligible = (residual >= z_min) & entropy.isfinite()
    weights, num_fallback = _weigh(entropy, eligible, num_groups, tau, zeta)
    mu = (weights / num_groups) @ means
    return Pooled(residual, entropy, eligible, weights, mu, num_fallback, bool(mu.isfinite().all()))


def omega(pooled: Pooled, num_groups: int, num_observers: int) -> Tensor:
    """[H]: the coefficient in `mu` of each of a head's observer rows, w_h/(G W); at least zeta/(H W) (5)."""
    return pooled.weights / (num_groups * num_observers)


def _weigh(entropy: Tensor, eligible: Tensor, num_groups: int, tau: float, zeta: float) -> tuple[Tensor, int]:
    """w_h of (4), and the number of groups with no eligible head."""
    allowed = eligible.view(num_groups, -1)
    fallback = ~allowed.any(dim=1, keepdim=True)
    nats = entropy.view(num_groups, -1).masked_fill(~allowed, torch.inf)
    nats = nats.masked_fill(fallback, 0.0)
    sharpest = nats.amin(dim=1, keepdim=True)
    share = ((sharpest - nats) / tau).softmax(dim=1)
    weights = (1.0 - zeta) * share + zeta / allowed.shape[1]
    return weights.flatten(), int(fallback.sum())
