"""The command line: `fewer ask`, `fewer models`, `fewer doctor`. One file per command."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line on this process's arguments, and end the process with the command's exit code.

    The process ends without the interpreter's shutdown, which takes a second once PyTorch is loaded and meets Ctrl-C
    with a traceback. The commands leave nothing to it.
    """
    try:
        from fewer.cli.app import app

        app()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:  # before the program had begun
        print("error: interrupted", file=sys.stderr)
        code = 130
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # closed by whoever started us
                stream.flush()
    except OSError:  # nobody reads any more
        code = code or 1
    os._exit(code)
