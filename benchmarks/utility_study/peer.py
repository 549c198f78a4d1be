"""diffprivlib's fits, by an interpreter of a side environment."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from utility_study.competitors import L2, Job
from utility_study.store import Row
from utility_study.tables import rows_of

SCRIPT = Path(__file__).with_name("peer_side.py")


def results(jobs: Sequence[Job], python: Path) -> Iterator[tuple[Job, Row]]:
    """Of jobs on one table, one after the other.

    Raises
    ------
    RuntimeError
        If the interpreter ends before its first result: then it lacks diffprivlib, most likely.
    """
    table = jobs[0].of
    rows = rows_of(table)
    asked = {"low": -1.0 if rows.bounds is None else 0.0, "l2": L2}
    asked |= {name: table.facts[name] for name in ("held", "classes", "target")}
    with tempfile.TemporaryDirectory() as scratch:
        np.save(Path(scratch) / "rows.npy", rows.unit)
        np.save(Path(scratch) / "labels.npy", rows.y)
        (Path(scratch) / "asked.json").write_text(json.dumps(asked))
        waiting = list(jobs)
        while waiting:
            found = list(_answers(waiting, python, scratch))
            if not found and len(waiting) == len(jobs):
                raise RuntimeError(f"{python} {SCRIPT.name} ended: has it diffprivlib?")
            yield from zip(waiting, found, strict=False)
            waiting = waiting[len(found) :]
            if waiting:  # which brought it down
                yield waiting.pop(0), {"error": "the interpreter ended"}


def _answers(jobs: Sequence[Job], python: Path, scratch: str) -> Iterator[Row]:
    asked = "".join(json.dumps(asdict(job)) + "\n" for job in jobs)
    done = subprocess.run([python, SCRIPT, scratch], input=asked, stdout=subprocess.PIPE, text=True)
    return map(json.loads, done.stdout.splitlines())
