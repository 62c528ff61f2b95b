"""Attribution: which channel stands out, in words that follow the odds, and what is said where something is missing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from answers_made import NUM_LAYERS, answer, make_engine, receipt_of, setting_of
from odds_made import made_odds, made_rows

from fewer.decide import Evidence, attribute
from fewer.decide.reading import read_receipt
from fewer.errors import BadInput
from tolerances import FP32

HIGH, LOW = 0.9, 0.1  # certificates; log-probabilities with the sign turned: unsure, sure


@pytest.fixture(scope="module")
def odds():
    return made_odds(setting_of(receipt_of(HIGH, -LOW)))


@pytest.mark.parametrize(
    ("certificate", "logprob", "channel", "says"),
    [
        (
            HIGH,
            -LOW,
            "cache",
            "The cache may have caused this: the certificate is high (0.9), the log-probability high",
        ),
        (LOW, -HIGH, "question", "The question may have been hard for the model, whatever the cache: the certificate"),
        (HIGH, -HIGH, "both", "The cache may have caused this"),
        (LOW, -LOW, "neither", "Neither the cache nor the question stands out: the certificate is low"),
        (0.5, -LOW, "neither", "the certificate is middle (0.5)"),
        (0.5, -HIGH, "question", "the certificate is middle (0.5), the log-probability low (-0.9)"),
    ],
)
def test_the_channel_is_what_stands_out(odds, certificate, logprob, channel, says):
    found = attribute(receipt_of(certificate, logprob), odds)
    assert (found.channel, found.missing) == (channel, ())
    assert says in found.statement
    assert (found.certificate, found.logprob) == (certificate, logprob)


def test_the_odds_are_those_of_the_bin(odds):
    found = attribute(receipt_of(HIGH, -LOW), odds)
    cell = odds.find(HIGH, -LOW)
    share, ends = f"{cell.broken.share:.0%}", f"[{100 * cell.broken.low:.0f}, {100 * cell.broken.high:.0f}]"
    assert f"Of {cell.n} such answers in MADE UP (aware, budget {odds.budget}) the cache broke {share} {ends}" in (
        found.statement
    )
    assert "were wrong with the full cache too. Of those that were wrong, the cache had broken 100%" in found.statement
    assert f"Of all 900 answers there: {odds.whole.broken.share:.0%} [" in found.statement
    assert found.statement.endswith("(95% intervals).")
    assert found.to_object()["odds"]["such"] == cell.model_dump(mode="json")


def test_a_number_that_marked_nothing_is_not_blamed():
    """The cache breaks answers whatever their certificate; the question's number says nothing either."""
    rows = made_rows()
    rows["broken"], rows["wrong"] = [at % 4 == 0 for at in range(900)], [at % 4 == 1 for at in range(900)]
    flat = made_odds(setting_of(receipt_of(HIGH, -LOW)), rows)
    said = {pair: attribute(receipt_of(*pair), flat).statement for pair in ((HIGH, -LOW), (LOW, -HIGH), (HIGH, -HIGH))}
    assert said[HIGH, -LOW].startswith("The certificate is high, which in MADE UP did not clearly mark answers that")
    assert said[LOW, -HIGH].startswith("The log-probability is low, which in MADE UP did not clearly mark answers")
    assert said[HIGH, -HIGH].startswith("Both numbers stand out, which in MADE UP did not clearly mark")
    assert all("may have caused this" not in each for each in said.values())


def test_a_bin_with_few_clusters_has_no_odds():
    few = made_odds(setting_of(receipt_of(HIGH, -LOW)), made_rows(size=60))
    found = attribute(receipt_of(HIGH, -LOW), few)
    cell = few.find(HIGH, -LOW)
    assert cell.broken.share is None
    assert found.statement.startswith("The certificate stands out: ")
    assert f"Only {cell.n} answers from {cell.broken.clusters} clusters in MADE UP" in found.statement
    assert "too few for odds (at least 10 clusters)" in found.statement
    assert "Of all 60 answers there" in found.statement


def test_numbers_outside_the_study_are_named(odds):
    found = attribute(receipt_of(7.0, -3.0), odds)
    assert "The certificate is outside what MADE UP saw (" in found.statement
    assert "The log-probability is outside what MADE UP saw (" in found.statement
    assert "outside" not in attribute(receipt_of(0.5, -0.5), odds).statement


def test_without_a_table_nothing_is_high_or_low():
    found = attribute(receipt_of(HIGH, -LOW))
    assert (found.channel, found.certificate_level, found.logprob_level, found.odds) == ("unknown", None, None, None)
    assert found.statement == (
        "No measured odds for this model and policy: the clipped certificate is 0.9 and the mean log-probability is "
        "-0.1 nats, and whether that is high or low has not been measured."
    )


def test_top_parts_and_their_shares(odds):
    found = attribute(receipt_of(1.0, -LOW), odds)
    assert [(part.index, part.share) for part in found.layers] == [
        (2, pytest.approx(0.5)),
        (4, pytest.approx(0.3)),
        (1, pytest.approx(0.1)),
    ]
    assert [(part.index, part.radius) for part in found.steps] == [(7, 2.0), (2, 1.0), (1, 0.5)]
    assert found.steps[0].share == pytest.approx(2 / 3.75)
    assert (len(found.radii.per_layer), len(found.radii.steps), found.radii.heads, found.heads) == (
        NUM_LAYERS,
        7,
        (),
        (),
    )
    clipped = attribute(receipt_of(1.0, -LOW))
    assert [(part.index, part.share) for part in clipped.layers[:2]] == [
        (2, pytest.approx(1 / 2.8)),
        (4, pytest.approx(1 / 2.8)),
    ]
    assert [(part.index, part.radius) for part in clipped.steps] == [(2, 1.0), (7, 1.0), (1, 0.5)]


def test_evidence_says_what_the_receipt_says_and_which_heads(odds):
    given = answer(logprobs=0)
    theirs, mine = attribute(given.receipt), attribute(given.evidence)
    assert mine.certificate == pytest.approx(theirs.certificate, abs=FP32)
    assert mine.logprob == pytest.approx(theirs.logprob, abs=FP32)
    assert [part.index for part in mine.layers] == [part.index for part in theirs.layers]
    assert [part.share for part in mine.steps] == pytest.approx([part.share for part in theirs.steps], abs=FP32)
    radii = given.evidence.answer[:, :, :6].amax(2)
    layer, head = divmod(int(radii.argmax()), radii.shape[1])
    radii = radii.clamp(max=1)
    top = mine.heads[0]
    assert (top.layer, top.head, top.radius) == (layer + 1, head, pytest.approx(float(radii.max())))
    assert top.share == pytest.approx(float(radii.max() / radii.sum()), abs=FP32)
    assert [len(heads) for heads in mine.radii.heads] == [radii.shape[1]] * NUM_LAYERS
    held = attribute(given.evidence, odds, setting=setting_of(given.receipt))
    assert held.statement == attribute(given.receipt, odds).statement


def test_another_signal_than_the_published_certificate():
    given = answer(logprobs=0)
    mass = made_odds(setting_of(given.receipt), signal="evicted_mass")
    found = attribute(given.evidence, mass, setting=setting_of(given.receipt))
    assert found.certificate == pytest.approx(float(given.evidence.evicted_mass.mean()), abs=FP32)
    assert "the signal evicted_mass" in found.statement
    bare = attribute(replace(given.evidence, answer=None), mass, setting=setting_of(given.receipt))
    assert (bare.channel, bare.statement, bare.missing) == (found.channel, found.statement, ())
    with pytest.raises(BadInput, match="the signal of the odds is 'evicted_mass'; it must be one that there is here"):
        attribute(given.receipt, mass)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"name": "snapkv"}, "topk keeps rows for certain, and what stays then says nothing of what left"),
        ({"name": "snapkv"}, "run fewer ask with --evict systematic:snapkv and the same --budget"),
        ({"certify": False}, "no certificate was asked for: run it without --set certify=false"),
        ({"estimator": "plug-in"}, "a certificate is made of: run it without --set estimator=plug-in"),
        ({"max_tokens": 1}, "no decode step came after the compression: ask for a longer answer"),
    ],
)
def test_a_missing_certificate_says_why_and_what_to_run(given, says):
    found = attribute(answer(logprobs=0, **given).receipt)
    assert (found.channel, found.certificate, found.layers) == ("unknown", None, ())
    assert found.statement.startswith("Which channel is unknown: no certificate, since ")
    assert says in found.statement
    assert found.missing == (f"certificate: {found.statement.split('since ')[1].rpartition('. The mean')[0]}",)


def test_a_missing_log_probability_says_what_to_run(odds):
    found = attribute(receipt_of(HIGH, None), odds)
    assert (found.channel, found.logprob, found.certificate_level) == ("unknown", None, "high")
    assert (
        "no log-probability, since log-probabilities were not asked for: run fewer ask with --evict" in found.statement
    )
    assert found.statement.endswith("The certificate is 0.9.")
    bare = attribute(replace(answer().evidence, logprobs=()))
    assert bare.missing == ("logprob: the answer's log-probabilities were not collected: ask with logprobs=0",)


@pytest.mark.parametrize("given", [{"name": "none"}, {"budget": "200"}])
def test_a_whole_cache_is_no_cause(given):
    found = attribute(answer(logprobs=0, **given).receipt)
    assert found.channel == "unknown"
    assert found.statement.startswith("Nothing had left the cache, so it did not cause this; the mean log-probability")


def test_the_setting_is_the_receipts():
    assert read_receipt(answer().receipt).setting.condition == "aware"
    assert read_receipt(answer(every=4).receipt).setting.condition == "aware"
    asked = read_receipt(answer(moment="context").receipt).setting
    assert asked.condition == "stream"
    assert asked.model == make_engine().adapter.facts.fingerprint
    assert asked.policy["budget.keep"] == "30 tokens"


def test_odds_of_another_setting_are_refused(odds):
    with pytest.raises(BadInput, match=r"odds is 'MADE UP'; .* score \(snapkv in the table, keynorm here\)"):
        attribute(answer("systematic:keynorm", logprobs=0).receipt, odds)


def test_what_cannot_be_attributed_is_refused(odds):
    with pytest.raises(BadInput, match="what is attributed is 'receipt_json'; it must be a Receipt or Evidence"):
        attribute("receipt_json")
    with pytest.raises(BadInput, match="setting is None; it must be given where evidence is held against odds"):
        attribute(answer().evidence, odds)
    with pytest.raises(BadInput, match="it must be left out for a receipt"):
        attribute(answer().receipt, setting=setting_of(answer().receipt))


def test_radii_of_zero_have_no_shares():
    found = attribute(Evidence(answer=torch.zeros(2, 3, 4), logprobs=(-1.0,)))
    assert (found.certificate, found.layers, found.heads, found.steps) == (0.0, (), (), ())
    assert json.loads(json.dumps(found.to_object()))["radius_per_step"] == [0.0] * 4


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_number_is_missing_and_not_low(odds, number):
    radii = torch.full((2, 3, 4), 0.5)
    radii[1, 2, 3] = number
    setting = setting_of(receipt_of(HIGH, -LOW))
    found = attribute(Evidence(answer=radii, logprobs=(-1.0, -number)), odds, setting=setting)
    assert (found.channel, found.certificate, found.certificate_level, found.logprob) == ("unknown", None, None, None)
    assert found.missing == (
        "certificate: some radii are no finite numbers",
        "logprob: some of the answer's are no finite numbers",
    )
    assert json.loads(json.dumps(found.to_object(), allow_nan=False))["layers"] == []
