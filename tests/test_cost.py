"""What there is, what is needed, and the sentence that sets them side by side."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordino import _cost
from sordino.errors import InvalidArgument

LARGE = st.integers(min_value=0, max_value=10**400)


@given(LARGE)
def test_every_number_of_bytes_has_a_short_word(count: int) -> None:
    assert re.fullmatch(r"[\d.,]+ (bytes|[kMGTP]B)|10\^\d+ bytes", _cost.size(count))


@given(st.floats(min_value=0, allow_nan=False))
def test_every_time_has_a_word_that_is_about_right(seconds: float) -> None:
    said = _cost.duration(seconds)
    if found := re.fullmatch(r"([\d,]+) (second|minute|hour|day|year)s?", said):
        units = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "year": _cost.YEAR}
        told = int(found[1].replace(",", "")) * units[found[2]]
        assert told == pytest.approx(max(seconds, 1), rel=0.35, abs=1)
    else:
        assert said == "more than a million years"
        assert seconds >= 1e6 * _cost.YEAR


@given(needed=LARGE, free=st.integers(min_value=0, max_value=10**14))
def test_what_does_not_fit_is_refused_with_both_numbers(needed: int, free: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_cost, "free_memory", lambda: free)
        if needed <= free:
            _cost.check_memory("seeds", 3, needed, "Lower seeds.")
            return
        with pytest.raises(InvalidArgument) as told:
            _cost.check_memory("seeds", 3, needed, "Lower seeds.")
    sizes = f"about {_cost.size(needed)} would be needed, and {_cost.size(free)} are free"
    assert str(told.value) == f"Expected seeds=3 to fit into memory: {sizes}. Lower seeds."


@given(st.lists(LARGE, max_size=4))
def test_counts_of_any_size_have_a_total(counts: list[int]) -> None:
    seconds = _cost.total(1e-9, *counts)
    if seconds > _cost.YEAR:
        with pytest.raises(InvalidArgument, match=r"to end within a year, and about .* would be"):
            _cost.check_time("steps", counts[0], seconds, "Lower steps.")
    else:
        _cost.check_time("steps", 1, seconds, "Lower steps.")


def test_a_limit_of_the_process_counts(tmp_path: Path) -> None:
    """As `ulimit -v` sets it, which the machine's free memory does not know."""
    code = (
        "import resource; from sordino import _cost; before = _cost.free_memory();"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30));"
        "after = _cost.free_memory(); assert after < 1 << 30, after; print(before >= after)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("version", ["2", "1"])
def test_a_container_s_limit_counts(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less the files that it has read, which are given back when memory is needed."""
    kinds = "" if version == "2" else "memory"
    names = ("max", "current") if version == "2" else ("limit_in_bytes", "usage_in_bytes")
    files = {
        "/proc/self/cgroup": f"4:{kinds}:/some/where\n7:pids:/\n",
        **{f"/sys/fs/cgroup{'/memory' * bool(kinds)}/memory.{names[0]}": "5000\n"},
        **{f"/sys/fs/cgroup{'/memory' * bool(kinds)}/memory.{names[1]}": "4000\n"},
        **{f"/sys/fs/cgroup{'/memory' * bool(kinds)}/memory.stat": "inactive_file 1500\nx 1\n"},
    }

    def read_text(path: Path) -> str:
        if str(path) in files:
            return files[str(path)]
        if str(path).startswith(("/sys", "/proc")):
            raise FileNotFoundError(path)
        return path.read_bytes().decode()

    monkeypatch.setattr(Path, "read_text", read_text)
    assert _cost.total_memory() == 5000
    assert _cost.free_memory() == 2500


def test_a_disk_without_room_is_named(tmp_path: Path) -> None:
    told = f"to fit into the disk of {re.escape(str(tmp_path))}: about 10 PB would be needed"
    with pytest.raises(InvalidArgument, match=told):
        _cost.check_disk("seeds", 9, tmp_path / "not" / "yet", 10**16, "Lower seeds.")
