"""When an answer over a compressed cache is computed again, with what, and what the receipt says about it.

The second run is a request of its own: it reads `session.ids` and the question from the beginning into another cache,
which is freed afterwards; the session's is not touched. With a larger budget that cache is compressed once everything
has been read (or as `block` and `every` say), so the question is known to the score this time, and rows are drawn with
a seed of their own. Not covered: choosing between the two answers (the second is given), and a third.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any, Literal

from fewer.decide import CalibratedGate, Gate, GateDecision
from fewer.engine import Answer, Engine, Request
from fewer.engine.keeper import Keeper
from fewer.engine.sequence import Sequence as Running
from fewer.errors import BadInput, bad
from fewer.evict import Policy
from fewer.kv import State
from fewer.receipt import AnswerRecord, GateRecord, Receipt
from fewer.session.asking import whole_prompt
from fewer.types import Keep, Sampling

__all__ = ["Recompute", "Rule", "as_recompute"]

Rule = Literal["never", "always"] | Gate | CalibratedGate

_HEADROOM = 256  # key and value rows reserved behind a prompt, at most


@dataclass(frozen=True)
class Recompute:
    """gate: None is always. budget: of the second run; None is the full cache."""

    gate: Gate | CalibratedGate | None
    budget: Keep | None

    def decide(self, first: Answer, evicted: bool) -> GateDecision:
        """About the first answer. Where nothing has left the cache no gate is asked."""
        if not evicted:
            return GateDecision(False, None, None, "nothing has left the cache, so this is the full cache's answer")
        if self.gate is None:
            return GateDecision(True, None, None, "every answer is computed again")
        return self.gate.decide(None if first.evidence is None else self.gate.signal(first.evidence))

    def begin(
        self, engine: Engine, policy: Policy | None, ids: tuple[int, ...], num_asked: int, sampling: Sampling, seed: int
    ) -> Running:
        """The second run, not in a queue yet. ids: of the session and the question; seed: of the session."""
        prompt, batch = whole_prompt(ids, 0, num_asked), engine._batch()
        if self.budget is None or policy is None:
            return batch.make(Request(prompt, sampling))
        larger = replace(policy, budget=replace(policy.budget, keep=self.budget))
        larger.check(len(prompt))
        digest = hashlib.blake2b(f"{seed} {len(prompt)} again".encode(), digest_size=7).digest()
        state = State.new(engine.adapter.num_layers, min(sampling.max_tokens, _HEADROOM))
        keeper = Keeper(larger, prompt, int.from_bytes(digest))
        keeper.open(state)
        return batch.make(Request(prompt, sampling, evict=larger), state=state, keeper=keeper)

    def give(
        self, decision: GateDecision, first: Answer, again: Answer | None, kept: tuple[int, float] = (0, 0.0)
    ) -> Answer:
        """The answer that is given, with the other one and the decision. kept: token-layers and seconds."""
        record = GateRecord(
            rule=self._rule,
            signal=None if self.gate is None else self.gate.signal.name,
            value=decision.value,
            threshold=decision.threshold,
            level=self._level,
            fired=again is not None,
            reason=decision.reason,
            escalate="full" if self.budget is None else str(self.budget),
            first=_record(first),
            again=None if again is None else _record(again),
            num_agreeing=None if again is None else _count_agreeing(first.ids, again.ids),
            kept_token_layers=kept[0],
            kept_s=kept[1],
        )
        given = first if again is None else replace(again, first=first)
        fields: dict[str, Any] = {name: getattr(given.receipt, name) for name in Receipt.model_fields}
        return replace(given, receipt=Receipt(**{**fields, "gate": record}))

    @property
    def _rule(self) -> Literal["always", "threshold", "rate", "calibrated"]:
        if self.gate is None:
            return "always"
        if isinstance(self.gate, CalibratedGate):
            return "calibrated"
        return "threshold" if self.gate.rate is None else "rate"

    @property
    def _level(self) -> float | None:
        if isinstance(self.gate, CalibratedGate):
            return self.gate.found.alpha
        return None if self.gate is None else self.gate.rate


def as_recompute(
    recompute: object, escalate: object, engine: Engine, policy: Policy | None, num_tokens: int
) -> Recompute | None:
    """From what a caller passed, for a session with so many tokens; None for never. Raises BadInput."""
    if isinstance(recompute, str) and recompute == "never":
        if escalate is not None:
            way_out = 'Pass recompute="always" or a Gate, or leave escalate out.'
            raise bad("escalate", escalate, "left out where nothing is recomputed", way_out)
        return None
    always = isinstance(recompute, str) and recompute == "always"
    if not always and not isinstance(recompute, (Gate, CalibratedGate)):
        raise bad(
            "recompute", recompute, "'never', 'always' or a Gate", 'Write for example Gate("certificate", rate=0.25).'
        )
    budget = _as_budget(escalate, policy, num_tokens)
    if isinstance(recompute, CalibratedGate):
        if budget is not None:
            way_out = (
                "Its claim is about the full cache; Gate(signal, threshold=...) takes a budget, and claims nothing."
            )
            raise bad("escalate", escalate, "'full' with a calibrated gate", way_out)
        recompute.check(engine.adapter.facts, {} if policy is None else policy.describe())
    return Recompute(recompute if isinstance(recompute, (Gate, CalibratedGate)) else None, budget)


def _as_budget(escalate: object, policy: Policy | None, num_tokens: int) -> Keep | None:
    if escalate is None or (isinstance(escalate, str) and escalate == "full"):
        return None
    if policy is None:
        raise bad("escalate", escalate, "'full' in a session without a policy", "Leave it out.")
    try:
        budget = Keep.parse(escalate)  # type: ignore[arg-type]
    except BadInput as error:
        raise error.renamed("escalate") from None
    mine, larger = (keep.tokens or keep.count(num_tokens) for keep in (policy.budget.keep, budget))
    if larger <= mine:
        legal = f"'full', or above the session's budget, {policy.budget.keep} ({mine} rows of {num_tokens} tokens)"
        raise bad("escalate", f"{budget} ({larger} rows)", legal, "Pass a larger budget, or leave it out for full.")
    return budget


def _record(answer: Answer) -> AnswerRecord:
    receipt = answer.receipt
    return AnswerRecord(
        num_tokens=receipt.output.num_tokens,
        finish_reason=receipt.output.finish_reason,  # type: ignore[arg-type]
        token_layers_computed=receipt.computed.token_layers_computed,
        kv_used_bytes=sum(receipt.memory.kv_used_bytes_per_layer),
        total_s=receipt.seconds.total_s,
    )


def _count_agreeing(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Tokens before the first that differs."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))
