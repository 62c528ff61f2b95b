"""What one item of a study costs: its prefills as they are shared, its decoding steps, its memory and its rows.

Arms over the same prompt share the layers below their first pruning layer: the trunk is the full run, and a pruned arm
pays only for its kept tokens in the layers above. A share of the layers is taken to cost that share of the seconds.
Then all arms decode together, and each reads the reference answer in one more pass. With `share: false` every arm does
all of it alone. What an arm keeps is its budget; protected tokens beyond it are not known before the run, nor is
whether a method declines. An arm of entroprefill that names no `monitor`, or no `keep`, is taken to prune nothing. An
arm of `removed_text` reads, alone, as much text as the arm that it is like keeps. An arm that evicts holds its budget
while it decodes, and all that was prefilled before; compressing and certificates take no time here. Where it reads the
prompt in parts (`moment: context`, `block`) it prefills by itself.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fewer.prune import LazyLLM
from fewer.study.arms import Arm
from fewer.study.cells import Cell, list_cells
from fewer.study.item import Item
from fewer.study.rates import Rates
from fewer.study.spec import Study
from fewer.types import Keep

__all__ = ["Cost", "cost_item"]


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one item under all arms and seeds."""

    seconds: tuple[float, float, float]
    """At the least, likely and at the most."""
    answers: int
    refused: int
    """Answers that will not be run: the prompt does not fit into the model's positions."""
    prefills: int
    """Prompts prefilled, each as deep as some arm sees all of it."""
    branches: int
    """Answers that share a prefill and go on with fewer tokens."""
    token_layers: float
    """Computed in prefills."""
    token_layers_alone: float
    """The same if every answer prefilled for itself and nothing was pruned."""
    kv_tokens: float
    """Tokens whose keys and values are held at once, at the most; a token that is in half of the layers is a half."""
    row_bytes: float


@dataclass(slots=True)
class _Sum:
    """What adds up over the groups of an item."""

    prefill_s: float = 0.0
    step_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    refused: int = 0
    prefills: int = 0
    branches: int = 0
    token_layers: float = 0.0
    alone: float = 0.0
    kv_tokens: float = 0.0


@dataclass(frozen=True, slots=True)
class _Way:
    """What an arm does by itself."""

    layer: int  # after which it leaves the others
    parts: tuple[tuple[float, int], ...]  # share of the layers, and tokens that go through them
    held: float  # tokens whose keys it holds while decoding, the mean over layers
    most: float  # the most that it holds before
    alone: bool = False  # whether it shares nothing of its prefill


def cost_item(study: Study, item: Item, num_tokens: int, rates: Rates) -> Cost:
    """What an item costs whose prompt has `num_tokens`. Raises BadInput for arms that the model's depth does not allow.

    The prompt of an arm without context is taken to be as much shorter as its text is.
    """
    groups: dict[tuple[str, Cell | None], list[Cell]] = defaultdict(list)
    cells = list_cells(study)
    arms = {cell.arm.name: cell.arm for cell in cells}
    for cell in cells:
        groups[cell.arm.condition, cell if cell.arm.like is not None else None].append(cell)
    written = sum(len(chunk.title) + len(chunk.text) for chunk in item.chunks)
    around = len(item.wording.before) + len(item.wording.ask) + len(item.question) + len(item.answer_prefix)
    total = _Sum()
    for (condition, alone), members in groups.items():
        bare = condition == "no_context"
        size = max(1, round(num_tokens * around / (written + around))) if bare else num_tokens
        like = arms[alone.arm.like] if alone is not None and alone.arm.like is not None else None
        _add_group(total, study, item, size, members, rates, num_tokens / (written + around), like)
    low, likely, high = total.step_s
    step = rates.step
    titles = sum(len(chunk.title.encode()) for chunk in item.chunks)
    return Cost(
        seconds=(
            total.prefill_s * rates.prefill.low + low * (step.low if step else 1),
            total.prefill_s + likely,
            total.prefill_s * rates.prefill.high + high * (step.high if step else 1),
        ),
        answers=len(cells),
        refused=total.refused,
        prefills=total.prefills,
        branches=total.branches,
        token_layers=total.token_layers,
        token_layers_alone=total.alone,
        kv_tokens=total.kv_tokens,
        row_bytes=len(cells) * (rates.row_bytes + rates.chunk_bytes * len(item.chunks) + titles),
    )


def _add_group(
    total: _Sum,
    study: Study,
    item: Item,
    size: int,
    cells: Sequence[Cell],
    rates: Rates,
    tokens_per_letter: float,
    like: Arm | None,
) -> None:
    """Add the answers over one prompt of `size` tokens, or over what the arm `like` keeps of it."""
    room = rates.max_positions
    if room is not None and size + item.max_tokens > room:
        if not study.truncate or item.max_tokens >= room:
            total.refused += len(cells)
            return
        size = room - item.max_tokens
    new = study.sampling.max_tokens or item.max_tokens
    new = new if room is None else min(new, room - size)
    depth = rates.num_layers
    total.alone += depth * size * len(cells)
    if like is not None:
        size = _find_way(like, size, depth).parts[-1][1]
    ways = [_find_way(cell.arm, size, depth) for cell in cells]
    groups = [ways] if study.share else [[way] for way in ways]
    reference = max(1, math.ceil(len(item.answers[0]) * tokens_per_letter)) if "nll" in study.signals else 0
    for group in groups:
        trunk = max((way.layer for way in group if not way.alone), default=0)
        parts = [(trunk / depth, size), *(part for way in group for part in way.parts)]
        total.prefill_s += sum(share * rates.prefill.at(tokens, tokens**2) for share, tokens in parts)
        total.token_layers += depth * sum(share * tokens for share, tokens in parts)
        total.prefills += (trunk > 0) + sum(way.alone for way in group)
        total.branches += sum(way.layer < depth for way in group if not way.alone) if study.share else 0
        kept = [way.held for way in group]
        most = sum(way.most for way in group)
        total.kv_tokens = max(total.kv_tokens, most + len(kept) * new + size * trunk / depth)
        seen = rates.new_tokens.get(item.task)
        lengths = (1.0 if seen is None else min(seen, new), new if seen is None else min(seen, new), float(new))
        total.step_s = tuple(  # type: ignore[assignment]
            before + _decode(kept, length, rates) + _read(kept, reference, rates)
            for before, length in zip(total.step_s, lengths, strict=True)
        )


def _find_way(arm: Arm, size: int, depth: int) -> _Way:
    """The arm's way through the layers; the full run never leaves the others."""
    way, policy = _prune(arm, size, depth), arm.policy
    if policy is None:
        return way
    held = min(way.held, _budget(policy.budget.keep, size))
    if policy.moment == "prompt" and policy.block is None:
        return replace(way, held=held)
    most = size if policy.block is None else min(size, held + policy.block)
    return _Way(depth, ((1.0, size),), held, most, alone=True)


def _prune(arm: Arm, size: int, depth: int) -> _Way:
    """What the planner makes of it."""
    planner = arm.planner
    if planner is None:
        return _Way(depth, ((0.0, size),), size, size)
    if isinstance(planner, LazyLLM):  # what was left out stays below its stop, to come back from
        keeps = planner.keeps(depth)
        ends = [*list(keeps)[1:], depth]
        parts = tuple((end - stop) / depth for stop, end in zip(keeps, ends, strict=True))
        sizes = [_budget(keep, size) for keep in keeps.values()]
        first = min(keeps)
        held = size * first / depth + sum(share * kept for share, kept in zip(parts, sizes, strict=True))
        return _Way(first, tuple(zip(parts, sizes, strict=True)), held, held)
    keep = arm.parts.planner.get("keep")
    budget = size if keep is None else _budget(Keep.parse(keep), size)
    layer = min(planner.layers(depth), default=depth)
    return _Way(layer, (((depth - layer) / depth, budget),), budget, budget)


def _budget(keep: Keep, size: int) -> int:
    return min(size, keep.tokens) if keep.tokens is not None else keep.count(size)


def _decode(kept: Sequence[float], new: float, rates: Rates) -> float:
    """Seconds of `new` tokens for answers that hold so many keys; the first token comes with the prefill."""
    steps = max(0.0, new - 1)
    if rates.step is None:
        return 0.0
    keys = steps * sum(kept) + len(kept) * steps * (steps + 1) / 2
    return rates.step.at(steps, steps * len(kept), keys)


def _read(kept: Sequence[float], tokens: int, rates: Rates) -> float:
    """Seconds of a pass over `tokens` of the reference answer, for each answer by itself."""
    if not tokens:
        return 0.0
    by_token, by_square = rates.prefill.coefficients
    fixed = rates.step.coefficients[0] if rates.step is not None else 0.0
    return sum(fixed + by_token * tokens + by_square * ((size + tokens) ** 2 - size**2) for size in kept)
