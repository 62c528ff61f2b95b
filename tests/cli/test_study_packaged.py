"""`fewer study lazyllm` and `fewer study entroprefill`, with tiny studies in place of the packaged ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fewer.cli import study_packaged
from fewer.study import packaged


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    """Two parts of two made-up items each."""
    monkeypatch.setattr(packaged, "STUDIES", {"entroprefill": {"one": "the first", "two": "the second"}})
    monkeypatch.setattr(packaged, "find_part", lambda study, name: Path(f"{study}-{name}.yaml").resolve())
    Path("rows").mkdir()
    row = {
        "task": "lamps",
        "category": "single_doc_qa",
        "group": "g",
        "context_chunks": [{"title": "", "text": "The lamp is red."}],
        "question": "What colour is it?",
        "answers": ["red"],
        "supporting": [0],
        "metric": "qa_f1",
        "meta": {},
        "n_tokens": 10,
        "source": {"repo": "none", "path": "none", "commit": "none", "licence": "CC0"},
    }
    Path("rows/lamps.jsonl").write_text("".join(json.dumps(row | {"id": f"lamps-{i}"}) + "\n" for i in range(2)))
    for name in ("one", "two"):
        content = {
            "name": name,
            "model": {"path": str(model), "dtype": "float32"},
            "tasks": [{"name": "lamps", "data": "rows"}],
            "arms": [{"name": "full"}],
            "sampling": {"max_tokens": 2},
            "signals": [],
        }
        Path(f"entroprefill-{name}.yaml").write_text(yaml.safe_dump(content))


def test_every_part_is_run_and_reported(run, parts):
    result = run("study entroprefill --out runs --report reports")
    assert result.exit_code == 0, result.stderr
    for name, what in (("one", "the first"), ("two", "the second")):
        assert f"{name}: {what}." in result.stderr
        assert Path(f"runs/{name}/run.json").exists()
        assert (Path("reports") / name / "report.md").exists()
        assert f"The report is in reports/{name}." in result.stderr
    before = {path: path.read_bytes() for path in Path("runs").rglob("*.parquet")}
    assert run("study entroprefill --out runs --quiet").stderr == ""
    assert {path: path.read_bytes() for path in Path("runs").rglob("*.parquet")} == before


def test_one_part_and_one_shard(run, parts):
    first = run("study entroprefill --out runs --part two --shard 1/2 --report reports")
    assert first.exit_code == 0, first.stderr
    assert "1 items of other shards are not in the log yet." in first.stderr
    assert not Path("runs/one").exists()
    assert not Path("reports").exists()
    second = run("study entroprefill --out runs --part two --shard 2/2 --report reports")
    assert "The report is in reports/two." in second.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--out runs --part three", "--part is 'three'; it must be one of one, two. Leave it out for all of them."),
        ("--out runs --shard 3/2", "--shard is '3/2'"),
        ("", "--out"),
    ],
)
def test_bad_options_are_refused(run, parts, options, message):
    result = run(f"study entroprefill {options}")
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not Path("runs").exists()


@pytest.mark.parametrize("method", packaged.STUDIES)
def test_the_help_names_the_parts(method):
    *rest, last = packaged.STUDIES[method]
    said = getattr(study_packaged, method).__doc__
    assert f"Its parts are {', '.join(rest)} and {last}." in said
    assert packaged.find_part(method, last).parts[-2:] == (method, f"{last}.yaml")
