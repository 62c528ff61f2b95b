"""Distractors for a question's gold passages, such that all together have exactly the tokens asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from fewer.study.tasks.generate.fit import Meter, TooShort, stretch
from fewer.study.tasks.generate.haystack import load_haystack
from fewer.study.tasks.generate.questions import Passage, Question, Source, occurs

__all__ = ["Gathered", "gather"]

LEAST = 16  # tokens of the last distractor
SENTENCES = 4  # of the novel, in a passage


@dataclass(frozen=True, slots=True)
class Gathered:
    """The distractors as they are spelled, and how many of them are prose from the novel."""

    distractors: tuple[str, ...]
    prose: int


def gather(
    meter: Meter,
    source: Source,
    question: Question,
    budget: int,
    write: Callable[[Sequence[str]], list[str]],
    rng: Callable[[], Random],
) -> Gathered:
    """Distractors that have `budget` tokens with the gold passages, in the order of preference.

    `write` puts what is written around passages in their places, such as numbers; its tokens must not depend on the
    order. The last distractor is cut, or goes on with prose. Raises TooShort, or NoFit.
    """
    gold = [passage.spelled for passage in question.gold]
    supply = _list_distractors(source, question, rng())
    kept: list[tuple[Passage, bool]] = []
    total = meter.total(write(gold))
    while True:
        passage, is_prose = next(supply)
        number = len(gold) + len(kept)
        size = meter.count(write([*gold[:1] * number, passage.spelled])[-1:])[0] + meter.between
        kept.append((passage, is_prose))
        if total + size + LEAST > budget:
            break
        total += size
    while True:
        texts = [passage.spelled for passage, _ in kept[:-1]]
        head = f"{kept[-1][0].title}\n" if kept[-1][0].title else ""
        bare = meter.total(write([*gold, *texts, head])) + LEAST
        if bare <= budget:
            break
        if len(kept) == 1:
            raise TooShort(bare)
        kept.pop()
    words = kept[-1][0].text.split()
    room = budget - meter.total(write([*gold, *texts])) - meter.between
    while len(words) < room:
        words += next(_list_prose(question, rng())).text.split()

    def render(text: str) -> str:
        return write([*gold, *texts, head + text])[-1]

    last = head + stretch(meter, words, room, rng(), render=render)
    return Gathered((*texts, last), sum(is_prose for _, is_prose in kept))


def _list_distractors(source: Source, question: Question, rng: Random) -> Iterator[tuple[Passage, bool]]:
    """Passages without an answer: those beside the question, the source's others at random, and prose without end."""
    seen = set(question.gold)
    others = list(source.passages)
    rng.shuffle(others)
    for passage in (*question.beside, *others):
        if passage not in seen and not any(occurs(answer, passage.spelled) for answer in question.answers):
            seen.add(passage)
            yield passage, False
    for passage in _list_prose(question, rng):
        yield passage, True


def _list_prose(question: Question, rng: Random) -> Iterator[Passage]:
    """Some sentences of the novel in a row, from random places, without an answer in them."""
    novel = load_haystack("essay")
    while True:
        text = " ".join(novel.read(rng.choice(novel.starts), SENTENCES))
        if not any(occurs(answer, text) for answer in question.answers):
            yield Passage("", text)
