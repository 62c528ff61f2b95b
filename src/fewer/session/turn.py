"""One question to a session: answered over the compressed cache, perhaps once more, and what of it stays.

`work` does all of it and gives the text away as it is written, so asking and streaming are the same. Whatever ends it
early leaves the session as it was.
"""

from __future__ import annotations

import time
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
        """Do all of it."""
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
        session, sequence = self._session, self._sequence
        keeper = sequence.keeper
        mark = session._here(len(self._ids) + self._sampling.max_tokens)
        try:
            if keeper is not None:
                session._make_room(keeper)
            first = yield from self._write(sequence, "first")
            evicted = keeper is not None and bool(keeper.evictions)
            decision = None if self._rule is None else self._rule.decide(first, evicted)
            again, kept = None, (0, 0.0)
            if self._rule is not None and decision is not None and decision.fires:
                second = self._rule.begin(
                    session.engine, session.policy, self._ids, len(self._new), self._sampling, session.seed
                )
                try:
                    again = yield from self._write(second, "again")
                except (GeneratorExit, KeyboardInterrupt):
                    assert self.answer is not None
                    self.answer = self._rule.give(decision, first, self.answer)
                    raise
                finally:
                    second.state.clear()
            if not self._keep:
                session._return(mark)
            elif again is not None and again.ids != first.ids:
                session._return(mark)
                keeper, kept = self._read(again)
        except BaseException:
            session._return(mark)
            self.ended = True
            raise
        answer = first
        if self._rule is not None and decision is not None:
            answer = self._rule.give(decision, first, again, kept)
        if sequence.keeper is not None:
            session.question_certificates = tuple(sequence.keeper.read)
            session.answer_certificates = tuple(sequence.keeper.certificates)
        if self._keep:
            self._transcript.add_answer(session.engine.tokenizer, answer.ids, session.engine.end_tokens)
            session._ids, session._transcript = (*self._ids, *answer.ids), self._transcript
            session._keeper, session._mark = keeper, mark
        self.answer, self.ended = answer, True

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
