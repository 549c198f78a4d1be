"""Kind "erm": accuracy and objective of private linear models over folds (Chen, Lee & Kifer 2019).

Methods are the package's own, planned and trained as estimators do it; noise is seeded, so these
models protect nobody. A piece is one method on one fold; finished pieces are kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino_papers.erm_fits import Item, Pieces
from sordino_papers.erm_methods import least_epsilon
from sordino_papers.erm_settings import ErmSettings, stored

if TYPE_CHECKING:
    from sordino_papers.bench import Bench
    from sordino_papers.found import Numbers

ALONE = 200_000
"""Rows times pieces up to which other processes would take longer to start than to work."""
_FIRST = ("rsgd-ar/tuned", "output-gd/tuned", "dp-agd", "nsgd/tuned")
"""The slow ones, so that no worker is left with one at the end. Those of the engine before others:
it loads much, and a worker that grows later is taken for one that leaks, and replaced."""


def make(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    """Every method on every fold that is scored."""
    given = ErmSettings.read(settings)
    rows = stored(given, bench)
    kept = bench.store("erm", _identity(given))
    kept.mkdir(parents=True, exist_ok=True)
    pieces = Pieces(given, rows, str(kept))
    trained = dict.fromkeys(_source(given, method) for method in given.methods)
    items = [(method, fold) for fold in range(given.scored) for method in trained]
    for done, _ in enumerate(_made(pieces, items), start=1):
        bench.tell(done, len(items))
    return _gathered(pieces)


def _identity(given: ErmSettings) -> dict[str, Any]:
    """What a piece depends on: which other methods are asked does not matter to it."""
    found = dataclasses.asdict(given)
    return {name: found[name] for name in found if name not in ("methods", "scored")}


def _source(given: ErmSettings, method: str) -> str:
    """Whose pieces hold a method: a tuned one tries the public settings first."""
    tuned = f"{method}/tuned"
    return tuned if tuned in given.methods else method


def _made(pieces: Pieces, items: Sequence[Item]) -> Iterator[object]:
    """Yield once a piece: those that are kept first, then as they come."""
    from sordino.intrinsic import pool
    from sordino.sgd.planning import default_threads

    missing = [item for item in items if not pieces.path(item).exists()]
    yield from range(len(items) - len(missing))
    missing.sort(key=lambda item: _FIRST.index(item[0]) if item[0] in _FIRST else len(_FIRST))
    rows = len(np.load(Path(pieces.rows.directory) / "y.npy"))
    workers = min(default_threads(), len(missing))
    if workers < 2 or rows * len(missing) <= ALONE:
        for item in missing:
            pieces(item)
            yield item
        return
    for item, result in pool.run_all(pieces, missing, workers):
        if result is pool.LOST:
            raise RuntimeError(f"The process that trained {item[0]} on fold {item[1]} died.")
        yield item


def _gathered(pieces: Pieces) -> Numbers:
    """Numbers [method, epsilon, fold]; of a tuned method those of its best setting."""
    given = pieces.settings
    shape = len(given.methods), len(given.epsilons), given.scored
    accuracies, objectives, sigmas = (np.full(shape, np.nan) for _ in range(3))
    chosen = np.zeros(shape[:2], dtype=np.int64)
    for m, method in enumerate(given.methods):
        source = _source(given, method)
        folds = np.stack([np.load(pieces.path((source, fold))) for fold in range(given.scored)])
        if source != method:
            folds = folds[:, :, :1]
        means = folds[:, 0].mean(axis=0)  # [setting, epsilon]
        best = np.where(np.isnan(means), -1.0, means).argmax(axis=0)
        taken = np.take_along_axis(folds, best[None, None, None], axis=2)[:, :, 0]
        accuracies[m], objectives[m], sigmas[m] = np.moveaxis(taken, 0, -1)
        chosen[m] = best
    rows, columns = np.load(Path(pieces.rows.directory) / "X.npy", mmap_mode="r").shape
    return {
        "methods": np.array(given.methods),
        "epsilons": np.array(given.epsilons),
        "accuracies": accuracies,
        "objectives": objectives,
        "sigmas": sigmas,
        "chosen": chosen,
        "rows": np.array(rows),
        "columns": np.array(columns),
        "delta": np.array(given.delta),
        "least_epsilon_2016": np.array(least_epsilon(given.delta, given.orders)),
    }
