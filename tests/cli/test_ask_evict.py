"""`fewer ask --evict`: options reach the receipt, `--set` finds its owner, bad ones are refused before loading."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fewer import Receipt
from fewer.cli.settings import divide_settings, read_settings
from fewer.errors import BadInput


@pytest.fixture
def long(docs: Path) -> Path:
    (docs / "d.txt").write_text("The keepers rowed to the island every third day. " * 3)
    return docs


def receipt_of(result) -> Receipt:
    assert result.exit_code == 0, result.stderr
    return Receipt.model_validate(json.loads(result.stdout_bytes)["receipt"])


def test_a_score_alone_is_top_k_and_claims_nothing(ask, long):
    receipt = receipt_of(ask("Who?", str(long), "--json", "--evict", "snapkv", "--budget", "64"))
    assert receipt.settings.evict["name"] == "snapkv"
    assert (receipt.settings.evict["design"], receipt.settings.evict["budget.keep"]) == ("topk", "64 tokens")
    (each,) = receipt.eviction.compressions
    assert each.num_seen == receipt.prompt.num_tokens
    assert each.rows_after == ((64, 64),) * 4
    assert (each.rows_by_pi, receipt.certificate.kind) == (None, "none")
    assert receipt.eviction.most_bytes == each.bytes_before > each.bytes_after


def test_a_sampled_policy_has_a_certificate(ask, long):
    options = ("--evict", "systematic:question", "--budget", "25%", "--seed", "3")
    receipt = receipt_of(ask("Who?", str(long), "--json", *options))
    assert (receipt.settings.evict["name"], receipt.settings.evict["budget.keep"]) == ("systematic:question", "25%")
    (each,) = receipt.eviction.compressions
    assert {rows for heads in each.rows_after for rows in heads} == {receipt.prompt.num_tokens // 4}
    assert (receipt.certificate.kind, len(receipt.certificate.steps)) == ("estimate", 7)
    again = receipt_of(ask("Who?", str(long), "--json", *options))
    assert again.certificate == receipt.certificate


def test_the_receipt_has_what_fewer_why_asks_for_and_json_only_what_was_asked_for(ask, long):
    options = ("--json", "--evict", "systematic:question", "--budget", "25%")
    plain = json.loads(ask("Who?", str(long), *options).stdout_bytes)
    asked = json.loads(ask("Who?", str(long), *options, "--logprobs", "0").stdout_bytes)
    mean = sum(each["logprob"] for each in asked["logprobs"]) / len(asked["logprobs"])
    assert "logprobs" not in plain
    assert plain["receipt"]["output"]["mean_logprob"] == pytest.approx(mean)
    assert json.loads(ask("Who?", str(long), "--json").stdout_bytes)["receipt"]["output"]["mean_logprob"] is None


def test_the_table_and_the_page_show_it(ask, long):
    result = ask("Who?", str(long), "--evict", "systematic:question", "--budget", "64", "--html", "page.html")
    said = " ".join(result.stderr.split())
    assert "policy systematic:question; budget 64 tokens; hajek" in said
    assert "of the rows stayed (512 of " in said
    assert "certificate estimate, " in said
    assert "estimated relative errors of attention outputs, each at level 0.1, averaged over layers and heads" in said
    assert "one mark for 1 step; highest:" in said
    assert "What was evicted" in Path("page.html").read_text()


def test_settings_of_every_part_reach_the_receipt(ask, long):
    sets = ("window=16", "pooling=7", "heads=adaptive", "safeguard=0.5", "sinks=2", "recent=8", "every=4", "delta=0.05")
    options = [word for each in sets for word in ("--set", each)]
    shown = receipt_of(
        ask("Who?", str(long), "--json", "--evict", "poisson:snapkv", "--budget", "64", *options)
    ).settings.evict
    assert (shown["score.window"], shown["score.pooling"], shown["design"]) == (16, 7, "poisson")
    assert (shown["budget.heads"], shown["budget.safeguard"]) == ("adaptive", 0.5)
    assert (shown["sinks"], shown["recent"], shown["every"], shown["delta"]) == (2, 8, 4, 0.05)


def test_a_budget_that_covers_everything_is_the_full_run(ask, long):
    full = json.loads(ask("Who?", str(long), "--json").stdout_bytes)
    kept = json.loads(ask("Who?", str(long), "--json", "--evict", "snapkv", "--budget", "100%").stdout_bytes)
    assert kept["text"] == full["text"]
    assert kept["receipt"]["bypass"] == ["the budget covers every row of the cache"]
    assert kept["receipt"]["eviction"]["compressions"] == []


def test_pruned_and_evicted_with_settings_of_each(ask, long):
    sets = ("profile=none", "behind=9", "prune.sinks=3", "evict.sinks=2", "prune.delta=0.02", "evict.delta=0.2")
    words = ["--prune", "entroprefill", "--evict", "pivotal:question", "--budget", "48"]
    words += [word for each in sets for word in ("--set", each)]
    settings = receipt_of(ask("Who?", str(long), "--json", *words)).settings
    assert (settings.prune["sinks"], settings.evict["sinks"]) == (3, 2)
    assert (settings.prune["delta"], settings.evict["delta"]) == (0.02, 0.2)
    assert (settings.prune["profile"], settings.evict["score.behind"]) == ("none", 9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--evict snapkv", "--evict is 'snapkv', but --budget is missing. Add a number of tokens (--budget 256) or"),
        ("--budget 25%", "--budget is '25%', but nothing is evicted. Add --evict (a policy such as snapkv or"),
        ("--budget 25%", "or leave --budget out."),
        ("--set evict.window=3", "--set evict.window is 3, but nothing is evicted."),
        (
            "--set window=3",
            "--set window is 3, but nothing is evicted. It is a setting of --evict snapkv: write --evict snapkv "
            "--budget 25% --set window=3, or leave --set window out.",
        ),
        ("--set pool=mean", "It is a setting of --evict snapkv or question: write --evict snapkv --budget 25% --set"),
        ("--set floor=0.1", "poisson:SCORE, systematic:SCORE, pivotal:SCORE or conditional-poisson:SCORE: write"),
        ("--set floor=0.1", "write --evict poisson:question --budget 25% --set floor=0.1, or leave"),
        ("--set every=none", "It is a setting of --evict, whatever the score: write --evict pivotal:question --budget"),
        ("--set every=none", "--set every=none, or leave --set every out."),
        ("--evict question --budget 25% --set window=3", "size, moment, every, block, delta, certify, radius"),
        ("--evict question --budget 25% --set window=3", "It is a setting of snapkv."),
        ("--evict snapkv --budget 25% --set prune.layer=3", "--set prune.layer is 3, but nothing is pruned."),
        ("--evict snapkv --budget 25% --keep 30%", "--keep is '30%', but nothing is pruned."),
        ("--prune static --keep 9 --budget 25%", "--budget is '25%', but nothing is evicted."),
        ("--prune static --keep 9 --evict snapkv", "--evict is 'snapkv', but --budget is missing."),
        ("--evict snapkv --budget 0%", "--budget is '0%'; it must be a whole number of at least 1, or a fraction"),
        ("--evict snapkv --budget 9 --set budget=8", "--set budget is '8'; it must be given once."),
        ("--evict poisson --budget 25%", "--evict is 'poisson'; it must be a score, or a design and a score"),
        ("--evict poison:snapkv --budget 25%", "design is 'poison'; it must be one of topk, poisson"),
        ("--evict snapvk --budget 25%", "score is 'snapvk'; it must be one of h2o"),
        ("--evict snapkv --budget 25% --set floor=0.1", "the setting floor of snapkv is 0.1; it must be one of window"),
        ("--evict snapkv --budget 25% --set window=0", "window is 0; it must be"),
        ("--evict snapkv --budget 25% --set recent=0", "recent is 0; it must be a whole number of at least 1"),
        (
            "--evict snapkv --budget 25% --set estimator=hajek",
            "estimator is 'hajek'; it must be 'plug-in' for a design",
        ),
        (
            "--evict snapkv --budget 25% --set score.window=3",
            "--set score.window is 3; it must be a setting's name, or",
        ),
        ("--evict snapkv --budget 25% --set evict.=3", "--set evict. is 3; it must be a setting's name, or"),
        (
            "--prune entroprefill --evict systematic:question --budget 25% --set sinks=2",
            "--set sinks is 2; it must be a setting of one of the two: --prune and --evict both have it. Write --set "
            "prune.sinks=2 or --set evict.sinks=2.",
        ),
        ("--prune static --keep 9 --evict snapkv --budget 9 --set foo=2", "--set foo is 2; it must be of --prune ("),
        ("--prune static --keep 9 --evict snapkv --budget 9 --set prune.layer=1 --set layer=2", "--set layer is 2; it"),
        ("--prune nobody --evict snapkv --budget 9 --set window=2", "--prune is 'nobody'; it must be one of"),
        (
            "--prune lazyllm --evict snapkv --budget 25%",
            "--evict is 'snapkv'; it must be left out where pruned tokens can come back. Add --aux off --selection "
            "prefill, or leave one of --prune and --evict out.",
        ),
        ("--prune static --keep 9 --evict snapkv --budget 9 --set block=64", "--set block is 64; it must be left out"),
        ("--prune ends --keep 9 --evict h2o --budget 9 --set moment=context", "--set moment is 'context'; it must be"),
    ],
)
def test_bad_options_are_refused_before_the_model_is_loaded(run, options, message):
    result = run("ask Who? --model nowhere " + options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_a_budget_below_what_always_stays_names_the_minimum(ask, long):
    result = ask("Who?", str(long), "--evict", "systematic:question", "--budget", "9")
    assert result.exit_code == 2
    assert "--budget is '9 tokens (9 rows)'; it must be at least 37 rows per head" in " ".join(result.stderr.split())


def test_lazyllm_without_revival_goes_with_eviction(ask, long):
    words = ("--prune", "lazyllm", "--aux", "off", "--selection", "prefill", "--evict", "snapkv", "--budget", "40")
    receipt = receipt_of(ask("Who?", str(long), "--json", *words))
    assert receipt.settings.prune["aux"] == "off"
    assert max(map(max, receipt.eviction.compressions[0].rows_after)) == 40


def divide(given: list[str], prune: bool, evict: bool, named: dict[str, object] | None = None) -> tuple[dict, dict]:
    choice = read_settings(named or {}, given)
    return divide_settings(choice, set(named or {}), prune, evict, lambda: (("keep", "delta"), ("delta", "window")))


def test_settings_find_their_owner() -> None:
    assert divide(["window=3", "keep=9"], True, True) == ({"keep": "9"}, {"window": 3})
    assert divide(["delta=3"], True, False) == ({"delta": 3}, {})
    assert divide(["delta=3", "other=1"], False, True) == ({}, {"delta": 3, "other": 1})
    assert divide(["prune.delta=1", "evict.delta=2"], True, True) == ({"delta": 1}, {"delta": 2})
    assert divide(["evict.a-b=none"], False, True) == ({}, {"a_b": None})
    assert divide(["evict.budget=1.0"], False, True) == ({}, {"budget": "1.0"})
    assert divide([], True, True, {"keep": "9", "budget": "8"}) == ({"keep": "9"}, {"budget": "8"})
    with pytest.raises(BadInput, match=r"--set prune\.keep is '8'; it must be given once"):
        divide(["prune.keep=8"], True, True, {"keep": "9"})
