"""The part about a gate: what it may say, what it must agree with, and how it reads."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError
from rich.console import Console

from fewer.receipt import Receipt
from fewer.receipt.summary import describe_gate, describe_prompt, describe_work

Facts = Callable[..., dict[str, Any]]


def with_gate(plain: dict[str, Any], fired: bool = True, **changes: Any) -> dict[str, Any]:
    """The same receipt as that of an answer whose first run had 12 tokens, or which stood."""
    given = {
        "num_tokens": plain["output"]["num_tokens"],
        "finish_reason": plain["output"]["finish_reason"],
        "token_layers_computed": plain["computed"]["token_layers_computed"],
        "kv_used_bytes": sum(plain["memory"]["kv_used_bytes_per_layer"]),
        "total_s": plain["seconds"]["total_s"],
    }
    first = {
        "num_tokens": 12,
        "finish_reason": "length",
        "token_layers_computed": 120,
        "kv_used_bytes": 2048,
        "total_s": 0.25,
    }
    plain["gate"] = {
        "rule": "rate",
        "signal": "certificate",
        "value": 0.5,
        "threshold": 0.4,
        "level": 0.25,
        "fired": fired,
        "reason": "certificate 0.5 is among the highest 0.25 of the 80 values before it",
        "escalate": "full",
        "first": first if fired else given,
        "again": given if fired else None,
        "num_agreeing": 4 if fired else None,
        "kept_token_layers": 60 if fired else 0,
        "kept_s": 0.125 if fired else 0.0,
        **changes,
    }
    return plain


def written(receipt: Receipt) -> str:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(receipt.to_table())
    return console.export_text()


@pytest.mark.parametrize("fired", [True, False])
def test_it_comes_back_from_json(facts: Facts, fired: bool) -> None:
    receipt = Receipt.model_validate(with_gate(facts(), fired))
    assert receipt.gate.fired == fired
    assert Receipt.model_validate_json(receipt.to_json()) == receipt


def test_it_reads_in_sentences(facts: Facts) -> None:
    stands = Receipt.model_validate(with_gate(facts(), fired=False))
    (line,) = describe_gate(stands.gate)
    assert line.startswith("the answer stands: certificate 0.5 is among")
    again = Receipt.model_validate(with_gate(facts()))
    decision, first, second, agree = describe_gate(again.gate)
    assert decision.startswith("computed again with the full cache: certificate 0.5")
    assert first == "12 tokens, cut at max_tokens; 120 token-layers, 2.0 KiB of cache in use; 250 ms"
    assert second.startswith("10 tokens, ended by the model; 774 token-layers")
    assert agree == "the first 4 tokens agree; reading the answer into the compressed cache took 125 ms more"
    budget = Receipt.model_validate(with_gate(facts(), escalate="50%"))
    assert "with a budget of 50%" in describe_gate(budget.gate)[0]
    same = with_gate(facts(), num_agreeing=10, kept_token_layers=0, kept_s=0.0)
    same["gate"]["first"]["num_tokens"] = 10
    assert describe_gate(Receipt.model_validate(same).gate)[-1] == "the tokens are the same"


def test_the_table_and_the_page_show_it(facts: Facts) -> None:
    plain, gated = Receipt.model_validate(facts()), Receipt.model_validate(with_gate(facts()))
    for line in (
        "computed again with the full cache",
        "first run: 12 tokens",
        "second run: 10",
        "first 4 tokens agree",
    ):
        assert line in " ".join(written(gated).split())
        assert line.replace("first run: ", "").replace("second run: ", "") in gated.to_html()
    assert "gate" not in written(plain)
    assert "Gate" not in plain.to_html()


def test_a_comparison_says_where_one_was_recomputed(facts: Facts) -> None:
    plain, gated = Receipt.model_validate(facts()), Receipt.model_validate(with_gate(facts()))
    (said,) = gated.compare(plain).differences
    assert said == "the gate is rate, which had it computed again here and none there"
    stands = Receipt.model_validate(with_gate(facts(), fired=False))
    assert "rate, which let it stand there" in gated.compare(stands).differences[0]


BAD = [
    ({"fired": False}, "fired is False; it must be true where there is a second run"),
    ({"num_agreeing": None}, "num_agreeing is None; it must be a count where there are two answers"),
    ({"num_agreeing": 11}, "num_agreeing is 11; it must be at most 10, the shorter answer"),
    ({"level": None}, "level is None; it must be a number for the rules rate and calibrated alone"),
    ({"rule": "threshold"}, "level is 0.25; it must be"),
    ({"signal": None}, "signal is None; it must be null for the rule always alone"),
    ({"rule": "always", "level": None}, "signal is 'certificate'; it must be"),
    ({"rule": "sometimes"}, "Input should be 'always'"),
    ({"value": float("nan")}, "finite number"),
    ({"kept_s": -1.0}, "greater than or equal to 0"),
    ({"text": "hello"}, "Extra inputs are not permitted"),
]


@pytest.mark.parametrize(("changes", "match"), BAD)
def test_it_refuses_what_contradicts_itself(facts: Facts, changes: dict[str, Any], match: str) -> None:
    plain = with_gate(facts())
    plain["gate"] |= changes
    with pytest.raises(ValidationError, match=match):
        Receipt.model_validate(plain)


def test_nothing_is_read_again_where_the_answer_stands(facts: Facts) -> None:
    with pytest.raises(ValidationError, match="kept_token_layers is 6; it must be 0 where the first answer stands"):
        Receipt.model_validate(with_gate(facts(), fired=False, kept_token_layers=6))


@pytest.mark.parametrize("fired", [True, False])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_tokens", 11),
        ("finish_reason", "cancelled"),
        ("token_layers_computed", 775),
        ("kv_used_bytes", 1),
        ("total_s", 1.5),
    ],
)
def test_it_refuses_another_runs_numbers(facts: Facts, fired: bool, name: str, value: object) -> None:
    plain = with_gate(facts(), fired)
    plain["gate"]["again" if fired else "first"][name] = value
    with pytest.raises(ValidationError, match=f"the gate's {name} is .*; it must be .* as in"):
        Receipt.model_validate(plain)


def test_tokens_read_before_are_no_saving(facts: Facts) -> None:
    plain = facts(kept=lambda number, tokens, layer: 0)
    plain["settings"]["prune"], plain["plans"] = None, []
    saved = Receipt.model_validate(plain)
    plain["prompt"]["num_before"] = 100
    plain["computed"]["token_layers_full"] = plain["computed"]["token_layers_computed"] = (20 + 9) * 6
    plain["computed"]["token_layers_skipped"] = 0
    reused = Receipt.model_validate(plain)
    assert (saved.computed.token_layers_skipped, reused.computed.token_layers_skipped) == (600, 0)
    assert describe_prompt(reused) == "120 tokens, 100 of them read before: 20 protected, 100 in 2 chunks"
    assert describe_work(reused) == "174 of 174 token-layers; 0% skipped"
    assert "(no token was left out)" in written(reused)
    assert "read before" in reused.to_html()
    (note,) = [line for line in reused.compare(saved).not_comparable if "read before" in line]
    assert note.startswith("work, first token: not comparable because the number of tokens read before is 100 here")


def test_more_than_the_new_tokens_cannot_be_computed(facts: Facts) -> None:
    plain = facts()
    plain["prompt"]["num_before"] = 60
    plain["computed"] |= {"token_layers_full": 69 * 6, "token_layers_computed": 69 * 6}
    with pytest.raises(
        ValidationError, match="prefill_rows_per_layer is 120; it must be at most 60, the prompt tokens"
    ):
        Receipt.model_validate(plain)
