"""An answer of a session while it is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from fewer.engine import Answer
from fewer.errors import bad
from fewer.session.turn import Piece, Turn

__all__ = ["SessionStream", "Show"]

Show = Literal["final", "both"]


class SessionStream:
    """Iterate for the pieces of text, then read `answer`. A piece is a str that says in `run` which run wrote it.

    show="final": nothing of an answer that is not the final one. With a gate the first run is held back until the gate
    has decided; then it comes as one piece, or the second run's text as it is written. show="both": everything as it is
    written, the first run's pieces before the second's.

    Closing it early, or leaving a `with` block, ends the run: `answer` then says "cancelled", nothing of it stays in
    the session, and where a gate had not decided yet nothing was shown. Until it has ended the session does nothing
    else.
    """

    def __init__(self, turn: Turn, show: Show) -> None:
        if show not in ("final", "both"):
            raise bad("show", show, "'final' or 'both'", "Leave it out for the final answer alone.")
        self._turn, self._work, self._show = turn, turn.work(), show
        self._holds = show == "final" and turn.undecided
        self._held: list[str] = []
        self._error: BaseException | None = None

    def __iter__(self) -> Iterator[Piece]:
        try:
            for piece in self._work:
                if self._holds and piece.run == "first":
                    self._held.append(piece)
                else:
                    self._held.clear()
                    yield piece
        except GeneratorExit:  # the reader's loop ended, not the work
            raise
        except BaseException as error:
            self._error = error
            raise
        answer, held = self._turn.answer, "".join(self._held)
        self._held.clear()
        if held and answer is not None and answer.first is None and answer.finish_reason != "cancelled":
            yield Piece(held, "first")

    def __enter__(self) -> SessionStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop here. Does nothing once the answer is whole."""
        self._work.close()
        if self._turn.answer is None and self._error is None:
            self._turn.cancel()

    @property
    def answer(self) -> Answer:
        """The whole answer and its receipt. Generates what is missing, if the iteration stopped early."""
        if self._turn.answer is None:
            for _ in self:
                pass
        if self._turn.answer is None:
            assert self._error is not None
            raise self._error
        return self._turn.answer
