"""Scores of one output against its answers, as the benchmarks define them.

`METRICS` names them all, `score` applies one, `choose_metric` finds a row's. Each is a plain function of the output,
the answers and the row's meta, to a number from 0 to 1; none needs a model, a download or a dependency.
"""

from fewer.study.metrics.choice import extract_option
from fewer.study.metrics.likelihood import LikelihoodScore, score_likelihood
from fewer.study.metrics.metric import Metric
from fewer.study.metrics.normal import normalize
from fewer.study.metrics.rows import TASKS, TaskMetric, choose_metric, read_meta, score_row
from fewer.study.metrics.table import METRICS, measure_chance, score

__all__ = [
    "METRICS",
    "TASKS",
    "LikelihoodScore",
    "Metric",
    "TaskMetric",
    "choose_metric",
    "extract_option",
    "measure_chance",
    "normalize",
    "read_meta",
    "score",
    "score_likelihood",
    "score_row",
]
