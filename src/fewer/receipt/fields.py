"""The kinds of field a receipt has. Numbers are finite and strict: no text, no booleans; only `Number` may be negative.

`STRICT` is the configuration of every record: frozen, no unknown fields, and the docstring under a field becomes its
description in the JSON schema.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue

STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)
SURROGATE = re.compile("[\ud800-\udfff]")


def make_plain(value: object) -> object:
    """`value` with tuples as lists and lone surrogates (from undecodable file names) as U+FFFD, so that it is JSON."""
    if isinstance(value, str):
        return SURROGATE.sub("\ufffd", value)
    if isinstance(value, list | tuple):
        return [make_plain(item) for item in value]
    if isinstance(value, dict):
        return {make_plain(key): make_plain(item) for key, item in value.items()}
    return value


Text = Annotated[str, BeforeValidator(make_plain)]
Settings = Annotated[dict[str, JsonValue], BeforeValidator(make_plain)]
Count = Annotated[int, Field(ge=0, strict=True)]
Seconds = Annotated[float, Field(ge=0, strict=True)]
Number = Annotated[float, Field(strict=True)]
PerLayer = tuple[Count, ...]
