"""From a context's token ids to a request: cut to fit, protected where pruning may not touch it, with its own seed."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from fewer.engine import Request
from fewer.errors import PromptTooLong
from fewer.study.lm_eval.arguments import Arguments
from fewer.types import Planner, Prompt, Sampling

__all__ = ["Contexts"]

_log = logging.getLogger("lm_eval.models.fewer")

_GREEDY = Sampling(max_tokens=1)


@dataclass
class Contexts:
    """Makes requests, and counts what the results have to say about them.

    A context is one chunk: free between its first `sinks` tokens and its last one.
    """

    arguments: Arguments
    planner: Planner | None
    requests: int = 0
    truncated: int = 0
    """Requests whose context was cut."""
    truncated_tokens: int = 0
    unpruned: int = 0
    """Requests with pruning whose context is no longer than the budget, or has nothing free."""
    _reported: tuple[int, int] = (0, 0)

    def make(
        self, ids: Sequence[int], room: int, sampling: Sampling = _GREEDY, repeat: int = 0, uses: int = 1
    ) -> Request:
        """A request over the last `room` tokens of a context.

        repeat: how often the same context was sampled from before. uses: continuations to be scored on it. Raises
        PromptTooLong where it has to be cut and may not.
        """
        missing = max(0, len(ids) - room)
        if missing and self.arguments.truncation == "error":
            raise PromptTooLong(
                f"A context has {len(ids)} tokens, and {room} fit beside what follows. "
                "Leave truncation out to cut its beginning, or ask for fewer tokens."
            )
        kept = torch.tensor(ids[missing:], dtype=torch.int64)
        prompt = replace(Prompt.from_ids(kept, sinks=self.arguments.sinks), truncated=missing)
        planner, most = self.planner, self.arguments.most_kept
        if most is not None and most > len(prompt):
            planner = None
        self.requests += uses
        self.truncated += uses * bool(missing)
        self.truncated_tokens += uses * missing
        if self.planner is not None and (planner is None or most == len(prompt) or not prompt.chunks):
            self.unpruned += uses
        seed = _derive_seed(self.arguments.seed, kept, repeat)
        return Request(prompt, replace(sampling, seed=seed), planner)

    def report(self) -> None:
        """Say in the harness's log what was counted since it was last said."""
        truncated, unpruned = self.truncated - self._reported[0], self.unpruned - self._reported[1]
        self._reported = (self.truncated, self.unpruned)
        if truncated:
            _log.warning("%d requests had the beginning of their context cut off", truncated)
        if unpruned:
            _log.warning("%d requests had nothing to prune: their context is within the budget", unpruned)


def _derive_seed(seed: int, ids: torch.Tensor, repeat: int) -> int:
    """A seed of 63 bits that depends on nothing but these."""
    digest = hashlib.sha256(f"{seed} {repeat} ".encode() + ids.numpy().tobytes()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
