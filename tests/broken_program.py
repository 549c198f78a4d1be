"""A program that misbehaves as its argument says, for the test of the test."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    """Do it."""
    what = sys.argv[1]
    if what == "answers":
        print("epsilon is 1")
        return
    if "long" in what:
        if "says" in what:
            print("About 2 hours here; Ctrl-C stops it.", file=sys.stderr, flush=True)
        try:
            time.sleep(1000)
        except KeyboardInterrupt:
            sys.exit(130)
    if what == "hangs":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("a moment", flush=True)
        subprocess.run(["sleep", "1000"], check=False)  # and so does what it has started
    if what == "raises":
        raise ValueError("a fault of sordino")
    if what == "grows":
        held = bytearray(1 << 29)
        held[::4096] = b"x" * len(held[::4096])
    if what == "answers nan":
        print("epsilon is nan")
        return
    if what == "answers nothing":
        return
    if what == "leaves a file":
        Path("left.json").write_text("{}")
    if what == "changes a file":
        Path("there.txt").write_text("changed")
    if what == "leaves half a file":
        Path(".there.txt.1.partial").write_text("ha")
        print(".there.txt.1.partial")
    if what == "removes a file":
        Path("there.txt").unlink()
    if what == "says it twice":
        print("Expected this.", file=sys.stderr)
    if what != "says nothing":
        print("Expected that.", file=sys.stderr)
    sys.exit(7 if what == "ends oddly" else 2)
