"""Needles in a haystack of sentences: chunks that together have exactly the tokens asked for.

A needle stands between two sentences of a chunk, as in RULER. Chunks have about 100 tokens each; where several needles
have to be in chunks of their own and there is little room, chunks and sentences are made shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from random import Random

from fewer.study.tasks.generate.fit import Meter, NoFit, TooShort, join_prose, stretch
from fewer.study.tasks.generate.haystack import Haystack

__all__ = ["Needle", "Scattered", "scatter"]

SIZE = 100  # tokens of a chunk
LEAST = 12  # tokens of filler that a chunk has at least
TRIES = 8


@dataclass(frozen=True, slots=True)
class Needle:
    """A sentence to hide, and after which share of the filler's tokens (0 to 1)."""

    text: str
    depth: float


@dataclass(frozen=True, slots=True)
class Scattered:
    """The chunks, the chunk and depth of every needle, and how often the haystack was read through.

    A depth is the share of the context's other tokens that stand before the needle.
    """

    chunks: tuple[str, ...]
    places: tuple[int, ...]
    depths: tuple[float, ...]
    passes: float


@dataclass(slots=True)
class _Run:
    """Sentences of a chunk, and the needles in it as (place among the sentences, number of the needle)."""

    sentences: list[str]
    needles: list[tuple[int, int]]

    def pieces(self, needles: Sequence[Needle]) -> list[str]:
        found, at = [], 0
        for place, number in self.needles:
            found += [*self.sentences[at:place], needles[number].text]
            at = place
        return [*found, *self.sentences[at:]]


def scatter(
    needles: Sequence[Needle],
    haystack: Haystack,
    meter: Meter,
    budget: int,
    rng: Random,
    *,
    apart: bool = False,
    each: bool = False,
) -> Scattered:
    """Hide the needles in chunks that have `budget` tokens together, the text between chunks included.

    With `apart` no two needles share a chunk; with `each` besides every chunk has one (the needles' depths then only
    order them). Reading begins at a random paragraph. Raises TooShort, or NoFit where the tokenizer has no filler of
    the size that is left.
    """
    needed = len(needles) if apart or each else 1
    own = sum(meter.count([needle.text for needle in needles]))
    least = own + needed * LEAST + (needed - 1) * meter.between
    if budget < least:
        raise TooShort(least)
    start = rng.choice(haystack.starts)
    estimate = budget - own
    for _ in range(TRIES):
        runs, used = _cut_runs(haystack, meter, start, estimate, needed, each)
        _place(runs, needles, haystack, meter, apart or each)
        texts = [haystack.glue.join(run.pieces(needles)) for run in runs]
        gap = budget - meter.total(texts)
        chosen = _choose_flexible(runs, haystack, meter, gap)
        if gap == 0:
            break
        if chosen is not None and gap <= 2 * SIZE:
            target = gap + meter.count([texts[chosen]])[0]
            _fit(runs[chosen], needles, haystack, meter, target, start + used, rng)
            texts[chosen] = haystack.glue.join(runs[chosen].pieces(needles))
            break
        estimate += gap
    else:
        raise NoFit
    return _describe(runs, needles, haystack, meter, texts, used)


def _cut_runs(
    haystack: Haystack, meter: Meter, start: int, filler: int, needed: int, each: bool
) -> tuple[list[_Run], int]:
    """Sentences from `start` on, as many as fit into the filler, cut into runs of about equal size; and how many."""
    number = needed if each else max(needed, round(filler / SIZE))
    step = filler / number
    runs, cost, used = [_Run([], [])], 0, 0
    ahead: list[str] = []
    while True:
        if used == len(ahead):
            ahead += haystack.read(start + used, 32 + used)
            meter.count([haystack.glue + sentence for sentence in ahead])
        sentence = ahead[used]
        size = meter.count([haystack.glue + sentence])[0]
        room = min(step * len(runs), filler) - cost  # until this run is full
        if not runs[-1].sentences and size > 1.5 * room:
            sentence = _shorten(sentence, size, room)
            size = meter.count([haystack.glue + sentence])[0]
        full = cost + size > filler
        if not full or not runs[-1].sentences:
            runs[-1].sentences.append(sentence)
            cost, used = cost + size, used + 1
        if (full or cost >= filler) and len(runs) == number:
            return runs, used
        if full or (cost >= min(step * len(runs), filler) and len(runs) < number):
            cost += meter.between
            runs.append(_Run([], []))


def _shorten(sentence: str, size: int, room: float) -> str:
    """The beginning of a sentence of `size` tokens that has about `room` tokens; at least three words."""
    words = sentence.split()
    return join_prose(words[: max(3, int(len(words) * room / size))]) or sentence


def _place(runs: list[_Run], needles: Sequence[Needle], haystack: Haystack, meter: Meter, apart: bool) -> None:
    """Put every needle at the boundary of sentences that is nearest to its depth, in a run of its own if `apart`."""
    bounds: list[tuple[int, int, int]] = []  # filler tokens before it, run, place
    cost = 0
    for number, run in enumerate(runs):
        sizes = meter.count([haystack.glue + sentence for sentence in run.sentences])
        bounds += [(cost + before, number, place) for place, before in enumerate(accumulate(sizes, initial=0))]
        cost += sum(sizes)
    order, first = sorted(range(len(needles)), key=lambda index: needles[index].depth), 0
    for rank, index in enumerate(order):
        last = len(runs) - (len(order) - rank) if apart else len(runs)  # leaves a run for each needle to come
        free = [bound for bound in bounds if first <= bound[1] <= last]
        _, number, place = min(free, key=lambda bound: abs(bound[0] - needles[index].depth * cost))
        runs[number].needles.append((place, index))
        first = number + 1 if apart else 0
    for run in runs:
        run.needles.sort(key=lambda pair: (pair[0], order.index(pair[1])))


def _choose_flexible(runs: Sequence[_Run], haystack: Haystack, meter: Meter, gap: int) -> int | None:
    """The run whose text is to change by `gap` tokens: the last one without a needle, or else the longest one."""
    stretches = [run.sentences[slice(*_find_stretch(run))] for run in runs]
    sizes = meter.count([haystack.glue.join(sentences) for sentences in stretches])
    free = [number for number, run in enumerate(runs) if not run.needles and sizes[number] + gap >= LEAST]
    chosen = free[-1] if free else max(range(len(runs)), key=lambda number: (sizes[number], number))
    return chosen if sizes[chosen] + gap >= LEAST // 2 else None


def _find_stretch(run: _Run) -> tuple[int, int]:
    """From where to where the longest text without a needle goes, as places among the run's sentences."""
    cuts = [0, *(place for place, _ in run.needles), len(run.sentences)]
    return max(pairwise(cuts), key=lambda cut: (sum(map(len, run.sentences[slice(*cut)])), cut))


def _fit(
    run: _Run, needles: Sequence[Needle], haystack: Haystack, meter: Meter, target: int, after: int, rng: Random
) -> None:
    """Change the last sentences of the run's longest stretch so that the run's text has exactly `target` tokens.

    As many sentences as it takes are replaced by one that begins as they do and may go on with those from `after` on.
    """
    kept, pairs = run.sentences, run.needles
    start, high = _find_stretch(run)

    def replace(low: int, text: str) -> _Run:
        shift = bool(text) - (high - low)
        moved = [(place if place <= low else place + shift, needle) for place, needle in pairs]
        return _Run([*kept[:low], *([text] if text else []), *kept[high:]], moved)

    def render(low: int, text: str) -> str:
        return haystack.glue.join(replace(low, text).pieces(needles))

    low = next(
        (low for low in range(high - 1, start, -1) if meter.count([render(low, "")])[0] + LEAST <= target), start
    )
    room = target - meter.count([render(low, "")])[0]
    words, ahead = " ".join(kept[low:high]).split(), 0
    while len(words) < room:
        words += haystack.read(after + ahead, 1)[0].split()
        ahead += 1
    final = replace(low, stretch(meter, words, target, rng, render=partial(render, low)))
    run.sentences, run.needles = final.sentences, final.needles


def _describe(
    runs: Sequence[_Run], needles: Sequence[Needle], haystack: Haystack, meter: Meter, texts: list[str], used: int
) -> Scattered:
    """Where every needle came to stand, by tokens."""
    places, depths = [0] * len(needles), [0.0] * len(needles)
    total, before = meter.total(texts), 0
    for number, run in enumerate(runs):
        pieces = run.pieces(needles)
        for rank, (place, index) in enumerate(run.needles):
            head = haystack.glue.join(pieces[: place + rank])
            own = meter.count([needles[index].text])[0]
            places[index] = number
            depths[index] = min(1.0, (before + meter.count([head])[0]) / max(1, total - own))
        before += meter.count([texts[number]])[0] + meter.between
    return Scattered(tuple(texts), tuple(places), tuple(depths), used / len(haystack.sentences))
