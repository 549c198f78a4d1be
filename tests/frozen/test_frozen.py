"""What the code answered before it was rebuilt, it still answers: to the bit (see README.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from frozen import compare

import sordino

HERE = Path(__file__).parent
DATA = HERE / "data"
FAST = ("quick", "accounts", "trainings", "releases")
EACH = sorted(path.stem for path in DATA.glob("*.json"))


def _made(out: Path, *parts: str) -> None:
    """Freeze anew, with the code under test, in a process of its own."""
    source = Path(sordino.__file__).parents[1]
    asked = [sys.executable, HERE / "make.py", out, *parts]
    done = subprocess.run(
        asked,
        env={**os.environ, "PYTHONPATH": str(source), "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(
    "part", [part if part in FAST else pytest.param(part, marks=pytest.mark.slow) for part in EACH]
)
def test_answers_are_what_they_were(part: str, tmp_path: Path) -> None:
    _made(tmp_path, part)
    frozen, found = (compare.read(where / f"{part}.json") for where in (DATA, tmp_path))
    differ = list(compare.differences(frozen, found))
    assert not differ, f"{len(differ)} differences:\n" + "\n".join(differ[:40])
