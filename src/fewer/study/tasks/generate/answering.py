"""Question answering among distractors: RULER's qa_1 and qa_2, and one item with its passages in several orders.

Gold passages and those published beside them come first, then other passages of the source in random order, then, when
those are used up, prose from the novel (`meta["prose"]` says how many). No distractor has an answer in it. The last one
is cut, or goes on with prose, so that the length is exact. The cluster is the page or question of the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from fewer.study.tasks.generate.draw import Draw, Filled, Plan
from fewer.study.tasks.generate.fit import Meter
from fewer.study.tasks.generate.gather import gather
from fewer.study.tasks.generate.questions import Question, Source, load_questions
from fewer.types import Document, Wording

__all__ = ["plan_answering", "plan_reordered"]

RULE = "Answer the question based on the given documents. Only give me the answer and do not output any other words."
WORDING = Wording(f"{RULE}\n\nThe following are given documents.\n\n", "\n\n", f"\n\n{RULE}\n\nQuestion: {{question}}")


def plan_answering(hops: int, draw: Draw) -> Plan:
    """An item of RULER's qa_1 (one gold passage) or qa_2 (two or more). `depth` is that of the one gold passage."""
    source, question = _choose(draw, hops, draw.index)
    return _plan(draw, source, question, partial(_fill_numbered, draw, source, question))


def plan_reordered(draw: Draw) -> Plan:
    """A question with the same passages in `orders` orders: the gold one moves from first to last in even steps.

    Items come in runs of `orders`; a cluster is what is asked about one page. Passages are not numbered, so that their
    tokens do not change with their place.
    """
    base, order = divmod(draw.index, draw.settings["orders"])
    source, question = _choose(draw, 1, base)
    return _plan(draw, source, question, partial(_fill_moved, draw, source, question, base, order))


def _choose(draw: Draw, hops: int, number: int) -> tuple[Source, Question]:
    """Question by question in a random order, and in another one when all have been asked."""
    source = load_questions(draw.settings["source"], hops)
    turn, place = divmod(number, len(source.questions))
    order = list(range(len(source.questions)))
    draw.rng("questions", turn).shuffle(order)
    return source, source.questions[order[place]]


def _plan(draw: Draw, source: Source, question: Question, fill: partial[Filled]) -> Plan:
    return Plan(
        question=question.text,
        wording=WORDING,
        fill=fill,
        cluster=question.group,
        answers=question.answers,
        prefix="Answer:",
        max_tokens=32,
        source=source.name,
        licence=source.licence,
    )


def _fill_numbered(draw: Draw, source: Source, question: Question, budget: int) -> Filled:
    def write(texts: Sequence[str]) -> list[str]:
        return [f"Document {number}:\n{text}" for number, text in enumerate(texts, 1)]

    meter, rng = draw.meter("\n\n"), draw.rng("order")
    found = gather(meter, source, question, budget, write, partial(draw.rng, "distractors"))
    texts = list(found.distractors)
    rng.shuffle(texts)
    wanted = [draw.spread() if len(question.gold) == 1 else rng.random() for _ in question.gold]
    for passage, depth in sorted(zip(question.gold, wanted, strict=True), key=lambda pair: pair[1]):
        before = list(accumulate(meter.count(texts), initial=0))
        place = min(range(len(before)), key=lambda index: abs(before[index] - depth * before[-1]))
        texts.insert(place, passage.spelled)
    places = [texts.index(passage.spelled) for passage in question.gold]
    meta = {**_describe(meter, write(texts), places), "prose": found.prose}
    documents = [Document(text, f"Document {number}:") for number, text in enumerate(texts, 1)]
    return Filled(tuple(documents), tuple(sorted(places)), meta)


def _fill_moved(draw: Draw, source: Source, question: Question, base: int, order: int, budget: int) -> Filled:
    orders, meter = draw.settings["orders"], draw.meter("\n\n")
    found = gather(meter, source, question, budget, list, partial(draw.rng, "distractors", base))
    texts = list(found.distractors)
    draw.rng("order").shuffle(texts)
    place = round(order / (orders - 1) * len(texts))
    texts.insert(place, question.gold[0].spelled)
    meta = {**_describe(meter, texts, [place]), "prose": found.prose, "order": order, "orders": orders}
    return Filled(tuple(map(Document, texts)), (place,), meta)


def _describe(meter: Meter, texts: Sequence[str], places: Sequence[int]) -> dict[str, Any]:
    """The places of the gold passages, by number and by tokens."""
    counts = meter.count(texts)
    before = list(accumulate((count + meter.between for count in counts), initial=0))
    total = meter.total(texts)
    depths = [before[place] / max(1, total - counts[place]) for place in places]
    return {"gold_positions": list(places), "depth": sum(depths) / len(depths), "depths": depths}
