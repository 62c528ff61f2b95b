"""One chat: its session, what was said last, and how a question is answered while it is written."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewer.cli.ask import UNSEEN
from fewer.cli.chat_marks import Told, draw_mark
from fewer.cli.terminal import Terminal
from fewer.decide.signals import SIGNALS, CertificateSummary
from fewer.receipt.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from fewer.decide import Odds
    from fewer.session import Session
    from fewer.session.recompute import Rule
    from fewer.types import Document

__all__ = ["Room"]


class Room:
    """What a chat is about.

    told: the last answer. compressed_since: whether /compress came after it. stopped: whether Ctrl-C has stopped
    something, until that was taken notice of.
    """

    def __init__(
        self,
        session: Session,
        terminal: Terminal,
        rule: Rule,
        escalate: str | None,
        odds: Odds | None,
        sampling: dict[str, Any],
    ) -> None:
        self.session, self.terminal = session, terminal
        self.rule, self.escalate, self.odds = rule, escalate, odds
        self.told: Told | None = None
        self.compressed_since = self.stopped = False
        self._sampling = sampling
        signal = None if odds is None else SIGNALS[odds.signal]
        self._evidence = signal is not None and not (isinstance(signal, CertificateSummary) and signal.rows == "answer")

    def read(self, documents: Sequence[Document], system: str | None) -> None:
        """Append the system text and the documents, and compress where there is a policy. Says what it took."""
        begin, before = time.monotonic(), self.session.num_seen
        if system is not None:
            self.session.append([{"role": "system", "content": system}])
        for number, document in enumerate(documents, 1):
            name = document.title or Path(document.source).name or f"document {number}"
            with self.terminal.busy(f"Reading {name} ({number} of {len(documents)})"):
                self.session.append(f"{document.title}\n{document.text}" if document.title else document.text)
        if not documents:
            return
        read = self.session.num_seen - before
        spent = format_seconds(time.monotonic() - begin)
        count = format_count(len(documents), "document")
        self.terminal.note(f"Read {count}: {format_count(read, 'token')} in {spent}, {self.describe_cache()}.")
        if self.session.policy is not None:
            self.compress()

    def compress(self) -> None:
        """Bring the cache down to the budget, and say what left it."""
        with self.terminal.busy("Compressing"):
            eviction = self.session.compress()
        if eviction is None:
            self.terminal.note("Nothing was read since the last compression.")
            return
        self.compressed_since = self.told is not None
        kept, had = int(eviction.rows_after.sum()), int(eviction.rows_before.sum())
        words = f"Compressed in {format_seconds(eviction.seconds)}: {kept:,} of {had:,} rows stay"
        self.terminal.note(f"{words}, {format_bytes(eviction.bytes_after)} of {format_bytes(eviction.bytes_before)}.")

    def answer(self, question: str, session: Session | None = None, rule: Rule | None = None) -> Told | None:
        """Stream the answer to standard output, its mark to standard error; None where Ctrl-C stopped it.

        session: another one than the chat's, such as a fork. An answer that is stopped, or fails, leaves the session as
        it was. Raises what `Session.stream` does.
        """
        asked = self.session if session is None else session
        how = self.rule if rule is None else rule
        stream = asked.stream(
            question,
            recompute=how,
            escalate=None if how == "never" or rule is not None else self.escalate,
            evidence=self._evidence,
            logprobs=0,
            **self._sampling,
        )
        started = False
        with ExitStack() as waiting:
            waiting.enter_context(self.terminal.busy("Answering"))
            try:
                for piece in stream:
                    waiting.close()
                    started = True
                    sys.stdout.write(piece.translate(UNSEEN) if sys.stdout.isatty() else piece)
                    sys.stdout.flush()
                answer = stream.answer
            except KeyboardInterrupt:
                stream.close()
                self.stopped = True
                return None
            finally:
                waiting.close()
                if started:
                    sys.stdout.write("\n")
                    sys.stdout.flush()
        if not started:
            sys.stdout.write("\n")
            sys.stdout.flush()
        told = Told(question, answer, asked.answer_certificates)
        self.terminal.console.print(draw_mark(told, self.odds, self.encoding), soft_wrap=True)
        return told

    @property
    def encoding(self) -> str:
        """Of the terminal."""
        return "utf-8" if not self.terminal.console.options.ascii_only else self.terminal.console.encoding

    def describe_cache(self) -> str:
        """`73 MiB of keys and values`."""
        return f"{format_bytes(self.session.nbytes)} of keys and values"
