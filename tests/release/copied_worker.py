"""Copies a process that holds noise, in the ways that are asked for, and prints what each draws.

    python copied_worker.py WAY[,same-id][,plain-memory][,threaded][,twin] ...

A line of JSON for each process. `same-id`: Python sees one process id everywhere. `plain-memory`:
as on a system that cannot clear memory in a fork. `threaded`: normals are made by two threads.
`twin`: copies are told apart by their process id alone. A line says so where a way is not permitted
here.
"""

from __future__ import annotations

import ctypes
import functools
import json
import multiprocessing
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from sordino.models.kernels import normals
from sordino.release import CryptoNormals, NoiseStream, OsGaussian, ReleaseRefused, noise

NEW_PID = 0x20000000
CLONE = {"x86_64": 56, "aarch64": 220}
asked = ""


def drawn(stream: NoiseStream | None = None) -> dict[str, Any]:
    """Numbers of a stream and of OpenDP, or why there are none."""
    stream = CryptoNormals().stream("x") if stream is None else stream
    found = {"pid": os.getpid(), "stream": stream.uniforms((4,)).tolist()}
    found["stream"] += stream.standard_normal((4,)).tolist()
    try:
        return {**found, "opendp": OsGaussian().perturb([0.0] * 4, 1.0).tolist()}
    except ReleaseRefused as refused:
        return {**found, "refused": str(refused)}


def in_threads() -> dict[str, Any]:
    """The same of eight threads at once, the first that ask in this process."""
    found: list[dict[str, Any]] = []
    numbers: list[int] = []
    together = threading.Barrier(8)

    def draw() -> None:
        together.wait()
        numbers.append(noise._COPIES.here())
        found.append(drawn())

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    merged = {"pid": os.getpid(), "numbers": sorted(set(numbers))}
    for kind in ("stream", "opendp"):
        merged[kind] = [x for each in found for x in each.get(kind, ())]
    return merged


def say(who: str, what: dict[str, Any]) -> None:
    os.write(1, (json.dumps({"asked": asked, "who": who, **what}) + "\n").encode())


def _called(result: int) -> int:
    return result if result >= 0 else _not_permitted(os.strerror(ctypes.get_errno()))


def _not_permitted(why: str) -> NoReturn:
    say("nobody", {"not_permitted": why})
    os._exit(0)


def _raw_clone(flags: int) -> int:
    """A copy that neither Python nor the C library is told of."""
    if platform.machine() not in CLONE:
        _not_permitted(f"the number of the system call is not known for {platform.machine()}")
    arguments = [CLONE[platform.machine()], flags | signal.SIGCHLD, 0, 0, 0, 0]
    return _called(libc().syscall(*map(ctypes.c_long, arguments)))


def libc() -> ctypes.PyDLL:
    return ctypes.PyDLL(None, use_errno=True)  # which keeps the interpreter's lock


WAYS: dict[str, Callable[[], int]] = {
    "os.fork": lambda: os.fork(),
    "fork": lambda: _called(libc().fork()),
    "clone": lambda: _raw_clone(0),
    "namespaces": lambda: _raw_clone(NEW_PID),
}


def copied(way: str, do: Callable[[], None]) -> None:
    """Do it in a copy, and wait."""
    child = WAYS[way]()
    if child == 0:
        try:
            do()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def main(way: str, *options: str) -> None:
    """Draw here, in two copies, in a copy of a copy, in a copy's threads, and here again."""
    if way == "spawn":
        stream = CryptoNormals().stream("x")
        say("parent", drawn(stream))
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            for each in pool.map(drawn, [None] * 6, chunksize=1):
                say("spawned", each)
        say("parent again", drawn(stream))
        return
    if sys.platform != "linux" and way not in ("os.fork", "fork"):
        _not_permitted("it is Linux's")
    if sys.platform != "linux" and {way, *options} >= {"fork", "same-id"}:
        _not_permitted("only Linux tells of forks that Python does not know of, by one id")
    if way == "namespaces":  # be process 1, as in a container
        _called(libc().unshare(NEW_PID))
        if child := os.fork():
            os.waitpid(child, 0)
            return
    if "same-id" in options:
        process = os.getpid()
        os.getpid = lambda: process  # type: ignore[assignment]
    if "plain-memory" in options:
        noise._COPIES = noise.Copies(bytearray(8))
        noise._COPY_OF_PROCESS.clear()
    if "threaded" in options:
        normals.THREADS, noise._LEAST_A_THREAD = 2, 2
    if "twin" in options:
        noise._COPIES.here = os.getpid  # type: ignore[assignment]
        noise.check_process_id = lambda: None  # type: ignore[assignment]
    stream = CryptoNormals().stream("x")
    say("parent", drawn(stream))

    def parent() -> None:
        say("copy", drawn(stream))
        copied(way, lambda: say("copy of a copy", drawn(stream)))

    copied(way, parent)
    copied(way, parent)
    if options == () and way == "os.fork":  # threads need what Python mends after its own forks
        copied(way, lambda: say("threads", in_threads()))
    say("parent again", drawn(stream))


if __name__ == "__main__":
    noise._opendp_gaussian(1.0)  # loaded once, and nothing drawn yet
    CryptoNormals().stream("x").standard_normal((1,))  # compiled once
    for asked in sys.argv[1:]:
        copied("os.fork", functools.partial(main, *asked.split(",")))
