"""A study's file: what it may say, and how clearly it is told what it may not."""

from __future__ import annotations

import math
import time
from datetime import date
from pathlib import Path

import pytest
import yaml
from studying import ARMS

from fewer import ModelFacts
from fewer.errors import BadInput
from fewer.study.arms import check_arms, expand_arms
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
RANKS = CLAIM | {"kind": "auc", "signal": "nll", "outcome": "correct", "at_least": 0.7, "kill_below": 0.6}


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
        ({"arms": [{"name": "full"}, {"evict": "topk"}]}, "topk is a design: add a score"),
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
        ({"arms": [{"name": "full"}, {"prune": "static", "keep": 0.5, "layer": "1"}]}, "'1'; .* whole number"),
        ({"arms": [{"name": "full"}, {"prune": "ends", "keep": 0.5, "layer": True}]}, "True; .* whole number"),
        ({"arms": [{"name": "full"}, {"prune": "random", "keep": 0.5, "layer": 1.5}]}, "1.5; .* whole number"),
        ({"arms": [{"name": "full"}, {"prune": "random", "keep": 0.5, "layer": [1, -1]}]}, "-1; .* whole number"),
        ({"arms": [{"name": "full"}, {"prune": "ends", "keep": []}]}, "keep of an arm is"),
        ({"arms": [{"name": "full"}, {"prune": [], "keep": 0.5}]}, "prune of an arm is"),
        ({"arms": [{"name": "full"}, {"prune": "ends", "keep": [*range(1, 40)], "layer": [*range(40)]}]}, "1000"),
        ({"arms": [{"name": "full"}, {"prune": "ends", "keep": 0.5, "name": 3}]}, "name of an arm is 3"),
        ({"arms": [{"name": "full"}, {"prune": "ends", "keep": 0.5, "name": " a"}]}, "without spaces at its ends"),
        ({"arms": [{"name": "full"}, {"prune": "ends", "keep": 0.5, "name": "a/b"}]}, "slashes"),
        ({"arms": [{"name": "full"}, {"prune": "ends", "keep": 0.5, "name": "a\x1b"}]}, "control characters"),
        ({"name": "a "}, "name: .*without spaces at its ends"),
        ({"tasks": [{"name": "a\t"}]}, "tasks.0.name"),
        ({"outcomes": [{"name": "a\nb", "below": 1}]}, "outcomes.0.name"),
        ({"tasks": [{"name": "a", "num_items": True}]}, "tasks.0.num_items"),
        ({"tasks": [{"name": "a", "max_length": "9"}]}, "tasks.0.max_length"),
        ({"tasks": [{"name": "a", "lengths": [True]}]}, "tasks.0.lengths.0"),
        ({"tasks": [{"name": "a", "depths": [True]}]}, "tasks.0.depths.0"),
        ({"sampling": {"temperature": True}}, "sampling.temperature"),
        ({"sampling": {"max_tokens": 2.0}}, "sampling.max_tokens"),
        ({"outcomes": [{"name": "good", "at_least": True}]}, "outcomes.0.at_least"),
        ({"claims": [CLAIM | {"level": "0.9"}]}, "claims.0.level"),
        ({"claims": [CLAIM | {"min_clusters": True}]}, "claims.0.min_clusters"),
        ({"share": 1}, "share"),
        ({"seeds": [True]}, "seeds.0"),
        ({"seeds": [2**63]}, "seeds.0 is a number of more than 64 bits"),
        ({"seeds": [-1]}, "seeds.0"),
        ({"task_seed": 2**64}, "task_seed is a number of more than 64 bits"),
        (
            {"claims": [RANKS | {"signal": "margins"}]},
            "signal is 'margins'; it must be one of first_margin, min_margin",
        ),
        ({"claims": [RANKS], "signals": []}, "with nll, which measures the nll of claim C1"),
        ({"claims": [RANKS | {"signal": "min_margin"}], "signals": ["nll"]}, "with margins"),
        ({"claims": [RANKS | {"signal": "agreement"}], "signals": ["margins"]}, "with agreement"),
        ({"tasks": [{"name": "a", "settings": {"day": date(2020, 1, 1)}}]}, "tasks.0.settings.day .*it is a date"),
        ({"tasks": [{"name": "a", "settings": {"days": {1, 2}}}]}, "tasks.0.settings.days .*it is a set"),
        ({"tasks": [{"name": "a", "settings": {3: 1}}]}, "a key of tasks.0.settings is 3"),
        ({"tasks": [{"name": "a", "settings": {"x": math.inf}}]}, "tasks.0.settings.x is inf"),
        ({"arms": [{"name": "full"}, {"prune": "ends", "keep": date(2020, 1, 1)}]}, "arms.1.keep .*it is a date"),
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
        ("s.py", "X = 1", "s.py: it defines no STUDY"),
        ("s.py", "import sys; sys.exit(0)", r"s.py .*ends Python \(sys.exit with 0\)"),
        ("s.py", "raise SystemExit", "ends Python"),
        ("s.py", "open('/none/rows.txt')", "s.py cannot be read as a study: FileNotFoundError: .*'/none/rows.txt'"),
        ("s.py", "STUDY = {'tasks': []}\nSTUDY['tasks'].append(STUDY)", "none may hold itself"),
        ("s.yaml", "name: a\ntasks: &x [{name: a, settings: {y: *x}}]", "s.yaml: line 2: an alias .* stands inside"),
        ("s.yaml", "name: a\nseeds: [0]\nseeds: [1]", "s.yaml: line 3: the key is 'seeds'; it must be given once"),
        ("s.yaml", "name: " + "[" * 9000, "cannot be read as a study"),
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


def test_an_alias_may_be_used_but_not_to_fill_the_memory(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "name: a\ntasks: [{name: a}]\narms: [{name: full}, &x {prune: ends, keep: 50%}, {<<: *x, keep: 1e-1}]"
    )
    assert [dict(arm.settings)["keep"] for arm in load_study(file).expanded[1:]] == ["50%", 0.1]
    bomb = "".join(f"k{i}: &k{i} [{', '.join([f'*k{i - 1}'] * 9)}]\n" for i in range(1, 30))
    file.write_text("k0: &k0 [x]\n" + bomb)
    begin = time.perf_counter()
    with pytest.raises(BadInput, match=r"with every alias written out is .* at most 100,000 values"):
        load_study(file)
    assert time.perf_counter() - begin < 5


def test_whole_numbers_stand_for_reals_and_the_largest_seed_is_taken() -> None:
    study = Study.model_validate(make(seeds=[2**63 - 1], sampling={"temperature": 1}, claims=[CLAIM | {"at_least": 0}]))
    assert (study.seeds[0], study.sampling.temperature, study.claims[0].at_least) == (2**63 - 1, 1.0, 0.0)


def facts(num_layers: int) -> ModelFacts:
    return ModelFacts("made up", "0" * 32, num_layers, 4, 2, (None,) * num_layers)


def test_an_arm_is_held_against_the_depth_of_the_model() -> None:
    arms = expand_arms([{"name": "full"}, {"prune": ["static", "random"], "keep": 0.5, "layer": 3}])
    check_arms(arms, facts(4))
    with pytest.raises(BadInput, match=r"static keep=0.5 layer=3.*from 1 to 2"):
        check_arms(arms, facts(3))
    with pytest.raises(BadInput, match=r"arm 'x' .*layer is 0"):
        check_arms(expand_arms([{"name": "full"}, {"name": "x", "prune": "static", "keep": 1, "layer": 0}]), facts(4))
