"""Odds from a finished run: who is counted as what, who is left out and why, and for which setting the table is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from doubting import make_rows, make_study, places_of
from fewer import Engine
from fewer.decide import attribute
from fewer.decide.reading import ON_RECEIPTS, read_receipt
from fewer.errors import BadInput
from fewer.receipt import Receipt
from fewer.study.answering import Answering
from fewer.study.cells import list_cells
from fewer.study.folder import Run
from fewer.study.item import Item
from fewer.study.prepare import Unit
from fewer.study.row import SCHEMA
from fewer.study.sessions.measured import measure_odds
from fewer.types import Document, Wording

ARM = "pivotal:snapkv budget=50% moment=context"
DRAWS = "poisson:snapkv budget=25% seed=0 moment=context"


@pytest.fixture(scope="module")
def receipts(model_folder: Path) -> dict[str, str]:
    """What a tiny model's receipts say, by arm."""
    engine = Engine.load(str(model_folder), dtype="float32")
    chunks = tuple(Document(chr(97 + number) * 60) for number in range(4))
    wording = Wording("Read:\n", "\n", "\n{question}")
    item = Item("i", "keys", "qa", "c", chunks, "Which one?", ("red",), "qa_f1", wording, max_tokens=9)
    study = make_study()
    rows = Answering(study, engine, list_cells(study), {}).answer(Unit(0, item, 300))
    return {row["arm"]: row["receipt"] for row in rows}


def make_run(receipts: dict[str, str], change: Any = None, num_items: int = 60, units: int | None = None) -> Run:
    """A finished run of made-up answers with these receipts. change: of each row as a dict."""
    study, rows = make_study(), make_rows(make_study(), num_items).to_pylist()
    for number, row in enumerate(rows):
        row["receipt"] = receipts[row["arm"]]
        row["certificate_clipped"] = row["certificate"]
        if change is not None:
            change(number, row)
    table = pa.Table.from_pylist(rows, SCHEMA)
    return Run(Path("run"), {"units": list(range(units or num_items))}, study, table)


def test_each_answer_is_counted_as_what_became_of_it(receipts) -> None:
    run = make_run(receipts)
    found = measure_odds(run, ARM)
    place = places_of(run.study, run.rows)["pivotal:snapkv", "50%"]
    right, full = place.score >= 0.5, place.full >= 0.5
    whole = found.odds.whole
    assert (whole.n, whole.broken.clusters, found.left_out) == (60, 15, {})
    assert whole.broken.share == pytest.approx((full & ~right).mean())
    assert whole.wrong.share == pytest.approx((~full & ~right).mean())
    assert whole.broken_of_failed.share == pytest.approx((full & ~right).sum() / (~right).sum())
    low, high = (sum(cell.broken.n for cell in found.odds.cells[row]) for row in (0, -1))
    assert low == high == 20


def test_draws_of_a_policy_count_together(receipts) -> None:
    found = measure_odds(make_run(receipts), DRAWS)
    assert (found.odds.whole.n, found.odds.whole.broken.clusters) == (120, 15)


def test_the_table_is_for_the_answers_own_setting(receipts) -> None:
    receipt = Receipt.model_validate_json(receipts[ARM])
    found = measure_odds(make_run(receipts), ARM, command="fewer odds run").odds
    found.check(read_receipt(receipt).setting)
    assert (found.condition, found.budget, found.study) == ("stream", "50%", "sessions-made-up")
    assert (found.command, found.signal, found.model) == ("fewer odds run", "certificate_clipped", receipt.model.name)
    assert attribute(receipt, found).certificate == receipt.certificate.clipped
    other = Receipt.model_validate_json(receipts[ARM.replace("50%", "25%")])
    with pytest.raises(BadInput, match=r"budget.keep \(50% in the table, 25% here\)"):
        attribute(other, found)


def test_answers_without_numbers_are_left_out_and_counted(receipts) -> None:
    def change(number: int, row: dict[str, Any]) -> None:
        if row["arm"] == ARM and row["unit"] < 6:
            row |= ({"certificate_clipped": None}, {"mean_logprob": None}, {"status": "failed"})[row["unit"] % 3]

    found = measure_odds(make_run(receipts, change), ARM)
    assert found.left_out == {"no certificate": 2, "no log-probability": 2, "no answer": 2}
    assert found.odds.whole.n == 54


def test_an_item_without_the_full_caches_answer_is_left_out(receipts) -> None:
    """It has the score 0, and is not known to be wrong with both."""

    def change(number: int, row: dict[str, Any]) -> None:
        if row["unit"] < 2 and row["arm"] == "full":
            row |= {"status": "refused", "score": 0.0}

    run = make_run(receipts, change)
    found, place = measure_odds(run, ARM), places_of(run.study, run.rows)["pivotal:snapkv", "50%"]
    kept = [number for number, answer in enumerate(place.answers) if answer.item not in ("keys/0", "values/1")]
    assert found.left_out == {"no answer with the full cache": 2}
    assert found.odds.whole.n == len(kept) == 58
    both = (place.full[kept] < 0.5) & (place.score[kept] < 0.5)
    assert found.odds.whole.wrong.share == pytest.approx(both.mean())


def test_an_answer_over_a_whole_cache_is_left_out(receipts) -> None:
    def change(number: int, row: dict[str, Any]) -> None:
        if row["unit"] == 0:
            row["receipt"] = receipts["full"]

    assert measure_odds(make_run(receipts, change), ARM).left_out == {"nothing had left the cache": 1}


@pytest.mark.parametrize("signal", ON_RECEIPTS)
def test_every_signal_that_is_on_receipts_can_be_taken(receipts, signal) -> None:
    def change(number: int, row: dict[str, Any]) -> None:
        row[signal] = row["certificate_clipped"]

    assert measure_odds(make_run(receipts, change), ARM, signal).odds.signal == signal


def test_what_cannot_be_measured_is_refused(receipts) -> None:
    run = make_run(receipts)
    with pytest.raises(BadInput, match=r"arm is 'full'; it must be one of snapkv budget=50% moment=context, .*poisson"):
        measure_odds(run, "full")
    with pytest.raises(BadInput, match="signal is 'entropy'; it must be one of certificate_clipped"):
        measure_odds(run, ARM, "entropy")
    with pytest.raises(
        BadInput, match=r"at least one \(60: no certificate\). Take an arm that draws: pivotal:snapkv b.*"
    ):
        measure_odds(run, ARM.replace("pivotal:", ""))
    with pytest.raises(BadInput, match="finished: 60 of 61 items are in"):
        measure_odds(make_run(receipts, units=61), ARM)
    with pytest.raises(BadInput, match="number of clusters is 4; it must be at least 10"):
        measure_odds(make_run(receipts, num_items=16), ARM)
    with pytest.raises(BadInput, match="an outcome that is nothing but at_least"):
        measure_odds(replace(run, study=make_study(outcomes=[{"name": "wrong", "below": 0.5}])), ARM)


def test_receipts_that_disagree_and_old_ones_are_refused(receipts) -> None:
    def mix(number: int, row: dict[str, Any]) -> None:
        if row["arm"] == ARM and row["unit"] == 3:
            row["receipt"] = receipts[ARM.replace("50%", "25%")]

    with pytest.raises(BadInput, match=r"the setting of the answers is 'budget.keep'; .* the same on all receipts"):
        measure_odds(make_run(receipts, mix), ARM)
    old = json.dumps(json.loads(receipts[ARM]) | {"schema_version": "5"})
    with pytest.raises(BadInput, match="of this version"):
        measure_odds(make_run(receipts | {ARM: old}), ARM)
