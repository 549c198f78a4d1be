"""Fits diffprivlib's models on the rows that lie in a directory.

    python peer_side.py DIRECTORY < JOBS > RESULTS

A job is a line of JSON, and so is a result, written as soon as it is there. It runs in an
environment of its own, whose scikit-learn is old enough for diffprivlib, and imports nothing of
this package but `judging.py`, which lies beside it.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import judging
import numpy as np
from diffprivlib.models import GaussianNB, LinearRegression, LogisticRegression


def within(X):
    """Rows with a constant 1, scaled down to norm 1: as our own are, so the 1 counts for both."""
    X = np.column_stack([X, np.ones(len(X))])
    return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))


def fitted(job, asked, X, y, seed):
    """The model, and what is to be done to rows before they are predicted."""
    common = {"epsilon": job["epsilon"], "random_state": seed}
    if job["competitor"] == "diffprivlib-nb":
        return GaussianNB(bounds=(asked["low"], 1.0), **common).fit(X, y), lambda X: X
    if job["competitor"] == "diffprivlib-linear":
        bounds = {"bounds_X": (asked["low"], 1.0), "bounds_y": tuple(asked["target"])}
        return LinearRegression(**bounds, **common).fit(X, y), lambda X: X
    model = LogisticRegression(
        data_norm=1.0000001,  # rounding may leave a row a little longer than 1
        C=1 / (asked["l2"] * len(X)),
        fit_intercept=False,
        **common,
    )
    return model.fit(within(X), y), within


def result(job, asked, X, y):
    train, test = judging.split(len(X), asked["held"], job["seed"])
    began = time.perf_counter()
    model, rows = fitted(job, asked, X[train], y[train], job["seed"])
    seconds = time.perf_counter() - began
    if not asked["classes"]:
        return {**judging.of_numbers(y[test], model.predict(rows(X[test]))), "seconds": seconds}
    probabilities = np.zeros((len(test), asked["classes"]))
    probabilities[:, model.classes_] = np.nan_to_num(model.predict_proba(rows(X[test])))
    found = judging.of_classes(y[test], probabilities, asked["classes"])
    return {**found, "seconds": seconds}


def main():
    warnings.simplefilter("ignore")
    directory = Path(sys.argv[1])
    asked = json.loads((directory / "asked.json").read_text())
    X = np.load(directory / "rows.npy").astype(np.float64)
    y = np.load(directory / "labels.npy")
    for line in sys.stdin:
        job = json.loads(line)
        try:
            found = result(job, asked, X, y)
        except Exception as error:  # a failure of a competitor is a result
            found = {"error": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
