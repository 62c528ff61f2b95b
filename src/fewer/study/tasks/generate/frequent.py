"""RULER's aggregation tasks: the most common words of a list, and the most frequent words of a coded text.

Every chunk counts, so all are supporting. An item is a cluster; other than elsewhere, its words change with the length.
Not covered: `depth`, since nothing has a place.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from string import ascii_lowercase

from fewer.study.tasks.generate.draw import Draw, Filled, Plan
from fewer.study.tasks.generate.fit import Meter, TooShort, stretch
from fewer.study.tasks.generate.words import draw_code, draw_new, load_words
from fewer.types import Document, Wording

__all__ = ["plan_coded", "plan_common"]

COMMON = 10  # words that are asked for
COMMON_BEFORE = (
    "Below is a numbered list of words. In these words, some appear more often than others. Memorize the ones that "
    "appear most often.\n"
)
COMMON_QUESTION = "Question: What are the 10 most common words in the above list?"
COMMON_PREFIX = "Answer: The top 10 words that appear most often in the list are:"
CODED_BEFORE = (
    "Read the following coded text and track the frequency of each coded word. Find the three most frequently appeared "
    "coded words. "
)
CODED_QUESTION = (
    "Question: Do not provide any explanation. Please ignore the dots '....'. What are the three most frequently "
    "appeared words in the above coded text?"
)
CODED_PREFIX = "Answer: According to the coded text above, the three most frequently appeared words are:"
ENTRIES, UNITS = 25, 45  # in a chunk
LEAST_COMMON, LEAST_CODED = 40, 10  # tokens of the last chunk, which makes the length exact
RARE, CYCLE = 900, 20  # words kept for it; after how many places its spare words come again
TRIES, ENOUGH = 24, 30  # how often another number is tried, and how near to the room in tokens is near enough


def plan_common(draw: Draw) -> Plan:
    """An item of RULER's cwe: ten words come 30 times, all others 3 times; below 4,096 tokens 6 times and once.

    The words of the last, shorter chunk come once more or once at all, so that the length is exact. Where the word list
    is too short for the length, all numbers grow alike (meta says to what). The example before it is RULER's: 10 words
    3 times and 10 once, or 10 times and 30 words 3 times; leave it out with `example=False`.
    """
    short = draw.length < 4096
    before = COMMON_BEFORE
    if draw.settings["example"]:
        words = draw.rng("example").sample(load_words(), 20 if short else 40)
        often, once = (3, 1) if short else (10, 3)
        entries = words[:COMMON] * often + words[COMMON:] * once
        draw.rng("example order").shuffle(entries)
        before += f"{_number(entries, 1)}\n{COMMON_QUESTION} {COMMON_PREFIX} {_number(words[:COMMON], 1)}\n{before}"
    return Plan(
        question=COMMON_QUESTION,
        wording=Wording(before, "\n", "\n{question}"),
        fill=partial(_fill_common, draw, 6 if short else 30, 1 if short else 3),
        cluster=f"{draw.index:05d}",
        prefix=COMMON_PREFIX,
        max_tokens=120,
        source="RULER (Hsieh et al. 2024), with this project's word list",
    )


def plan_coded(draw: Draw) -> Plan:
    """An item of RULER's fwe: coded words whose numbers follow a zeta distribution with exponent `alpha`.

    As in RULER the most frequent one is written as dots, and the answers are the next three. The vocabulary has a
    fiftieth of the length in words. The last, shorter chunk has dots, and at most two words that occur nowhere else.
    """
    return Plan(
        question=CODED_QUESTION,
        wording=Wording(CODED_BEFORE, "\n", "\n{question}"),
        fill=partial(_fill_coded, draw),
        cluster=f"{draw.index:05d}",
        prefix=CODED_PREFIX,
        max_tokens=50,
        source="RULER (Hsieh et al. 2024)",
    )


def _number(words: Sequence[str], first: int) -> str:
    return " ".join(f"{place}. {word}" for place, word in enumerate(words, first))


def _fill_common(draw: Draw, often: int, seldom: int, budget: int) -> Filled:
    meter, pool = draw.meter("\n"), list(load_words())
    draw.rng("words").shuffle(pool)
    spare = len(pool) - COMMON - RARE

    def build(grow: int, number: int) -> list[str]:
        entries = pool[:COMMON] * (often * grow) + pool[COMMON : COMMON + number] * (seldom * grow)
        draw.rng("order").shuffle(entries)
        return [_number(entries[at : at + ENTRIES], at + 1) for at in range(0, len(entries), ENTRIES)]

    grow = 1
    while 3 * spare * seldom * grow < budget and meter.total(build(grow, spare)) < budget:
        grow += 1  # the list is used up: every word comes more often
    texts = _grow(meter, partial(build, grow), budget, LEAST_COMMON, 1)
    first = 1 + sum(text.count(". ") for text in texts)
    rare, others = pool[-RARE : 100 - RARE], pool[100 - RARE :]
    units = [f"{place}. {word}" for place, word in enumerate(rare, first)]

    def choose(place: int) -> list[str]:
        return [f"{first + place}. {word}" for word in others[place % CYCLE :: CYCLE]]  # no word at two places

    target = budget - meter.total([*texts, ""])
    texts.append(stretch(meter, units, target, draw.rng("rest"), join=" ".join, ends=choose))
    meta = {"common_repeats": often * grow, "uncommon_repeats": seldom * grow}
    return Filled(tuple(map(Document, texts)), tuple(range(len(texts))), meta, tuple(pool[:COMMON]))


def _fill_coded(draw: Draw, budget: int) -> Filled:
    meter, rng, alpha = draw.meter("\n"), draw.rng("words"), draw.settings["alpha"]
    make, taken = partial(draw_code, rng, 6, ascii_lowercase), set[str]()
    size = max(6, draw.length // 50)
    words = ["...", *(draw_new(make, taken) for _ in range(size - 1))]
    shares = [rank**-alpha / _zeta(alpha) for rank in range(1, size + 1)]

    def build(number: int) -> list[str]:
        while number > least and int(number * shares[3]) == int(number * shares[4]):
            number -= 1  # the third answer must be more frequent than the next word
        units = [word for word, share in zip(words, shares, strict=True) for _ in range(int(number * share))]
        draw.rng("order").shuffle(units)
        return [" ".join(units[at : at + UNITS]) for at in range(0, len(units), UNITS)]

    least = next(number for number in count(1) if int(number * shares[3]) > int(number * shares[4]) > 0)
    texts = _grow(meter, build, budget, LEAST_CODED, least)
    rare = [draw_new(make, taken) for _ in range(100)]
    target = budget - meter.total([*texts, ""])
    last = stretch(meter, ["..."] * target, target, draw.rng("rest"), join=" ".join, ends=lambda _: rare)
    counts = Counter(" ".join(texts).split())
    meta = {"alpha": alpha, "vocabulary": size, "counts": [counts[word] for word in words[1:5]]}
    texts.append(last)
    return Filled(tuple(map(Document, texts)), tuple(range(len(texts))), meta, tuple(words[1:4]))


def _grow(meter: Meter, build: Callable[[int], list[str]], budget: int, spare: int, least: int) -> list[str]:
    """The texts of about the largest number that leaves `spare` tokens of the budget for one more text.

    Raises TooShort.
    """
    room = budget - spare
    low, low_texts = least, build(least)
    low_total = meter.total([*low_texts, ""])
    if low_total > room:
        raise TooShort(low_total + spare)
    number, high = 2 * least + 40, 0
    for _ in range(TRIES):
        texts = build(number)
        total = meter.total([*texts, ""])
        slope = max(0.5, (total - low_total) / (number - low))
        if total > room:
            high = number
        else:
            low, low_texts, low_total = number, texts, total
        if room - low_total <= ENOUGH or high == low + 1:
            break
        number = low + max(1, int((room - low_total - ENOUGH / 2) / slope))
        if high and number >= high:
            number = (low + high) // 2
    return low_texts


def _zeta(alpha: float, terms: int = 1000) -> float:
    """Riemann's zeta function: the first terms, and the rest by the Euler-Maclaurin formula (error below 1e-12)."""
    size = float(terms)
    head = math.fsum(float(rank) ** -alpha for rank in range(1, terms))
    rest: float = size ** (1 - alpha) / (alpha - 1) + size**-alpha / 2 + alpha * size ** (-alpha - 1) / 12
    return head + rest
