"""Fits diffprivlib's logistic regression on folds that lie in a directory.

    python peer_side.py DIRECTORY OUT

It runs in an environment of its own, whose scikit-learn is old enough for diffprivlib, and imports
nothing of this package.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from diffprivlib.models import LogisticRegression


def objective(rows, labels, weights, l2):
    margins = (2 * labels - 1) * (rows @ weights)
    return float(np.logaddexp(0, -margins).mean() + l2 / 2 * weights @ weights)


def main():
    warnings.simplefilter("ignore")
    directory, out = Path(sys.argv[1]), Path(sys.argv[2])
    asked = json.loads((directory / "asked.json").read_text())
    rows = np.load(directory / "rows.npy").astype(np.float64)
    labels = np.load(directory / "labels.npy")
    splits = np.load(directory / "splits.npz")
    found = []
    for fold in range(asked["folds"]):
        train, test = splits[f"train{fold}"], splits[f"test{fold}"]
        found.append([])
        for epsilon in asked["epsilons"]:
            # The rows carry their 1 already, so that it counts in the norm as it does for us.
            fitted = LogisticRegression(
                epsilon=epsilon,
                data_norm=1.0000001,  # float32 rows may exceed 1 by rounding
                C=1 / (asked["l2"] * len(train)),
                fit_intercept=False,
                random_state=asked["seed"] + fold,
            ).fit(rows[train], labels[train])
            accuracy = float((fitted.predict(rows[test]) == labels[test]).mean())
            value = objective(rows[train], labels[train], fitted.coef_[0], asked["l2"])
            found[-1].append([accuracy, value])
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
