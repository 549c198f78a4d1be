"""`Weighting`: how much each record counts, between 0 and 1, by public numbers alone.

The loss of record i is multiplied by

    v_i = (weight of its class x its own weight) / (largest class weight x largest own weight),

where the divisor is public, so that 0 <= v_i <= 1. Everything a proof here asks of a loss with
|psi| <= 1 and 0 <= psi' <= beta then holds of v psi and v psi' as well, and the noise that was
enough without weights is enough with them:

- sums of (clipped) gradients: ||v psi x|| <= ||x||; and what is clipped is the weighted gradient;
- contractions, by which output perturbation and the last iterate are bounded: v l is convex, its
  curvature is at most that of l, and the regulariser is not weighted;
- objective perturbation (docs/math.md 10.1): v >= 0 leaves the sign of psi fixed, a = v psi lies in
  [0, 1] as psi does, and the determinant's ratio is 1 + v psi' x'(H + L)^-1 x <= 1 + beta X^2 / L.
  The logistic loss has v psi' = v psi (1 - psi) = a (1 - a / v) <= a (1 - a), which is the bound
  that its sharper statement takes the supremum of, over all a in [0, 1];
- the scores of DP-AGD: v l moves by at most v |z - z'| <= |z - z'|;
- the sums of least squares: v (w.x - t)^2 is that of row and target times sqrt(v), no longer than
  they were.

A record carries its weight: a neighbour may change both. So a weight must follow from its record
and from public numbers. The mean stays one over the number of records, since the sum of the weights
is private: where most v are small, the data speak more softly, and noise and regulariser do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.errors import InvalidArgument, without_cells
from sordino.proofs.settings import BALANCED, check_weights
from sordino.types import Array, Floats

WEIGHTS_GIVEN = (
    "how records were weighted: a weight must follow from its own record, and nobody saw it"
)
"""Among `not_covered`, where `fit` was given weights."""
_PER_CLASS = "Pass {label: number} of public numbers."


@dataclass(frozen=True)
class Weighting:
    """The public numbers by which records are weighted.

    Parameters
    ----------
    class_weight
        One number a class, in the order of the classes, or "balanced": 1 / base rate.
    base_rates
        Public shares of the classes, for "balanced".
    most
        What no record's own weight counts above; None where records have none.

    Examples
    --------
    >>> Weighting((1.0, 4.0), most=2.0).factors(np.array([0, 1, 1]), np.array([2.0, 2.0, 1.0]))
    array([0.25, 1.  , 0.5 ])
    """

    class_weight: tuple[float, ...] | str | None = None
    base_rates: tuple[float, ...] | None = None
    most: float | None = None

    @classmethod
    def of(cls, classes: Array, class_weight: Any, base_rates: Any, most: Any) -> Weighting:
        """From the parameters of an estimator, checked.

        Raises
        ------
        InvalidArgument
            If they are no public numbers above 0, or not of these classes.
        """
        if class_weight is not None and not isinstance(class_weight, str):
            # As scikit-learn has it, a class that is not named has weight 1.
            class_weight = _per_class("class_weight", class_weight, classes, 1.0)
        if base_rates is not None:
            base_rates = _per_class("base_rates", base_rates, classes, None)
        numbers = {"class_weight": class_weight, "base_rates": base_rates}
        check_weights(numbers | {"max_sample_weight": most}, len(classes))
        return cls(class_weight, base_rates, None if most is None else float(most))

    @property
    def shares(self) -> Floats | None:
        """Of each class, its weight over the largest; None where they are all 1."""
        if self.class_weight is None:
            return None
        if self.class_weight == BALANCED:
            rates = np.asarray(self.base_rates)
            shares = rates.min() / rates
        else:
            weights = np.asarray(self.class_weight)
            shares = weights / weights.max()
        return None if (shares == 1).all() else np.asarray(shares)

    def factors(self, codes: npt.NDArray[np.int64], given: Any = None) -> Floats | None:
        """Factor v of each record, None where all are 1; weights above the bound count as it.

        Parameters
        ----------
        codes
            The class of each record, by its place among the classes.
        given
            The records' own weights; None: all alike.

        Raises
        ------
        InvalidArgument
            If a weight is NaN or below 0; which, is not told. Weights that are all 0 are taken: to
            refuse them would tell such records from their neighbours.
        """
        shares = self.shares
        factors = None if shares is None else shares[codes]
        if given is None:
            return factors
        own = _own(given, len(codes))
        if self.most is None:
            hint = "Pass a public number, above which weights count as it."
            checks.fail("max_sample_weight", None, "to be given with sample_weight", hint)
        # How many are above the bound stays private: nobody is told.
        own = np.minimum(own, self.most) / self.most
        return own if factors is None else factors * own


def _own(given: Any, rows: int) -> Floats:
    """A number >= 0 a record; where one is not, that is all that is told."""
    with without_cells(lambda _: InvalidArgument("Expected sample_weight to be one number a row.")):
        own = np.asarray(given, dtype=np.float64)
    if own.shape != (rows,):
        checks.fail("sample_weight.shape", own.shape, f"to be ({rows},), one number a row")
    if not (own >= 0).all():  # nor is NaN
        checks.fail("sample_weight", f"[{rows} weights]", "to hold no NaN and nothing below 0")
    return own


def _per_class(name: str, given: Any, classes: Array, otherwise: float | None) -> tuple[float, ...]:
    """A number for each class, in their order, from {label: number}."""
    if not isinstance(given, Mapping):
        checks.fail(name, f"[{type(given).__name__}]", "to be {label: number}", _PER_CLASS)
    places = {label: place for place, label in enumerate(classes.tolist())}
    numbers: list[Any] = [otherwise] * len(places)
    for label, number in given.items():
        key = label.item() if isinstance(label, np.generic) else label
        if key not in places:
            checks.fail(name, f"[{len(given)} labels]", "to name nothing but classes", _PER_CLASS)
        numbers[places[key]] = number
    if None in numbers:
        checks.fail(name, f"[{len(given)} labels]", "to name every class", _PER_CLASS)
    return tuple(checks.positive(name, number, _PER_CLASS) for number in numbers)


def by_label(numbers: Any, classes: Array) -> Any:
    """{label: number} again, from numbers in the order of the classes; anything else as it is."""
    per_class = isinstance(numbers, tuple | list)
    return dict(zip(classes.tolist(), numbers, strict=True)) if per_class else numbers
