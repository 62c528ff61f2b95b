"""A receipt adds up, is refused when it does not, and survives JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from fewer.receipt import CertificateRecord, Receipt

SCHEMA = Path(__file__).parents[2] / "docs" / "receipt.schema.json"


def halve_after(cut: int) -> Callable[[int, int, int], int]:
    return lambda number, tokens, layer: tokens if layer <= cut else tokens // 2


def set_at(facts: dict[str, Any], path: str, value: object) -> None:
    *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    target: Any = facts
    for step in parents:
        target = target[step]
    target[last] = value


def test_the_committed_schema_is_the_models(facts):
    assert json.loads(SCHEMA.read_text("utf-8")) == Receipt.model_json_schema()


def test_every_field_is_described_and_required():
    schema = Receipt.model_json_schema()
    for name, part in [("Receipt", schema), *schema["$defs"].items()]:
        if "properties" not in part:
            assert name == "JsonValue"
            continue
        assert part["description"], name
        assert part["additionalProperties"] is False, name
        assert sorted(part["required"]) == sorted(part["properties"]), name
        for field, rule in part["properties"].items():
            told = rule.get("description") or "$ref" in rule  # a reference carries its target's description
            assert told, f"{name}.{field}"


def test_numbers_carry_their_unit():
    units = re.compile(r"num_|_s$|_len$|bytes|_per_layer$|token_layers|tokens|_steps$|_dim$|_size$|batch_mates")
    without = {"seed", "start", "stop", "layer", "bound", "dual_gap", "delta", "radius", "mean", "median", "max"}
    without |= {"value", "threshold", "level"}  # in a signal's own unit, and shares
    without |= {"mean_logprob", "first_token_margin", "min_margin", "largest", "clipped"}
    schema = Receipt.model_json_schema()
    for part in schema["$defs"].values():
        for field, rule in part.get("properties", {}).items():
            kinds = {rule.get("type"), *(option.get("type") for option in rule.get("anyOf", []))}
            if kinds & {"integer", "number"}:
                assert units.search(field) or field in without, field


@pytest.mark.parametrize("chunks", [(), (("", 1),), (("A", 3), ("A", 3)), [(f"c{i}", i + 1) for i in range(200)]])
def test_json_round_trip(facts, chunks):
    receipt = Receipt.model_validate(facts(chunks=chunks, kept=halve_after(2)))
    plain = receipt.model_dump(mode="json")
    assert Receipt.model_validate(plain) == receipt
    assert Receipt.model_validate_json(json.dumps(plain, allow_nan=False)) == receipt
    assert Receipt.model_validate_json(receipt.to_json()) == receipt
    jsonschema.validate(json.loads(receipt.to_json()), Receipt.model_json_schema())


def test_to_json_has_one_line_for_each_list_of_numbers(make):
    text = make(num_layers=30).to_json()
    assert re.search(r'"prefill_rows_per_layer": \[120(, 120){29}\]', text)
    assert text.count("\n") < 160


def test_text_that_is_not_unicode_is_replaced(facts):
    plain = facts(chunks=[("caf\udce9\n[1,\n  2]", 4)])
    plain["settings"]["sampling"] = {"stop": ("\udc80", "é"), "top": (1, 2)}
    receipt = Receipt.model_validate(plain)
    assert receipt.prompt.chunks[0].title == "caf\ufffd\n[1,\n  2]"
    assert receipt.settings.sampling == {"stop": ["\ufffd", "é"], "top": [1, 2]}
    assert Receipt.model_validate_json(receipt.to_json()) == receipt


def test_a_receipt_is_frozen(make):
    with pytest.raises(ValidationError, match="frozen"):
        make().bypass = ("late",)


@pytest.mark.parametrize("version", ["0", "1", "2", "3", "4", "5", 6, None])
def test_another_version_is_named(facts, version):
    plain = facts() | {"schema_version": version}
    with pytest.raises(ValidationError, match=re.escape(f"schema_version is {version!r}; it must be '6'")) as caught:
        Receipt.model_validate_json(json.dumps(plain))
    assert caught.value.error_count() == 1
    assert "version of fewer that wrote it" in str(caught.value)


def test_a_missing_version_is_named(facts):
    plain = facts()
    del plain["schema_version"]
    with pytest.raises(ValidationError, match="schema_version is None"):
        Receipt.model_validate(plain)


BAD = [
    ("computed.token_layers_skipped", 1, "token_layers_repeated \\+ token_layers_skipped is 775; it must be"),
    ("computed.decode_steps", 8, "token_layers_full is 774; it must be .* = 768"),
    ("computed.prefill_rows_per_layer.2", 119, "kept tokens at layer 3 is 120; it must be .* = 119"),
    ("prompt.chunks.0.kept_per_layer.5", 41, "kept_per_layer is 41; it must be at most 40"),
    ("prompt.chunks.0.kept_per_layer.5", 39, "kept tokens at layer 6 is 119"),
    ("prompt.chunks.0.kept_per_layer", [40] * 5, "length of kept_per_layer of chunk 1 is 5; it must be 6"),
    ("prompt.chunks.0.num_tokens", 41, "num_tokens is 41; it must be at most stop - start = 40"),
    ("prompt.chunks.0.start", 50, "num_tokens is 40; it must be at most stop - start = -5"),
    ("prompt.num_tokens", 121, "num_protected plus .* is 120; it must be num_tokens = 121"),
    ("prompt.num_before", 121, "num_before is 121; it must be at most num_tokens = 120"),
    ("prompt.num_before", 10, "token_layers_full is 774; it must be .* = 714"),
    ("prompt.num_protected", 19, "num_protected plus .* is 119"),
    ("prompt.protected_per_layer.0", 21, "protected_per_layer is 21; it must be at most num_protected = 20"),
    ("memory.kv_bytes_per_layer.0", 1, "kv_total_bytes is 631296; it must be the sum of"),
    ("memory.kv_used_bytes_per_layer.0", 10**6, "kv_used_bytes_per_layer is 1000000; it must be at most 105216, what"),
    ("memory.kv_used_bytes_per_layer", [], "length of kv_used_bytes_per_layer is 0"),
    ("memory.kv_bytes_full_estimate", [], "length of kv_bytes_full_estimate is 0"),
    (
        "plans",
        [
            {
                "layer": 7,
                "num_kept": 1,
                "num_dropped": 1,
                "reason": "",
                "released_bytes": 0,
                "bound": None,
                "dual_gap": None,
            }
        ],
        "the layer of a plan or decision is 7; it must be 0 to 6",
    ),
    (
        "decisions",
        [{"layer": 7, "outcome": "audit", "says": "", "numbers": {}}],
        "the layer of a plan or decision is 7; it must be 0 to 6",
    ),
    ("memory.kv_padding_bytes_per_layer.0", 10**6, "kv_padding_bytes_per_layer is 1000000; it must be at most 99072"),
    ("memory.kv_padding_bytes_per_layer", [], "length of kv_padding_bytes_per_layer is 0"),
    ("settings.evict", {"name": "snapkv"}, "eviction is None; it must be a record where settings.evict asks for one"),
    ("certificate.delta", 0.05, "kind is 'none'"),
    ("certificate.steps", [0.1], "kind is 'none'"),
    ("certificate.assumptions", ["a"], "kind is 'none'"),
    ("certificate.clipped", 0.1, "kind is 'none'"),
    ("certificate.says", "all is well", "says is 'all is well'; it must be 'nothing is claimed"),
    ("certificate.says", "nothing is claimed about the tokens left out or in", "it must be 'nothing is claimed"),
    ("certificate.kind", "proof", "'none', 'bound', 'estimate' or 'calibrated'"),
    ("run.dtype", "float16", "'float32' or 'bfloat16'"),
    ("run.seed", -1, "greater than or equal to 0"),
    ("run.seed", True, "valid integer"),
    ("seconds.prefill_s", -0.1, "greater than or equal to 0"),
    ("seconds.prefill_s", "0.1", "valid number"),
    ("seconds.total_s", float("nan"), "finite"),
    ("settings.sampling", {"x": float("inf")}, "finite"),
    ("output.min_margin", -1.0, "greater than or equal to 0"),
    ("output.finish_reason", "eos", "'stop', 'length'"),
    ("model.num_layers", 0, "greater than or equal to 1"),
    ("model.colour", "red", "Extra inputs"),
]


@pytest.mark.parametrize(("path", "value", "message"), BAD)
def test_contradictions_are_refused(facts, path, value, message):
    plain = facts()
    set_at(plain, path, value)
    with pytest.raises(ValidationError, match=message):
        Receipt.model_validate(plain)


def test_computed_less_than_the_prefill_is_refused(facts):
    plain = facts()
    plain["computed"] |= {"token_layers_computed": 700, "token_layers_skipped": 74}
    with pytest.raises(ValidationError, match=r"token_layers_computed is 700; it must be at least .* 720"):
        Receipt.model_validate(plain)


CLAIM = {"mean": None, "largest": None, "per_layer": None, "steps": (), "assumptions": (), "says": "x"}
CLAIM |= {"clipped": None, "clipped_per_layer": None, "clipped_steps": ()}
STEPS = {"mean": 0.2, "largest": 0.3, "steps": (0.1, 0.3), "per_layer": (0.2, 0.4)}
STEPS |= {"clipped": 0.25, "clipped_steps": (0.1, 0.25), "clipped_per_layer": (0.2, 0.3)}


@pytest.mark.parametrize(
    ("kind", "delta", "radius", "more", "message"),
    [
        ("bound", None, None, {}, "radius is None"),
        ("bound", 0.1, 1.0, {}, "kind is 'bound'; it must be estimate or calibrated where there is a level"),
        ("bound", None, 1.0, {"steps": (1.0,)}, "kind is 'bound'"),
        ("estimate", None, 0.3, STEPS, "delta is None"),
        ("estimate", 1.0, 0.3, STEPS, "less than 1"),
        ("estimate", 0.1, -1.0, STEPS, "greater than or equal to 0"),
        ("estimate", 0.1, 0.3, {}, r"steps is \(\); it must be numbers"),
        ("calibrated", 0.1, 0.3, STEPS | {"per_layer": None}, "per_layer is None; it must be numbers"),
        ("estimate", 0.1, 0.2, STEPS, r"radius is 0.2; it must be 0.3, from the steps"),
        ("calibrated", 0.1, 0.3, STEPS | {"mean": 0.25}, r"mean is 0.25; it must be 0.2, from the steps"),
        ("estimate", 0.1, 0.3, STEPS | {"largest": None}, r"largest is None; it must be 0.3"),
        ("estimate", 0.1, 0.3, STEPS | {"clipped": 0.3}, r"clipped is 0.3; it must be 0.25, from the steps"),
        ("estimate", 0.1, 0.3, STEPS | {"clipped": None}, r"clipped is None; it must be 0.25"),
        ("estimate", 0.1, 0.3, STEPS | {"clipped_steps": (0.2,)}, "the length of clipped_steps is 1; it must be 2"),
        ("estimate", 0.1, 0.3, STEPS | {"clipped_per_layer": None}, "length of clipped_per_layer is 0; it must be 2"),
        ("calibrated", 0.1, 0.3, STEPS | {"clipped_steps": (0.2, 0.25)}, "it must be nowhere above the same before"),
        ("bound", None, 1.0, {"clipped": 0.5}, "kind is 'bound'"),
        ("eprocess", 0.1, 0.3, STEPS, "'none', 'bound', 'estimate' or 'calibrated'"),
    ],
)
def test_half_a_claim_is_refused(kind, delta, radius, more, message):
    with pytest.raises(ValidationError, match=message):
        CertificateRecord(kind=kind, delta=delta, radius=radius, **CLAIM | more)


def test_a_certificate_has_one_number_a_layer(facts):
    plain = facts()
    plain["certificate"] |= {"kind": "bound", "radius": 1.0, "per_layer": [1.0], "says": "x"}
    with pytest.raises(ValidationError, match="per_layer of the certificate is 1; it must be 6"):
        Receipt.model_validate(plain)


def test_protected_tokens_inside_a_chunk_count_once(facts):
    plain = facts()
    plain["prompt"]["chunks"][0]["stop"] += 4
    assert Receipt.model_validate(plain).prompt.chunks[0].num_tokens == 40


def test_a_request_cancelled_before_its_first_token(facts):
    plain = facts(decode_steps=0, kept=lambda number, tokens, layer: 0)
    plain["output"] = {
        "num_tokens": 0,
        "finish_reason": "cancelled",
        "mean_logprob": None,
        "first_token_margin": None,
        "min_margin": None,
    }
    plain["seconds"]["first_token_s"] = None
    receipt = Receipt.model_validate(plain)
    assert receipt.computed.token_layers_skipped == 600  # the chunks never ran
    assert "cancelled" in receipt.to_html()
