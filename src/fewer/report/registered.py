"""What a report says first: whether the run was registered, and whether that came before the run.

A registration's status compares contents; the dates are compared here, with the start of the run and with the end of
each answer. All three are as the machines' clocks had them. A registration of the same second does not count as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fewer.report.block import Notice, Tone
from fewer.report.log import Log

__all__ = ["announce"]

HASH = "A hash proves a date only where others could see it then: look for it where it was published."


def announce(log: Log) -> Notice:
    """The notice on the registration. It says "before" only where every date says so."""
    registration: Mapping[str, Any] = log.run.header.get("registration") or {}
    kind = registration.get("kind", "none")
    sentence = str(registration.get("sentence") or "Nothing is noted about a registration: take it as exploratory.")
    texts = [sentence, *map(str, registration.get("differences", ())), *map(str, registration.get("notes", ()))]
    if kind not in ("registered", "differs"):
        return Notice("Not registered", tuple(texts), "warn")
    late, unknown = _find_late(log, registration), _find_unknown(log, registration)
    title, tone = _name(kind, late, unknown)
    texts += [text for text in (late, unknown) if text and text != title]
    if kind == "registered":
        texts.append(HASH)
    return Notice(title, tuple(texts), tone)


def _name(kind: str, late: str, unknown: str) -> tuple[str, Tone]:
    if kind == "differs":
        return "This run differs from what was registered", "alarm"
    if late:
        return late, "alarm"
    return ("Registered; when is not known", "warn") if unknown else ("Registered before the run", "good")


def _find_late(log: Log, registration: Mapping[str, Any]) -> str:
    """How a registration came too late, in a sentence without an end; empty where nothing says so."""
    registered, started = _read(registration.get("registered_at")), _read(log.run.header.get("started"))
    if registered is None:
        return ""
    if started is not None and registered > started:
        return f"Registered AFTER the run began: registered {_show(registered)}, begun {_show(started)}"
    if started is not None and registered == started:
        return f"Registered NO EARLIER than the run began: both {_show(registered)}"
    ends = [_read(end) for end in log.run.rows["ended"].to_pylist()]
    early = sum(end is not None and end <= registered for end in ends)
    if early:
        return f"Registered AFTER answers had come: {early:,} of {len(ends):,} had ended by {_show(registered)}"
    return ""


def _find_unknown(log: Log, registration: Mapping[str, Any]) -> str:
    """Which date is missing or cannot be read."""
    dates = {
        "the registration": registration.get("registered_at"),
        "the start of the run": log.run.header.get("started"),
    }
    missing = [name for name, text in dates.items() if _read(text) is None]
    if not missing:
        return ""
    return f"No readable date is noted of {' and of '.join(missing)}: nothing shows which came first."


def _read(text: object) -> datetime | None:
    """A time in ISO 8601; without a zone it is UTC."""
    try:
        time = datetime.fromisoformat(str(text))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _show(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
