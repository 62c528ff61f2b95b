"""A conversation whose context is read once, compressed once, and asked many times.

Positions go on from turn to turn. What was read stays in the cache until `compress` takes some of it away; from then on
every question reads what was left, and was not there when that was chosen. The original token ids stay, so the exact
answer can always be computed again. Not covered: pruning, use of one session from several threads.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from fewer.certify import StepCertificate
from fewer.engine import Answer, Engine, Request
from fewer.engine.keeper import Keeper
from fewer.engine.sequence import Sequence as Running
from fewer.engine.sequence import read_parts
from fewer.errors import bad
from fewer.evict import Eviction, Policy
from fewer.kv import State
from fewer.session.asking import check_room, check_settings, whole_prompt
from fewer.session.mark import Mark
from fewer.session.recompute import Rule
from fewer.session.saved import Saved, read_session, write_session
from fewer.session.stream import SessionStream, Show
from fewer.session.transcript import Message, Transcript
from fewer.session.turn import Turn
from fewer.types import Keep, Sampling

__all__ = ["Session"]

_HEADROOM = 64  # key and value rows reserved behind those in use


class Session:
    """One conversation with one engine.

    policy: how `compress` evicts; None for a session that is never compressed. The policy's `every` compresses by
    itself while answers are written, its `block` while text is read, after so many rows each. seed: of the draws, and
    of sampling unless `ask` is given another one. chat: whether to follow the model's chat template.

    Memory: right after a compression the cache holds the policy's budget. In between it grows by what is appended,
    asked and answered, which `block` and `every` keep below so many rows. A budget that is a share is a share of all
    tokens seen, so it grows with the session; a count does not. `rollback` may hold one more copy of the cache.

    Raises BadInput for a policy whose moment is "context": a session is compressed when `compress` is called.
    """

    def __init__(self, engine: Engine, policy: Policy | None = None, *, seed: int = 0, chat: bool = True) -> None:
        check_settings(engine, policy, seed, chat)
        self.engine, self.policy, self.seed = engine, policy, seed
        self.question_certificates: tuple[StepCertificate, ...] = ()
        self.answer_certificates: tuple[StepCertificate, ...] = ()
        self._ids: tuple[int, ...] = ()
        self._transcript = Transcript(chat and engine.tokenizer.chat_template is not None)
        self._state = State.new(engine.adapter.num_layers, _HEADROOM)
        self._keeper: Keeper | None = None
        self._mark: Mark | None = None  # before the last append or ask
        self._turn: weakref.ref[Turn] | None = None  # what was streamed last
        self._broken = False  # a compression was interrupted half-way

    @property
    def ids(self) -> tuple[int, ...]:
        """Every token of the session, also those whose keys and values have left the cache."""
        return self._ids

    @property
    def num_seen(self) -> int:
        """Tokens that went through the model; the last one of an answer goes with what follows it."""
        return self._state.num_seen

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values, free rows included, without what `rollback` holds."""
        return self._state.nbytes

    @property
    def evictions(self) -> tuple[Eviction, ...]:
        """Every compression that took something away, in order."""
        return () if self._keeper is None else tuple(self._keeper.evictions)

    def append(self, what: str | Sequence[Message] | Sequence[int] | Tensor) -> int:
        """Read more of the context; returns how many tokens went in. One that fails changes nothing.

        A text is more of the user's turn (a blank line between two of them), which the next question ends. Messages,
        {"role": ..., "content": ...}, are turns of their own. Token ids go in as they are. Control tokens in texts stay
        plain text. No certificates are computed for what is appended. Raises BadInput, PromptTooLong, ModelError.
        """
        self._check_sound()
        transcript = self._transcript.copy()
        new = transcript.add(self.engine.tokenizer, what)
        check_room(len(self._ids), len(new), self.engine.adapter.max_positions)
        mark = self._here(len(self._ids) + len(new))
        try:
            keeper = self._read(new)
        except BaseException:
            self._return(mark)
            raise
        self._ids, self._transcript, self._keeper, self._mark = (*self._ids, *new), transcript, keeper, mark
        return len(new)

    def compress(self) -> Eviction | None:
        """Bring the cache down to the policy's budget; what leaves is gone for every later question.

        None where nothing was read since the last time. Raises BadInput without a policy, before anything was read, and
        where the budget cannot hold what always stays.
        """
        self._check_sound()
        if self.policy is None:
            way_out = 'Make the session with a policy, such as make_policy("systematic:snapkv", budget=512).'
            raise bad("policy", None, "a Policy where a session is compressed", way_out)
        if self._keeper is None:
            raise bad("the session's tokens", 0, "at least 1 where it is compressed", "Append something first.")
        if self._keeper.last == self.num_seen:
            return None
        self.policy.check(self.num_seen)
        if self._mark is not None:
            self._mark = self._mark.copy_rows(self._state)
        keeper = self._keeper.go_on(whole_prompt(self._ids, self.num_seen))
        before = [(kv.buffer, kv.gathered) for kv in self._state.layers]
        try:
            eviction = keeper.compress(self._state)
        except BaseException:
            self._broken = any(
                kv.buffer is not buffer or not _same(kv.gathered, gathered)
                for kv, (buffer, gathered) in zip(self._state.layers, before, strict=True)
            )
            raise
        self._keeper = keeper
        return eviction

    def ask(
        self,
        question: str | Sequence[int] | Tensor,
        *,
        keep: bool = True,
        evidence: bool = False,
        recompute: Rule = "never",
        escalate: int | float | str | Keep | None = None,
        **sampling: Any,
    ) -> Answer:
        """Answer a question over what the cache holds. One that fails changes nothing.

        keep=True is a conversation: question and answer stay in the session. keep=False is one of many questions over
        the same context: the session is afterwards as it was. A question as token ids goes in as it is, without the
        template. evidence: as of a Request. Keywords: those of `Sampling`, such as max_tokens, temperature, logprobs.

        recompute: "always", or a Gate that looks at each answer: where it fires, the answer is computed again from
        `ids`, with the full cache or with `escalate`, a budget above the policy's. That answer is returned, and kept;
        the other one is its `first`, and the receipt's `gate` says why. Seconds and memory of the second run come on
        top. Where nothing has left the cache there is nothing to recompute, and no gate is asked.

        Afterwards `question_certificates` and `answer_certificates` hold a StepCertificate of every pass over the
        question, [L, heads, rows of the pass], and of every step of the answer, [L, heads, 1], of the run over the
        compressed cache; both are empty where it was not compressed or the policy has no certificate. On the receipt
        the earlier tokens are a chunk that was not computed: docs/sessions.md. Raises BadInput, TypeError for unknown
        keywords, PromptTooLong, ModelError.
        """
        return Turn(self, question, keep, evidence, recompute, escalate, sampling).finish()

    def stream(
        self,
        question: str | Sequence[int] | Tensor,
        *,
        show: Show = "final",
        keep: bool = True,
        evidence: bool = False,
        recompute: Rule = "never",
        escalate: int | float | str | Keep | None = None,
        **sampling: Any,
    ) -> SessionStream:
        """The same piece by piece. show: "final" holds an answer back until it is the final one; "both" does not."""
        turn = Turn(self, question, keep, evidence, recompute, escalate, sampling)
        stream = SessionStream(turn, show)
        self._turn = weakref.ref(turn)
        return stream

    def rollback(self) -> None:
        """Go back to before the last `append`, or the last `ask` that was kept; a compression since is undone with it.

        Once: what lies before that is not held. Raises BadInput where there is nothing to go back to, as in a new or a
        loaded session.
        """
        self._check_free()
        if self._mark is None:
            legal = "an append or an ask since the last rollback or load"
            raise bad("rollback", "nothing to go back to", legal, "Fork the session before a step to be undone later.")
        self._return(self._mark)
        self._mark, self._broken = None, False
        if self._keeper is not None:
            self._keeper = self._keeper.go_on(whole_prompt(self._ids, self.num_seen))
            self._keeper.watch(self._state)

    def fork(self) -> Session:
        """An independent copy, of the cache too; both go on from here without seeing each other."""
        self._check_sound()
        other = Session(self.engine, self.policy, seed=self.seed)
        other._ids, other._transcript, other._mark = self._ids, self._transcript.copy(), self._mark
        other._state = self._state.fork()
        if self._keeper is not None:
            other._keeper = self._keeper.go_on(whole_prompt(self._ids, self.num_seen))
            other._keeper.watch(other._state)
        return other

    def save(self, directory: str | PathLike[str]) -> None:
        """Write the session to a directory, whole or not at all: ids, cache, probabilities, and what was evicted.

        An earlier session there is replaced. What `rollback` would need, and certificates, are not written. Takes twice
        the bytes of the cache. Queries that are spread over everything since the last compression are thinned as at
        one, here and in the file alike. Raises BadInput for the path, StorageError for the disk.
        """
        self._check_sound()
        saved = Saved(self.seed, self._ids, self._transcript, self._state, self._keeper, self.policy)
        write_session(saved, self.engine.adapter, directory)

    @classmethod
    def load(cls, directory: str | PathLike[str], engine: Engine, policy: Policy | None = None) -> Session:
        """Read a session back; it answers as it would have before.

        policy: needed only where it has a score or a design of your own; otherwise it is made from the file. Raises
        BadInput where the files are missing, broken, of a newer version, or from another model or policy.
        """
        if not isinstance(engine, Engine):
            raise bad("engine", engine, "an Engine", "Make one with Engine.load().")
        saved = read_session(directory, engine.adapter, policy, _HEADROOM)
        if saved.keeper is not None:
            saved.keeper.repeater = engine._batch().repeater
        session = cls(engine, saved.policy, seed=saved.seed)
        session._ids, session._transcript = saved.ids, saved.transcript
        session._state, session._keeper = saved.state, saved.keeper
        return session

    def _sequence(self, request: Request, unread: int = 0) -> Running:
        """A request that goes on from the session's cache."""
        keeper = None
        if self.policy is not None:
            keeper = self._keeper or Keeper(self.policy, request.prompt, self.seed)
            if self._keeper is None:
                keeper.open(self._state)
            keeper = keeper.go_on(request.prompt, request.evidence)
        return self.engine._batch().make(request, unread=unread, state=self._state, keeper=keeper)

    def _read(self, new: Sequence[int]) -> Keeper | None:
        """Read tokens that come next, with nobody watching; returns who keeps the cache from here on."""
        prompt = whole_prompt([*self._ids, *new], self.num_seen)
        sequence = self._sequence(Request(prompt, Sampling(max_tokens=1, seed=self.seed), evict=self.policy), unread=1)
        keeper = sequence.keeper
        if keeper is not None:
            watching, turns = keeper.witness, keeper.turns
            keeper.witness, keeper.watched = None, False
            self._make_room(keeper)
        read = read_parts(self.engine.adapter, sequence)
        if read.error is not None:
            raise read.error
        if keeper is not None:
            keeper.witness, keeper.watched = watching, True
            if keeper.turns > turns:
                keeper.watch(self._state)
        return keeper

    def _make_room(self, keeper: Keeper) -> None:
        """Compress first where answers have filled what a block may add."""
        block = keeper.policy.block
        if block is not None and self.num_seen - keeper.last >= block:
            keeper.compress(self._state)

    def _here(self, num_tokens: int) -> Mark:
        """This moment, ready for a step up to so many tokens that may compress on its way."""
        mark = Mark.of(self._ids, self._transcript, self._keeper, self._state)
        limits = () if self.policy is None else (self.policy.block, self.policy.every)
        last = 0 if self._keeper is None else self._keeper.last
        if any(limit is not None and num_tokens - last >= limit for limit in limits):
            mark = mark.copy_rows(self._state)
        return mark

    def _return(self, mark: Mark) -> None:
        self._state = mark.restore(self._state)
        self._ids, self._transcript, self._keeper = mark.ids, mark.transcript.copy(), mark.keeper

    def _check_free(self) -> None:
        turn = None if self._turn is None else self._turn()
        if turn is not None and not turn.ended:
            raise bad(
                "session", "in the middle of an answer", "free", "Read the stream's answer, or close() it, first."
            )

    def _check_sound(self) -> None:
        self._check_free()
        if self._broken:
            way_out = "Call rollback(), load a saved session, or append session.ids to a new one."
            raise bad("session", "interrupted while it was compressed", "whole", way_out)


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    return one is other if one is None or other is None else torch.equal(one, other)
