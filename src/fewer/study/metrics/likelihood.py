"""Multiple choice by likelihood: the option whose text the model finds likeliest after the prompt.

The two rules of common evaluation harnesses: by the sum of an option's log-probabilities, which favours short options,
and by that sum over the option's length. Neither is calibrated; options that share words with the prompt gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fewer.errors import bad

__all__ = ["LikelihoodScore", "score_likelihood"]


class LikelihoodScore(NamedTuple):
    """Which option each rule chooses, and 1 or 0 for whether it is the right one."""

    chosen: int
    accuracy: float
    chosen_by_length: int
    length_normalised_accuracy: float


def score_likelihood(logprobs: Sequence[float], lengths: Sequence[int], gold_index: int) -> LikelihoodScore:
    """The options' summed log-probabilities (nats) and lengths, in the same order; of equals the first is chosen.

    lengths: in characters, as most harnesses do, or in tokens, bytes; at least 1. Chance is one over the number of
    options. Raises BadInput for fewer than two options, lists that differ in length, and NaN or positive sums.
    """
    way_out = "Pass one sum and one length for each option, in the same order."
    if len(logprobs) < 2 or any(math.isnan(value) or value > 0 for value in logprobs):
        raise bad("logprobs", list(logprobs), "at least two sums of log-probabilities, none above 0", way_out)
    if len(lengths) != len(logprobs) or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in lengths):
        raise bad("lengths", list(lengths), f"{len(logprobs)} whole numbers of at least 1", way_out)
    if isinstance(gold_index, bool) or not isinstance(gold_index, int) or not 0 <= gold_index < len(logprobs):
        raise bad("gold_index", gold_index, f"a whole number from 0 to {len(logprobs) - 1}", way_out)
    means = [total / length for total, length in zip(logprobs, lengths, strict=True)]
    chosen, by_length = (values.index(max(values)) for values in (list(logprobs), means))
    return LikelihoodScore(chosen, float(chosen == gold_index), by_length, float(by_length == gold_index))
