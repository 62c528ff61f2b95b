"""Which tasks have a wording, where each is published, and which get no chat template."""

from __future__ import annotations

from fewer.study.tasks.wordings import INFINITEBENCH, LONGBENCH, LONGBENCH_V2, LOOGLE, PLAIN, WORDINGS

TASKS = [
    "2wikimultihopqa", "2wikimultihopqa_long40", "babi_long_2k", "babi_long_6k", "code_stdlib_crossfile",
    "code_stdlib_infile", "conflictqa_strategyqa", "dialogue_retrieval", "hotpotqa_distractor", "hotpotqa_long40",
    "kv_retrieval_75", "leval_coursera", "leval_financial_qa", "leval_gov_report", "leval_multidoc_qa",
    "leval_natural_question", "leval_patent_summ", "leval_quality", "leval_sci_fi", "leval_scientific_qa",
    "leval_tpo", "leval_tv_show_summ", "locomo", "longbench_2wikimqa", "longbench_gov_report", "longbench_hotpotqa",
    "longbench_lcc", "longbench_multifieldqa_en", "longbench_musique", "longbench_narrativeqa",
    "longbench_passage_count", "longbench_passage_retrieval_en", "longbench_qasper", "longbench_qmsum",
    "longbench_repobench-p", "longbench_samsum", "longbench_trec", "longbench_triviaqa", "longeval_lines_200",
    "longeval_lines_300", "longeval_topics_10", "longeval_topics_5", "longmemeval_sample", "loogle_longdep_window",
    "loogle_shortdep_window", "mt_bench", "mtrag_12docs", "multi_news", "musique", "nq_multidoc_10", "nq_multidoc_20",
    "nq_multidoc_5", "passage_count_nq", "qasper_evidence", "qmsum_full", "qmsum_window", "ramdocs", "rgb_conflict",
    "ruler_cwe", "ruler_niah_multikey_3", "ruler_niah_wiki", "ruler_vt", "samsum_fewshot", "trec_fewshot150",
]  # fmt: skip
NO_CHAT = {
    "code_stdlib_crossfile", "code_stdlib_infile", "longbench_lcc", "longbench_repobench-p", "longbench_samsum",
    "longbench_trec", "longbench_triviaqa", "samsum_fewshot", "trec_fewshot150", "loogle_longdep_window",
    "loogle_shortdep_window",
}  # fmt: skip


def test_every_task_has_a_wording_that_names_its_origin() -> None:
    assert len(TASKS) == 64
    assert set(WORDINGS) == {*TASKS, "longbench_multi_news"}
    for template in (*WORDINGS.values(), *LONGBENCH.values(), *INFINITEBENCH.values(), *LOOGLE.values(), LONGBENCH_V2):
        assert template.origin.startswith("ours") or "/" in template.origin
        assert "chat template: " in template.origin
        assert ("chat template: none" in template.origin) == (not template.chat)
    assert {task for task in TASKS if not WORDINGS[task].chat} == NO_CHAT
    assert PLAIN.chat
