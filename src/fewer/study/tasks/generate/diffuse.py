"""Evidence in every chunk: count, add up or list over the whole context.

All wordings are this project's own. Every chunk has one delivery note in prose and is supporting, so a method that
leaves chunks out must lose. The number of chunks is a setting; their size follows from the length. An item is a
cluster. Not covered: `depth`, since nothing has one place.
"""

from __future__ import annotations

from functools import partial

from fewer.study.tasks.generate.draw import Draw, Filled, Plan
from fewer.study.tasks.generate.haystack import Haystack
from fewer.study.tasks.generate.scatter import Needle, scatter
from fewer.study.tasks.generate.words import draw_new, draw_person
from fewer.types import Document, Wording

__all__ = ["plan_diffuse"]

GRAINS = ("barley", "oats", "rye")
NOTE = "Delivery note: {person} brought {number} sacks of {grain}."
QUESTIONS = {
    "list": "Name every person who has brought sacks, by the delivery notes in all of the texts.",
    "sum": "How many sacks were brought together, by the delivery notes in all of the texts? Answer with the number.",
    "count": "How many delivery notes in the texts are about barley? Answer with the number.",
}
PREFIXES = {"list": "These people have brought sacks:", "sum": "The number of sacks is", "count": "The number is"}


def plan_diffuse(draw: Draw) -> Plan:
    """An item of the kind in the settings: list (all names wanted), sum or count (one number).

    A number may be found by chance, and a small one often: compare with chance, not with zero.
    """
    rng, haystack = draw.rng("needles"), draw.prose("essay")
    kind, parts = draw.settings["kind"], draw.settings["parts"]
    taken: set[str] = set()
    people = [draw_new(partial(draw_person, rng), taken, haystack.text) for _ in range(parts)]
    numbers = [rng.randrange(2, 10) for _ in range(parts)]
    grains = [rng.choice(GRAINS) for _ in range(parts)]
    grains[rng.randrange(parts)] = GRAINS[0]  # at least one is counted
    needles = [
        Needle(NOTE.format(person=person, number=number, grain=grain), (place + rng.random()) / parts)
        for place, (person, number, grain) in enumerate(zip(people, numbers, grains, strict=True))
    ]
    answers = {"list": tuple(people), "sum": (str(sum(numbers)),), "count": (str(grains.count(GRAINS[0])),)}
    return Plan(
        question=QUESTIONS[kind],
        wording=Wording("Read these texts. A question about all of them follows.\n\n", "\n\n", "\n\n{question}"),
        fill=partial(_fill, draw, haystack, needles),
        cluster=f"{draw.index:05d}",
        answers=answers[kind],
        prefix=PREFIXES[kind],
        max_tokens=12 * parts if kind == "list" else 8,
        metric="" if kind == "list" else "infinitebench_number_string",
        meta={"kind": kind, "parts": parts},
        source=f"fewer's own facts; {haystack.source}",
        licence=haystack.licence,
    )


def _fill(draw: Draw, haystack: Haystack, needles: list[Needle], budget: int) -> Filled:
    found = scatter(needles, haystack, draw.meter("\n\n"), budget, draw.rng("haystack"), each=True)
    meta = {"haystack": haystack.name, "haystack_passes": found.passes, "depths": list(found.depths)}
    return Filled(tuple(map(Document, found.chunks)), tuple(range(len(found.chunks))), meta)
