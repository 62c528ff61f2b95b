"""Calibrated settings: read, checked against the model, overridden, and refused with file and reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deciding import FACTS

from fewer import BadInput, EntroPrefill, Keep, ModelFacts
from fewer.prune import make_planner
from fewer.prune.entroprefill import Calibrated, load_calibrated, shipped_calibrated
from fewer.prune.shipped import find_shipped

CHOSEN = {"monitor": "2:1+3, 4:all", "keep": "40%", "keep_at_most": "70%", "tolerance": 0.25, "observers": 5}


def content(**changes: Any) -> dict[str, Any]:
    made = {"format": "fewer-entroprefill", "version": 1, "model": "made up", "fingerprint": FACTS.fingerprint}
    sizes = {"num_layers": FACTS.num_layers, "num_heads": FACTS.num_heads}
    return {**made, **sizes, "settings": CHOSEN, "fitted_on": {"tasks": ["towers"], "prompts": 80}, **changes}


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "made-up.json"
    path.write_text(json.dumps(content(**changes)))
    return path


def test_its_settings_come_before_the_presets_and_after_what_is_given(tmp_path: Path) -> None:
    path = write(tmp_path)
    for profile in (path, str(path), load_calibrated(path)):
        settings = EntroPrefill(profile=profile).fitted(FACTS).settings
        assert (settings.tolerance, settings.observers, settings.zeta) == (0.25, 5, 0.1)
        assert (settings.keep, settings.keep_at_most) == (Keep(fraction=0.4), Keep(fraction=0.7))
    planner = EntroPrefill(profile=path, tolerance=0.5, keep="20%").fitted(FACTS)
    assert (planner.settings.tolerance, planner.settings.observers) == (0.5, 5)
    assert planner.settings.keep_at_most == Keep(fraction=0.2)
    assert planner.heads == {2: (1, 3), 4: (0, 1, 2, 3)}
    assert make_planner("entroprefill", profile=str(path)).fitted(FACTS).heads == planner.heads
    for without in (None, "none"):
        assert make_planner("entroprefill", profile=without).fitted(FACTS).settings.tolerance == 0.3


def test_the_receipt_names_the_file_by_its_content(tmp_path: Path) -> None:
    one = EntroPrefill(profile=write(tmp_path)).fitted(FACTS)
    title = one.describe()["profile"]
    assert title.startswith("made up (")
    assert EntroPrefill(profile=load_calibrated(tmp_path / "made-up.json")).fitted(FACTS) == one
    assert hash(one) == hash(one.fitted(FACTS))
    other = EntroPrefill(profile=write(tmp_path, settings=CHOSEN | {"tolerance": 0.26})).fitted(FACTS)
    assert other.describe()["profile"] != title


@pytest.mark.parametrize(
    ("changes", "differ"),
    [
        ({"fingerprint": "1" * 32}, "weights (11111111 in the file, 00000000 in the model)"),
        ({"num_layers": 7}, "layers (7 in the file, 6 in the model)"),
        ({"num_heads": 8}, "heads (8 in the file, 4 in the model)"),
        (
            {"num_heads": 8, "num_layers": 7},
            "layers (7 in the file, 6 in the model) and heads (8 in the file, 4 in the model)",
        ),
    ],
    ids=str,
)
def test_another_models_is_refused(tmp_path: Path, changes: dict[str, Any], differ: str) -> None:
    with pytest.raises(BadInput) as caught:
        EntroPrefill(profile=write(tmp_path, **changes)).fitted(FACTS)
    says = f"profile is 'made up'; it must be made for the model that runs, made up; the two differ in {differ}. "
    assert str(caught.value).startswith(says)


def test_one_that_was_fitted_is_not_another_models(tmp_path: Path) -> None:
    planner = EntroPrefill(profile=write(tmp_path)).fitted(FACTS)
    with pytest.raises(BadInput, match="it must be made for the model that runs, else"):
        planner.fitted(ModelFacts("else", "2" * 32, 6, 4, 2, (None,) * 6))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file"),
        ("", r"Line 1: Expecting value"),
        ("{\n  'a': 1}", r"Line 2: Expecting property name"),
        ("[1]", "the whole: Input should be"),
        ("[" * 100_000, "a JSON file of a few levels"),
        (json.dumps(content(format="fewer-profile")), "format: Input should be 'fewer-entroprefill'"),
        (json.dumps(content(version=2)), "version: Input should be 1"),
        (json.dumps(content(extra=1)), "extra: Extra inputs are not permitted"),
        (json.dumps(content(num_layers=0)), "num_layers: Input should be greater than or equal to 1"),
        (json.dumps(content(settings={"depth": 3})), "a setting is 'depth'; it must be one of keep, "),
        (json.dumps(content(settings={"tau": -1})), "tau is -1; it must be a number above 0"),
        (json.dumps(content(settings={"keep_at_most": 0})), "keep_at_most is 0; it must be a whole number"),
        (json.dumps(content(settings={"monitor": "x"})), "monitor is 'x'"),
        (
            json.dumps(content(settings={"order": "row", "smoothing": 0.1})),
            r"smoothing is 0\.1; it must be left out where order is row",
        ),
        (json.dumps(content(settings={"audit": "exact", "delta": 0.1})), "it must be left out where audit is exact"),
        (json.dumps(content(settings={"keep": "60%", "keep_at_most": "50%"})), "keep_at_most is '50%'"),
        (json.dumps(content(settings={"order": "best"})), "order is 'best'; it must be one of entropy, mass, row"),
        (json.dumps(content(settings={"tau": float("nan")})), "NaN|finite|tau is nan"),
        (json.dumps({key: value for key, value in content().items() if key != "settings"}), "settings: Field required"),
    ],
)
def test_a_broken_file_is_refused_with_its_name_and_the_reason(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "broken.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(BadInput, match=reason) as caught:
        EntroPrefill(profile=path).fitted(FACTS)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("data", [b"\xff\xfe{}", b"\x00"])
def test_files_that_are_no_text(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(BadInput, match=r"a\.json"):
        load_calibrated(tmp_path / "a.json")
    with pytest.raises(BadInput, match="it must be a readable file"):
        load_calibrated("a\x00b")
    with pytest.raises(BadInput, match="it must be a readable file"):
        load_calibrated(tmp_path)


def test_settings_that_the_file_makes_idle_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, settings=CHOSEN | {"order": "row"})
    with pytest.raises(BadInput, match=r"concentration is 2\.0; it must be left out where order is row"):
        EntroPrefill(profile=path, concentration=2).fitted(FACTS)
    assert EntroPrefill(profile=path, order="entropy", concentration=2).fitted(FACTS).settings.concentration == 2


def test_a_model_without_a_file_has_the_general_settings() -> None:
    assert shipped_calibrated("no such model") is None
    assert find_shipped(Calibrated, "no such folder", FACTS.fingerprint, "") is None
    unknown, general = EntroPrefill().fitted(FACTS), EntroPrefill(preset="general").fitted(FACTS)
    assert unknown.settings == general.settings
    assert unknown.describe()["profile"] == "none"
