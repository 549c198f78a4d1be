"""`PrivateRidge` and `PrivateLinearRegression`: numbers predicted, under a proved guarantee."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from sordino import checks
from sordino.errors import InvalidArgument
from sordino.estimators import inputs, methods, tables
from sordino.estimators.fit import PlannedFit
from sordino.estimators.inputs import unquoted
from sordino.estimators.leaks import warn_of_leak
from sordino.estimators.model import PrivateLinearModel
from sordino.privacy import Relation
from sordino.proofs.settings import LEAST_SQUARES, target_bounds
from sordino.release.certificate import CertificateError, Model
from sordino.types import Array, Floats

_MOST_TARGET = 1e30
"""Where bounds are read off them, targets beyond this are refused, as public bounds are."""


class PrivateRidge(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Ridge regression whose fitted weights are safe to publish, with the proof in `privacy_`.

    It minimises the mean of (w.x - t)^2 / 2 + (l2 / 2) ||w||^2 under differential privacy, where t
    is the target mapped to [-1, 1] by its public bounds. Everything but the records is taken to be
    public: settings are chosen from the number of rows and columns and the promise, never from the
    data.

    Parameters
    ----------
    epsilon
        The budget. Infinity gives the exact model, and no guarantee.
    delta
        Probability that the bound may fail; None means 1/rows^2, rounded down to one digit, and
        0.01 for fewer than ten rows.
    target
        Instead of epsilon what an attacker may gain at most, as in `PrivateLogisticRegression`. (It
        is a risk; what is predicted is `y` of `fit`.)
    relation
        What counts as a neighbouring dataset: "replace-one", "zero-out" or "add-or-remove-one"
        (or a `Relation`).
    method
        "auto" (by public facts), "statistics" (noise on the sums of x x^T and y x, from which the
        weights are solved), "noisy-gd" (noise in every full gradient; each is clipped, so that
        residuals far off count for less), or for comparison "none" (no privacy at all).
    l2
        Weight of the regulariser, on the intercept too. "statistics" uses more where its noise asks
        for it; `settings_` says how much.
    steps, learning_rate, max_grad_norm
        Settings of "noisy-gd"; None: by a public rule. The clip is at most `data_norm`, which is
        the gradient of a residual of half the width of the bounds.
    public, data_norm, bounds, center, scale
        As in `PrivateLogisticRegression`; the start is for "noisy-gd". With bounds "auto" is a
        private centre where there are many rows, else the public middle of the bounds.
    target_bounds
        PUBLIC bounds (low, high) on what is predicted. Targets outside are cut to them, how many
        stays private, and so are predictions. None reads the largest target off the data, with a
        `PrivacyLeakWarning` and without a guarantee; then no prediction is cut.
    max_sample_weight
        A PUBLIC number that `sample_weight` of `fit` counts as where it is above. Squares are
        multiplied by weight / bound, so no noise is added for them.
    fit_intercept
        Whether rows get a constant 1, which is scaled, regularised and protected like any feature.
        Without it predictions of rows of zeros are 0, and the bounds count by the farther of them.
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
    coef_, intercept_
        The released model: one weight a column, and a number. Rows within `data_norm` are predicted
        as `X @ coef_ + intercept_`, cut to the bounds; with `bounds` or a centre, rows in these.
    privacy_, sigma_, noise_, method_, settings_
        As in `PrivateLogisticRegression`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sordino import PrivateRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PrivateRidge(epsilon=1.0, target_bounds=(0, 400)).fit(X / 0.2, y)
    >>> model.privacy_.epsilon <= 1.0, model.coef_.shape
    (True, (10,))
    """

    _kind = LEAST_SQUARES
    _methods = ("auto", *methods.REGRESSION)
    classes = None
    initial_weights = None
    target_bounds: Any
    coef_: Floats
    intercept_: float

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        target: str | None = None,
        relation: Relation | str = "replace-one",
        method: str = "auto",
        l2: float = 0.001,
        steps: int | None = None,
        learning_rate: float | None = None,
        max_grad_norm: float | None = None,
        public: Any = None,
        data_norm: float | str | None = "auto",
        bounds: Any = None,
        center: Any = "auto",
        scale: Any = "auto",
        target_bounds: Any = None,
        max_sample_weight: float | None = None,
        fit_intercept: bool = True,
        max_rows_per_person: int = 1,
        public_rows: int | None = None,
        random_state: Any = None,
    ) -> None:
        self._keep_parameters(locals())

    # What is asked ------------------------------------------------------------------------

    def _check_promise(self) -> None:
        super()._check_promise()
        if self.target_bounds is not None:
            target_bounds(self.target_bounds)

    def _why_none(self) -> str:
        if why := super()._why_none():
            return why
        if self.target_bounds is None:
            return "target_bounds was read off the targets, and they are told by the model"
        return ""

    def _check_targets(self, y: Any) -> Array:
        return inputs.targets(column_or_1d(y, warn=True))

    def _codes_of(self, y: Array) -> tuple[Array, npt.NDArray[Any]]:
        """No classes, and the targets in [-1, 1]; how many were cut stays private."""
        if self.target_bounds is None:
            warn_of_leak(
                "target_bounds was read off the targets: no guarantee; pass bounds you know"
            )
            half = float(np.abs(y).max(initial=0.0)) or 1.0
            if not half < _MOST_TARGET:
                checks.fail("y", "[...]", f"to be below {_MOST_TARGET:g} in size")
            self._middle_and_half = 0.0, half
        else:
            self._middle_and_half = self._by_bounds()
        middle, half = self._middle_and_half
        return np.empty(0), np.clip((y - middle) / half, -1.0, 1.0)

    def _public_codes(self, y: Array, classes: Array) -> npt.NDArray[Any]:
        middle, half = self._middle_and_half
        return np.clip((y - middle) / half, -1.0, 1.0)

    def _by_bounds(self) -> tuple[float, float]:
        """What 0 and 1 stand for among mapped targets. Without an intercept 0 has to be 0."""
        low, high = target_bounds(self.target_bounds)
        if self.fit_intercept:
            return low + (high - low) / 2, (high - low) / 2
        return 0.0, max(abs(low), abs(high))

    def _described(self, classes: Array, weights: bytes = b"") -> Model:
        made = super()._described(classes, weights)
        if self.target_bounds is None:
            return made
        settings = {**made.settings, "target_bounds": target_bounds(self.target_bounds)}
        return replace(made, settings=settings)

    # What is released ---------------------------------------------------------------------

    def _keep_weights(self, planned: PlannedFit, coef: Array, intercept: Array) -> None:
        middle, half = self._middle_and_half
        self.coef_ = coef[0] * half
        self.intercept_ = float(intercept[0]) * half + middle
        self._bounds = self._cut_to()

    def _restore(self, model: Model, coef: Array, intercept: Array) -> None:
        self.coef_, self.intercept_ = coef[0], float(intercept[0])
        given = model.settings.get("target_bounds")
        try:
            self._middle_and_half = (0.0, 1.0) if given is None else self._by_bounds()
            self._bounds = self._cut_to()
        except InvalidArgument as error:
            raise CertificateError(f"The certificate cannot be right: {error}") from error

    def _cut_to(self) -> tuple[float, float] | None:
        return None if self.target_bounds is None else target_bounds(self.target_bounds)

    # Predicting ---------------------------------------------------------------------------

    def predict(self, X: Any) -> Floats:
        """The number of each row, cut to `target_bounds`.

        Rows longer than `data_norm` are scaled down to it as in the training. Where the certificate
        describes the columns, `X` may be a raw table of these, too (`estimators.tables`).
        """
        check_is_fitted(self)
        with unquoted(X):
            X = validate_data(self, tables.encoded(X, self), reset=False, **inputs.ACCEPTED)
        middle, _ = self._middle_and_half
        weights = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_ - middle)
        found = self._scaling.scores(X, *weights).ravel() + middle
        return found if self._bounds is None else np.clip(found, *self._bounds)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 of `predict(X)` for the targets `y`: 1 is perfect, 0 is as good as their mean."""
        with unquoted((), y):  # `predict` looks at the rows
            return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # A budget of 1 on a few dozen records, as scikit-learn's checks have them, is mostly noise.
        tags.regressor_tags.poor_score = True
        return tags


class PrivateLinearRegression(PrivateRidge):
    """Linear regression whose fitted weights are safe to publish: `PrivateRidge` with l2 = 0.

    No more is added to the squares than the noise asks for. All else is as in `PrivateRidge`,
    which see.

    Parameters
    ----------
    epsilon, delta, target, relation, method, l2, steps, learning_rate, max_grad_norm, public,
    data_norm, bounds, center, scale, target_bounds, max_sample_weight, fit_intercept,
    max_rows_per_person, public_rows, random_state
        As in `PrivateRidge`.

    Attributes
    ----------
    coef_, intercept_, privacy_, sigma_, noise_, method_, settings_
        As in `PrivateRidge`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sordino import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> PrivateLinearRegression(target_bounds=(0, 400)).preview(X / 0.2, y).released
    'all'
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        target: str | None = None,
        relation: Relation | str = "replace-one",
        method: str = "auto",
        l2: float = 0.0,
        steps: int | None = None,
        learning_rate: float | None = None,
        max_grad_norm: float | None = None,
        public: Any = None,
        data_norm: float | str | None = "auto",
        bounds: Any = None,
        center: Any = "auto",
        scale: Any = "auto",
        target_bounds: Any = None,
        max_sample_weight: float | None = None,
        fit_intercept: bool = True,
        max_rows_per_person: int = 1,
        public_rows: int | None = None,
        random_state: Any = None,
    ) -> None:
        self._keep_parameters(locals())
