"""Ratios, and what forbids reading them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from fewer.receipt import Comparison, Receipt

EVERYTHING = {"work", "first token", "decoding", "KV bytes"}


def halve(number: int, tokens: int, layer: int) -> int:
    return tokens if layer <= 3 else tokens // 2


def show(comparison: Comparison, width: int = 60) -> str:
    file = io.StringIO()
    Console(file=file, width=width, color_system=None).print(comparison.to_table())
    return file.getvalue()


def spoilt(comparison: Comparison) -> set[str]:
    return {each.kind for each in comparison.quantities if not each.comparable}


def test_pruned_against_full(facts):
    plain = facts(kept=halve)
    plain["seconds"] |= {"first_token_s": 0.25, "prefill_s": 0.241}
    comparison = Receipt.model_validate(plain).compare(Receipt.model_validate(facts()))
    ratios = {each.name: each.ratio for each in comparison.quantities}
    assert ratios["token-layers computed"] == pytest.approx((774 - 150) / 774)
    assert ratios["token-layers skipped"] is None  # the full run skipped nothing
    assert ratios["first token, s"] == 0.5
    assert ratios["prefill, s"] == 0.5
    assert ratios["later token (median), s"] == 1.0
    assert ratios["KV in use, bytes"] == pytest.approx((774 - 150) / 774)
    assert ratios["KV held, bytes"] == pytest.approx((774 - 150 + 48) / (774 + 48))
    assert comparison.not_comparable == ()
    assert comparison.differences == ("prune is (name lazyllm, keep 50%) here and none there",)


def test_with_itself(make):
    comparison = make(kept=halve).compare(make(kept=halve))
    assert {each.ratio for each in comparison.quantities} == {1.0}
    assert (comparison.differences, comparison.not_comparable) == ((), ())


@pytest.mark.parametrize(
    ("part", "changes", "kinds", "note"),
    [
        (
            "run",
            {"dtype": "float32"},
            {"first token", "decoding", "KV bytes"},
            "the dtype is float32 here and bfloat16",
        ),
        ("run", {"weights": "int8"}, {"first token", "decoding"}, "the weights' format is int8 here"),
        ("run", {"num_threads": 8}, {"first token", "decoding"}, "the number of threads is 8 here and 2 there"),
        ("run", {"batch_mates": 3}, {"first token", "decoding"}, "batch mates is 3 here and 0 there"),
        ("run", {"device": "cuda:0"}, {"first token", "decoding"}, "the device is cuda:0 here and cpu there"),
        ("versions", {"torch": "3.0"}, {"first token", "decoding"}, "the version of torch is 3.0 here"),
        ("model", {"name": "other"}, EVERYTHING, "the model is other here and SmolLM2-135M-Instruct there"),
        ("run", {"seed": 5}, set(), ""),
    ],
)
def test_conditions(facts, part, changes, kinds, note):
    plain = facts()
    plain[part] |= changes
    comparison = Receipt.model_validate(plain).compare(Receipt.model_validate(facts()))
    assert spoilt(comparison) == kinds
    assert any(note in each for each in comparison.not_comparable) == bool(note)
    assert all(each.ratio is not None for each in comparison.quantities if each.other)


def test_the_checksum_says_whether_the_weights_are_the_same(facts):
    left, right = facts(), facts()
    left["model"] |= {"name": "/a/model", "sha256": "ab" * 32}
    right["model"]["sha256"] = "ab" * 32
    assert Receipt.model_validate(left).compare(Receipt.model_validate(right)).not_comparable == ()
    right["model"]["sha256"] = "cd" * 32
    comparison = Receipt.model_validate(left).compare(Receipt.model_validate(right))
    assert spoilt(comparison) == EVERYTHING
    assert "SHA-256 abababababab here, cdcdcdcdcdcd there" in comparison.not_comparable[0]


def test_other_prompts(make):
    longer = make(chunks=[("Alpha", 41), ("Beta", 60)]).compare(make())
    assert spoilt(longer) == EVERYTHING
    assert "the prompt's length is 121 here and 120 there" in longer.not_comparable[0]
    moved = make(chunks=[("Alpha", 41), ("Beta", 59)]).compare(make())
    assert "the chunks have other titles or other places" in moved.not_comparable[0]


def test_other_answer_lengths_spoil_work_and_bytes(make):
    assert spoilt(make(decode_steps=3).compare(make())) == {"work", "KV bytes"}


def test_a_missing_number_has_no_ratio(make):
    comparison = make(decode_steps=0).compare(make())
    later = next(each for each in comparison.quantities if each.kind == "decoding")
    assert (later.this, later.ratio) == (None, None)


def test_settings_are_compared_one_by_one(facts):
    left, right = facts(kept=halve), facts(kept=halve)
    right["settings"]["prune"] = {"name": "lazyllm", "layers": [3]}
    left["bypass"] = ["too short"]
    comparison = Receipt.model_validate(left).compare(Receipt.model_validate(right))
    assert comparison.differences == (
        "prune.keep is 50% here and absent there",
        "prune.layers is absent here and [3] there",
        "not pruned here: too short",
    )


def test_json_and_table(facts):
    plain = facts(kept=halve)
    plain["run"]["num_threads"] = 1
    comparison = Receipt.model_validate(plain).compare(Receipt.model_validate(facts()))
    assert Comparison.model_validate_json(comparison.model_dump_json()) == comparison
    text = show(comparison)
    assert max(map(len, text.splitlines())) <= 60
    assert "1.000 ?" in text
    assert "0.806\n" in text.replace(" \n", "\n")
    assert "read with care (?)" in text


def test_what_came_back_is_there_where_either_has_it(facts, bring_back):
    plain, twice = bring_back(facts(kept=halve), [3, 0, 1]), bring_back(facts(kept=halve), [2, 0, 0], "recompute")
    left, right, full = (Receipt.model_validate(each) for each in (plain, twice, facts()))
    names = ["tokens that came back", "token-layers for them", "states held, bytes"]
    found = {each.name: each for each in left.compare(right).quantities}
    assert [found[name].this for name in names] == [4, 0, 2048]
    assert [found[name].ratio for name in names] == [2.0, None, None]
    beside = {each.name: (each.this, each.other, each.ratio) for each in full.compare(left).quantities}
    assert [beside[name] for name in names] == [(None, 4, None), (None, 0, None), (None, 2048, None)]
    assert not {each.name for each in full.compare(full).quantities} & set(names)
    assert max(map(len, show(left.compare(full)).splitlines())) <= 60


def test_evictions_and_certificates_side_by_side(facts, evict, certify):
    plain = certify(evict(facts()), [0.2, 0.05, 0.1])
    plain["seconds"]["evict_s"] = 0.0125
    tighter = certify(evict(facts(), (15, 15, 15)), [0.4, 0.3, 0.2])
    left, right, full = (Receipt.model_validate(each) for each in (plain, tighter, facts()))
    found = {each.name: (each.this, each.other, each.ratio) for each in left.compare(right).quantities}
    assert found["KV after the last eviction, bytes"] == (276480, 138240, 2.0)
    assert found["KV at its largest, bytes"] == (1105920, 1105920, 1.0)
    assert found["KV padding, bytes"] == (18432, 0, None)
    assert found["evicting, s"] == (0.0125, 0.0125, 1.0)
    assert found["certificate, first steps"] == (0.2, 0.4, 0.5)
    assert found["certificate, mean"] == (pytest.approx(0.35 / 3), pytest.approx(0.3), pytest.approx(0.35 / 0.9))
    assert found["certificate, largest"] == (0.2, 0.4, 0.5)
    assert found["certificate, clipped"] == (0.1, 0.2, 0.5)
    assert left.compare(right).not_comparable == ()
    text = show(left.compare(right))
    assert max(map(len, text.splitlines())) <= 60
    assert "certificate, first steps" in text
    beside = left.compare(full)
    assert spoilt(beside) == {"certificate"}
    assert beside.not_comparable == (
        "certificate: not comparable because the kind of certificate is estimate here and none there",
        "certificate: not comparable because the certificate's level is 0.1 here and none there",
        "certificate: not comparable because the number of certified steps is 3 here and 0 there",
    )
    assert [each for each in beside.differences if each.startswith("evict is (name systematic:question")]
    assert not {each.kind for each in full.compare(full).quantities} & {"certificate"}


def test_other_certified_steps_are_not_compared(facts, evict, certify):
    left, right = (Receipt.model_validate(certify(evict(facts()), [0.2] * count)) for count in (2, 3))
    assert spoilt(left.compare(right)) == {"certificate"}
    both = Receipt.model_validate(evict(facts(), (30, 30, 30), sampled=False)).compare(left)
    assert both.differences[0] == "evict.name is question here and systematic:question there"


def test_an_eviction_that_did_not_happen_is_said(facts, evict):
    plain = evict(facts())
    plain["eviction"] |= {"compressions": []}
    plain["seconds"]["evict_s"] = 0.0
    plain["bypass"] = ["the budget covers every row of the cache"]
    comparison = Receipt.model_validate(plain).compare(Receipt.model_validate(facts()))
    assert comparison.differences[-1] == "not evicted here: the budget covers every row of the cache"
    assert "KV at its largest, bytes" not in {each.name for each in comparison.quantities}
