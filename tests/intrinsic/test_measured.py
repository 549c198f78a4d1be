"""What statistics get of a study: arrays without gaps, and what was left out said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument
from sordino.intrinsic import measured
from sordino.intrinsic.measure import measure
from sordino.intrinsic.measured import load
from sordino.privacy import Relation
from sordino.sgd.spec import TrainSpec
from sordino.study import Layout, Study, StudyError


def test_a_whole_study(people: Dataset, spec: TrainSpec, tmp_path: Path) -> None:
    study = measure(spec, people, 4, 3, checkpoints=[30, 10], store=tmp_path / "study")
    found = load(tmp_path / "study")
    assert found.spec == spec
    assert found.function is None
    assert found.dataset == measured.StudiedDataset(
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


@settings(derandomize=True, max_examples=200, deadline=None, database=None)
@given(done=arrays(bool, st.tuples(st.integers(1, 7), st.integers(1, 7))))
def test_what_is_kept_has_no_gaps_and_nothing_whole_is_left_out(done: np.ndarray) -> None:
    seeds, neighbours = measured._whole(done)
    box = done[np.ix_(seeds, neighbours)]
    assert box.all()
    assert (box.size > 0) == done.any()
    if box.size:  # no seed or neighbour could be added as it is
        assert not done[np.ix_(~seeds, neighbours)].all(axis=1).any()
        assert not done[np.ix_(seeds, ~neighbours)].all(axis=0).any()
