"""Which seeds, datasets and steps a study is of; and what statistics get of it, without gaps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument
from sordino.intrinsic import grid
from sordino.intrinsic.grid import load
from sordino.intrinsic.measure import measure
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import Relation
from sordino.sgd.spec import TrainSpec
from sordino.study import Layout, Study, StudyError


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
    spec = {"spec": TrainSpec(ObjectiveSpec("logistic"), 0.5, 4, steps=3).to_dict()}
    found = [grid.description(spec, each, "given", engine=True)["neighbours"] for each in sets]
    assert len({each["sha256"] for each in found}) == len(sets)
    assert [each["size"] for each in found] == [11, 11, 12, 12, 12, 12, 12]


def test_a_whole_study(people: Dataset, spec: TrainSpec, tmp_path: Path) -> None:
    study = measure(spec, people, 4, 3, checkpoints=[30, 10], store=tmp_path / "study")
    found = load(tmp_path / "study")
    assert found.spec == spec
    assert found.function is None
    assert found.dataset == grid.StudiedDataset(
        "people", people.fingerprint, rows=60, features=4, norm_bound=1.0, size=59
    )
    assert found.relation is Relation.REPLACE_ONE
    assert found.inits == ("vary", "fixed")
    assert found.seeds == (0, 1, 2, 3)
    assert found.neighbours == study.layout.neighbours
    assert found.steps == (30, 10)
    assert found.base == 0
    assert found.parameters == 5
    assert found.left_out == ()
    assert found.weights("fixed").shape == (4, 4, 2, 5)
    assert np.array_equal(found.weights("fixed"), study.weights("fixed"))
    assert np.array_equal(found.weights("vary", steps=[10]), study.weights("vary")[:, :, 1:])
    assert np.array_equal(found.final("vary"), study.weights("vary")[:, :, 0])
    with pytest.raises(InvalidArgument, match="init=given"):
        found.weights("given")


def test_float32_weights_come_as_the_same_numbers_in_float64(
    people: Dataset, tmp_path: Path, spec: TrainSpec
) -> None:
    short = TrainSpec(spec.objective, 0.5, 8, steps=5)
    study = measure(short, people, 2, 2, store=tmp_path / "study")
    weights = load(study).final("vary")
    assert weights.dtype == np.float64
    assert np.array_equal(weights, study.weights("vary")[:, :, 0].astype(np.float64))


@pytest.fixture
def study(tmp_path: Path, people: Dataset, spec: TrainSpec):
    """Cells of two seeds and two datasets, none finished; it can be written."""
    plain = measure(spec, people, 1, 1, store=tmp_path / "plain").description
    layout = Layout.cut(("vary", "fixed"), range(6), (-1, 7, 9, 4), (30,), 5, cell=(2, 2))
    with Study.open_or_create(tmp_path / "study", plain, layout) as made:
        yield made


def _write(study: Study, failed: set[int], missing: set[int] = frozenset()) -> None:  # type: ignore[assignment]
    for cell in study.cells():
        if cell.number in failed:
            study.fail(cell, "it diverged")
        elif cell.number not in missing:
            study.write(cell, np.full(study.layout.shape_of(cell), cell.number, dtype="float32"))


def test_seeds_of_a_failed_cell_are_left_out_of_every_init_and_that_is_said(study: Study) -> None:
    _write(study, failed={2})  # vary, seeds 2 and 3, the first two datasets
    found = load(study)
    assert found.seeds == (0, 1, 4, 5)
    assert found.neighbours == (-1, 7, 9, 4)
    assert found.final("vary")[:, :, 0].tolist() == [[0, 0, 1, 1]] * 2 + [[4, 4, 5, 5]] * 2
    assert found.final("fixed")[:, :, 0].tolist() == [[6, 6, 7, 7]] * 2 + [[10, 10, 11, 11]] * 2
    cell, seeds = found.left_out
    assert cell.startswith("cell 2 (init vary, seeds 2 to 3")
    assert cell.endswith("failed: it diverged")
    assert seeds == "2 of 6 seeds are left out for that"
    # Where only one kind of initial weights is needed, the failures of the other do not count.
    assert load(study, init="fixed").seeds == (0, 1, 2, 3, 4, 5)
    assert load(study, init="fixed").left_out == ()


def test_neighbours_that_fail_for_every_seed_are_left_out(study: Study) -> None:
    _write(study, failed={1, 3, 5})
    found = load(study)
    assert found.seeds == (0, 1, 2, 3, 4, 5)
    assert found.neighbours == (-1, 7)
    assert found.left_out[-1] == "2 of 4 neighbours are left out for that"


def test_missing_cells_are_said_and_a_study_without_anything_whole_is_refused(
    study: Study,
) -> None:
    _write(study, failed={0}, missing={6, 7, 8, 9, 10, 11})
    with pytest.raises(StudyError, match=r"finished cell .*The first failure: it diverged"):
        load(study)
    assert load(study, init="vary").seeds == (2, 3, 4, 5)
    for cell in study.missing()[2:]:
        study.write(cell, np.zeros(study.layout.shape_of(cell), dtype="float32"))
    found = load(study)
    assert found.seeds == (2, 3, 4, 5)
    assert "2 of 12 cells are missing" in found.left_out


def test_another_kind_of_study_is_refused(tmp_path: Path) -> None:
    layout = Layout.cut(("vary",), (0,), (-1,), (1,), 1, cell=(1, 1))
    with Study.open_or_create(tmp_path / "study", {"what": "else"}, layout) as other:
        other.write(other.cells()[0], np.zeros((1, 1, 1, 1), dtype="float32"))
    with pytest.raises(StudyError, match="made by measure"):
        load(tmp_path / "study")


@settings(derandomize=True, max_examples=80, deadline=None, database=None)
@given(done=arrays(bool, st.tuples(st.integers(1, 7), st.integers(1, 7))))
def test_what_is_kept_has_no_gaps_and_nothing_whole_is_left_out(done: np.ndarray) -> None:
    seeds, neighbours = grid._whole(done)
    box = done[np.ix_(seeds, neighbours)]
    assert box.all()
    assert (box.size > 0) == done.any()
    if box.size:  # no seed or neighbour could be added as it is
        assert not done[np.ix_(~seeds, neighbours)].all(axis=1).any()
        assert not done[np.ix_(seeds, ~neighbours)].all(axis=0).any()
