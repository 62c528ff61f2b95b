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
from fewer.cli.reasons import describe_layer, excludes_least
from fewer.cli.terms import list_facts, make_table, show_text, with_note, write_number, write_share
from fewer.receipt.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from fewer.engine import Diagnosis
    from fewer.prune.entroprefill.explain import Explanation, LayerShown
    from fewer.prune.entroprefill.heads import HeadLine
    from fewer.prune.entroprefill.transfer import Transfer

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
            yield from _show_layer(self.explanation, self.explanation.shown, encoding, options.max_width)
        if self.diagnosis is not None:
            yield Text()
            yield from show_diagnosis(self.diagnosis, encoding)


def _describe_prompt(found: Explanation) -> list[tuple[str, str]]:
    settings = found.settings
    facts = [("prompt", f"{format_count(found.num_tokens, 'token')}, {format_count(found.num_chunks, 'chunk')}")]
    if found.declined is not None:
        facts += [("not asked", found.declined), ("outcome", "nothing leaves; no layer is asked")]
        return facts + _describe_transfer(found.transfer)
    begin, end = found.query
    facts += [
        ("may leave", f"{format_count(len(found.candidates), 'chunk')} of {found.candidate_tokens:,} tokens"),
        ("asked", f"{found.least:,} tokens at least; the scan stops at {found.target:,}"),
        ("query", f"positions {begin} to {end - 1}; {len(found.observers)} of them propose"),
        ("settings", f"preset {settings['preset']}, order {settings['order']}, {settings['mass']} mass, tolerance "
         f"{settings['tolerance']}, lift_at_most {settings['lift_at_most']}, min_chunks {settings['min_chunks']}, "
         f"audit {settings['audit']} at "
         f"{settings['audit_tolerance']}"),
    ]  # fmt: skip
    if found.acted is None:
        facts.append(("outcome", "nothing leaves; every layer refused, see below"))
    else:
        facts.append(("outcome", f"chunks leave after layer {found.acted}"))
    return facts + _describe_transfer(found.transfer)


def _describe_transfer(found: Transfer | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    says = f"handing the prompt's cache on is {format_bytes(found.retained_bytes)} "
    says += f"(in full {format_bytes(found.full_bytes)}), at {found.bandwidth:g} Gbit/s at least "
    says += f"{format_seconds(found.retained_seconds)} (in full {format_seconds(found.full_seconds)})"
    return [("transfer", says)]


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


def _show_layer(found: Explanation, shown: LayerShown, encoding: str, width: int) -> Iterator[RenderableType]:
    yield Text()
    proven = " (proven impossible by the exact optimum)" if excludes_least(found, shown) else ""
    yield Text(f"Layer {shown.layer}: {shown.outcome}{proven}", style="bold")
    if shown.says:
        yield Text(shown.says)
    yield Text()
    yield _list_attention(shown, encoding, width)
    if shown.bounds is not None:
        yield Text()
        yield _list_constraints(shown)
        yield Text()
        yield _list_rows(shown, encoding)
    yield Text()
    yield _list_weights(shown)
    yield Text()
    yield _list_losses(found, shown)
    yield Text()
    yield list_facts(describe_layer(found, shown), encoding)


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
    table = make_table("#", "order", "lift", "share", "left over", "at", texts=("outcome",))
    for each in shown.chunks:
        table.add_row(
            str(each.chunk),
            "-" if each.place is None else str(each.place),
            write_number(each.row_lift),
            write_number(each.largest_share),
            write_number(each.slack),
            _place(each.blocking_head, each.blocking_position),
            each.fate,
        )
    return with_note(
        table,
        "lift: the most that a constraint row looks at it, 1 is an even share; share: the largest row mass in units of "
        "its tolerance; left over: of the tightest row's tolerance, if this chunk left as well; at: head and position "
        "of that row",
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


def _list_weights(shown: LayerShown) -> RenderableType:
    table = make_table("head", "z", "H2", "H2 of a row", "weight", "chi2")
    for each in shown.heads:
        table.add_row(
            _head(each),
            write_number(each.residual),
            write_number(each.entropy) if each.eligible else "-",
            write_number(each.row_entropy),
            write_number(each.weight),
            write_number(each.chi_square),
        )
    return with_note(
        table,
        "* monitored; z: attention off the sinks; H2: nats, of the observers' mean; H2 of a row: the mean of their "
        "own, well below H2 where they look at different tokens; weights of a group's heads sum to 1; chi2: of the "
        "observers' mean against the pooled measure",
    )


def _list_losses(found: Explanation, shown: LayerShown) -> RenderableType:
    table = make_table("head", "envelope", "of mean", "with chi2", "audit", "margin")
    for each in shown.heads:
        numbers = (each.envelope, each.mean_envelope, each.sharp_envelope, each.audit_mean, each.audit_margin)
        table.add_row(_head(each), *map(write_number, numbers))
    rows = "any observer's row" if found.settings["rows"] == "each" else "its observers' mean"
    return with_note(
        table,
        f"envelope: the most that {rows} has on what leaves, by the head's weight (1 says nothing); of mean: its "
        "observers' mean; with chi2: the same by how far the head is from the pooled measure; audit: its mean loss "
        "over the query",
    )


def _head(line: HeadLine) -> str:
    return f"{line.head}{'*' if line.monitored else ' '}"


def _place(head: str | None, position: int | None) -> str:
    if head is None:
        return "-"
    return head if position is None else f"{head}@{position}"


def _tokens(count: float | None) -> str:
    return "-" if count is None else f"{count:,.0f}"
