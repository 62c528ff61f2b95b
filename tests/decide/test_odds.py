"""Measured odds: shares and intervals, what a table refuses, and that it comes back from its file as it was."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from odds_made import FINGERPRINT, POLICY, SETTING, made_odds, made_rows
from scipy.stats import binomtest

from fewer.decide.odds import Setting, load_odds
from fewer.decide.tabulate import share_of
from fewer.errors import BadInput


def test_cells_count_what_lies_in_their_bins():
    rows = {name: np.array(values) for name, values in made_rows().items()}
    odds = made_odds()
    first, second = odds.certificate.edges
    assert (first, second) == pytest.approx(np.quantile(rows["certificate"], [1 / 3, 2 / 3]))
    edges = np.quantile(rows["logprob"], [1 / 3, 2 / 3])
    for row in range(3):
        for column in range(3):
            cell = odds.cells[row][column]
            inside = (np.digitize(rows["certificate"], (first, second), right=True) == row) & (
                np.digitize(rows["logprob"], edges, right=True) == column
            )
            failed = inside & (rows["broken"] + rows["wrong"] > 0)
            assert (cell.n, cell.broken.clusters) == (inside.sum(), len(set(rows["cluster"][inside])))
            assert cell.broken.share == pytest.approx(rows["broken"][inside].mean())
            assert cell.wrong.share == pytest.approx(rows["wrong"][inside].mean())
            assert cell.broken_of_failed.n == failed.sum()
            if cell.broken_of_failed.share is not None:
                assert cell.broken_of_failed.share == pytest.approx(rows["broken"][failed].mean())
    assert odds.whole.n == 900
    assert odds.whole.broken.share == pytest.approx(rows["broken"].mean())
    assert odds.find(second + 0.1, edges[0] - 0.1) is odds.cells[2][0]


def test_an_edge_belongs_below_and_levels_are_the_outer_bins():
    axis = made_odds().certificate
    low, high = axis.edges
    assert [axis.level(value) for value in (-9, low, low + 1e-9, high, high + 1e-9, 9)] == [
        "low", "low", "middle", "middle", "high", "high"
    ]  # fmt: skip
    assert [axis.outside(value) for value in (axis.least, axis.most, -1e-3, 1.1)] == [False, False, True, True]
    halves = made_odds(quantiles=(0.5,)).certificate
    assert [halves.level(value) for value in (0.1, 0.9)] == ["low", "high"]


def test_independent_answers_have_wilsons_interval():
    outcomes = np.array([1.0] * 30 + [0.0] * 170)
    found = share_of(outcomes, np.arange(200), 0.95)
    usual = binomtest(30, 200).proportion_ci(0.95, method="wilson")
    assert found.share == 0.15
    assert (found.low, found.high) == pytest.approx((usual.low, usual.high), abs=2e-3)  # t(199) is a little wider
    assert found.low <= usual.low <= usual.high <= found.high


def test_answers_of_one_text_count_once_where_they_always_agree():
    outcomes = np.array([1.0] * 6 + [0.0] * 14)
    alone = share_of(outcomes, np.arange(20), 0.95)
    fivefold = share_of(np.repeat(outcomes, 5), np.repeat(np.arange(20), 5), 0.95)
    assert (fivefold.n, fivefold.clusters) == (100, 20)
    assert (fivefold.low, fivefold.high) == pytest.approx((alone.low, alone.high), abs=0.01)


def test_where_all_answers_agree_the_clusters_count():
    found = share_of(np.zeros(100), np.repeat(np.arange(20), 5), 0.95)
    assert (found.share, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(share_of(np.zeros(20), np.arange(20), 0.95).high)
    assert 0.1 < found.high < 0.2


@pytest.mark.parametrize(("mean", "spread"), [(0.3, 1.0), (0.1, 1.5), (0.5, 0.0)])
def test_the_interval_covers_the_share(mean, spread):
    """40 clusters of 5, cluster shares beta with sizes that give an intra-cluster correlation up to .6; 600 draws.

    Were the coverage .93, fewer than .89 of the draws would be covered with probability below 1e-3 a case.
    """
    rng, draws, hits = np.random.default_rng(11), 600, 0
    clusters = np.repeat(np.arange(40), 5)
    for _ in range(draws):
        shares = rng.beta(mean / spread, (1 - mean) / spread, 40) if spread else np.full(40, mean)
        outcomes = (rng.random((40, 5)) < shares[:, None]).astype(float).ravel()
        found = share_of(outcomes, clusters, 0.95)
        hits += found.low <= mean <= found.high
    assert hits / draws > 0.89


def test_the_interval_covers_the_share_where_clusters_differ_in_size():
    """10 clusters of ceil(lognormal) answers, shares beta with an intra-cluster correlation of .8; 1,000 draws.

    Were the coverage .953, no more than .93 of the draws would be covered with probability below 1e-3.
    """
    rng, draws, hits = np.random.default_rng(12), 1000, 0
    for _ in range(draws):
        sizes, shares = np.ceil(rng.lognormal(1, 1, 10)).astype(int), rng.beta(0.3 * 0.25, 0.7 * 0.25, 10)
        outcomes = np.concatenate([rng.random(size) < mean for size, mean in zip(sizes, shares, strict=True)])
        found = share_of(outcomes.astype(float), np.repeat(np.arange(10), sizes), 0.95)
        hits += found.low <= 0.3 <= found.high
    assert hits / draws > 0.93


def test_one_large_cluster_is_worth_little():
    outcomes, clusters = np.array([1.0] * 90 + [0.0] * 9), np.array([0] * 90 + [*range(1, 10)])
    found = share_of(outcomes, clusters, 0.95)
    assert found.share == pytest.approx(10 / 11)
    assert (found.low, found.high) == (pytest.approx(0.0, abs=0.01), pytest.approx(1.0, abs=0.01))


def test_too_few_clusters_say_nothing():
    found = share_of(np.ones(90), np.repeat(np.arange(9), 10), 0.95)
    assert (found.n, found.clusters, found.share, found.low, found.high) == (90, 9, None, None, None)


def test_it_comes_back_from_its_file(tmp_path):
    odds = made_odds()
    odds.save(tmp_path / "odds.json")
    assert load_odds(tmp_path / "odds.json") == odds
    assert [path.name for path in tmp_path.iterdir()] == ["odds.json"]
    assert json.loads((tmp_path / "odds.json").read_text())["policy"] == POLICY


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (Setting("f" * 32, SETTING.policy, "stream"), r"the model \(01234567 in the table, ffffffff here\)"),
        (Setting(FINGERPRINT, SETTING.policy, "aware"), r"the condition \(stream in the table, aware here\)"),
        (Setting(FINGERPRINT, {**POLICY, "budget.keep": "12.5%"}, "stream"), r"budget.keep \(25% in the table, 12.5%"),
        (Setting(FINGERPRINT, {**POLICY, "block": 64}, "stream"), r"block \(None in the table, 64 here\)"),
    ],
)
def test_another_setting_is_refused(setting, message):
    with pytest.raises(BadInput, match=message):
        made_odds().check(setting)


def test_when_a_session_compresses_does_not_matter():
    made_odds().check(Setting(FINGERPRINT, {**POLICY, "moment": "prompt"}, "stream"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"broken": [1] * 900, "wrong": [1] * 900}, "answers both broken and wrong is 900"),
        ({"broken": [0.5] * 900}, "broken is 0.5"),
        ({"certificate": [float("nan")] + [0.5] * 899}, "1 entries that are not finite"),
        ({"certificate": [0.5] * 900}, "the quantiles of certificate"),
        ({"wrong": [0] * 3}, "the length of wrong is 3; it must be 900"),
        ({"cluster": ["one"] * 900}, "the number of clusters is 1; it must be at least 10"),
    ],
)
def test_rows_that_make_no_table_are_refused(change, message):
    with pytest.raises(BadInput, match=message):
        made_odds(rows=made_rows() | change)


def test_quantiles_and_signals_that_there_are_not_are_refused():
    with pytest.raises(BadInput, match=r"quantiles is \(0.0, 0.5\)"):
        made_odds(quantiles=(0.0, 0.5))
    with pytest.raises(ValueError, match="signal is 'logprob'; it must be one of certificate, "):
        made_odds(signal="logprob")


def write(path: Path, **changes: object) -> Path:
    plain = made_odds().model_dump(mode="json") | changes
    path.write_text(json.dumps(plain))
    return path


def test_a_file_that_is_no_table_is_refused(tmp_path):
    path = tmp_path / "odds.json"
    with pytest.raises(BadInput, match="No such file"):
        load_odds(path)
    path.write_text("{")
    with pytest.raises(BadInput, match="must be a readable JSON file"):
        load_odds(path)
    path.write_text("[]")
    with pytest.raises(BadInput, match="must be a table of measured odds"):
        load_odds(path)
    with pytest.raises(BadInput, match="version is 2; it must be 1 for this reader"):
        load_odds(write(path, version=2))
    with pytest.raises(BadInput, match="cannot be used: the whole: policy is"):
        load_odds(write(path, budget="50%"))
    with pytest.raises(BadInput, match="cannot be used: notes"):
        load_odds(write(path, notes="more"))
    cells = made_odds().model_dump(mode="json")["cells"]
    with pytest.raises(BadInput, match=r"cells is \[3, 3\]; it must be rows of \[3, 3, 3\]"):
        load_odds(write(path, cells=cells[:2]))
    with pytest.raises(BadInput, match="n of all cells is"):
        load_odds(write(path, cells=[*cells[:2], [cells[2][0]] * 3]))
    cells[0][0]["broken"]["low"] = 0.99
    with pytest.raises(BadInput, match="it must be low <= share <= high"):
        load_odds(write(path, cells=cells))
