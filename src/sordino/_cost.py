"""Whether what is asked can be had: memory, disk and time, judged before any of it is taken.

Asked for more memory than there is, systems say yes, and end the process when it is used; a loop
of a thousand years looks like one of a minute. So whoever is about to take much says here how much,
and it is refused in one sentence that says what is needed, what there is and what to lower.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from sordino import checks

YEAR = 365.25 * 86400
"""Seconds; what takes longer is refused."""
LONG = 60.0
"""Seconds from which on somebody wants to know beforehand."""
_UNITS = ((YEAR, "year"), (86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))
_MOST = 10**30
"""Bytes, from which on no unit has a name that anybody knows."""


def total_memory() -> int:
    """Bytes that this process may use at most: the machine's, or its container's."""
    return min([_machine("SC_PHYS_PAGES"), *(most for most, _ in _groups())])


def free_memory() -> int:
    """Bytes that this process can still take: of the machine, its container and its own limit."""
    free = [_available(), *(most - used for most, used in _groups())]
    with suppress(ImportError, OSError, ValueError):  # not on every system
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            free.append(limit - pages * os.sysconf("SC_PAGE_SIZE"))
    return max(0, min(free))


def check_memory(name: str, value: object, needed: int, lower: str) -> None:
    """Refuse what needs more memory than is free.

    Parameters
    ----------
    name, value
        What is asked, as in `checks.fail`.
    needed
        Bytes, estimated from above.
    lower
        What to lower, or to do instead: a sentence.
    """
    if needed > (free := free_memory()):
        _refuse(name, value, "memory", needed, free, lower)


def check_disk(name: str, value: object, directory: Path, needed: int, lower: str) -> None:
    """Refuse what needs more room than the disk of a directory, which need not be there, has."""
    with suppress(OSError):  # what is wrong with the place is said when it is made
        there = next(each for each in (directory, *directory.parents) if each.exists())
        if needed > (free := shutil.disk_usage(there).free):
            _refuse(name, value, f"the disk of {there}", needed, free, lower)


def total(each: float, *counts: int) -> float:
    """Seconds of so many times so many; infinity for more than a float can hold."""
    try:
        return each * math.prod(counts)
    except OverflowError:
        return math.inf


def check_time(name: str, value: object, seconds: float, lower: str) -> None:
    """Refuse what takes more than a year."""
    if not seconds <= YEAR:
        needed = f"about {duration(seconds)} would be needed here"
        checks.fail(name, value, f"to end within a year, and {needed}", lower)


def _refuse(name: str, value: object, where: str, needed: int, free: int, lower: str) -> NoReturn:
    says = f"to fit into {where}: about {size(needed)} would be needed, and {size(free)} are free"
    checks.fail(name, value, says, lower)


def size(count: int) -> str:
    """Bytes in words, such as "1.3 GB"."""
    if count >= _MOST:
        return f"10^{int(math.log10(count))} bytes"
    number = float(count)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.0f} PB"


def duration(seconds: float) -> str:
    """A time in words, such as "3 hours"."""
    if not seconds < 1e6 * YEAR:
        return "more than a million years"
    length, unit = next((each for each in _UNITS if seconds >= 1.5 * each[0]), _UNITS[-1])
    number = max(1, round(seconds / length))
    return f"{number:,} {unit}{'s' if number > 1 else ''}"


def _machine(pages: str) -> int:
    try:
        return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 62  # it does not say


def _available() -> int:
    """What Linux would give without swapping; elsewhere what the machine has."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return _machine("SC_PHYS_PAGES")


def _groups() -> Iterator[tuple[int, int]]:
    """Limit and use of every control group that this process is in and that has a limit."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, kinds, place = line.split(":", 2)
            if kinds not in ("", "memory"):
                continue
            root = Path("/sys/fs/cgroup", kinds)
            files = ("limit_in_bytes", "usage_in_bytes") if kinds else ("max", "current")
            here = root / place.lstrip("/")
            # In a container its own group is the root, whatever its name outside.
            for group in (here, *here.parents):
                if group.is_relative_to(root):
                    yield from _group(group, *(group / f"memory.{name}" for name in files))


def _group(group: Path, most: Path, used: Path) -> Iterator[tuple[int, int]]:
    with suppress(OSError, ValueError):  # without a limit v2 says "max", v1 a very large number
        limit, taken, cache = int(most.read_text()), int(used.read_text()), 0
        for line in (group / "memory.stat").read_text().splitlines():
            if line.startswith(("inactive_file ", "total_inactive_file ")):
                cache = int(line.split()[1])  # files it read, given back when it is needed
        yield limit, max(0, taken - cache)
