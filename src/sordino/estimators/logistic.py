"""`PrivateLogisticRegression`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from sordino.estimators.base import PrivateLinearClassifier
from sordino.types import Array


class PrivateLogisticRegression(PrivateLinearClassifier):
    """Logistic regression whose fitted weights are safe to publish, with the proof in `privacy_`.

    It minimises the mean logistic loss + (l2 / 2) ||w||^2 under differential privacy. Everything
    but the records is taken to be public: settings are chosen from the number of rows and columns
    and the promise, never from the data.

    Parameters
    ----------
    epsilon
        The budget. Infinity gives the exact model of the method, and no guarantee.
    delta
        Probability that the bound may fail; None means 1/rows^2, rounded down to one digit, and
        0.01 for fewer than ten rows.
    relation
        What counts as a neighbouring dataset: "replace-one", "zero-out" or "add-or-remove-one"
        (or a `Relation`). Every method is calibrated to it.
    method
        "auto" (by public facts), "objective" (noise in the objective), "noisy-gd" (noise in every
        full gradient), "dp-sgd" (in every Poisson batch), "rsgd-ar", "nsgd", "bolt-on",
        "output-gd" (noise on the final weights), "dp-agd" (adaptive steps); for comparison "none"
        (no privacy at all) and "majority".
    l2
        Weight of the regulariser, on the intercept too. "objective" and "bolt-on" may use more
        where the budget is small; `settings_` says how much.
    epochs, steps
        How long, where the method has a say: "rsgd-ar", "nsgd", "bolt-on" and "dp-sgd" take
        epochs, "output-gd", "noisy-gd", "dp-sgd" and "dp-agd" (rounds) steps. None: by a public
        rule.
    batch_size, learning_rate, average_every, max_grad_norm, accountant
        Settings of the methods that have them, None: by a public rule. `average_every` is
        RSGD-AR's interval in epochs. `accountant` is for DP-SGD: "pld", "moments" as the paper
        has it, or "best" (also the last iterate's, where there is one).
    initial_weights
        PUBLIC weights to start a descent from, such as a model of other data: one row a class (one
        alone for two classes), the intercept last. Methods that minimise have no use for them.
    data_norm
        A PUBLIC bound on the Euclidean norm of a row, the intercept's 1 included. Longer rows are
        scaled down to it, in `fit` and before every prediction. None reads it off the data, with a
        `PrivacyLeakWarning`; then no row is scaled.
    classes
        The labels there can be. None reads them off the data, with a `PrivacyLeakWarning`.
    fit_intercept
        Whether rows get a constant 1, which is scaled, regularised and protected like any feature.
    max_rows_per_person
        Rows that one person may have; all of them together are protected.
    public_rows
        A public number near the number of rows, where the relation (add-or-remove-one) keeps that
        private.
    random_state
        None draws everything from the operating system. A number makes the fit repeatable for
        experiments, with a `PrivacyLeakWarning` and without a guarantee.

    Attributes
    ----------
    coef_, intercept_, classes_
        The released model.
    privacy_
        The `Guarantee`, or None if nothing is promised.
    sigma_
        Standard deviation of the noise that protects: on each weight, each sum of gradients or
        each coefficient of a linear term, by method.
    noise_
        The same in words, and from which source the noise came.
    method_, settings_
        What was done, all of it from public facts.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sordino import PrivateLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PrivateLogisticRegression(epsilon=1.0, classes=[0, 1]).fit(X / 1000, y)
    >>> print(model.privacy_)  # doctest: +SKIP
    """

    _kind = "logistic"

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class: the logistic curve of the scores.

        Rows longer than `data_norm` are scaled down to it as in the training: the model was fitted
        to such rows, and far beyond the norm its curve would be too sure.

        With more than two classes each has a model of its own, and their probabilities are made
        to sum to 1.
        """
        return probabilities(self.decision_function(X))

    def predict_log_proba(self, X: Any) -> Array:
        """Ln of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


def probabilities(scores: Array) -> Array:
    """Of every class, [row, class], from what `decision_function` says."""
    each = expit(scores)
    if scores.ndim == 1:
        return np.column_stack([1 - each, each])
    total = each.sum(axis=1, keepdims=True)
    # Where every model says no with certainty, all classes are alike.
    return np.where(total > 0, each / np.where(total > 0, total, 1), 1 / each.shape[1])
