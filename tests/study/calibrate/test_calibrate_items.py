"""Labels, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from studying import make_rows, write_rows

from fewer.engine import Engine
from fewer.errors import BadInput, PromptTooLong
from fewer.study.calibrate import calibrate
from fewer.study.calibrate.items import find_answers, gather, lay_out_all
from fewer.study.item import Item, lay_out_item
from fewer.types import Document


@pytest.fixture(scope="module")
def engine(model_folder: Path) -> Engine:
    return Engine.load(str(model_folder), dtype="float32")


def make_item(chunks: list[str], answers: tuple[str, ...], supporting: tuple[int, ...]) -> Item:
    documents = tuple(Document(chunk) for chunk in chunks)
    return Item("i", "lamps", "single_doc_qa", "c", documents, "What?", answers, "qa_f1", supporting=supporting)


@pytest.mark.parametrize(
    ("answers", "supporting", "spelled"),
    [
        (("red",), (1,), ["red"]),
        (("RED ", "é"), (1,), ["é", "red"]),
        (("red",), (0, 1, 2), ["red", "red"]),
        (("red",), (0,), []),
        (("the lamp is red",), (2,), ["The lamp is red"]),
        (("c++",), (2,), ["C++"]),
        (("red",), (), []),
        (("",), (1,), []),
    ],
)
def test_labels_are_whole_words_in_supporting_chunks(
    engine: Engine, answers: tuple[str, ...], supporting: tuple[int, ...], spelled: list[str]
) -> None:
    chunks = ["It was redder, he inferred.", "Café 日本: é was red!", "The lamp is red. C++ is not."]
    item = make_item(chunks, answers, supporting)
    prompt = lay_out_item(engine.tokenizer, item, 512)
    found = find_answers(engine.tokenizer, item, prompt)
    places = found.nonzero().flatten().tolist()
    runs = [[place] for place in places if place - 1 not in places]
    for run in runs:
        while run[-1] + 1 in places:
            run.append(run[-1] + 1)
    assert [engine.tokenizer.decode(prompt.ids[run].tolist()) for run in runs] == spelled
    assert not bool((found & prompt.protected).any())


def test_prompts_come_evenly_from_the_tasks(engine: Engine, tmp_path: Path) -> None:
    write_rows(tmp_path, make_rows(9))
    write_rows(tmp_path, make_rows(3, "other"))
    found = gather(engine, ["tower_qa", "other"], tmp_path, length=1, num_prompts=7, seed=0)
    assert [each.task for each in found] == ["tower_qa"] * 4 + ["other"] * 3


def test_a_folder_without_labels(engine: Engine, tmp_path: Path) -> None:
    write_rows(tmp_path, [{**row, "supporting": None} for row in make_rows(4)])
    with pytest.raises(BadInput, match=r"'tower_qa' has 0 prompts with supporting labels; it takes at least 2"):
        calibrate(engine, data=tmp_path, num_prompts=4, check_items=0)


def test_prompts_that_do_not_fit(engine: Engine, tmp_path: Path) -> None:
    write_rows(tmp_path, make_rows(4, chunk="The lamp is red. " * 40))
    with pytest.raises(
        PromptTooLong, match=r"The prompts of tower_qa, .*the 512 positions of the model.*smaller length"
    ):
        calibrate(engine, data=tmp_path, num_prompts=4, check_items=0)
    item = make_item(["The lamp is red. " * 40], ("red",), (0,))
    with pytest.raises(PromptTooLong, match="The prompts of lamps, "):
        lay_out_all(engine, [item])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": ["nothing"]}, "task is 'nothing'; it must be one of ruler_niah_single_1"),
        ({"tasks": ["passcode", "passcode"]}, "named once"),
        ({"tasks": ["passcode"], "num_prompts": 1}, "num_prompts is 1"),
        ({"num_prompts": 7}, "num_prompts is 7; it must be a whole number of at least 8"),
        ({"check_items": -1}, "check_items is -1"),
        ({"seed": -1}, "seed is -1"),
        (
            {"tasks": ["passcode", "ruler_niah_multiquery", "reordered", "several_questions"]},
            "every task to check on is fitted on",
        ),
        ({"tasks": ["ruler_cwe"], "length": 4000, "check_items": 0}, "ruler_cwe"),
    ],
)
def test_bad_settings(engine: Engine, settings: dict, message: str) -> None:
    with pytest.raises((BadInput, PromptTooLong), match=message):
        calibrate(engine, **settings)


def test_options_of_a_folder_that_nobody_would_read(engine: Engine, tmp_path: Path) -> None:
    write_rows(tmp_path, make_rows(4))
    with pytest.raises(BadInput, match="length is 100; it must be left out"):
        calibrate(engine, data=tmp_path, num_prompts=4, check_items=0, length=100)
    with pytest.raises(BadInput, match="a folder with passcode"):
        calibrate(engine, tasks=["passcode"], data=tmp_path)
    with pytest.raises(BadInput, match=r"task is 'nothing'; it must be in .*tower_qa"):
        calibrate(engine, tasks=["nothing"], data=tmp_path)
