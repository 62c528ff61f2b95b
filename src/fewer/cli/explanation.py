"""An explanation in the terminal: what was asked, each monitored layer on a line, and one of them in full.

From 60 columns on; a table has few columns, and what is long folds. Numbers that need room are in the JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from fewer.cli.losses import show_diagnosis
from fewer.cli.terms import list_facts, make_table, show_text, with_note, write_number, write_share
from fewer.receipt.units import format_count

if TYPE_CHECKING:
    from fewer.engine import Diagnosis
    from fewer.prune.entroprefill.breakdown import AuditShown, Bounds
    from fewer.prune.entroprefill.explain import Explanation, LayerShown
    from fewer.prune.entroprefill.sensitivity import Sensitivity

__all__ = ["ExplanationTable"]

_MOST_ROWS = 12


@dataclass(frozen=True, slots=True)
class ExplanationTable:
    """A rich renderable of an explanation, and of a diagnosis if there is one."""

    explanation: Explanation
    diagnosis: Diagnosis | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The prompt, the layers, the shown layer, the reference."""
        encoding = options.encoding if options.ascii_only else "utf-8"
        yield list_facts(_describe_prompt(self.explanation), encoding)
        if self.explanation.layers:
            yield Text()
            yield _list_layers(self.explanation)
        if self.explanation.shown is not None:
            yield from _show_layer(self.explanation.shown, encoding, options.max_width)
        if self.diagnosis is not None:
            yield Text()
            yield from show_diagnosis(self.diagnosis, encoding)


def _describe_prompt(found: Explanation) -> list[tuple[str, str]]:
    settings = found.settings
    facts = [("prompt", f"{format_count(found.num_tokens, 'token')}, {format_count(found.num_chunks, 'chunk')}")]
    if found.declined is not None:
        return [*facts, ("not asked", found.declined)]
    begin, end = found.query
    facts += [
        ("may leave", f"{format_count(len(found.candidates), 'chunk')} of {found.candidate_tokens:,} tokens"),
        ("asked", f"{found.least:,} tokens at least; the scan stops at {found.target:,}"),
        ("query", f"positions {begin} to {end - 1}; {len(found.observers)} of them propose"),
        ("settings", f"preset {settings['preset']}, order {settings['order']}, {settings['mass']} mass, tolerance "
         f"{settings['tolerance']}, audit {settings['audit']} at {settings['audit_tolerance']}"),
    ]  # fmt: skip
    if found.acted is None:
        facts.append(("outcome", "nothing leaves; every layer refused, see below"))
    else:
        facts.append(("outcome", f"chunks leave after layer {found.acted}"))
    return facts


def _list_layers(found: Explanation) -> RenderableType:
    table = make_table("layer", "saves", "most", "Z", "audit", texts=("outcome",))
    for each in found.layers:
        numbers = each.numbers
        outcome = each.outcome if each.asked else f"{each.outcome} (not asked any more)"
        table.add_row(
            str(each.layer),
            _tokens(numbers.get("saving")),
            _tokens(numbers.get("dual_bound")),
            write_share(numbers.get("document_mass")),
            write_share(numbers.get("audit_bound")),
            outcome,
        )
    return with_note(
        table,
        "saves: tokens that the scan leaves out; most: no removal saves more; Z: attention to the documents; audit: "
        "the most that a head loses on average over the query",
    )


def _show_layer(shown: LayerShown, encoding: str, width: int) -> Iterator[RenderableType]:
    yield Text()
    yield Text(f"Layer {shown.layer}: {shown.outcome}", style="bold")
    yield Text()
    yield _list_attention(shown, encoding, width)
    if shown.bounds is not None:
        yield Text()
        yield _list_constraints(shown)
        yield Text()
        yield _list_rows(shown, encoding)
    yield Text()
    yield _list_heads(shown)
    yield Text()
    facts = [*_describe_mass(shown)]
    if shown.bounds is not None:
        facts += _describe_bounds(shown.bounds)
    facts += _describe_audit(shown.audit)
    if shown.sensitivity is not None:
        facts += _describe_sensitivity(shown.sensitivity, shown.audit)
    yield list_facts(facts, encoding)


def _list_attention(shown: LayerShown, encoding: str, width: int) -> RenderableType:
    table = make_table("#", "tokens", "S", "lift", "kappa", "mass", texts=("chunk",))
    for each in shown.chunks:
        table.add_row(
            str(each.chunk),
            f"{each.tokens:,}",
            write_number(each.score),
            write_number(each.lift),
            write_number(each.concentration),
            write_share(each.mass),
            show_text(each.title or "(no title)", max(8, min(40, width - 48)), encoding),
        )
    return with_note(
        table, "lift: attention against length; kappa: 1 is all on one token; mass: of the documents' attention"
    )


def _list_constraints(shown: LayerShown) -> RenderableType:
    table = make_table("#", "order", "share", "left over", "at", texts=("outcome",))
    for each in shown.chunks:
        table.add_row(
            str(each.chunk),
            "-" if each.place is None else str(each.place),
            write_number(each.largest_share),
            write_number(each.slack),
            _place(each.blocking_head, each.blocking_position),
            each.fate,
        )
    return with_note(
        table,
        "share: the largest row mass in units of its tolerance; left over: of the tightest row's tolerance, if this "
        "chunk left as well; at: head and position of that row",
    )


def _list_rows(shown: LayerShown, encoding: str) -> RenderableType:
    table = make_table("head", "position", "leaves", "of", "left over", "price", texts=("token",))
    for each in shown.rows[:_MOST_ROWS]:
        table.add_row(
            each.head,
            "-" if each.position is None else str(each.position),
            write_number(each.used),
            write_number(each.tolerance),
            write_number(each.slack),
            write_number(each.price),
            show_text(repr(each.token), 24, encoding),
        )
    rest = sum(each.price > 0 for each in shown.rows[_MOST_ROWS:])
    note = f"of {format_count(shown.num_rows, 'constraint row')} the tightest, and those with a price"
    return with_note(table, note + (f" ({rest} more are in the JSON)" if rest else ""))


def _list_heads(shown: LayerShown) -> RenderableType:
    table = make_table("head", "z", "H2", "weight", "envelope", "audit", "margin")
    for each in shown.heads:
        table.add_row(
            f"{each.head}{'*' if each.monitored else ' '}",
            write_number(each.residual),
            write_number(each.entropy) if each.eligible else "-",
            write_number(each.weight),
            write_number(each.envelope),
            write_number(each.audit_mean),
            write_number(each.audit_margin),
        )
    return with_note(table, "* monitored; z: attention off the sinks; H2: nats; weights of a group's heads sum to 1")


def _describe_mass(shown: LayerShown) -> list[tuple[str, str]]:
    facts = [("Z", f"{write_share(shown.document_mass)} of the pooled attention is on the documents")]
    if shown.removed_mass is not None:
        says = f"{write_share(shown.removed_mass)} of it is on what leaves; that allows any row a loss of up to "
        says += write_share(shown.envelope) + (", which says nothing" if shown.envelope == 1.0 else "")
        facts.append(("envelope", says))
    return facts


def _describe_bounds(found: Bounds) -> list[tuple[str, str]]:
    saved = f"D = {found.saving:,} tokens"
    saved += (
        f"; without the target the scan would save {found.unstopped:,}"
        if found.reached
        else "; the scan ran to its end before the target"
    )
    best = "not looked for, or not proven in time" if found.exact is None else f"{found.exact:,} tokens, proven"
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
    floor, needed = (_tokens(count) for count in (found.draws_floor, found.draws_needed))
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
    if audit is not None:
        facts.append(("", f"the audit passes from a tolerance of {write_number(audit.bound)} on"))
    return facts


def _place(head: str | None, position: int | None) -> str:
    if head is None:
        return "-"
    return head if position is None else f"{head}@{position}"


def _tokens(count: float | None) -> str:
    return "-" if count is None else f"{count:,.0f}"


def _chunks(numbers: tuple[int, ...]) -> str:
    return f"chunk{'s' * (len(numbers) > 1)} " + ", ".join(map(str, numbers))
