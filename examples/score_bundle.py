"""Score rows with a released model, without sordino: numpy and safetensors are enough.

    python score_bundle.py BUNDLE ROWS.csv      (or ROWS.npy)

Nothing in a bundle can run code: the certificate is JSON, the weights are safetensors. This
program checks that the weights are the certified ones and prints what is promised of them; whether
the promise follows, `sordino certificate verify BUNDLE` computes.

A CSV may begin with a line of names; if the certificate has names too, columns are found by them.
Rows must be prepared as they were for the training.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load


def read_bundle(directory: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The certificate, and the weights that it is about."""
    certificate = json.loads((directory / "certificate.json").read_bytes())
    if (certificate["schema"], certificate["version"]) != ("sordino-certificate", 1):
        sys.exit("This program reads version 1 of sordino-certificate only.")
    weights = (directory / "model.safetensors").read_bytes()
    if hashlib.sha256(weights).hexdigest() != certificate["model"]["sha256"]:
        sys.exit("These are not the weights that the certificate is about.")
    return certificate, load(weights)


def read_rows(path: Path, names: list[str] | None) -> np.ndarray:
    """One row a record, as numbers."""
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    with path.open(newline="", encoding="utf-8") as file:
        lines = [line for line in csv.reader(file) if line]
    columns = range(len(lines[0]))
    if not all(map(_is_number, lines[0])):
        header = lines.pop(0)
        if names is not None:
            columns = [header.index(name) for name in names]
    return np.array([[float(line[column]) for column in columns] for line in lines])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def predict(rows: np.ndarray, weights: dict[str, np.ndarray], labels: list[Any]) -> list[Any]:
    """The most likely label of each row."""
    scores = rows @ weights["coef"].T + weights["intercept"]
    chosen = (scores[:, 0] > 0).astype(int) if len(labels) == 2 else scores.argmax(axis=1)
    return [labels[each] for each in chosen]


def main() -> None:
    """Print the promise to standard error, and a label a line."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    certificate, weights = read_bundle(Path(sys.argv[1]))
    promise, model = certificate["guarantee"], certificate["model"]
    if promise is None:
        print(f"NOTHING IS PROMISED: {certificate['why_none']}", file=sys.stderr)
    else:
        claimed = f"epsilon = {promise['epsilon']} at delta = {promise['delta']}"
        print(f"{claimed}, {promise['relation']}, for {promise['unit']}", file=sys.stderr)
    rows = read_rows(Path(sys.argv[2]), model["feature_names"])
    for label in predict(rows, weights, model["labels"]):
        print(label)


if __name__ == "__main__":
    main()
