"""One line among many of its kind: lines that together have exactly the tokens asked for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from itertools import accumulate
from random import Random

from fewer.study.tasks.generate.fit import Meter, NoFit, TooShort

__all__ = ["fill_lines"]

BATCH, POOL = 64, 512


def fill_lines(
    meter: Meter, make: Callable[[], str], line: str, depth: float, budget: int, rng: Random
) -> tuple[list[str], int, float]:
    """The line among new ones from `make` such that they have `budget` tokens, the text between lines included.

    Every line is a document. Also returns the line's index and its depth: the share of the other lines' tokens before
    it. Raises TooShort where no other line fits, and NoFit where lines of this tokenizer's sizes cannot add up.
    """
    room = budget - meter.count([line])[0]  # every other line brings the text between along
    spare = defaultdict(list)
    pool = [make() for _ in range(POOL)]
    for extra, count in zip(pool, meter.count(pool), strict=True):
        spare[count + meter.between].append(extra)
    if room < min(spare):
        raise TooShort(budget - room + min(spare))
    others, costs = _draw_lines(meter, make, room)
    for back in (4, 8, 16, 32, len(others)):
        kept = max(0, len(others) - back)
        last = _choose_last(spare, room - sum(costs[:kept]))
        if last:
            break
        if not kept:
            number = room // min(spare)
            raise NoFit(max(0, room - number * max(spare)), max(0, (number + 1) * min(spare) - room))
    rng.shuffle(last)
    others = [*others[:kept], *last]
    costs = [count + meter.between for count in meter.count(others)]
    bounds = list(accumulate(costs, initial=0))
    place = min(range(len(bounds)), key=lambda index: abs(bounds[index] - depth * room))
    return [*others[:place], line, *others[place:]], place, bounds[place] / room


def _draw_lines(meter: Meter, make: Callable[[], str], room: int) -> tuple[list[str], list[int]]:
    """Lines in the order drawn, as many as fit into the room, and their costs."""
    lines: list[str] = []
    costs: list[int] = []
    while sum(costs) <= room:
        fresh = [make() for _ in range(BATCH)]
        lines += fresh
        costs += [count + meter.between for count in meter.count(fresh)]
    number = sum(total <= room for total in accumulate(costs))
    return lines[:number], costs[:number]


def _choose_last(spare: Mapping[int, list[str]], room: int) -> list[str]:
    """Lines that cost exactly this much together, each as near to their mean cost as that allows; or none."""
    fewest, most = max(1, -(-room // max(spare))), min(POOL, room // min(spare))
    for number in range(most, fewest - 1, -1):
        left, chosen = room, list[int]()
        stock = {cost: len(lines) for cost, lines in spare.items()}
        for slot in range(number, 0, -1):
            costs = [cost for cost, lines in stock.items() if lines and (slot > 1 or cost == left)]
            if not costs:
                break
            cost = min(costs, key=lambda cost: (abs(cost - left / slot), cost))
            chosen.append(cost)
            stock[cost] -= 1
            left -= cost
        if not left and len(chosen) == number:
            return [spare[cost][place] for cost, place in zip(chosen, _count_up(chosen), strict=True)]
    return []


def _count_up(costs: list[int]) -> list[int]:
    """How often each cost has come before."""
    seen: Counter[int] = Counter()
    places = []
    for cost in costs:
        places.append(seen[cost])
        seen[cost] += 1
    return places
