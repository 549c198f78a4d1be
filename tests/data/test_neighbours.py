"""Neighbours as overlays: who stands in which slot, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from sordino.data import Dataset
from sordino.data import neighbours as nb
from sordino.errors import InvalidArgument
from sordino.privacy import Relation

X = np.array([[0.6, 0.8], [0.3, 0.4], [0.0, 1.0], [-0.6, 0.0], [0.1, 0.2]])
Y = np.array([0, 1, 1, 0, 1])
DATA = Dataset(X, Y, norm_bound=1.0)
NEW_X = np.array([[0.0, -1.0], [0.5, 0.5]])
NEW_Y = np.array([1, 0])


def slots(neighbours, k):
    """Dataset k slot by slot, as (features, label) or None: what the overlay stands for."""
    rows = [(*x, int(y)) for x, y in zip(X, Y, strict=True)]
    if neighbours.extra_X is not None:
        extra = zip(neighbours.extra_X, neighbours.extra_y, strict=True)
        rows += [(*x, int(y)) for x, y in extra]
    out = [None if row == nb.EMPTY else rows[row] for row in neighbours.members]
    if neighbours.slot[k] != nb.UNCHANGED:
        row = neighbours.occupant[k]
        out[neighbours.slot[k]] = None if row == nb.EMPTY else rows[row]
    return out


RECORDS = [(*x, int(y)) for x, y in zip(X, Y, strict=True)]
NEW = [(*x, int(y)) for x, y in zip(NEW_X, NEW_Y, strict=True)]


def test_only_is_the_dataset_itself():
    only = nb.only(DATA)
    assert len(only) == 1
    assert only.size == 5
    assert slots(only, 0) == RECORDS
    assert only.labels.tolist() == [-1]
    assert not only.has_empty_slots
    assert only.extra_X is None


def test_replace_by_first_puts_record_0_in_the_slot_of_record_i():
    grid = nb.replace_by_first(DATA, [1, 4, 4, 2])
    assert len(grid) == 4
    assert grid.size == 4  # record 0 has no slot of its own
    assert grid.relation is Relation.REPLACE_ONE
    assert grid.labels.tolist() == [1, 4, 4, 2]
    first, others = RECORDS[0], RECORDS[1:]
    assert slots(grid, 0) == [first, *others[1:]]
    assert slots(grid, 1) == slots(grid, 2) == [*others[:3], first]
    assert slots(grid, 3) == [others[0], first, *others[2:]]
    assert not grid.has_empty_slots


def test_two_datasets_of_the_first_record_grid_are_replace_one_neighbours():
    """As multisets they differ in one record: D_i holds j and lacks i, D_j the other way."""
    grid = nb.replace_by_first(DATA, range(1, 5))
    for a in range(4):
        for b in range(a + 1, 4):
            one, other = set(slots(grid, a)), set(slots(grid, b))
            assert one - other == {RECORDS[b + 1]}
            assert other - one == {RECORDS[a + 1]}


@pytest.mark.parametrize("with_base", [True, False])
def test_replace_puts_the_given_record_in(with_base):
    given = nb.replace(DATA, [3, 0], NEW_X, NEW_Y, with_base=with_base)
    shift = int(with_base)
    assert len(given) == 2 + shift
    assert given.size == 5
    assert given.relation is Relation.REPLACE_ONE
    assert given.labels.tolist() == [-1] * shift + [3, 0]
    if with_base:
        assert slots(given, 0) == RECORDS
    assert slots(given, shift) == [*RECORDS[:3], NEW[0], RECORDS[4]]
    assert slots(given, shift + 1) == [NEW[1], *RECORDS[1:]]
    assert not given.has_empty_slots


@pytest.mark.parametrize("with_base", [True, False])
def test_remove_leaves_the_slot_empty(with_base):
    without = nb.remove(DATA, [4, 0], with_base=with_base)
    shift = int(with_base)
    assert len(without) == 2 + shift
    assert without.size == 5
    assert without.relation is Relation.ADD_OR_REMOVE_ONE
    assert without.labels.tolist() == [-1] * shift + [4, 0]
    if with_base:
        assert slots(without, 0) == RECORDS
    assert slots(without, shift) == [*RECORDS[:4], None]
    assert slots(without, shift + 1) == [None, *RECORDS[1:]]
    assert without.has_empty_slots


@pytest.mark.parametrize("with_base", [True, False])
def test_add_fills_one_more_slot_that_is_empty_for_the_base(with_base):
    more = nb.add(DATA, NEW_X, NEW_Y, with_base=with_base)
    shift = int(with_base)
    assert len(more) == 2 + shift
    assert more.size == 6
    assert more.relation is Relation.ADD_OR_REMOVE_ONE
    assert more.labels.tolist() == [-1] * shift + [5, 6]  # numbered after the dataset's own
    if with_base:
        assert slots(more, 0) == [*RECORDS, None]
    assert slots(more, shift) == [*RECORDS, NEW[0]]
    assert slots(more, shift + 1) == [*RECORDS, NEW[1]]
    assert more.has_empty_slots


def test_one_record_may_be_given_without_a_row_axis():
    assert slots(nb.add(DATA, NEW_X[0], NEW_Y[0]), 1) == [*RECORDS, NEW[0]]
    assert slots(nb.replace(DATA, [2], NEW_X[0], 1), 1)[2] == NEW[0]


def test_nothing_removed_leaves_the_base_alone():
    alone = nb.remove(DATA, [])
    assert len(alone) == 1
    assert slots(alone, 0) == RECORDS
    assert not alone.has_empty_slots


def test_take_keeps_the_base_and_the_records_given():
    given = nb.replace(DATA, [3, 0], NEW_X, NEW_Y)
    part = given.take(slice(2, 3))
    assert len(part) == 1
    assert part.relation is given.relation
    assert slots(part, 0) == slots(given, 2)
    assert part.labels.tolist() == [0]
    assert [slots(given.take(slice(None)), k) for k in range(3)] == [
        slots(given, k) for k in range(3)
    ]


def test_taking_the_base_of_a_removal_leaves_no_empty_slot():
    without = nb.remove(DATA, [1])
    assert not without.take(slice(0, 1)).has_empty_slots
    assert without.take(slice(1, 2)).has_empty_slots
    # An added record's slot is empty for the others: it stays a slot whoever is taken.
    assert nb.add(DATA, NEW_X, NEW_Y).take(slice(1, 2)).has_empty_slots


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: nb.replace_by_first(DATA, [1, 5]), "index=5 < 5, the number of rows"),
        (lambda: nb.replace_by_first(DATA, [-1]), "index=-1 >= 0"),
        (lambda: nb.replace_by_first(DATA, [1.5]), "index=1.5 to be a whole number"),
        (lambda: nb.replace_by_first(DATA, [2, 0]), "index=0 >= 1. Record 0 is the substitute"),
        (lambda: nb.replace_by_first(DATA, []), "neighbours=.* to hold at least one dataset"),
        (lambda: nb.remove(DATA, [5]), "index=5 < 5, the number of rows"),
        (lambda: nb.remove(DATA, [-1]), "index=-1 >= 0"),
        (lambda: nb.remove(DATA, [], with_base=False), "neighbours=.* at least one dataset"),
        (lambda: nb.replace(DATA, [9, 0], NEW_X, NEW_Y), "index=9 < 5, the number of rows"),
        (lambda: nb.replace(DATA, [1], NEW_X, NEW_Y), r"X=\(2, 2\) to have one row for each of 1"),
        (lambda: nb.replace(DATA, [1, 2], NEW_X, NEW_Y[:1]), r"y.shape=\(1,\) to be \(2,\)"),
        (lambda: nb.replace(DATA, [1], [[0.1, 0.1, 0.1]], [1]), r"X.shape=\(1, 3\) to have 2"),
        (lambda: nb.replace(DATA, [1], [[0.8, 0.7]], [1]), "norm_bound=1.0 >= every row's norm"),
        (lambda: nb.add(DATA, [[0.1]], [1]), r"X.shape=\(1, 1\) to have 2 columns"),
        (lambda: nb.add(DATA, [[np.nan, 0.1]], [1]), "[Xy]=.* to hold finite numbers only"),
        (lambda: nb.add(DATA, [[0.1, 0.1]], [np.inf]), "[Xy]=.* to hold finite numbers only"),
        (lambda: nb.add(DATA, [[0.0, 1.01]], [1]), "norm_bound=1.0 >= every row's norm"),
        (lambda: nb.add(DATA, NEW_X, NEW_Y[:1]), r"y.shape=\(1,\) to be \(2,\)"),
        (lambda: nb.add(DATA, np.zeros((0, 2)), []), r"X.shape=\(0, 2\)"),
    ],
)
def test_what_is_no_neighbour_is_refused_in_one_sentence(make, sentence):
    with pytest.raises(InvalidArgument, match=f"Expected {sentence}"):
        make()


def test_a_dataset_that_claims_no_bound_takes_any_finite_record():
    unbounded = Dataset(X, Y)
    assert len(nb.add(unbounded, [[100.0, 0.0]], [1])) == 2


def test_no_constructor_copies_the_dataset():
    """Overlays hold numbers of rows; the features stay where they are."""
    big = Dataset(np.zeros((3000, 40)), np.zeros(3000, int))
    for neighbours in (
        nb.only(big),
        nb.replace_by_first(big, range(1, 3000)),
        nb.remove(big, range(3000)),
        nb.add(big, np.ones((2, 40)), [0, 1]),
    ):
        held = sum(a.nbytes for a in (neighbours.members, neighbours.slot, neighbours.occupant))
        assert held <= 3 * 8 * 3001
        assert neighbours.extra_X is None or len(neighbours.extra_X) == 2


def test_a_silent_record_counts_but_is_no_row():
    dataset = Dataset(np.eye(4), [0, 1, 0, 1])
    silenced = nb.zero_out(dataset, [2, 0])
    assert silenced.relation is Relation.ZERO_OUT
    assert silenced.slot.tolist() == [nb.UNCHANGED, 2, 0]
    assert silenced.occupant.tolist() == [nb.EMPTY, nb.SILENT, nb.SILENT]
    assert silenced.labels.tolist() == [-1, 2, 0]
    assert silenced.has_empty_slots


def test_given_records_weigh_what_is_given_or_as_much_as_one_can():
    weighted = Dataset(X, Y, 1.0, weights=np.linspace(0, 0.9, len(X)))
    new = np.zeros((2, X.shape[1])), [0, 1]
    for make in (
        lambda **how: nb.replace(weighted, [0, 1], *new, **how),
        lambda **how: nb.add(weighted, *new, **how),
    ):
        assert make().extra_weights.tolist() == [1.0, 1.0]
        assert make(weights=[0.5, 0.0]).extra_weights.tolist() == [0.5, 0.0]
        with pytest.raises(InvalidArgument, match="Expected weights"):
            make(weights=[0.5, 1.5])
        with pytest.raises(InvalidArgument, match="Expected weights"):
            make(weights=[0.5])
    with pytest.raises(InvalidArgument, match="left out where the dataset has none"):
        nb.add(Dataset(X, Y, 1.0), *new, weights=[1.0, 1.0])
