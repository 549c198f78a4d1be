"""`PrivateStandardScaler`: columns of mean 0 and deviation 1, by a noisy mean and noisy squares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin

from sordino import checks
from sordino.estimators import preparation
from sordino.estimators.transformers.transformer import BoundedRows, PrivateTransformer
from sordino.privacy import Relation
from sordino.proofs.prepared import MEAN, SQUARES
from sordino.types import Floats


class PrivateStandardScaler(OneToOneFeatureMixin, PrivateTransformer):  # type: ignore[misc]
    """Centre and scale columns by a mean and deviations that are safe to publish.

    Two Gaussian mechanisms, each with half of the squared budget: on the sum of rows, and on the
    sum of squares of rows around the released mean, scaled down to half of `data_norm`. Under
    replace-one a record moves the first by 2 R and the second by sqrt(2) (R / 2)^2, exactly.

    Parameters
    ----------
    epsilon, delta
        The promise; delta None means 1/rows^2, rounded down to one digit. Infinity adds no noise
        and promises nothing.
    relation
        "replace-one", "zero-out" or "add-or-remove-one" (or a `Relation`).
    bounds
        PUBLIC (low, high), numbers or one a column: columns are clipped to them, and count by their
        place between them, so that no column drowns in another's noise.
    data_norm
        A PUBLIC bound on the Euclidean norm of a row, after the bounds, which make every column
        one from -1 to 1. Longer rows are scaled down to it. "auto": what the bounds allow, or 1.
    with_mean, with_std
        Whether rows are centred, and whether they are scaled. Deviations are around the mean, so it
        is released for both.
    max_rows_per_person, public_rows, random_state
        As in `PrivateLogisticRegression`.

    Attributes
    ----------
    mean_, scale_, var_
        In the units of the rows as they are passed; None where not asked for. No deviation is
        below what the noise hides.
    privacy_
        The `Guarantee` of this fit alone; None if nothing is promised. `sordino.certify` adds up
        those of a pipeline.
    noise_, evidence_
        How much noise was added to what, in words and as numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sordino import PrivateStandardScaler
    >>> X, _ = load_iris(return_X_y=True)
    >>> scaler = PrivateStandardScaler(epsilon=0.5, bounds=(0, 8)).fit(X)
    >>> scaler.privacy_.epsilon <= 0.5, scaler.transform(X).shape
    (True, (150, 4))
    """

    with_mean: bool
    with_std: bool
    mean_: Floats | None
    scale_: Floats | None
    var_: Floats | None

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        relation: Relation | str = "replace-one",
        bounds: Any = None,
        data_norm: float | str = "auto",
        with_mean: bool = True,
        with_std: bool = True,
        max_rows_per_person: int = 1,
        public_rows: int | None = None,
        random_state: Any = None,
    ) -> None:
        self._keep_parameters(locals())

    def _check_promise(self) -> None:
        super()._check_promise()
        asked = checks.flag("with_mean", self.with_mean), checks.flag("with_std", self.with_std)
        if not any(asked):
            hint = "Else there is nothing to learn."
            checks.fail("with_mean", False, "or with_std=False, not both", hint)

    def _shares(self, columns: int) -> dict[str, float]:
        return {MEAN: 0.5, SQUARES: 0.5} if self.with_std else {MEAN: 1.0}

    def _learn(self, records: BoundedRows) -> dict[str, Any]:
        plan, coordinates = records.plan, records.coordinates
        center = records.center(MEAN)
        spread = np.ones_like(center)
        if self.with_std:
            norm = plan.asked.norm_of(SQUARES)
            exact = preparation.sums(SQUARES, records.rows, norm, plan.rows, center)
            total = records.released(SQUARES, exact)
            spread = preparation.spread_of(total, norm, records.sigma(SQUARES), plan.rows)
        mean, scale = coordinates.from_place(center), coordinates.from_length(spread)
        subtracted = center if self.with_mean else np.zeros_like(center)
        return {
            "mean_": mean if self.with_mean else None,
            "scale_": scale if self.with_std else None,
            "var_": scale**2 if self.with_std else None,
            "_coordinates": replace(coordinates, center=subtracted, scale=spread),
        }
