"""Which tasks a folder holds, in which format, and the reader for each.

A file `<name>.jsonl` may be rows of this package's format, or LongBench, InfiniteBench or LooGLE as published; the
fields of its first row tell. RULER has a folder for each task. Not covered: formats mixed in one file, and Parquet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fewer.errors import BadInput, DocumentError, bad
from fewer.study.item import Item
from fewer.study.tasks import infinitebench, longbench, longbench_v2, loogle, ruler
from fewer.study.tasks.reading import read_first
from fewer.study.tasks.rows import read_rows

__all__ = ["Source", "find_tasks"]

_SPLIT = "validation"  # of RULER, unless another is named


@dataclass(frozen=True, slots=True)
class Source:
    """A task in a folder: its name, its format, and how to read its items."""

    name: str
    format: str
    path: Path
    read: Callable[[], tuple[Item, ...]]


def find_tasks(folder: Path, split: str | None = None) -> dict[str, Source]:
    """The tasks of a folder by name, sorted. `split` is a folder in it, or of RULER the name of the files.

    Also listed are files that cannot be read, those of no known format, and the tasks that a benchmark has and this
    package refuses; reading one of these is the error that says why. Raises BadInput where `folder` is none or two
    files hold the same task.
    """
    if not folder.is_dir():
        raise bad("the data folder", str(folder), "an existing folder", "Check the path.")
    if split is None or (folder / split).is_dir():
        folder = folder / (split or "")
        sources = [*_find_files(folder), *_find_ruler(folder, _SPLIT)]
    else:
        sources = _find_ruler(folder, split)
    found: dict[str, Source] = {}
    for source in sources:
        if source.name in found:
            legal = f"in one file, and {found[source.name].path.name} has it too"
            raise bad(f"the task {source.name} in {source.path}", source.name, legal, "Take one of the two away.")
        found[source.name] = source
    return dict(sorted(found.items()))


def _find_files(folder: Path) -> list[Source]:
    sources = []
    for path in sorted(folder.iterdir()):
        stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
        if path.is_file() and path.name.endswith((".jsonl", ".jsonl.gz")):
            sources.append(_recognise(path, stem))
        elif path.is_file() and path.name in ("data.json", f"{longbench_v2.TASK}.json"):
            read = partial(longbench_v2.read_longbench_v2, path)
            sources.append(Source(longbench_v2.TASK, "LongBench v2", path, read))
    return sources


def _find_ruler(folder: Path, split: str) -> list[Source]:
    sources = []
    for path in sorted(folder.glob(f"*/{split}.jsonl")):
        keys = _peek(path)
        if keys is None or keys >= ruler.FIELDS:
            task = path.parent.name
            sources.append(Source(ruler.name_task(task), "RULER", path, partial(ruler.read_ruler, path, task)))
    return sources


def _recognise(path: Path, stem: str) -> Source:
    keys = _peek(path)
    if keys is None or "context_chunks" in keys:
        return Source(stem, "rows", path, partial(read_rows, path, stem))
    if keys >= longbench_v2.FIELDS:
        read = partial(longbench_v2.read_longbench_v2, path)
        return Source(longbench_v2.TASK, "LongBench v2", path, read)
    if keys >= longbench.FIELDS:
        return Source(longbench.name_task(stem), "LongBench", path, partial(longbench.read_longbench, path, stem))
    if keys >= infinitebench.FIELDS:
        read = partial(infinitebench.read_infinitebench, path, stem)
        return Source(infinitebench.name_task(stem), "InfiniteBench", path, read)
    if keys >= loogle.DOCUMENT_FIELDS or keys >= loogle.QUESTION_FIELDS:
        return Source(loogle.name_task(stem), "LooGLE", path, partial(loogle.read_loogle, path, stem))
    return Source(stem, "unknown", path, partial(_refuse, path, sorted(keys)))


def _peek(path: Path) -> set[str] | None:
    """The fields of the first row; None where there is none, or none that can be read."""
    try:
        line = read_first(path)
    except (BadInput, DocumentError):
        return None
    return set(line.row) if line else None


def _refuse(path: Path, keys: list[str]) -> tuple[Item, ...]:
    legal = "those of fewer's rows, LongBench, LongBench v2, InfiniteBench or LooGLE"
    raise bad(f"the fields of the first row of {path}", ", ".join(keys), legal, "Convert it to fewer's rows.")
