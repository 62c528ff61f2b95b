"""The text without what another arm removed: the same chunks, read from the start, and rows that say what they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from studying import write_study

from fewer import Engine, Request, Sampling
from fewer.report import write_report
from fewer.study.answering import Answering
from fewer.study.cells import list_cells
from fewer.study.folder import read_run
from fewer.study.item import Item, lay_out_item
from fewer.study.prepare import Unit
from fewer.study.rates import rates_from_run
from fewer.study.run import run_study
from fewer.study.spec import Study
from fewer.study.verdict import judge
from fewer.types import Document, Wording

ENDS = {"name": "ends", "prune": "ends", "grain": "chunk", "keep": 130, "layer": 1}
RANDOM = {"name": "random", "prune": "random", "grain": "chunk", "keep": 130, "layer": 1}
ENTRO = {
    "name": "entro",
    "prune": "entroprefill",
    "profile": "none",
    "monitor": "2:all",
    "keep": "60%",
    "keep_at_most": "90%",
    "tolerance": 0.99,
    "audit": "off",
    "shortest": 0,
}


def without(like: str) -> dict[str, Any]:
    return {"name": f"text of {like}", "condition": "removed_text", "like": like}


@pytest.fixture(scope="module")
def engine(model_folder: Path) -> Engine:
    return Engine.load(str(model_folder), dtype="float32")


def make_item(sizes: tuple[int, ...] = (40, 50, 30, 45), **changes: object) -> Item:
    """Chunks of so many bytes; the tokenizer has one token a byte."""
    chunks = tuple(Document(chr(97 + number) * size) for number, size in enumerate(sizes))
    base = {"supporting": (1, 3), "wording": Wording("Read:\n", "\n", "\n{question}"), "max_tokens": 4}
    return Item("i", "a", "qa", "c", chunks, "Which one?", ("red",), "qa_f1", **base | changes)


def answer(engine: Engine, item: Item, *arms: dict[str, Any], **changes: object) -> dict[tuple[str, int], dict]:
    """The rows by arm and seed."""
    base = {"name": "s", "tasks": [{"name": "a"}], "arms": [{"name": "full"}, *arms], "signals": ["agreement"]}
    study = Study.model_validate(base | changes)
    rows = Answering(study, engine, list_cells(study), {}).answer(Unit(0, item, 1000))
    return {(row["arm"], row["seed"]): row for row in rows}


def letters(row: dict) -> list[str]:
    """Which chunks a row's prompt has, by the sizes of its receipt."""
    return [chunk["num_tokens"] for chunk in json.loads(row["receipt"])["prompt"]["chunks"]]


def test_the_text_is_that_of_the_chunks_that_were_left(engine: Engine) -> None:
    item = make_item()
    rows = answer(engine, item, ENDS, without("ends"))
    like, row = rows["ends", 0], rows["text of ends", 0]
    kept = [chunk["kept_per_layer"][-1] for chunk in json.loads(like["receipt"])["prompt"]["chunks"]]
    assert kept == [40, 0, 0, 45]
    left = item.with_chunks([0, 3])
    prompt = lay_out_item(engine.tokenizer, left, 512)
    (alone,) = engine.generate([Request(prompt, Sampling(max_tokens=4))])
    assert letters(row) == [40, 45]
    assert (row["text"], tuple(row["ids"]), row["num_tokens"]) == (alone.text, alone.ids, len(prompt))
    assert (row["status"], row["reason"], row["prune"], row["condition"]) == ("ok", None, "none", "removed_text")
    assert (left.supporting, left.question, left.answers) == ((1,), item.question, item.answers)
    assert row["item_sha256"] == like["item_sha256"] == item.fingerprint


def test_shares_are_of_the_whole_text(engine: Engine) -> None:
    rows = answer(engine, make_item(), ENDS, without("ends"))
    like, row = rows["ends", 0], rows["text of ends", 0]
    assert row["num_tokens"] == like["num_tokens"] - 50 - 30 - 2  # two delimiters leave with their chunks
    assert row["kept_fraction"] == row["computed_fraction"] == row["num_tokens"] / like["num_tokens"]
    assert row["kv_bytes"] < rows["full", 0]["kv_bytes"]
    assert row["supporting_kept"] == like["supporting_kept"] == 45 / 95
    assert answer(engine, make_item(supporting=()), ENDS, without("ends"))["text of ends", 0]["supporting_kept"] is None


def test_it_follows_the_draws_of_an_arm_that_draws(engine: Engine) -> None:
    rows = answer(engine, make_item(), ENDS, RANDOM, without("random"), without("ends"), seeds=[0, 1, 2, 3, 4])
    assert sum(arm == "text of random" for arm, _ in rows) == 5
    assert sum(arm == "text of ends" for arm, _ in rows) == 1
    seen = set()
    for seed in range(5):
        chunks = json.loads(rows["random", seed]["receipt"])["prompt"]["chunks"]
        kept = [chunk["num_tokens"] for chunk in chunks if chunk["kept_per_layer"][-1]]
        assert letters(rows["text of random", seed]) == kept
        seen.add(tuple(kept))
    assert len(seen) > 1


def test_what_nothing_was_left_out_of_is_a_full_run_and_says_so(engine: Engine) -> None:
    whole = ENDS | {"keep": "100%"}
    rows = answer(engine, make_item(), whole, without("ends"))
    row = rows["text of ends", 0]
    assert (row["status"], row["kept_fraction"], row["supporting_kept"]) == ("bypassed", 1, 1)
    assert row["reason"].startswith("the arm 'ends', whose chunks are taken out, left out none: the budget covers")
    assert (row["same_text"], row["ids"]) == (True, rows["full", 0]["ids"])


def test_without_the_other_arms_answer_nothing_is_run(engine: Engine) -> None:
    rows = answer(engine, make_item(), ENDS | {"keep": 100_000}, without("ends"))
    row = rows["text of ends", 0]
    assert (row["status"], row["score"], row["text"], row["receipt"]) == ("failed", 0, None, None)
    assert "has no answer: BadInput: keep" in row["reason"]
    item = make_item((300, 300), supporting=(1,))
    long = answer(engine, item, ENDS | {"keep": "50%"}, without("ends"))["text of ends", 0]
    assert (long["status"], long["score"]) == ("refused", 0)
    assert "512 positions" in long["reason"]


def test_a_cut_text_stays_cut_where_it_was(engine: Engine) -> None:
    item = make_item((100, 150, 120, 300, 90), supporting=(1, 3, 4))
    rows = answer(engine, item, ENDS | {"keep": 300}, without("ends"), truncate=True)
    like, row = rows["ends", 0], rows["text of ends", 0]
    chunks = json.loads(like["receipt"])["prompt"]["chunks"]
    assert [chunk["num_tokens"] for chunk in chunks][:3] == [100, 150, 120]
    cut = chunks[3]["num_tokens"]
    assert 0 < cut < 300
    assert [chunk["kept_per_layer"][-1] for chunk in chunks] == [100, 0, 0, cut]
    assert letters(row) == [100, cut]  # there would be room for more
    assert row["supporting_kept"] == like["supporting_kept"] == cut / (150 + cut)
    gone = answer(engine, item, ENDS | {"keep": 150}, without("ends"), truncate=True)["text of ends", 0]
    assert letters(gone)[0] == 100
    assert gone["num_tokens"] < 512 - 150


def test_chunks_among_the_sinks_are_still_there(engine: Engine) -> None:
    bare = Wording("", "", "\n{question}")
    item = make_item((3, 40, 50, 45), wording=bare, supporting=(0, 2))
    rows = answer(engine, item, ENDS, without("ends"))
    like, row = rows["ends", 0], rows["text of ends", 0]
    assert [chunk["num_tokens"] for chunk in json.loads(like["receipt"])["prompt"]["chunks"]] == [39, 50, 45]
    assert row["num_tokens"] == like["num_tokens"] - 50
    assert row["supporting_kept"] == like["supporting_kept"] == 0  # of the tokens that could leave
    only = answer(engine, make_item((3, 40, 50, 45), wording=bare, supporting=(0,)), ENDS, without("ends"))
    assert only["text of ends", 0]["supporting_kept"] == 1
    cut = answer(
        engine, make_item((3, 100, 150, 400), wording=bare, supporting=(2,)), ENDS, without("ends"), truncate=True
    )
    assert cut["text of ends", 0]["supporting_kept"] == cut["ends", 0]["supporting_kept"] == 0
    assert cut["ends", 0]["num_tokens"] - cut["text of ends", 0]["num_tokens"] >= 150


def test_all_chunks_may_leave(engine: Engine) -> None:
    rows = answer(engine, make_item(), ENDS | {"keep": 20}, without("ends"))
    row = rows["text of ends", 0]
    assert (letters(row), row["status"], row["supporting_kept"]) == ([], "ok", 0)


def test_run_alone_it_says_the_same(engine: Engine) -> None:
    arms = (ENDS, RANDOM, without("random"), without("ends"))
    together, apart = (answer(engine, make_item(), *arms, share=share) for share in (True, False))
    assert list(together) == list(apart)
    for key, row in apart.items():
        assert (row["ids"], row["supporting_kept"]) == (together[key]["ids"], together[key]["supporting_kept"])
        assert (row["shared"], row["batch_mates"]) == (False, 0)
    assert not together["text of ends", 0]["shared"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Path:
    """A whole run: EntroPrefill, the text of what it left, and claims about both."""
    folder = tmp_path_factory.mktemp("removed")
    claim = {"id": "C1", "statement": "It is so.", "kind": "difference", "at_least": -1, "kill_below": -1}
    claims = [claim | {"arm": "entro", "reference": "text of entro"}]
    arms = [{"name": "full"}, ENTRO, without("entro"), ENTRO | {"name": "short", "shortest": 10_000}]
    run_study(write_study(folder, model_folder, 6, arms=arms, claims=claims), folder / "run")
    return folder / "run"


def test_entroprefill_and_its_text_keep_the_same_chunks(run: Path) -> None:
    rows = read_run(run).rows.to_pylist()
    by_arm = {arm: {row["item"]: row for row in rows if row["arm"] == arm} for arm in ("entro", "text of entro")}
    removed = 0
    for item, like in by_arm["entro"].items():
        row = by_arm["text of entro"][item]
        chunks = json.loads(like["receipt"])["prompt"]["chunks"]
        kept = [chunk["title"] for chunk in chunks if chunk["kept_per_layer"][-1]]
        assert [chunk["title"] for chunk in json.loads(row["receipt"])["prompt"]["chunks"]] == kept
        assert row["supporting_kept"] == like["supporting_kept"]
        assert row["status"] == like["status"]
        removed += len(kept) < 3
    assert removed == 6


def test_claims_and_speeds_can_be_read_from_it(run: Path) -> None:
    found = read_run(run)
    (verdict,) = judge(found.study, found.rows, resamples=100)
    assert verdict.sentence == "no claim: tower_qa: 6 items, fewer than 20: shown, no claim."
    rates = rates_from_run(found)
    row = next(row for row in found.rows.to_pylist() if row["arm"] == "full")
    assert rates.kv_bytes_per_token == row["kv_bytes_full"] / (row["num_tokens"] + row["num_new_tokens"] - 1)


def test_its_report_has_the_decisions(run: Path, tmp_path: Path) -> None:
    write_report([run], tmp_path / "report", ("md", "csv"))
    page = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert "What was decided, and why not" in page
    assert "declined: the prompt has N tokens, fewer than shortest asks for (N)" in page
    assert "text of entro" in page
