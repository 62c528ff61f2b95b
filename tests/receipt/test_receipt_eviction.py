"""The parts of a receipt about eviction: they add up, and are refused where they do not."""

from __future__ import annotations

import json

import jsonschema
import pytest
from pydantic import ValidationError
from test_receipt import set_at

from fewer.receipt import CertificateRecord, Receipt


def test_the_radius_is_of_the_first_six_steps(facts, evict, certify):
    plain = certify(evict(facts()), [0.1, 0.2, 0.3, 0.1, 0.1, 0.1, 0.9])
    claim = Receipt.model_validate(plain).certificate
    assert (claim.radius, claim.largest) == (0.3, 0.9)
    plain["certificate"]["radius"] = 0.9
    with pytest.raises(ValidationError, match=r"radius is 0\.9; it must be 0\.3, from the steps"):
        Receipt.model_validate(plain)


def test_there_are_no_more_certified_steps_than_steps(facts, evict, certify):
    plain = certify(evict(facts(decode_steps=3)), [0.1] * 4)
    with pytest.raises(ValidationError, match="the certificate's steps is 4; it must be at most 3, the decode steps"):
        Receipt.model_validate(plain)


BAD_EVICTIONS = [
    ("rows_after.0.1", 121, "rows_after at layer 1 is 121; it must be at most 120"),
    ("rows_after.2", [30, 24], r"the heads of rows_after by layer is \[3, 3, 2, 3, 3, 3\]"),
    ("padding_per_layer.5", 5, "padding_per_layer at layer 6 is 5; it must be 6, what the longest head has more"),
    ("padding_per_layer", [6] * 5, "length of padding_per_layer is 5; it must be 6"),
    ("num_certain", 485, "num_certain plus rows_by_pi is 503; it must be the rows that stayed, 504"),
    ("rows_by_pi", [18], "at least 10 items"),
    ("rows_by_pi", None, "num_certain plus rows_by_pi is 486"),
    ("num_seen", 131, "num_seen is 131; it must be at most 130, prompt and answer"),
    ("bytes_after", 10**9, "most_bytes is 1105920; it must be at least 1000000000"),
    ("used_bytes_before", 1105921, "used_bytes_before is 1105921; it must be at most bytes_before = 1105920"),
    ("used_bytes_after", 10**6, "used_bytes_after is 1000000; it must be at most bytes_after = 276480"),
    ("evict_s", 0.5, "evict_s is 0.0125; it must be at least the sum of the compressions', 0.5"),
]


@pytest.mark.parametrize(("path", "value", "message"), BAD_EVICTIONS)
def test_contradictions_of_an_eviction_are_refused(facts, evict, path, value, message):
    plain = json.loads(json.dumps(evict(facts())))
    assert Receipt.model_validate(plain).eviction.compressions[0].num_after == 504
    set_at(plain["eviction"]["compressions"][0], path, value)
    with pytest.raises(ValidationError, match=message):
        Receipt.model_validate(plain)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1] * 6], "the length of rows_per_chunk is 1; it must be 2, one for each chunk"),
        ([[1] * 6, [1] * 5], "the length of rows_per_chunk of chunk 2 is 5; it must be 6"),
        ([[0, 0, 121, 0, 0, 0], [1] * 6], "rows_per_chunk of chunk 1 is 121; it must be at most 120, tokens times"),
    ],
)
def test_a_chunk_has_no_more_rows_than_its_tokens(facts, evict, rows, message):
    plain = evict(facts())
    plain["eviction"]["rows_per_chunk"] = [[120] * 6, [0] * 6]
    assert Receipt.model_validate(plain).eviction.rows_per_chunk[0] == (120,) * 6
    plain["eviction"]["rows_per_chunk"] = rows
    with pytest.raises(ValidationError, match=message):
        Receipt.model_validate(plain)


def test_a_claim_of_nothing_may_say_why(facts, evict):
    plain = evict(facts(), sampled=False)
    plain["certificate"] = CertificateRecord.none("topk keeps rows for certain").model_dump()
    claim = Receipt.model_validate(plain).certificate
    assert claim.says == "nothing is claimed about the tokens left out: topk keeps rows for certain"


def test_an_eviction_has_the_models_shape_and_takes_something_away(facts, evict):
    with pytest.raises(ValidationError, match=r"rows_before by layer is \[2, .* it must be 6 layers of 3 heads"):
        Receipt.model_validate(evict(facts(), (30, 30)))
    with pytest.raises(ValidationError, match="num_after is 2160; it must be below num_before = 2160"):
        Receipt.model_validate(evict(facts(), (120, 120, 120)))
    plain = evict(facts(), turns=3)
    plain["eviction"]["compressions"][2]["num_seen"] = 121
    with pytest.raises(ValidationError, match=r"num_seen of the compressions is \[120, 121, 121\]; .* ascending"):
        Receipt.model_validate(plain)
    plain = facts()
    plain["eviction"] = {"name": "snapkv", "compressions": [], "most_bytes": 0, "rows_per_chunk": [[0] * 6] * 2}
    with pytest.raises(ValidationError, match=r"eviction is 'snapkv'; it must be .* else null"):
        Receipt.model_validate(plain)


@pytest.mark.parametrize("sampled", [True, False])
def test_an_eviction_survives_json(facts, evict, certify, sampled):
    plain = evict(facts(), sampled=sampled, turns=3)
    receipt = Receipt.model_validate(certify(plain, [0.1, 0.2]) if sampled else plain)
    assert Receipt.model_validate_json(receipt.to_json()) == receipt
    jsonschema.validate(json.loads(receipt.to_json()), Receipt.model_json_schema())
    first, *_, last = receipt.eviction.compressions
    assert (first.num_before, first.num_after, first.num_padding) == (2160, 504, 36)
    assert (last.num_before, last.num_after) == (486, 468)
