"""What a fit does to rows before it trains: public bounds, a centre, a scale; from the rows or not.

A row becomes what a model sees in three steps, the same in training and in prediction. Each column
is clipped to its public bounds and mapped to [-1, 1]; a row that is longer than `data_norm` is
scaled down to it; a centre is subtracted and each column divided by a scale. What `private` numbers
of that tell is paid for like any other release (`proofs/prepared.py`).

Sums are exact: entries are cut, towards 0, to whole multiples of a public quantum, and added as
integers. So no rounding depends on all records together, and no row grows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.data.dataset import NORM_SLACK, row_norms
from sordino.errors import InvalidArgument, without_cells
from sordino.privacy import Relation
from sordino.proofs.prepared import MEAN, SQUARED_PART, SQUARES, SumRelease
from sordino.proofs.settings import NONE, PRIVATE, PUBLIC
from sordino.types import Array, Floats

AUTO = "auto"
HOW = (AUTO, NONE, PRIVATE)
"""What `center` and `scale` may be called; public numbers are given as such."""
CONSTANT = 0.6
"""The constant feature of prepared rows, of norm 1 with it."""
RADIUS, SCALED_RADIUS = 0.125, 0.5
"""How long a prepared row may be before it is scaled down: this much of `data_norm`, or, where
columns have a scale, of the length of a row that is one standard deviation off in every column."""
RADIUS_OF_REGRESSION = 0.25
"""The same of a regression: a row that is scaled down is predicted as if it were nearer."""
_FARTHEST = 1e6
_BLOCK = 1 << 12
_MOST_BITS = 30
_EXACT = 2.0**52
_PLAIN = 1e12
"""Rows up to this much too long are scaled in their own precision: its error is in the slack."""


@dataclass(frozen=True)
class Preparation:
    """What is asked of a centre and a scale, and public.

    Parameters
    ----------
    norm
        What no row's Euclidean norm exceeds when it is looked at: `data_norm`.
    features
        Columns of a row, the intercept's not among them.
    center, scale
        "none", "public" or "private".
    radius
        How long a row around the centre may be, as a share of the norm, where there is no scale.
    """

    norm: float
    features: int
    center: str = NONE
    scale: str = NONE
    radius: float = RADIUS

    @property
    def private(self) -> tuple[str, ...]:
        """What is released of the rows, in this order."""
        asked = {MEAN: self.center, SQUARES: self.scale}
        return tuple(what for what, how in asked.items() if how == PRIVATE)

    def norm_of(self, what: str) -> float:
        """Of the rows that are summed, or squared and summed, or multiplied and summed."""
        return self.norm * SQUARED_PART if what == SQUARES else self.norm


@dataclass(frozen=True, eq=False)
class Coordinates:
    """How a row is prepared, by numbers that are public or were released.

    Parameters
    ----------
    low, high
        Bounds of each column, which becomes [-1, 1]; None leaves columns as they are.
    norm
        Longer rows are scaled down to it, before the centre; infinity scales none.
    center, scale
        Of each column, after the bounds. While one is lacking, rows are not prepared by the other.
    constant
        The feature that the intercept is the weight of.
    """

    low: Floats | None = None
    high: Floats | None = None
    norm: float = math.inf
    center: Floats | None = None
    scale: Floats | None = None
    constant: float = 1.0

    @property
    def prepared(self) -> bool:
        """Whether rows get a centre and a scale."""
        return self.center is not None and self.scale is not None

    def bounded(self, X: Array) -> Array:
        """Rows in their bounds and norm, each on its own, in the precision of `X`."""
        rows = np.array(X)
        if self.low is not None and self.high is not None:
            part = (np.clip(rows, self.low, self.high) - self.low) / (self.high - self.low)
            rows = (2 * part - 1).astype(rows.dtype)
        if math.isfinite(self.norm):
            scale_down(rows, self.norm)
        return rows

    def of(self, X: Array) -> Array:
        """Rows as the model sees them, but for the constant and the norm of a training."""
        rows = self.bounded(X)
        if self.center is None or self.scale is None:  # one is still to come
            return rows
        return np.asarray((rows - self.center) / self.scale, dtype=rows.dtype)

    @property
    def arrays(self) -> dict[str, Floats]:
        """For a bundle, by name."""
        constant = np.array([self.constant]) if self.prepared else None
        given = {"low": self.low, "high": self.high, "center": self.center, "scale": self.scale}
        named = {**given, "constant": constant}
        return {name: each for name, each in named.items() if each is not None}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Floats], norm: float) -> Coordinates:
        """From what a bundle holds."""
        constant = float(arrays["constant"][0]) if "constant" in arrays else 1.0
        each = {name: arrays.get(name) for name in ("low", "high", "center", "scale")}
        return cls(**each, norm=norm if "center" in arrays else math.inf, constant=constant)

    def at(self, place: Floats) -> Floats:
        """Where a place of rows as they are passed lies after the bounds."""
        if self.low is None or self.high is None:
            return place
        return np.asarray(2 * (place - self.low) / (self.high - self.low) - 1)

    def long(self, length: Floats) -> Floats:
        """How long a length in rows as they are passed is after the bounds."""
        if self.low is None or self.high is None:
            return length
        return np.asarray(2 * length / (self.high - self.low))

    def given(self, name: str) -> Any:
        """What an estimator was given as `bounds`, or as public `center` or `scale`."""
        low, high = self.low, self.high
        if name == "bounds":
            return None if low is None or high is None else (low.copy(), high.copy())
        assert self.center is not None
        assert self.scale is not None
        if name == "center":
            return self.from_place(self.center)
        return self.from_length(self.scale / (SCALED_RADIUS * math.sqrt(len(self.scale))))

    def from_place(self, place: Floats) -> Floats:
        """Where a place after the bounds lies in rows as they are passed."""
        if self.low is None or self.high is None:
            return place.copy()
        return np.asarray(self.low + (place + 1) * ((self.high - self.low) / 2))

    def from_length(self, length: Floats) -> Floats:
        """How long a length after the bounds is in rows as they are passed."""
        if self.low is None or self.high is None:
            return length.copy()
        return np.asarray(length * ((self.high - self.low) / 2))

    def completed(
        self, asked: Preparation, mean: Floats | None = None, spread: Floats | None = None
    ) -> Coordinates:
        """With a centre and a scale: by what was released, what is public, or a public rule.

        `spread` is each column's standard deviation around the centre.
        """
        center, scale = self.center, self.scale
        if mean is not None or center is None:
            center = np.zeros(asked.features) if mean is None else mean
        if spread is not None:
            scale = spread * (SCALED_RADIUS * math.sqrt(asked.features))
        elif scale is None:
            scale = np.full(asked.features, asked.radius * asked.norm)
        return replace(self, center=center, scale=scale, constant=CONSTANT)

    def with_public(self, name: str, numbers: Floats) -> Coordinates:
        """With a public centre, or public standard deviations, in the units of the rows.

        Both must be within sight of the rows' norm: float32 holds no more.
        """
        if name == "center":
            center = self.at(numbers)
            if not (np.abs(center) <= _FARTHEST * self.norm).all():
                checks.fail(name, "[...]", f"to be within {_FARTHEST:g} times data_norm")
            return replace(self, center=center)
        scale = self.long(numbers) * (SCALED_RADIUS * math.sqrt(len(numbers)))
        if not (scale * _FARTHEST >= self.norm).all():
            checks.fail(name, "[...]", f"to be above data_norm / {_FARTHEST:g}")
        return replace(self, scale=scale)


# From the rows ------------------------------------------------------------------------------------


def exact_sum(rows: Array, bound: float, count: int) -> Floats:
    """Sum of rows, exact but for the cut of each entry, which depends on that entry alone.

    `bound` is what no entry exceeds, `count` a public number near that of the rows. Nothing is
    lost if there are not many more of them.
    """
    bits = min(_MOST_BITS, int(math.log2(_EXACT / max(count, 2))) - 1)
    quantum = 2.0 ** (math.floor(math.log2(bound)) + 1 - bits)
    total = np.zeros(rows.shape[1], dtype=np.int64)
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK].astype(np.float64)
        total += np.trunc(block / quantum).astype(np.int64).sum(axis=0)
    return np.asarray(total * quantum, dtype=np.float64)


def sums(what: str, rows: Array, norm: float, count: int, center: Floats | None = None) -> Floats:
    """What a release is of: the sum of rows within a norm, or of their squares around a centre.

    Rows are scaled down to the norm here, whatever they were before: the sensitivity rests on it.
    """
    total = np.zeros(rows.shape[1])
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK].astype(np.float64)
        if center is not None:
            block -= center
        scale_down(block, norm)
        block = block if what == MEAN else block**2
        bound = norm if what == MEAN else norm**2
        total += exact_sum(block, bound * (1 + NORM_SLACK) ** 2, count)
    return total


def center_of(total: Floats, asked: Preparation, rows: int, *, bounded: bool) -> Floats:
    """The centre from a noisy sum: within what a mean of such rows can be."""
    mean = total / rows
    if bounded:
        mean = np.clip(mean, -1.0, 1.0)
    length = float(np.linalg.norm(mean))
    return np.asarray(mean * min(1.0, asked.norm / length) if length > 0 else mean)


def spread_of(total: Floats, release_norm: float, noise: float, rows: int) -> Floats:
    """Standard deviations from noisy sums of squares, none below what the noise hides."""
    least = max(noise / rows, (1e-3 * release_norm) ** 2 / len(total))
    return np.sqrt(np.maximum(total / rows, least))


# From arguments -----------------------------------------------------------------------------------


def auto_norm(columns: int, *, bounded: bool) -> float:
    """The norm of rows where none is given: that of a row whose every column is at its bound."""
    return math.sqrt(columns) if bounded else 1.0


def public_bounds(given: Any, features: int) -> tuple[Floats, Floats]:
    """The bounds of every column, as they were given: (low, high), numbers or one a column."""
    hint = "Pass (low, high) that you know without looking at the data, numbers or one a column."
    if isinstance(given, str | bytes | dict) or not isinstance(given, Sequence | np.ndarray):
        checks.fail("bounds", f"[{type(given).__name__}]", "to be (low, high)", hint)
    if len(given) != 2:
        checks.fail("bounds", f"[{len(given)}]", "to be (low, high)", hint)
    low, high = (_column_numbers("bounds", each, features) for each in given)
    with np.errstate(over="ignore"):
        if not (low < high).all() or not np.isfinite(2 * (high - low)).all():
            checks.fail("bounds", "[...]", "to have low below high in every column", hint)
        if not ((high - low) > 1e-300).all():
            checks.fail("bounds", "[...]", "to be further apart", hint)
    return low, high


def chosen(name: str, given: Any) -> str:
    """How a centre or a scale is found: "auto", "none", "private" or "public"."""
    if isinstance(given, str):
        return checks.one_of(name, given, HOW)
    if given is None or isinstance(given, bool | int | float | np.number | dict | bytes):
        wanted = "to be 'auto', 'none', 'private' or one public number a column"
        checks.fail(name, f"[{type(given).__name__}]", wanted)
    return PUBLIC


def public_numbers(name: str, given: Any, features: int) -> Floats:
    """Public centres or scales, one a column, in the units of the rows as they are passed."""
    numbers = _column_numbers(name, given, features, alone=False)
    if name == "scale" and not (numbers > 1e-150).all():
        checks.fail(name, "[...]", "to be above 0 in every column")
    return numbers


def _column_numbers(name: str, given: Any, features: int, *, alone: bool = True) -> Floats:
    wanted = f"to be {'a number or ' if alone else ''}{features} numbers, one a column"
    with without_cells(lambda _: InvalidArgument(f"Expected {name} {wanted}.", name)):
        numbers: npt.NDArray[Any] = np.array(given, dtype=np.float64)
    if numbers.shape != (features,) and not (alone and numbers.shape == ()):
        checks.fail(f"{name}.shape", numbers.shape, wanted)
    if not np.isfinite(numbers).all() or (np.abs(numbers) > 1e150).any():
        checks.fail(name, "[...]", "to be finite")
    return np.broadcast_to(numbers, (features,)).copy()


def noise_for(
    what: str, asked: Preparation, relation: Relation, rows_per_person: int, mu: float
) -> SumRelease:
    """The release of one sum that tells `mu` of a person, in Gaussian DP."""
    unit = SumRelease(what, asked.norm_of(what), 1.0)
    moved = unit.moved(relation) * rows_per_person
    return replace(unit, sigma=moved / mu * (1 + 1e-12))


# Into a norm --------------------------------------------------------------------------------------


def scale_down(rows: Array, norm: float) -> None:
    """Scale rows longer than `norm` down to it, in place; none is left longer than the slack."""
    norms = row_norms(rows)
    long = norms > norm
    if not long.any():
        return
    plain = long & (norms < _PLAIN * norm)
    factors = np.where(plain, norm / np.where(plain, norms, 1.0), 1.0)
    rows *= factors[:, None].astype(rows.dtype)
    shorter = 1.0
    while len(rest := np.flatnonzero(row_norms(rows) > norm * (1 + NORM_SLACK / 2))):
        # Too long for a float's square, or rounded up: in float64, from the largest entry down.
        part = rows[rest].astype(np.float64)
        part /= np.abs(part).max(axis=1, keepdims=True)
        part *= shorter * norm / row_norms(part)[:, None]
        rows[rest] = part
        shorter *= 1 - 2.0**-20
