"""A diagnosis in the terminal: the two answers, and the full model's attention to what left, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from fewer.cli.terms import list_facts, make_table, with_note, write_number, write_share
from fewer.receipt.units import format_count

if TYPE_CHECKING:
    from fewer.engine import Diagnosis

__all__ = ["show_diagnosis"]


def show_diagnosis(found: Diagnosis, encoding: str) -> Iterator[RenderableType]:
    """Facts, then a table of the layers above the removal."""
    yield Text("Beside the full model (diagnostics of this prompt, not guarantees)", style="bold")
    yield Text()
    removed = f"{found.num_removed:,} of {format_count(found.num_tokens, 'token')}"
    if found.probe_mass is not None:
        removed += f", with {write_share(found.probe_mass)} of the pooled attention"
    facts = [
        ("removed", removed),
        ("first token", ("the same" if found.same_first_token else "another")
         + f"; its logits move by up to {write_number(found.logit_shift)}"),
        ("margin", f"of the first token {write_number(found.full.first_margin)} in full, "
         f"{write_number(found.pruned.first_margin)} pruned; the smallest of the answer "
         f"{write_number(found.full.smallest_margin)} and {write_number(found.pruned.smallest_margin)}"),
        ("text", "the same in both" if found.same_text else "differs"),
        ("in full", found.full.text),
        ("pruned", found.pruned.text),
    ]  # fmt: skip
    yield list_facts(facts, encoding)
    if not found.layers:
        return
    yield Text()
    gammas = () if found.layers[0].excess is None else tuple(found.layers[0].excess)
    bridge = ("Gamma", *(f"s{gamma}" for gamma in gammas)) if gammas else ()
    table = make_table("layer", "max", "mean", "last", "query", *bridge, gap=1)
    for each in found.layers:
        numbers = [each.eta.max(), each.mean.mean(), each.last.max(), each.query_max.max()]
        if each.gamma is not None and each.excess is not None:
            numbers += [each.gamma.max(), *(each.excess[gamma].max() for gamma in gammas)]
        table.add_row(str(each.layer), *(write_number(float(number)) for number in numbers))
    note = (
        "the full model's attention to what left, of the worst head: max: of any retained row; mean: over them, and "
        "over heads; last: the newest row; query: the worst of the query's rows"
    )
    if gammas:
        note += (
            ". Gamma: the smallest factor on the pooled measure that covers every document token of the query's rows; "
            "s1, s2, s4: what is left over at a factor of 1, 2, 4"
        )
    yield with_note(table, note)
