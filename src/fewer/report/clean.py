"""The one place where characters that act on the reader's screen are taken out of a report.

Names and reasons come from users and from errors. Control characters other than tab and line feed, characters that turn
the direction of text for what follows (U+202A to U+202E, U+2066 to U+2069), line and paragraph separators, halves of
surrogate pairs and U+FFFE, U+FFFF become U+FFFD each. Not covered: letters that look alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

__all__ = ["clean"]

ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def clean(part: Any) -> Any:
    """The same document, block, cell or text without them; what has none is returned as it is."""
    if isinstance(part, str):
        return ACTING.sub("\ufffd", part.replace("\r\n", "\n"))
    if isinstance(part, tuple):
        return tuple(map(clean, part))
    if isinstance(part, Mapping):
        return {key: clean(value) for key, value in part.items()}
    if not is_dataclass(part) or isinstance(part, type):
        return part
    before = {field.name: getattr(part, field.name) for field in fields(part)}
    after = {name: clean(value) for name, value in before.items()}
    return part if after == before else replace(part, **after)
