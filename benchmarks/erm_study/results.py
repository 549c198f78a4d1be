"""Scores kept on disk as they come, so that an interrupted study goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from erm_study.fits import Done, Score, Unit

from sordino import __version__

MAKE = "1"
"""Changed when the study itself does something else under the same plans."""


class Results:
    """Scores by unit and plan, in a file of JSON lines; a line that was cut off is left out.

    A plan's fingerprint covers data, settings and noise. It does not cover the code that trains:
    after a change there, start afresh.
    """

    def __init__(self, work: Path, fresh: bool = False) -> None:
        made = hashlib.sha256(f"{__version__} {MAKE}".encode()).hexdigest()[:8]
        self.path = work / f"scores-{made}.jsonl"
        work.mkdir(parents=True, exist_ok=True)
        if fresh:
            self.path.unlink(missing_ok=True)
        self.scores: dict[tuple[str, str], Score] = {}
        self.seconds: list[dict[str, Any]] = []
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                self._take(line)

    def _take(self, line: str) -> None:
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            return
        for name, score in entry["scores"].items():
            self.scores[entry["unit"], name] = None if score is None else tuple(score)
        self.seconds.append({"unit": entry["unit"], **entry["seconds"]})

    def has(self, unit: Unit, name: str) -> bool:
        """Whether this plan was run on this unit."""
        return (unit.name, name) in self.scores

    def get(self, unit: Unit, name: str) -> Score:
        """Its score; None if it released nothing."""
        return self.scores[unit.name, name]

    @property
    def core_seconds(self) -> float:
        """What all fits took that are kept here."""
        return sum(value for entry in self.seconds for key, value in entry.items() if key != "unit")

    def add(self, done: Done) -> None:
        """Keep a unit's scores, on disk first."""
        entry = {"unit": done.unit.name, "scores": done.scores, "seconds": done.seconds}
        line = json.dumps(entry)
        with self.path.open("a") as file:
            # A newline first ends a line that an interruption may have cut off.
            file.write(f"\n{line}\n" if self._cut() else f"{line}\n")
            file.flush()
            os.fsync(file.fileno())
        self._take(line)

    def _cut(self) -> bool:
        if not self.path.stat().st_size:
            return False
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
