"""Schedules: after which layers fewer tokens go on, and how many. `10:70%, 18:50%, 25:30%`, a mapping, or a preset.

A place is a layer, or a fraction of the model's depth below 1. Budgets are of the prompt and do not grow with depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from fewer.errors import bad
from fewer.types import Keep

__all__ = ["PRESETS", "Schedule", "parse_schedule"]

Schedule = tuple[tuple[int | float, Keep], ...]

PRESETS: dict[str, str] = {
    "mild": "0.66:30%, 0.8:10%",
    "balanced": "0.6:30%, 0.73:10%",
    "aggressive": "0.33:50%, 0.6:30%, 0.83:10%",
}
_DEEPEST = 9_999
_WAY_OUT = "Write for example 'balanced', '10:70%, 18:50%', or {10: 0.7, 18: 0.5}."


def parse_schedule(value: object) -> Schedule:
    """A schedule in any of its forms, in the order of depth. Raises BadInput."""
    if isinstance(value, str):
        text = PRESETS.get(value.strip(), value)
        pairs: list[tuple[object, object]] = []
        for part in text.replace(",", " ").split():
            where, colon, count = part.partition(":")
            if not colon:
                raise bad("schedule", value, f"one of {', '.join(PRESETS)}, or stops LAYER:KEEP", _WAY_OUT)
            pairs.append((where, count))
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, tuple) and all(isinstance(stop, tuple) and len(stop) == 2 for stop in value):
        pairs = list(value)
    else:
        raise bad("schedule", value, "a preset, a text of stops, or a mapping of layers", _WAY_OUT)
    if not pairs:
        raise bad("schedule", value, "at least one stop", _WAY_OUT)
    stops = [(_place(place), Keep.parse(keep)) for place, keep in pairs]  # type: ignore[arg-type]
    kinds = {type(place) for place, _ in stops}
    if len(kinds) > 1:
        raise bad("schedule", value, "layers throughout, or fractions of the depth throughout", _WAY_OUT)
    places = [place for place, _ in stops]
    if len(set(places)) < len(places):
        raise bad("schedule", value, "each layer once", _WAY_OUT)
    stops.sort(key=lambda stop: stop[0])
    for (_, before), (layer, keep) in pairwise(stops):
        grows = (
            (before.fraction is not None and keep.fraction is not None and keep.fraction > before.fraction)
            or (before.tokens is not None and keep.tokens is not None and keep.tokens > before.tokens)
        )  # fmt: skip
        if grows:
            raise bad(f"what stays after {layer}", str(keep), f"at most {before}, as before", "Keep fewer the deeper.")
    return tuple(stops)


def _place(value: object) -> int | float:
    """A layer, or a fraction of the depth."""
    number: object = value
    if isinstance(value, str):
        try:
            number = int(value) if value.strip().lstrip("+-").isdigit() else float(value)
        except ValueError:
            raise bad("a layer of the schedule", value, "a layer, or a fraction of the depth", _WAY_OUT) from None
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise bad("a layer of the schedule", value, "a layer, or a fraction of the depth", _WAY_OUT)
    if isinstance(number, int) and abs(number) > _DEEPEST:
        raise bad("a layer of the schedule", str(value)[:20], f"at most {_DEEPEST}", _WAY_OUT)
    if isinstance(number, float) and not 0.0 < number < 1.0:
        raise bad("a layer of the schedule", value, "a whole number, or a fraction between 0 and 1", _WAY_OUT)
    return number
