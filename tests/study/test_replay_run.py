"""A replay of a tiny model: whole, killed half-way, of another study, registered or not, and its report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from replaying import make_study
from studying import make_rows, write_rows
from transformers import AutoModelForCausalLM

from fewer.engine import Engine
from fewer.errors import BadInput
from fewer.report.replay import write_replay_report
from fewer.study.environment import describe_environment
from fewer.study.registration import load_registration
from fewer.study.replay.capture import capture
from fewer.study.replay.items import make_units
from fewer.study.replay.measure import look
from fewer.study.replay.registered import check_registration, register_replay
from fewer.study.replay.run import read_replay, run_replay
from fewer.study.replay.spec import ReplayStudy, load_replay
from tolerances import FP32

NONE = Path("no-registration.json")


@pytest.fixture(scope="module")
def engine(model_folder: Path) -> Engine:
    return Engine.load(str(model_folder), dtype="float32")


@pytest.fixture(scope="module")
def study() -> ReplayStudy:
    return make_study()


@pytest.fixture(scope="module")
def whole(engine: Engine, study: ReplayStudy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay") / "whole"
    assert run_replay(study, engine, folder, registration=NONE) == 0
    return folder


def test_what_is_captured_is_what_the_model_does(engine: Engine, study: ReplayStudy, model_folder: Path) -> None:
    unit = make_units(study, engine.tokenizer)[0]
    captured = capture(engine, unit, 2)
    assert captured.steps == 2
    assert captured.k[0].shape[1] == len(unit.prompt) + 2
    assert captured.pos[-1] == len(unit.prompt) + 1
    full = look(captured)
    model = AutoModelForCausalLM.from_pretrained(model_folder, attn_implementation="eager", dtype=torch.float32)
    ids = unit.prompt.ids
    with torch.inference_mode():
        for _ in range(2):
            ids = torch.cat((ids, model(ids[None]).logits[0, -1:].argmax(-1)))
        attention = torch.cat(model(ids[None], output_attentions=True).attentions)  # [layers, heads, N, N]
    found = torch.stack(full.weights).float()
    torch.testing.assert_close(found, attention[:, :, -2:], rtol=0, atol=10 * FP32)


def test_every_cell_is_there_once(whole: Path, study: ReplayStudy, engine: Engine) -> None:
    replay = read_replay(whole)
    assert replay.left == 0
    heads = engine.adapter.num_layers * engine.adapter.num_heads
    steps = [capture(engine, unit, study.steps).steps for unit in make_units(study, engine.tokenizer)]
    assert replay.cells.num_rows == heads * sum(steps) * 2 * 2 * 3  # conditions, budgets, top-k and two draws
    assert replay.worlds.num_rows == heads * sum(steps) * 2 * 3
    names = ["prompt", "condition", "budget", "arm", "draw", "layer", "head", "step"]
    rows = list(zip(*(replay.cells[name].to_pylist() for name in names), strict=True))
    assert len(set(rows)) == len(rows)
    assert set(replay.cells["kept"].to_pylist()) == set(replay.cells["asked"].to_pylist())
    assert all(replay.worlds["same"].to_pylist())


def test_killed_it_goes_on_with_the_same_rows(whole: Path, study: ReplayStudy, engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run_replay(study, engine, folder, registration=NONE, most=1) == 1
    assert read_replay(folder).left == 1
    before = (folder / "prompts" / "0000.cells.parquet").read_bytes()
    (folder / "prompts" / "0001.worlds.parquet").write_bytes(b"half of it")  # killed between the two files
    (folder / "prompts" / "0001.cells.part").write_bytes(b"half of it")
    assert run_replay(study, engine, folder, registration=NONE) == 0
    assert (folder / "prompts" / "0000.cells.parquet").read_bytes() == before
    found, wanted = read_replay(folder), read_replay(whole)
    assert found.cells.equals(wanted.cells)
    assert found.worlds.equals(wanted.worlds)


def test_another_study_or_a_changed_header_is_refused(whole: Path, engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a run of the same study"):
        run_replay(make_study(delta=0.2), engine, whole, registration=NONE)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="empty, new, or a run of this study"):
        run_replay(make_study(), engine, tmp_path, registration=NONE)
    with pytest.raises(BadInput, match="a folder written by fewer study replay"):
        read_replay(tmp_path)
    header = json.loads((whole / "run.json").read_text())
    header["study"]["factor"] = 0.9
    (tmp_path / "run.json").write_text(json.dumps(header))
    with pytest.raises(BadInput, match="no sound header"):
        read_replay(tmp_path)


def test_registrations(engine: Engine, study: ReplayStudy, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", make_rows(2))
    path = tmp_path / "r.json"
    sha256 = describe_environment(engine)["model_sha256"]
    made = register_replay(study, engine, tmp_path / "rows", path)
    assert load_registration(path).sha256 == made.sha256
    assert made.study == study.model_dump(mode="json")
    both, alone = make_units(study, engine.tokenizer, tmp_path / "rows"), make_units(study, engine.tokenizer)
    assert [unit.kind for unit in both] == ["generated", "document", "generated"]

    def stand(study: ReplayStudy, units: tuple, model: str = sha256) -> str:
        return str(check_registration(path, study, [unit.item for unit in units], model)["kind"])

    assert stand(study, both) == "registered"
    assert stand(study, alone) == "part"
    assert stand(make_study(delta=0.2), both) == "differs"
    assert stand(study, both, "another") == "differs"
    other = make_study(seed=6)
    assert stand(study, make_units(other, engine.tokenizer)) == "differs"
    assert check_registration(NONE, study, [], sha256)["kind"] == "none"


def test_the_report_tells_verdicts_and_numbers(whole: Path, tmp_path: Path) -> None:
    files = write_replay_report(whole, tmp_path / "report", "fewer study replay --out RUN")
    names = {path.relative_to(tmp_path / "report").as_posix() for path in files}
    assert {"report.md", "report.html", "numbers.json", "tables/verdicts.csv", "tables/worlds.csv"} <= names
    text = (tmp_path / "report" / "report.md").read_text()
    assert "Not registered: everything here is exploratory." in text
    assert "fewer study replay --out RUN" in text
    assert "covers: holds" in text  # a share is at least 0
    numbers = json.loads((tmp_path / "report" / "numbers.json").read_text())
    assert numbers["verdicts"] == {"covers": "holds"}
    assert {place["arm"] for place in numbers["places"]} == {"topk", "pivotal"}
    ours = next(place for place in numbers["places"] if place["arm"] == "pivotal")
    assert 0 <= ours["coverage"]["lower"] <= ours["coverage"]["upper"] <= 1
    assert [world["worlds"] for world in numbers["worlds"]] == [2, 2]


def test_an_unfinished_run_decides_nothing(engine: Engine, study: ReplayStudy, tmp_path: Path) -> None:
    run_replay(study, engine, tmp_path / "run", registration=NONE, most=0)
    write_replay_report(tmp_path / "run", tmp_path / "report", "")
    text = (tmp_path / "report" / "report.md").read_text()
    assert "2 of 2 prompts are not in" in text
    assert "covers: undecided" in text


def test_the_packaged_study_is_sound() -> None:
    study = load_replay()
    assert study.main == "pivotal"
    assert len(study.generated) == len(study.documents.tasks) == 8
    assert {"coverage", "largest-errors", "ranking", "against-topk", "variance"} <= {claim.id for claim in study.claims}
    assert study.sha256 == load_replay().sha256


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"main": "nobody"}, "main is 'nobody'"),
        ({"budgets": [0.25, 0.25]}, "budget is '0.25'"),
        ({"claims": [{"id": "a", "statement": "s", "measure": "coverage"}]}, "the bounds of claim a"),
        (
            {"claims": [{"id": "a", "statement": "s", "measure": "coverage", "at_least": 0, "budgets": [0.1]}]},
            "a budget of claim a is 0.1",
        ),
    ],
)
def test_unsound_studies_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_study(**changes)
