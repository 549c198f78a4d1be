"""Which seeds, datasets and steps a study is of, and that nobody chooses them afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument
from sordino.intrinsic import grid
from sordino.models.constants import ObjectiveSpec
from sordino.sgd.spec import TrainSpec


def _dataset(rows: int, shift: float = 0.0) -> Dataset:
    numbers = np.arange(2.0 * rows).reshape(rows, 2) + shift
    return Dataset(numbers, np.arange(rows) % 2)


def test_the_dataset_itself_comes_first_and_record_0_stands_in_for_the_others() -> None:
    dataset = _dataset(12)
    made = grid.datasets(dataset, 5)
    assert made.labels[0] == -1
    assert len(set(made.labels)) == 6
    assert made.labels[1:].min() >= 1
    assert made.members.tolist() == list(range(1, 12))
    assert (made.occupant[1:] == 0).all()
    assert (made.members[made.slot[1:]] == made.labels[1:]).all()


def test_neighbours_depend_on_the_number_of_records_alone_and_more_of_them_begin_alike() -> None:
    five = grid.datasets(_dataset(40), 5).labels.tolist()
    assert grid.datasets(_dataset(40, shift=3.0), 9).labels.tolist()[:6] == five
    assert grid.datasets(_dataset(41), 5).labels.tolist() != five
    # Pinned: a study resumed years later must draw the same.
    assert five == [-1, 27, 20, 5, 32, 22]


def test_every_record_but_the_first_can_be_replaced() -> None:
    assert sorted(grid.datasets(_dataset(6), 5).labels.tolist()) == [-1, 1, 2, 3, 4, 5]
    with pytest.raises(InvalidArgument, match="neighbours=6 <= 5"):
        grid.datasets(_dataset(6), 6)


def test_given_neighbours_are_taken_as_they_are_but_of_this_dataset() -> None:
    dataset = _dataset(12)
    given = neighbouring.zero_out(dataset, [3, 4])
    assert grid.datasets(dataset, given) is given
    with pytest.raises(InvalidArgument, match="another dataset"):
        grid.datasets(_dataset(12, shift=1.0), given)


def test_seeds_are_counted_from_0_or_given() -> None:
    assert grid.seed_numbers(3) == (0, 1, 2)
    assert grid.seed_numbers(range(5, 8)) == (5, 6, 7)
    assert grid.seed_numbers(np.array([4, 2])) == (4, 2)
    for bad in (0, 2.5, [], [1, 1], [-1], "12"):
        with pytest.raises(InvalidArgument, match="seed"):
            grid.seed_numbers(bad)  # type: ignore[arg-type]


def test_checkpoints_are_the_last_evenly_apart_or_given() -> None:
    assert grid.kept_steps(None, 100) == (100,)
    assert grid.kept_steps(1, 100) == (100,)
    assert grid.kept_steps(3, 100) == (33, 66, 100)
    assert grid.kept_steps(4, 4) == (1, 2, 3, 4)
    assert grid.kept_steps([0, 7], 100) == (0, 7)
    with pytest.raises(InvalidArgument, match="checkpoints=5 <= 4"):
        grid.kept_steps(5, 4)


@pytest.mark.parametrize("bad", [[], ["vary", "vary"], "given", ["vary", "other"]])
def test_kinds_of_initial_weights_are_named(bad: object) -> None:
    assert grid.starts("fixed") == ("fixed",)
    with pytest.raises(InvalidArgument, match="init"):
        grid.starts(bad)  # type: ignore[arg-type]


def test_the_digest_of_neighbours_tells_apart_what_is_replaced_and_by_what() -> None:
    dataset = _dataset(12)
    one = np.ones((1, 2))
    sets = [
        grid.datasets(dataset, 4),
        grid.datasets(dataset, 5),
        neighbouring.replace(dataset, [3], one, [0]),
        neighbouring.replace(dataset, [4], one, [0]),
        neighbouring.replace(dataset, [3], 2 * one, [0]),
        neighbouring.replace(dataset, [3], one, [1]),
        neighbouring.replace(dataset, [3], one, [1], with_base=False),
    ]
    spec = {"spec": grid.plain_spec(TrainSpec(ObjectiveSpec("logistic"), 0.5, 4, steps=3))}
    found = [grid.description(spec, each, "given", engine=True)["neighbours"] for each in sets]
    assert len({each["sha256"] for each in found}) == len(sets)
    assert [each["size"] for each in found] == [11, 11, 12, 12, 12, 12, 12]


def test_a_description_holds_no_kind_of_initial_weights_which_is_an_axis() -> None:
    vary = TrainSpec(ObjectiveSpec("logistic"), 0.5, 4, steps=3)
    assert "init" not in grid.plain_spec(vary)
    assert TrainSpec.from_dict(grid.plain_spec(vary)) == vary
