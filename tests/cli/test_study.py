"""`fewer study` and `fewer report` on the tiny model: what they print, what they write, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import Result

from fewer.cli.study import time_words

Run = Callable[..., Result]
ARMS = [{"name": "full"}, {"condition": "no_context"}, {"prune": ["random", "static"], "keep": "50%", "layer": 1}]
CLAIM = {
    "id": "C1",
    "statement": "Half is enough.",
    "kind": "difference",
    "arm": "static keep=50% layer=1",
    "at_least": -0.1,
    "kill_below": -0.1,
}


@pytest.fixture
def file(model: Path) -> Path:
    """A study over four made-up rows, in the working folder."""
    rows = [
        {
            "id": f"r{i}",
            "task": "lamps",
            "category": "single_doc_qa",
            "group": f"g{i}",
            "context_chunks": [{"title": "", "text": f"The lamp of tower {j} is red."} for j in range(3)],
            "question": "What colour?",
            "answers": ["red"],
            "supporting": [0],
            "metric": "qa_f1",
        }
        for i in range(4)
    ]
    Path("rows").mkdir()
    Path("rows/lamps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    content = {
        "name": "lamps",
        "model": {"path": str(model), "dtype": "float32"},
        "tasks": [{"name": "lamps", "data": "rows"}],
        "arms": ARMS,
        "sampling": {"max_tokens": 4},
        "claims": [CLAIM],
    }
    Path("study.yaml").write_text(yaml.safe_dump(content))
    Path("exit.py").write_text("import sys\n\nsys.exit(0)\n")
    return Path("study.yaml")


def test_from_registration_to_report(run: Run, file: Path) -> None:
    registered = run("study register study.yaml")
    assert registered.exit_code == 0, registered.output
    digest = registered.stdout.strip()
    assert json.loads(Path("study.registration.json").read_text())["sha256"] == digest
    assert "1 claims over 4 items" in registered.stderr
    assert "asks for 10 clusters and its tasks have" in registered.stderr

    ran = run("study run study.yaml --out run")
    assert (ran.exit_code, ran.stdout) == (0, ""), ran.output
    assert "4 items answered now (16 ok). The log is in run." in ran.stderr
    again = run("study run study.yaml --out run")
    assert "4 of 4 items are done" in again.stderr
    assert "0 items answered now (nothing was left)" in again.stderr

    found = run(
        ["study", "query", "run", "--json", "--sql", "SELECT arm, count(*) AS n FROM rows GROUP BY arm ORDER BY 1"]
    )
    assert json.loads(found.stdout) == [
        {"arm": arm, "n": 4} for arm in ("full", "no_context", "random keep=50% layer=1", "static keep=50% layer=1")
    ]
    table = run(["study", "query", "run", "--sql", "SELECT count(*) AS n, avg(score) AS s, NULL AS none FROM rows"])
    assert table.stdout.split()[:4] == ["n", "s", "none", "16"]
    assert table.stdout.split()[-1] == "-"

    reported = run("report run --out report")
    assert reported.exit_code == 0, reported.output
    page = Path("report/report.md").read_text()
    assert digest[:12] in page
    assert "Half is enough." in page
    assert "DOES NOT MATCH" not in page
    assert Path("report/report.html").read_text().startswith("<!")
    written = {Path(line).name for line in reported.stderr.splitlines()}
    assert {"report.md", "report.html", "tasks.csv"} <= written


def test_a_run_that_is_not_what_was_registered_says_so_on_every_page(run: Run, file: Path) -> None:
    run("study register study.yaml")
    content = yaml.safe_load(file.read_text())
    content["claims"][0]["at_least"] = -0.05
    file.write_text(yaml.safe_dump(content))
    run("study run study.yaml --out run")
    run("report run --out report")
    for page in ("report/report.md", "report/report.html"):
        text = Path(page).read_text()
        assert "NOT MATCH" in text
        assert "-0.1" in text


def test_a_registration_is_not_written_over(run: Run, file: Path) -> None:
    run("study register study.yaml")
    before = Path("study.registration.json").read_bytes()
    file.write_text(file.read_text().replace("C1", "C2"))
    refused = run("study register study.yaml")
    assert refused.exit_code == 2
    assert "study.registration.json" in refused.stderr
    assert Path("study.registration.json").read_bytes() == before


def test_a_plan_scales_to_answers_and_machines(run: Run, file: Path) -> None:
    run("study run study.yaml --out run")
    plan = json.loads(run("study plan study.yaml --rates run --machines 4 --answers 98000 --json").stdout)
    assert plan["whole"]["num_items"] == 4
    assert plan["whole"]["num_answers"] == 16
    assert plan["scaled"]["num_answers"] >= 98000
    table = run("study plan study.yaml --rates run --answers 98000")
    assert table.exit_code == 0
    assert "98,000" in table.stdout


def test_tasks_are_listed(run: Run, file: Path) -> None:
    assert run("study tasks --data rows").stdout.splitlines()[1].split()[0] == "lamps"
    shipped = run("study tasks").stdout
    for name in ("ruler_niah_single_1", "ruler_qa_2", "multi_hop", "mtrag_12docs"):
        assert name in shipped


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("study run none.yaml --out run", ["none.yaml", "does not exist"]),
        ("study run study.yaml", ["--out"]),
        ("study run study.yaml --out run --shard 3/2", ["--shard", "'3/2'", "K/N", "1/4"]),
        ("study run study.yaml --out run --shard two", ["--shard", "'two'"]),
        ("study run study.yaml --out run --shard ²/²", ["--shard", "'²/²'", "K/N"]),
        ("study run study.yaml --out run --shard ١/٢", ["--shard", "K/N"]),
        (f"study run study.yaml --out run --shard 1/{'9' * 5000}", ["--shard", "K/N"]),
        ("study run exit.py --out run", ["exit.py", "ends Python"]),
        ("study run study.yaml --out rows", ["rows", "empty, new, or a run", "--out"]),
        ("study query run --sql 'SELECT 1'", ["run", "a folder written by fewer study run"]),
        ("study plan study.yaml --machines 0", ["--machines", "0"]),
        ("study tasks --data none", ["none"]),
        ("report run --out report", ["run", "a folder written by fewer study run"]),
        ("report --out report", ["RUN"]),
    ],
)
def test_bad_input(run: Run, file: Path, arguments: str, parts: list[str]) -> None:
    result = run(arguments)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ")
    for part in parts:
        assert part in line
    assert not Path("report").exists()


def test_a_wrong_query_and_a_wrong_format_are_told(run: Run, file: Path) -> None:
    run("study run study.yaml --out run")
    result = run(["study", "query", "run", "--sql", "SELECT colour FROM rows"])
    assert result.exit_code == 2
    assert "colour" in result.stderr
    for sql in ("", "SELECT 1; SELECT 2", "COPY rows TO 'out.csv'"):
        result = run(["study", "query", "run", "--sql", sql])
        assert (result.exit_code, Path("out.csv").exists()) == (2, False)
        assert "one statement that reads" in result.stderr
    result = run(["study", "query", "run", "./run", "--sql", "SELECT 1"])
    assert result.exit_code == 2
    assert "given once" in result.stderr
    result = run(["study", "query", "run", "--json", "--sql", "SELECT 'nan'::DOUBLE AS a"])
    assert json.loads(result.stdout) == [{"a": None}]
    result = run(["study", "query", "run", "--json", "--sql", "SELECT 1 AS a, 2 AS a"])
    assert result.exit_code == 2
    assert "'a'" in result.stderr
    result = run("report run --out report --format pdf")
    assert result.exit_code == 2
    assert "pdf" in result.stderr


def test_without_the_extra_it_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in ("duckdb", "yaml") else name)
    for arguments in ("study tasks", "report run --out report"):
        result = run(arguments)
        assert result.exit_code == 2
        assert "duckdb, pyyaml" in result.stderr
        assert "pip install 'fewer[study]'" in result.stderr


def test_times_in_words() -> None:
    assert [time_words(seconds) for seconds in (5, 89, 120, 5000, 36000)] == [
        "5 s",
        "89 s",
        "2 min",
        "83 min",
        "10.0 h",
    ]


@pytest.mark.parametrize("prune", [{"prune": "entroprefill"}, {"prune": "lazyllm", "keep": "2:50%"}], ids=str)
@pytest.mark.parametrize("command", ["register study.yaml", "plan study.yaml", "run study.yaml --out out"])
def test_a_profile_that_is_not_there_freezes_nothing(run: Run, file: Path, prune: dict, command: str) -> None:
    content = yaml.safe_load(file.read_text())
    content["arms"].append({"name": "it", **prune, "profile": "gone.json"})
    file.write_text(yaml.safe_dump(content))
    refused = run(f"study {command}")
    assert refused.exit_code == 2
    assert "The arm 'it' does not fit the model: profile is 'gone.json'; it must be a readable file" in refused.stderr
    assert not Path("study.registration.json").exists()
    assert not Path("out").exists()
