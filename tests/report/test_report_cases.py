"""What a report says where a run is short of something: rows, items, the full run, seconds, a registration."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_runs import TASKS, make_header, make_items, make_study, write_run

from fewer.report.block import Facts, Notice, Paragraph, Table
from fewer.report.build import build
from fewer.report.chart.mark import Figure
from fewer.study.folder import Run, read_run
from fewer.study.row import SCHEMA


def build_one(folder, **settings):
    return build([read_run(write_run(folder / "run", **settings))], ())


def notices(document):
    return {block.title: block for block in document.all(Notice)}


def table(document, name):
    return next(block for block in document.all(Table) if block.name == name)


def cells(document, name, key):
    found = table(document, name)
    place = [column.key for column in found.columns].index(key)
    return [row[place] for row in found.rows]


def test_a_run_without_rows_shows_its_setting_and_says_so(tmp_path):
    study = make_study()
    run = Run(tmp_path, make_header(study, make_items(5)), study, SCHEMA.empty_table())
    document = build([run], ())
    assert "No answers yet" in notices(document)
    assert [section.name for section in document.sections] == ["run", "not"]
    assert {cell.text for cell in cells(document, "verdicts", "verdict")} == {"undecided"}
    assert [cell.text for cell in cells(document, "statuses", "missing")] == ["5", "5", "5", "5", "15", "15", "5", "5"]


def test_a_run_with_one_item_has_numbers_and_no_intervals(tmp_path):
    document = build_one(tmp_path, items=make_items(1)[:1])
    for name, key in (("scores", "score"), ("scores", "difference"), ("costs", "speedup"), ("tasks", "full")):
        found = cells(document, name, key)
        assert all("[" not in cell.text for cell in found)
    score = cells(document, "scores", "score")[0]
    assert score.raw["_method"] == "no interval: one cluster says nothing about others"
    lengths, eligible = cells(document, "tasks", "length"), cells(document, "tasks", "eligible")
    assert [(length.text, cell.text) for length, cell in zip(lengths, eligible, strict=True)] == [
        ("–", "no"),
        ("512", "–"),
    ]


def test_only_whole_tasks_carry_claims_or_say_why_not(tmp_path):
    def change(row):
        memory = row["task"] == "nq_multidoc_10" and row["condition"] == "no_context"
        return {"score": 1.0, "status": "ok"} if memory else {}

    document = build_one(tmp_path, num_items=150, change_row=change)
    keys = ("task", "length", "eligible", "why")
    rows = list(zip(*([cell.text for cell in cells(document, "tasks", key)] for key in keys), strict=True))
    whole = {task: (eligible, why) for task, length, eligible, why in rows if length == "–"}
    assert whole.keys() == set(TASKS)
    assert whole["needle_words"] == ("yes", "–")
    eligible, why = whole["nq_multidoc_10"]
    assert (eligible, why.startswith("Without context the model scored 100%, not clearly below its ")) == ("no", True)
    assert why.endswith("with it: this may measure memory or chance: no claim.")
    of_lengths = [(task, eligible, why) for task, length, eligible, why in rows if length != "–"]
    assert len(of_lengths) == 6
    assert {found[1:] for found in of_lengths} == {("–", "–")}


def test_a_run_without_full_rows_has_scores_and_no_differences(tmp_path):
    document = build_one(tmp_path, num_items=30, keep_row=lambda row: row["arm"] != "full")
    assert "No full run" in notices(document)
    assert all(cell.text == "–" for cell in cells(document, "scores", "difference"))
    assert all(cell.order is not None for cell in cells(document, "scores", "score"))
    assert {cell.text for cell in cells(document, "verdicts", "verdict")} == {"undecided"}
    assert not [figure for figure in document.all(Figure) if figure.name == "score-speedup"]


def test_an_unfinished_run_is_a_preview(tmp_path):
    items = make_items(30)
    document = build_one(tmp_path, items=items, keep_row=lambda row: row["unit"] < 12)
    notice = notices(document)["The run is not finished"]
    assert notice.texts[0].startswith("12 of 30 items are finished.")
    assert cells(document, "statuses", "missing")[0].text == "18"
    assert {cell.text for cell in cells(document, "verdicts", "verdict")} == {"undecided"}


def test_shared_arms_have_no_speedup_and_the_page_says_why(tmp_path):
    document = build_one(tmp_path, num_items=30, study=make_study(share=True, claims=()))
    names = {figure.name for figure in document.all(Figure)}
    assert "score-work" in names
    assert "score-speedup" not in names
    figure = next(figure for figure in document.all(Figure) if figure.name == "score-work")
    assert figure.notes[0].startswith("No seconds here")
    assert all(cell.text == "–" for cell in cells(document, "costs", "speedup"))
    titles = [column.title for column in table(document, "costs").columns]
    assert "first token, sum of shared parts" in titles
    assert "No answer ran alone, so no seconds can be compared." in " ".join(
        block.text for block in document.all(Paragraph)
    )
    assert not [found for found in document.all(Table) if found.name == "equal-time"]


def test_an_arm_that_was_not_timed_alone_is_named(tmp_path):
    document = build_one(
        tmp_path, num_items=30, change_row=lambda row: {"shared": True} if row["prune"] == "ends" and row["ids"] else {}
    )
    figure = next(figure for figure in document.all(Figure) if figure.name == "score-speedup")
    assert figure.notes == (
        "Not shown, since they were not timed alone beside the full run: ends keep=50%, ends keep=25%.",
    )


@pytest.mark.parametrize(
    ("kind", "title", "tone"),
    [
        ("registered", "Registered before the run", "good"),
        ("differs", "This run differs from what was registered", "alarm"),
        ("none", "Not registered", "warn"),
    ],
)
def test_the_registration_comes_first_and_in_its_own_words(tmp_path, kind, title, tone):
    status = {"kind": kind, "sentence": "A sentence.", "differences": ["Arm a was added."], "notes": ["torch was 1."]}
    status["registered_at"] = "2026-11-29T12:00:00Z"
    document = build_one(tmp_path, num_items=5, header={"registration": status})
    first = document.sections[0].blocks[0]
    assert (first.title, first.tone) == (title, tone)
    assert first.texts[:3] == ("A sentence.", "Arm a was added.", "torch was 1.")


def test_a_header_that_says_little_leaves_gaps_and_no_guesses(tmp_path):
    empty = {"registration": None, "environment": None, "setting": None, "units": [], "left_out": None}
    run = read_run(write_run(tmp_path / "run", num_items=10))
    document = build([replace(run, header=run.header | empty)], ())
    facts = dict(document.all(Facts)[0].facts)
    assert document.sections[0].blocks[0].title == "Not registered"
    assert facts["chat template"] == "not noted"
    assert facts["truncation"] == "not noted"
    assert facts["model"].startswith("tiny-360m")  # from the rows


def test_the_facts_of_the_run_are_all_there(tmp_path):
    facts = dict(build_one(tmp_path, num_items=10).all(Facts)[0].facts)
    assert facts["versions"] == "fewer 0.2.0, torch 2.13.0, transformers 5.24.0, python 3.11.9"
    assert facts["ends at"].startswith("<|im_end|>")
    assert facts["observation window"] == "the last token of the prompt"
    assert facts["device and threads"] == "cpu; 2 threads"
    assert facts["arms"] == "each ran alone"
    assert facts["items"].startswith("10 of 10, in ")


def test_what_the_numbers_are_not_comes_last_and_counts_the_differences(tmp_path):
    document = build_one(tmp_path, num_items=10)
    last = document.sections[-1]
    assert last.title == "What these numbers are not"
    text = " ".join(block.text for block in last.blocks)
    assert "One machine and one model: tiny-360m on cpu in float32, 10 items of 5 tasks." in text
    assert "not over tasks" in text
    assert "intervals at 95%: about" in text
