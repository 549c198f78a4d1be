"""The program as a shell runs it, each time in a process of its own, but loaded only once.

A `Forge` is a process that has imported everything; it forks for every invocation, so that one
takes as long as the program does and not as long as Python's imports. What is run may hang, grow or
crash: it is killed with all its children when its time is over, and cannot take more memory.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LOADED = (
    *("sordino.cli.main", "sordino.assessment.run", "sordino.intrinsic.measure", "pandas"),
    *("sordino.intrinsic.summary", "sordino.audit.game", "sordino_papers.reproduction", "torch"),
    *("sordino.assessment.pages", "sordino.report.figures", "matplotlib.figure", "rich.table"),
    *(
        "sordino.audit.gallery",
        "sordino.release.verify",
        "sklearn.linear_model",
        "rich.progress",
    ),
)
PROGRAM = "sordino.cli.main:main"
_GIGABYTE = 1 << 30
_TO_STOP = 10.0
"""Seconds from a Ctrl-C to the end."""


@dataclass(frozen=True)
class Ending:
    """How an invocation ended.

    Parameters
    ----------
    code
        Its exit code; negative if a signal ended it.
    out, err
        What it wrote.
    seconds, gigabytes
        How long it took, and the most memory that it held.
    interrupted
        Whether its time was over, and it got a Ctrl-C.
    hung
        Whether it had to be killed: no Ctrl-C stopped it.
    """

    code: int
    out: str
    err: str
    seconds: float
    gigabytes: float
    interrupted: bool
    hung: bool


class Forge:
    """Runs `call`, a function without arguments by its name `module:name`, as a program."""

    def __init__(
        self, call: str = "sordino.cli.main:main", loaded: Sequence[str] = _LOADED
    ) -> None:
        command = [sys.executable, __file__, call, *loaded]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self,
        arguments: Sequence[str],
        directory: Path,
        *,
        seconds: float,
        to_stop: float = _TO_STOP,
        gigabytes: float = 3,
        file_bytes: int | None = None,
        out: str | None = None,
    ) -> Ending:
        """Run the program in `directory`.

        Parameters
        ----------
        seconds, to_stop, gigabytes
            After which it gets a Ctrl-C, after which more it is killed, and beyond which it gets
            no more.
        file_bytes
            How large a file may grow: what a disk does that is full.
        out
            Where standard output goes: a path; "closed pipe"; None keeps it.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {
            "arguments": list(arguments),
            "directory": str(directory),
            "seconds": seconds,
            "to_stop": to_stop,
            "gigabytes": gigabytes,
            "file_bytes": file_bytes,
            "out": out,
        }
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return Ending(**json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Forge:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _serve(call: str, loaded: Sequence[str]) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a child prints is no answer
    for name in loaded:
        importlib.import_module(name)
    module, _, name = call.partition(":")
    program = getattr(importlib.import_module(module), name)
    for line in sys.stdin:
        answers.write(json.dumps(_ended(program, **json.loads(line))) + "\n")
        answers.flush()


def _ended(
    program: Any, seconds: float, to_stop: float, out: str | None, **asked: Any
) -> dict[str, Any]:
    # Pipes: a file would be subject to the limit on files.
    (reads_out, writes_out), (reads_err, writes_err) = os.pipe(), os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.setsid()
            _take_place(writes_out, writes_err, out, asked)
            code = _run(program, asked["arguments"])
        finally:
            os._exit(code)
    os.close(writes_out)
    os.close(writes_err)
    texts: dict[int, list[bytes]] = {reads_out: [], reads_err: []}
    handle, pipes = os.pidfd_open(child), [reads_out, reads_err]

    def ends_by(end: float) -> bool:
        ready: list[int] = []
        while ready != [handle] and (left := end - time.monotonic()) > 0:
            ready = select.select([*pipes, handle], [], [], left)[0]
            for pipe in set(ready) - {handle}:
                texts[pipe].append(os.read(pipe, 1 << 16))
                if not texts[pipe][-1]:
                    pipes.remove(pipe)
        return ready == [handle]

    interrupted = not ends_by(started + seconds)
    if interrupted:
        os.kill(child, signal.SIGINT)
    hung = interrupted and not ends_by(time.monotonic() + to_stop)
    took = time.monotonic() - started
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # it, if it hangs, and whatever it has started
    _, status, used = os.wait4(child, 0)
    for each in (handle, reads_out, reads_err):
        os.close(each)
    said = [b"".join(each).decode(errors="replace") for each in texts.values()]
    return {
        "code": os.waitstatus_to_exitcode(status),
        "out": said[0],
        "err": said[1],
        "seconds": took,
        "gigabytes": used.ru_maxrss / (1 << 20),
        "interrupted": interrupted,
        "hung": hung,
    }


def _take_place(writes: int, errors: int, out: str | None, asked: dict[str, Any]) -> None:
    """Be the process that a shell would have started."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if out == "closed pipe":
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = writes if out is None else os.open(out, os.O_WRONLY)
    os.dup2(writing, 1)
    os.dup2(errors, 2)
    os.chdir(asked["directory"])
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + int(asked["gigabytes"] * _GIGABYTE)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if (room := asked["file_bytes"]) is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    for number, mode in ((1, "w"), (2, "w")):
        made = open(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, ("stdout", "stderr")[number - 1], made)


def _run(program: Any, arguments: list[str]) -> int:
    """What the interpreter does with a program, its end included."""
    sys.argv = ["sordino", *arguments]
    try:
        program()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    try:
        sys.stdout.flush()
    except OSError:
        traceback.print_exc()
        code = 120
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2:])
