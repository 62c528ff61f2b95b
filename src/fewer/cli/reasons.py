"""What decided at one layer, in sentences for the terminal: masses, bounds, audit, other tolerances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fewer.cli.terms import write_number, write_share
from fewer.receipt.units import format_count

if TYPE_CHECKING:
    from fewer.prune.entroprefill.breakdown import AuditShown, Bounds
    from fewer.prune.entroprefill.explain import Explanation, LayerShown
    from fewer.prune.entroprefill.sensitivity import Sensitivity

__all__ = ["describe_layer", "excludes_least"]


def describe_layer(found: Explanation, shown: LayerShown) -> list[tuple[str, str]]:
    """A label and a sentence each."""
    facts = _describe_mass(shown, str(found.settings["rows"]))
    if shown.bounds is not None:
        facts += _describe_bounds(shown.bounds, found.least if excludes_least(found, shown) else None)
    facts += _describe_audit(shown.audit)
    if shown.sensitivity is not None:
        facts += _describe_sensitivity(shown.sensitivity, shown.audit)
    return facts


def excludes_least(found: Explanation, shown: LayerShown) -> bool:
    """Whether the exact optimum proves that too little can leave, where the dual bound does not."""
    bounds, least = shown.bounds, found.least
    if bounds is None or bounds.exact is None or least is None:
        return False
    return bounds.exact < least <= bounds.dual


def _describe_mass(shown: LayerShown, rows: str) -> list[tuple[str, str]]:
    facts = [("Z", f"{write_share(shown.document_mass)} of the pooled attention is on the documents")]
    if shown.removed_mass is not None:
        what = "any observer's row of a head" if rows == "each" else "any head's mean over the observers"
        says = f"{write_share(shown.removed_mass)} of it is on what leaves; so {what} of this layer has at most "
        says += write_share(shown.envelope) + " there" + (", which says nothing" if shown.envelope == 1.0 else "")
        says += "; heads of earlier layers are not bounded" if any("." in each.head for each in shown.heads) else ""
        facts.append(("envelope", says))
    return facts


def _describe_bounds(found: Bounds, excluded: int | None) -> list[tuple[str, str]]:
    saved = f"D = {found.saving:,} tokens"
    saved += (
        f"; without the target the scan would save {found.unstopped:,}"
        if found.reached
        else "; the scan ran to its end before the target"
    )
    best = "not looked for, or not proven in time" if found.exact is None else f"{found.exact:,} tokens, proven"
    if excluded is not None:
        best += f"; the {excluded:,} that have to leave are proven impossible by the exact optimum, not by the bound"
    dual = f"U = {found.dual:,.1f} tokens, gap U - D = {found.gap:,.1f} (D stops at the target, U does not)"
    prices = f"{found.source}: {format_count(found.num_priced_rows, 'row')} with a price, "
    prices += f"{write_number(found.count_price)} tokens a chunk"
    return [("saved", saved), ("best", best), ("bound", dual), ("prices", prices)]


def _describe_audit(found: AuditShown | None) -> list[tuple[str, str]]:
    if found is None:
        return [("audit", "not opened: there was nothing to audit, or it is off")]
    says = f"{'passed' if found.passed else 'failed'}, {found.mode} over {format_count(found.positions, 'position')}: "
    says += f"{write_number(found.bound)} at head {found.worst_head} against {write_number(found.tolerance)}"
    if found.mode == "hoeffding":
        says += f", b = {write_number(found.half_width)} among it, delta {found.delta:g}"
    verb = "alone is over" if found.hoeffding_room < 0 else "would leave room under"
    drawing = f"{format_count(found.draws, 'draw')} over {found.num_pairs} heads have b = "
    drawing += f"{write_number(found.hoeffding_b)}, which {verb} the tolerance; "
    floor, needed = ("-" if count is None else f"{count:,}" for count in (found.draws_floor, found.draws_needed))
    drawing += f"b fits from {floor} draws on, these means from {needed}"
    return [("audit", says), ("drawing", drawing)]


def _describe_sensitivity(found: Sensitivity, audit: AuditShown | None) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = []
    for each in found.variants:
        says = f"at tolerance {write_number(each.tolerance)} (x {each.factor:g}) {each.saving:,} tokens would leave"
        says += "" if each.reaches_least else ", too few"
        says += f"; also {_chunks(each.leaves_too)}" if each.leaves_too else ""
        says += f"; not {_chunks(each.stays_then)}" if each.stays_then else ""
        facts.append(("if" if not facts else "", f"{says}; no removal saves more than {each.dual_bound:,.1f}"))
    if found.one_more is not None:
        more = f"one more chunk ({found.one_more.chunk}) fits beside from {write_number(found.one_more.tolerance)} on"
        facts.append(("", more))
    for name, value in (("least", found.least_tolerance), ("target", found.target_tolerance)):
        says = "none below 1 that was tried" if value is None else write_number(value)
        facts.append(("", f"the smallest tolerance at which the scan meets the {name}: {says}"))
    slope = f".01 more tolerance raises the bound by at most {write_number(found.tokens_per_tolerance / 100)} tokens"
    facts.append(("", slope))
    if audit is not None and audit.mode == "exact":
        facts.append(("", f"this removal's audit passes from an audit_tolerance of {write_number(audit.bound)} on"))
    elif audit is not None:
        facts.append(("", "another tolerance is another protocol and a fresh draw, which this one does not foretell"))
    return facts


def _chunks(numbers: tuple[int, ...]) -> str:
    return f"chunk{'s' * (len(numbers) > 1)} " + ", ".join(map(str, numbers))
