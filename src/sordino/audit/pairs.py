"""Pairs of neighbouring datasets, and the `Claim` about them that an audit tries to refute.

A claim of privacy is about every pair of neighbours, so an audit may take the worst that it finds:
one that the user gives, one crafted within the norm bound (`canary`, `worst_case_pair`), or the
worst of a measured grid (`worst_of_grid`). It must not choose the pair by the runs that it tests.
`difference` finds the one record in which two datasets differ.
"""

from __future__ import annotations

import datetime
import math
import numbers
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit

from sordino import checks
from sordino.accounting.profile import ApproximateProfile, Profile
from sordino.data import neighbours
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.errors import NotApplicable
from sordino.privacy import Guarantee, Relation
from sordino.types import Array, Floats

if TYPE_CHECKING:
    from sordino.intrinsic.grid import Measured

_NUMBERS = "fiubc"
_PLAIN = (str, bytes, datetime.date, datetime.time, datetime.timedelta)

_MOST_COLUMNS = 2000  # above, the quietest direction is looked for among the columns alone
_TILTS = np.linspace(0.0, 0.9, 91)
_WITHIN = 1 - 1e-9  # of the norm bound, so that rounding stays inside
_MOST_PULL = 0.27846  # the largest v / (1 + e^v): a well classified record pulls so much / |w|,
_PULLS_AT = 1.27846  # if its score is this v (they are W(1/e) and 1 + W(1/e))


@dataclass(frozen=True)
class Claim:
    """(epsilon, delta) for one relation, and the whole trade-off curve where it is claimed too.

    Parameters
    ----------
    epsilon, delta
        What is claimed. `epsilon` may be infinite: nothing is.
    relation
        For which neighbouring datasets.
    profile
        The claimed curve, for the band and for plots; None if only the two numbers are claimed.
    source
        Who claims it, or by which theorem.

    Raises
    ------
    InvalidArgument
        For a negative epsilon, a delta outside [0, 1), or a relation that is no `Relation`.

    Examples
    --------
    >>> from sordino.privacy import Relation
    >>> claim = Claim(1.0, 1e-5, Relation.REPLACE_ONE)
    >>> round(claim.allowed.beta(0.1), 4)  # least false negatives at 10 % false positives
    0.7282
    """

    epsilon: float
    delta: float
    relation: Relation
    profile: Profile | None = None
    source: str = ""

    def __post_init__(self) -> None:
        checks.non_negative("epsilon", self.epsilon, allow_infinite=True)
        checks.probability_below_one("delta", self.delta)
        if not isinstance(self.relation, Relation):
            checks.fail("relation", self.relation, "to be a Relation")

    @classmethod
    def of(cls, guarantee: Guarantee, profile: Profile | None = None) -> Claim:
        """The claim that a guarantee makes."""
        promised = (guarantee.epsilon, guarantee.delta, guarantee.relation)
        return cls(*promised, profile=profile, source=guarantee.theorem)

    @property
    def allowed(self) -> Profile:
        """The claimed curve; of two numbers, the one that they imply."""
        budget = (self.epsilon, self.delta)
        return self.profile or ApproximateProfile(
            relation=self.relation, theorem="as claimed", budget=budget
        )


# How two datasets differ ----------------------------------------------------------------


class _NotComparable(Exception):
    """Values of which nobody can say whether they are the same."""


def records(data: Any) -> tuple[Any, ...] | None:
    """Parts (arrays or CSR matrices) with one entry a record; None if nobody can say what they are.

    A Dataset; a tuple (X, y) of parts of the same length; one array, table, sparse matrix or list.
    A list of arrays is a tuple, (X, y), if their shapes differ: if they are all of one shape they
    may just as well be records, and nobody can say.
    """
    if isinstance(data, Dataset):
        return (data.X, data.y) if data.weights is None else (data.X, data.y, data.weights)
    parts = data if isinstance(data, tuple) else (data,)
    if isinstance(data, list) and data and all(map(_is_array, data)):
        parts = tuple(data) if len({tuple(part.shape) for part in data}) > 1 else ()
    rows = [_rows(part) for part in parts]
    if any(part is None for part in rows) or len({part.shape[0] for part in rows}) != 1:
        return None
    return tuple(rows)


def _is_array(part: Any) -> bool:
    return (hasattr(part, "__array__") or sparse.issparse(part)) and len(part.shape) > 0


def _rows(part: Any) -> Any:
    if sparse.issparse(part):
        matrix: Any = part
        return _canonical(matrix) if matrix.ndim == 2 else None
    if not hasattr(part, "__array__") and not isinstance(part, list):
        return None
    try:
        array = np.asarray(part)
    except ValueError:  # a ragged list
        array = np.empty(len(part), dtype=object)
        array[:] = part
    return array if array.ndim > 0 else None


def _canonical(matrix: Any) -> Any:
    """CSR with every entry written in one way."""
    csr = sparse.csr_array(matrix, copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    csr.sort_indices()
    return csr


def _comparable(first: Any, second: Any) -> tuple[Array, Array]:
    """The same part of both datasets as arrays of one kind, equal where the values are."""
    by_row = sparse.issparse(first) or sparse.issparse(second)
    if not by_row:
        kinds = first.dtype.kind + second.dtype.kind
        # Texts and times are compared by numpy where both are of the same kind.
        if not kinds.strip(_NUMBERS) or (kinds[0] == kinds[1] and kinds[0] in "USmM"):
            return first, second
    table: dict[Hashable, int] = {}  # the same whole number for the same key
    codes = []
    for part in (first, second):
        keys = _sparse_keys(part) if by_row else map(_key, part.astype(object).ravel())
        each = np.array([table.setdefault(key, len(table)) for key in keys], dtype=np.int64)
        codes.append(each if by_row else each.reshape(part.shape))
    return codes[0], codes[1]


def _sparse_keys(part: Any) -> list[Hashable]:
    """The bytes of each row: where it is not 0, and what stands there."""
    if not sparse.issparse(part):
        if part.ndim != 2 or part.dtype.kind not in _NUMBERS:
            raise _NotComparable
        part = _canonical(part)
    where, values = part.indices.astype(np.int64), part.data.astype(np.complex128)
    return [
        (where[start:stop].tobytes(), values[start:stop].tobytes())
        for start, stop in zip(part.indptr[:-1], part.indptr[1:], strict=True)
    ]


def _key(value: Any) -> Hashable:
    """Equal for equal plain values of one kind; 1 and 1.0 are equal, and so are NaN and NaN."""
    if isinstance(value, np.generic):
        value = value.item()
    # The names of what pandas has for a missing value; it need not be loaded.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return (None,)
    if isinstance(value, numbers.Number):
        return isinstance(value, bool), value if value == value else "nan"
    if isinstance(value, _PLAIN):
        return type(value).__name__, value
    if isinstance(value, tuple | list):
        return type(value).__name__, tuple(map(_key, value))
    if isinstance(value, np.ndarray):
        return "array", value.shape, tuple(map(_key, value.ravel()))
    if isinstance(value, dict):
        return "dict", frozenset((_key(name), _key(each)) for name, each in value.items())
    raise _NotComparable


def _columns(data: Any) -> list[list[str]]:
    """Names of the columns of tables: the same numbers under other names are other data."""
    parts = data if isinstance(data, tuple | list) else (data,)
    named = [getattr(part, "columns", None) for part in parts]
    return [[str(name) for name in each] for each in named if each is not None]


@dataclass(frozen=True)
class Difference:
    """What D' has instead of what D has.

    Parameters
    ----------
    relation
        REPLACE_ONE, or ADD_OR_REMOVE_ONE where one dataset has a record more.
    lost
        Row of D that is not in D'; None if D' only has one more.
    gained
        Row of D' that is not in D; None if D' only has one less.
    in_order
        Whether the two are neighbours as lists, too: one row stands where the other stood, or
        leaving out the one row gives the other dataset. Of what depends on the order of its
        records only such a pair tells anything.
    """

    relation: Relation
    lost: int | None
    gained: int | None
    in_order: bool

    @property
    def slot(self) -> int | None:
        """The row in which alone the two differ, so that all others may be shared; else None."""
        return self.lost if self.lost == self.gained else None


def difference(D: Any, D_prime: Any) -> Difference | None:
    """Compare two datasets as multisets of records.

    Parameters
    ----------
    D, D_prime
        Datasets, arrays, tables, sparse matrices, lists, or tuples (X, y) of them.

    Returns
    -------
    Difference or None
        None where nobody can say what a record is.

    Raises
    ------
    InvalidArgument
        If they differ in no record, or in more than one.

    Examples
    --------
    >>> difference([1, 2, 3], [1, 5, 3]).lost
    1
    """
    first, second = records(D), records(D_prime)
    if first is None or second is None:
        return None
    shapes = [[part.shape[1:] for part in parts] for parts in (first, second)]
    if shapes[0] != shapes[1]:
        checks.fail("D_prime", f"[records of shape {shapes[1]}]", f"to be of shape {shapes[0]}")
    if _columns(D) != _columns(D_prime):
        checks.fail("D_prime", "[other columns]", "to have the columns of D")
    try:
        parts = [_comparable(a, b) for a, b in zip(first, second, strict=True)]
    except _NotComparable:
        return None
    if first[0].shape[0] == second[0].shape[0]:
        apart = np.zeros(len(parts[0][0]), dtype=bool)
        for a, b in parts:  # NaN, which is not itself, is the same as NaN
            apart |= _flat((a != b) & ((a == a) | (b == b))).any(axis=1)
        if apart.sum() == 1:
            row = int(apart.argmax())
            return Difference(Relation.REPLACE_ONE, row, row, in_order=True)
    rows = [np.concatenate(each, axis=1) for each in zip(*map(_bytes, parts), strict=True)]
    return _as_multisets(*([row.tobytes() for row in each] for each in rows))


def has_silent_record(D: Any, D_prime: Any, apart: Difference) -> bool:
    """Whether one of the two records of a replaced pair is 0 in all its features."""
    for data, row in ((D, apart.lost), (D_prime, apart.gained)):
        features = (records(data) or ())[0][[row]]
        if hasattr(features, "toarray"):  # sparse
            features = features.toarray()
        if features.dtype.kind in "fiub" and not np.any(features):
            return True
    return False


def _bytes(part: tuple[Array, Array]) -> tuple[Array, ...]:
    """Both arrays as rows of bytes, equal where the values are."""
    dtype = np.result_type(part[0].dtype, part[1].dtype)
    flat = [_flat(np.ascontiguousarray(array, dtype=dtype)) for array in part]
    if dtype.kind in "fc":  # -0.0 is 0.0, and all NaN are one
        flat = [np.where(each != each, np.nan, each + 0.0).astype(dtype) for each in flat]
    return tuple(np.ascontiguousarray(each).view(np.uint8) for each in flat)


def _flat(array: Array) -> Array:
    """One row a record, also where there are no records."""
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _as_multisets(first: list[bytes], second: list[bytes]) -> Difference:
    counts = Counter(first)
    counts.subtract(second)
    lost = [key for key, many in counts.items() for _ in range(many)]
    gained = [key for key, many in counts.items() for _ in range(-many)]
    if (many := max(len(lost), len(gained))) != 1:
        shown = f"[{many:,} other records]" if many else "[the same records]"
        checks.fail("D_prime", shown, "to differ from D in one record")
    if lost and gained:
        row, other = first.index(lost[0]), second.index(gained[0])
        return Difference(Relation.REPLACE_ONE, row, other, in_order=False)
    longer, shorter = (first, second) if lost else (second, first)
    # If leaving out any one row gives the other, so does leaving out the first that differs.
    row = next((i for i, each in enumerate(shorter) if each != longer[i]), len(shorter))
    in_order = longer[row + 1 :] == shorter[row:]
    if not in_order:
        row = longer.index((lost or gained)[0])
    left, new = (row, None) if lost else (None, row)
    return Difference(Relation.ADD_OR_REMOVE_ONE, left, new, in_order=in_order)


# Pairs to attack ------------------------------------------------------------------------


class Pair(NamedTuple):
    """Two neighbouring datasets; D' may be an overlay, where it is no dataset of its own."""

    D: Dataset
    D_prime: Dataset | Neighbours


class _CraftedPair(NamedTuple):
    """A crafted pair, and public weights from which a descent starts; None if it starts at 0."""

    D: Dataset
    D_prime: Dataset
    initial_weights: Floats | None


class _GridPair(NamedTuple):
    """The worst pair of a measured grid.

    `pair` are the two datasets, in the same order but for one slot; `records` the numbers of the
    records that each lacks, -1 for the dataset with nothing replaced; `distance` how far apart the
    study's seeds saw them, in standard deviations of SGD's own noise; `seeds` those that chose it:
    an audit draws from other streams, so that none of its runs is among these.
    """

    pair: Pair
    records: tuple[int, int]
    distance: float
    seeds: tuple[int, ...]


def canary(
    dataset: Dataset,
    *,
    relation: Relation = Relation.REPLACE_ONE,
    slot: int = 0,
    l2: float | None = None,
) -> Pair:
    """A record made to be remembered: as long as the norm bound allows, mislabelled, and alone.

    Two things make a linear model's gradient large and let nothing undo it. The record points where
    the others say least (the direction of their smallest second moment): no other gradient pulls
    back there. And it lies a little way on the wrong side of the model that the others make, so
    that its loss is steep: with slope s at the model's score, gradients of x and its mirror image
    differ by 2 s sqrt(1 - tilt^2) norms, and the tilt is chosen to make that largest. (The same x
    under both labels would give 1 norm whatever the model: two slopes of one score add up to 1.)

    With more than two classes a model is one a class against the rest, and the record lies on the
    wrong side of all of them together, under the label for which that is worst.

    Replace-one
        D has the record in `slot`, D' its mirror image along the quiet direction, with the same
        label.
    Add-or-remove-one
        D' has it on top of the dataset.
    Zero-out
        D has it in `slot`, in D' that slot is silent: an overlay, for our SGD only.

    Parameters
    ----------
    dataset
        With a norm bound, and class numbers for labels. (For targets that are none, or more than
        100 classes, the record is not tilted: it has the label 0, and 1 in D'; or -1 and 1, where
        targets are numbers in between, some below 0, as those of a regression are.)
    relation, slot
        See above.
    l2
        What holds the audited model back, on the scale of the mean loss (`fits.held_back`): the
        tilt is then the best for the model that it makes. A guess by default.

    Returns
    -------
    Pair
        D and D'.

    Raises
    ------
    InvalidArgument
        For a dataset without a norm bound: a record could be as extreme as one likes.

    Examples
    --------
    >>> D = Dataset([[1.0, 0.0], [-1.0, 0.0]], [1, 0], norm_bound=1.0)
    >>> D, D_prime = canary(D)
    >>> difference(D, D_prime).lost
    0
    """
    if not isinstance(dataset, Dataset):
        checks.fail("dataset", type(dataset).__name__, "to be a Dataset")
    if dataset.norm_bound is None:
        checks.fail("norm_bound", None, "to be given")
    slot = checks.index("slot", slot, dataset.rows)
    x, mirrored, labels = _extreme(dataset, dataset.norm_bound * _WITHIN, l2)
    if relation is Relation.ADD_OR_REMOVE_ONE:
        X = np.vstack([dataset.X, x.astype(dataset.X.dtype)])
        y = np.append(dataset.y, np.asarray(labels[0], dtype=dataset.y.dtype))
        weights = None if dataset.weights is None else np.append(dataset.weights, 1.0)
        return Pair(dataset, replace(dataset, X=X, y=y, weights=weights))
    D = _with(dataset, slot, x, labels[0])
    if relation is Relation.ZERO_OUT:
        return Pair(D, neighbours.zero_out(D, [slot], with_base=False))
    if relation is not Relation.REPLACE_ONE:
        checks.fail("relation", relation, "to be a Relation")
    return Pair(D, _with(D, slot, mirrored, labels[1]))


def worst_case_pair(
    rows: int, columns: int = 2, norm: float = 1.0, *, start: bool = True, l2: float | None = None
) -> _CraftedPair:
    """A pair on which linear models leak all, or nearly all, that a theorem allows them to.

    All records but one lie along the first axis and are classified well: they hold the model there
    and have no curvature across. The one is on their wrong side, and points across: up in D, down
    in D'. Exact opposites could not both be steep: slopes of a score and of its negative add up to
    1. So it is tilted, and both are steep (slope near 1) wherever the model is far along the first
    axis.

    Parameters
    ----------
    rows, columns, norm
        The shape of the two datasets, and what no row's norm exceeds.
    start
        Whether the training starts from `initial_weights`, public weights so far along the first
        axis that the slope is 1 to the end, whatever a usual regulariser takes off on the way:
        within a hundredth of the sensitivity bounds. Without, a model comes so far only as the
        records bring it: they are as long as pulls most, and the one is tilted more.
    l2
        What holds a model without a start back, on the scale of the mean loss (`fits.held_back`):
        the smaller, the nearer to the bounds (0.95 of a gradient's at 0.001 and norm 1, 0.84 at
        0.0075). A guess by default.

    Returns
    -------
    _CraftedPair
        D, D' and the start.

    Examples
    --------
    >>> D, D_prime, start = worst_case_pair(4)
    >>> D.X[0].round(2).tolist(), D_prime.X[0].round(2).tolist()
    ([-0.02, 1.0], [-0.02, -1.0])
    """
    rows = checks.whole("rows", rows, at_least=2)
    columns = checks.whole("columns", columns, at_least=2)
    norm = checks.positive("norm", norm) * _WITHIN
    tilt, length = 0.02, norm
    if not start:
        # Others of length s take the model to the w where s / (1 + e^(s w)) = l2 w: farthest, if
        # they can be so long, where s w = `_PULLS_AT`; if not, less far, and the best tilt is flat.
        # 0.01 is a guess, for rows of norm 1.
        farthest = math.sqrt(_MOST_PULL / (l2 or 0.01 * norm**2))
        tilt = _tilted(np.array([[farthest, 0.0]]), [1], 1, norm)[2]
        length = min(norm, _PULLS_AT / farthest)
    X = np.zeros((rows, columns))
    X[:, 0] = length
    X[0, :2] = norm * np.array([-tilt, math.sqrt(1 - tilt**2)])
    mirrored = X.copy()
    mirrored[0, 1] *= -1
    y = np.ones(rows, dtype=np.int64)
    D, D_prime = (Dataset(each, y, norm / _WITHIN, "worst case") for each in (X, mirrored))
    far = np.zeros(columns)
    # Steep until a thousandth is left; noise grows by 1e-5 at most
    far[0] = 1e6 / norm
    return _CraftedPair(D, D_prime, far if start else None)


def worst_of_grid(
    measured: Measured, dataset: Dataset, *, init: str | None = None, repeats: int = 4
) -> _GridPair:
    """The pair of a study's datasets that its seeds found easiest to tell apart.

    Parameters
    ----------
    measured
        Of a study whose neighbours were drawn: each lacks one record, with record 0 in its place.
    dataset
        What the study was of; another one is refused.
    init
        Of the study's kinds of initial weights; the first by default.
    repeats
        As in `sordino.intrinsic.directional.worst_pair`.

    Raises
    ------
    InvalidArgument
        For another dataset.
    NotApplicable
        For a study that was given its neighbours.
    """
    from sordino.intrinsic import directional
    from sordino.intrinsic.grid import DRAWN
    from sordino.randomness import stream

    if measured.dataset.sha256 != dataset.fingerprint:
        checks.fail("dataset", dataset, f"to be {measured.dataset.name}, which the study is of")
    if measured.study.description["neighbours"]["how"] != DRAWN:
        raise NotApplicable("The study was given its neighbours; a worst pair needs drawn ones.")
    init = measured.inits[0] if init is None else checks.one_of("init", init, measured.inits)
    weights = measured.final(init)
    worst = directional.worst_pair(weights, stream=stream("audit pair"), repeats=repeats)
    lacking = tuple(measured.neighbours[place] for place in worst.pair)
    rows = [np.arange(1, dataset.rows) for _ in lacking]
    for each, record in zip(rows, lacking, strict=True):
        if record > 0:  # the first record stands in for it
            each[record - 1] = 0
    if min(lacking) > 0:
        # Both have record 0, in different slots: with those two exchanged, one slot differs.
        swapped = [lacking[0] - 1, lacking[1] - 1]
        rows[1][swapped] = rows[1][swapped[::-1]]
    pair = Pair(dataset.take(rows[0]), dataset.take(rows[1]))
    return _GridPair(pair, (lacking[0], lacking[1]), worst.distance.value, measured.seeds)


def _extreme(
    dataset: Dataset, norm: float, l2: float | None
) -> tuple[Floats, Floats, tuple[float, float]]:
    """The canary, its mirror image, and their labels."""
    quiet = _quietest(dataset.X)
    found = np.unique(dataset.y)
    if np.isin(found, (0, 1)).all():
        classes = [1]  # those that have a model of their own: the second of two, or all
    elif np.issubdtype(found.dtype, np.integer) and len(found) <= 100:
        classes = [int(each) for each in found]
    else:
        mapped = -1 <= found.min() < 0 and found.max() <= 1
        return norm * quiet, norm * quiet, (-1, 1) if mapped else (0, 1)
    models = np.stack([_model(dataset, each, l2) for each in classes])
    models -= (models @ quiet)[:, None] * quiet
    tilted = [_tilted(models, classes, label, norm) for label in classes]
    _, label, tilt, wrong = max(tilted, key=lambda each: each[0])
    against = tilt * norm * wrong
    across = math.sqrt(1 - tilt**2) * norm * quiet
    return against + across, against - across, (label, label)


def _tilted(
    models: Floats, classes: list[int], label: int, norm: float
) -> tuple[float, int, float, Floats]:
    """The best tilt of a record with this label, to the wrong side of the models.

    Returns how steep its losses are, squared and summed; the label, the tilt and the direction.
    """
    signs = np.where(np.array(classes) == label, -1.0, 1.0)
    wrong = signs @ models
    size = float(np.linalg.norm(wrong))
    if size == 0:
        return 0.0, label, 0.0, wrong
    wrong /= size
    slopes = expit(norm * _TILTS[:, None] * (signs * (models @ wrong)))
    worth = (slopes**2).sum(axis=1) * (1 - _TILTS**2)
    best = int(worth.argmax())
    return float(worth[best]), label, float(_TILTS[best]), wrong


def _quietest(X: Array) -> Floats:
    """The unit vector along which rows are shortest, in the mean square."""
    if X.shape[1] > _MOST_COLUMNS:
        squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
        return np.asarray(np.eye(1, X.shape[1], int(squares.argmin()))[0])
    quiet = np.linalg.eigh(X.T.astype(np.float64) @ X)[1][:, 0]
    return np.asarray(quiet * np.sign(quiet[np.abs(quiet).argmax()]))


def _model(dataset: Dataset, label: int, l2: float | None) -> Floats:
    """What others would make a linear model of one class of: a logistic one, roughly minimised."""
    from sordino.estimators.minimum.linear import Risk

    X = dataset.X.astype(np.float64)
    # A guess for the model that a canary is to be misclassified by.
    l2 = l2 or 1e-3 * float(np.einsum("ij,ij->", X, X)) / len(X)
    if l2 == 0:
        return np.zeros(X.shape[1])
    y = (dataset.y == label).astype(np.float64)
    return Risk(X=X, y=y, l2=l2, weights=dataset.weights).minimise(tolerance=1e-3)


def _with(dataset: Dataset, slot: int, x: Array, y: float) -> Dataset:
    """Another record in this slot; where records have weights, it weighs as much as one can."""
    X, labels = dataset.X.copy(), dataset.y.copy()
    X[slot], labels[slot] = x, y
    weights = None if dataset.weights is None else dataset.weights.copy()
    if weights is not None:
        weights[slot] = 1.0
    return replace(dataset, X=X, y=labels, weights=weights)
