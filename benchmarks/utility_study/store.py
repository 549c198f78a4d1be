"""Results on disk: a line of JSON each, kept under the digest of what it depends on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from utility_study.competitors import Job

Row = dict[str, Any]


class Store:
    """All results of a directory. One process writes; interrupted, it goes on where it was."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / "results.jsonl"
        self._rows: dict[str, Row] = {}
        kept = self.path.read_text() if self.path.exists() else ""
        # What comes next is a line of its own, also after half of one.
        self._begin = "" if kept.endswith("\n") or not kept else "\n"
        for line in kept.splitlines():
            try:
                row = json.loads(line)
                self._rows[row["key"]] = row
            except (json.JSONDecodeError, KeyError, TypeError):
                continue  # half a line, of a run that was killed while it wrote

    def missing(self, jobs: Iterable[Job]) -> list[Job]:
        """Those without a result, in their order; what failed is tried again."""
        return [job for job in jobs if "error" in self._rows.get(job.key, {"error": "none yet"})]

    def add(self, job: Job, found: Row) -> None:
        """Keep a result, on disk before anything else happens."""
        row = {"key": job.key, **asdict(job), **found}
        with self.path.open("a") as file:
            file.write(self._begin + json.dumps(row) + "\n")
        self._begin = ""
        self._rows[job.key] = row

    def rows(self, jobs: Sequence[Job]) -> list[Row]:
        """What is known of these."""
        return [self._rows[job.key] for job in jobs if job.key in self._rows]
