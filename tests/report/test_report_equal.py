"""Comparisons: only within a budget, only of the same items, and papers only beside."""

from __future__ import annotations

import numpy as np
import pytest
from made_runs import make_items, make_study, read_sheet, write_run

from fewer.report.block import Notice, Table
from fewer.report.build import build
from fewer.report.equal import CLOSE
from fewer.report.published import PUBLISHED, Published, find_published
from fewer.study.folder import read_run


def tables(document):
    return {block.name: block for block in document.all(Table)}


def test_no_pair_has_two_budgets(report):
    rows = read_sheet(report / "tables" / "equal-tokens.csv")
    assert len(rows) == 4 * 2 * 3
    for row in rows:
        keeps = {row[key].split("keep=")[1] for key in ("first", "second")}
        assert keeps == {row["budget"]}


@pytest.mark.parametrize("name", ["equal-bytes", "equal-time"])
def test_pairs_of_near_budgets_are_near(report, name):
    rows = read_sheet(report / "tables" / f"{name}.csv")
    assert rows
    for row in rows:
        first, second = float(row["measure_first"]), float(row["measure_second"])
        assert abs(first - second) <= CLOSE * max(first, second)
        assert row["first"] != row["second"]


def test_a_pairs_difference_is_of_the_same_items(run, report):
    rows = read_run(run).rows.to_pylist()
    for line in read_sheet(report / "tables" / "equal-tokens.csv"):
        scores = []
        for arm in (line["first"], line["second"]):
            items: dict[str, list[float]] = {}
            for row in rows:
                if row["arm"] == arm and row["category"] == line["category"]:
                    items.setdefault(row["item"], []).append(row["score"])
            scores.append({item: np.mean(values) for item, values in items.items()})
        paired = [scores[0][item] - scores[1][item] for item in scores[0]]
        assert float(line["difference"]) == pytest.approx(np.mean(paired))
        assert int(line["n"]) == len(paired)


def test_areas_are_of_one_arm_and_so_of_one_budget(report):
    rows = read_sheet(report / "tables" / "areas.csv")
    assert rows
    assert all(row["arm"] == "full" or row["arm"].endswith(f"keep={row['budget']}") for row in rows)
    assert {row["signal"] for row in rows} == {"mean log-probability", "smallest margin", "margin of the first token"}
    assert not [row for row in rows if row["arm"] == "full" and row["outcome"] == "lost by pruning"]
    for row in rows:
        assert not row["auc"] or 0 <= float(row["auc"]) <= 1


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    items = make_items(40, ["contracts", "needle_words"])
    moved = [item | {"item": f"{item['item']}-new"} if item["task"] == "contracts" else item for item in items]
    arms = [{"name": "full"}, {"name": "mine", "prune": "static", "keep": "50%"}]
    other = [{"name": "full"}, {"name": "mine", "prune": "static", "keep": "25%"}]
    first = make_study(arms=arms, claims=())
    settings = {
        "a": (first, items),
        "b": (make_study(arms=arms, claims=(), seeds=[7]), items),
        "c": (first, moved),
        "d": (make_study(arms=other, claims=(), model={"path": "tiny-135m"}), items),
    }
    return {
        name: read_run(write_run(folder / name, study=study, items=mine, seed=ord(name)))
        for name, (study, mine) in settings.items()
    }


def test_runs_of_the_same_items_are_paired(runs):
    found = tables(build([runs["a"], runs["b"]], ()))
    assert {row[0].text: row[2].text for row in found["settings"].rows}["study.seeds"] == "7"
    rows = [runs[name].rows.to_pylist() for name in "ab"]
    place = ("mine", "contracts")
    scores = [{row["item"]: row["score"] for row in one if (row["arm"], row["task"]) == place} for one in rows]
    row = next(row for row in found["runs"].rows if [row[0].text, row[1].text] == ["contracts", "mine"])
    assert row[4].order == pytest.approx(np.mean([scores[1][item] - scores[0][item] for item in scores[0]]))
    assert row[4].raw["_n"] == row[5].order == 20


def test_runs_of_other_items_stand_side_by_side(runs):
    document = build([runs["a"], runs["c"]], ())
    titles = {notice.title: notice.texts for notice in document.all(Notice)}
    assert titles["Not paired with run 1 (a)"] == (
        "The items are not the same, so only the scores are shown, for: contracts, run 2 (c).",
    )
    by_task = {(row[0].text, row[1].text): row for row in tables(document)["runs"].rows}
    apart, together = by_task["contracts", "full"], by_task["needle_words", "full"]
    assert apart[4].text == "–"
    assert apart[5].text == "0"
    assert apart[2].order is not None
    assert apart[3].order is not None
    assert together[4].order is not None


def test_arms_of_one_name_that_differ_are_not_compared(runs):
    document = build([runs["a"], runs["d"]], ())
    titles = {notice.title: notice.texts[0] for notice in document.all(Notice)}
    assert "defined otherwise, so not compared: mine" in titles["Arms that are not the same"]
    found = tables(document)
    assert {row[1].text for row in found["runs"].rows} == {"full"}
    fields = {row[0].text: [cell.text for cell in row[1:]] for row in found["settings"].rows}
    assert fields["study.arms.mine.keep"] == ["50%", "25%"]
    assert fields["study.model.path"] == ["tiny-360m", "tiny-135m"]


def test_three_runs_have_files_of_their_own(runs):
    document = build([runs["a"], runs["b"], runs["c"]], ())
    names = [table.name for table in document.all(Table)]
    assert len(set(names)) == len(names)
    assert {"1-scores", "2-scores", "3-scores", "runs"} <= set(names)
    assert document.sections[0].title == "run 1 (a): The run"


def test_published_numbers_are_those_of_the_papers():
    values = {(entry.what, entry.arm): (entry.value, entry.beside, entry.speedup) for entry in PUBLISHED}
    assert values["multi-document QA", "static"] == (19.93, 22.43, 2.16)
    assert values["multi-document QA", "random"] == (16.77, 22.43, 1.19)
    assert values["multi-document QA", "lazyllm"] == (22.31, 22.43, 2.34)
    assert values["summarisation", "lazyllm"] == (24.75, 24.65, 1.46)
    assert values["AUC of attribution by the certificate, prompts of 6k", "evict"][0] == 0.749
    assert len(values) == len(PUBLISHED)


def test_only_arms_of_the_same_kind_stand_beside_a_paper(report, run):
    rows = read_sheet(report / "tables" / "published.csv")
    assert {row["arm"].split()[0] for row in rows} == {"static", "random"}
    assert {row["category"] for row in rows} == {"multi_hop", "multi_doc_qa"}
    for row in rows:
        assert float(row["published_of_full"]) == pytest.approx(float(row["published"]) / 22.43)
        assert "Theirs: Llama 2 7B, multi-document QA of LongBench" in row["setting"]
        assert "Ours: tiny-360m, " in row["setting"]
        assert float(row["of_full"]) > 0
    assert find_published("ends", "multi_hop") == []
    assert find_published("static", "code") == []
    assert find_published("evict", "") == []
    assert "published" not in tables(build([read_run(run)], ()))


def test_a_paper_value_of_ones_own_is_shown(run):
    mine = Published(
        "A paper", "Table 9", "a model", "a benchmark", "needles", ("synthetic",), "ends", 0.5, 0.8, None, 1.0
    )
    found = tables(build([read_run(run)], (mine,)))["published"]
    assert len(found.rows) == 2
    assert {row[8].text for row in found.rows} == {"0.50 of 1"}
