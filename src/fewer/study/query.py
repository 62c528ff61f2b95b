"""SQL over the logs of runs, by DuckDB: one query that reads, and nothing of the machine but the rows.

The connection reaches no file and no network, and cannot be told to. Not covered: a limit on time or memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from fewer.errors import BadInput, bad
from fewer.study.folder import read_run

__all__ = ["open_rows", "query_runs", "write_json"]


def open_rows(runs: Sequence[str | Path]) -> duckdb.DuckDBPyConnection:
    """A connection whose table `rows` has every row of the runs, and the run's folder in the column `run`.

    Raises BadInput where a run is given twice, by its folder or as a copy of it: its rows would count twice.
    """
    tables: list[pa.Table] = []
    seen: dict[tuple[str, ...], str | Path] = {}
    for folder in runs:
        run = read_run(folder)
        cells = run.rows.select(["cell", "ended"]).to_pylist()
        copies = ("rows", *sorted(f"{row['cell']} {row['ended']}" for row in cells))
        for mark in (("folder", str(Path(folder).resolve())), *([copies] if cells else [])):
            if mark in seen:
                legal = f"given once, and {seen[mark]} has the same rows"
                raise bad("the run", str(folder), legal, "Take one of the two out.")
            seen[mark] = folder
        tables.append(run.rows.append_column("run", pa.array([str(folder)] * run.rows.num_rows, pa.string())))
    if not tables:
        raise BadInput("No run is given. Name at least one run's folder.")
    connection = duckdb.connect(config={"enable_external_access": "false"})
    connection.register("rows", pa.concat_tables(tables))
    connection.execute("SET lock_configuration = true")
    return connection


def query_runs(runs: Sequence[str | Path], sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The column names and the rows of one query that reads (SELECT, WITH, FROM, VALUES, DESCRIBE, SUMMARIZE).

    Raises BadInput for anything else, and for what DuckDB cannot do, with its message.
    """
    with open_rows(runs) as connection:
        try:
            statements = connection.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                legal = "one statement that reads, such as SELECT arm, avg(score) FROM rows GROUP BY arm"
                raise bad("the query", sql, legal, "Ask one question at a time; rows cannot be changed.")
            found = connection.execute(statements[0])
            return [column[0] for column in found.description or ()], found.fetchall()
        except duckdb.Error as error:
            raise BadInput(f"The query fails: {str(error).strip()}") from None


def write_json(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """The rows as a JSON list of objects; NaN and infinities are null, and dates are texts.

    Raises BadInput where two columns have one name: an object would drop one of them.
    """
    for name in names:
        if list(names).count(name) > 1:
            raise bad("the name of a column", name, "given once in JSON", "Name the columns apart, with AS.")
    plain = [{name: _make_plain(value) for name, value in zip(names, row, strict=True)} for row in rows]
    return json.dumps(plain, allow_nan=False)


def _make_plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _make_plain(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_make_plain(held) for held in value]
    return value if value is None or isinstance(value, str | int) else str(value)
