"""The last section: what the numbers are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fewer.report.block import Paragraph, Section
from fewer.report.estimates import LEVEL, Estimates
from fewer.report.number import write_count
from fewer.study.stats import multiplicity_note

__all__ = ["say_what_not"]


def say_what_not(runs: Sequence[Estimates], differences: int) -> Section:
    """The section. `differences` are the intervals of differences on the whole page."""
    texts = [
        *_of_machines(runs),
        "Intervals are over clusters of items: what would change with other items of the same kind. They are not over "
        "tasks, models, prompts' wordings or machines, and nothing here speaks of a task that was not run.",
        _of_many(runs, differences),
        "A score is what its metric says: exact match and F1 punish a right answer in other words, and reward a wrong "
        "one that shares words. Agreement with the full run is closeness, not quality.",
        "A difference that is not seen is not shown to be absent: read the interval's ends, not whether it holds 0.",
        "Kept and computed shares, bytes and token-layers are exact counts. Seconds are measured, on a machine "
        "that may have done other things as well; take the ratio, and only of answers that ran alone.",
        "Nothing in a score says that what was left out was not needed. No certificate is given here for any token.",
        *_of_certificates(runs),
    ]
    return Section("not", "What these numbers are not", tuple(Paragraph(text) for text in texts))


def _of_certificates(runs: Sequence[Estimates]) -> list[str]:
    if not any(np.isfinite(estimates.log.numbers("certificate")).any() for estimates in runs):
        return []
    return [
        "Certificates here are estimates from the sampling design, of attention outputs and not of answers: their "
        "coverage is measured elsewhere, in replays with the evicted rows at hand, and a small one does not say that "
        "an answer is right."
    ]


def _of_machines(runs: Sequence[Estimates]) -> list[str]:
    texts = []
    for estimates in runs:
        log = estimates.log
        environment = log.run.header.get("environment") or {}
        model = environment.get("model") or log.study.model.path or "the embedded model"
        device, dtype = environment.get("device", "one device"), environment.get("dtype", "one dtype")
        text = (
            f"One machine and one model: {model} on {device} in {dtype}, {write_count(log.num_items, 'item')} of "
            f"{write_count(len(log.tasks), 'task')}. Larger models lose other things when tokens are left out, and "
            "faster machines gain other times."
        )
        texts.append(text)
    return list(dict.fromkeys(texts))


def _of_many(runs: Sequence[Estimates], differences: int) -> str:
    kinds = {(estimates.log.run.header.get("registration") or {}).get("kind", "none") for estimates in runs}
    fixed = "the registered claims are what was asked" if kinds == {"registered"} else "take it as a question"
    note = f" Of differences alone: {multiplicity_note(differences, level=LEVEL)}" if differences else ""
    return (
        f"Each interval is for one number at a time.{note} Reading the page for whatever stands out finds something by "
        f"chance; {fixed}."
    )
