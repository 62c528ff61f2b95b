"""One check for every number that a caller may pass."""

from __future__ import annotations

from math import isfinite

from fewer.errors import bad

__all__ = ["check_number"]


def check_number(
    name: str, value: object, kind: type, low: float, high: float | None, way_out: str, open_low: bool = False
) -> None:
    """Raise BadInput unless `value` is a finite number of this kind in range."""
    legal = f"{'a whole number' if kind is int else 'a number'} {'above' if open_low else 'of at least'} {low:g}"
    if high is not None:
        legal += f" and at most {high:g}"
    numeric = isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool)
    numeric = numeric and (isinstance(value, int) or isfinite(value))  # type: ignore[arg-type]
    if not numeric or not (low < value if open_low else low <= value) or (high is not None and value > high):  # type: ignore[operator]
        raise bad(name, value, legal, way_out)
