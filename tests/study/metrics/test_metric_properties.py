"""What holds for every metric: the range, what a right output scores, what does not matter, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.errors import BadInput
from fewer.study.metrics import METRICS, score

META: dict[str, Any] = {
    "options": ["the first one", "a second", "third"],
    "gold_index": 1,
    "all_classes": ["Date", "Other date", "Food"],
    "babi_task": "qa1",
    "question": "Where is Mary?",
    "wrong_answers": ["Basketball"],
    "fake_answers": ["Apple"],
}
ANSWERS: dict[str, list[str]] = {  # of the form that a metric wants; the others take any text
    "longbench_classification": ["Date"],
    "longbench_retrieval": ["Paragraph 7"],
    "dialogue_retrieval": ["Dialogue 7"],
    "longbench_v2": ["B"],
    "longbench_v2_compensated": ["B"],
    "infinitebench_passkey": ["123"],
    "infinitebench_number_string": ["123"],
    "infinitebench_longdialogue_qa_eng": ["SHELDON"],
    "infinitebench_math_find": ["42"],
    "infinitebench_code_debug": ["load_page", "B"],
    "infinitebench_code_run": ["42"],
    "leval_choice": ["B"],
    "leval_judgement": ["True"],
    "longeval_line": ["41019"],
    "babilong": ["kitchen"],
    "yes_no": ["Yes"],
    "multiple_choice": ["B"],
    "longbench_count": ["12"],
}
SAID = {  # right outputs that are not the answer itself
    "longbench_v2": "The correct answer is (B)",
    "longbench_v2_compensated": "The correct answer is (B)",
    "infinitebench_code_debug": "B. load_page",
    "loogle_exact_match": "{'<mask-0>': 'Holston River bed, 1912'}",
    "loogle_partial_match": "{'<mask-0>': 'Holston River bed, 1912'}",
    "infinitebench_kv_retrieval": "Holston",
}
TEXT = st.text(st.sampled_from("aAbBe the.,\n#/`'\"(){}[]<>:-0123éÜ漢Dateyesno "), max_size=50) | st.text(max_size=30)
EVERY = pytest.mark.parametrize("metric", sorted(METRICS))
NORMALISED = ["qa_f1", "squad_f1", "squad_exact_match", "best_subspan_em", "leval_f1", "ramdocs", "yes_no"]


def right_answers(metric: str) -> list[str]:
    return ANSWERS.get(metric, ["Holston" if metric == "infinitebench_kv_retrieval" else "Holston River bed, 1912"])


@EVERY
@given(prediction=TEXT)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_scores_are_within_the_range(metric: str, prediction: str) -> None:
    value = score(metric, prediction, right_answers(metric), META)
    low, high = METRICS[metric].range
    assert isinstance(value, float)
    assert low <= value <= high
    assert value == score(metric, prediction, right_answers(metric), META)


@EVERY
def test_the_right_output_scores_1(metric: str) -> None:
    answers = right_answers(metric)
    assert score(metric, SAID.get(metric, answers[0]), answers, META) == pytest.approx(1, abs=1e-8)


@EVERY
def test_an_empty_output_scores_0(metric: str) -> None:
    wanted = 0.25 if metric == "longbench_v2_compensated" else 0.0
    blanks = ["", "\n\n"] if "code_sim" in metric else ["", "\n\n", " "]  # code_sim compares a line of spaces
    assert {score(metric, text, right_answers(metric), META) for text in blanks} == {wanted}


@pytest.mark.parametrize("metric", sorted(set(METRICS) - set(ANSWERS)))
@given(answer=st.text(min_size=1, max_size=20).filter(lambda text: text.strip()), prediction=TEXT)
@settings(max_examples=8, deadline=None, derandomize=True)
def test_any_answer_is_fine_where_no_form_is_wanted(metric: str, answer: str, prediction: str) -> None:
    assert 0 <= score(metric, prediction, [answer], META) <= 1


ALL_WANTED = {"ruler_string_match_all", "ramdocs", "loogle_exact_match", "loogle_partial_match"}
ONE_FORM = {*ANSWERS, *ALL_WANTED}  # answers of one form, or all of them wanted


@pytest.mark.parametrize("metric", sorted(set(METRICS) - ONE_FORM))
@given(prediction=TEXT, answers=st.lists(TEXT.filter(lambda text: text.strip()), min_size=2, max_size=3))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_the_best_answer_counts_in_any_order(metric: str, prediction: str, answers: list[str]) -> None:
    single = [score(metric, prediction, [answer], META) for answer in answers]
    assert score(metric, prediction, answers, META) == max(single)
    assert score(metric, prediction, answers[::-1], META) == max(single)


@pytest.mark.parametrize("metric", NORMALISED)
@given(prediction=TEXT)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_case_punctuation_and_spaces_do_not_matter(metric: str, prediction: str) -> None:
    changed = "  ".join(("!? " + prediction.lower() + " ...").split(" "))
    answers = right_answers(metric)
    assert score(metric, changed, answers, META) == score(metric, prediction, answers, META)


@given(prediction=TEXT, more=TEXT)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_more_output_never_loses_what_occurs(prediction: str, more: str) -> None:
    answers = ["a1", "the", "3"]
    for metric in ("ruler_string_match_all", "ruler_string_match_part", "kv_value"):
        longer = f"{prediction}\n{more}" if metric == "kv_value" else f"{prediction.strip()}\n{more}"
        assert score(metric, longer, answers, META) >= score(metric, prediction, answers, META)


@pytest.mark.parametrize("metric", ["qa_f1_first_line", "rouge_l_first_line", "longbench_classification"])
@given(prediction=st.text(st.characters(exclude_characters="\n"), min_size=1, max_size=30), rest=TEXT)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_only_the_first_line_counts(metric: str, prediction: str, rest: str) -> None:
    answers = right_answers(metric)
    long = score(metric, f"\n\n{prediction}\n{rest}", answers, META)
    assert long == score(metric, prediction, answers, META)


@given(prediction=TEXT, reference=TEXT.filter(lambda text: text.strip()))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_f_scores_are_symmetric(prediction: str, reference: str) -> None:
    if not prediction.strip():
        return
    for metric in ("qa_f1", "squad_f1", "leval_rouge_1", "leval_rouge_2", "leval_rouge_l"):
        there, back = score(metric, prediction, [reference], META), score(metric, reference, [prediction], META)
        assert there == pytest.approx(back, abs=1e-12)


@EVERY
@pytest.mark.parametrize("answers", [[], (), "text", [1], None])
def test_no_answers_are_refused(metric: str, answers: Any) -> None:
    with pytest.raises(BadInput, match=r"answers is .*at least one text"):
        score(metric, "text", answers, META)


@EVERY
def test_blank_answers_are_refused_unless_they_mean_something(metric: str) -> None:
    if METRICS[metric].blank_answers:
        assert score(metric, "", [""], META) == 1.0
    else:
        with pytest.raises(BadInput, match="not blank"):
            score(metric, "text", ["", " "], META)


@EVERY
def test_what_is_needed_from_meta(metric: str) -> None:
    for key in METRICS[metric].needs:
        meta = {name: value for name, value in META.items() if name != key}
        with pytest.raises(BadInput, match=f"meta is .*{key}"):
            score(metric, "text", right_answers(metric), meta)
        with pytest.raises(BadInput, match="meta"):
            score(metric, "text", right_answers(metric), {**META, key: 1.5})
    assert METRICS[metric].name == metric
    assert METRICS[metric].what
    assert METRICS[metric].source


def test_an_unknown_metric_is_refused_with_the_legal_names() -> None:
    with pytest.raises(BadInput, match=r"metric is 'f1'; it must be one of babilong, .*yes_no") as error:
        score("f1", "text", ["text"], {})
    assert all(name in str(error.value) for name in METRICS)


@pytest.mark.parametrize("prediction", [None, b"text", 3])
def test_an_output_must_be_text(prediction: Any) -> None:
    with pytest.raises(BadInput, match="prediction"):
        score("qa_f1", prediction, ["text"], {})


@pytest.mark.parametrize(
    ("metric", "answers"),
    [
        ("longbench_retrieval", ["7"]),
        ("dialogue_retrieval", ["Paragraph 7"]),
        ("leval_choice", ["E"]),
        ("leval_judgement", ["Yes"]),
        ("yes_no", ["maybe"]),
        ("infinitebench_code_debug", ["B"]),
        ("infinitebench_code_run", ["1.5"]),
        ("infinitebench_math_find", ["1.x"]),
    ],
)
def test_answers_of_the_wrong_form_are_refused(metric: str, answers: list[str]) -> None:
    with pytest.raises(BadInput, match="answers"):
        score(metric, "text", answers, META)
