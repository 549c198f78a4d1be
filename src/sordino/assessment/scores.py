"""How good a model's labels, ranking and probabilities are on held-out rows, beside its accuracy.

INTERNAL, as accuracies are: computed from records, and no guarantee covers them.
"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import log_loss, recall_score, roc_auc_score

from sordino.estimators.classifiers import probabilities
from sordino.report.stages import CALIBRATION_BINS, Scores
from sordino.types import Floats, Ints


def of_decisions(codes: Ints, decisions: Floats, *, probable: bool) -> Scores:
    """Of a model that says `decisions` of rows with these classes.

    Parameters
    ----------
    codes
        Number of each row's class; -1 for one that training did not know.
    decisions
        [row] for two classes, above 0 for the second; else [row, class], the largest is chosen.
    probable
        Whether the logistic curve of a decision is the model's probability.
    """
    if not np.isfinite(decisions).all():  # a model that diverged
        return Scores()
    by_class = np.column_stack([-decisions, decisions]) if decisions.ndim == 1 else decisions
    chosen = (decisions > 0).astype(np.int64) if decisions.ndim == 1 else decisions.argmax(axis=1)
    return Scores(
        balanced_accuracy=_balanced(codes, chosen),
        auc=_auc(codes, by_class),
        **(_of_probabilities(codes, probabilities(decisions)) if probable else {}),
    )


def of_constant(codes: Ints, shares: Floats) -> Scores:
    """Of always saying the most frequent class, and every class with its share of the training."""
    said = np.tile(shares, (len(codes), 1))
    return Scores(
        balanced_accuracy=_balanced(codes, said.argmax(axis=1)),
        auc=_auc(codes, said),
        **_of_probabilities(codes, said),
    )


def _balanced(codes: Ints, chosen: Ints) -> float | None:
    """Mean over the classes of the share of its rows that are labelled so."""
    present = np.unique(codes)
    if len(present) < 2:
        return None
    return float(recall_score(codes, chosen, labels=present, average="macro", zero_division=0.0))


def _auc(codes: Ints, by_class: Floats) -> float | None:
    """Each class against the rest, their mean; of two classes both are the same."""
    many = by_class.shape[1]
    if len(np.unique(codes)) < many or (codes < 0).any():
        return None
    return float(np.mean([roc_auc_score(codes == k, by_class[:, k]) for k in range(many)]))


def _of_probabilities(codes: Ints, said: Floats) -> dict[str, float | None]:
    if len(np.unique(codes)) < 2 or (codes < 0).any():
        return {}
    return {
        "log_loss": float(log_loss(codes, said, labels=range(said.shape[1]))),
        "calibration_error": _calibration_error(codes, said),
    }


def _calibration_error(codes: Ints, said: Floats) -> float:
    """How far probabilities lie from shares, over bins of equal width, weighted by their rows.

    Of the second of two classes, else of the class that is chosen.
    """
    two = said.shape[1] == 2
    sure = said[:, 1] if two else said.max(axis=1)
    right = codes == (1 if two else said.argmax(axis=1))
    place = np.minimum((sure * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    return float(np.abs(np.bincount(place, sure - right)).sum() / len(codes))
