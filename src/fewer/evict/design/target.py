"""What every design that samples aims at: inclusion probabilities above 0 for every row, computed on the CPU.

On the CPU because there the same scores and the same seed give the same bits whatever the device of the cache; the
scores of a layer are a few kilobytes.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from fewer.errors import bad
from fewer.evict.inclusion import inclusion
from fewer.types.number import check_number

__all__ = ["FLOOR", "Order", "check_floor", "check_order", "draw_seeds", "draw_uniform", "find_target"]

Order = Literal["random", "position"]

FLOOR = 0.2  # a fifth of the tail's budget goes to all of it alike
_LOWEST = 1e-6


def check_floor(floor: float) -> None:
    """Raise BadInput unless every row can get a probability above 0 with this floor."""
    way_out = f"{FLOOR:g} is the default; 1 draws without regard to the score."
    check_number("floor", floor, float, _LOWEST, 1.0, way_out)


def check_order(order: Order) -> None:
    """Raise BadInput unless it is one of the two orders."""
    if order not in ("random", "position"):
        raise bad("order", order, "'random' or 'position'", "Use position to spread the sample along the text.")


def find_target(score: Tensor, keep: Tensor, floor: float) -> Tensor:
    """pi: [kv_heads, n] float64 on the CPU, in (0, 1]; 0 for padding alone. Arguments as in `inclusion`.

    Raises BadInput also where keep leaves nothing for a tail that is there: its rows would have a probability of 0.
    """
    score = score.detach().cpu()
    pi = inclusion(score, keep.cpu(), floor)
    starved = ((pi == 0) & ~torch.isneginf(score)).any(1)
    if bool(starved.any()):
        head = int(starved.nonzero()[0])
        least = int(torch.isposinf(score[head]).sum()) + 1
        legal = f"at least {least} in head {head}, one more than its certain rows, where a design samples"
        raise bad("keep", int(keep[head]), legal, "Raise the budget, protect fewer rows, or use topk.")
    return pi


def draw_uniform(kv_heads: int, count: int, generator: torch.Generator) -> Tensor:
    """Numbers in [0, 1), [kv_heads, count] float64. How many does not depend on what is drawn with them.

    So a head's sample depends on its own scores, its number and n alone. Raises BadInput unless it is a CPU generator.
    """
    _check_generator(generator)
    return torch.rand(kv_heads, count, generator=generator, dtype=torch.float64)


def draw_seeds(kv_heads: int, generator: torch.Generator) -> list[int]:
    """One seed per head, for designs that cannot say beforehand how many numbers they need. Raises as above."""
    _check_generator(generator)
    seeds: list[int] = torch.randint(2**62, (kv_heads,), generator=generator).tolist()
    return seeds


def _check_generator(generator: torch.Generator) -> None:
    if generator.device.type != "cpu":
        way_out = "Make it with torch.Generator(); seeds then mean the same on every device."
        raise bad("generator", str(generator.device), "a generator of the CPU", way_out)
