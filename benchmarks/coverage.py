"""How often the intervals of `fewer.study.stats` hold the truth, and how often its tests reject a true null: a table.

    python -m benchmarks.coverage [--repeats 2000] [--resamples 1000] [--clusters 8 15 30 100] [--only WORD]

Every row draws new data so many times from a population whose truth is known, with clusters of 1 to 9 items that share
an effect. "below" and "above" are the shares of intervals that lie wholly below or above the truth (2.5% each is
perfect), "none" the share without an interval. The standard error of a coverage of 95% is 0.5 points at 2000 repeats.
The rows of tests give the share of p <= 0.05 (0.025 one-sided) under the null. All from one seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from fewer.errors import BadInput
from fewer.study import stats
from fewer.study.stats import Interval

Floats = NDArray[np.float64]
ICC = 0.3
PAIR = 0.6  # correlation of two scores on one item


@dataclass(frozen=True)
class Data:
    """Items in clusters with two standard normal scores that are correlated within items and within clusters."""

    clusters: NDArray[np.int64]
    x: Floats
    y: Floats
    noise: Floats  # independent of both, not clustered


def draw_data(rng: np.random.Generator, clusters: int, one_each: bool = False) -> Data:
    """Clusters of 1 to 9 items (5 on average), or of one item each."""
    sizes = np.ones(clusters, dtype=np.int64) if one_each else rng.integers(1, 10, size=clusters)
    labels = np.repeat(np.arange(clusters), sizes)
    effects, items = rng.standard_normal((2, clusters)), rng.standard_normal((2, labels.size))
    x, other = np.sqrt(ICC) * effects[:, labels] + np.sqrt(1 - ICC) * items
    return Data(labels, x, PAIR * x + np.sqrt(1 - PAIR**2) * other, rng.standard_normal(labels.size))


@dataclass(frozen=True)
class Row:
    """One interval or one test, and its truth."""

    name: str
    find: Callable[[Data, int], Interval | float]
    truth: float
    one_each: bool = False


def list_rows(resamples: int) -> Iterator[Row]:
    """What is checked."""
    common = {"resamples": resamples}
    right, rare = 0.0, 1.6449  # thresholds: half, and 5%, of the scores are above
    for method in ("bca", "percentile", "t"):
        options = {**common, "method": method}

        def on(name: str, call: Callable[..., Interval], truth: float, options: dict = options, **more: object) -> Row:
            def find(data: Data, seed: int) -> Interval:
                return call(data, {**options, "seed": seed})

            return Row(f"{name}, {options['method']}", find, truth, **more)

        yield on("mean of normals", lambda d, o: stats.mean(d.x, d.clusters, **o), 0.0)
        yield on("share of 50%", lambda d, o: stats.proportion(d.x > right, d.clusters, **o), 0.5)
        yield on("share of 5%", lambda d, o: stats.proportion(d.x > rare, d.clusters, **o), 0.05)
        yield on(
            "difference of 0/1",
            lambda d, o: stats.mean_difference(d.x > right, d.y > rare, d.clusters, bounds=(0, 1), **o),
            0.45,
        )
        yield on(
            "ratio of totals",
            lambda d, o: stats.ratio_of_totals(np.exp(1 + d.x), np.exp(d.y), d.clusters, **o),
            np.e,
        )
        yield on(
            "geometric mean ratio",
            lambda d, o: stats.geometric_mean_ratio(np.exp(1 + d.x), np.exp(d.y), d.clusters, **o),
            np.e,
        )
        if method == "t":
            continue
        yield on("AUC", lambda d, o: stats.auc(d.y > right, d.x, d.clusters, **o), TRUTHS["auc"])
        yield on(
            "AUC difference",
            lambda d, o: stats.auc_difference(d.y > right, d.x, d.x + d.noise, d.clusters, **o),
            TRUTHS["auc"] - TRUTHS["noisy auc"],
        )
        yield on("AURC", lambda d, o: stats.aurc(d.x, ndtr(-d.y), d.clusters, **o), TRUTHS["aurc"])
        yield on("E-AURC", lambda d, o: stats.excess_aurc(d.x, ndtr(-d.y), d.clusters, **o), TRUTHS["e-aurc"])
        yield on(
            "risk at 50%",
            lambda d, o: stats.selective_risk(d.x, ndtr(-d.y), d.clusters, [0.5], **o)[0],
            TRUTHS["risk"],
        )
        yield on("Spearman", lambda d, o: stats.spearman(d.x, d.y, d.clusters, **o), 6 / np.pi * np.arcsin(PAIR / 2))
    for kind in ("wilson", "clopper-pearson"):
        for name, edge, truth in (("50%", right, 0.5), ("5%", rare, 0.05)):
            yield Row(
                f"share of {name}, {kind}, independent",
                lambda d, s, kind=kind, edge=edge: stats.proportion(d.x > edge, None, method=kind),
                truth,
                one_each=True,
            )
    yield Row(
        "AUC, delong, independent",
        lambda d, s: stats.auc(d.y > right, d.x, None, method="delong"),
        TRUTHS["auc"],
        one_each=True,
    )
    yield Row(
        "AUC difference, delong, independent",
        lambda d, s: stats.auc_difference(d.y > right, d.x, d.x + d.noise, None, method="delong"),
        TRUTHS["auc"] - TRUTHS["noisy auc"],
        one_each=True,
    )
    yield Row(
        "test: sign flips of normals",
        lambda d, s: stats.sign_flip(d.x, d.y, d.clusters, resamples=resamples, seed=s).p,
        0.05,
    )
    yield Row("test: McNemar, independent", lambda d, s: stats.mcnemar(d.x > right, d.y > right).p, 0.05, one_each=True)
    yield Row(
        "test: non-inferiority at the margin",
        lambda d, s: stats.noninferiority(d.x - 0.1, d.y, d.clusters, margin=0.1).p,
        0.025,
    )


def find_truths() -> dict[str, float]:
    """The population values that have no simple formula, from a million independent items."""
    data = draw_data(np.random.default_rng(1), 1_000_000, one_each=True)
    wrong, loss = data.y > 0, ndtr(-data.y)
    n = loss.size

    def area(scores: Floats) -> float:
        ranks = np.empty(n)
        ranks[np.argsort(scores)] = np.arange(1, n + 1)
        positives = int(wrong.sum())
        return float((ranks[wrong].sum() - positives * (positives + 1) / 2) / (positives * (n - positives)))

    risk = stats.risk_coverage(data.x, loss).risk
    best = stats.risk_coverage(-loss, loss).risk
    return {
        "auc": area(data.x),
        "noisy auc": area(data.x + data.noise),
        "aurc": float(risk.mean()),
        "e-aurc": float(risk.mean() - best.mean()),
        "risk": float(risk[n // 2 - 1]),
    }


def measure(row: Row, clusters: int, repeats: int) -> str:
    """One line of the table."""
    rng = np.random.default_rng(0)
    ends, rejected = [], 0
    for seed in range(repeats):
        try:
            found = row.find(draw_data(rng, clusters, row.one_each), seed)
        except BadInput:  # a class is absent
            continue
        if not isinstance(found, Interval):
            rejected += found <= row.truth
        elif found.known:
            ends.append((found.lower, found.upper))
    line = f"{row.name:38}{clusters:9}"
    if row.name.startswith("test: "):
        return f"{line}   rejects {rejected / repeats:.1%}"
    low, high = np.array(ends).T
    below, above = np.mean(high < row.truth), np.mean(low > row.truth)
    shares = "".join(f"{share:9.1%}" for share in (1 - below - above, below, above))
    return f"{line}{shares}{np.mean(high - low):9.3f}{1 - len(ends) / repeats:8.1%}"


TRUTHS = find_truths() if __name__ == "__main__" else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--clusters", type=int, nargs="+", default=[8, 15, 30, 100])
    parser.add_argument("--only", default="", help="rows whose name holds this")
    options = parser.parse_args()
    print("interval at 95%                        clusters coverage    below    above    width    none")
    for row in list_rows(options.resamples):
        for clusters in options.clusters if options.only in row.name else ():
            print(measure(row, clusters, options.repeats), flush=True)


if __name__ == "__main__":
    main()
