"""RULER's variable tracking: chains of assignments hidden in noise; which variables have a value in the end?"""

from __future__ import annotations

from functools import partial
from random import Random
from string import ascii_uppercase

from fewer.study.tasks.generate.draw import Draw, Filled, Plan
from fewer.study.tasks.generate.haystack import NOISE, Haystack
from fewer.study.tasks.generate.scatter import Needle, scatter
from fewer.study.tasks.generate.words import draw_code, draw_new, draw_number
from fewer.types import Document, Wording

__all__ = ["plan_tracking"]

BEFORE = "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"
QUESTION = "Question: Find all variables that are assigned the value {value} in the text above."
PREFIX = (
    "Answer: According to the chain(s) of variable assignment in the text above, {number} variables are assigned the "
    "value {value}, they are:"
)
EXAMPLE_LINES = 5


def plan_tracking(draw: Draw) -> Plan:
    """An item of RULER's vt; answers are the variables of the first chain, all wanted.

    Wording as in the paper (its code spells "assgined"). The example before it, as in RULER, has names of three letters
    instead of five, and about 250 tokens; leave it out with `example=False`. Assignments keep their order within a
    chain. Supporting are the chunks with assignments of the first chain. An item is a cluster.
    """
    rng, haystack = draw.rng("needles"), draw.prose("noise")
    chains, hops = draw.settings["chains"], draw.settings["hops"]
    taken: set[str] = set()
    value, names, statements = _draw_chains(rng, chains, hops, 5, taken, haystack.text)
    before = BEFORE
    if draw.settings["example"]:
        before = f"{_write_example(rng, chains, hops, taken)}\n\n{BEFORE}"
    needles = []
    for chain in statements:
        depths = sorted(rng.random() for _ in chain)
        needles += [Needle(text, depth) for text, depth in zip(chain, depths, strict=True)]
    return Plan(
        question=QUESTION.format(value=value),
        wording=Wording(before, "\n", "\n{question}"),
        fill=partial(_fill, draw, haystack, needles, hops + 1),
        cluster=f"{draw.index:05d}",
        answers=tuple(names),
        prefix=PREFIX.format(number=hops + 1, value=value),
        max_tokens=30,
        meta={"chains": chains, "hops": hops, "value": value},
        source=f"RULER (Hsieh et al. 2024); {haystack.source}",
        licence=haystack.licence,
    )


def _draw_chains(
    rng: Random, chains: int, hops: int, letters: int, taken: set[str], text: str
) -> tuple[str, list[str], list[list[str]]]:
    """The first chain's value and variables, and the assignments of every chain."""
    statements, first_value, first_names = [], "", list[str]()
    for _ in range(chains):
        value = draw_new(partial(draw_number, rng, 5), taken, text)
        names = [draw_new(partial(draw_code, rng, letters, ascii_uppercase), taken, text) for _ in range(hops + 1)]
        steps = [f"VAR {names[hop + 1]} = VAR {names[hop]}" for hop in range(hops)]
        statements.append([f"VAR {names[0]} = {value}", *steps])
        first_value, first_names = first_value or value, first_names or names
    return first_value, first_names, statements


def _write_example(rng: Random, chains: int, hops: int, taken: set[str]) -> str:
    value, names, statements = _draw_chains(rng, chains, hops, 3, taken, "")
    lines = [NOISE] * EXAMPLE_LINES
    for chain in statements:
        places = sorted(rng.randrange(len(lines) + 1) for _ in chain)
        for shift, (place, text) in enumerate(zip(places, chain, strict=True)):
            lines.insert(place + shift, text)
    question = QUESTION.format(value=value)
    prefix = PREFIX.format(number=hops + 1, value=value)
    return f"{BEFORE}" + "\n".join(lines) + f"\n{question} {prefix} {' '.join(names)}"


def _fill(draw: Draw, haystack: Haystack, needles: list[Needle], first: int, budget: int) -> Filled:
    found = scatter(needles, haystack, draw.meter("\n"), budget, draw.rng("haystack"))
    meta = {"haystack": haystack.name, "depths": list(found.depths[:first])}
    return Filled(tuple(map(Document, found.chunks)), tuple(sorted(set(found.places[:first]))), meta)
