"""Which metric a row of the evaluation data has, for each of its 64 tasks."""

from __future__ import annotations

from typing import Any

import pytest

from fewer.errors import BadInput
from fewer.study.metrics import METRICS, TASKS, choose_metric, score_row

SHARE = {"scoring": "share of the answers that occur in the output"}
KINDS = """
leval_coursera accuracy
leval_financial_qa leval_natural_question leval_scientific_qa leval_multidoc_qa qa_f1
leval_tpo leval_quality leval_sci_fi accuracy
longbench_multifieldqa_en longbench_narrativeqa longbench_qasper longbench_2wikimqa longbench_hotpotqa qa_f1
longbench_musique longbench_triviaqa loogle_longdep_window loogle_shortdep_window qasper_evidence qa_f1
nq_multidoc_5 nq_multidoc_10 nq_multidoc_20 kv_retrieval_75 ruler_niah_multikey_3 ruler_niah_wiki em
babi_long_2k babi_long_6k ramdocs rgb_conflict em
2wikimultihopqa 2wikimultihopqa_long40 hotpotqa_distractor hotpotqa_long40 musique qa_f1
locomo longeval_topics_10 longeval_topics_5 longmemeval_sample qa_f1
leval_gov_report leval_patent_summ leval_tv_show_summ longbench_gov_report longbench_qmsum multi_news rouge_l
qmsum_full qmsum_window longbench_samsum samsum_fewshot mt_bench mtrag_12docs rouge_l
longbench_trec trec_fewshot150 dialogue_retrieval longbench_passage_count longbench_passage_retrieval_en accuracy
longeval_lines_200 longeval_lines_300 passage_count_nq ruler_cwe ruler_vt ruler_niah_wiki accuracy
conflictqa_strategyqa accuracy
code_stdlib_crossfile code_stdlib_infile longbench_lcc longbench_repobench-p edit_sim
"""


def data_tasks() -> list[tuple[str, str]]:
    lines = [line.split() for line in KINDS.strip().splitlines()]
    return [(task, line[-1]) for line in lines for task in line[:-1]]


def test_every_task_of_the_data_maps() -> None:
    assert len({task for task, _ in data_tasks()}) == 64
    assert {task for task, _ in data_tasks()} == set(TASKS)
    for task, kind in data_tasks():
        found = choose_metric({"task": task, "metric": kind, "meta": {}})
        assert found == TASKS[task].metric
        assert found in METRICS


def test_accuracy_means_what_the_task_means() -> None:
    wanted = {
        "longbench_trec": "longbench_classification",
        "leval_sci_fi": "leval_judgement",
        "leval_quality": "multiple_choice",
        "ruler_cwe": "ruler_string_match_all",
        "ruler_vt": "ruler_string_match_all",
        "passage_count_nq": "longbench_count",
        "longeval_lines_300": "longeval_line",
        "dialogue_retrieval": "dialogue_retrieval",
        "conflictqa_strategyqa": "yes_no",
        "longbench_passage_retrieval_en": "longbench_retrieval",
    }
    assert {task: choose_metric({"task": task, "metric": "accuracy"}) for task in wanted} == wanted


ROWS: list[tuple[str, str, list[str], dict[str, Any], str, float]] = [
    ("trec_fewshot150", "accuracy", ["City"], {"all_classes": ["City", "Date"]}, "City\nQuestion: Date", 1.0),
    ("longbench_triviaqa", "qa_f1", ["Nadine Coyle"], {"n_examples": 6}, "Nadine Coyle\nQuestion", 1.0),
    ("samsum_fewshot", "rouge_l", ["They meet."], {}, "They meet.\nDialogue", 2 / (2 + 1e-8)),
    ("babi_long_2k", "em", ["garden"], {"babi_task": "qa1"}, "In the garden.", 1.0),
    ("babi_long_2k", "em", ["milk,apple"], {"babi_task": "qa8"}, "apple and milk", 1.0),
    ("leval_tpo", "accuracy", ["B"], {"options": ["one", "two"], "gold_index": 1}, "(B) two", 1.0),
    ("ruler_vt", "accuracy", ["AB", "CD"], SHARE, "ab", 0.5),
    ("ruler_niah_wiki", "em", ["123"], SHARE, "4123", 1.0),
    ("ramdocs", "em", ["x", "y"], {"wrong_answers": []}, "y, x", 1.0),
    ("rgb_conflict", "em", ["Disney"], {"fake_answers": ["Warner"]}, "Warner", 0.0),
    ("code_stdlib_infile", "edit_sim", ["x = 1  # one"], {}, "x = 1  # one", 1.0),
    ("longbench_passage_count", "accuracy", ["46"], {}, "46", 1.0),
]


@pytest.mark.parametrize(("task", "kind", "answers", "meta", "prediction", "wanted"), ROWS)
def test_rows_are_scored(
    task: str, kind: str, answers: list[str], meta: dict[str, Any], prediction: str, wanted: float
) -> None:
    row = {"task": task, "metric": kind, "answers": answers, "meta": meta, "question": "Where is Mary?"}
    assert score_row(row, prediction) == pytest.approx(wanted, abs=1e-12)


def test_a_row_without_a_reference_is_not_scored() -> None:
    row = {"task": "mt_bench", "metric": "rouge_l", "answers": ["(open-ended)"], "meta": {"open_ended": True}}
    assert choose_metric(row) is None
    assert score_row(row, "text") is None
    assert choose_metric({**row, "meta": {"open_ended": False}}) == "rouge_l"


def test_rows_of_other_tasks() -> None:
    def choose(kind: object, meta: dict[str, Any] | None = None) -> str | None:
        return choose_metric({"id": "x", "task": "mine", "metric": kind, "meta": meta})

    assert [choose(kind) for kind in ("qa_f1", "em", "rouge_l", "edit_sim")] == [
        "qa_f1",
        "best_subspan_em",
        "rouge_l",
        "edit_sim",
    ]
    assert choose("longbench_v2") == "longbench_v2"
    assert choose("accuracy", {"options": ["a", "b"], "gold_index": 0}) == "multiple_choice"
    assert choose("accuracy", {"all_classes": ["a"]}) == "longbench_classification"
    assert choose("accuracy", SHARE) == "ruler_string_match_all"
    for kind in ("accuracy", "bleu", None, 3):
        with pytest.raises(BadInput, match="metric of row 'x'"):
            choose(kind)


def test_a_row_may_name_its_metric_but_not_another_kind() -> None:
    assert choose_metric({"task": "leval_tpo", "metric": "leval_choice"}) == "leval_choice"
    with pytest.raises(BadInput, match="metric of a leval_tpo row is 'qa_f1'; it must be one of accuracy"):
        choose_metric({"task": "leval_tpo", "metric": "qa_f1"})


def test_a_row_without_answers_is_refused() -> None:
    with pytest.raises(BadInput, match="answers"):
        score_row({"task": "musique", "metric": "qa_f1", "answers": []}, "text")
