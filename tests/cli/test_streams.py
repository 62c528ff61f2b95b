"""What is printed from C while a result is computed does not land in the result."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, sys
from fewer.cli.streams import output_kept_clean
print("before")
with output_kept_clean():
    os.write(1, b"from C\\n")
    print("from Python")
print("after")
"""

CLOSED = """
import os
os.close(1)
from fewer.cli.streams import output_kept_clean
with output_kept_clean():
    pass
os._exit(7)
"""


def test_output_goes_to_the_other_stream_and_back() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "before\nafter\n"
    assert "from C" in done.stderr
    assert "from Python" in done.stderr


def test_a_closed_output_changes_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", CLOSED], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (7, "")
