"""Reading a study's file: YAML, JSON or Python, as plain values; what is none, or never ends, is refused.

YAML is read safely: no tags that make objects, no key given twice, no alias that holds itself, and no more than
`MOST_VALUES` values once every alias is written out. `1e-3` is a number, as in JSON. A Python file is run as it is:
whoever runs a study trusts it.
"""

from __future__ import annotations

import math
import re
import runpy
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fewer.errors import BadInput, bad

__all__ = ["MOST_VALUES", "check_plain", "read_document"]

MOST_VALUES = 100_000
_DEEPEST = 50
_WAY_OUT = "Write the study with plain values."


def read_document(path: Path) -> Any:
    """What a .yaml, .yml or .json file holds, or what a .py file assigns to STUDY. Raises BadInput with the path."""
    if path.suffix not in (".yaml", ".yml", ".json", ".py"):
        raise bad("the study's file", str(path), "a .yaml, .yml, .json or .py file", "Rename it, or write one.")
    if not path.exists():
        raise BadInput(f"{path} does not exist. Check the path; relative paths start at {Path.cwd()}.")
    try:
        return _run(path) if path.suffix == ".py" else _read_yaml(path.read_text(encoding="utf-8"))
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    except SystemExit as error:
        raise BadInput(
            f"{path} cannot be read as a study: it ends Python (sys.exit with {error.code!r}). Let it assign STUDY."
        ) from None
    except Exception as error:
        raise BadInput(f"{path} cannot be read as a study: {type(error).__name__}: {error}") from None


def check_plain(content: object) -> None:
    """Raise BadInput unless all of it is texts, numbers, booleans, null, lists, and mappings with texts as keys.

    Numbers are finite, and whole ones fit into 64 bits with sign. Models of pydantic pass: they are checked already.
    """
    waiting: list[tuple[str, object, int]] = [("", content, 0)]
    num_values = 0
    while waiting:
        place, value, depth = waiting.pop()
        num_values += 1
        if num_values > MOST_VALUES or depth > _DEEPEST:
            legal = f"at most {MOST_VALUES:,} values, {_DEEPEST} deep, and none may hold itself"
            raise BadInput(f"{place or 'The study'} holds too much; a study has {legal}. {_WAY_OUT}")
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise bad(f"a key of {place or 'the study'}", key, "a text", "Put it in quotes.")
            waiting += [(f"{place}.{key}".lstrip("."), held, depth + 1) for key, held in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(f"{place}.{number}".lstrip("."), held, depth + 1) for number, held in enumerate(value)]
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise BadInput(f"{place or 'The study'} is a number of more than 64 bits. Take a smaller one.")
        elif isinstance(value, float) and not math.isfinite(value):
            raise bad(place, value, "a finite number", _WAY_OUT)
        elif not (value is None or isinstance(value, str | int | float | BaseModel)):
            legal = f"a text, a number, a list or a mapping, and it is a {type(value).__name__}"
            raise bad(place or "the study", value, legal, "Put it in quotes for a text, or write it as a list.")


def _run(path: Path) -> Any:
    found = runpy.run_path(str(path))
    if "STUDY" not in found:
        raise BadInput("it defines no STUDY. Assign the study, or a dict of its fields, to STUDY.")
    return found["STUDY"]


def _read_yaml(text: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """YAML with numbers as JSON writes them."""

    number = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(number.pattern + "$"), list("-+.0123456789"))
    loader = Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if (size := _measure(node, {})) > MOST_VALUES:
            raise bad("its size with every alias written out", size, f"at most {MOST_VALUES:,} values", _WAY_OUT)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _measure(node: Any, sizes: dict[int, int]) -> int:
    """The values under a node, every alias counted where it stands. Raises BadInput for loops and repeated keys."""
    if id(node) in sizes:
        if not sizes[id(node)]:
            raise BadInput(f"line {node.start_mark.line + 1}: an alias (*) stands inside of what it names. {_WAY_OUT}")
        return sizes[id(node)]
    sizes[id(node)] = 0
    held = node.value if not isinstance(node.value, str) else []
    if held and isinstance(held[0], tuple):
        seen: set[str] = set()
        for key, _ in held:
            name = key.value if isinstance(key.value, str) else ""
            if name in seen and name != "<<":
                line = f"line {key.start_mark.line + 1}"
                raise bad(f"{line}: the key", name, "given once", "Take one of the two out.")
            seen.add(name)
        held = [part for pair in held for part in pair]
    sizes[id(node)] = 1 + sum(_measure(part, sizes) for part in held)
    return sizes[id(node)]
