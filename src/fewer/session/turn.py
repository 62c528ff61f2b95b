"""One question to a session: answered over the compressed cache, perhaps once more, and what of it stays.

`work` does all of it and gives the text away as it is written, so asking and streaming are the same. Whatever ends it
early leaves the session as it was.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from fewer.engine import Answer, Request
from fewer.engine.keeper import Keeper
from fewer.engine.sequence import Sequence as Running
from fewer.errors import bad
from fewer.session.asking import as_sampling, check_room, whole_prompt
from fewer.session.recompute import as_recompute

if TYPE_CHECKING:
    from fewer.decide import GateDecision
    from fewer.session.mark import Mark
    from fewer.session.session import Session

__all__ = ["Piece", "Turn"]

Run = Literal["first", "again"]


class Piece(str):
    """Some text of an answer, as a str. run: "first" for the run over the compressed cache, "again" for the second."""

    run: Run

    def __new__(cls, text: str, run: Run) -> Piece:
        """The text with its run."""
        piece = super().__new__(cls, text)
        piece.run = run
        return piece


class Turn:
    """Laid out and checked when it is made.

    answer: there when `work` has ended, was closed or interrupted; not after an error. ended: whether the session is
    free for something else.
    """

    def __init__(
        self,
        session: Session,
        question: str | Sequence[int] | Tensor,
        keep: bool,
        evidence: bool,
        recompute: object,
        escalate: object,
        sampling: Mapping[str, Any],
    ) -> None:
        session._check_sound()
        begin = time.perf_counter()
        if not isinstance(keep, bool):
            raise bad("keep", keep, "True or False", "Leave it out to keep question and answer in the session.")
        if not isinstance(evidence, bool):
            raise bad("evidence", evidence, "True or False", "Leave it out where no signal is wanted.")
        engine = session.engine
        self._session, self._keep = session, keep
        self._sampling = as_sampling(sampling, session.seed)
        self._transcript = session._transcript.copy()
        self._new = self._transcript.add_question(engine.tokenizer, question)
        self._ids = (*session.ids, *self._new)
        check_room(len(session.ids), len(self._new) + self._sampling.max_tokens, engine.adapter.max_positions)
        self._rule = as_recompute(recompute, escalate, engine, session.policy, len(self._ids))
        prompt = whole_prompt(self._ids, session.num_seen, len(self._new))
        watched = evidence or (self._rule is not None and self._rule.gate is not None)
        spent = time.perf_counter() - begin
        self._sequence = session._sequence(Request(prompt, self._sampling, None, spent, session.policy, watched))
        self.answer: Answer | None = None
        self.ended = False

    @property
    def undecided(self) -> bool:
        """Whether the text of the first run may turn out not to be the answer."""
        policy = self._session.policy
        later = policy is not None and (policy.every is not None or policy.block is not None)
        return self._rule is not None and (bool(self._session.evictions) or later)

    def finish(self) -> Answer:
        """Do all of it. Until it has ended the session does nothing else, for a signal that asks it either."""
        self._session._turn = weakref.ref(self)
        for _ in self.work():
            pass
        assert self.answer is not None
        return self.answer

    def cancel(self) -> None:
        """Before `work` has begun: give up."""
        self._sequence.finish_reason, self._sequence.ended = "cancelled", time.perf_counter()
        self.answer, self.ended = self._session.engine._answer(self._sequence), True

    def work(self) -> Generator[Piece, None, None]:
        """Closing it early cancels the run; then `answer` says so, and the session is as it was."""
        session = self._session
        try:
            mark = session._here(len(self._ids) + self._sampling.max_tokens)
            try:
                yield from self._work(mark)
            except BaseException:
                session._return(mark)
                raise
        finally:
            self.ended = True

    def _work(self, mark: Mark) -> Generator[Piece, None, None]:
        """Everything that can fail, and then, in one go, what stays of it."""
        session, sequence = self._session, self._sequence
        keeper = sequence.keeper
        sequence.started = time.perf_counter()
        if keeper is not None:
            session._make_room(keeper)
            sequence.evict_told_s = keeper.seconds  # no part of the prefill
        answer = first = yield from self._write(sequence, "first")
        if self._rule is not None:
            decision = self._rule.decide(first, keeper is not None and bool(keeper.evictions))
            again = (yield from self._again(decision, first)) if decision.fires else None
            kept = (0, 0.0)
            if self._keep and again is not None and again.ids != first.ids:
                session._return(mark)
                keeper, kept = self._read(again)
            answer = self._rule.give(decision, first, again, kept)
        if self._keep:
            self._transcript.add_answer(session.engine.tokenizer, answer.ids, session.engine.end_tokens)
            ids = (*self._ids, *answer.ids)
        else:
            session._return(mark)
        if sequence.keeper is not None:
            session.question_certificates = tuple(sequence.keeper.read)
            session.answer_certificates = tuple(sequence.keeper.certificates)
        if self._keep:
            session._ids, session._transcript, session._keeper, session._mark = ids, self._transcript, keeper, mark
        self.answer = answer

    def _again(self, decision: GateDecision, first: Answer) -> Generator[Piece, None, Answer]:
        """The second run."""
        session = self._session
        assert self._rule is not None
        second = self._rule.begin(
            session.engine, session.policy, self._ids, len(self._new), self._sampling, session.seed
        )
        try:
            return (yield from self._write(second, "again"))
        except (GeneratorExit, KeyboardInterrupt):
            if self.answer is not None:
                self.answer = self._rule.give(decision, first, self.answer)
            raise
        finally:
            second.state.clear()

    def _write(self, sequence: Running, run: Run) -> Generator[Piece, None, Answer]:
        """Run it alone. Closed or interrupted, `answer` is what there is by then."""
        engine = self._session.engine
        batch, given = engine._batch(), 0
        batch.waiting.append(sequence)
        try:
            while not batch.idle:
                batch.step()
                text = sequence.text.text
                if len(text) > given:
                    yield Piece(text[given:], run)
                    given = len(text)
        except (GeneratorExit, KeyboardInterrupt):
            batch.cancel(sequence)
            sequence.finish_reason = "cancelled"  # also where the last token was there: nothing of it stays
            self.answer = engine._answer(sequence)
            raise
        if sequence.error is not None:
            raise sequence.error
        return engine._answer(sequence)

    def _read(self, answer: Answer) -> tuple[Keeper | None, tuple[int, float]]:
        """The question and an answer from elsewhere into the compressed cache, but for its last token."""
        session = self._session
        begin, before = time.perf_counter(), session.num_seen
        keeper = session._read([*self._new, *answer.ids[:-1]])
        every = None if keeper is None else keeper.policy.every
        if keeper is not None and every is not None and session.num_seen - keeper.last >= every:
            keeper.compress(session._state)
        read = (session.num_seen - before) * session.engine.adapter.num_layers
        return keeper, (read, time.perf_counter() - begin)
