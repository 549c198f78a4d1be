"""Which pair to attack: given, crafted within the norm bound, or the worst of a measured grid.

A claim of privacy is about every pair of neighbours, so an audit may take the worst it can find;
what it must not do is choose the pair by the runs that it tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from sordino import checks
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.errors import NotApplicable
from sordino.intrinsic import directional
from sordino.intrinsic.grid import DRAWN, Measured
from sordino.privacy import Relation
from sordino.randomness import stream
from sordino.types import Array, Floats

_MOST_COLUMNS = 2000  # above, the quietest direction is looked for among the columns alone
_MODEL_L2 = 1e-3  # of the model that a canary is to be misclassified by
_TILTS = np.linspace(0.0, 0.9, 91)
_WITHIN = 1 - 1e-9  # of the norm bound, so that rounding stays inside
_START_TILT = 0.02
_FAR = 1e6  # a start, over the norm: steep until a thousandth is left; noise grows by 1e-5 at most
_GUESSED_L2 = 0.01  # for rows of norm 1, where nobody says what holds a model back
_MOST_PULL = 0.27846  # the largest v / (1 + e^v): a well classified record pulls so much / |w|,
_PULLS_AT = 1.27846  # if its score is this v (they are W(1/e) and 1 + W(1/e))
_MOST_CLASSES = 100


class Pair(NamedTuple):
    """Two neighbouring datasets; D' may be an overlay, where it is no dataset of its own."""

    D: Dataset
    D_prime: Dataset | Neighbours


class CraftedPair(NamedTuple):
    """A crafted pair, and public weights from which a descent starts; None if it starts at 0."""

    D: Dataset
    D_prime: Dataset
    initial_weights: Floats | None


def given(dataset: Dataset, slot: int, x: npt.ArrayLike, y: float) -> Pair:
    """The dataset, and the same with one record replaced by (x, y)."""
    slot = checks.index("slot", slot, dataset.rows)
    return Pair(dataset, _with(dataset, slot, np.asarray(x), y))


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
        100 classes, the record is not tilted: it has the label 0, and 1 in D'.)
    l2
        What holds the audited model back, on the scale of the mean loss (`own.held_back`): the tilt
        is then the best for the model that it makes. A guess by default.
    """
    if not isinstance(dataset, Dataset):
        checks.fail("dataset", type(dataset).__name__, "to be a Dataset")
    if dataset.norm_bound is None:
        hint = "A record without a bound could be as extreme as one likes."
        checks.fail("norm_bound", None, "to be given", hint)
    slot = checks.index("slot", slot, dataset.rows)
    x, mirrored, labels = _extreme(dataset, dataset.norm_bound * _WITHIN, l2)
    if relation is Relation.ADD_OR_REMOVE_ONE:
        return Pair(dataset, _appended(dataset, x, labels[0]))
    D = _with(dataset, slot, x, labels[0])
    if relation is Relation.ZERO_OUT:
        return Pair(D, neighbouring.zero_out(D, [slot], with_base=False))
    if relation is not Relation.REPLACE_ONE:
        checks.fail("relation", relation, "to be a Relation")
    return Pair(D, _with(D, slot, mirrored, labels[1]))


def worst_case_pair(
    rows: int,
    columns: int = 2,
    norm: float = 1.0,
    *,
    start: bool = True,
    l2: float | None = None,
) -> CraftedPair:
    """A pair on which linear models leak all, or nearly all, that a theorem allows them to.

    All records but one lie along the first axis and are classified well: they hold the model there
    and have no curvature across. The one is on their wrong side, and points across: up in D, down
    in D'. Exact opposites could not both be steep: slopes of a score and of its negative add up to
    1. So it is tilted, and both are steep (slope near 1) wherever the model is far along the first
    axis.

    Parameters
    ----------
    start
        Whether the training starts from `initial_weights`, public weights so far along the first
        axis that the slope is 1 to the end, whatever a usual regulariser takes off on the way:
        within a hundredth of the sensitivity bounds. Without, a model comes so far only as the
        records bring it: they are as long as pulls most, and the one is tilted more.
    l2
        What holds a model without a start back, on the scale of the mean loss (`own.held_back`):
        the smaller, the nearer to the bounds (0.95 of a gradient's at 0.001 and norm 1, 0.84 at
        0.0075). A guess by default.
    """
    rows = checks.whole("rows", rows, at_least=2)
    columns = checks.whole("columns", columns, at_least=2)
    norm = checks.positive("norm", norm) * _WITHIN
    tilt, length = (_START_TILT, norm) if start else _unaided(norm, l2)
    X = np.zeros((rows, columns))
    X[:, 0] = length
    X[0, :2] = norm * np.array([-tilt, math.sqrt(1 - tilt**2)])
    mirrored = X.copy()
    mirrored[0, 1] *= -1
    y = np.ones(rows, dtype=np.int64)
    D, D_prime = (
        Dataset(each, y, norm_bound=norm / _WITHIN, name="worst case") for each in (X, mirrored)
    )
    far = np.zeros(columns)
    far[0] = _FAR / norm
    return CraftedPair(D, D_prime, far if start else None)


def _unaided(norm: float, l2: float | None) -> tuple[float, float]:
    """The tilt of the one record and the length of the others, for a model that starts at 0.

    Others of length s take it to the w where s / (1 + e^(s w)) = l2 w: farthest, if they can be so
    long, where s w = `_PULLS_AT`. (If they cannot, it is less far, and the best tilt is flat.)
    """
    l2 = l2 or _GUESSED_L2 * norm**2
    farthest = math.sqrt(_MOST_PULL / l2)
    tilt = _tilted(np.array([[farthest, 0.0]]), [1], 1, norm).tilt
    return tilt, min(norm, _PULLS_AT / farthest)


@dataclass(frozen=True)
class GridPair:
    """The worst pair of a measured grid.

    Parameters
    ----------
    pair
        The two datasets, in the same order but for one slot.
    records
        Numbers of the records that each lacks, -1 for the dataset with nothing replaced.
    distance
        How far apart the study's seeds saw them, in standard deviations of SGD's own noise.
    seeds
        Those that chose it. An audit draws from other streams (`SeededStreams("audit ...")`), so
        that none of its runs is among these.
    """

    pair: Pair
    records: tuple[int, int]
    distance: float
    seeds: tuple[int, ...]


def worst_of_grid(
    measured: Measured, dataset: Dataset, *, init: str | None = None, repeats: int = 4
) -> GridPair:
    """The pair of a study's datasets that its seeds found easiest to tell apart.

    Parameters
    ----------
    measured
        Of a study whose neighbours were drawn: each lacks one record, with record 0 in its place.
    dataset
        What the study was of; another one is refused.
    init
        Of the study's kinds of initial weights; the first by default.
    """
    if measured.dataset.sha256 != dataset.fingerprint:
        checks.fail("dataset", dataset, f"to be {measured.dataset.name}, which the study is of")
    if measured.study.description["neighbours"]["how"] != DRAWN:
        raise NotApplicable(
            "The worst pair is made from neighbours that were drawn; this study was given its own."
        )
    init = measured.inits[0] if init is None else checks.one_of("init", init, measured.inits)
    weights = measured.final(init)
    found = directional.worst_pair(weights, stream=stream("audit pair"), repeats=repeats)
    labels = tuple(measured.neighbours[place] for place in found.pair)
    first, second = (_lacking(dataset, label) for label in labels)
    if min(labels) > 0:
        # Both have record 0, in different slots: with those two exchanged, one slot differs.
        swapped = [labels[0] - 1, labels[1] - 1]
        X, y = second.X.copy(), second.y.copy()
        X[swapped], y[swapped] = X[swapped[::-1]], y[swapped[::-1]]
        second = Dataset(X, y, dataset.norm_bound, dataset.name, dataset.image_shape)
    return GridPair(
        Pair(first, second), (labels[0], labels[1]), found.distance.value, measured.seeds
    )


def _lacking(dataset: Dataset, record: int) -> Dataset:
    """All records but the first, which stands in for `record` (-1: for none)."""
    rows = np.arange(1, dataset.rows)
    if record > 0:
        rows[record - 1] = 0
    return dataset.take(rows)


def _extreme(
    dataset: Dataset, norm: float, l2: float | None
) -> tuple[Floats, Floats, tuple[float, float]]:
    """The canary, its mirror image, and their labels."""
    quiet = _quietest(dataset.X)
    classes = _classes(dataset)
    if classes is None:
        return norm * quiet, norm * quiet, (0, 1)
    models = np.stack([_model(dataset, each, l2) for each in classes])
    models -= (models @ quiet)[:, None] * quiet
    label, tilt, wrong = max(
        (_tilted(models, classes, label, norm) for label in classes), key=lambda found: found.worth
    )[1:]
    against = tilt * norm * wrong
    across = math.sqrt(1 - tilt**2) * norm * quiet
    return against + across, against - across, (label, label)


class _Tilted(NamedTuple):
    """How steep the losses of a record are, squared and summed; its label, tilt and direction."""

    worth: float
    label: int
    tilt: float
    wrong: Floats


def _tilted(models: Floats, classes: list[int], label: int, norm: float) -> _Tilted:
    """The best tilt of a record with this label, to the wrong side of the models."""
    signs = np.where(np.array(classes) == label, -1.0, 1.0)
    wrong = signs @ models
    size = float(np.linalg.norm(wrong))
    if size == 0:
        return _Tilted(0.0, label, 0.0, wrong)
    wrong /= size
    slopes = expit(norm * _TILTS[:, None] * (signs * (models @ wrong)))
    worth = (slopes**2).sum(axis=1) * (1 - _TILTS**2)
    best = int(worth.argmax())
    return _Tilted(float(worth[best]), label, float(_TILTS[best]), wrong)


def _classes(dataset: Dataset) -> list[int] | None:
    """Those that have a model of their own: the second of two, or all; None if there are none."""
    found = np.unique(dataset.y)
    if np.isin(found, (0, 1)).all():
        return [1]
    if not np.issubdtype(found.dtype, np.integer) or len(found) > _MOST_CLASSES:
        return None
    return [int(each) for each in found]


def _quietest(X: Array) -> Floats:
    """The unit vector along which rows are shortest, in the mean square."""
    if X.shape[1] > _MOST_COLUMNS:
        squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
        return np.asarray(np.eye(1, X.shape[1], int(squares.argmin()))[0])
    moments = X.T.astype(np.float64) @ X
    _, vectors = np.linalg.eigh(moments)
    quiet = vectors[:, 0]
    return np.asarray(quiet * np.sign(quiet[np.abs(quiet).argmax()]))


def _model(dataset: Dataset, label: int, l2: float | None) -> Floats:
    """What others would make a linear model of one class of: a logistic one, roughly minimised."""
    from sordino.estimators.risk import Risk

    X = dataset.X.astype(np.float64)
    l2 = l2 or _MODEL_L2 * float(np.einsum("ij,ij->", X, X)) / len(X)
    if l2 == 0:
        return np.zeros(X.shape[1])
    return Risk(X=X, y=(dataset.y == label).astype(np.float64), l2=l2).minimise(tolerance=1e-3)


def _with(dataset: Dataset, slot: int, x: Array, y: float) -> Dataset:
    X, labels = dataset.X.copy(), dataset.y.copy()
    if np.shape(x) != (dataset.features,):
        checks.fail("x.shape", np.shape(x), f"to be ({dataset.features},)")
    X[slot], labels[slot] = x, y
    return Dataset(X, labels, dataset.norm_bound, dataset.name, dataset.image_shape)


def _appended(dataset: Dataset, x: Array, y: float) -> Dataset:
    X = np.vstack([dataset.X, x.astype(dataset.X.dtype)])
    labels = np.append(dataset.y, np.asarray(y, dtype=dataset.y.dtype))
    return Dataset(X, labels, dataset.norm_bound, dataset.name, dataset.image_shape)
