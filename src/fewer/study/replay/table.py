"""The rows of a replay on disk: for each prompt one file of cells and one of worlds, each there whole or not at all.

    RUN/run.json                       the study, prompts, model, versions; written once
    RUN/prompts/0003.worlds.parquet    written first
    RUN/prompts/0003.cells.parquet     a prompt is finished when this one is there

`layer` and `draw` count from 1 and 0, `head` (of the queries) and `step` from 0. Errors and radii are relative to the
norm of the full cache's output, variances to its square. Null where an arm has no known probabilities.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fewer.errors import BadInput
from fewer.study.files import refuse, sync

__all__ = ["CELLS", "WORLDS", "join", "read_done", "read_tables", "write_prompt"]

_NAME, _FLOAT, _SMALL = pa.dictionary(pa.int8(), pa.string()), pa.float32(), pa.int16()
_PLACE = [("prompt", _SMALL), ("condition", _NAME), ("budget", _FLOAT)]
_CELL = [("layer", _SMALL), ("head", _SMALL), ("step", _SMALL)]

CELLS = pa.schema(
    [
        *_PLACE,
        ("arm", _NAME),
        ("draw", _SMALL),
        *_CELL,
        ("error", _FLOAT),  # of the arm's own estimate
        ("plug_in", _FLOAT),  # of the same rows without the offset
        ("kept", pa.int32()),  # rows of this head in the compressed cache
        ("asked", pa.int32()),  # rows that the budget allows
        ("radius", _FLOAT),  # the audited form
        ("variance", _FLOAT),
        ("kappa", _FLOAT),
        ("paper_radius", _FLOAT),  # equation (4)
        ("paper_variance", _FLOAT),
    ]
)
WORLDS = pa.schema(
    [
        *_PLACE,
        ("world", _SMALL),  # 0: as it was
        *_CELL,
        ("error", _FLOAT),  # of top-k
        ("same", pa.bool_()),  # what it retained has the bits of world 0
        ("sampled_error", _FLOAT),
        ("sampled_radius", _FLOAT),
    ]
)


def join(schema: pa.Schema, parts: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Columns as a table of the schema. Each part: arrays [layers, heads, steps], or one value for all of them."""
    tables = []
    for part in parts:
        shape = np.shape(part["error"])
        axes = dict(zip(("layer", "head", "step"), np.indices(shape), strict=True))
        axes["layer"] += 1
        columns = []
        for field in schema:
            value = part.get(field.name, axes.get(field.name))
            whole = None if value is None else np.broadcast_to(value, shape).ravel()
            kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
            array = pa.nulls(int(np.prod(shape)), kind) if whole is None else pa.array(whole).cast(kind, safe=False)
            columns.append(array.dictionary_encode() if kind is not field.type else array)
        tables.append(pa.table(columns, names=schema.names).cast(schema))
    return pa.concat_tables([schema.empty_table(), *tables]).unify_dictionaries()


def write_prompt(folder: Path, number: int, study: str, cells: pa.Table, worlds: pa.Table) -> None:
    """Write a finished prompt. Raises StorageError; then it is not finished. study: the SHA-256, kept in the files."""
    for kind, table in (("worlds", worlds), ("cells", cells)):
        path = folder / "prompts" / f"{number:04d}.{kind}.parquet"
        waiting = path.with_suffix(".part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table.replace_schema_metadata({"study_sha256": study}), waiting, compression="zstd")
            sync(waiting)
            os.replace(waiting, path)
        except OSError as error:
            waiting.unlink(missing_ok=True)
            raise refuse(path, error) from error


def read_done(folder: Path) -> set[int]:
    """The prompts that are finished."""
    return {int(path.name[:4]) for path in (folder / "prompts").glob("[0-9][0-9][0-9][0-9].cells.parquet")}


def read_tables(folder: Path, study: str) -> tuple[pa.Table, pa.Table]:
    """Cells and worlds of all finished prompts. Raises BadInput for a broken file, or one of another study."""
    found = []
    for kind, schema in (("cells", CELLS), ("worlds", WORLDS)):
        tables = [schema.empty_table()]
        for number in sorted(read_done(folder)):
            path = folder / "prompts" / f"{number:04d}.{kind}.parquet"
            try:
                table = pq.read_table(path)
                of = (table.schema.metadata or {}).get(b"study_sha256", b"").decode()
                tables.append(table.cast(schema))
            except (OSError, KeyError, ValueError, pa.ArrowException) as error:
                why = f"{type(error).__name__}: {error}"
                raise BadInput(f"{path} is broken ({why}). Remove the prompt's two files and run it again.") from None
            if of != study:
                raise BadInput(f"{path} is of another study ({of[:12]}, not {study[:12]}). Take it out.")
        found.append(pa.concat_tables(tables).unify_dictionaries())
    return found[0], found[1]
