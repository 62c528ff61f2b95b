"""How much a chunk is attended to against its length, and in which order chunks are offered for removal.

Equations (8) and (9) of the paper, and two orderings to hold them against. An ordering proposes; it proves nothing, and
the constraints decide. `k` candidates, `N` tokens in them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewer.errors import bad
from fewer.prune.entroprefill.audit import document_shares
from fewer.prune.entroprefill.chunks import Candidates
from fewer.types.number import check_number

__all__ = ["ORDERINGS", "Priorities", "largest_lifts", "order_chunks", "prioritise"]

ORDERINGS = ("entropy", "mass", "row")

_DECIMALS = 12  # keys that agree so far are equal: the rest is the rounding of float64 sums


@dataclass(frozen=True, slots=True, eq=False)
class Priorities:
    """Of each candidate, float64 [k]. Uniform attention gives lift 1, concentration 0 and score 0 everywhere."""

    document_mass: float  # Z = mu(D); below Z_min the paper bypasses
    mass: NDArray[np.float64]  # M_i: the chunk's part of the document mass
    lift: NDArray[np.float64]  # ell_i: that part against the chunk's part of the tokens, smoothed
    concentration: NDArray[np.float64]  # kappa_i in [0, 1]: 0 is even within the chunk, 1 is all on one token
    score: NDArray[np.float64]  # S_i = ln ell_i + lambda kappa_i; the lowest is offered first


def prioritise(mu: Tensor, candidates: Candidates, eps_s: float, lam: float) -> Priorities:
    """The priorities of the candidates under the pooled measure, [n].

    eps_s above 0 mixes in that much of the null (attention by length), so that lifts stay positive; lam is at least 0:
    a chunk with e^lam times the lift of another outranks it however even it is (Proposition 3.2). Where the document
    mass is zero nothing tells chunks apart, and they get the null's priorities: look at `document_mass` first. Raises
    BadInput.
    """
    check_number("eps_s", eps_s, float, 0.0, None, "Use a small one, such as 0.001.", open_low=True)
    check_number("lam", lam, float, 0.0, None, "Use 0 to order by lift alone.")
    measure = mu.to(torch.float64)
    raw = candidates.mass(measure).cpu().numpy()
    total = float(raw.sum())
    sizes = candidates.sizes.astype(np.float64)
    null = sizes / max(1, candidates.num_tokens)
    if total:
        mass = raw / total
        squares = candidates.mass((measure / total).square()).cpu().numpy()
    else:
        mass, squares = null, null**2 / sizes
    smooth = eps_s * null
    both = mass + smooth
    lift = both / ((1.0 + eps_s) * null)
    even = smooth / both  # the part of phat that the null put there
    moment = squares / both / both + (2.0 * mass / both + even) * even / sizes  # the sum of phat squared
    concentration = np.clip((sizes * moment - 1.0) / np.maximum(1.0, sizes - 1.0), 0.0, 1.0)
    concentration[sizes == 1] = 0.0
    return Priorities(total, mass, lift, concentration, np.log(lift) + lam * concentration)


def largest_lifts(mass: NDArray[np.float64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of each candidate the largest lift in any constraint row, [k]: the chunk's part of the row's mass on all
    candidates against its part of their tokens, unsmoothed. `mass` is [a, k] and `sizes` [k] tokens.

    An even spread is 1 everywhere; of one row, the lifts weighted by tokens average 1. Scaling a row changes nothing. A
    row that looks at no candidate says nothing of any: each of its shares counts as 1, and each lift is N / |C_i|.
    Without rows all are 0. Not in the paper, whose ell_i (9) is of the pooled measure.
    """
    even = sizes / max(1, int(sizes.sum()))
    lifts: NDArray[np.float64] = (document_shares(mass) / even).max(axis=0, initial=0.0)
    return lifts


def order_chunks(
    name: str, priorities: Priorities, row_mass: NDArray[np.float64], sizes: NDArray[np.int64]
) -> NDArray[np.intp]:
    """The candidates in the order they are offered for removal, [k].

    By the lowest key first: "entropy" S_i, the paper's; "mass" ln ell_i, in an order that eps_s does not change; "row"
    the largest number in the chunk's column of `row_mass`, [a, k], which is each row's masses in units of its tolerance
    (`Screen.shares`). Of equal keys, to 12 decimals, the longer chunk comes first, then the earlier. Raises BadInput
    for another name.
    """
    if name == "entropy":
        key = priorities.score
    elif name == "mass":
        key = np.log(priorities.lift)
    elif name == "row":
        key = row_mass.max(axis=0, initial=0.0)
    else:
        raise bad("ordering", name, "one of " + ", ".join(ORDERINGS), "Use entropy for the paper's.")
    return np.lexsort((np.arange(len(sizes)), -sizes, np.round(key, _DECIMALS)))
