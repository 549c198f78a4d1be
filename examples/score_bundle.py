"""Score rows with a released model, without sordino: numpy and safetensors are enough.

    python score_bundle.py BUNDLE ROWS.csv [--probabilities]      (or ROWS.csv.gz, ROWS.npy)

Prints a label a line; or, for a logistic regression, the probability of each label, as CSV with
the labels in its first line. Nothing in a bundle can run code: the certificate is JSON, the weights
are safetensors. This program checks that the weights are the certified ones and says on standard
error what is promised of them; whether that follows, `sordino certificate verify BUNDLE` computes.

Where the certificate has the public description of the table, rows are prepared by it: columns are
found by their names, and the target need not be there. A missing number counts as the middle of its
bounds; a missing or unknown level is zero in all of the level's columns. Where it has none, rows
must come prepared as they were for the training. Either way a row longer than the certificate's
data_norm (the intercept's constant 1 counted) is scaled down to it, since the training saw it so.
Where the model's file has bounds, a centre and a scale, rows are prepared by these, too.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import math
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load

MISSING = {"", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "<NA>"}
MISSING |= {"#N/A", "#NA", "-nan", "-NaN"}  # among numbers; words are taken as they stand there


def read_bundle(directory: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The certificate, and the weights that it is about."""
    certificate = json.loads((directory / "certificate.json").read_bytes())
    if (certificate["schema"], certificate["version"]) != ("sordino-certificate", 1):
        sys.exit("This program reads version 1 of sordino-certificate only.")
    weights = (directory / "model.safetensors").read_bytes()
    if hashlib.sha256(weights).hexdigest() != certificate["model"]["sha256"]:
        sys.exit("These are not the weights that the certificate is about.")
    return certificate, load(weights)


def read_rows(path: Path, model: dict[str, Any], description: str) -> np.ndarray:
    """One row a record, as the model wants them."""
    if path.suffix == ".npy":
        rows = np.load(path, allow_pickle=False)
    elif description and model["feature_names"]:
        rows = prepared(read_csv(path), description, model["feature_names"])
    else:
        rows = as_they_are(read_csv(path), model["feature_names"])
    if rows.ndim != 2 or rows.shape[1] != model["features"]:
        sys.exit(f"The model needs rows of {model['features']} numbers.")
    return rows


def read_csv(path: Path) -> list[list[str]]:
    """The cells of each line, separated by whatever splits the first line most."""
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    first = text.strip().partition("\n")[0]
    separator = max(",;\t", key=lambda each: len(next(csv.reader([first], delimiter=each))))
    read = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    lines = [[cell.strip() for cell in line] for line in read if line]
    return lines or sys.exit(f"{path} is empty.")


def columns_of(lines: list[list[str]], wanted: list[str]) -> list[list[str]]:
    """The cells of the wanted columns; the first line has the names of all."""
    header, *rows = lines
    for name in wanted:
        if header.count(name) != 1:
            sys.exit(f"The table needs one column called {name!r} and has {header.count(name)}.")
    if any(len(row) > len(header) for row in rows):
        sys.exit("The table has a row with more cells than there are names.")
    full = [row + [""] * (len(header) - len(row)) for row in rows]
    return [[row[header.index(name)] for row in full] for name in wanted]


def prepared(lines: list[list[str]], description: str, names: list[str]) -> np.ndarray:
    """Numbers between their bounds as 0 to 1, and a 0 or 1 for each level, in their order."""
    known = tomllib.loads(description)["columns"]
    used = [name for name in known if "ignore" not in known[name]]
    made: list[list[float]] = []
    for name, cells in zip(used, columns_of(lines, used), strict=True):
        if names[len(made)] != name and not names[len(made)].startswith(f"{name}="):
            sys.exit("The certificate describes other columns than its model has.")
        if "bounds" in known[name]:
            made.append(scaled(name, cells, *known[name]["bounds"]))
        else:
            made += coded(name, cells, known[name]["levels"])
    return np.array(made).T


def scaled(name: str, cells: list[str], low: float, high: float) -> list[float]:
    """A column of numbers."""
    values = [(low + high) / 2 if cell in MISSING else number(cell, name) for cell in cells]
    return [(min(max(value, low), high) - low) / (high - low) for value in values]


def coded(name: str, cells: list[str], levels: list[Any]) -> list[list[float]]:
    """A column of zeros and ones for each level."""
    keys: list[Any] = cells
    if isinstance(levels[0], bool):
        keys, levels = [cell.lower() for cell in cells], [str(level).lower() for level in levels]
    elif not isinstance(levels[0], str):
        cells = ["" if cell in MISSING else cell for cell in cells]
        keys = [number(cell) for cell in cells]
    made = [[float(key == level) for key in keys] for level in levels]
    if any(cells) and not np.any(made):
        sys.exit(f"Column {name} has none of its levels in any row. Check how they are spelled.")
    return made


def as_they_are(lines: list[list[str]], names: list[str] | None) -> np.ndarray:
    """Rows that are numbers already; a first line of names is used or skipped."""
    has_header = any(math.isnan(number(cell)) for cell in lines[0])
    if has_header and names is not None:
        if not set(names) <= set(lines[0]):
            listed = ", ".join(names[:9])
            sys.exit(f"No description of the table: prepare it as for the training ({listed}).")
        lines = [*zip(*columns_of(lines, names), strict=True)]
    print("No description of the table: rows are taken as prepared.", file=sys.stderr)
    rows = lines[has_header and names is None :]
    return np.array([[number(cell, "of these") for cell in row] for row in rows])


def number(cell: str, name: str = "") -> float:
    """The cell as a number; if it is none, NaN, or the end if a column is named."""
    try:
        value = math.nan if "_" in cell else float(cell)
    except ValueError:
        value = math.nan
    if name and not math.isfinite(value):
        sys.exit(f"Column {name} has a cell that is no finite number.")
    return value


def score(
    rows: np.ndarray, weights: dict[str, np.ndarray], certificate: dict[str, Any]
) -> np.ndarray:
    """What each linear model says of each row, scaled as in the training, with its constant."""
    rows, constant = rows.astype(np.float64), 1.0
    model, norm = certificate["model"], certificate["model"]["settings"].get("data_norm")
    if "low" in weights:  # public bounds become -1 and 1
        low, high = weights["low"], weights["high"]
        rows = 2 * (np.clip(rows, low, high) - low) / (high - low) - 1
    if "center" in weights:  # rows lie in data_norm before it, and in 1 after it
        rows = rows if norm is None else shortened(rows, norm)
        rows, norm = (rows - weights["center"]) / weights["scale"], 1.0
        constant = float(weights["constant"][0])
    wide = np.column_stack([rows, np.full(len(rows), constant)])
    if norm is not None and certificate["method"] != "majority":  # which looks at no row
        counted = wide if model["intercept"] else wide[:, :-1]
        counted[:] = shortened(counted, norm)
    if not model["intercept"]:
        wide[:, -1] = 1.0
    return wide @ np.column_stack([weights["coef"], weights["intercept"]]).T


def shortened(rows: np.ndarray, norm: float) -> np.ndarray:
    """Rows, each longer one scaled down to the norm."""
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=1e-150)  # squares overflow
    lengths = np.linalg.norm(rows / largest, axis=1, keepdims=True)
    scaled = rows / largest * (norm / np.maximum(lengths, 1))
    return np.where(lengths > norm / largest, scaled, rows)


def predict(scores: np.ndarray, labels: list[Any]) -> list[Any]:
    """The most likely label of each row."""
    chosen = (scores[:, 0] > 0).astype(int) if len(labels) == 2 else scores.argmax(axis=1)
    return [labels[each] for each in chosen]


def numbers(
    rows: np.ndarray, weights: dict[str, np.ndarray], certificate: dict[str, Any]
) -> np.ndarray:
    """What a regression predicts: scores around the middle of its bounds, cut to these."""
    model = certificate["model"]
    low, high = model["settings"].get("target_bounds") or (-math.inf, math.inf)
    middle = (low + high) / 2 if model["intercept"] and math.isfinite(low) else 0.0
    moved = {**weights, "intercept": weights["intercept"] - middle}
    return np.clip(score(rows, moved, certificate)[:, 0] + middle, low, high)


def probabilities(scores: np.ndarray, labels: list[Any], *, softmax: bool = False) -> np.ndarray:
    """Of each label; several models, each against the rest, are made to sum to 1."""
    if softmax:
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
    each = np.exp(-np.logaddexp(0, -scores))
    if len(labels) == 2:
        return np.column_stack([1 - each, each])
    total = each.sum(axis=1, keepdims=True)
    return np.where(total > 0, each / np.where(total > 0, total, 1), 1 / len(labels))


def main() -> None:
    """Print the promise to standard error; then labels, or how likely they are."""
    if {"-h", "--help"} & set(sys.argv):
        print(__doc__)
        return
    files = [each for each in sys.argv[1:] if each != "--probabilities"]
    if len(files) != 2:
        print("Usage: score_bundle.py BUNDLE ROWS.csv; --help says more.", file=sys.stderr)
        sys.exit(2)
    certificate, weights = read_bundle(Path(files[0]))
    promise, model = certificate["guarantee"], certificate["model"]
    asked_how_likely = "--probabilities" in sys.argv
    if asked_how_likely and model["estimator"] != "PrivateLogisticRegression":
        sys.exit(f"A {model['estimator']} has no probabilities.")
    rows = read_rows(Path(files[1]), model, certificate["preprocessing"]["columns"])
    if promise is None:
        print(f"NOTHING IS PROMISED: {certificate['why_none']}", file=sys.stderr)
    else:
        claimed = f"epsilon = {promise['epsilon']} at delta = {promise['delta']}"
        print(f"{claimed}, {promise['relation']}, for {promise['unit']}", file=sys.stderr)
    if not model["labels"]:  # a regression
        print(*numbers(rows, weights, certificate).tolist(), sep="\n")
        return
    scores, labels = score(rows, weights, certificate), model["labels"]
    if asked_how_likely:
        write = csv.writer(sys.stdout, lineterminator="\n")
        softmax = model["settings"].get("multi_class") == "softmax"
        write.writerows([labels, *probabilities(scores, labels, softmax=softmax).tolist()])
    else:
        print(*predict(scores, labels), sep="\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # whoever read the labels has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, LookupError, EOFError, csv.Error) as error:
        sys.exit(f"This cannot be read: {error or type(error).__name__}.")
