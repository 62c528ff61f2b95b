"""Key-value retrieval from a JSON object of random UUIDs (Liu et al. 2023, Lost in the Middle)."""

from __future__ import annotations

from functools import partial

from fewer.study.tasks.generate.draw import Draw, Filled, Plan
from fewer.study.tasks.generate.lines import fill_lines
from fewer.study.tasks.generate.words import draw_new, draw_uuid
from fewer.types import Document, Wording

__all__ = ["plan_pairs"]

BEFORE = "Extract the value corresponding to the specified key in the JSON object below.\n\nJSON data:\n{"


def plan_pairs(draw: Draw) -> Plan:
    """One pair among many; every pair is a chunk. Wording, keys and values as in the paper. An item is a cluster."""
    rng = draw.rng("needles")
    taken: set[str] = set()
    key, value = draw_new(partial(draw_uuid, rng), taken), draw_new(partial(draw_uuid, rng), taken)
    return Plan(
        question=f'Key: "{key}"',
        wording=Wording(BEFORE, ",\n ", "}\n\n{question}"),
        fill=partial(_fill, draw, f'"{key}": "{value}"', taken),
        cluster=f"{draw.index:05d}",
        answers=(value,),
        prefix="Corresponding value:",
        max_tokens=64,
        meta={"keys": [key]},
    )


def _fill(draw: Draw, pair: str, taken: set[str], budget: int) -> Filled:
    rng, seen = draw.rng("haystack"), set(taken)
    make_uuid = partial(draw_uuid, rng)

    def make() -> str:
        return f'"{draw_new(make_uuid, seen)}": "{draw_new(make_uuid, seen)}"'

    lines, place, depth = fill_lines(draw.meter(",\n "), make, pair, draw.spread(), budget, rng)
    return Filled(tuple(map(Document, lines)), (place,), {"depth": depth, "pairs": len(lines)})
