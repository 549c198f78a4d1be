"""Which rows are held out, and how a fitted model is judged on them.

Imported by this package and, as a plain file, by `peer_side.py` in another environment: so that
everybody has the same splits and the same scores. It needs numpy and scikit-learn alone.
"""

import numpy as np
from sklearn import metrics


def split(rows, held, seed):
    """Positions of (training, held-out) rows: a fresh split for every seed."""
    order = np.random.default_rng(seed).permutation(rows)
    cut = max(1, round(held * rows))
    return order[cut:], order[:cut]


def of_classes(y, probabilities, classes):
    """Accuracy and log-loss; of two classes also the area under the ROC curve."""
    probabilities = np.clip(probabilities, 1e-12, 1)
    probabilities = probabilities / probabilities.sum(axis=1, keepdims=True)
    found = {
        "accuracy": float((probabilities.argmax(axis=1) == y).mean()),
        "log_loss": float(-np.log(probabilities[np.arange(len(y)), y]).mean()),
    }
    if classes == 2 and 0 < y.sum() < len(y):
        found["auc"] = float(metrics.roc_auc_score(y, probabilities[:, 1]))
    return found


def of_numbers(y, predicted):
    """R2 and root mean squared error."""
    error = float(np.sqrt(((predicted - y) ** 2).mean()))
    return {"r2": float(metrics.r2_score(y, predicted)), "rmse": error}
