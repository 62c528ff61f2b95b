"""Scores worked out by hand from the published definitions."""

from __future__ import annotations

from typing import Any

import pytest

from fewer.study.metrics import measure_chance, score

META: dict[str, Any] = {"all_classes": ["Date", "Other date", "Other"], "fake_answers": ["Apple", "Meta"]}


@pytest.mark.parametrize(
    ("metric", "prediction", "answers", "wanted"),
    [
        # 2 shared of 4 and of 2 words: P 1/2, R 1, F 2/3; "the" goes, "It's" becomes one word
        ("qa_f1", "It's the Holston River now", ["Holston River"], 2 / 3),
        ("qa_f1", "river river", ["river bed"], 0.5),  # counts: 1 shared of 2 and 2
        ("qa_f1", "the", ["the"], 0.0),
        ("squad_f1", "the", ["a"], 1.0),
        ("squad_f1", "words", [""], 0.0),
        ("qa_f1", "yes", ["no", "yes"], 1.0),
        ("squad_exact_match", "The  End!", ["end"], 1.0),
        ("best_subspan_em", "in 1912", ["12"], 1.0),  # inside a longer number: so published
        ("best_subspan_em", "anything", ["The"], 0.0),  # normalises to nothing: departs from the original
        ("best_subspan_em", "o no", ["Ono"], 0.0),
        # words a b c against a b d, as sets: 2 of 3 and 2 of 3, F = 2 * (4/9) / (4/3 + 1e-8)
        ("rouge_l", "a b c", ["a b d"], 2 * (4 / 9) / (4 / 3 + 1e-8)),
        ("rouge_l", "same words", ["same words"], 2 / (2 + 1e-8)),
        ("rouge_l", "Same", ["same"], 0.0),  # case stays
        ("rouge_l", "x x x x y", ["x y"], 2 / (2 + 1e-8)),  # different words only
        ("leval_rouge_l", "x x x x y", ["X, y."], 2 * (2 / 5) / (7 / 5)),
        ("leval_rouge_1", "the cat sat", ["the cat the cat"], 4 / 7),
        ("leval_rouge_2", "the cat sat", ["the cat the cat"], 2 / 5),
        ("infinitebench_longbook_sum_eng", "c d\na b", ["a b\nc d"], 1.0),  # lines in another order
        ("leval_rouge_l", "c d\na b", ["a b\nc d"], 0.5),
        ("loogle_bleu_1", "a b", ["a b c d"], 0.36787944117144233),  # all found, exp(1 - 4/2)
        ("loogle_bleu_4", "a b c d e", ["a b c d"], 0.5),  # 1 of 2 runs, longer than the reference
        ("loogle_rouge_1", "", ["None of it"], 1 / 3),  # an empty output is the text None
        # "Date" is dropped as part of the right name, so "Other date" is passed over, then "Other" is dropped
        ("longbench_classification", "Other date", ["Other date"], 1.0),
        ("longbench_classification", "Date, Other", ["Date"], 0.5),
        ("longbench_retrieval", "Paragraph 3, not 4", ["Paragraph 3"], 0.5),
        ("longbench_count", "12 of 12 or 13", ["12"], 2 / 3),
        ("longbench_code_sim", "a = b # c", ["a = b # c"], 0.0),  # a right line with a comment is passed over
        ("edit_sim", "a = b # c", ["a = b # c"], 1.0),
        ("edit_sim", "```python\n# say\n\n    x = 1  \ny", ["    x = 1"], 1.0),
        ("edit_sim", "ab", ["abc"], 0.8),
        ("edit_sim", "", ["abc"], 0.0),
        ("longbench_code_sim", "ab", ["abcd"], 0.67),  # 4/6 in whole percents
        ("longbench_code_sim", "abcdefgh", ["z"], 0.0),
        ("longbench_code_sim", "a", ["aaaaaaaaaaaaaaa"], 0.12),  # 12.5, half to even
        ("longbench_v2_compensated", "It is B.", ["B"], 0.25),
        ("ruler_string_match_all", "one and THREE", ["one", "two", "three", "four"], 0.5),
        ("ruler_string_match_part", "one", ["one", "two"], 1.0),
        ("longeval_line", "line 7 says 00041", ["41"], 1.0),
        ("infinitebench_math_find", "3.0", ["3"], 0.0),
        ("infinitebench_math_find", "3", ["3.0"], 1.0),
        ("yes_no", "Well, NO. Yes?", ["No"], 1.0),
        ("yes_no", "I know nothing", ["No"], 0.0),
        ("rgb", "Facebook, not Apple", ["Facebook"], 1.0),
        ("rgb_conflict", "Facebook, not Apple", ["Facebook"], 0.0),
        ("rgb_conflict", "facebook", ["Facebook"], 1.0),
        ("rgb_conflict", "Metamorphosis", ["Metamorphosis"], 1.0),  # the fake one is part of the right one
    ],
)
def test_by_hand(metric: str, prediction: str, answers: list[str], wanted: float) -> None:
    assert score(metric, prediction, answers, META) == pytest.approx(wanted, abs=1e-12)


def test_the_order_of_classes_matters_as_published() -> None:
    right, text = ["Other date"], "Other date"
    # "Other" is dropped, so "Date" is passed over and stays; with "Food" between them both are dropped
    together = ["Other", "date", "Other date"]
    apart = ["Other", "Food", "date", "Other date"]
    assert score("longbench_classification", text, right, {"all_classes": together}) == 0.5
    assert score("longbench_classification", f"{text} Food", right, {"all_classes": apart}) == 0.5
    assert score("longbench_classification", text, right, {"all_classes": ["Other", "Other date", "date"]}) == 1.0


def test_rouge_scores_sentences_too_long_for_recursion() -> None:
    """The rouge package fails here, and LongBench's script then gives 0; this is a departure."""
    words = " ".join(str(number) for number in range(1500))
    assert score("rouge_l", words, [words], {}) == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize(
    ("task", "prediction", "answer", "wanted"),
    [
        ("qa7", "none", "none", 1.0),  # not also "one"
        ("qa7", "none", "one", 0.0),
        ("qa7", "one or two", "one", 0.0),
        ("qa8", "football and milk", "milk,football", 1.0),
        ("qa8", "milk", "milk,football", 0.0),
        ("qa8", "apple, milk, football", "milk,football", 0.0),
        ("qa8", "nothing", "nothing", 1.0),
    ],
)
def test_babi_counts_and_lists(task: str, prediction: str, answer: str, wanted: float) -> None:
    meta = {"babi_task": task, "question": "What is Daniel carrying?"}
    assert score("babilong", prediction, [answer], meta) == wanted


def test_a_cloze_is_read_and_never_run() -> None:
    assert score("loogle_exact_match", "__import__('os').getcwd()", ["x"], {}) == 0.0
    assert score("loogle_exact_match", "{'<mask-0>': '\\d', 'b': {}}", ["\\d"], {}) == 1.0
    assert score("loogle_exact_match", "[" * 5000, ["x"], {}) == 0.0
    assert score("loogle_partial_match", "{'m': 'New York'}", ["York"], {"masks": ["m"]}) == 1.0


def test_chance() -> None:
    assert measure_chance("multiple_choice", {"options": ["a", "b", "c", "d", "e"]}) == 0.2
    assert measure_chance("longbench_classification", {"all_classes": ["a"] * 50}) == 0.02
    assert measure_chance("leval_judgement", {}) == 0.5
    assert measure_chance("qa_f1", {}) is None
