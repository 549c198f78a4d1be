"""`PrivatePCA`: directions of the most variance, of a second-moment matrix that carries noise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from sordino import checks
from sordino.estimators import preparation, rules
from sordino.estimators.methods.statistics import Sums
from sordino.estimators.preparation import scale_down
from sordino.estimators.transformers.transformer import BoundedRows, PrivateTransformer
from sordino.privacy import Relation
from sordino.proofs.prepared import MEAN, MOMENTS
from sordino.proofs.settings import NONE, PRIVATE, PUBLIC
from sordino.types import Array, Floats

_SMALLEST = 1e-6
"""Mean square that counts as none, of a squared norm: where no noise says more."""


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, PrivateTransformer):  # type: ignore[misc]
    """Project rows on directions of the most variance that are safe to publish.

    A Gaussian mechanism on the sum of x x^T, for rows x around a centre and within a norm R
    ("analyze Gauss": Dwork, Talwar, Thakurta & Zhang 2014). As a vector with entries off the
    diagonal times sqrt(2), one record moves it by at most sqrt(2) R^2 under replace-one, by R^2
    under the other relations. Its eigenvectors are computed from that alone, and cost nothing.

    The noise on the matrix has a norm of about sigma sqrt(columns): directions along which rows
    vary less, summed over all of them, are lost in it. Few columns and many rows do best.

    Parameters
    ----------
    n_components
        How many directions.
    epsilon, delta, relation, bounds, data_norm
        As in `PrivateStandardScaler`.
    center
        "private" (a noisy mean, for 15 % of the squared budget), "none", or PUBLIC numbers, one a
        column, in the units of the rows. Rows around it are scaled down to `data_norm` again.
    whiten
        Whether components are divided by the root of their mean squares: then all count alike.
        None is divided by less than what the noise hides.
    max_rows_per_person, public_rows, random_state
        As in `PrivateLogisticRegression`.

    Attributes
    ----------
    components_
        Orthonormal directions [component, column], of columns within their bounds, if there are
        any.
    explained_variance_
        Mean squares of the rows along them, as the released matrix has them, none below 0.
    mean_
        The centre, in the units of the rows as they are passed.
    privacy_, noise_, evidence_
        As in `PrivateStandardScaler`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sordino import PrivatePCA
    >>> X, _ = load_digits(return_X_y=True)
    >>> pca = PrivatePCA(8, epsilon=1.0, bounds=(0, 16)).fit(X)
    >>> pca.privacy_.epsilon <= 1.0, pca.transform(X).shape
    (True, (1797, 8))
    """

    n_components: int
    center: Any
    whiten: bool
    components_: Floats
    explained_variance_: Floats
    mean_: Floats
    _lengths: Floats | None

    def __init__(
        self,
        n_components: int,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        relation: Relation | str = "replace-one",
        bounds: Any = None,
        center: Any = "private",
        data_norm: float | str = "auto",
        whiten: bool = False,
        max_rows_per_person: int = 1,
        public_rows: int | None = None,
        random_state: Any = None,
    ) -> None:
        self._keep_parameters(locals())

    def _check_promise(self) -> None:
        super()._check_promise()
        checks.whole("n_components", self.n_components, at_least=1)
        checks.flag("whiten", self.whiten)
        self._how()

    def _how(self) -> str:
        """How the centre is found: "private", "none" or "public"."""
        if isinstance(self.center, str):
            return checks.one_of("center", self.center, (PRIVATE, NONE))
        return preparation.chosen("center", self.center)

    def _shares(self, columns: int) -> dict[str, float]:
        wanted = f"<= {columns}, the number of columns"
        if self.n_components > columns:
            checks.fail("n_components", self.n_components, wanted)
        if self._how() != PRIVATE:
            return {MOMENTS: 1.0}
        return {MEAN: rules.CENTER_SHARE, MOMENTS: 1 - rules.CENTER_SHARE}

    def _learn(self, records: BoundedRows) -> dict[str, Any]:
        plan, coordinates = records.plan, records.coordinates
        center = np.zeros(plan.asked.features)
        if self._how() == PRIVATE:
            center = records.center(MEAN)
        elif self._how() == PUBLIC:
            numbers = preparation.public_numbers("center", self.center, plan.asked.features)
            known = coordinates.with_public("center", numbers).center
            center = center if known is None else known
        moments = released_moments(records, center)
        values, vectors = np.linalg.eigh(moments)
        order = np.argsort(values)[::-1][: int(self.n_components)]
        components = vectors[:, order].T
        largest = components[np.arange(len(order)), np.abs(components).argmax(axis=1)]
        variance = np.maximum(values[order], 0.0) / plan.rows
        hidden = records.sigma(MOMENTS) * math.sqrt(len(center)) / plan.rows
        smallest = max(hidden, _SMALLEST * plan.asked.norm**2)
        return {
            "components_": components * np.where(largest < 0, -1.0, 1.0)[:, None],
            "explained_variance_": variance,
            "_lengths": np.sqrt(np.maximum(variance, smallest)) if self.whiten else None,
            "mean_": coordinates.from_place(center),
            "_coordinates": replace(coordinates, center=center, scale=np.ones_like(center)),
        }

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _of(self, X: Array) -> Array:
        along = super()._of(X) @ self.components_.T
        return np.asarray(along if self._lengths is None else along / self._lengths)


def second_moments(rows: Array, center: Floats, norm: float, count: int) -> Floats:
    """The sum of x x^T of rows around a centre, each scaled down to the norm; exact.

    Entries of rows are cut to a public grid first, so that no product and no sum is rounded: what
    one record adds is the same whatever the others are.
    """
    around = np.asarray(rows - center, dtype=rows.dtype)
    scale_down(around, norm)
    return Sums.of(around, np.zeros(len(around)), norm, count).squares


def released_moments(records: BoundedRows, center: Floats) -> Floats:
    """The sum of x x^T with its noise: one mechanism, released in two parts of its vector.

    Off the diagonal an entry stands for sqrt(2) times itself in the vector: with noise of sigma
    there, and divided by sqrt(2) again, it carries sigma / sqrt(2).
    """
    asked, plan = records.plan.asked, records.plan
    exact = second_moments(records.rows, center, asked.norm_of(MOMENTS), plan.rows)
    above = np.triu_indices(len(exact), 1)
    noisy = np.zeros_like(exact)
    if len(above[0]):
        noisy[above] = records.released(MOMENTS, exact[above], 1 / math.sqrt(2))
    noisy += noisy.T
    noisy[np.diag_indices(len(exact))] = records.released(MOMENTS, np.diag(exact))
    return noisy
