"""Which layers and heads EntroPrefill watches: `8:7, 16:all`, `9:8.7+0`, `0.5-0.8:all`, a mapping, or a list of layers.

A place is a layer from 1, or a fraction of the depth below 1, which is never the last layer; `A-B` is every layer from
A to B. Heads are the layer's own, or an earlier one's: `8.7` is head 7 of layer 8. All are named before anything runs,
since the audit's guarantee counts them. A head of an earlier layer is the number layer x 10,000 + head.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fewer.errors import BadInput, bad
from fewer.types import ModelFacts

__all__ = ["Monitor", "fit_monitor", "foreign", "name_head", "parse_monitor", "split_head", "write_monitor"]

Place = int | float
Monitor = tuple[tuple[Place, Place, tuple[int, ...] | None], ...]  # from, to, heads: None is all of them

_WAY_OUT = "Write for example '8:7, 16:all', '0.5-0.8:all', or {8: [7], 16: 'all'}."
_SPAN = 10_000  # more heads than a layer has


def parse_monitor(value: Any) -> Monitor:
    """In any of its forms. Raises BadInput."""
    if isinstance(value, tuple) and all(isinstance(part, tuple) and len(part) == 3 for part in value):
        named = [(span, heads if heads is None else [name_head(head) for head in heads]) for *span, heads in value]
        pairs: list[tuple[Any, Any]] = [(tuple(span), heads) for span, heads in named]
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, str):
        pairs = [_split(part, value) for part in re.sub(r"\s*([:+])\s*", r"\1", value).replace(",", " ").split()]
    elif isinstance(value, (int, float)):
        pairs = [(value, None)]
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        pairs = [(layer, None) for layer in value]
    else:
        raise bad("monitor", value, "layers with their heads", _WAY_OUT)
    if not pairs:
        raise bad("monitor", value, "at least one layer", _WAY_OUT)
    return tuple((*_span(where, value), _heads(heads, value)) for where, heads in pairs)


def fit_monitor(monitor: Monitor, facts: ModelFacts) -> dict[int, tuple[int, ...]]:
    """The heads to watch by layer, ascending, for one model. Raises BadInput for what the model does not have.

    Layers with a sliding window are left out of spans, and refused where they are named.
    """
    size, found = facts.num_layers, dict[int, set[int]]()
    for first, last, heads in monitor:
        low, high = _layer(first, size), _layer(last, size)
        if 1 <= high < low < size:
            legal = "from A to B with A before B" + (
                f" (here it is {low} to {high})" if type(first) is float or type(last) is float else ""
            )
            raise bad("a span of monitor", f"{first:g}-{last:g}", legal, _WAY_OUT)
        if not 1 <= low <= high < size:
            legal = f"layers from 1 to {size - 1} (the model has {size}; pruning needs one behind it)"
            shown = f"{first:g}-{last:g}" if first != last else f"{first:g}"
            raise bad("monitor", shown, legal, _WAY_OUT + (_hint(first) if first == last and heads is None else ""))
        for head in heads or ():
            _check_head(head, low, facts)
        layers = [layer for layer in range(low, high + 1) if facts.windows[layer - 1] is None or low == high]
        for layer in layers:
            if facts.windows[layer - 1] is not None:
                legal = f"a layer without a sliding window ({', '.join(map(str, facts.global_layers)) or 'none'})"
                raise bad("a layer of monitor", layer, legal, "It does not see the whole prompt.")
            own = range(facts.num_heads) if heads is None else [_at(head, layer) for head in heads]
            found.setdefault(layer, set()).update(own)
    if not found:
        raise bad("monitor", write_monitor(monitor), "a span with a layer that sees the whole prompt", _WAY_OUT)
    return {layer: tuple(sorted(found[layer])) for layer in sorted(found)}


def write_monitor(monitor: Monitor) -> str:
    """As text, the way it is read."""
    parts = []
    for first, last, heads in monitor:
        where = f"{first}" if first == last else f"{first}-{last}"
        parts.append(f"{where}:{'all' if heads is None else '+'.join(map(name_head, heads))}")
    return ", ".join(parts)


def split_head(head: int) -> tuple[int | None, int]:
    """The layer, None where it is the watched layer's own, and the head."""
    return (head // _SPAN or None), head % _SPAN


def name_head(head: int) -> str:
    """`7`, or `8.7` of an earlier layer."""
    layer, own = split_head(head)
    return str(own) if layer is None else f"{layer}.{own}"


def foreign(heads: Sequence[int]) -> tuple[int, ...]:
    """Those of earlier layers."""
    return tuple(head for head in heads if head >= _SPAN)


def _check_head(head: int, watched: int, facts: ModelFacts) -> None:
    layer, own = split_head(head)
    if own >= facts.num_heads:
        raise bad("a head of monitor", own, f"from 0 to {facts.num_heads - 1}", _WAY_OUT)
    if layer is not None and layer > watched:
        raise bad("a head of monitor", name_head(head), f"of a layer up to {watched}, the watched one", _WAY_OUT)
    if layer is not None and facts.windows[layer - 1] is not None:
        raise bad("a head of monitor", name_head(head), "of a layer without a sliding window", _WAY_OUT)


def _at(head: int, watched: int) -> int:
    """The head as seen from the watched layer."""
    layer, own = split_head(head)
    return own if layer == watched else head


def _split(part: str, whole: object) -> tuple[str, str]:
    where, colon, heads = part.partition(":")
    if not where or (colon and not heads):
        raise bad("monitor", whole, "layers with their heads", _WAY_OUT)
    return where, heads or "all"


def _span(where: Any, whole: object) -> tuple[Place, Place]:
    ends = where if isinstance(where, tuple) else str(where).split("-")
    if len(ends) not in (1, 2):
        raise bad("monitor", whole, "layers, or spans of two", _WAY_OUT)
    places = [_place(end, whole) for end in ends]
    return places[0], places[-1]


def _place(value: Any, whole: object) -> Place:
    try:
        if isinstance(value, bool):
            raise ValueError
        number: Place = int(value) if str(value).strip().isdigit() else float(value)
    except (ValueError, TypeError):
        raise bad("monitor", whole, "layers from 1, or fractions of the depth below 1", _WAY_OUT) from None
    if not (number >= 1 if isinstance(number, int) else 0 < number < 1):
        legal = "a whole number from 1, or a fraction between 0 and 1"
        raise bad("a layer of monitor", value, legal, _WAY_OUT + _hint(number))
    return number


def _hint(value: Any) -> str:
    """What a number may have been: YAML reads 9:8.7 without quotes as 9 minutes and 8.7 seconds, 548.7."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 60 <= value < 60 * _SPAN:
        return ""
    layer, head = divmod(value, 60)
    return f" In YAML put it in quotes: {layer:.0f}:{head:g} without them is read as {value:g}."


def _layer(place: Place, num_layers: int) -> int:
    return max(1, min(round(place * num_layers), num_layers - 1)) if isinstance(place, float) else place


def _heads(value: Any, whole: object) -> tuple[int, ...] | None:
    if value is None or value == "all":
        return None
    found = value.split("+") if isinstance(value, str) else [value] if isinstance(value, int) else value
    try:
        heads = tuple(sorted({_head(head) for head in found}))
        if not heads:
            raise ValueError
    except (ValueError, TypeError) as error:
        if isinstance(error, BadInput):
            raise
        raise bad(
            "monitor", whole, "heads as whole numbers from 0 (or LAYER.HEAD), joined by +, or all", _WAY_OUT
        ) from None
    return heads


def _head(value: Any) -> int:
    layer, dot, own = str(value).strip().rpartition(".") if isinstance(value, str) else ("", "", str(value))
    if isinstance(value, bool) or not own.isdigit() or (dot and not (layer.isdigit() and 1 <= int(layer) < _SPAN)):
        raise ValueError
    number = int(own)
    if number >= _SPAN:
        raise bad("a head of monitor", value, f"from 0 to {_SPAN - 1}", _WAY_OUT)
    return number + (int(layer) * _SPAN if dot else 0)
