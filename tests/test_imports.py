"""Who may import whom, read from the source; what the package offers; and that importing it does nothing else."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import fewer

SOURCE = Path(fewer.__file__).parent
GROUND = {"types", "errors", "kv", "aux_cache", "query_log"}
MIDDLE = {"model", "prune", "evict", "certify", "decide", "systems", "prompt"}  # siblings; they never import each other
BELOW_THE_TOP = GROUND | MIDDLE | {"receipt", "engine", "session"}
MAY_IMPORT = {
    "errors": set(),
    "types": {"errors"},
    "aux_cache": {"types"},
    "query_log": {"types"},
    "kv": {"errors", "aux_cache", "query_log"},
    **dict.fromkeys(MIDDLE, GROUND),
    "receipt": {"types", "errors"},
    "decide": GROUND | {"receipt"},  # attribution reads receipts
    "engine": GROUND | MIDDLE | {"receipt", "fewer.__version__"},
    "session": BELOW_THE_TOP - {"session"},
    **dict.fromkeys(["study", "serve", "scale"], BELOW_THE_TOP | {"fewer.__version__"}),
    "report": {"study", "errors", "fewer.__version__"},
    "cli": BELOW_THE_TOP | {"study", "report", "serve", "scale", "fewer.__version__"},
    "": BELOW_THE_TOP,  # the package itself: its public names
}
LIBRARIES = {  # besides Python's own; the others may use what pyproject.toml names
    "types": {"torch", "numpy"},
    "errors": set(),
    "aux_cache": {"torch", "numpy"},
    "query_log": {"torch", "numpy"},
    "kv": {"torch", "numpy"},
    "prune": {"torch", "numpy", "scipy", "pydantic"},
    "evict": {"torch", "numpy", "scipy"},
    "certify": {"torch", "numpy", "scipy"},
    "systems": {"numpy", "scipy"},
}


def read_imports(text: str, inside: str) -> tuple[set[str], set[str]]:
    """What a file imports: parts of this package by their first name, and libraries by theirs.

    `inside` is the module's own package, for relative imports. `import fewer` counts as "fewer.__version__" where
    nothing else of it is used, and as "fewer" otherwise.
    """
    ours, theirs = set(), set()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = inside.split(".")[: len(inside.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*package, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "fewer" else [base]
        else:
            continue
        for name in names:
            first, _, rest = name.partition(".")
            if first != "fewer":
                theirs.add(first)
            elif rest:
                ours.add(rest.split(".")[0])
            else:
                uses = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and _is_name(n.value, "fewer")}
                ours.add("fewer.__version__" if uses <= {"__version__"} else "fewer")
    return ours, theirs - sys.stdlib_module_names


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def read_faults(path: Path, text: str) -> list[str]:
    """What a file, at this place in the package, imports against the rule."""
    part = path.parts[0].removesuffix(".py").removesuffix("__init__")
    if part not in MAY_IMPORT:
        return [f"{path} is in no tier"]
    ours, theirs = read_imports(text, ".".join(["fewer", *path.parent.parts]))
    faults = ours - MAY_IMPORT[part] - {part}
    if part in LIBRARIES:
        faults |= theirs - LIBRARIES[part]
    return [f"{path} imports {name}" for name in sorted(faults)]


def test_who_imports_whom() -> None:
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 30
    assert [fault for file in files for fault in read_faults(file.relative_to(SOURCE), file.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("prune/baselines.py", "from fewer.model.forward import Segment"),
        ("model/forward.py", "import fewer.prune.baselines"),
        ("model/forward.py", "from fewer import prune"),
        ("model/forward.py", "from ..prune import RandomPrune"),
        ("model/forward.py", "def late():\n    from fewer.engine import Engine"),
        ("model/forward.py", "import fewer"),
        ("prompt/layout.py", "if TYPE_CHECKING:\n    from fewer.model.adapter import Adapter"),
        ("receipt/model.py", "from fewer.kv import LayerKV"),
        ("receipt/model.py", "from fewer.engine import Answer"),
        ("engine/batch.py", "from fewer.cli import app"),
        ("engine/batch.py", "from fewer import Engine"),
        ("engine/batch.py", "import fewer\nfewer.Engine"),
        ("engine/batch.py", "from fewer.session import Session"),
        ("types.py", "from fewer.kv import State"),
        ("types.py", "import transformers"),
        ("errors.py", "import torch"),
        ("kv.py", "from fewer.types import Prompt"),
        ("prune/lazyllm.py", "import transformers.models"),
        ("systems/cost.py", "import torch"),
        ("report/tables.py", "from fewer.engine import Engine"),
        ("serve/app.py", "from fewer.cli import main"),
        ("utils.py", ""),
    ],
)
def test_the_rule_finds_faults(place: str, text: str) -> None:
    assert len(read_faults(Path(place), text)) == 1


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (
            "model/forward.py",
            "import torch\nfrom fewer.kv import State\nfrom fewer.model.adapter import Adapter\nfrom . import blocks",
        ),
        ("engine/record.py", "import fewer\nfrom fewer.prompt import lay_out\nprint(fewer.__version__)"),
        ("cli/app.py", "import fewer\nfrom fewer.engine import Engine\nimport typer"),
        ("prune/entroprefill/dual.py", "import scipy.optimize\nfrom ..planner import Grain\nfrom ...types import Plan"),
        ("__init__.py", "from fewer.engine import Engine"),
    ],
)
def test_the_rule_allows_what_it_should(place: str, text: str) -> None:
    assert read_faults(Path(place), text) == []


@pytest.mark.parametrize("name", fewer.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(fewer, name) is not None
    assert name in dir(fewer)


def test_the_public_names_are_complete() -> None:
    parts = ["decide", "engine", "errors", "evict", "prune", "receipt", "session", "types"]
    homes = {name: getattr(import_module(f"fewer.{part}"), name) for part in parts for name in _classes(part)}
    for name, value in homes.items():
        assert getattr(fewer, name) is value
    assert len(set(fewer.__all__)) == len(fewer.__all__)
    assert sorted(fewer.__all__, key=str.lower) == sorted([*homes, "__version__"], key=str.lower)


def _classes(part: str) -> list[str]:
    """The public classes of a part: those its `__all__` names, or all that it defines."""
    module = import_module(f"fewer.{part}")
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    classes = [name for name in names if inspect.isclass(getattr(module, name))]
    return {"decide": ["Gate"], "receipt": ["Receipt"]}.get(part, classes)


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Motor'"):
        _ = fewer.Motor


WATCH = """
import json, random, sys, warnings, logging, os
import numpy, torch
import fewer
for name in fewer.__all__:
    getattr(fewer, name)
import fewer.engine.engine, fewer.model.store, fewer.prompt  # whatever they need is loaded now
for name in [name for name in sys.modules if name.split(".")[0] == "fewer"]:
    del sys.modules[name]

def world():
    return [
        torch.get_num_threads(), torch.get_num_interop_threads(), torch.get_default_dtype(), torch.is_grad_enabled(),
        torch.initial_seed(), torch.get_rng_state().tolist(), random.getstate(), numpy.random.get_state()[1].tolist(),
        dict(os.environ), list(warnings.filters), list(logging.root.handlers), logging.root.level, os.getcwd(),
        sys.excepthook, sys.stdout, sys.stderr, list(sys.path), torch.backends.mkldnn.enabled,
    ]

before, events = world(), []
calm = ("object.", "compile", "exec", "marshal.", "import", "code.", "sys._getframe", "os.listdir", "builtins.id")

def watch(event, arguments):
    if not event.startswith(calm):
        events.append([event, str(arguments[0]) if arguments else ""])

sys.addaudithook(watch)
import fewer
for name in fewer.__all__:
    getattr(fewer, name)
import fewer.engine.engine, fewer.model.store, fewer.prompt
seen = list(events)
print(json.dumps({"same": repr(world()) == repr(before), "events": seen, "modules": len(sys.modules)}))
"""


def test_importing_does_nothing_else() -> None:
    """In a fresh process: no file but the package's own is read, no socket, no process, nothing global is changed."""
    run = subprocess.run([sys.executable, "-W", "error", "-c", WATCH], capture_output=True, text=True, check=False)
    assert run.stderr == ""
    found = json.loads(run.stdout)
    assert found["same"]
    for event, what in found["events"]:
        assert event == "open", f"{event} {what}"
        assert Path(what).resolve().is_relative_to(SOURCE), what
    assert found["events"]


def test_the_package_itself_loads_nothing_heavy() -> None:
    script = "import sys, fewer; print(sorted({'torch', 'transformers', 'pydantic', 'rich'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
