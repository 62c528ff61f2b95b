"""What papers have published, in their own settings, to be shown beside ours and never mixed with it.

Values are as the papers print them, on their scale. A value whose arm is not yet one of ours waits here until it is.
Not covered: values that are not printed as numbers, and every model or table of the papers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["PUBLISHED", "Published", "find_published"]

LAZYLLM = "Fu et al. 2024, LazyLLM (arXiv 2407.14057)"
CERTIFICATES = "Xie 2026, Error Certificates for KV-Cache Eviction via Randomized Design"
MULTI, SINGLE = ("multi_doc_qa", "multi_hop"), ("single_doc_qa",)


@dataclass(frozen=True, slots=True)
class Published:
    """One published number. `arm` is what our arms call it (`prune` or `evict`); `beside` is the paper's full run."""

    paper: str
    table: str
    model: str
    benchmark: str
    what: str
    categories: tuple[str, ...]
    arm: str
    value: float
    beside: float | None = None
    speedup: float | None = None
    top: float | None = 100.0
    """The largest score on the paper's scale; None where the value is no score."""
    setting: str = ""


def _lazyllm(
    what: str, categories: tuple[str, ...], arm: str, value: float, beside: float | None, speedup: float, setting: str
) -> Published:
    model, benchmark = "Llama 2 7B", "LongBench"
    return Published(
        LAZYLLM, "Table 1", model, benchmark, what, categories, arm, value, beside, speedup, 100.0, setting
    )


_STATIC = "prunes once by the attention of an early part of the layers; its layer and share are not printed"
_RANDOM = "drops tokens before the model reads them, mean of 5 runs; its share is not printed"
_LAZY = "prunes in several layers, afresh at every step, and brings tokens back; its schedule is not printed"
_COMPRESS = "a language model compresses the prompt first; its time counts"


def _certificate(what: str, value: float, setting: str) -> Published:
    model = "Qwen2.5-1.5B" if "cells" in setting else "four models of 1.5B to 8B"
    benchmark = "replayed prefills" if "cells" in setting else "LongBench"
    return Published(CERTIFICATES, "text", model, benchmark, what, (), "evict", value, None, None, None, setting)


PUBLISHED: tuple[Published, ...] = (
    _lazyllm("multi-document QA", MULTI, "static", 19.93, 22.43, 2.16, _STATIC),
    _lazyllm("multi-document QA", MULTI, "random", 16.77, 22.43, 1.19, _RANDOM),
    _lazyllm("multi-document QA", MULTI, "lazyllm", 22.31, 22.43, 2.34, _LAZY),
    _lazyllm("multi-document QA", MULTI, "compress", 8.42, 22.43, 0.13, _COMPRESS),
    _lazyllm("few-shot", ("few_shot",), "lazyllm", 62.81, 62.90, 2.19, _LAZY),
    _lazyllm("synthetic", ("synthetic",), "lazyllm", 4.98, 4.97, 2.89, _LAZY),
    _lazyllm("single-document QA", SINGLE, "lazyllm", 25.59, None, 1.36, _LAZY),
    _lazyllm("summarisation", ("summarisation",), "lazyllm", 24.75, 24.65, 1.46, _LAZY),
    _lazyllm("code", ("code",), "lazyllm", 53.30, 55.18, 1.94, _LAZY),
    _certificate("share of cells that the certificate covers, budget 12.5%", 0.969, "12,096 cells, delta 0.1"),
    _certificate("share of cells that the certificate covers, budget 25%", 0.972, "12,096 cells, delta 0.1"),
    _certificate("share of cells that the certificate covers, budget 50%", 0.977, "12,096 cells, delta 0.1"),
    _certificate("Spearman of certificate and error, budget 12.5%", 0.943, "12,096 cells"),
    _certificate("Spearman of certificate and error, budget 25%", 0.965, "12,096 cells"),
    _certificate("Spearman of certificate and error, budget 50%", 0.979, "12,096 cells"),
    _certificate("median relative error at 25%, Poisson with Hajek", 0.0317, "12,096 cells"),
    _certificate("median relative error at 25%, top-k", 0.0447, "12,096 cells"),
    _certificate("median relative error at 25%, uniform", 0.2386, "12,096 cells"),
    _certificate("median certificate at 25%", 0.0997, "12,096 cells"),
    _certificate("AUC of attribution by the certificate, prompts of 6k", 0.749, "failures of LongBench, 6k"),
    _certificate("AUC of attribution by the certificate, prompts of 16k", 0.727, "failures of LongBench, 16k"),
    _certificate("AUC of attribution by log-probability, prompts of 6k", 0.542, "failures of LongBench, 6k"),
    _certificate("AUC of attribution by log-probability, prompts of 16k", 0.469, "failures of LongBench, 16k"),
    _certificate("AUC of failure prediction by the certificate, prompts of 6k", 0.555, "LongBench, 6k"),
    _certificate("AUC of failure prediction by the certificate, prompts of 16k", 0.572, "LongBench, 16k"),
    _certificate("score of gated recomputation, 25% re-run, budget 12.5%", 0.33, "LongBench, 16k"),
    _certificate("score of random recomputation, 25% re-run, budget 12.5%", 0.29, "LongBench, 16k"),
)


def find_published(arm: str, category: str, among: Sequence[Published] = PUBLISHED) -> list[Published]:
    """The scores published for an arm of this name on a category of this name."""
    return [entry for entry in among if entry.arm == arm and category in entry.categories and entry.top is not None]
