"""Characters that act on a screen do not reach any file of a report, wherever they come from."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from made_runs import ENVIRONMENT, make_items, make_study, write_run

from fewer.report import write_report
from fewer.report.block import Notice, word
from fewer.report.clean import clean

ACTING = "\x00\x1b[31m\x7f\x85\u202a\u202e\u2066\u2069\u2028"


def test_all_control_and_turning_characters_are_replaced_and_letters_are_not():
    for number in range(sys.maxunicode + 1):
        letter = chr(number)
        acts = unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") and letter not in "\t\n"
        acts |= unicodedata.bidirectional(letter) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        assert clean(letter) == ("\ufffd" if acts or number in (0xFFFE, 0xFFFF) else letter)
    assert clean("a\r\nb\rc") == "a\nb\ufffdc"


def test_every_text_of_a_block_and_a_cell_is_cleaned_and_the_rest_is_the_same():
    cell = word("a\x00", "good", "n\x1b")
    assert clean(cell) == word("a\ufffd", "good", "n\ufffd")
    notice = Notice("a", ("b\u202e",))
    assert clean(notice) == Notice("a", ("b\ufffd",))
    fine = Notice("a", ("b",))
    assert clean(fine) is fine


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    name = f"a{ACTING}b"
    study = make_study(
        title=name,
        arms=[{"name": "full"}, {"prune": "static", "keep": "50%"}],
        outcomes=(),
        claims=[{"id": "C1", "statement": name, "kind": "level", "arm": "full", "at_least": 0.5, "kill_below": 0.1}],
    )
    words = {"category": name}
    items = [item | words | {"cluster": f"{name}{n}"} for n, item in enumerate(make_items(24))]
    run = write_run(
        tmp_path_factory.mktemp("runs") / "run",
        study=study,
        items=items,
        header={
            "registration": {"kind": "differs", "sentence": name, "differences": [name], "notes": [name]},
            "left_out": {name: 3},
            "environment": ENVIRONMENT | {"device": name},
        },
        change_row=lambda row: {"reason": name, "status": "failed"} if row["unit"] == 3 else {},
    )
    folder = tmp_path_factory.mktemp("reports") / "out"
    write_report([run], folder, ("md", "html", "svg", "csv"))
    return folder


def test_no_file_of_a_report_has_them(out):
    found = [path for path in out.rglob("*") if path.is_file()]
    assert {path.suffix for path in found} == {".md", ".html", ".svg", ".csv", ".json"}
    for path in found:
        text = path.read_bytes().decode()
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", text), path.name
    for name in ("report.md", "report.html", "tables/tasks.csv", "tables/statuses.csv"):
        assert "a\ufffd\ufffd" in (out / name).read_text(encoding="utf-8"), name
