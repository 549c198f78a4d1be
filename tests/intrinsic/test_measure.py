"""A study holds what the engine trains, however often it was stopped on the way."""

from __future__ import annotations

import dataclasses
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument
from sordino.intrinsic import grid
from sordino.intrinsic.measure import StudyProgress, measure
from sordino.models.constants import ObjectiveSpec
from sordino.sgd import DivergenceWarning, Plan, TrainSpec, planning, train
from sordino.study import Study, StudyError

SEEDS, NEIGHBOURS = 16, 5
"""Cells of two seeds and all datasets: eight for each kind of initial weights."""


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of all cells that the engine was asked for."""
    asked: list[int] = []
    here = grid.EngineWork.here

    def spy(self: grid.EngineWork, wanted: Any, *how: Any) -> Any:
        asked.extend(cell.number for cell in wanted)
        return here(self, wanted, *how)

    monkeypatch.setattr(grid.EngineWork, "here", spy)
    return asked


class Stop:
    """Ctrl-C once so many cells are over."""

    def __init__(self, cells: int) -> None:
        self._cells = cells

    def __call__(self, progress: StudyProgress) -> None:
        if progress.cells_done >= self._cells:
            raise KeyboardInterrupt


def test_weights_are_those_of_the_engine(people: Dataset, spec: TrainSpec, tmp_path: Path) -> None:
    study = measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "study", checkpoints=3)
    assert study.layout.inits == ("vary", "fixed")
    assert study.layout.steps == (10, 20, 30)
    assert study.layout.dtype == "float64"
    assert (study.status() == "done").all()
    assert len(study.cells()) == 16
    datasets = grid.datasets(people, NEIGHBOURS)
    for init in study.layout.inits:
        one = dataclasses.replace(spec, init=init)
        plan = Plan(*grid.cell_size(study.layout))
        wanted = train(one, people, range(SEEDS), datasets, (10, 20, 30), plan=plan)
        assert np.array_equal(study.weights(init), wanted)
    assert not np.array_equal(study.weights("vary"), study.weights("fixed"))


def test_neighbours_are_trained_on_the_records_their_labels_say(
    people: Dataset, spec: TrainSpec, tmp_path: Path
) -> None:
    study = measure(spec, people, 2, 3, init="vary", store=tmp_path / "study")
    for place, label in enumerate(study.layout.neighbours):
        rows = np.arange(1, people.rows)
        if label >= 0:
            rows[label - 1] = 0
        alone = train(spec, people.take(rows), range(2))[:, 0]
        # The same sums, taken in another order.
        assert np.abs(study.weights("vary")[:, place] - alone).max() < 1e-12
    assert study.layout.neighbours[0] == -1


def test_finished_cells_are_not_trained_again(
    people: Dataset, spec: TrainSpec, tmp_path: Path, trained: list[int], content
) -> None:
    measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "study")
    assert trained == list(range(16))
    before = content(tmp_path / "study")
    measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "study")
    assert trained == list(range(16))
    assert content(tmp_path / "study") == before


def test_stopped_and_run_again_it_ends_with_the_same_bytes(
    people: Dataset, spec: TrainSpec, tmp_path: Path, trained: list[int], content
) -> None:
    measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "whole", workers=1)
    stopped = tmp_path / "stopped"
    for more in (3, 12, 9):  # the last is over before it is asked to stop
        trained.clear()
        done = 0 if not stopped.exists() else int((Study.open(stopped).status() == "done").sum())
        with suppress(KeyboardInterrupt):
            measure(spec, people, SEEDS, NEIGHBOURS, store=stopped, progress=Stop(done + more))
        assert len(trained) == 16 - done
    assert content(stopped) == content(tmp_path / "whole")


def test_a_study_goes_on_as_it_was_cut_where_memory_is_short(
    people: Dataset, spec: TrainSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    measure(spec, people, SEEDS, NEIGHBOURS, store=whole)
    with pytest.raises(KeyboardInterrupt):
        measure(spec, people, SEEDS, NEIGHBOURS, store=stopped, progress=Stop(2))
    monkeypatch.setattr(planning, "default_threads", lambda: 2)
    monkeypatch.setattr(planning, "default_memory", lambda: 22_000)
    measure(spec, people, SEEDS, NEIGHBOURS, store=stopped)
    assert content(stopped) == content(whole)
    study = measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "other")
    assert len(study.cells()) > 16  # this machine would have cut it so


def test_cells_that_diverge_are_recorded_and_the_rest_survives(
    tmp_path: Path, trained: list[int], content
) -> None:
    # Weights explode in the second batch after the one with the huge record, in half of the seeds.
    draws = np.random.default_rng(2)
    X = draws.standard_normal((41, 2))
    X[7] *= 1e25
    dataset = Dataset(X.astype("float32"), X[:, 0] / np.abs(X[:, 0]))
    spec = TrainSpec(ObjectiveSpec("least-squares"), 0.1, 4, steps=5)
    study = measure(spec, dataset, SEEDS, 2, init="vary", store=tmp_path / "study")
    with pytest.warns(DivergenceWarning):
        wanted = train(spec, dataset, range(SEEDS), grid.datasets(dataset, 2), plan=Plan(2, 3))
    finite = np.isfinite(wanted).all(axis=(1, 2, 3)).reshape(8, 2).all(axis=1)
    assert 1 <= finite.sum() <= 7
    assert ((study.status() == "done") == finite).all()
    assert ((study.status() == "failed") == ~finite).all()
    for reason in study.failures().values():
        assert "runs diverged" in reason
        assert "Lower the learning rate" in reason
    kept = np.isfinite(study.weights("vary")).all(axis=(1, 2, 3)).reshape(8, 2).all(axis=1)
    assert (kept == finite).all()

    before = content(tmp_path / "study")
    trained.clear()
    measure(spec, dataset, SEEDS, 2, init="vary", store=tmp_path / "study")
    assert trained == []
    measure(spec, dataset, SEEDS, 2, init="vary", store=tmp_path / "study", retry_failed=True)
    assert trained == np.flatnonzero(~finite).tolist()
    assert content(tmp_path / "study") == before


def test_another_study_is_refused_and_the_difference_named(
    people: Dataset, spec: TrainSpec, tmp_path: Path, content
) -> None:
    store = tmp_path / "study"
    measure(spec, people, 4, 3, store=store)
    before = content(store)
    slower = dataclasses.replace(spec, learning_rate=0.25)
    changed = Dataset(people.X, 1 - people.y, 1.0, "people")
    given = neighbouring.zero_out(people, [3, 4, 5])
    for arguments, difference in (
        ((slower, people, 4, 3), "learning_rate.rate is 0.5 there and 0.25 here"),
        ((spec, changed, 4, 3), "description.dataset.sha256"),
        ((spec, people, 5, 3), "layout.seeds has 4 entries there and 5 here"),
        ((spec, people, 4, 2), "layout.neighbours has 4 entries there and 3 here"),
        ((spec, people, 4, given), "relation is .replace-one. there and .zero-out. here"),
    ):
        with pytest.raises(StudyError, match=difference):
            measure(*arguments, store=store)
    with pytest.raises(StudyError, match=r"layout\.inits"):
        measure(spec, people, 4, 3, init="vary", store=store)
    with pytest.raises(StudyError, match=r"layout\.steps"):
        measure(spec, people, 4, 3, checkpoints=2, store=store)
    assert content(store) == before
    # The kind of initial weights of the spec itself is not used, and so no difference.
    measure(dataclasses.replace(spec, init="fixed"), people, 4, 3, store=store)


def test_a_place_that_cannot_be_written_is_one_sentence(
    people: Dataset, spec: TrainSpec, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for place in (file, file / "study"):
        with pytest.raises(StudyError, match="to be a directory"):
            measure(spec, people, 2, 2, store=place)
    assert file.read_text() == "mine"
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("mine")
    with pytest.raises(StudyError, match=r"it holds 'letter\.txt'"):
        measure(spec, people, 2, 2, store=other)
    assert os.listdir(other) == ["letter.txt"]


def test_a_study_is_private_and_open_for_reading_only_afterwards(
    people: Dataset, spec: TrainSpec, tmp_path: Path
) -> None:
    study = measure(spec, people, 2, 2, store=tmp_path / "study")
    assert stat.S_IMODE((tmp_path / "study").stat().st_mode) == 0o700
    assert (tmp_path / "study" / "README.txt").read_text().startswith("INTERNAL")
    with pytest.raises(InvalidArgument, match="open for writing"):
        study.fail(study.cells()[0], "no")
    assert study.dataset()["weights"].dims == ("init", "seed", "neighbour", "step", "parameter")


def test_damaged_cells_are_trained_again_if_asked_for(
    people: Dataset, spec: TrainSpec, tmp_path: Path, trained: list[int], content
) -> None:
    study = measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "study")
    before = content(tmp_path / "study")
    chunk = tmp_path / "study" / "grid.zarr" / "weights" / "c.1.2.0.0.0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.raises(StudyError, match=r"cell 10 \(init fixed, seeds 4 to 5"):
        study.weights("fixed")
    trained.clear()
    measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "study", repair=True)
    assert trained == [10]
    assert content(tmp_path / "study") == before


def test_progress_counts_cells_and_runs_and_only_those_of_this_call_for_speed(
    people: Dataset, spec: TrainSpec, tmp_path: Path
) -> None:
    told: list[StudyProgress] = []
    with pytest.raises(KeyboardInterrupt):
        measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "study", progress=Stop(4))
    before = int((Study.open(tmp_path / "study").status() == "done").sum())
    measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "study", progress=told.append)
    assert [each.cells_done for each in told] == list(range(before, 17))
    assert {each.cells_total for each in told} == {16}
    assert {each.runs_total for each in told} == {192}
    assert [each.runs_done for each in told] == [12 * each.cells_done for each in told]
    assert [each.runs_now for each in told] == [12 * (each.cells_done - before) for each in told]
    # Before anything was trained here, what it is expected to take.
    assert told[0].seconds_left == told[0].expected > 0
    half = dataclasses.replace(told[-1], runs_done=120, runs_now=60, seconds=2.0)
    assert half.runs_per_second == 30
    assert half.seconds_left == 2.4


def test_arguments_are_checked_before_a_directory_is_made(
    people: Dataset, spec: TrainSpec, tmp_path: Path
) -> None:
    store = tmp_path / "study"
    given = dataclasses.replace(spec, init="given")
    for sentence, arguments, more in (
        ("to be a TrainSpec", ({"steps": 3}, people, 2, 2), {}),
        ("spec.init=given", (given, people, 2, 2), {}),
        ("to be a Dataset", (spec, people.X, 2, 2), {}),
        ("seeds=0", (spec, people, 0, 2), {}),
        ("neighbours=0", (spec, people, 2, 0), {}),
        ("init=other", (spec, people, 2, 2), {"init": "other"}),
        ("checkpoint=31", (spec, people, 2, 2), {"checkpoints": [31]}),
        ("workers=0", (spec, people, 2, 2), {"workers": 0}),
        ("to be a Client", (spec, people, 2, 2), {"client": "tcp://127.0.0.1:8786"}),
        ("batch_size=8 <= 3", (spec, people.take(slice(0, 4)), 2, 2), {}),
    ):
        with pytest.raises(InvalidArgument, match=sentence):
            measure(*arguments, store=store, **more)
    with pytest.raises(InvalidArgument, match="directory"):
        measure(spec, people, 2, 2, store="")
    assert not store.exists()
