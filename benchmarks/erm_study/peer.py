"""diffprivlib on the same folds, by an interpreter of a side environment."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from erm_study.design import FOLDS, L2, PEER, Size, Source
from erm_study.folds import Stored, store
from erm_study.pool import ONE_THREAD
from erm_study.study import Cell
from rich.console import Console
from rich.progress import track

from sordino.estimators.records import Records

SCRIPT = Path(__file__).with_name("peer_side.py")
Found = list[tuple[int, float, float, float]]
"""Fold, epsilon, accuracy, objective."""


def run(size: Size, python: Path, work: Path, data_dir: Path | None) -> list[Cell]:
    """Cells of diffprivlib: logistic only."""
    sources = [source for source in size.sources if source.shown and "logistic" in source.losses]
    stored = [store(source, work, data_dir) for source in sources]
    cores: queue.SimpleQueue[int] = queue.SimpleQueue()
    for core in sorted(os.sched_getaffinity(0)):
        cores.put(core)
    jobs = [(each, repeat) for each in stored for repeat in size.peer_repeats]
    with ThreadPoolExecutor(cores.qsize()) as threads:
        futures = [threads.submit(_fitted, *job, python, work, cores) for job in jobs]
        shown = track(futures, PEER, console=Console(stderr=True))
        found = {job: future.result() for job, future in zip(jobs, shown, strict=True)}
    return [
        _cell(each.source, epsilon, [found[each, r] for r in size.peer_repeats])
        for each in stored
        for epsilon in each.source.epsilons
    ]


def _cell(source: Source, epsilon: float, repeats: list[Found]) -> Cell:
    at_epsilon = [row for found in repeats for row in found if row[1] == epsilon]
    accuracies = np.array([accuracy for _, _, accuracy, _ in at_epsilon])
    objectives = np.array([value for _, _, _, value in at_epsilon])
    return Cell(source.name, "logistic", epsilon, PEER, "default", accuracies, objectives)


def _fitted(
    stored: Stored, repeat: int, python: Path, work: Path, cores: queue.SimpleQueue[int]
) -> Found:
    kept = work / f"{PEER}-{stored.directory.name}-{repeat}-{len(stored.source.epsilons)}.json"
    if not kept.exists():
        core = cores.get()
        try:
            with tempfile.TemporaryDirectory(dir=work) as scratch:
                _exchange(stored, repeat, Path(scratch))
                out = Path(scratch) / "out.json"
                subprocess.run(
                    [python, SCRIPT, scratch, out, str(core)],
                    env={**os.environ, **dict.fromkeys(ONE_THREAD, "1")},
                    check=True,
                )
                out.rename(kept)
        finally:
            cores.put(core)
    return [tuple(row) for row in json.loads(kept.read_text())]


def _exchange(stored: Stored, repeat: int, directory: Path) -> None:
    X, y = stored.read()
    # Rows are scaled one by one, so scaling before splitting is the same as after.
    np.save(directory / "rows.npy", Records.of(np.asarray(X), y, 2, 1.0, True).X)
    np.save(directory / "labels.npy", y)
    splits = {}
    for fold in range(FOLDS):
        splits[f"train{fold}"], splits[f"test{fold}"] = stored.split(repeat, fold)
    np.savez(directory / "splits.npz", **splits)
    asked = {
        "folds": FOLDS,
        "epsilons": stored.source.epsilons,
        "l2": L2,
        "seed": 1000 * repeat,
    }
    (directory / "asked.json").write_text(json.dumps(asked))
