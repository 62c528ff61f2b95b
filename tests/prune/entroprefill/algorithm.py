"""Algorithm 1 on one layer, from the paper, over plain Python numbers and with every subset tried for the optimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, log, sqrt

from slow import Spans, slow_masses, slow_optimum, slow_pool, slow_priorities, slow_scan, slow_streak

from fewer.prune.entroprefill.settings import Settings

Rows = Mapping[tuple[int, int], list[float]]  # (head, position) to a row over the prompt


@dataclass(frozen=True)
class PlainPrompt:
    """What the algorithm knows of a prompt."""

    protected: list[bool]
    chunks: Spans
    query: tuple[int, int]

    @property
    def candidates(self) -> list[int]:
        """Chunks without a protected token that end before the query."""
        return [
            number
            for number, (start, stop) in enumerate(self.chunks)
            if not any(self.protected[start:stop]) and stop <= self.query[0]
        ]


@dataclass(frozen=True)
class Slow:
    """outcomes: what may be said; a target that no subset meets may be proven infeasible or just not met."""

    outcomes: set[str]
    removed: list[int] | None = None  # numbers of the prompt's chunks; None where there is no candidate set
    document_mass: float | None = None
    saving: int | None = None
    optimum: int | None = None  # the most tokens that any subset saves
    lost: list[float] | None = None  # of each monitored head, what the audited rows lose on average
    width: float | None = None


def slow_decide(
    prompt: PlainPrompt,
    rows: Rows,
    num_heads: int,
    num_groups: int,
    heads: Sequence[int],
    observers: Sequence[int],
    audit: Sequence[int] | None,
    num_pairs: int,
    settings: Settings,
    history: Sequence[frozenset[int] | None] = (),
) -> Slow:
    """audit: positions, with repeats as drawn; None where there is no audit. num_pairs: J H_Q of (17)."""
    size, count = len(prompt.protected), len(prompt.candidates)
    spans = [prompt.chunks[number] for number in prompt.candidates]
    sizes = [stop - start for start, stop in spans]
    target = min(sum(sizes), size - settings.keep.count(size))
    least = max(1, size - settings.keep_at_most.count(size))
    sinks = [position < settings.sinks and prompt.protected[position] for position in range(size)]
    observed = [[rows[head, position] for position in observers] for head in range(num_heads)]
    residuals, _, _, mu = slow_pool(observed, sinks, num_groups, settings.tau, settings.zeta, settings.residual_min)
    if not any(residual >= settings.residual_min for residual in residuals):
        return Slow({"no residual mass"})
    total = fsum(slow_masses(mu, spans))
    if total < settings.document_min:
        return Slow({"no document mass"}, document_mass=total)
    _, _, lifts, _, scores = slow_priorities(mu, spans, settings.smoothing, settings.concentration)

    def masses(head: int, position: int) -> list[float]:
        found = slow_masses(rows[head, position], spans)
        if settings.mass == "absolute":
            return found
        return [mass / fsum(found) for mass in found] if fsum(found) else [1.0] * count

    table = [masses(head, position) for head in heads for position in observers]
    keys = {
        "entropy": scores,
        "mass": [log(lift) for lift in lifts],
        "row": [max(row[i] for row in table) for i in range(count)],
    }[settings.order]
    order = sorted(range(count), key=lambda i: (round(keys[i], 12), -sizes[i], i))
    limits, kept = [settings.tolerance] * len(table), min(settings.min_chunks, count)
    row_lifts = []
    for head in heads:
        for position in observers:
            each = slow_masses(rows[head, position], spans)
            shares = [mass / fsum(each) for mass in each] if fsum(each) else [1.0] * count
            row_lifts.append([share * sum(sizes) / size for share, size in zip(shares, sizes, strict=True)])
    free = [i for i in range(count) if max(row[i] for row in row_lifts) <= settings.lift_at_most]
    order = [i for i in order if i in free]
    gone = slow_scan(table, limits, sizes, kept, target, order)
    saving, optimum = (
        sum(sizes[i] for i in gone),
        slow_optimum(
            [[row[i] for i in free] for row in table],
            limits,
            [sizes[i] for i in free],
            max(0, kept - count + len(free)),
        ),
    )
    removed = sorted(prompt.candidates[i] for i in gone)
    if saving < least <= sum(sizes) and sum(sizes[i] for i in free) < least:
        return Slow({"not decisive"}, removed, total, saving, optimum)
    if saving < least:
        outcomes = {"target not met"} | ({"target infeasible"} if optimum < least else set())
        return Slow(outcomes, removed, total, saving, optimum)
    now = frozenset(range(count)) - frozenset(gone)
    if settings.streak and slow_streak([*history, now], settings.streak_change) < settings.streak:
        return Slow({"streak"}, removed, total, saving, optimum)
    if audit is None:
        return Slow({"accepted"}, removed, total, saving, optimum)
    lost = []
    for head in heads:
        each = [fsum(masses(head, position)[i] for i in gone) for position in audit]
        lost.append(fsum(min(1.0, share) for share in each) / len(each))
    exact = sorted(audit) == list(range(*prompt.query)) and settings.audit != "hoeffding"
    width = 0.0 if exact else sqrt(log(num_pairs / settings.delta) / (2 * settings.audit_draws))
    passed = all(share + width <= settings.audit_tolerance for share in lost)
    return Slow({"accepted" if passed else "audit"}, removed, total, saving, optimum, lost, width)
