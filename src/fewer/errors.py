"""What can go wrong, as one flat tree.

    FewerError
    |- BadInput          (ValueError)       an argument is outside its legal range          exit 2
    |- PromptTooLong     (ValueError)       more tokens than the model has positions        exit 2
    |- DocumentError     (ValueError)       a file that cannot be read as text              exit 2
    |- ModelError        (ValueError)       unknown, unreachable, refused or broken model   exit 2
    |- NonFiniteError    (ArithmeticError)  the model produced NaN or infinite numbers      exit 3
    `- StorageError      (OSError)          the disk refused a write; nothing half-written  exit 4

Every message is one sentence, or two, that names the value, the legal range and the way out.
"""

from __future__ import annotations


class FewerError(Exception):
    """Anything this library raises on purpose. `exit_code` is what the command line exits with."""

    exit_code = 1


class BadInput(FewerError, ValueError):
    """An argument is outside its legal range. From `bad` it knows what the argument is called."""

    exit_code = 2
    name: str | None = None
    problem: str = ""

    def renamed(self, name: str) -> BadInput:
        """The same about another name: the one by which the value was given, such as an option's."""
        if self.name is None:
            return self
        error = BadInput(f"{name} is {self.problem}")
        error.name, error.problem = name, self.problem
        return error


class PromptTooLong(FewerError, ValueError):
    """The prompt and the tokens asked for do not fit into the model's positions."""

    exit_code = 2


class DocumentError(FewerError, ValueError):
    """A document is missing, unreadable, or holds no text."""

    exit_code = 2


class ModelError(FewerError, ValueError):
    """A model is unknown, unreachable, not supported, or its files are broken."""

    exit_code = 2


class NonFiniteError(FewerError, ArithmeticError):
    """The model produced NaN or infinite numbers; the message names the layer where they began."""

    exit_code = 3


class StorageError(FewerError, OSError):
    """A write failed (no space, no permission). Nothing half-written is left behind."""

    exit_code = 4


def bad(name: str, value: object, legal: str, way_out: str) -> BadInput:
    """One sentence with the value, the legal range and the way out, ready to raise."""
    shown = repr(value) if isinstance(value, str) else " ".join(repr(value).split())
    if len(shown) > 200:
        shown = f"{shown[:120]}... ({len(shown)} characters)"
    problem = f"{shown}; it must be {legal}. {way_out}"
    error = BadInput(f"{name} is {problem}")
    error.name, error.problem = name, problem
    return error
