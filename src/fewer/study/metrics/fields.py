"""What a metric needs besides the answers, read from a row's `meta` and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fewer.errors import bad

__all__ = ["Answers", "Meta", "read_index", "read_text", "read_texts"]

Answers = Sequence[str]
Meta = Mapping[str, object]

_WAY_OUT = "Put it into the row's meta, or choose another metric."


def read_text(meta: Meta, key: str) -> str:
    """A text of `meta`. Raises BadInput where it is missing or no text."""
    value = meta.get(key)
    if not isinstance(value, str):
        raise bad(f"meta[{key!r}]", value, "a text", _WAY_OUT)
    return value


def read_texts(meta: Meta, key: str, at_least: int = 0) -> list[str]:
    """A list of texts of `meta`. Raises BadInput where it is missing, too short, or holds anything else."""
    value = meta.get(key)
    texts = list(value) if isinstance(value, list | tuple) else []
    if not isinstance(value, list | tuple) or len(texts) < at_least or not all(isinstance(text, str) for text in texts):
        raise bad(f"meta[{key!r}]", value, f"a list of at least {at_least} texts", _WAY_OUT)
    return texts


def read_index(meta: Meta, key: str, below: int) -> int:
    """A whole number of `meta`, from 0 to below `below`. Raises BadInput where it is missing or outside."""
    value = meta.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < below:
        raise bad(f"meta[{key!r}]", value, f"a whole number from 0 to {below - 1}", _WAY_OUT)
    return value
