"""Facts about fictional people and towns in prose: several questions at once, chains of facts, and disagreement.

All wordings are this project's own: no benchmark has these tasks in a form that may be passed on. Every fact is in a
chunk of its own. An item is a cluster: its facts stay the same at every length. Not covered: `depth`; the facts are
spread over the whole context.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from fewer.study.tasks.generate.draw import Draw, Filled, Plan
from fewer.study.tasks.generate.haystack import Haystack
from fewer.study.tasks.generate.scatter import Needle, scatter
from fewer.study.tasks.generate.words import draw_month, draw_new, draw_number, draw_person, draw_place, draw_thing
from fewer.types import Document, Wording

__all__ = ["plan_chain", "plan_disagreement", "plan_questions"]

WORDING = Wording("Read these texts. A question about them follows.\n\n", "\n\n", "\n\n{question}")
HOPS = (  # a fact, and how the question speaks of what it leads to
    ("The teacher of {0} was {1}.", "the teacher of {0}"),
    ("{0} was born in the town of {1}.", "the town where {0} was born"),
    ("The river {1} flows through the town of {0}.", "the river that flows through {0}"),
    ("The river {0} ends in Lake {1}.", "the lake in which {0} ends"),
)
OFFICIAL = "The harbour office writes"
OTHERS = ("A traveller writes", "A newspaper writes", "An innkeeper writes", "A fisherman writes", "A letter says")


def plan_questions(draw: Draw) -> Plan:
    """Several questions in one answer, in an order that is not that of the text: attention has to move between chunks.

    Answers are in the order asked; `meta["answer_chunks"]` has the chunk of each. The metric is the share found, in any
    order.
    """
    rng, haystack = draw.rng("needles"), draw.prose("essay")
    number = draw.settings["questions"]
    taken: set[str] = set()
    people = [draw_new(partial(draw_person, rng), taken, haystack.text) for _ in range(number)]
    codes = [draw_new(partial(draw_number, rng, 5), taken, haystack.text) for _ in range(number)]
    needles = _spread(
        [f"The locker code of {person} is {code}." for person, code in zip(people, codes, strict=True)], rng
    )
    order = _shuffle_away(number, needles, rng)
    asked = "\n".join(f"{place}. What is the locker code of {people[at]}?" for place, at in enumerate(order, 1))
    return Plan(
        question=f"Answer these questions in this order, each with a sentence of the texts:\n{asked}",
        wording=Wording("Read these texts. Questions about them follow.\n\n", "\n\n", "\n\n{question}"),
        fill=partial(_fill, draw, haystack, needles, order),
        cluster=f"{draw.index:05d}",
        answers=tuple(codes[at] for at in order),
        prefix=f"The locker code of {people[order[0]]} is",
        max_tokens=24 * number,
        source=_name_source(haystack),
        licence=haystack.licence,
    )


def plan_chain(draw: Draw) -> Plan:
    """A chain of facts about a person, a town, a river and a lake; `hops` of them lead to the answer.

    `distractors` other chains of the same kind are in the text as well, so that no single fact gives the answer away.
    """
    rng, haystack = draw.rng("needles"), draw.prose("essay")
    hops, chains = draw.settings["hops"], 1 + draw.settings["distractors"]
    taken: set[str] = set()
    names = [
        [draw_new(partial(make, rng), taken, haystack.text) for make in (draw_person, draw_person, *(draw_place,) * 3)]
        for _ in range(chains)
    ]
    facts = [fact.format(*chain[hop : hop + 2]) for chain in names for hop, (fact, _) in enumerate(HOPS[:hops])]
    phrase = names[0][0]
    for _, part in HOPS[:hops]:
        phrase = part.format(phrase)
    return Plan(
        question=f"What is the name of {phrase}? Answer with the name only.",
        wording=WORDING,
        fill=partial(_fill, draw, haystack, _spread(facts, rng), range(hops)),
        cluster=f"{draw.index:05d}",
        answers=(names[0][hops],),
        prefix="The name is",
        max_tokens=24,
        meta={"hops": hops, "distractors": chains - 1, "wrong_answers": [chain[hops] for chain in names[1:]]},
        source=_name_source(haystack),
        licence=haystack.licence,
    )


def plan_disagreement(draw: Draw) -> Plan:
    """Sources that disagree on one fact, and a rule in the question that says which is right.

    rule "newest": every source has a date, and the latest is right. rule "official": the harbour office is right. All
    sources are supporting; `meta["doc_types"]` names every chunk: true, false or noise.
    """
    rng, haystack = draw.rng("needles"), draw.prose("essay")
    number, rule = draw.settings["sources"], draw.settings["rule"]
    taken: set[str] = set()
    place = draw_new(partial(draw_place, rng), taken, haystack.text)
    piers = [draw_new(partial(draw_thing, rng), taken, haystack.text) for _ in range(number)]
    if rule == "newest":
        first = rng.randrange(1890, 1950)
        years = sorted(rng.sample(range(first, first + 3 * number), number), reverse=True)
        heads = [f"A notice of {rng.randrange(1, 29)} {draw_month(rng)} {year} says" for year in years]
        hint = "The notices do not agree: the one with the latest date is right."
    else:
        heads = [OFFICIAL, *rng.sample(OTHERS, number - 1)]
        hint = "The texts do not agree: the harbour office is right."
    facts = [
        f"{head} that the ferry to {place} leaves from {pier} Pier." for head, pier in zip(heads, piers, strict=True)
    ]
    return Plan(
        question=f"{hint} From which pier does the ferry to {place} leave? Answer with the name of the pier only.",
        wording=WORDING,
        fill=partial(_fill, draw, haystack, _spread(facts, rng), range(number), typed=True),
        cluster=f"{draw.index:05d}",
        answers=(piers[0],),
        prefix=f"The ferry to {place} leaves from",
        max_tokens=16,
        meta={"rule": rule, "wrong_answers": piers[1:]},
        source=_name_source(haystack),
        licence=haystack.licence,
    )


def _spread(facts: Sequence[str], rng: Random) -> list[Needle]:
    """The facts at random depths, about evenly spread, in an order of their own."""
    slots = list(range(len(facts)))
    rng.shuffle(slots)
    return [Needle(fact, (slot + rng.random()) / len(facts)) for fact, slot in zip(facts, slots, strict=True)]


def _shuffle_away(number: int, needles: Sequence[Needle], rng: Random) -> list[int]:
    """An order of the needles in which, with three or more, some step goes back and some step skips."""
    text = sorted(range(number), key=lambda at: needles[at].depth)
    order = list(text)
    while number > 2 and order in (text, text[::-1]):
        rng.shuffle(order)
    return order if number > 2 else text[::-1]


def _fill(
    draw: Draw, haystack: Haystack, needles: list[Needle], wanted: Sequence[int], budget: int, typed: bool = False
) -> Filled:
    found = scatter(needles, haystack, draw.meter("\n\n"), budget, draw.rng("haystack"), apart=True)
    chunks = [found.places[at] for at in wanted]
    meta: dict[str, Any] = {
        "haystack": haystack.name,
        "haystack_passes": found.passes,
        "depths": [found.depths[at] for at in wanted],
        "answer_chunks": chunks,
    }
    if typed:
        types = ["noise"] * len(found.chunks)
        for rank, chunk in enumerate(chunks):
            types[chunk] = "false" if rank else "true"
        meta["doc_types"] = types
    return Filled(tuple(map(Document, found.chunks)), tuple(sorted(chunks)), meta)


def _name_source(haystack: Haystack) -> str:
    return f"fewer's own facts; {haystack.source}"
