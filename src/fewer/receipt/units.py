"""Numbers and titles as people read them, the same in the terminal and on the page."""

from __future__ import annotations

import json
import re

BRANCH = re.compile(r"\[\n\s+([-+.\deE,\s]+?)\n\s+\]")  # a list of numbers as json indents it; strings hold no newline


def format_seconds(seconds: float | None) -> str:
    """`0.4 ms`, `18 ms`, `1.42 s`, `125 s`; a dash for None."""
    if seconds is None:
        return "-"
    if seconds < 0.9995:
        milliseconds = 1000 * seconds
        return f"{milliseconds:.0f} ms" if milliseconds >= 9.95 or seconds == 0 else f"{milliseconds:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 99.5 else f"{seconds:,.0f} s"


def format_bytes(count: int) -> str:
    """`512 B`, `3.4 KiB`, `1.2 GiB`."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1023.95:
            break
        size, unit = size / 1024, larger
    return f"{count:,} B" if unit == "B" else f"{size:,.1f} {unit}"


def format_share(part: float, whole: float) -> str:
    """A percentage; `0%` and `100%` are exact, and anything that only rounds to them says so."""
    if not whole:
        return "-"
    if part == 0 or part == whole:
        return "0%" if part == 0 else "100%"
    percent = f"{100 * part / whole:.1f}%"
    return {"0.0%": "<0.1%", "100.0%": ">99.9%"}.get(percent, percent)


def format_count(count: int, noun: str) -> str:
    """`1 token`, `1,234 tokens`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def clip(title: str, size: int) -> str:
    """One line of at most `size` characters: white space runs become a space, control characters U+FFFD."""
    line = " ".join(title[: 8 * size].split())
    line = "".join(letter if letter.isprintable() or letter == "\u200d" else "\ufffd" for letter in line)
    return line if len(line) <= size else line[: size - 1] + "…"


def write_json(value: object) -> str:
    """Indented JSON with every list of numbers on one line."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    return BRANCH.sub(lambda match: "[" + " ".join(match[1].split()) + "]", text)
