"""LooGLE's automatic scores (Li et al. 2024): BLEU, ROUGE recall, and matching the entities of a cloze.

As in its script, an empty output is scored as the text "None". LooGLE has one reference; of several the best counts.
Not covered: METEOR (needs WordNet), BERTScore (needs a model) and the GPT-4 judge; they need downloads.
"""

from __future__ import annotations

import ast
import warnings

from fewer.errors import bad
from fewer.study.metrics.bleu import measure_bleu
from fewer.study.metrics.fields import Answers, Meta, read_texts
from fewer.study.metrics.normal import score_best
from fewer.study.metrics.rouge import measure_lcs_overlap, measure_ngram_overlap

__all__ = [
    "score_bleu_1",
    "score_bleu_4",
    "score_exact_match",
    "score_partial_match",
    "score_rouge_1_recall",
    "score_rouge_2_recall",
    "score_rouge_l_recall",
]


def score_bleu_1(prediction: str, answers: Answers, meta: Meta) -> float:
    """BLEU of single words; words are what whitespace separates, as written."""
    return score_best(lambda ours, gold: measure_bleu(ours.split(), gold.split(), 1), prediction or "None", answers)


def score_bleu_4(prediction: str, answers: Answers, meta: Meta) -> float:
    """BLEU of runs of four words only, not the usual mean of the orders 1 to 4; LooGLE's "BLEU4"."""
    return score_best(lambda ours, gold: measure_bleu(ours.split(), gold.split(), 4), prediction or "None", answers)


def score_rouge_1_recall(prediction: str, answers: Answers, meta: Meta) -> float:
    """Share of the reference's different words that the output has. It rises with the output's length."""
    return score_best(lambda ours, gold: _recall_ngrams(ours, gold, 1), prediction or "None", answers)


def score_rouge_2_recall(prediction: str, answers: Answers, meta: Meta) -> float:
    """Share of the reference's different pairs of neighbouring words that the output has."""
    return score_best(lambda ours, gold: _recall_ngrams(ours, gold, 2), prediction or "None", answers)


def score_rouge_l_recall(prediction: str, answers: Answers, meta: Meta) -> float:
    """Share of the reference's different words on its sentences' common subsequences with the output's."""

    def pair(prediction: str, reference: str) -> float:
        overlap = measure_lcs_overlap(prediction, reference)
        return overlap.recall if overlap else 0.0

    return score_best(pair, prediction or "None", answers)


def score_exact_match(prediction: str, answers: Answers, meta: Meta) -> float:
    """Cloze: share of the masks whose entity is given exactly. `answers` are the entities, one a mask, in order.

    The output is a Python dict from mask to entity; it is read as a literal, never run (the original evaluates it).
    `meta["masks"]` names the masks; without it they are <mask-0>, <mask-1> and so on. LooGLE's own figure counts masks
    over all questions; a mean of these shares weighs every question alike.
    """
    given = _read_cloze(prediction)
    return sum(given.get(mask) == entity for mask, entity in _pair_masks(answers, meta)) / len(answers)


def score_partial_match(prediction: str, answers: Answers, meta: Meta) -> float:
    """Cloze: share of the masks whose given entity shares a word with the right one."""
    given = _read_cloze(prediction)
    shared = (
        isinstance(text := given.get(mask), str) and not set(text.split()).isdisjoint(entity.split())
        for mask, entity in _pair_masks(answers, meta)
    )
    return sum(shared) / len(answers)


def _recall_ngrams(prediction: str, reference: str, n: int) -> float:
    overlap = measure_ngram_overlap(prediction, reference, n)
    return overlap.recall if overlap else 0.0


def _pair_masks(answers: Answers, meta: Meta) -> list[tuple[str, str]]:
    masks = read_texts(meta, "masks") if "masks" in meta else [f"<mask-{place}>" for place in range(len(answers))]
    if len(masks) != len(answers) or len(set(masks)) != len(masks):
        raise bad("meta['masks']", masks, f"{len(answers)} different names, one an answer", "Correct the row.")
    return list(zip(masks, answers, strict=True))


def _read_cloze(prediction: str) -> dict[object, object]:
    """The dict that the output is, as a literal; {} where it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about backslashes in the model's text
            value = ast.literal_eval(prediction)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
