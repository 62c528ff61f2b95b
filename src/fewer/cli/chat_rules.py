"""`--recompute` of `fewer chat`: never, always, or a gate written as `signal=NAME,rate=SHARE` and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fewer.errors import BadInput, bad

if TYPE_CHECKING:
    from fewer.session.recompute import Rule

__all__ = ["parse_recompute"]

_LEGAL = "never, always, file=PATH, or signal=NAME with rate=SHARE or threshold=NUMBER"
_WAY_OUT = "Write for example --recompute signal=certificate,rate=0.25."
_WHOLE = ("window", "slack", "seed")


def parse_recompute(text: str) -> Rule:
    """The rule. file=PATH is a calibrated gate; a gate may also be given missing, window, slack and seed.

    Raises BadInput.
    """
    if text in ("never", "always"):
        return "never" if text == "never" else "always"
    from fewer.decide import CalibratedGate, Gate

    parts: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not value or name in parts:
            raise bad("--recompute", text, _LEGAL, _WAY_OUT)
        parts[name] = value
    if set(parts) == {"file"}:
        return CalibratedGate.load(parts["file"])
    known = ("signal", "threshold", "rate", "missing", *_WHOLE)
    if unknown := sorted(set(parts) - set(known)):
        raise bad(f"--recompute {unknown[0]}", parts[unknown[0]], f"one of {', '.join(known)}", _WAY_OUT)
    if "signal" not in parts or ("rate" in parts) == ("threshold" in parts):
        raise bad("--recompute", text, _LEGAL, _WAY_OUT)
    try:
        return Gate(
            parts["signal"],
            threshold=_read(parts, "threshold", float),
            rate=_read(parts, "rate", float),
            missing=parts.get("missing", "recompute"),  # type: ignore[arg-type]
            **{name: _read(parts, name, int) for name in _WHOLE},  # type: ignore[arg-type]
        )
    except BadInput as error:
        raise error.renamed(f"--recompute {error.name}") from None


def _read(parts: dict[str, str], name: str, kind: type[int] | type[float]) -> int | float | None:
    if name not in parts:
        return None
    try:
        return kind(parts[name])
    except ValueError:
        legal = "a whole number" if kind is int else "a number"
        raise bad(f"--recompute {name}", parts[name], legal, _WAY_OUT) from None
