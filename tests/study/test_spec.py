"""A study's file: what it may say, and how clearly it is told what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from studying import ARMS

from fewer.errors import BadInput
from fewer.study.spec import Claim, Outcome, Study, load_study

TASKS = [{"name": "a"}, {"name": "b", "num_items": 3, "max_length": 100}]
CLAIM = {
    "id": "C1",
    "statement": "Static pruning costs less than .05.",
    "kind": "difference",
    "arm": "static keep=50% layer=1",
    "at_least": -0.05,
    "kill_below": -0.1,
}


def make(**changes: object) -> dict:
    return {"name": "towers", "tasks": TASKS, "arms": ARMS, "claims": [CLAIM]} | changes


def test_lists_stand_for_every_combination() -> None:
    names = [arm.name for arm in Study.model_validate(make()).expanded]
    assert names == [
        "full",
        "no_context",
        "random keep=50% layer=1",
        "random keep=25% layer=1",
        "static keep=50% layer=1",
        "static keep=25% layer=1",
        "ends of it",
    ]


def test_the_hash_is_of_what_it_says_not_of_how(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(make(), sort_keys=True))
    (tmp_path / "b.yml").write_text("# a comment\n" + yaml.safe_dump(make(), sort_keys=False))
    (tmp_path / "c.py").write_text(f"STUDY = {make()!r}\n")
    hashes = {load_study(tmp_path / name).sha256 for name in ("a.yaml", "b.yml", "c.py")}
    assert len(hashes) == 1
    assert Study.model_validate(make(seeds=[1])).sha256 not in hashes


def test_a_python_file_may_hold_a_study(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(f"from fewer.study.spec import Study\nSTUDY = Study.model_validate({make()!r})\n")
    assert load_study(tmp_path / "s.py") == Study.model_validate(make())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": [{"prune": "static", "keep": 0.5}]}, "exactly one, named full"),
        ({"arms": [{"name": "full"}, {"name": "again"}]}, "exactly one, named full"),
        ({"arms": [{"name": "full"}, {"prune": "lazy", "keep": 0.5}]}, "prune is 'lazy'; it must be one of none, ends"),
        ({"arms": [{"name": "full"}, {"prune": "static"}]}, "keep"),
        ({"arms": [{"name": "full"}, {"prune": "static", "keep": 1.5}]}, "keep is 1.5"),
        ({"arms": [{"name": "full"}, {"prune": "static", "keep": 0.5, "colour": 1}]}, "colour"),
        ({"arms": [{"name": "full"}, {"keep": 0.5}]}, "nothing is pruned"),
        ({"arms": [{"name": "full"}, {"evict": "topk"}]}, "none in this version"),
        ({"arms": [{"name": "full"}, {"condition": "stream"}]}, "one of aware, no_context"),
        ({"arms": [{"name": "full"}, {"condition": "no_context", "prune": "ends", "keep": 1}]}, "no context"),
        ({"arms": [{"name": "full"}, {"name": "x", "prune": "ends", "keep": [1, 2]}]}, "left out"),
        ({"arms": [{"name": "full"}, {"prune": "ends", "keep": [2, 2]}]}, "given once"),
        ({"tasks": []}, "tasks"),
        ({"tasks": [{"name": "a"}, {"name": "a"}]}, "given once"),
        ({"tasks": [{"name": "a", "num_items": 0}]}, "num_items"),
        ({"tasks": [{"name": "a", "items": 3}]}, "tasks.0.items"),
        ({"seeds": []}, "seeds"),
        ({"seeds": [0, 0]}, "given once"),
        ({"signals": ["luck"]}, "luck"),
        ({"colour": "red"}, "colour"),
        ({"outcomes": [{"name": "score", "at_least": 1}]}, "another name than score"),
        ({"outcomes": [{"name": "good"}]}, "at least one bound"),
        ({"claims": [CLAIM | {"arm": "statik"}]}, "'statik'"),
        ({"claims": [CLAIM | {"tasks": ["c"]}]}, "'c'"),
        ({"claims": [CLAIM | {"outcome": "good"}]}, "'good'"),
        ({"claims": [CLAIM | {"kill_below": 0.1}]}, "hold and be killed at once"),
        ({"claims": [CLAIM | {"kind": "auc"}]}, "signal"),
        ({"claims": [CLAIM | {"kind": "speedup", "at_least": 1.1, "kill_below": 1}]}, "Seconds count only"),
        ({"claims": [CLAIM, CLAIM]}, "given once"),
        ({"model": {"dtype": "float16"}}, "float16"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, changes: dict, message: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(make(**changes)))
    with pytest.raises(BadInput, match=message) as caught:
        load_study(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.txt", "", r"\.yaml, \.yml, \.json or \.py"),
        ("s.yaml", "- 1\n", "a mapping with name"),
        ("s.yaml", "a: [", "cannot be read as a study"),
        ("s.py", "1/0", "ZeroDivisionError"),
        ("s.py", "X = 1", "defines no STUDY"),
    ],
)
def test_files_that_are_no_study(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=message):
        load_study(tmp_path / name)
    with pytest.raises(BadInput, match="does not exist"):
        load_study(tmp_path / "none.yaml")


def test_outcomes_are_bounds_on_two_scores() -> None:
    failure = Outcome(name="made by pruning", below=0.5, full_at_least=0.5)
    found = [failure.holds(score, full) for score, full in ((0.4, 0.5), (0.5, 0.5), (0.4, 0.4), (0.0, 1.0))]
    assert found == [True, False, False, True]


def test_a_claim_may_have_room_between_holding_and_being_killed() -> None:
    assert Claim.model_validate(CLAIM).level == 0.95
