"""Freeze what the code answers: `PYTHONPATH=TREE/src python tests/frozen/make.py OUT [PART ...]`.

Without parts, all of them. Each part is one file in OUT, made in an empty directory and, by
`steady`, in a process without chance or clock. `test_frozen.py` runs this very file with the code
under test, and compares. `halves`, no part, writes a study and an assessment to go on with.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
for name, value in {
    **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")},
    "NUMBA_CACHE_DIR": f"{tempfile.gettempdir()}/sordino-tests",
    "MPLBACKEND": "agg",
    "TERM": "dumb",
    "COLUMNS": "100",
    "TZ": "UTC",
}.items():
    os.environ.setdefault(name, value)
os.environ.pop("SORDINO_DATA", None)  # nobody's raw files: the same with and without them

from frozen import commands, compare, golden, halves, steady, theorems  # noqa: E402

Answers = dict[str, Any]

PARTS: dict[str, Callable[[Path], Answers]] = {
    "quick": commands.quick,
    "accounts": lambda _: commands.accounts(60, 1),
    "accounts-more": lambda _: commands.accounts(140, 2),
    "calibrations": lambda _: commands.calibrations(60, 3),
    "trainings": lambda _: theorems.trainings(60, 4),
    "trainings-more": lambda _: theorems.trainings(140, 5),
    "releases": lambda _: theorems.releases(60, 6),
    "releases-more": lambda _: theorems.releases(140, 7),
    "released": commands.released,
    "golden": golden.golden,
    "corpus": commands.corpus,
    "attacked": commands.attacked,
    "gallery": commands.gallery,
    "measured": commands.measured,
    "assessed": commands.assessed,
    "reproduced": commands.reproduced,
    "study": lambda _: halves.study(None),
    "assessment": lambda _: halves.assessment(None),
    "half_study": lambda _: halves.study(halves.DATA / "half_study.tar.gz"),
    "half_assessment": lambda _: halves.assessment(halves.DATA / "half_assessment.tar.gz"),
}
"""The last two go on with what the old code left half done; `halves` made that."""


def make(part: str, out: Path) -> None:
    """One part, into its file."""
    began = time.monotonic()
    steady.forget()
    with tempfile.TemporaryDirectory() as place:
        here = Path(place).resolve()
        os.environ["SORDINO_CACHE"] = str(here / ".cache")
        os.environ["SORDINO_STATE"] = str(here / ".state")
        (here / "work").mkdir()
        os.chdir(here / "work")
        if part == "halves":
            halves.make_halves(out)
        else:
            compare.write(PARTS[part](here / "work"), out / f"{part}.json")
        os.chdir(out)
    print(f"{part}: {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    steady.begin()
    target = Path(sys.argv[1]).resolve()
    target.mkdir(parents=True, exist_ok=True)
    for each in sys.argv[2:] or PARTS:
        make(each, target)
