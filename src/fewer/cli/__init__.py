"""The command line: `fewer ask`, `fewer models`, `fewer doctor`. One file per command."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line on the process's arguments; ends in SystemExit.

    Exit codes: 0 done, 1 an unexpected error, 2 bad input, 3 the model's numbers are not finite, 4 the disk refused a
    write, 130 interrupted.
    """
    try:
        from fewer.cli.app import app

        app()
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is said; the interpreter's shutdown has no clean way to stop
