"""The receipt in the terminal: one line for each fact, then one for each chunk with a small picture of its layers.

From 60 columns on. Where the terminal has only ASCII, the picture is drawn with ASCII characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from fewer.receipt import summary
from fewer.receipt.compare import Comparison
from fewer.receipt.model import Receipt
from fewer.receipt.units import clip, format_count, format_share

SHADES = "·▁▂▃▄▅▆▇█"
ASCII_SHADES = ".12345678"
MAX_MARKS = {60: 18, 80: 36}  # from this many columns on
MAX_CHUNKS = 12
MAX_PLANS = 4


@dataclass(frozen=True, slots=True)
class ReceiptTable:
    """A rich renderable of one receipt."""

    receipt: Receipt

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The facts, then the chunks."""
        encoding = options.encoding if options.ascii_only else "utf-8"
        yield _list_facts(self.receipt, options.max_width, encoding)
        if self.receipt.prompt.chunks:
            yield Text()
            yield _list_chunks(self.receipt, options.max_width, encoding)


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """A rich renderable of one comparison."""

    comparison: Comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The numbers, then what differs, then what forbids reading them."""
        encoding = options.encoding if options.ascii_only else "utf-8"
        table = Table(box=None, padding=(0, 1), pad_edge=False)
        table.add_column("")
        for heading in ("this", "other", "this/other"):
            table.add_column(heading, justify="right", no_wrap=True)
        for each in self.comparison.quantities:
            ratio = "-" if each.ratio is None else f"{each.ratio:.3f}"
            ratio += "" if each.comparable else " ?"
            show = _write_amount if each.name.endswith(" s") or each.kind == "certificate" else _write_count
            table.add_row(each.name, show(each.this), show(each.other), ratio)
        yield table
        for heading, lines in (
            ("set differently", self.comparison.differences),
            ("read with care (?)", self.comparison.not_comparable),
        ):
            if lines:
                yield Text(heading, style="bold")
                yield from (Text("- ") + _write(line, 400, encoding) for line in lines)


def _write_amount(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:.4g}"


def _write_count(count: float | None) -> str:
    return "-" if count is None else f"{count:,.0f}"


def _list_facts(receipt: Receipt, width: int, encoding: str) -> Table:
    prune, evict = receipt.settings.prune, receipt.settings.evict
    revival = _list_revival(receipt, width, encoding)
    facts = [
        ("model", receipt.model.name),
        ("", summary.describe_model(receipt)),
        ("prompt", summary.describe_prompt(receipt)),
        ("answer", summary.describe_answer(receipt)),
        ("computed", summary.describe_work(receipt)),
        *((("method", summary.describe_pruning(prune)),) if prune else ()),
        *(("pruned" if number == 0 else "", line) for number, line in enumerate(_list_plans(receipt))),
        *(("asked" if number == 0 else "", line) for number, line in enumerate(_list_decisions(receipt))),
        *(("revived" if number == 0 else "", line) for number, line in enumerate(revival)),
        *((("policy", summary.describe_policy(evict)),) if evict else ()),
        *(("evicted" if number == 0 else "", line) for number, line in enumerate(_list_compressions(receipt))),
        *((summary.describe_bypass(receipt), reason) for reason in receipt.bypass),
        *(("gate" if number == 0 else "", line) for number, line in enumerate(_list_gate(receipt))),
        ("time", summary.describe_seconds(receipt)),
        ("KV cache", summary.describe_cache(receipt)),
        ("memory", summary.describe_memory(receipt)),
        ("certificate", summary.describe_claim(receipt)),
        *(("", line) for line in _list_radii(receipt, width, encoding)),
        *((("", words),) if (words := summary.describe_assumptions(receipt.certificate)) else ()),
    ]
    table = Table.grid(padding=(0, 1))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in facts:
        table.add_row(label, _write(value, 400, encoding))
    return table


def _list_plans(receipt: Receipt) -> list[str]:
    return _shorten([summary.describe_plan(plan) for plan in receipt.plans], "more plan")


def _list_revival(receipt: Receipt, width: int, encoding: str) -> list[str]:
    """In words, and where tokens came back a mark for each step or for several."""
    record = receipt.revival
    if record is None:
        return []
    lines, counts = [summary.describe_revival(record)], record.revived_per_step
    if most := max(counts, default=0):
        max_marks = MAX_MARKS[80 if width >= 80 else 60]
        each = format_count(-(-len(counts) // max_marks), "step")
        marks = draw_marks(counts, most, max_marks, encoding != "utf-8")
        lines.append(f"{marks} one mark for {each}; highest: {most:,}")
    return lines


def _list_compressions(receipt: Receipt) -> list[str]:
    compressions = receipt.eviction.compressions if receipt.eviction else ()
    return _shorten([summary.describe_compression(each) for each in compressions], "more compression")


def _list_gate(receipt: Receipt) -> list[str]:
    if receipt.gate is None:
        return []
    labels = ("", "first run: ", "second run: ", "")
    return [label + line for label, line in zip(labels, summary.describe_gate(receipt.gate), strict=False)]


def _list_radii(receipt: Receipt, width: int, encoding: str) -> list[str]:
    """Of an estimate: marks for the steps and for the layers, in words where all are 0."""
    claim, max_marks = receipt.certificate, MAX_MARKS[80 if width >= 80 else 60]
    lines = [words] if (words := summary.describe_radii(claim)) else []
    for name, values in (("step", claim.clipped_steps), ("layer", claim.clipped_per_layer or ())):
        if lines and (most := max(values, default=0.0)):
            each = format_count(-(-len(values) // max_marks), name)
            marks = draw_marks(values, most, max_marks, encoding != "utf-8")
            lines.append(f"{marks} one mark for {each}; highest: {most:.4g} at {name} {values.index(most) + 1}")
    return lines


def _list_decisions(receipt: Receipt) -> list[str]:
    return _shorten([summary.describe_decision(decision) for decision in receipt.decisions], "more decision")


def _shorten(lines: list[str], rest: str) -> list[str]:
    if len(lines) <= MAX_PLANS:
        return lines
    return [*lines[: MAX_PLANS - 1], f"and {format_count(len(lines) - MAX_PLANS + 1, rest)}"]


def _list_chunks(receipt: Receipt, width: int, encoding: str) -> Table:
    size = receipt.model.num_layers
    max_marks = MAX_MARKS[80 if width >= 80 else 60]
    chunks = receipt.prompt.chunks
    revived = any(chunk.num_revived for chunk in chunks)
    evicted = receipt.eviction is not None and bool(receipt.eviction.compressions)
    title_len = max(8, min(40, width - max_marks - 24 - 11 * (revived + evicted)))
    block = -(-size // max_marks)
    each = f"one mark for {format_count(block, 'layer')}"
    table = Table(box=None, padding=(0, 1), pad_edge=False, caption_justify="left")
    table.caption = f"layers 1 to {size} of the prefill, {each}; higher: more of the chunk's tokens computed"
    table.caption += "; rows held: of its keys and values, at the end" if evicted else ""
    table.add_column("chunk", no_wrap=True, max_width=title_len)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("computed", justify="right", no_wrap=True)
    table.add_column("by layer", no_wrap=True)
    for heading, there in (("came back", revived), ("rows held", evicted)):
        if there:
            table.add_column(heading, justify="right", no_wrap=True)
    num_shown = len(chunks) if len(chunks) <= MAX_CHUNKS else MAX_CHUNKS - 1
    parts = [(number, number + 1) for number in range(num_shown)] + [(num_shown, len(chunks))]
    for first, stop in parts:
        if inside := chunks[first:stop]:
            title = _write(inside[0].title or f"chunk {stop}", title_len, encoding)
            tokens = sum(chunk.num_tokens for chunk in inside)
            kept = [sum(layer) for layer in zip(*(chunk.kept_per_layer for chunk in inside), strict=True)]
            marks = draw_marks(kept, tokens, max_marks, encoding != "utf-8")
            more = [f"{sum(chunk.num_revived for chunk in inside):,}"] if revived else []
            more += [summary.describe_rows(receipt, first, stop)] if evicted else []
            title = title if first < num_shown else Text(f"{len(inside):,} more")
            table.add_row(title, f"{tokens:,}", format_share(sum(kept), tokens * size), marks, *more)
    return table


def draw_marks(kept: Sequence[float], most: float, max_marks: int, ascii_only: bool = False) -> str:
    """At most `max_marks` marks for the numbers in order, each the mean share of `most`; a dot is none at all."""
    shades = ASCII_SHADES if ascii_only else SHADES
    block = -(-len(kept) // max_marks)
    marks = []
    for begin in range(0, len(kept), block):
        part = kept[begin : begin + block]
        share = sum(part) / (len(part) * most) if most else 0.0
        marks.append(shades[0] if share == 0 else shades[max(1, round(share * 8))])
    return "".join(marks)


def _write(text: str, size: int, encoding: str) -> Text:
    """User text on one line, without markup, in the characters that the terminal has."""
    return Text(clip(text, size).encode(encoding, "replace").decode(encoding))
