"""SQL over the logs of runs, by DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from fewer.errors import BadInput
from fewer.study.folder import read_run

__all__ = ["open_rows", "query_runs"]


def open_rows(runs: Sequence[str | Path]) -> duckdb.DuckDBPyConnection:
    """A connection whose table `rows` has every row of the runs, and the run's folder in the column `run`."""
    tables = []
    for folder in runs:
        rows = read_run(folder).rows
        tables.append(rows.append_column("run", pa.array([str(folder)] * rows.num_rows, pa.string())))
    if not tables:
        raise BadInput("No run is given. Name at least one run's folder.")
    connection = duckdb.connect()
    connection.register("rows", pa.concat_tables(tables))
    return connection


def query_runs(runs: Sequence[str | Path], sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The column names and the rows of one query. Raises BadInput for what DuckDB cannot do, with its message."""
    with open_rows(runs) as connection:
        try:
            found = connection.execute(sql)
            names = [column[0] for column in found.description or ()]
            return names, found.fetchall()
        except duckdb.Error as error:
            raise BadInput(f"The query fails: {str(error).strip()}") from None
