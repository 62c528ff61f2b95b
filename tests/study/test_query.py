"""SQL over runs: one question that reads, and no way out to the machine."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from madeup import row

from fewer.errors import BadInput
from fewer.study import query
from fewer.study.query import query_runs, write_json
from fewer.study.row import to_table


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> dict[Path, pa.Table]:
    """What lies in which folder."""

    def make(ended: str) -> pa.Table:
        return to_table([row("a", number, "full", score=number / 2, ended=ended) for number in range(3)])

    found = {Path("one"): make("noon"), Path("two"): make("night"), Path("copy"): make("noon")}
    monkeypatch.setattr(query, "read_run", lambda folder: SimpleNamespace(rows=found[Path(folder)]))
    return found


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT avg(score) FROM rows", [(0.5,)]),
        ("SELECT run, count(*) FROM rows GROUP BY run;", [("one", 3)]),
        ("WITH a AS (SELECT 1 AS x) SELECT x FROM a -- all", [(1,)]),
        ("FROM rows SELECT max(score)", [(1.0,)]),
        ("VALUES (1), (2)", [(1,), (2,)]),
    ],
)
def test_a_question_is_answered(runs: dict[Path, pa.Table], sql: str, answer: list[tuple[object, ...]]) -> None:
    assert query_runs(["one"], sql)[1] == answer


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "  -- nothing",
        ";",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP VIEW rows",
        "COPY rows TO '{out}'",
        "ATTACH '{out}'",
        "EXPORT DATABASE '{out}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 1",
        "PRAGMA version",
        "CREATE TABLE x AS SELECT 1",
        "INSERT INTO rows SELECT * FROM rows",
        "DELETE FROM rows",
        "UPDATE rows SET score = 1",
        "DROP VIEW rows",
        "EXPLAIN ANALYZE COPY rows TO '{out}'",
    ],
)
def test_whatever_is_no_single_question_is_refused(runs: dict[Path, pa.Table], tmp_path: Path, sql: str) -> None:
    out = tmp_path / "out"
    with pytest.raises(BadInput, match="one statement that reads"):
        query_runs(["one"], sql.format(out=out))
    assert not out.exists()


@pytest.mark.parametrize("source", ["'{file}'", "read_csv('{file}')", "read_text('{file}')", "glob('{folder}/*')"])
def test_files_are_out_of_reach(runs: dict[Path, pa.Table], tmp_path: Path, source: str) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match="The query fails"):
        query_runs(["one"], "SELECT * FROM " + source.format(file=file, folder=tmp_path))


def test_variables_of_the_program_are_no_tables(runs: dict[Path, pa.Table]) -> None:
    for name in ("tables", "runs"):
        with pytest.raises(BadInput, match="does not exist"):
            query_runs(["one"], f"SELECT * FROM {name}")


def test_a_run_counts_once(runs: dict[Path, pa.Table], tmp_path: Path) -> None:
    assert query_runs(["one", "two"], "SELECT count(*) FROM rows")[1] == [(6,)]
    runs[Path("two/../one")] = runs[Path("one")]
    for twice in (["one", "one"], ["one", "two/../one/"], ["two", "one", "copy"]):
        with pytest.raises(BadInput, match="given once, and one has the same rows") as caught:
            query_runs(twice, "SELECT count(*) FROM rows")
        assert "the run is" in str(caught.value)


def test_json_is_json_and_drops_nothing(runs: dict[Path, pa.Table]) -> None:
    sql = (
        "SELECT 'nan'::DOUBLE AS a, ['inf'::DOUBLE, 1] AS b, {'c': 'nan'::FLOAT} AS d, DATE '2020-01-02' AS e, 0.5 AS f"
    )
    (found,) = json.loads(write_json(*query_runs(["one"], sql)), parse_constant=pytest.fail)
    assert found == {"a": None, "b": [None, 1.0], "d": {"c": None}, "e": "2020-01-02", "f": 0.5}
    with pytest.raises(BadInput, match="the name of a column is 'score'"):
        write_json(*query_runs(["one"], "SELECT score, score FROM rows"))
