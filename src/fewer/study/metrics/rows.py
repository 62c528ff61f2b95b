"""Which metric scores a row of evaluation data: by its task where that is known, else by what the row says.

A row names one of five kinds: qa_f1, em, rouge_l, accuracy, edit_sim. They mean different things in different tasks
(accuracy is a class, a letter, a count, a share), so a known task has one metric, in `TASKS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fewer.errors import bad
from fewer.study.metrics.table import METRICS, score

__all__ = ["TASKS", "TaskMetric", "choose_metric", "read_meta", "score_row"]


class TaskMetric(NamedTuple):
    """The metric of a task, the kinds its rows may name, and where that departs from the task's own publication."""

    metric: str
    kinds: tuple[str, ...]
    note: str = ""


_HOTPOT = "HotpotQA's script also gives 0 where one side is yes or no and the other is not"
_LOOGLE = "LooGLE itself reports BLEU, ROUGE recall and a judge"
_NO_GUESS = "L-Eval takes the first capital A to D for the choice: leval_choice"
_PROXY = "a proxy: the benchmark itself is scored by a judge"

TASKS: Mapping[str, TaskMetric] = {
    "leval_coursera": TaskMetric("multiple_choice", ("accuracy",), _NO_GUESS),
    "leval_financial_qa": TaskMetric("leval_f1", ("qa_f1",)),
    "leval_natural_question": TaskMetric("leval_f1", ("qa_f1",)),
    "leval_scientific_qa": TaskMetric("leval_f1", ("qa_f1",)),
    "leval_tpo": TaskMetric("multiple_choice", ("accuracy",), _NO_GUESS),
    "longbench_multifieldqa_en": TaskMetric("qa_f1", ("qa_f1",)),
    "longbench_narrativeqa": TaskMetric("qa_f1", ("qa_f1",)),
    "longbench_qasper": TaskMetric("qa_f1", ("qa_f1",)),
    "loogle_longdep_window": TaskMetric("qa_f1", ("qa_f1",), _LOOGLE),
    "loogle_shortdep_window": TaskMetric("qa_f1", ("qa_f1",), _LOOGLE),
    "qasper_evidence": TaskMetric("qa_f1", ("qa_f1",)),
    "leval_multidoc_qa": TaskMetric("leval_f1", ("qa_f1",)),
    "longbench_2wikimqa": TaskMetric("qa_f1", ("qa_f1",)),
    "longbench_hotpotqa": TaskMetric("qa_f1", ("qa_f1",)),
    "longbench_musique": TaskMetric("qa_f1", ("qa_f1",)),
    "nq_multidoc_5": TaskMetric("best_subspan_em", ("em",), "its script truncates: best_subspan_em_first_line"),
    "nq_multidoc_10": TaskMetric("best_subspan_em", ("em",), "its script truncates: best_subspan_em_first_line"),
    "nq_multidoc_20": TaskMetric("best_subspan_em", ("em",), "its script truncates: best_subspan_em_first_line"),
    "2wikimultihopqa": TaskMetric("qa_f1", ("qa_f1",), _HOTPOT),
    "2wikimultihopqa_long40": TaskMetric("qa_f1", ("qa_f1",), _HOTPOT),
    "hotpotqa_distractor": TaskMetric("qa_f1", ("qa_f1",), _HOTPOT),
    "hotpotqa_long40": TaskMetric("qa_f1", ("qa_f1",), _HOTPOT),
    "musique": TaskMetric("qa_f1", ("qa_f1",)),
    "leval_gov_report": TaskMetric("leval_rouge_l", ("rouge_l",)),
    "leval_patent_summ": TaskMetric("leval_rouge_l", ("rouge_l",)),
    "leval_tv_show_summ": TaskMetric("leval_rouge_l", ("rouge_l",)),
    "longbench_gov_report": TaskMetric("rouge_l", ("rouge_l",)),
    "longbench_qmsum": TaskMetric("rouge_l", ("rouge_l",)),
    "multi_news": TaskMetric("rouge_l", ("rouge_l",)),
    "qmsum_full": TaskMetric("rouge_l", ("rouge_l",)),
    "qmsum_window": TaskMetric("rouge_l", ("rouge_l",)),
    "longbench_samsum": TaskMetric("rouge_l_first_line", ("rouge_l",)),
    "longbench_trec": TaskMetric("longbench_classification", ("accuracy",)),
    "longbench_triviaqa": TaskMetric("qa_f1_first_line", ("qa_f1",)),
    "samsum_fewshot": TaskMetric("rouge_l_first_line", ("rouge_l",)),
    "trec_fewshot150": TaskMetric("longbench_classification", ("accuracy",)),
    "dialogue_retrieval": TaskMetric("dialogue_retrieval", ("accuracy",)),
    "kv_retrieval_75": TaskMetric("kv_value", ("em",)),
    "longbench_passage_count": TaskMetric("longbench_count", ("accuracy",)),
    "longbench_passage_retrieval_en": TaskMetric("longbench_retrieval", ("accuracy",)),
    "longeval_lines_200": TaskMetric("longeval_line", ("accuracy",)),
    "longeval_lines_300": TaskMetric("longeval_line", ("accuracy",)),
    "ruler_niah_multikey_3": TaskMetric("ruler_string_match_all", ("em",)),
    "ruler_niah_wiki": TaskMetric("ruler_string_match_all", ("accuracy", "em")),
    "babi_long_2k": TaskMetric("babilong", ("em",), "stricter than an answer that occurs in the output"),
    "babi_long_6k": TaskMetric("babilong", ("em",), "stricter than an answer that occurs in the output"),
    "leval_quality": TaskMetric("multiple_choice", ("accuracy",), _NO_GUESS),
    "passage_count_nq": TaskMetric("longbench_count", ("accuracy",)),
    "ruler_cwe": TaskMetric("ruler_string_match_all", ("accuracy",)),
    "ruler_vt": TaskMetric("ruler_string_match_all", ("accuracy",)),
    "code_stdlib_crossfile": TaskMetric("edit_sim", ("edit_sim",)),
    "code_stdlib_infile": TaskMetric("edit_sim", ("edit_sim",)),
    "longbench_lcc": TaskMetric("longbench_code_sim", ("edit_sim",)),
    "longbench_repobench-p": TaskMetric("longbench_code_sim", ("edit_sim",)),
    "locomo": TaskMetric("qa_f1", ("qa_f1",), "LoCoMo itself stems words and splits lists"),
    "longeval_topics_5": TaskMetric("qa_f1", ("qa_f1",), _PROXY),
    "longeval_topics_10": TaskMetric("qa_f1", ("qa_f1",), _PROXY),
    "longmemeval_sample": TaskMetric("qa_f1", ("qa_f1",), _PROXY),
    "mt_bench": TaskMetric("rouge_l", ("rouge_l",), f"{_PROXY}; questions without a reference are not scored"),
    "mtrag_12docs": TaskMetric("rouge_l", ("rouge_l",), "MTRAG itself combines ROUGE-L with BERT scores and judges"),
    "conflictqa_strategyqa": TaskMetric("yes_no", ("accuracy",)),
    "leval_sci_fi": TaskMetric("leval_judgement", ("accuracy",)),
    "ramdocs": TaskMetric("ramdocs", ("em",)),
    "rgb_conflict": TaskMetric("rgb_conflict", ("em",), "RGB itself does not count fake answers: rgb"),
}

_BY_KIND = {"qa_f1": "qa_f1", "em": "best_subspan_em", "rouge_l": "rouge_l", "edit_sim": "edit_sim"}
_SHARE = "share of the answers that occur in the output"


def choose_metric(row: Mapping[str, Any]) -> str | None:
    """The name of the row's metric, or None where the row says that it has no reference (`meta.open_ended`).

    In this order: a row that names a metric of `METRICS` that is no kind has it; a task of `TASKS` has its metric, and
    naming another kind there is an error; else the kind decides, and for accuracy what meta has: `scoring`, options,
    or all_classes. Raises BadInput where that leaves the metric open.
    """
    task, kind, meta = row.get("task"), row.get("metric"), row.get("meta") or {}
    if meta.get("open_ended"):
        return None
    known = TASKS.get(task) if isinstance(task, str) else None
    if isinstance(kind, str) and kind in METRICS and kind not in _BY_KIND:
        return kind
    if known:
        if kind not in known.kinds:
            way_out = "Correct the row, or give its task another name."
            raise bad(f"metric of a {task} row", kind, f"one of {', '.join(known.kinds)}, or a metric's name", way_out)
        return known.metric
    found = _choose_by_meta(meta) if kind == "accuracy" else _BY_KIND.get(kind) if isinstance(kind, str) else None
    if found is None:
        legal = f"one of {', '.join([*_BY_KIND, *(name for name in METRICS if name not in _BY_KIND)])}, or accuracy"
        way_out = "accuracy needs options and gold_index, all_classes, or scoring in meta; otherwise name the metric."
        raise bad(f"metric of row {row.get('id')!r}", kind, legal, way_out)
    return found


def read_meta(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row's meta with the question in it, which the bAbI metric reads."""
    return {**(row.get("meta") or {}), "question": row.get("question", "")}


def score_row(row: Mapping[str, Any], prediction: str) -> float | None:
    """The output's score by the row's metric; None where the row has no reference."""
    metric = choose_metric(row)
    return None if metric is None else score(metric, prediction, row.get("answers") or (), read_meta(row))


def _choose_by_meta(meta: Mapping[str, Any]) -> str | None:
    if meta.get("scoring") == _SHARE:
        return "ruler_string_match_all"
    if "options" in meta and "gold_index" in meta:
        return "multiple_choice"
    return "longbench_classification" if "all_classes" in meta else None
