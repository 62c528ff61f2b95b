"""Schedules: after which layers fewer tokens go on, and how many. `10:70%, 18:50%, 25:30%`, a mapping, or a preset.

A place is a layer, or a fraction of the model's depth below 1. Budgets are of the prompt and do not grow with depth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise

from fewer.errors import BadInput, bad
from fewer.types import Keep, ModelFacts

__all__ = ["PRESETS", "Schedule", "as_preset", "find_layer", "fit_preset", "list_stops", "parse_schedule"]
__all__ += ["write_schedule"]

Schedule = tuple[tuple[int | float, Keep], ...]

PRESETS: dict[str, str] = {
    "mild": "0.66:30%, 0.8:10%",
    "balanced": "0.6:30%, 0.73:10%",
    "aggressive": "0.33:50%, 0.6:30%, 0.83:10%",
}
_DEEPEST = 9_999
_AS_TEXT = "Write for example balanced, or stops: 10:70%, 18:50%."
_AS_MAPPING = "Write for example {10: 0.7, 18: 0.5}; 1.0 is all of the prompt and 1 is one token."
_PLACE = "a layer, or a fraction of the depth"


def as_preset(value: object) -> str | None:
    """The preset that this names, whatever its case, or None."""
    name = value.strip().lower() if isinstance(value, str) else ""
    return name if name in PRESETS else None


def parse_schedule(value: object) -> Schedule:
    """A schedule in any of its forms, in the order of depth. Raises BadInput."""
    way_out = _AS_MAPPING if isinstance(value, Mapping) else _AS_TEXT
    pairs: list[tuple[object, object]]
    if isinstance(value, str):
        pairs = _split(value)
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, tuple) and all(isinstance(stop, tuple) and len(stop) == 2 for stop in value):
        pairs = list(value)
    else:
        raise bad("schedule", value, "a preset, a text of stops, or a mapping of layers", way_out)
    if not pairs:
        raise bad("schedule", value, "at least one stop", way_out)
    stops = [(_parse_place(place, way_out), _parse_keep(place, keep)) for place, keep in pairs]
    kinds = {type(place) for place, _ in stops}
    if len(kinds) > 1:
        raise bad("schedule", value, "layers throughout, or fractions of the depth throughout", way_out)
    places = [place for place, _ in stops]
    if len(set(places)) < len(places):
        raise bad("schedule", value, "each layer once", way_out)
    stops.sort(key=lambda stop: stop[0])
    for (_, before), (layer, keep) in pairwise(stops):
        grows = (
            (before.fraction is not None and keep.fraction is not None and keep.fraction > before.fraction)
            or (before.tokens is not None and keep.tokens is not None and keep.tokens > before.tokens)
        )  # fmt: skip
        if grows:
            raise bad(f"what stays after {layer}", str(keep), f"at most {before}, as before", "Keep fewer the deeper.")
    return tuple(stops)


def write_schedule(stops: Schedule) -> str:
    """For people to read: `8:35%, 12:200 tokens`."""
    return ", ".join(f"{place:g}:{keep}" for place, keep in stops)


def find_layer(place: int | float, num_layers: int) -> int:
    """The layer of a model of this depth at this place; the last one has none behind it. Raises BadInput."""
    layer = _scale(place, num_layers)
    if 1 <= layer < num_layers:
        return layer
    legal = f"a whole number from 1 to {num_layers - 1} (the model has {num_layers} layers)"
    if isinstance(place, float):
        legal = f"the place of one of the layers 1 to {num_layers - 1}; of {num_layers} layers it is layer {layer}"
    raise bad("a layer of the schedule", place, legal, "Leave tokens out after a layer that has one behind it.")


@lru_cache(maxsize=256)
def list_stops(stops: Schedule, num_layers: int) -> dict[int, Keep]:
    """What stays after which layer of a model of this depth. Raises BadInput where two places are one layer."""
    found: dict[int, Keep] = {}
    places: dict[int, int | float] = {}
    for place, keep in stops:
        layer = find_layer(place, num_layers)
        if layer in found:
            legal = f"of different layers; {places[layer]:g} and {place:g} are both layer {layer} of {num_layers}"
            raise bad("schedule", write_schedule(stops), legal, "Move one of them, or leave it out.")
        found[layer], places[layer] = keep, place
    return found


def fit_preset(stops: Schedule, facts: ModelFacts) -> Schedule:
    """A preset in this model: each stop after the nearest layer that sees everything, if there is one below the last.

    In a shallow model two stops may fall together; the later one, which keeps fewer, holds.
    """
    last = facts.num_layers - 1
    legal = [layer for layer in facts.global_layers if layer <= last]
    found: dict[int, Keep] = {}
    for place, keep in stops:
        layer = min(_scale(place, facts.num_layers), last)
        found[min(legal, key=lambda each: (abs(each - layer), each)) if legal else layer] = keep
    return tuple(found.items())


def _scale(place: int | float, num_layers: int) -> int:
    return max(1, round(place * num_layers)) if isinstance(place, float) else place


def _split(text: str) -> list[tuple[object, object]]:
    """The stops of a text, or of the preset that it names; spaces beside a colon and before a percent sign are fine."""
    name = as_preset(text)
    together = re.sub(r"\s*:\s*", ":", re.sub(r"\s+%", "%", PRESETS[name] if name else text))
    pairs: list[tuple[object, object]] = []
    for part in together.replace(",", " ").split():
        where, colon, count = part.partition(":")
        if not colon:
            raise bad("schedule", text, f"one of {', '.join(PRESETS)}, or stops LAYER:KEEP", _AS_TEXT)
        pairs.append((where, count))
    return pairs


def _parse_keep(place: object, value: object) -> Keep:
    try:
        return Keep.parse(value)  # type: ignore[arg-type]
    except BadInput as error:
        raise error.renamed(f"what stays after {place}") from None


def _parse_place(value: object, way_out: str) -> int | float:
    """A layer, or a fraction of the depth."""
    number: object = value
    if isinstance(value, str):
        try:
            number = int(value) if value.strip().lstrip("+-").isdigit() else float(value)
        except ValueError:
            raise bad("a layer of the schedule", value, _PLACE, way_out) from None
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise bad("a layer of the schedule", value, _PLACE, way_out)
    if isinstance(number, int) and abs(number) > _DEEPEST:
        raise bad("a layer of the schedule", str(value)[:20], f"at most {_DEEPEST}", way_out)
    if isinstance(number, float) and not 0.0 < number < 1.0:
        raise bad("a layer of the schedule", value, "a whole number, or a fraction between 0 and 1", way_out)
    return number
