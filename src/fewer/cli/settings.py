"""Settings of a method on the command line: options of their own, and `--set NAME=VALUE` for all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fewer.errors import BadInput, bad

__all__ = ["name_option", "read_settings"]

_TEXTS = ("keep", "profile")  # read by the method: 1.0 is a share and 1 a token, and a file may be called 3
_OTHERWISE = {"schedule": "keep", "check_items": "check"}  # what has another name in Python than here
_WORDS = {"true": True, "false": False, "none": None}


def read_settings(named: Mapping[str, Any], given: Sequence[str]) -> dict[str, Any]:
    """What was given, by name: of the options in `named` those that are not None, and every `NAME=VALUE`.

    A value is a number, true, false or none (Python's None) where it reads as one, else a text; `keep` and `profile`
    are texts always. Raises BadInput for a setting without a value, and for one given twice.
    """
    found = {name: value for name, value in named.items() if value is not None}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        name = name.replace("-", "_")
        if not equals or not name or not value:
            raise bad("--set", text, "NAME=VALUE", "Write for example --set tolerance=0.2.")
        if name in found:
            raise bad(f"--set {name}", value, "given once", "Leave one of the two out.")
        found[name] = value if name in _TEXTS else _read(value)
    return found


def name_option(error: BadInput, options: Mapping[str, str]) -> BadInput:
    """The error in the command line's words. options: of the parameters that were given, `--name` by name."""
    name = error.name
    if name is None:
        return error
    option = options.get(_OTHERWISE.get(name, name))
    if option is not None:
        return error.renamed(option)
    if "keep" in options and name == "a layer of the schedule":
        return error.renamed(f"a layer of {options['keep']}")
    if "keep" in options and name.startswith("what stays after"):
        return error.renamed(f"{name} in {options['keep']}")
    return error


def _read(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
