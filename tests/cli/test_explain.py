"""`fewer explain` on a tiny model: its two forms, what it refuses, and narrow terminals."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fewer import Engine, EntroPrefill
from fewer.cli.explanation import ExplanationTable
from fewer.cli.terms import write_number, write_share
from fewer.engine.diagnosis import Diagnosis, Loss, Ran
from fewer.prompt import read_paths
from fewer.prune.entroprefill import OUTCOMES, PARAMETERS
from fewer.prune.entroprefill.breakdown import AuditShown, Bounds, ChunkLine
from fewer.prune.entroprefill.constraints import Constraints, RowLine
from fewer.prune.entroprefill.explain import Explanation, LayerShown
from fewer.prune.entroprefill.heads import HeadLine
from fewer.prune.entroprefill.sensitivity import OneMore, Sensitivity, Variant
from fewer.prune.entroprefill.transfer import Transfer

PASSING = ["--set", "shortest=0", "--set", "monitor=2-3", "--set", "tolerance=0.9", "--set", "audit_tolerance=0.9"]
PASSING += ["--preset", "paper", "--keep", "80%"]
REFUSING = [*PASSING[:4], "--set", "tolerance=0.001"]


@pytest.fixture
def explain(run, model, docs):
    """`fewer explain` on the tiny model in float32, over two documents."""

    def invoke(*arguments: str, **settings: object):
        words = ["explain", "Who lit it?", "docs", "--model", str(model), "--dtype", "float32"]
        return run([*words, *arguments], **settings)

    return invoke


def told(result) -> dict:
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout_bytes)


def test_the_tables_go_to_stdout(explain):
    result = explain(*PASSING)
    assert result.exit_code == 0, result.output
    for words in (
        "chunks leave after layer 2",
        "Layer 2: accepted",
        "accepted (not asked any more)",
        "The lamp",
        "removed",
        "target met before",
        "constraint rows the tightest",
        "envelope",
        "D = ",
        "U = ",
        "passed, exact over",
        "the smallest tolerance at which the scan meets the target",
        "this removal's audit passes from an audit_tolerance of",
        "any observer's row of a head of this layer has at most",
        "handing the prompt's cache on is",
        "at 10 Gbit/s at least",
    ):
        assert words in result.stdout, words
    assert "Beside the full model" not in result.stdout
    assert result.stderr == "Left out, for their suffix: 1 file (docs/c.dat).\n"
    assert "\x1b" not in result.output


def test_quiet_says_nothing_else(explain):
    assert explain(*PASSING, "--quiet").stderr == ""
    assert explain(*PASSING, "--quiet", "--json").stderr == ""


def test_json_is_what_the_python_call_gives(explain, model):
    found = told(explain(*PASSING, "--json"))
    assert list(found) == ["explanation", "reference"]
    assert found["reference"] is None
    engine = Engine.load(model, dtype="float32")
    planner = EntroPrefill(keep="80%", preset="paper", monitor="2-3", shortest=0, tolerance=0.9, audit_tolerance=0.9)
    request = engine.request("Who lit it?", read_paths(["docs"]).documents, prune=planner, max_tokens=1)
    wanted = engine.explain(request).to_object()
    for each in (found["explanation"], wanted):
        each["shown"]["bounds"].pop("seconds")
        for layer in each["layers"]:
            layer["numbers"] = {name: value for name, value in layer["numbers"].items() if "seconds" not in name}
    assert found["explanation"] == wanted
    position = wanted["shown"]["rows"][0]["position"]
    assert wanted["query"][0] <= position < wanted["query"][1]
    assert wanted["shown"]["rows"][0]["token"] in "Who lit it?"
    assert [each["title"] for each in wanted["shown"]["chunks"]] == ["The lamp", "b.txt"]


def words_of(text: str) -> str:
    return " ".join(text.split())


def test_the_mean_of_a_head_is_called_one(explain):
    shown = words_of(explain(*PASSING, "--set", "rows=mean").stdout)
    assert "any head's mean over the observers of this layer has at most" in shown
    assert "any observer's row" not in shown


def test_a_draw_says_nothing_about_other_tolerances(explain):
    drawn = [*PASSING, "--set", "audit=hoeffding", "--set", "audit_draws=400"]
    shown = words_of(explain(*drawn).stdout)
    assert "another tolerance is another protocol and a fresh draw" in shown
    assert "passes from an audit_tolerance" not in shown
    found = told(explain(*drawn, "--json"))["explanation"]
    assert len(found["audit_positions"]) == 400
    assert set(found["audit_positions"]) <= set(range(*found["query"]))


def test_what_handing_the_cache_on_takes(explain, model):
    adapter = Engine.load(model, dtype="float32").adapter
    token = 2 * 4 * adapter.num_layers * adapter.num_kv_heads * adapter.head_dim
    pruned, refused = (told(explain(*given, "--json"))["explanation"] for given in (PASSING, REFUSING))
    gone = sum(chunk["tokens"] for chunk in pruned["shown"]["chunks"] if chunk["fate"] == "removed")
    full = token * pruned["num_tokens"]
    assert pruned["transfer"] == {
        "retained_bytes": full - token * gone,
        "full_bytes": full,
        "bandwidth": 10.0,
        "retained_seconds": pytest.approx(8 * (full - token * gone) / 1e10),
        "full_seconds": pytest.approx(8 * full / 1e10),
    }
    assert refused["transfer"]["retained_bytes"] == refused["transfer"]["full_bytes"] == full
    slow = told(explain(*PASSING, "--json", "--bandwidth", "0.5"))["explanation"]["transfer"]
    assert slow["full_seconds"] == pytest.approx(20 * pruned["transfer"]["full_seconds"])
    assert told(explain("--json"))["explanation"]["transfer"]["retained_bytes"] == full  # not asked about


def test_another_layer_is_shown(explain):
    assert told(explain(*PASSING, "--json", "--layer", "3"))["explanation"]["shown"]["layer"] == 3
    assert told(explain(*REFUSING, "--json"))["explanation"]["shown"]["layer"] == 3


def test_a_refusal_is_explained(explain):
    result = explain(*REFUSING)
    assert "nothing leaves; every layer refused" in result.stdout
    assert "does not fit" in result.stdout
    assert "one more chunk" in result.stdout
    assert "not opened" in result.stdout


def test_the_reference_beside_it(explain):
    found = told(explain(*PASSING, "--json", "--reference", "--max-tokens", "5"))["reference"]
    assert len(found["full"]["ids"]) == len(found["pruned"]["ids"]) == 5
    assert [each["layer"] for each in found["layers"]] == [3, 4]
    assert all(0 < eta <= 1 + 1e-6 for each in found["layers"] for eta in each["eta"])
    assert len(found["removed_chunks"]) == 1
    shown = explain(*PASSING, "--reference", "--max-tokens", "5").stdout
    assert "diagnostics of this prompt, not guarantees" in shown
    assert "Gamma" in shown


def test_a_prompt_that_is_not_asked_about(explain):
    found = told(explain("--json"))["explanation"]
    assert found["declined"].endswith("fewer than shortest asks for (256)")
    assert found["shown"] is None
    assert "not asked" in explain().stdout


def test_a_prompt_of_which_every_chunk_must_stay(explain):
    shown = words_of(explain(*PASSING, "--set", "min_chunks=2").stdout)
    assert "not asked 2 chunks must stay (min_chunks), and 2 may leave: nothing could" in shown
    assert "outcome nothing leaves; no layer is asked" in shown
    assert "min_chunks 1, audit auto" in words_of(explain(*PASSING).stdout)


@pytest.mark.parametrize(("exact", "proven"), [(None, False), (19, True), (20, False)])
def test_what_only_the_exact_optimum_proves(model, exact, proven):
    engine = Engine.load(model, dtype="float32")
    documents = [{"title": f"Title {i}", "text": f"Two keepers lit lamp {i}."} for i in range(3)]
    planner = EntroPrefill(keep="80%", preset="paper", monitor="2-3", shortest=0, tolerance=0.001)
    found = engine.explain(engine.request("Who lit it?", documents, prune=planner, max_tokens=1))
    bounds = replace(found.shown.bounds, exact=exact, dual=20.5)
    for dual, expected in ((20.5, proven), (19.5, False)):
        shown = replace(found.shown, outcome="target not met", bounds=replace(bounds, dual=dual))
        console = Console(file=io.StringIO(), width=120)
        console.print(ExplanationTable(replace(found, least=20, shown=shown)))
        text = words_of(console.file.getvalue())
        assert ("target not met (proven impossible by the exact optimum)" in text) == expected
        assert ("the 20 that have to leave are proven impossible by the exact optimum" in text) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--layer", "1"], ["layer is 1", "a monitored one (2, 3)"]),
        (["--max-tokens", "4"], ["--max-tokens is 4", "--reference"]),
        (["--max-tokens", "0", "--reference"], ["--max-tokens is 0", "at least 1"]),
        (["--set", "tolerance"], ["--set is 'tolerance'", "NAME=VALUE"]),
        (["--set", "colour=2"], ["colour", "tolerance"]),
        (["--set", "zeta=0"], ["zeta is 0", "above 0"]),
        (["--set", "document_min=0"], ["document_min is 0", "above 0"]),
        (["--bandwidth", "0"], ["bandwidth is 0", "above 0", "Gbit/s"]),
        (["--preset", "best"], ["'best'", "default, paper or general"]),
        (["--split", "0"], ["'0'", "at least 1"]),
        (["--reference", "--max-tokens", "900"], ["900", "512 positions"]),
        (["--profile", "none.json"], ["none.json"]),
    ],
)
def test_bad_input(explain, arguments, words):
    base = PASSING[:4] if "--preset" in arguments or "--profile" in arguments else PASSING
    result = explain(*base, *arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    line = result.stderr.splitlines()[-1]
    assert line.startswith("error: ")
    assert "Traceback" not in result.output
    for word in words:
        assert word in line


@pytest.mark.parametrize("words", [["", "docs"], ["Who?", "missing.txt"]])
def test_questions_and_documents_are_checked_before_the_model(run, docs, monkeypatch, words):
    monkeypatch.setattr(Engine, "load", None)
    assert run(["explain", *words]).exit_code == 2


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_nothing_is_cut_from_60_columns_on(model, width, encoding):
    engine = Engine.load(model, dtype="float32")
    documents = [{"title": f"Title {i} é", "text": f"Two keepers lit lamp {i}."} for i in range(3)]
    planner = EntroPrefill(
        keep="80%", preset="paper", monitor="2-3", shortest=0, tolerance=0.9, audit_tolerance=0.9, audit="hoeffding"
    )
    request = engine.request("Who lit [bold]it[/bold]?", documents, prune=planner, max_tokens=8)
    table = ExplanationTable(engine.explain(request), engine.diagnose(request, max_tokens=8))
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=stream, width=width, highlight=False, legacy_windows=False)
    console.print(table)
    stream.flush()
    lines = stream.buffer.getvalue().decode(encoding).splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "…" not in text
    assert ("Title 1 é" if encoding == "utf-8" else "Title 1 ?") in text
    for heading in ("Gamma", "left over", "envelope", "s4"):
        assert heading in text


def test_the_documentation_names_every_key_outcome_and_setting():
    text = (Path(__file__).parents[2] / "docs" / "entroprefill.md").read_text("utf-8")
    shown = (Explanation, LayerShown, ChunkLine, RowLine, HeadLine, Bounds, AuditShown, Sensitivity, Variant, OneMore)
    shown += (Constraints, Transfer)
    known = {"chunk", "title", "start", "stop", "tokens", "head", "group", "monitored", "layer", "factor", "reached"}
    for kind in (*shown, Diagnosis, Loss, Ran):
        for name in set(kind.__dataclass_fields__) - known - {"num_rows", "outcome", "says", "num_removed"}:
            assert f"`{name}`" in text, f"{kind.__name__}.{name}"
    for outcome in OUTCOMES:
        assert f"| `{outcome}` |" in text
    for name in PARAMETERS:
        assert f"| `{name}` |" in text


@pytest.mark.parametrize(
    ("value", "written"),
    [(None, "-"), (0.0, "0"), (0.12345, "0.123"), (12345.6, "12,346"), (4e-7, "4e-07"), (3e9, "3.0e+09")],
)
def test_numbers_are_short(value, written):
    assert write_number(value) == written


def test_shares_and_numbers_that_are_none():
    assert write_share(None) == "-"
    assert write_share(1.0000001) == "100%"
    assert write_share(0.5) == "50.0%"
    assert write_number(float("inf")) == "inf"
