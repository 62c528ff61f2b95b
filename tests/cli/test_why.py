"""`fewer why`: what a receipt says about its answer, with and without measured odds, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from odds_file import write_odds

from fewer import Receipt
from fewer.decide import tables
from fewer.receipt.table import SHADES

SAMPLED = ("--evict", "systematic:question", "--budget", "64")


@pytest.fixture
def long(docs: Path) -> Path:
    (docs / "d.txt").write_text("The keepers rowed to the island every third day. " * 3)
    return docs


def write_receipt(ask, long: Path, *options: str) -> Receipt:
    result = ask("Who?", str(long), "--json", "--receipt", "receipt.json", *options)
    assert result.exit_code == 0, result.stderr
    Path("printed.json").write_bytes(result.stdout_bytes)
    return Receipt.model_validate_json(Path("receipt.json").read_text())


def test_without_odds_it_shows_the_numbers_and_says_no_more(ask, run, long):
    receipt = write_receipt(ask, long, *SAMPLED, "--logprobs", "0")
    result = run("why receipt.json")
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    claim, logprob = receipt.certificate, receipt.output.mean_logprob
    assert said.startswith(
        f"No measured odds for this model and policy: the clipped certificate is {claim.clipped:.3g}"
    )
    assert f"the mean log-probability is {logprob:.3g} nats" in said
    highest = max(claim.clipped_per_layer)
    assert f"highest: {highest:.3g} at layer {claim.clipped_per_layer.index(highest) + 1}" in said
    assert f"layer {claim.clipped_per_layer.index(highest) + 1} (" in said.split("most of it")[1]
    assert "alike, each of 4 layers has 25.0%" in said
    assert f"each of {len(claim.steps)} steps has" in said
    assert any(shade in said for shade in SHADES[1:])
    assert run("why printed.json").stdout == result.stdout
    assert run("why -", input=Path("receipt.json").read_text()).stdout == result.stdout


def test_as_json_it_is_one_object(ask, run, long):
    receipt = write_receipt(ask, long, *SAMPLED, "--logprobs", "0")
    found = json.loads(run("why receipt.json --json").stdout)
    assert (found["channel"], found["signal"], found["odds"]) == ("unknown", "certificate_clipped", None)
    assert (found["certificate"], found["logprob"]) == (receipt.certificate.clipped, receipt.output.mean_logprob)
    assert found["radius_per_layer"] == list(receipt.certificate.clipped_per_layer)
    assert sum(part["share"] for part in found["layers"]) < 1


def test_with_odds_it_says_how_often(ask, run, long):
    receipt = write_receipt(ask, long, *SAMPLED, "--logprobs", "0")
    write_odds(Path("odds.json"), receipt, receipt.certificate.clipped - 2.0)
    result = run("why receipt.json --odds odds.json")
    said = " ".join(result.stdout.split())
    assert said.startswith("The cache may have caused this: the clipped certificate is high (")
    assert "such answers in MADE UP (aware, budget 64 tokens) the cache broke" in said
    assert "channel cache" in said
    assert ", high in MADE UP" in said
    found = json.loads(run("why receipt.json --odds odds.json --json").stdout)
    assert (found["channel"], found["certificate_level"]) == ("cache", "high")
    assert found["odds"]["such"]["broken"]["n"] < found["odds"]["all"]["broken"]["n"] == 400


@pytest.fixture
def shipped(monkeypatch, tmp_path) -> Path:
    """A folder in place of that with the tables that come along."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    monkeypatch.setattr(tables, "SHIPPED", folder)
    return folder


def test_a_table_that_comes_along_is_used_where_it_holds(ask, run, long, shipped):
    receipt = write_receipt(ask, long, *SAMPLED, "--logprobs", "0")
    write_odds(shipped / "made.json", receipt, receipt.certificate.clipped - 2.0)
    write_odds(Path("other.json"), receipt, receipt.certificate.clipped + 2.0)
    assert json.loads(run("why receipt.json --json").stdout)["certificate_level"] == "high"
    assert json.loads(run("why receipt.json --odds other.json --json").stdout)["certificate_level"] == "low"
    write_receipt(ask, long, "--evict", "systematic:question", "--budget", "70", "--logprobs", "0")
    result = run("why receipt.json --json")
    assert (json.loads(result.stdout)["odds"], result.stderr) == (None, "")


def test_a_broken_table_that_comes_along_is_named_and_the_numbers_are_shown(ask, run, long, shipped):
    receipt = write_receipt(ask, long, *SAMPLED, "--logprobs", "0")
    plain = run("why receipt.json --json").stdout
    (shipped / "a.json").write_text("{}")
    write_odds(shipped / "b.json", receipt, receipt.certificate.clipped - 2.0)
    result = run("why receipt.json --json")
    assert (result.exit_code, result.stdout) == (0, plain)
    assert result.stderr.startswith("No table of odds is used, since one that comes along is broken. odds is ")
    assert "a.json" in result.stderr


def test_no_table_is_looked_for_where_the_prompt_was_pruned_too(ask, run, long, shipped):
    receipt = write_receipt(ask, long, *SAMPLED, "--logprobs", "0", "--prune", "random", "--keep", "90%")
    write_odds(shipped / "made.json", receipt, receipt.certificate.clipped - 2.0)
    assert json.loads(run("why receipt.json --json").stdout)["odds"] is None


def test_odds_of_another_policy_are_refused(ask, run, long):
    receipt = write_receipt(ask, long, *SAMPLED, "--logprobs", "0")
    write_odds(Path("odds.json"), receipt, 0.5)
    write_receipt(ask, long, "--evict", "systematic:question", "--budget", "70", "--logprobs", "0")
    result = run("why receipt.json --odds odds.json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "budget.keep (64 tokens in the table, 70 tokens here)" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--evict", "snapkv", "--budget", "64"), "run fewer ask with --evict systematic:snapkv and the same --budget"),
        ((), "Nothing had left the cache, so it did not cause this"),
        ((*SAMPLED, "--max-tokens", "1", "--logprobs", "0"), "no decode step came after the compression: ask for a"),
    ],
)
def test_what_is_missing_is_named_with_what_to_run(ask, run, long, options, says):
    write_receipt(ask, long, *options)
    result = run("why receipt.json")
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert says in said
    assert "channel unknown" in said


def test_what_is_no_receipt_is_refused(ask, run, long):
    write_receipt(ask, long)
    plain = json.loads(Path("receipt.json").read_text())
    Path("old.json").write_text(json.dumps(plain | {"schema_version": "3"}))
    Path("cut.json").write_text(json.dumps({**plain, "seconds": None}))
    Path("list.json").write_text("[1]")
    Path("text.json").write_text("hello")
    Path("digits.json").write_text("1" * 5000)
    Path("saved").mkdir()
    Path("saved/session.json").write_text("{}")
    for name, says in (
        ("none.json", "RECEIPT is 'none.json'; it must be a file that can be read (No such file or directory)"),
        ("text.json", "a receipt, or what fewer ask --json printed. Line 1: Expecting value"),
        ("digits.json", "it must be a file that can be read (Exceeds the limit"),
        ("list.json", "a receipt, or what fewer ask --json printed. Write one with fewer ask --receipt FILE"),
        ("old.json", "schema_version is '3'; it must be"),
        ("cut.json", "The receipt cut.json cannot be read: seconds: Input should be"),
        ("docs", "not a folder"),
        ("saved", "A saved session holds no receipts; write the last answer's with /receipt FILE in fewer chat"),
        ("receipt.json --odds none.json", "odds is 'none.json'; it must be a readable JSON file"),
    ):
        result = run(f"why {name}")
        assert (result.exit_code, result.stdout) == (2, ""), name
        assert says in " ".join(result.stderr.split())
