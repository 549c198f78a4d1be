"""Neighbouring datasets as overlays: which slot differs, and what stands in it. Never a copy.

A dataset is a row of slots, in each at most one record. Every neighbour changes at most one slot,
so for one seed (one order of the slots) all of them see the same batches but for that slot.

A removed record leaves its slot empty, and an added one fills a slot that is empty for all others.
That is a removed record only where records are drawn independently (Poisson sampling at a given
rate, allocation to a given number of steps): in an order of fixed length, an empty slot still takes
up room in a batch. There, `zero_out` says what really differs, and `dataset.take` makes the smaller
dataset itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.data.dataset import Dataset
from sordino.privacy import Relation
from sordino.types import Ints

EMPTY = -1
"""Stands for "no record" wherever a row number is expected."""

SILENT = -2
"""Stands for a record that counts but has no gradient."""

UNCHANGED = -1
"""The slot of a neighbour that is the base dataset itself."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Datasets that differ from a base in at most one slot.

    Rows are numbered as in the dataset; row `dataset.rows + j` is `extra_X[j]`, `extra_y[j]`, and
    weighs `extra_weights[j]` where the dataset has weights. Use the functions below to make one.

    Attributes
    ----------
    members
        Row in each slot of the base dataset, or EMPTY.
    slot
        For each neighbour the slot it changes, or UNCHANGED.
    occupant
        For each neighbour the row it puts there, or EMPTY or SILENT.
    relation
        How each neighbour is related to the base.
    dataset
        What they are neighbours of; training on another one is refused.
    """

    dataset: Dataset
    members: Ints
    slot: Ints
    occupant: Ints
    relation: Relation
    extra_X: npt.NDArray[np.floating] | None = None
    extra_y: npt.NDArray[np.generic] | None = None
    extra_weights: npt.NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.slot)

    @property
    def labels(self) -> Ints:
        """For each neighbour the number of the record it lacks or gains (-1: the base)."""
        changed = self.members[self.slot]
        gained = np.where(changed == EMPTY, self.occupant, changed)
        return np.where(self.slot == UNCHANGED, UNCHANGED, gained)

    @property
    def size(self) -> int:
        """Number of slots: the length of every order of examples."""
        return len(self.members)

    @property
    def has_empty_slots(self) -> bool:
        """Whether some dataset has a slot without a record, or with one that has no gradient."""
        changed = self.slot != UNCHANGED
        return bool((self.members == EMPTY).any() or (self.occupant[changed] < 0).any())

    def check_of(self, dataset: Dataset) -> None:
        """Refuse any dataset but the one these were made from (or an exact copy of it)."""
        if not len(self):
            checks.fail("neighbours", "[]", "to hold at least one dataset")
        if self.dataset is not dataset and self.dataset.fingerprint != dataset.fingerprint:
            checks.fail("neighbours", "[of another dataset]", f"to be of {dataset!r}")

    def take(self, which: slice) -> Neighbours:
        """Return some of the neighbours, of the same base."""
        slot, occupant = self.slot[which], self.occupant[which]
        return dataclasses.replace(self, slot=slot, occupant=occupant)


def only(dataset: Dataset) -> Neighbours:
    """The dataset itself and nothing else, for training without neighbours."""
    return _make(dataset, [], [], Relation.REPLACE_ONE, with_base=True)


def replace_by_first(dataset: Dataset, indices: Sequence[int] | Ints) -> Neighbours:
    """Hyland & Tople's grid: record i replaced by record 0, which is itself never trained on.

    Two such datasets differ in two slots, yet each lacks one record and holds record 0 instead:
    D_i and D_j are neighbours of the common base (records 1..n-1), in which no slot is changed.
    """
    chosen = _chosen(dataset, indices)
    if 0 in chosen:
        checks.fail("index", 0, ">= 1", "Record 0 is the substitute.")
    slots, members = [i - 1 for i in chosen], np.arange(1, dataset.rows)
    return _make(dataset, slots, [0] * len(slots), Relation.REPLACE_ONE, members, with_base=False)


def replace(
    dataset: Dataset,
    indices: Sequence[int] | Ints,
    X: npt.NDArray[np.floating],
    y: npt.NDArray[np.generic],
    *,
    weights: npt.NDArray[np.float64] | None = None,
    with_base: bool = True,
) -> Neighbours:
    """Record indices[j] replaced by the given record (X[j], y[j]); first the base, unless not.

    In a dataset with weights a given record weighs weights[j]: as much as one can, if not given.
    """
    slots, extra = _chosen(dataset, indices), _extra(dataset, X, y, weights)
    if len(extra.X) != len(slots):
        checks.fail("X", extra.X.shape, f"to have one row for each of {len(slots)} indices")
    new = range(dataset.rows, dataset.rows + extra.rows)
    return _make(dataset, slots, new, Relation.REPLACE_ONE, extra=extra, with_base=with_base)


def remove(
    dataset: Dataset, indices: Sequence[int] | Ints, *, with_base: bool = True
) -> Neighbours:
    """Record indices[j] absent; first the base, unless not. For Poisson sampling."""
    slots = _chosen(dataset, indices)
    empty = [EMPTY] * len(slots)
    return _make(dataset, slots, empty, Relation.ADD_OR_REMOVE_ONE, with_base=with_base)


def zero_out(
    dataset: Dataset, indices: Sequence[int] | Ints, *, with_base: bool = True
) -> Neighbours:
    """Record indices[j] made silent: it counts, with gradient 0; first the base, unless not."""
    slots = _chosen(dataset, indices)
    return _make(dataset, slots, [SILENT] * len(slots), Relation.ZERO_OUT, with_base=with_base)


def add(
    dataset: Dataset,
    X: npt.NDArray[np.floating],
    y: npt.NDArray[np.generic],
    *,
    weights: npt.NDArray[np.float64] | None = None,
    with_base: bool = True,
) -> Neighbours:
    """The given record (X[j], y[j]) added; first the base, unless not. For Poisson sampling.

    Weights as for `replace`.
    """
    extra = _extra(dataset, X, y, weights)
    members = np.append(np.arange(dataset.rows), EMPTY)
    slots, new = [dataset.rows] * extra.rows, range(dataset.rows, dataset.rows + extra.rows)
    relation = Relation.ADD_OR_REMOVE_ONE
    return _make(dataset, slots, new, relation, members, extra=extra, with_base=with_base)


def _chosen(dataset: Dataset, indices: Sequence[int] | Ints) -> list[int]:
    listed = checks.sequence("indices", indices)
    return [checks.index("index", i, dataset.rows) for i in listed]


def _make(
    dataset: Dataset,
    slots: Sequence[int],
    occupants: Sequence[int],
    relation: Relation,
    members: Ints | None = None,
    *,
    with_base: bool,
    extra: Dataset | None = None,
) -> Neighbours:
    slot, occupant = np.array(slots, np.int64), np.array(occupants, np.int64)
    if with_base:
        slot, occupant = np.append(UNCHANGED, slot), np.append(EMPTY, occupant)
    if not len(slot):
        checks.fail("neighbours", "[]", "to hold at least one dataset")
    members = np.arange(dataset.rows) if members is None else members
    given = (None, None, None) if extra is None else (extra.X, extra.y, extra.weights)
    return Neighbours(dataset, members, slot, occupant, relation, *given)


def _extra(
    dataset: Dataset,
    X: npt.NDArray[np.floating],
    y: npt.NDArray[np.generic],
    weights: npt.NDArray[np.float64] | None,
) -> Dataset:
    """Check given records as strictly as the dataset's own (finite, same width, within bound)."""
    if weights is not None and dataset.weights is None:
        checks.fail("weights", "[given]", "to be left out where the dataset has none")
    X = np.atleast_2d(X)
    if dataset.weights is not None:
        weights = np.ones(len(X)) if weights is None else np.atleast_1d(weights)
    given = np.atleast_1d(y), dataset.norm_bound, "given records"
    records = Dataset(X, *given, weights=weights)
    if records.features != dataset.features:
        checks.fail("X.shape", records.X.shape, f"to have {dataset.features} columns")
    return records
