"""The statistics of a study: estimates with honest intervals, tests, chance levels in closed form, and planning.

Pure functions of arrays with one number per item. `clusters` has one label per item, what was sampled together (the
document); None says that items are independent. Keywords everywhere: level=0.95, resamples=10_000, seed=0. The same
input gives the same numbers. Nothing here reads a file or knows what an arm is.

    means.py           means, paired differences, speedups
    proportions.py     shares of 0/1 outcomes, McNemar
    permutation.py     sign flips over clusters
    expectations.py    what chance would give, in closed form
    margins.py         non-inferior, superior, equivalent
    auc.py, delong.py  whether a score ranks errors above correct answers
    selective.py       risk against coverage
    calibration.py, certificates.py, bins.py   probabilities and certificates that hold as often as they say
    correlation.py     rank correlation
    design.py          what clusters cost
    power*.py          how many items
    multiplicity.py    many comparisons

Seeds are averaged within an item first (`average_seeds`); failures stay in as scores, never as holes.
"""

from __future__ import annotations

from fewer.study.stats.auc import auc, auc_difference
from fewer.study.stats.bins import BinnedMean, binned_means
from fewer.study.stats.calibration import (
    BrierParts,
    CalibrationError,
    brier,
    brier_parts,
    calibration_error,
    reliability,
)
from fewer.study.stats.certificates import certificate_coverage, conditional_coverage
from fewer.study.stats.correlation import spearman
from fewer.study.stats.design import cluster_size, design_effect, icc
from fewer.study.stats.expectations import (
    Moments,
    average_seeds,
    chance_accuracy,
    chance_agreement,
    chance_of_hit,
    expected_best,
    random_choice,
    random_gating,
    random_pairing,
    random_subset,
)
from fewer.study.stats.margins import MarginTest, equivalence, noninferiority, superiority
from fewer.study.stats.means import geometric_mean_ratio, mean, mean_difference, ratio_of_totals
from fewer.study.stats.multiplicity import adjust, multiplicity_note
from fewer.study.stats.permutation import sign_flip
from fewer.study.stats.power import detectable_difference, paired_power, paired_sample_size
from fewer.study.stats.power_auc import auc_power, auc_sample_size, auc_standard_error
from fewer.study.stats.power_mcnemar import mcnemar_power, mcnemar_sample_size
from fewer.study.stats.proportions import mcnemar, proportion
from fewer.study.stats.results import Interval, PValue
from fewer.study.stats.selective import RiskCoverage, aurc, excess_aurc, risk_coverage, selective_risk

__all__ = [
    "BinnedMean",
    "BrierParts",
    "CalibrationError",
    "Interval",
    "MarginTest",
    "Moments",
    "PValue",
    "RiskCoverage",
    "adjust",
    "auc",
    "auc_difference",
    "auc_power",
    "auc_sample_size",
    "auc_standard_error",
    "aurc",
    "average_seeds",
    "binned_means",
    "brier",
    "brier_parts",
    "calibration_error",
    "certificate_coverage",
    "chance_accuracy",
    "chance_agreement",
    "chance_of_hit",
    "cluster_size",
    "conditional_coverage",
    "design_effect",
    "detectable_difference",
    "equivalence",
    "excess_aurc",
    "expected_best",
    "geometric_mean_ratio",
    "icc",
    "mcnemar",
    "mcnemar_power",
    "mcnemar_sample_size",
    "mean",
    "mean_difference",
    "multiplicity_note",
    "noninferiority",
    "paired_power",
    "paired_sample_size",
    "proportion",
    "random_choice",
    "random_gating",
    "random_pairing",
    "random_subset",
    "ratio_of_totals",
    "reliability",
    "risk_coverage",
    "selective_risk",
    "sign_flip",
    "spearman",
    "superiority",
]
