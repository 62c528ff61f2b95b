"""Every metric by its name, and the one function that scores with it.

Not covered, since they need another model, a download or a word segmenter: scores by a judge (MT-Bench, LongEval's
topics, LongMemEval, LooGLE's and L-Eval's GPT-4 scores), METEOR, BERTScore, and the Chinese tasks of LongBench and
InfiniteBench.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fewer.errors import bad
from fewer.study.metrics import (
    babilong,
    choice,
    code_similarity,
    conflict,
    infinitebench,
    leval,
    longbench,
    longeval,
    loogle,
    overlap,
    rouge,
    rouge_score,
    ruler,
)
from fewer.study.metrics.fields import Answers, Meta, read_texts
from fewer.study.metrics.metric import Metric

__all__ = ["METRICS", "measure_chance", "score"]

_SQUAD, _LITM = "SQuAD (Rajpurkar et al. 2016, 2018)", "Lost in the Middle (Liu et al. 2024)"
_LONGBENCH, _V2 = "LongBench (Bai et al. 2024)", "LongBench v2 (Bai et al. 2025)"
_RULER, _INFINITE = "RULER (Hsieh et al. 2024)", "InfiniteBench (Zhang et al. 2024)"
_LOOGLE, _LEVAL = "LooGLE (Li et al. 2024)", "L-Eval (An et al. 2024)"
_OWN = "fewer"

_LIST = (
    Metric(
        "squad_exact_match",
        overlap.score_squad_exact_match,
        "the normalised output is an answer",
        _SQUAD,
        blank_answers=True,
    ),
    Metric(
        "squad_f1", overlap.score_squad_f1, "F1 over normalised words, 2.0's empty answers", _SQUAD, blank_answers=True
    ),
    Metric("qa_f1", overlap.score_qa_f1, "F1 over normalised words", _LONGBENCH),
    Metric(
        "qa_f1_first_line",
        overlap.score_qa_f1_first_line,
        "F1 over normalised words of the first line",
        f"{_LONGBENCH}, triviaqa",
    ),
    Metric("best_subspan_em", overlap.score_best_subspan_em, "an answer occurs in the output, both normalised", _LITM),
    Metric(
        "best_subspan_em_first_line",
        overlap.score_best_subspan_em_first_line,
        "an answer occurs before the first newline, both normalised",
        f"{_LITM}, as its script truncates",
    ),
    Metric("kv_value", overlap.score_kv_value, "the value occurs in the output, ignoring case", f"{_LITM}, key-value"),
    Metric("rouge_l", rouge.score_rouge_l, "ROUGE-L F by the rouge package", _LONGBENCH),
    Metric(
        "rouge_l_first_line",
        rouge.score_rouge_l_first_line,
        "ROUGE-L F of the first line by the rouge package",
        f"{_LONGBENCH}, samsum",
    ),
    Metric(
        "longbench_classification",
        longbench.score_classification,
        "one over the classes named on the first line, if the right one is among them",
        f"{_LONGBENCH}, trec",
        choices_in="all_classes",
        needs=("all_classes",),
    ),
    Metric(
        "longbench_retrieval",
        longbench.score_retrieval,
        "share of the output's numbers that are the paragraph's",
        f"{_LONGBENCH}, passage_retrieval_en",
    ),
    Metric(
        "dialogue_retrieval",
        longbench.score_dialogue_retrieval,
        "share of the output's numbers that are the dialogue's",
        f"{_OWN}, after LongBench's passage_retrieval_en",
    ),
    Metric(
        "longbench_count",
        longbench.score_count,
        "share of the output's numbers that are right",
        f"{_LONGBENCH}, passage_count",
    ),
    Metric(
        "longbench_code_sim",
        code_similarity.score_code_sim,
        "edit similarity of the first code line, whole percents",
        f"{_LONGBENCH}, lcc and repobench-p, with python-Levenshtein",
    ),
    Metric(
        "longbench_code_sim_difflib",
        code_similarity.score_code_sim_difflib,
        "difflib's similarity of the first code line, whole percents",
        f"{_LONGBENCH}, lcc and repobench-p, without python-Levenshtein",
    ),
    Metric("edit_sim", code_similarity.score_edit_sim, "edit similarity of the first code line, not rounded", _OWN),
    Metric("longbench_v2", longbench.score_longbench_v2, "the stated letter is right", _V2, chance=0.25),
    Metric(
        "longbench_v2_compensated",
        longbench.score_longbench_v2_compensated,
        "the stated letter is right; 0.25 where none is stated",
        _V2,
        chance=0.25,
    ),
    Metric(
        "ruler_string_match_all",
        ruler.score_string_match_all,
        "share of the answers that occur in the output, ignoring case",
        _RULER,
    ),
    Metric(
        "ruler_string_match_part",
        ruler.score_string_match_part,
        "an answer occurs in the output, ignoring case",
        _RULER,
    ),
    Metric("infinitebench_passkey", infinitebench.score_first_integer, "the first number is the answer", _INFINITE),
    Metric(
        "infinitebench_number_string", infinitebench.score_first_integer, "the first number is the answer", _INFINITE
    ),
    Metric(
        "infinitebench_kv_retrieval", infinitebench.score_kv_retrieval, "the value is a word of the output", _INFINITE
    ),
    Metric("infinitebench_longbook_qa_eng", overlap.score_qa_f1, "F1 over normalised words", _INFINITE),
    Metric(
        "infinitebench_longbook_choice_eng",
        infinitebench.score_longbook_choice,
        "the output chooses the right option",
        _INFINITE,
        chance=0.25,
    ),
    Metric(
        "infinitebench_longbook_sum_eng",
        rouge_score.score_rouge_l_by_lines,
        "rougeLsum F by the rouge-score package",
        _INFINITE,
    ),
    Metric(
        "infinitebench_longdialogue_qa_eng",
        infinitebench.score_longdialogue_qa,
        "the name is a word of the output",
        _INFINITE,
    ),
    Metric("infinitebench_math_find", infinitebench.score_math_find, "the first number is the answer", _INFINITE),
    Metric(
        "infinitebench_code_debug",
        infinitebench.score_code_debug,
        "the output names the right option or function",
        _INFINITE,
        chance=0.25,
    ),
    Metric("infinitebench_code_run", infinitebench.score_code_run, "the last word is the answer", _INFINITE),
    Metric("loogle_bleu_1", loogle.score_bleu_1, "BLEU of single words", _LOOGLE),
    Metric("loogle_bleu_4", loogle.score_bleu_4, "BLEU of runs of four words alone", _LOOGLE),
    Metric("loogle_rouge_1", loogle.score_rouge_1_recall, "ROUGE-1 recall by the rouge package", _LOOGLE),
    Metric("loogle_rouge_2", loogle.score_rouge_2_recall, "ROUGE-2 recall by the rouge package", _LOOGLE),
    Metric("loogle_rouge_l", loogle.score_rouge_l_recall, "ROUGE-L recall by the rouge package", _LOOGLE),
    Metric("loogle_exact_match", loogle.score_exact_match, "share of the masks filled exactly", f"{_LOOGLE}, cloze"),
    Metric(
        "loogle_partial_match",
        loogle.score_partial_match,
        "share of the masks filled with a shared word",
        f"{_LOOGLE}, cloze",
    ),
    Metric("leval_choice", leval.score_choice, "the first capital from A to D is the answer", _LEVAL, chance=0.25),
    Metric(
        "leval_judgement", leval.score_judgement, "the first true or false is right", f"{_LEVAL}, sci_fi", chance=0.5
    ),
    Metric("leval_f1", overlap.score_qa_f1, "F1 over normalised words", _LEVAL),
    Metric("leval_rouge_1", rouge_score.score_rouge_1, "ROUGE-1 F by the rouge-score package", _LEVAL),
    Metric("leval_rouge_2", rouge_score.score_rouge_2, "ROUGE-2 F by the rouge-score package", _LEVAL),
    Metric("leval_rouge_l", rouge_score.score_rouge_l_by_words, "ROUGE-L F by the rouge-score package", _LEVAL),
    Metric("longeval_line", longeval.score_line, "the last number is the answer", "LongEval (Li et al. 2023)"),
    Metric(
        "babilong",
        babilong.score_babi,
        "the answer is the only label in the first sentence",
        "BABILong (Kuratov et al. 2024); counts and lists by fewer",
        needs=("babi_task", "question"),
    ),
    Metric(
        "ramdocs",
        conflict.score_ramdocs,
        "all answers occur in the output and no wrong one",
        "RAMDocs (Wang et al. 2025)",
        needs=("wrong_answers",),
    ),
    Metric("rgb", conflict.score_rgb, "an answer occurs in the output, ignoring case", "RGB (Chen et al. 2024)"),
    Metric(
        "rgb_conflict",
        conflict.score_rgb_conflict,
        "an answer occurs in the output and no fake one",
        f"{_OWN}, after RGB",
        needs=("fake_answers",),
    ),
    Metric("yes_no", conflict.score_yes_no, "the first yes or no is right", _OWN, chance=0.5),
    Metric(
        "multiple_choice",
        choice.score_multiple_choice,
        "the output chooses the right option, by its letter or its text",
        _OWN,
        choices_in="options",
        needs=("options", "gold_index"),
    ),
)

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _LIST}


def score(metric: str, prediction: str, answers: Sequence[str], meta: Mapping[str, object]) -> float:
    """The output's score by the metric of this name, within its range.

    Raises BadInput for an unknown name, an output that is no text, no answers or only blank ones (except where the
    metric knows blank answers), and for what the metric needs from `meta` and does not find.
    """
    chosen = _find(metric)
    if not isinstance(prediction, str):
        raise bad("prediction", prediction, "a text", "Pass the output as decoded text; an empty one is fine.")
    _check_answers(chosen, answers)
    _check_meta(chosen, meta)
    return float(chosen.function(prediction, answers, meta))


def measure_chance(metric: str, meta: Mapping[str, object]) -> float | None:
    """What a uniform guess scores on a row with this meta; None where that is not known. Raises as `score` does."""
    chosen = _find(metric)
    return 1 / len(read_texts(meta, chosen.choices_in, at_least=1)) if chosen.choices_in else chosen.chance


def _find(name: str) -> Metric:
    if not isinstance(name, str) or name not in METRICS:
        raise bad("metric", name, f"one of {', '.join(sorted(METRICS))}", "Choose one of them.")
    return METRICS[name]


def _check_answers(metric: Metric, answers: Answers) -> None:
    way_out = "Give the row its answers, or leave it out."
    texts = not isinstance(answers, str) and isinstance(answers, Sequence)
    if not texts or not answers or not all(isinstance(answer, str) for answer in answers):
        raise bad("answers", answers, "a list of at least one text", way_out)
    if not metric.blank_answers and not any(answer.strip() for answer in answers):
        raise bad("answers", list(answers), "at least one text that is not blank", way_out)


def _check_meta(metric: Metric, meta: Meta) -> None:
    missing = [key for key in metric.needs if not isinstance(meta, Mapping) or key not in meta]
    if missing:
        legal = f"a mapping with {', '.join(metric.needs)} for the metric {metric.name}"
        raise bad("meta", sorted(meta) if isinstance(meta, Mapping) else meta, legal, f"Add {', '.join(missing)}.")
