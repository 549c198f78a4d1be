from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.decomposition import PCA
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from sordino.data.preprocess import (
    READS,
    MinMax,
    OneHot,
    Projection,
    central_crop,
    clip_rows,
    first_tenth,
    papers,
    shuffled,
    unit_rows,
)
from sordino.errors import InvalidArgument

MATRICES = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-1e3, 1e3, allow_subnormal=False),
)


@given(MATRICES, st.floats(0.01, 100))
def test_clip_rows_shortens_long_rows_and_touches_no_other(X: np.ndarray, bound: float) -> None:
    clipped = clip_rows(X, bound)
    norms = np.linalg.norm(X, axis=1)
    short = norms <= bound
    assert np.array_equal(clipped[short], X[short])
    np.testing.assert_allclose(np.linalg.norm(clipped[~short], axis=1), bound, rtol=1e-12)
    np.testing.assert_allclose(clipped[~short] * norms[~short, None], X[~short] * bound)


def test_clip_rows_refuses_a_bound_that_is_not_positive() -> None:
    with pytest.raises(InvalidArgument, match="bound=0 > 0"):
        clip_rows(np.ones((1, 1)), 0)


def test_unit_rows_lengthens_too_and_leaves_zero_alone() -> None:
    np.testing.assert_allclose(
        unit_rows(np.array([[3.0, 4.0], [0.03, 0.04], [0.0, 0.0]])),
        [[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]],
    )


def test_central_crop_takes_the_middle() -> None:
    images = np.arange(2 * 28 * 28).reshape(2, 28, 28)
    assert np.array_equal(central_crop(images, 10), images[:, 9:19, 9:19])
    colour = np.arange(32 * 32 * 3).reshape(1, 32, 32, 3)
    assert np.array_equal(central_crop(colour, 10), colour[:, 11:21, 11:21, :])


def test_central_crop_refuses_a_square_larger_than_the_image() -> None:
    with pytest.raises(InvalidArgument, match="side=29 <= 28"):
        central_crop(np.zeros((1, 28, 30)), 29)


TRAINING = np.array([[0.0, 5.0, -1.0], [10.0, 5.0, 1.0], [5.0, 5.0, 0.0]])


def test_min_max_drops_constant_columns_of_the_rows_it_saw() -> None:
    scale = MinMax.fit(TRAINING, drop_constant=True)
    np.testing.assert_allclose(scale.apply(TRAINING), [[0, 0], [1, 1], [0.5, 0.5]])
    # Another row is scaled with the same range, and not clipped.
    np.testing.assert_allclose(scale.apply(np.array([[20.0, 7.0, -3.0]])), [[2.0, -1.0]])
    assert scale.reads_private_data == (READS["ranges"],)


def test_min_max_may_keep_constant_columns_as_zero() -> None:
    scale = MinMax.fit(TRAINING, drop_constant=False)
    np.testing.assert_allclose(scale.apply(TRAINING)[:, 1], 0)
    assert scale.apply(TRAINING).shape == (3, 3)


def test_min_max_of_blocks_is_that_of_all_rows() -> None:
    whole = MinMax.fit(TRAINING, drop_constant=True)
    pieces = MinMax.fit_blocks([TRAINING[:1], TRAINING[1:]], drop_constant=True)
    assert np.array_equal(whole.apply(TRAINING), pieces.apply(TRAINING))


def test_min_max_of_scikit_learn_has_other_last_digits() -> None:
    # So ours stays: the fingerprint of every dataset that was ever prepared rests on these digits.
    X = np.random.default_rng(0).normal(size=(200, 5))
    ours, theirs = MinMax.fit(X, drop_constant=True).apply(X), MinMaxScaler().fit_transform(X)
    np.testing.assert_allclose(ours, theirs, atol=1e-15)
    assert not np.array_equal(ours, theirs)


def test_min_max_with_public_bounds_reads_nothing() -> None:
    scale = MinMax.public([0, 0], [10, 2])
    np.testing.assert_allclose(scale.apply(np.array([[5.0, 0.5]])), [[0.5, 0.25]])
    assert scale.reads_private_data == ()


def test_min_max_refuses_useless_ranges() -> None:
    with pytest.raises(InvalidArgument, match="below high"):
        MinMax.public([0, 1], [1, 1])
    with pytest.raises(InvalidArgument, match="not constant"):
        MinMax.fit(np.ones((3, 2)), drop_constant=True)


WORDS = pd.DataFrame({"a": ["?", "x", "y", "x"], "b": ["no", "yes", "no", "no"]})


@pytest.mark.parametrize("drop_first", [True, False])
def test_one_hot_agrees_with_scikit_learn(drop_first: bool) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({c: rng.choice(list("?bca"), 50) for c in "uvw"})
    encoder = OneHotEncoder(drop="first" if drop_first else None, sparse_output=False)
    ours = OneHot.fit(frame, drop_first=drop_first)
    assert np.array_equal(ours.apply(frame), encoder.fit_transform(frame))
    assert ours.reads_private_data == (READS["levels"],)


def test_one_hot_drops_the_first_level_which_is_the_question_mark() -> None:
    one_hot = OneHot.fit(WORDS, drop_first=True)
    assert one_hot.levels == {"a": ("?", "x", "y"), "b": ("no", "yes")}
    assert one_hot.apply(WORDS).tolist() == [[0, 0, 0], [1, 0, 1], [0, 1, 0], [1, 0, 0]]


def test_one_hot_gives_a_level_it_never_saw_no_column() -> None:
    one_hot = OneHot.fit(WORDS, drop_first=False)
    unseen = pd.DataFrame({"a": ["z"], "b": ["yes"]})
    assert one_hot.apply(unseen).tolist() == [[0, 0, 0, 0, 1]]


@pytest.mark.parametrize(("drop_first", "width"), [(True, 3), (False, 5)])
def test_one_hot_of_no_rows_has_all_its_columns(drop_first: bool, width: int) -> None:
    one_hot = OneHot.fit(WORDS, drop_first=drop_first)
    assert one_hot.apply(WORDS.iloc[:0]).shape == (0, width)


def test_one_hot_of_no_levels_has_no_columns() -> None:
    assert OneHot.public({"a": ()}, drop_first=False).apply(WORDS).shape == (4, 0)


def test_one_hot_with_documented_levels_reads_nothing() -> None:
    one_hot = OneHot.public({"b": ("yes", "no", "maybe")}, drop_first=True)
    assert one_hot.reads_private_data == ()
    assert one_hot.apply(WORDS).tolist() == [[1, 0], [0, 1], [1, 0], [1, 0]]


def test_pca_agrees_with_scikit_learn_up_to_sign_and_always_alike() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 12)) * np.arange(1, 13) + 3
    ours = Projection.pca(X, 5)
    theirs = PCA(5, svd_solver="full").fit(X)
    np.testing.assert_allclose(np.abs(ours.apply(X)), np.abs(theirs.transform(X)), atol=1e-9)
    # The digits differ, and with them a dataset's fingerprint: so ours stays.
    assert not np.array_equal(np.abs(ours.apply(X)), np.abs(theirs.transform(X)))
    assert np.array_equal(ours.directions, Projection.pca(X.copy(), 5).directions)
    largest = np.abs(ours.directions).argmax(axis=0)
    assert (ours.directions[largest, np.arange(5)] > 0).all()
    assert ours.reads_private_data == (READS["directions"],)


def test_pca_refuses_more_directions_than_there_can_be() -> None:
    with pytest.raises(InvalidArgument, match="components=4 <= 3"):
        Projection.pca(np.zeros((3, 9)), 4)


def test_random_projection_is_fixed_by_its_shape_and_reads_nothing() -> None:
    projection = Projection.random(784, 50)
    assert np.array_equal(projection.directions, Projection.random(784, 50).directions)
    # 39,200 draws of variance 1/50: four standard errors each.
    assert abs(projection.directions.mean()) < 4 * (1 / 50 / 39_200) ** 0.5
    assert projection.directions.var() * 50 == pytest.approx(1, abs=4 * (2 / 39_200) ** 0.5)
    assert projection.reads_private_data == ()
    X = np.eye(784)[:3]
    np.testing.assert_allclose(projection.apply(X), projection.directions[:3])


@pytest.mark.parametrize(("rows", "held"), [(32_561, 3_256), (11_552, 1_155), (10, 1), (9, 0)])
def test_validation_is_the_first_tenth_rounded_down(rows: int, held: int) -> None:
    train, validation = first_tenth(rows)
    everything = np.arange(rows)
    assert everything[validation].tolist() == list(range(held))
    assert everything[train].tolist() == list(range(held, rows))


def test_the_forest_split_has_the_sizes_of_table_1() -> None:
    train, validation, test = papers(211_840 + 283_301, 85, "forest")
    assert (len(train), len(validation), len(test)) == (378_783, 42_086, 74_272)


def test_every_row_is_in_exactly_one_part_and_order_is_shuffled() -> None:
    train, validation, test = papers(1000, 80, "anything")
    everything = np.concatenate([train, validation, test])
    assert sorted(everything.tolist()) == list(range(1000))
    assert np.abs(np.corrcoef(everything, np.arange(1000))[0, 1]) < 0.15


def test_a_split_is_fixed_by_its_name() -> None:
    first, _ = shuffled(1000, 80, "one")
    again, _ = shuffled(1000, 80, "one")
    other, _ = shuffled(1000, 80, "other")
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_shuffle_never_changes() -> None:
    # Results in docs and sordino_papers rest on these splits: whoever changes them changes those.
    assert shuffled(10, 80, "forest")[0].tolist() == [1, 8, 7, 4, 2, 3, 0, 9]
