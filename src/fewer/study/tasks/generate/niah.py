"""Needles with a key and a value in prose, noise or other needles: RULER's retrieval tasks and InfiniteBench's passkey.

Wordings, kinds of keys and values, and numbers of needles are RULER's. Departures: the essays are a novel; chunks are
set apart by line ends; a value never occurs twice. An item is a cluster: its needles stay the same at every length and
depth. `depth` is that of the needle asked for; the others are anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fewer.study.tasks.generate.draw import Draw, Filled, Plan
from fewer.study.tasks.generate.haystack import Haystack
from fewer.study.tasks.generate.lines import fill_lines
from fewer.study.tasks.generate.scatter import Needle, scatter
from fewer.study.tasks.generate.words import MAKERS, draw_new, draw_number
from fewer.types import Document, Wording

__all__ = ["NEEDLES", "Kind", "plan_needles", "plan_passcode"]

NEEDLE = "One of the special magic {kind} for {key} is: {value}."
PASSCODE = "The pass key is {value}. Remember it. {value} is the pass key."


@dataclass(frozen=True, slots=True)
class Kind:
    """A retrieval task: what it is hidden in, kinds of keys and values, how many of each, and how many asked for."""

    haystack: str  # "noise", "essay" or "needles"
    keys: str = "words"
    values: str = "numbers"
    num_keys: int = 1
    num_values: int = 1
    num_queries: int = 1


NEEDLES = {
    "single_1": Kind("noise"),
    "single_2": Kind("essay"),
    "single_3": Kind("essay", values="uuids"),
    "multikey_1": Kind("essay", num_keys=4),
    "multikey_2": Kind("needles"),
    "multikey_3": Kind("needles", keys="uuids", values="uuids"),
    "multivalue": Kind("essay", num_values=4),
    "multiquery": Kind("essay", num_keys=4, num_queries=4),
}


def plan_needles(kind: Kind, draw: Draw) -> Plan:
    """An item of one of RULER's eight tasks. Answers are all values of the keys asked for, in the order asked."""
    rng = draw.rng("needles")
    haystack = None if kind.haystack == "needles" else draw.prose(kind.haystack)
    text = haystack.text if haystack else ""
    taken: set[str] = set()
    keys = [draw_new(partial(MAKERS[kind.keys], rng), taken, text) for _ in range(kind.num_keys)]
    values = [[draw_new(partial(MAKERS[kind.values], rng), taken, text) for _ in range(kind.num_values)] for _ in keys]
    asked = rng.sample(range(kind.num_keys), kind.num_queries)
    answers = tuple(value for key in asked for value in values[key])
    query = ", ".join(keys[key] for key in asked[:-1])
    query = f"{query}, and {keys[asked[-1]]}" if query else keys[asked[-1]]
    one = len(answers) == 1
    noun = kind.values[:-1] if one else kind.values
    before = (
        f"{'A' if one else 'Some'} special magic {noun} {'is' if one else 'are'} hidden within the following text. "
        f"Make sure to memorize it. I will quiz you about the {noun} afterwards.\n"
    )
    verb = "is" if one else "are"
    question = f"What {'is' if one else 'are all'} the special magic {noun} for {query} mentioned in the provided text?"
    pairs = [(key, value) for key in range(kind.num_keys) for value in values[key]]
    rng.shuffle(pairs)
    depths = [draw.spread() if one and key in asked else rng.random() for key, _ in pairs]
    needles = [
        Needle(NEEDLE.format(kind=kind.values, key=keys[key], value=value), depth)
        for (key, value), depth in zip(pairs, depths, strict=True)
    ]
    wanted = [number for number, (key, _) in enumerate(pairs) if key in asked]
    if haystack:
        fill = partial(_fill_prose, draw, haystack, needles, wanted)
    else:
        fill = partial(_fill_needles, draw, kind, needles[0], taken)
    return Plan(
        question=question,
        wording=Wording(before, "\n", "\n{question}"),
        fill=fill,
        cluster=f"{draw.index:05d}",
        answers=answers,
        prefix=f"The special magic {noun} for {query} mentioned in the provided text {verb}",
        max_tokens=128,
        meta={"keys": [keys[key] for key in asked]},
        source="RULER (Hsieh et al. 2024)" + (f"; {haystack.source}" if haystack else ""),
        licence=haystack.licence if haystack else "Apache-2.0",
    )


def plan_passcode(draw: Draw) -> Plan:
    """InfiniteBench's passkey (Zhang et al. 2024): a five-digit number said twice in one place of the noise."""
    rng, haystack = draw.rng("needles"), draw.prose("noise")
    value = draw_new(lambda: draw_number(rng, 5), set(), haystack.text)
    before = (
        "There is an important info hidden inside a lot of irrelevant text. Find it and memorize it. I will quiz you "
        "about the important information.\n\n"
    )
    needles = [Needle(PASSCODE.format(value=value), draw.spread())]
    return Plan(
        question="What is the pass key?",
        wording=Wording(before, "\n", "\n\n{question}"),
        fill=partial(_fill_prose, draw, haystack, needles, [0]),
        cluster=f"{draw.index:05d}",
        answers=(value,),
        prefix="The pass key is",
        max_tokens=16,
        source=f"InfiniteBench's passkey (Zhang et al. 2024); {haystack.source}",
        licence=haystack.licence,
    )


def _fill_prose(draw: Draw, haystack: Haystack, needles: list[Needle], wanted: list[int], budget: int) -> Filled:
    found = scatter(needles, haystack, draw.meter("\n"), budget, draw.rng("haystack"))
    depths = [found.depths[number] for number in wanted]
    meta = {"haystack": haystack.name, "depth": sum(depths) / len(depths), "depths": depths}
    if haystack.name != "noise":
        meta["haystack_passes"] = found.passes
    supporting = tuple(sorted({found.places[number] for number in wanted}))
    return Filled(tuple(map(Document, found.chunks)), supporting, meta)


def _fill_needles(draw: Draw, kind: Kind, needle: Needle, taken: set[str], budget: int) -> Filled:
    rng, seen = draw.rng("haystack"), set(taken)

    def make() -> str:
        make_key: Callable[[], str] = partial(MAKERS[kind.keys], rng)
        key, value = draw_new(make_key, seen), draw_new(partial(MAKERS[kind.values], rng), seen)
        return NEEDLE.format(kind=kind.values, key=key, value=value)

    lines, place, depth = fill_lines(draw.meter("\n"), make, needle.text, needle.depth, budget, rng)
    return Filled(tuple(map(Document, lines)), (place,), {"haystack": "needles", "depth": depth, "depths": [depth]})
