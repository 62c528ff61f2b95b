"""What an answer left behind for attribution, from its receipt or its evidence, and what is missing and how to get it.

A receipt has no heads, and of the signals only those of the certificate; evidence does not know under which setting
the answer was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from statistics import fmean

from torch import Tensor

from fewer.decide.evidence import Evidence
from fewer.decide.odds import Setting
from fewer.decide.signals import SIGNALS
from fewer.receipt import Receipt
from fewer.types import FIRST_STEPS, LARGEST_RADIUS

__all__ = ["ON_RECEIPTS", "Radii", "Reading", "read_evidence", "read_receipt"]

ON_RECEIPTS = ("certificate_clipped", "certificate", "certificate_mean", "certificate_largest")
"""Signals of the channel cache that a receipt has, the one that it shows first in front."""

_ASK = "fewer ask with --evict, or ask with logprobs=0 in Python"


@dataclass(frozen=True, slots=True)
class Radii:
    """Relative errors without a unit; all empty where there is no certificate."""

    per_layer: tuple[float, ...] = ()  # mean over heads, each layer at its largest of the first six steps
    heads: tuple[tuple[float, ...], ...] = ()  # by layer, each head at its largest of the first six steps
    steps: tuple[float, ...] = ()  # mean over layers and heads


@dataclass(frozen=True, slots=True)
class Reading:
    """Numbers of one answer.

    values: signals of the channel cache by name, larger = more doubt. clipped: the radii with what is above 1 counted
    as 1, before the averages. whole: whether it is known that nothing had left the cache. again: why the answer was
    computed again, where a gate had it so; the numbers are those of the second run. missing: of "certificate" and
    "logprob" those that are not there, with the reason and the way out.
    """

    values: Mapping[str, float]
    logprob: float | None  # mean over the answer's tokens, nats
    radii: Radii = Radii()
    clipped: Radii = Radii()
    setting: Setting | None = None
    whole: bool = False
    again: str | None = None
    missing: Mapping[str, str] = field(default_factory=dict)


def read_receipt(receipt: Receipt) -> Reading:
    """Everything that the receipt says about it."""
    claim, logprob, missing = receipt.certificate, receipt.output.mean_logprob, {}
    values: dict[str, float | None] = {}
    if claim.kind == "estimate":
        values = dict(zip(ON_RECEIPTS, (claim.clipped, claim.radius, claim.mean, claim.largest), strict=True))
    else:
        missing["certificate"] = _why_no_certificate(receipt)
    if logprob is None:
        missing["logprob"] = f"log-probabilities were not asked for: run {_ASK}"
    whole = receipt.eviction is None or not receipt.eviction.compressions
    return Reading(
        values={name: value for name, value in values.items() if value is not None},
        logprob=logprob,
        radii=Radii(claim.per_layer or (), (), claim.steps),
        clipped=Radii(claim.clipped_per_layer or (), (), claim.clipped_steps),
        setting=_find_setting(receipt),
        whole=whole and receipt.settings.prune is None,
        again=receipt.gate.reason if receipt.gate is not None and receipt.gate.fired else None,
        missing=missing,
    )


def read_evidence(evidence: Evidence, setting: Setting | None = None) -> Reading:
    """The same from what was collected while the answer was written; setting: under which it was given."""
    values = {
        name: value
        for name, signal in SIGNALS.items()
        if signal.channel == "cache" and (value := signal(evidence)) is not None and isfinite(value)
    }
    missing, radii = {}, None
    if evidence.answer is None or not evidence.answer.shape[2]:
        missing["certificate"] = (
            "no radii were collected: they exist for designs with known probabilities (such as systematic:snapkv), "
            "from the first decode step after a compression on"
        )
    elif not bool(evidence.answer.isfinite().all()):
        missing["certificate"] = "some radii are no finite numbers"
    else:
        radii = evidence.answer.double()
    logprob = fmean(evidence.logprobs) if evidence.logprobs else None
    if logprob is None:
        missing["logprob"] = "the answer's log-probabilities were not collected: ask with logprobs=0"
    elif not isfinite(logprob):
        missing["logprob"], logprob = "some of the answer's are no finite numbers", None
    return Reading(
        values=values,
        logprob=logprob,
        radii=Radii() if radii is None else _summarise(radii),
        clipped=Radii() if radii is None else _summarise(radii.clamp(max=LARGEST_RADIUS)),
        setting=setting,
        missing=missing,
    )


def _summarise(radii: Tensor) -> Radii:
    """Of [L, H, steps], H being query heads."""
    first = radii[:, :, :FIRST_STEPS]
    return Radii(
        per_layer=tuple(radii.mean(1)[:, :FIRST_STEPS].amax(1).tolist()),
        heads=tuple(map(tuple, first.amax(2).tolist())),
        steps=tuple(radii.mean((0, 1)).tolist()),
    )


def _find_setting(receipt: Receipt) -> Setting | None:
    """Under which the answer was given; None where nothing left the cache.

    The question had been read where the last compression before the answer came when the whole prompt had been seen.
    """
    if receipt.eviction is None or receipt.settings.evict is None or not receipt.eviction.compressions:
        return None
    size = receipt.prompt.num_tokens
    before = [each.num_seen for each in receipt.eviction.compressions if each.num_seen <= size]
    policy = {name: value for name, value in receipt.settings.evict.items() if not isinstance(value, dict | list)}
    return Setting(receipt.model.fingerprint, policy, "stream" if before and before[-1] < size else "aware")


def _why_no_certificate(receipt: Receipt) -> str:
    """Why there is none to compare, and what to run."""
    evict, eviction = receipt.settings.evict, receipt.eviction
    if evict is None or eviction is None:
        return "nothing was to be evicted, so there is no cache error to estimate"
    if not eviction.compressions:
        return "nothing left the cache, so there is no cache error to estimate"
    if receipt.certificate.kind != "none":
        return f"the certificate is of the kind {receipt.certificate.kind}, and odds are measured over estimates"
    why = receipt.certificate.says.partition(": ")[2] or "this answer has none"
    if "delta" in evict:
        return f"{why}: ask for a longer answer"
    if "certify" in evict:  # the design draws, and something was set to another value
        name = "certify=false" if evict.get("estimator") == "hajek" else "estimator=plug-in"
        return f"{why}: run it without --set {name}"
    return f"{why}: run fewer ask with --evict systematic:{evict.get('score', 'snapkv')} and the same --budget"
