"""Numbers as people read them: the same on the page and in Markdown, with a true minus and a fixed number of digits."""

from __future__ import annotations

__all__ = ["write_bytes", "write_count", "write_number", "write_plain", "write_seconds", "write_share", "write_signed"]


def write_number(value: float, digits: int = 3) -> str:
    """`0.732`; `−0.100`."""
    return f"{value + 0.0:.{digits}f}".replace("-", "−")


def write_plain(value: float) -> str:
    """As many digits as it has: `0.5`; `−0.1`."""
    return f"{value:g}".replace("-", "−")


def write_signed(value: float, digits: int = 3) -> str:
    """`+0.012`; `−0.100`; `0.000` has no sign."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def write_share(value: float) -> str:
    """A share of one as a percentage: `25.0%`; only what is exactly all or nothing is written so."""
    if value in (0.0, 1.0):
        return f"{100 * value:.0f}%"
    text = f"{100 * value:.1f}%"
    return {"0.0%": "<0.1%", "100.0%": ">99.9%"}.get(text, text)


def write_seconds(value: float) -> str:
    """`18 ms`, `1.42 s`, `125 s`."""
    if value < 0.9995:
        return f"{1000 * value:.0f} ms" if value >= 0.00995 or value == 0 else f"{1000 * value:.2g} ms"
    return f"{value:.2f} s" if value < 99.5 else f"{value:,.0f} s"


def write_bytes(value: float) -> str:
    """`512 B`, `3.4 KiB`, `1.2 GiB`."""
    size, unit = float(value), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1023.95:
            break
        size, unit = size / 1024, larger
    return f"{size:,.0f} B" if unit == "B" else f"{size:,.1f} {unit}"


def write_count(count: int, noun: str, plural: str = "") -> str:
    """`1 item`, `1,234 items`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
