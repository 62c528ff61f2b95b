"""Running a study: every answer once, the same whoever shares with whom, and nothing lost when it is killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from studying import TIMED, make_rows, write_rows, write_study

from fewer import Engine, Request, Sampling
from fewer.errors import BadInput, StorageError
from fewer.study.cells import list_cells
from fewer.study.folder import read_run
from fewer.study.item import lay_out_item
from fewer.study.prepare import prepare
from fewer.study.run import Progress, run_study
from fewer.study.signals import measure_agreement
from fewer.study.spec import load_study

SCRIPT = "import sys, torch; torch.set_num_threads(1); from fewer.study.run import run_study; run_study(*sys.argv[1:])"


def read_rows(run: Path) -> list[dict]:
    """The rows without what is measured in seconds."""
    return [{name: value for name, value in row.items() if name not in TIMED} for row in read_run(run).rows.to_pylist()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> tuple[Path, Path]:
    """A study's file, and its run in one go."""
    folder = tmp_path_factory.mktemp("whole")
    file = write_study(folder, model_folder)
    summary = run_study(file, folder / "run")
    assert (summary.answered, summary.total, summary.left) == (6, 6, 0)
    return file, folder / "run"


def test_every_item_has_every_arm_and_seed_once(whole: tuple[Path, Path]) -> None:
    rows = read_rows(whole[1])
    found = {(row["item"], row["arm"], row["seed"]) for row in rows}
    drawn = [f"random keep={keep} layer=1" for keep in ("50%", "25%")]
    once = ["full", "no_context", "static keep=50% layer=1", "static keep=25% layer=1", "ends of it"]
    items = [f"tower_qa-{i}" for i in range(6)]
    want = {(item, arm, 0) for item in items for arm in once + drawn} | {(i, arm, 1) for i in items for arm in drawn}
    assert found == want
    assert len(rows) == len(want)
    assert len({row["cell"] for row in rows}) == len(rows)
    assert {row["status"] for row in rows} == {"ok"}


def test_rows_say_what_the_engine_alone_says(whole: tuple[Path, Path]) -> None:
    file, run = whole
    study = load_study(file)
    engine = Engine.load(study.model.path, dtype="float32")
    units = {unit.item.id: unit for unit in prepare(study, engine.tokenizer, file.parent).units}
    cells = {(cell.arm.name, cell.seed): cell for cell in list_cells(study)}
    full = {row["item"]: row for row in read_rows(run) if row["arm"] == "full"}
    for row in read_rows(run):
        unit, cell = units[row["item"]], cells[row["arm"], row["seed"]]
        item = unit.item if row["condition"] == "aware" else unit.item.without_context()
        prompt = lay_out_item(engine.tokenizer, item, 512)
        sampling = Sampling(max_tokens=6, logprobs=0, seed=cell.draw_seed(item))
        (alone,) = engine.generate([Request(prompt, sampling, cell.arm.planner)])
        assert (row["text"], tuple(row["ids"]), row["finish_reason"]) == (alone.text, alone.ids, alone.finish_reason)
        rows = alone.receipt.computed.prefill_rows_per_layer
        assert row["computed_fraction"] == pytest.approx(sum(rows) / (4 * len(prompt)))
        assert row["kept_fraction"] == pytest.approx(rows[-1] / len(prompt))
        assert row["min_margin"] == pytest.approx(alone.receipt.output.min_margin, abs=1e-4)
        assert row["agreement"] == measure_agreement(alone.ids, full[row["item"]]["ids"])
        reference = engine.tokenizer(" red" if not item.wording.ask[-1:].isspace() else "red")["input_ids"]
        (score,) = engine.score([Request(prompt, sampling, cell.arm.planner)], [reference])
        assert row["nll"] == pytest.approx(-score.total / len(reference), abs=1e-4)
        assert row["nll_tokens"] == len(reference)


def test_supporting_chunks_are_followed_through_the_layers(whole: tuple[Path, Path]) -> None:
    run = read_run(whole[1])
    supporting = {f"tower_qa-{i}": i % 3 for i in range(6)}
    for row in run.rows.to_pylist():
        if row["condition"] == "no_context":
            assert row["supporting_kept"] is None
            continue
        chunks = json.loads(row["receipt"])["prompt"]["chunks"]
        chunk = chunks[supporting[row["item"]]]
        assert row["supporting_kept"] == chunk["kept_per_layer"][-1] / chunk["num_tokens"]
        assert row["arm"] != "full" or row["supporting_kept"] == 1


def test_a_second_call_finds_nothing_to_do(whole: tuple[Path, Path]) -> None:
    file, run = whole
    before = {path: path.read_bytes() for path in run.rglob("*.parquet")}
    assert run_study(file, run).answered == 0
    assert {path: path.read_bytes() for path in run.rglob("*.parquet")} == before
    assert before


def test_sharing_and_shards_change_no_answer(whole: tuple[Path, Path], tmp_path: Path, model_folder: Path) -> None:
    rows = read_rows(whole[1])
    file = write_study(tmp_path, model_folder, share=False)
    for index in (1, 0):
        summary = run_study(file, tmp_path / "run", shard=(index, 2))
        assert summary.left == (3 if index else 0)
    apart = read_rows(tmp_path / "run")
    assert not any(row.pop("shared") for row in apart)
    assert {row["batch_mates"] for row in apart} == {0}
    near = ("min_margin", "first_margin", "mean_logprob", "nll")
    for one, other in zip(rows, apart, strict=True):
        for name in near:
            assert one[name] == pytest.approx(other[name], abs=1e-5)
        for name in set(other) - {"study_sha256", "batch_mates", *near}:
            assert one[name] == other[name], name
    assert all(row["shared"] for row in rows if row["condition"] == "aware")


def test_killed_at_any_moment_it_goes_on_and_nothing_is_there_twice(whole: tuple[Path, Path], tmp_path: Path) -> None:
    file, run = whole
    chance, kills, out = random.Random(5), 0, tmp_path / "run"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, file, out], env=environment)
        while process.poll() is None and not (out / "run.json").exists():
            time.sleep(0.02)  # loading is not what is tested
        try:
            process.wait(timeout=chance.uniform(0.02, 0.4))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            continue
        assert process.returncode == 0
        break
    else:
        run_study(file, out)
    assert read_rows(out) == read_rows(run)
    assert kills >= 1


def test_what_is_too_long_is_refused_and_stays_in_the_log(tmp_path: Path, model_folder: Path) -> None:
    rows = make_rows(2) + make_rows(2, "long_qa", "The lamp of tower {i} is red. " * 30)
    for task in ("tower_qa", "long_qa"):
        write_rows(tmp_path / "rows", [row for row in rows if row["task"] == task])
    file = write_study(
        tmp_path,
        model_folder,
        tasks=[
            {"name": "tower_qa", "data": "rows", "num_items": 2},
            {"name": "long_qa", "data": "rows"},
        ],
    )
    run_study(file, tmp_path / "run")
    for row in read_rows(tmp_path / "run"):
        if row["task"] == "long_qa" and row["condition"] == "aware":
            assert (row["status"], row["score"], row["text"]) == ("refused", 0.0, None)
            assert "512 positions" in row["reason"]
            assert row["num_tokens"] > 512
        else:
            assert row["status"] == "ok"


def test_an_arm_that_fails_has_a_row_and_the_others_answers(tmp_path: Path, model_folder: Path) -> None:
    arms = [{"name": "full"}, {"prune": "static", "keep": 100000}, {"prune": "ends", "keep": "100%"}]
    run_study(write_study(tmp_path, model_folder, 2, arms=arms), tmp_path / "run")
    for row in read_rows(tmp_path / "run"):
        assert row["status"] == {"none": "ok", "static": "failed", "ends": "bypassed"}[row["prune"]]
        if row["status"] == "failed":
            assert row["score"] == 0
            assert "100000" in row["reason"]
        if row["status"] == "bypassed":
            assert row["agreement"] == 1
            assert "covers every token" in row["reason"]


def test_a_folder_of_something_else_is_refused(whole: tuple[Path, Path], tmp_path: Path, model_folder: Path) -> None:
    file, run = whole
    other = write_study(tmp_path, model_folder, seeds=[3])
    with pytest.raises(BadInput, match="a run of the same study"):
        run_study(other, run)
    write_rows(file.parent / "rows", make_rows(6, chunk="The lamp of tower {i} is blue."))
    with pytest.raises(BadInput, match="a run of the same items"):
        run_study(file, run)
    write_rows(file.parent / "rows", make_rows(6))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="empty, new, or a run"):
        run_study(other, tmp_path / "mine")


def test_another_model_in_the_same_folder_is_refused(tmp_path: Path, model_folder: Path) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    file = write_study(tmp_path, tmp_path / "model", 1)
    run_study(file, tmp_path / "run")
    (tmp_path / "model" / "generation_config.json").write_text("{}")
    with pytest.raises(BadInput, match=r"a run of the same model.*model_sha256 was"):
        run_study(file, tmp_path / "run")


def test_prompts_up_to_the_last_position_run(tmp_path: Path, model_folder: Path) -> None:
    """The item's benchmark allows more tokens than fit; the study asks for fewer. The reference is cut to fit."""
    (row,) = make_rows(1)
    row["answers"] = ["red " * 100]
    write_rows(tmp_path / "rows", [row])
    file = write_study(tmp_path, model_folder, 1, sampling={"max_tokens": 2})
    write_rows(tmp_path / "rows", [row])
    engine = Engine.load(str(model_folder), dtype="float32")
    (unit,) = prepare(load_study(file), engine.tokenizer, tmp_path).units
    row["context_chunks"][0]["text"] += "x" * (510 - unit.num_tokens)
    write_rows(tmp_path / "rows", [row])
    run_study(file, tmp_path / "run")
    rows = [row for row in read_rows(tmp_path / "run") if row["condition"] == "aware"]
    assert {(row["num_tokens"], row["status"], row["nll_tokens"]) for row in rows} == {(510, "ok", 3)}


def test_a_full_disk_ends_the_run_and_keeps_what_is_finished(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, syncs, sync = write_study(tmp_path, model_folder, 4), [], os.fsync

    def refuse(descriptor: int) -> None:
        syncs.append(descriptor)
        if len(syncs) == 4:  # the header, two items, and then
            raise OSError(28, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageError, match="what was finished before is kept"):
        run_study(file, tmp_path / "run")
    assert {row["unit"] for row in read_rows(tmp_path / "run")} == {0, 1}
    monkeypatch.setattr(os, "fsync", sync)
    assert run_study(file, tmp_path / "run").answered == 2


def test_progress_counts_up_and_estimates_from_five_on(tmp_path: Path, model_folder: Path) -> None:
    seen: list[Progress] = []
    run_study(write_study(tmp_path, model_folder, 7), tmp_path / "run", progress=seen.append)
    assert [now.done for now in seen] == list(range(7))
    assert [now.left_s is None for now in seen] == [True] * 5 + [False] * 2
    for now in seen[5:]:
        assert 0 < now.left_s[0] <= now.left_s[1]


@pytest.mark.parametrize("shard", [(1, 1), (-1, 2), (0, 0)])
def test_shards_that_are_none(whole: tuple[Path, Path], shard: tuple[int, int]) -> None:
    with pytest.raises(BadInput, match="K/N"):
        run_study(whole[0], whole[1], shard=shard)


def test_signals_that_were_not_asked_for_are_not_there(tmp_path: Path, model_folder: Path) -> None:
    run_study(write_study(tmp_path, model_folder, 1, signals=["agreement"]), tmp_path / "run")
    for row in read_rows(tmp_path / "run"):
        assert row["agreement"] is not None
        for name in ("first_margin", "min_margin", "mean_logprob", "nll", "nll_tokens"):
            assert row[name] is None
