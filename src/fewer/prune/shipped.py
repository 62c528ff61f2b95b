"""Files about one model: read from a path, or found among those that come with the package."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from fewer.errors import BadInput, bad
from fewer.types import ModelFacts

__all__ = ["check_model", "find_shipped", "read_model_file"]


Kind = TypeVar("Kind", bound=BaseModel)


def read_model_file(kind: type[Kind], path: str | Path, name: str, way_out: str) -> Kind:
    """The file as `kind`. Raises BadInput where it cannot be read, is no JSON, or is something else."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # a name with a null byte, and text that is not UTF-8, are ValueErrors
        reason = getattr(error, "strerror", None) or error
        raise bad(name, str(path), "a readable file", f"{reason}. {way_out}") from None
    return _parse(kind, text, str(path), name, way_out)


@cache
def find_shipped(kind: type[Kind], folder: str, fingerprint: str, way_out: str) -> Kind | None:
    """The one in this folder of the package's profiles that was made for the model with this fingerprint."""
    place = files("fewer.prune").joinpath("profiles").joinpath(folder)
    for entry in place.iterdir() if place.is_dir() else ():
        if entry.name.endswith(".json"):
            found = _parse(kind, entry.read_text(encoding="utf-8"), entry.name, "profile", way_out)
            if found.fingerprint == fingerprint:  # type: ignore[attr-defined]
                return found
    return None


def check_model(model: str, fingerprint: str, num_layers: int, num_heads: int, facts: ModelFacts, way_out: str) -> None:
    """Raise BadInput, with what differs, where a file made for the first model is to be used for that of `facts`."""
    pairs = (
        ("weights", fingerprint[:8], facts.fingerprint[:8], fingerprint == facts.fingerprint),
        ("layers", num_layers, facts.num_layers, num_layers == facts.num_layers),
        ("heads", num_heads, facts.num_heads, num_heads == facts.num_heads),
    )
    differ = [f"{name} ({own} in the file, {its} in the model)" for name, own, its, same in pairs if not same]
    if differ:
        legal = f"made for the model that runs, {facts.name}; the two differ in {' and '.join(differ)}"
        raise bad("profile", model, legal, way_out)


def _parse(kind: type[Kind], text: str, source: str, name: str, way_out: str) -> Kind:
    try:
        return kind.model_validate(json.loads(text))
    except RecursionError:
        raise bad(name, source, "a JSON file of a few levels", way_out) from None
    except json.JSONDecodeError as error:
        raise bad(name, source, "a JSON file", f"Line {error.lineno}: {error.msg}. {way_out}") from None
    except ValidationError as error:
        raise BadInput(f"The {name} {source} cannot be used: {_explain(error, way_out)}") from None


def _explain(error: ValidationError, way_out: str) -> str:
    """Where the first fault is, what it is, the value if it is a small one, and the way out, once."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    own = first.get("ctx", {}).get("error")  # raised by a check of ours, which says it in a whole sentence
    if isinstance(own, BadInput):
        says = f"{where}: {own}" if where else str(own)
        return says if way_out in says else f"{says} {way_out}"
    value = first["input"]
    shown = f"; it is {value!r}" if value is None or isinstance(value, (bool, int, float, str)) else ""
    says = f"{first['msg']}{shown if len(shown) < 80 else ''}"
    return f"{where or 'the whole'}: {says}. {way_out}"
