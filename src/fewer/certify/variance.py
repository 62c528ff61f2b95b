"""The variance of one attention output under its sampling design, estimated from the retained rows; and the radius.

Slow and clear, in float64, for any number of leading axes; `fewer.certify.Certifier` is the fast one. Shapes: `weights`
[..., n], the softmax over the retained rows after -log(pi) was added to the logits, so that it sums to 1; `pi` [..., n]
in (0, 1]; `values` [..., n, d]; `out` [..., d] = weights @ values, the Hájek estimate of the full cache's output.

Two forms. "paper" is equation (4) as published. "audited" holds each row against the mean of the *others*: a sampled
row with much weight pulls `out` to itself, so that ||v - out|| no longer shows how unlike the others it is, and
||v - out||/(1 - w) does (leave-one-out, as in the jackknife; it is the exact distance from the others' weighted mean).
On real heads the published Vhat came to .33 to .52 of the squared error on average, this one to .78 to .88.

All of it speaks of the *linearised* error of one output of one attention head, for a query that was fixed before the
draw: `sum over rows of (I/pi - 1) x`, x_i = a_i (v_i - y) / N over all rows, evicted ones included. Not covered: the
remainder of the linearisation, other layers, the answer.
"""

from __future__ import annotations

from math import log
from typing import Literal

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.types.number import check_number

__all__ = [
    "Form",
    "check_delta",
    "check_form",
    "fixed_size_variance",
    "leave_one_out_range",
    "leave_one_out_variance",
    "poisson_variance",
    "radius",
    "range_term",
]

Form = Literal["audited", "paper"]

TINY_NORM = 1e-9  # added to the output's norm, as in (4)
LEAST_REST = 1e-3  # what 1 - w is taken to be where it is smaller: a row that leaves nothing to hold it against
_SCALES: dict[Form, tuple[float, float]] = {"audited": (1.5, 0.5), "paper": (1.0, 1.0)}


def poisson_variance(weights: Tensor, pi: Tensor, values: Tensor, out: Tensor) -> Tensor:
    """Vhat = sum of (1 - pi) w^2 ||v - out||^2: [...], squared units of the output.

    "Error Certificates for KV-Cache Eviction via Randomized Design", Theorem 2, with w = a / (pi Nhat). With the full
    cache's y and N in place of `out` and Nhat its expectation is the variance exactly: a row adds
    (1 - pi)/pi^2 ||x||^2 when it stays, so (1 - pi)/pi ||x||^2 on average, and independent rows' variances add up.

    Drawn twice, with pi = pi1 pi2: the same formula accounts for both draws, also where pi2 depends on what the first
    draw S1 kept. The variance is that of the first draw plus the average of the second's given the first,
    sum (1 - pi1)/pi1 ||x||^2 + E[sum over S1 of (1 - pi2)/(pi1^2 pi2) ||x||^2]. Given S1, the average of
    (1 - pi1 pi2)/(pi1 pi2)^2 ||x||^2 over the second draw is (1/pi2 - pi1)/pi1^2 ||x||^2
    = (1 - pi2)/(pi1^2 pi2) ||x||^2 + (1 - pi1)/pi1^2 ||x||^2, whose averages over S1 are these two terms.

    Assumes independent draws. For designs of fixed size it is not unbiased; where the joint inclusion probabilities are
    below the products it is too large on average for sums of terms of one sign.
    """
    return _squares(weights, pi, values, out).sum(-1)


def fixed_size_variance(weights: Tensor, pi: Tensor, values: Tensor, out: Tensor) -> Tensor:
    """The Hájek-Deville estimator for designs that keep a fixed number of rows: [...], squared units of the output.

    sum of c ||z - A||^2 with z = w (v - out), c = (1 - pi) m/(m - 1), A = sum c z / sum c, over the m rows with pi < 1.
    Sources: Hájek (1964); Deville (1993), "Estimation de la variance pour les enquêtes en deux phases"; Tillé,
    Sampling Algorithms (2006), section 7.5.

    Assumes a design of high entropy, as conditional Poisson is and pivotal or systematic sampling on a random order
    nearly are; it needs no joint inclusion probabilities. An approximation: on small populations it is a few percent
    off even then, and for systematic sampling in position order nothing is unbiased. With a single row of pi < 1 there
    is nothing to centre, and it is `poisson_variance`.
    """
    weights, pi, values, out = (part.double() for part in (weights, pi, values, out))
    count = (pi < 1).sum(-1, keepdim=True).expand(*weights.shape[:-1], 1)
    c = torch.where(count > 1, (1 - pi) * count / (count - 1).clamp(min=1), 1 - pi)
    z = weights[..., None] * (values - out[..., None, :])
    total = c.sum(-1, keepdim=True)
    centre = (c[..., None] * z).sum(-2) / torch.where(total > 0, total, 1.0)
    centre = torch.where(count > 1, centre, 0.0)
    return (c * (z - centre[..., None, :]).square().sum(-1)).sum(-1)


def range_term(weights: Tensor, pi: Tensor, values: Tensor, out: Tensor) -> Tensor:
    """b = the largest sqrt(1 - pi) w ||v - out|| of the retained rows: [...], units of the output.

    The reading of (4) under which the published figures come out on a real model. The true range is over the evicted
    rows too, and nobody has it: see `fewer.certify.bernstein`.
    """
    return _squares(weights, pi, values, out).amax(-1).sqrt()


def leave_one_out_variance(weights: Tensor, pi: Tensor, values: Tensor, out: Tensor) -> Tensor:
    """Vhat of the audited form, sum of (1 - pi) w^2 ||v - out||^2 / (1 - w)^2: [...], squared units of the output.

    Not unbiased, also not on paper: where no row has much weight it is `poisson_variance`, otherwise above it. Where
    1 - w is below .001 it is taken to be that.
    """
    return _squares(_rescale(weights), pi, values, out).sum(-1)


def leave_one_out_range(weights: Tensor, pi: Tensor, values: Tensor, out: Tensor) -> Tensor:
    """b of the audited form, the largest sqrt(1 - pi) w ||v - out|| / (1 - w): [...], units of the output."""
    return _squares(_rescale(weights), pi, values, out).amax(-1).sqrt()


def radius(vhat: Tensor, range_term: Tensor, out_norm: Tensor, delta: float = 0.1, form: Form = "paper") -> Tensor:
    """(f sqrt(2 Vhat L) + g b L) / (||out|| + 1e-9) with L = ln(1/delta): the error relative to the output's norm.

    form: "paper" is equation (4), f = g = 1. "audited" has f = 1.5, g = .5, which ranks errors better at the same
    coverage; it wants the leave-one-out terms, and an audit factor on top (`fewer.certify.audit`). Either has the shape
    of an empirical-Bernstein bound and is *not* one: a radius at level delta whose coverage is measured. Raises
    BadInput for a delta outside (0, 1) and another form.
    """
    level = -log(check_delta(delta))
    deviation, largest = _SCALES[check_form(form)]
    return (deviation * (2 * vhat * level).sqrt() + largest * level * range_term) / (out_norm + TINY_NORM)


def check_delta(delta: float) -> float:
    """The level, if it is one. Raises BadInput."""
    check_number("delta", delta, float, 0.0, 1.0, "0.1 is the published level.", open_low=True)
    if delta >= 1:
        raise bad("delta", delta, "a number above 0 and below 1", "0.1 is the published level.")
    return delta


def check_form(form: Form) -> Form:
    """The form, if it is one. Raises BadInput."""
    if form not in _SCALES:
        raise bad("form", form, "'audited' or 'paper'", "'paper' is the published equation (4).")
    return form


def _rescale(weights: Tensor) -> Tensor:
    """w / (1 - w): with it ||v - out|| becomes w times the distance from the others' mean."""
    exact = weights.double()
    return exact / (1 - exact).clamp(min=LEAST_REST)


def _squares(weights: Tensor, pi: Tensor, values: Tensor, out: Tensor) -> Tensor:
    """(1 - pi) w^2 ||v - out||^2 of every row: [..., n] float64."""
    distance = (values.double() - out.double()[..., None, :]).square().sum(-1)
    return (1 - pi.double()) * weights.double().square() * distance
