"""`Dataset`: rows with labels and a declared bound on their norm."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.errors import InvalidArgument, without_cells

# Rounding may push a row that was scaled onto the sphere a little above it; the bound is
# enforced up to this relative slack, about ten float32 roundings.
NORM_SLACK = 1e-6
_BLOCK = 1 << 12


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Records to train on. Checked once, here; never changed afterwards.

    Parameters
    ----------
    X
        One row a record, float32 or float64 (anything else becomes float64).
    y
        Labels 0..K-1 (True and False are taken for 1 and 0), or real targets for regression.
    norm_bound
        A PUBLIC number that no row's Euclidean norm exceeds, or None if none is claimed.
        It is declared, not measured: a bound read off the data leaks. Rows above it are refused.
    name
        What people call it.
    image_shape
        (height, width) or (height, width, channels) if a row is a flattened image.
    weights
        Of each record, in [0, 1]: its loss is multiplied by it. None: every loss counts in full. A
        record carries its weight with it, so neighbours differ in a record and its weight, and no
        record weighs more than one without weights: every sensitivity stays as it is.

    Raises
    ------
    InvalidArgument
        If rows and labels do not fit together, are not finite, or a row exceeds the bound.

    Examples
    --------
    >>> Dataset([[0.6, 0.8], [0.0, 1.0]], [0, 1], norm_bound=1.0, name="two")
    Dataset(two: 2 x 2 float64, norm <= 1)
    """

    X: npt.NDArray[np.floating]
    y: npt.NDArray[np.int64] | npt.NDArray[np.floating]
    norm_bound: float | None = None
    name: str = "unnamed"
    image_shape: tuple[int, ...] | None = None
    weights: npt.NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        with without_cells(lambda _: InvalidArgument("Expected X to hold numbers only.")):
            X = np.asarray(self.X)
            if X.dtype not in (np.float32, np.float64):
                X = X.astype(np.float64)
        if X.ndim != 2 or 0 in X.shape:
            checks.fail("X.shape", X.shape, "to be (rows, features), both above 0")
        y = np.asarray(self.y)
        y = y.astype(np.int64) if y.dtype == bool else y
        if y.shape != (len(X),):
            checks.fail("y.shape", y.shape, f"to be ({len(X)},), one label a row")
        if not np.issubdtype(y.dtype, np.number) or np.issubdtype(y.dtype, np.complexfloating):
            checks.fail("y.dtype", y.dtype, "to be numeric", "Encode class names as 0..K-1.")
        y = y.astype(np.float64) if np.issubdtype(y.dtype, np.floating) else y.astype(np.int64)
        norms = row_norms(X)
        if not np.isfinite(norms).all():  # as they are where an entry is not, or its square
            checks.finite("X", X)
        checks.finite("y", y)
        object.__setattr__(self, "X", _frozen(X))
        object.__setattr__(self, "y", _frozen(y))
        if self.weights is not None:
            object.__setattr__(self, "weights", _frozen(_checked_weights(self.weights, len(X))))
        if self.image_shape is not None:
            shape = tuple(checks.whole("image_shape", n, at_least=1) for n in self.image_shape)
            object.__setattr__(self, "image_shape", shape)
        if self.norm_bound is not None:
            bound = checks.positive("norm_bound", self.norm_bound)
            object.__setattr__(self, "norm_bound", bound)
            worst = int(norms.argmax())
            if norms[worst] > bound * (1 + NORM_SLACK):
                wanted = f">= every row's norm; row {worst} is longer"
                checks.fail("norm_bound", bound, wanted, "Use sordino.data.preprocess.clip_rows.")

    def __reduce__(self) -> tuple[type[Dataset], tuple[object, ...]]:
        # Another process checks and freezes its copy anew.
        given = self.X, self.y, self.norm_bound, self.name, self.image_shape, self.weights
        return Dataset, given

    def __repr__(self) -> str:
        bound = "no norm bound" if self.norm_bound is None else f"norm <= {self.norm_bound:g}"
        return f"Dataset({self.name}: {self.rows:,} x {self.features} {self.X.dtype}, {bound})"

    @property
    def rows(self) -> int:
        """Number of records."""
        return int(self.X.shape[0])

    @property
    def features(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the content: values, labels, precision, shape and norm bound."""
        digest = hashlib.sha256()
        digest.update(repr((self.X.dtype.str, self.X.shape, self.y.dtype.str)).encode())
        digest.update(repr((self.norm_bound, self.image_shape)).encode())
        digest.update(self.X.tobytes())
        digest.update(self.y.tobytes())
        if self.weights is not None:
            digest.update(b"weights" + self.weights.tobytes())
        return digest.hexdigest()

    def take(self, rows: npt.NDArray[np.integer] | slice) -> Dataset:
        """Return the dataset of these rows, in this order, under the same bound."""
        weights = None if self.weights is None else self.weights[rows]
        return dataclasses.replace(self, X=self.X[rows], y=self.y[rows], weights=weights)

    def astype(self, dtype: str) -> Dataset:
        """Return the same records in "float32" or "float64"."""
        checks.one_of("dtype", dtype, ("float32", "float64"))
        if self.X.dtype == np.dtype(dtype):
            return self
        return dataclasses.replace(self, X=self.X.astype(dtype))


def _checked_weights(given: npt.ArrayLike, rows: int) -> npt.NDArray[np.float64]:
    with without_cells(lambda _: InvalidArgument("Expected weights to hold numbers only.")):
        weights = np.asarray(given, dtype=np.float64)
    if weights.shape != (rows,):
        checks.fail("weights.shape", weights.shape, f"to be ({rows},), one weight a row")
    checks.finite("weights", weights)
    if not ((weights >= 0) & (weights <= 1)).all():
        wanted = "to be in [0, 1], where no record counts for more than one without a weight"
        checks.fail("weights", f"[{rows} weights]", wanted)
    return weights


def row_norms(X: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Euclidean norm of every row, summed in float64, block by block: no whole copy is made."""
    squares = np.empty(len(X))
    for start in range(0, len(X), _BLOCK):
        block = X[start : start + _BLOCK].astype(np.float64, copy=False)
        np.einsum("ij,ij->i", block, block, out=squares[start : start + _BLOCK])
    return np.sqrt(squares)


def _frozen(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """A contiguous array that nobody can change any more: a copy, if somebody still could."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if array.flags.writeable or owner.flags.writeable or not array.flags.c_contiguous:
        array = array.copy()
        array.flags.writeable = False
    return array
