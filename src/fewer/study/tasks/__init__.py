"""Tasks: loaded from a folder in any of the known formats, or from the sample that comes with the package.

Not covered: downloading, and cutting items to a length in tokens, which is the run's business. Generated tasks are in
`fewer.study.tasks.generate`.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from fewer.errors import bad
from fewer.study.item import Item
from fewer.study.tasks.formats import find_tasks
from fewer.study.tasks.spreading import spread

__all__ = ["SAMPLE", "list_tasks", "load_sample", "load_task"]

SAMPLE = Path(__file__).parent / "sample"
"""The folder of the sample: rows under permissive licences, each named in its NOTICE."""


def load_task(
    name: str, data: str | Path | None = None, num_items: int | None = None, *, seed: int = 0, split: str | None = None
) -> tuple[Item, ...]:
    """Items of a task, in an order that is spread over its clusters; with `num_items`, the first so many.

    name: one of `list_tasks(data, split)`. data: a folder of rows in this package's format, or of LongBench, LongBench
    v2, RULER, InfiniteBench or LooGLE as published; None is the sample. split: a folder in `data`, or of RULER the
    name of its files (`validation` unless given). seed: draws the order; the first 10 items are the same however many
    are taken, and do not depend on the order in the file. Where the task has fewer than `num_items`, all are given.

    Raises BadInput for an unknown task (with names like it), a task that a benchmark has and this package refuses, a
    malformed row, or a `num_items` below 1; DocumentError for a file that cannot be read.
    """
    if num_items is not None and (not isinstance(num_items, int) or isinstance(num_items, bool) or num_items < 1):
        raise bad("num_items", num_items, "None or a whole number of at least 1", "Leave it out to take all.")
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise bad("seed", seed, "a whole number", "Leave it out for 0.")
    sources = find_tasks(SAMPLE if data is None else Path(data), split)
    if name not in sources:
        near = get_close_matches(str(name), sources, n=3, cutoff=0.4) or list(sources)
        where = "the sample" if data is None else str(data)
        way_out = f"Is it {' or '.join(near)}?" if near else "Check the path; a folder in it may be its split."
        raise bad(f"the task in {where}", name, "a task that is there", way_out)
    return spread(sources[name].read(), seed)[:num_items]


def list_tasks(data: str | Path | None = None, split: str | None = None) -> tuple[str, ...]:
    """The names of the tasks in a folder, or in the sample, sorted. Raises as `load_task`."""
    return tuple(find_tasks(SAMPLE if data is None else Path(data), split))


def load_sample() -> dict[str, tuple[Item, ...]]:
    """Every task of the sample with all of its items: enough to try the harness, too few to claim anything."""
    return {name: load_task(name) for name in list_tasks()}
