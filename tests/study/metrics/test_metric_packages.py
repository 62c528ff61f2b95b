"""Against the packages that the benchmarks' scripts call, on outputs made from words that often agree."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from nltk.translate.bleu_score import sentence_bleu
from rapidfuzz import fuzz
from rouge import Rouge
from rouge_score.rouge_scorer import RougeScorer

from fewer.study.metrics import score

WORDS = [
    "the",
    "The",
    "bridge",
    "bridge,",
    "cost",
    "$4.5",
    "a",
    "May.",
    "2021",
    "é",
    "橋",
    "Work",
    ".",
    "\n",
    "  ",
    "b#x",
    "`",
]


def draw_pairs(count: int, longest: int, seed: int) -> Iterator[tuple[str, str]]:
    draw = random.Random(seed)
    for _ in range(count):
        output, reference = (" ".join(draw.choices(WORDS, k=draw.randrange(longest))) for _ in range(2))
        yield output, reference if reference.strip() else "the end"


def test_rouge_l_is_the_rouge_packages() -> None:
    package = Rouge()
    for output, reference in draw_pairs(250, 30, seed=1):
        try:
            wanted = package.get_scores([output], [reference], avg=True)["rouge-l"]["f"]
        except ValueError:  # no sentence on one side
            wanted = 0.0
        assert score("rouge_l", output, [reference], {}) == pytest.approx(wanted, abs=1e-15)


def test_loogle_rouge_is_the_rouge_packages_recall() -> None:
    package = Rouge()
    for output, reference in draw_pairs(250, 30, seed=2):
        try:
            wanted = package.get_scores([output or "None"], [reference])[0]
        except ValueError:
            wanted = {f"rouge-{kind}": {"r": 0.0} for kind in "12l"}
        for kind in "12l":
            ours = score(f"loogle_rouge_{kind}", output, [reference], {})
            assert ours == pytest.approx(wanted[f"rouge-{kind}"]["r"], abs=1e-15)


def test_rouge_of_leval_and_infinitebench_is_rouge_scores() -> None:
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL", "rougeLsum"], use_stemmer=False)
    names = {"rouge1": "leval_rouge_1", "rouge2": "leval_rouge_2", "rougeL": "leval_rouge_l"}
    for output, reference in draw_pairs(250, 30, seed=3):
        wanted = scorer.score(reference, output)
        for kind, name in {**names, "rougeLsum": "infinitebench_longbook_sum_eng"}.items():
            assert score(name, output, [reference], {}) == pytest.approx(wanted[kind].fmeasure, abs=1e-15)


@pytest.mark.filterwarnings("ignore::UserWarning")  # about orders without a match
def test_bleu_is_nltks() -> None:
    for output, reference in draw_pairs(250, 14, seed=4):
        ours, gold = (output or "None").split(), reference.split()
        for name, weights in (("loogle_bleu_1", (1, 0, 0, 0)), ("loogle_bleu_4", (0, 0, 0, 1))):
            wanted = sentence_bleu([gold], ours, weights=weights)
            assert score(name, output, [reference], {}) == pytest.approx(wanted, abs=1e-12)


def test_code_sim_is_rapidfuzz_in_whole_percents() -> None:
    for output, reference in draw_pairs(400, 12, seed=5):
        lines = output.lstrip("\n").split("\n")
        line = next((line for line in lines if not any(sign in line for sign in ("#", "`", "//"))), "")
        wanted = fuzz.ratio(line, reference)
        ours = score("longbench_code_sim", output, [reference], {})
        assert ours == round(wanted) / 100
        assert abs(100 * ours - wanted) <= 0.5 + 1e-9


def test_edit_sim_is_rapidfuzz_not_rounded() -> None:
    for output, reference in draw_pairs(400, 12, seed=6):
        line = next((line.rstrip() for line in output.split("\n") if line.strip()), "")
        wanted = fuzz.ratio(line, reference.rstrip()) / 100
        assert score("edit_sim", output, [reference], {}) == pytest.approx(wanted, abs=1e-12)
