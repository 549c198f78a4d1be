"""Score rows with a released model, without sordino: numpy and safetensors are enough.

    python score_bundle.py BUNDLE ROWS.csv      (or ROWS.npy)

Nothing in a bundle can run code: the certificate is JSON, the weights are safetensors. This
program checks that the weights are the certified ones and prints what is promised of them; whether
the promise follows, `sordino certificate verify BUNDLE` computes.

A CSV may begin with a line of names; if the certificate has names too, columns are found by them.
If the certificate has the public description of the table (bounds and levels), rows are prepared by
it; else they must come prepared as they were for the training.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
import tomllib
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


def read_rows(path: Path, names: list[str] | None, description: str) -> np.ndarray:
    """One row a record, as numbers."""
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    with path.open(newline="", encoding="utf-8") as file:
        if description and names is not None:
            known = tomllib.loads(description)["columns"]
            return np.array([prepared(row, known, names) for row in csv.DictReader(file)])
        lines = [line for line in csv.reader(file) if line]
    columns = range(len(lines[0]))
    if not all(map(_is_number, lines[0])):
        header = lines.pop(0)
        if names is not None:
            columns = [header.index(name) for name in names]
    return np.array([[float(line[column]) for column in columns] for line in lines])


def prepared(row: dict[str, str], known: dict[str, Any], names: list[str]) -> list[float]:
    """Numbers between their bounds as 0 to 1, and a 0 or 1 for each level."""
    values = {}
    for name, column in known.items():
        cell = row[name].strip()
        if "bounds" in column:
            low, high = column["bounds"]
            inside = min(max(float(cell), low), high) if cell else (low + high) / 2
            values[name] = (inside - low) / (high - low)
        for level in column.get("levels", ()):
            values[f"{name}={level}"] = float(_same(cell, level))
    return [values[name] for name in names]


def _same(cell: str, level: str | bool | float) -> bool:
    if isinstance(level, bool):
        return cell.lower() == str(level).lower()
    if isinstance(level, str):
        return cell == level
    return _is_number(cell) and float(cell) == level


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
    description = certificate["preprocessing"]["columns"]
    rows = read_rows(Path(sys.argv[2]), model["feature_names"], description)
    for label in predict(rows, weights, model["labels"]):
        print(label)


if __name__ == "__main__":
    main()
