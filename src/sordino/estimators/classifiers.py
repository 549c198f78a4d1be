"""`PrivateLogisticRegression` and `PrivateLinearSVC`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from sordino import checks
from sordino.estimators import inputs, methods, tables
from sordino.estimators.fit import PlannedFit
from sordino.estimators.inputs import unquoted
from sordino.estimators.leaks import warn_of_leak
from sordino.estimators.model import PrivateLinearModel
from sordino.estimators.weights import by_label
from sordino.privacy import Relation
from sordino.release.certificate import CLASSES_READ, Model
from sordino.types import Array


class PrivateLinearClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """Fit a linear model of bounded rows and release it, once, under a proved guarantee."""

    _methods = methods.NAMES
    classes_: Array
    coef_: Array
    intercept_: Array

    # Labels -------------------------------------------------------------------------------

    def _check_targets(self, y: Any) -> Array:
        labels: Array = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        return labels

    def _codes_of(self, y: Array) -> tuple[Array, npt.NDArray[Any]]:
        """The classes, and the place of each label among them."""
        if self.classes is not None:
            classes = inputs.public_classes(self.classes)
            return classes, inputs.class_codes(y, classes)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            checks.fail("y", f"[{len(y)} labels]", "to hold more than one class")
        warn_of_leak("the classes were read off the labels; pass them as classes=[...] (--classes)")
        return classes, codes.astype(np.int64)

    def _public_codes(self, y: Array, classes: Array) -> npt.NDArray[Any]:
        return inputs.class_codes(y, classes)

    def _read_off(self) -> tuple[str, ...]:
        return () if self.classes is not None else (CLASSES_READ,)

    def _keep_weights(self, planned: PlannedFit, coef: Array, intercept: Array) -> None:
        self.classes_, self.coef_, self.intercept_ = planned.classes, coef, intercept

    def _restore(self, model: Model, coef: Array, intercept: Array) -> None:
        self.classes_, self.coef_, self.intercept_ = model.classes(), coef, intercept
        self.class_weight = by_label(self.class_weight, self.classes_)
        self.base_rates = by_label(self.base_rates, self.classes_)

    # Predicting ---------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """Score of each row: for two classes one number, above 0 for the second of `classes_`.

        Rows longer than `data_norm` are scaled down to it as in the training. Where the certificate
        describes the columns, `X` may be a raw table of these, too (`estimators.tables`).
        """
        check_is_fitted(self)
        with unquoted(X):
            X = validate_data(self, tables.encoded(X, self), reset=False, **inputs.ACCEPTED)
        scores = self._scaling.scores(X, self.coef_, self.intercept_)
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """The most likely class of each row."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy of `predict(X)` against the labels `y`."""
        with unquoted((), y):  # `predict` looks at the rows
            return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # A budget of 1 on a few dozen records, as scikit-learn's checks have them, is mostly noise.
        tags.classifier_tags.poor_score = True
        return tags


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
    target
        Instead of epsilon what an attacker may gain at most: "advantage<=0.05" (membership guessed
        so much better than by chance), "detection<=0.02@0.01" (a record found out, at that rate of
        false alarms) or "reconstruction<=0.05@0.01" (a secret guessed, of that chance without the
        model). Epsilon at delta follows from it (docs/accounting.md).
    relation
        What counts as a neighbouring dataset: "replace-one", "zero-out" or "add-or-remove-one"
        (or a `Relation`). Every method is calibrated to it.
    method
        "auto" (by public facts), "objective" (noise in the objective), "noisy-gd" (noise in every
        full gradient), "dp-sgd" (in every Poisson batch), "rsgd-ar", "nsgd", "bolt-on",
        "output-gd" (noise on the final weights), "dp-agd" (adaptive steps); for comparison "none"
        (no privacy at all) and "majority".
    l2
        Weight of the regulariser, on the intercept too. None: 0.001, and none for descents on
        centred rows, whose length is a regulariser. "objective" and "bolt-on" may use more where
        the budget is small; `settings_` says how much.
    epochs, steps
        How long, where the method has a say: "rsgd-ar", "nsgd", "bolt-on" and "dp-sgd" take
        epochs, "output-gd", "noisy-gd", "dp-sgd" and "dp-agd" (rounds) steps. None: by a public
        rule.
    batch_size, learning_rate, average_every, max_grad_norm, accountant, sampling
        Settings of the methods that have them, None: by a public rule. `average_every` is
        RSGD-AR's interval in epochs. `accountant` is for DP-SGD: "pld", "moments" as the paper
        has it, or "best" (also the last iterate's, where there is one). So is `sampling`: None or
        "poisson" draws every batch anew, "allocation" meets each row once an epoch, which needs
        less noise (docs/accounting.md).
    initial_weights
        PUBLIC weights to start a descent from, such as a model of other data: one row a class (one
        alone for two classes), the intercept last. Methods that minimise have no use for them.
    public
        A PUBLIC table (X, y) of the same columns, which holds none of the protected rows: its mean
        is the centre, its deviations the scale where `scale="public"`, and a descent starts at
        weights that fit it. (X, None) gives no start.
    data_norm
        A PUBLIC bound on the Euclidean norm of a row, the intercept's 1 included unless rows get a
        centre. Longer rows are scaled down to it, in `fit` and before every prediction. "auto" is
        1, and with bounds what follows from these. None reads it off the data, with a
        `PrivacyLeakWarning`; then no row is scaled.
    bounds
        PUBLIC (low, high), numbers or one a column: columns are clipped to them and mapped to
        [-1, 1], in `fit` and before every prediction. None leaves columns as they are.
    center
        What is subtracted from rows: "private", their mean, released with noise for a public share
        of the budget, all of it inside the promise; PUBLIC numbers, one a column of `X`; "public",
        the mean of the table `public`; or "none".
        "auto" is "private" with bounds where a public rule says that it pays. Rows with a centre
        get a smaller constant, and are scaled down to norm 1 after it.
    scale
        What columns are divided by after that: "private", noisy standard deviations around the
        centre; PUBLIC numbers, one a column of `X`; "public", deviations of the table `public`; or
        "none", which is what "auto" stands for.
    classes
        The labels there can be. None reads them off the data, with a `PrivacyLeakWarning`.
    multi_class
        How more than two classes are told apart. "softmax" trains one model, in which a record
        counts sqrt(2) times; "one-vs-rest" one a class, together sqrt(classes) times. None or
        "auto": "softmax", but for "objective" and "dp-agd", of which no theorem covers it.
    class_weight, base_rates
        PUBLIC weights of classes, {label: number} (1 for a label that is not named), or "balanced":
        1 / base rate, of PUBLIC shares {label: number}. Losses are divided by the largest weight,
        so no noise is added for them; but where most rows weigh little, they drown in it sooner.
    max_sample_weight
        A PUBLIC number that `sample_weight` counts as where it is above. Losses are divided by it.
    fit_intercept
        Whether rows get a constant 1, which is scaled, regularised and protected like any feature.
    max_rows_per_person
        Rows that one person may have; all of them together are protected. `fit(X, y, persons=ids)`
        makes sure that nobody has more.
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
    >>> model.privacy_.epsilon <= 1.0, model.coef_.shape
    (True, (1, 30))
    """

    _kind = "logistic"

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class: the logistic curve of the score, or the softmax of all.

        Rows longer than `data_norm` are scaled down to it as in the training: the model was fitted
        to such rows, and far beyond the norm its curve would be too sure.

        One against the rest, each class has a model of its own, and their probabilities are made
        to sum to 1.
        """
        return probabilities(self.decision_function(X), joint=self._joint)

    def predict_log_proba(self, X: Any) -> Array:
        """Ln of `predict_proba`; of a softmax without rounding probabilities to 0 first."""
        if getattr(self, "_joint", False):
            return np.asarray(log_softmax(self.decision_function(X), axis=1))
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


def probabilities(scores: Array, *, joint: bool = False) -> Array:
    """Of every class, [row, class], from what `decision_function` says; `joint`: of a softmax."""
    if joint:
        return np.asarray(softmax(scores, axis=1))
    each = expit(scores)
    if scores.ndim == 1:
        return np.column_stack([1 - each, each])
    total = each.sum(axis=1, keepdims=True)
    # Where every model says no with certainty, all classes are alike.
    return np.where(total > 0, each / np.where(total > 0, total, 1), 1 / each.shape[1])


class PrivateLinearSVC(PrivateLinearClassifier):
    """Linear support vector machine whose fitted weights are safe to publish.

    The hinge is rounded (Huber) over a width of 2 `huber_width` around its corner, since every
    theorem here needs a smooth loss. All else is as in `PrivateLogisticRegression`, which see.

    Parameters
    ----------
    epsilon, delta, target, relation, method, l2, epochs, steps, batch_size, learning_rate,
    average_every, max_grad_norm, accountant, sampling, initial_weights, public, data_norm, bounds,
    center, scale, classes, class_weight, base_rates, max_sample_weight, fit_intercept,
    max_rows_per_person, public_rows, random_state
        As in `PrivateLogisticRegression`.
    huber_width
        Half the width over which the hinge is rounded; the paper has 0.5.

    Attributes
    ----------
    coef_, intercept_, classes_, privacy_, sigma_, noise_, method_, settings_
        As in `PrivateLogisticRegression`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sordino import PrivateLinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> PrivateLinearSVC(epsilon=1.0, classes=[0, 1]).preview(X / 1000, y).released
    'final'
    """

    _kind = "huber-svm"
    huber_width: float

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        target: str | None = None,
        relation: Relation | str = "replace-one",
        method: str = "auto",
        l2: float | None = None,
        epochs: int | None = None,
        steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        average_every: int | None = None,
        max_grad_norm: float | None = None,
        accountant: str | None = None,
        sampling: str | None = None,
        initial_weights: Any = None,
        public: Any = None,
        data_norm: float | str | None = "auto",
        bounds: Any = None,
        center: Any = "auto",
        scale: Any = "auto",
        classes: Any = None,
        class_weight: Any = None,
        base_rates: Any = None,
        max_sample_weight: float | None = None,
        fit_intercept: bool = True,
        max_rows_per_person: int = 1,
        public_rows: int | None = None,
        huber_width: float = 0.5,
        random_state: Any = None,
    ) -> None:
        self._keep_parameters(locals())

    def _huber_width(self) -> float:
        return checks.positive("huber_width", self.huber_width, "The paper has 0.5.")
