"""diffprivlib on the same folds, by an interpreter of a side environment."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from erm_study.design import L2, PEER

from sordino.estimators.fit import FitRecords
from sordino_papers.erm.study import ErmSettings, store_rows
from sordino_papers.quantities import Numbers
from sordino_papers.runs import RunStore

SCRIPT = Path(__file__).with_name("peer_side.py")


def with_peer(numbers: Numbers, given: ErmSettings, bench: RunStore, python: Path) -> Numbers:
    """The numbers of a logistic study, diffprivlib among its methods."""
    rows = given.data, given.form, given.rows
    asked = given.tuning, given.scored, given.epsilons
    kept = bench.folder("erm", PEER, *rows, *asked).with_suffix(".json")
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=bench.directory) as scratch:
            _exchange(given, bench, Path(scratch))
            out = Path(scratch) / "out.json"
            subprocess.run([python, SCRIPT, scratch, out], check=True)
            out.rename(kept)
    accuracies, objectives = np.moveaxis(np.array(json.loads(kept.read_text())), -1, 0)
    return {
        **numbers,
        "methods": np.array([*numbers["methods"], PEER]),
        "accuracies": np.concatenate([numbers["accuracies"], accuracies.T[None]]),
        "objectives": np.concatenate([numbers["objectives"], objectives.T[None]]),
    }


def _exchange(given: ErmSettings, bench: RunStore, directory: Path) -> None:
    rows = store_rows(given, bench)
    X, y = rows.read()
    # Rows are scaled one by one, so scaling before splitting is the same as after.
    np.save(directory / "rows.npy", FitRecords.of(np.asarray(X), y, 2, 1.0, False).X)
    np.save(directory / "labels.npy", y)
    splits = {}
    for at, fold in enumerate(given.shown_folds):
        splits[f"train{at}"], splits[f"test{at}"] = rows.split(fold)
    np.savez(directory / "splits.npz", **splits)
    asked = {"folds": len(given.shown_folds), "epsilons": given.epsilons, "l2": L2, "seed": 1000}
    (directory / "asked.json").write_text(json.dumps(asked))
