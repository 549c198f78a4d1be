from __future__ import annotations

import numpy as np
import pytest

from sordino.data import holdout


@pytest.mark.parametrize(("rows", "held"), [(32_561, 3_256), (11_552, 1_155), (10, 1), (9, 0)])
def test_validation_is_the_first_tenth_rounded_down(rows: int, held: int) -> None:
    train, validation = holdout.first_tenth(rows)
    everything = np.arange(rows)
    assert everything[validation].tolist() == list(range(held))
    assert everything[train].tolist() == list(range(held, rows))


def test_the_forest_split_has_the_sizes_of_table_1() -> None:
    train, validation, test = holdout.papers(211_840 + 283_301, 85, "forest")
    assert (len(train), len(validation), len(test)) == (378_783, 42_086, 74_272)


def test_every_row_is_in_exactly_one_part_and_order_is_shuffled() -> None:
    train, validation, test = holdout.papers(1000, 80, "anything")
    everything = np.concatenate([train, validation, test])
    assert sorted(everything.tolist()) == list(range(1000))
    assert np.abs(np.corrcoef(everything, np.arange(1000))[0, 1]) < 0.15


def test_a_split_is_fixed_by_its_name() -> None:
    first, _ = holdout.shuffled(1000, 80, "one")
    again, _ = holdout.shuffled(1000, 80, "one")
    other, _ = holdout.shuffled(1000, 80, "other")
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_shuffle_never_changes() -> None:
    # Results in docs and sordino_papers rest on these splits: whoever changes them changes those.
    assert holdout.shuffled(10, 80, "forest")[0].tolist() == [1, 8, 7, 4, 2, 3, 0, 9]
