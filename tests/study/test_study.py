"""A study: what is written is read again, and nothing counts that was not finished."""

from __future__ import annotations

import os
import stat
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from sordino.errors import InvalidArgument
from sordino.study import Cell, Layout, Study, StudyError


class TestDirectory:
    def test_it_is_internal(self, study):
        assert stat.S_IMODE(study.directory.stat().st_mode) == 0o700
        text = (study.directory / "README.txt").read_text()
        assert text.splitlines()[0].startswith("INTERNAL")
        for each in study.directory.rglob("*"):
            assert stat.S_IMODE(each.stat().st_mode) == (0o700 if each.is_dir() else 0o600)

    def test_an_empty_directory_is_taken(self, tmp_path, description, layout):
        (tmp_path / "a").mkdir(mode=0o755)
        with Study.open_or_create(tmp_path / "a", description, layout):
            assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700

    def test_parents_are_made(self, tmp_path, description, layout):
        with Study.open_or_create(tmp_path / "a" / "b", description, layout) as study:
            assert study.directory == tmp_path / "a" / "b"

    def test_it_survives_a_change_of_directory(self, tmp_path, monkeypatch, description, layout):
        monkeypatch.chdir(tmp_path)
        with Study.open_or_create("here", description, layout) as study:
            monkeypatch.chdir("/")
            study.fail(study.cells()[0], "why not")
        assert len(Study.open(tmp_path / "here").failures()) == 1

    def test_only_a_study_can_be_opened(self, tmp_path):
        for path in (tmp_path, tmp_path / "missing"):
            with pytest.raises(StudyError, match=r"to be a study, and it has no study\.json"):
                Study.open(path)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("path", ["", None, 3, "a\0b"])
    def test_what_is_no_path_is_refused(self, path, description, layout):
        with pytest.raises(InvalidArgument, match="Expected directory="):
            Study.open_or_create(path, description, layout)

    def test_what_it_is_of_can_be_read(self, study, description, layout):
        for opened in (study, Study.open(study.directory)):
            assert opened.description == description
            assert opened.layout == layout
            assert opened.address == study.address
            opened.description["spec"]["learning_rate"] = 7  # a copy
            assert opened.description == description

    def test_another_description_or_layout_is_refused(self, finished, description, layout, content):
        finished.close()
        before = content(finished.directory)
        other = {**description, "dataset": "sha256:other"}
        with pytest.raises(StudyError, match=r'description\.dataset is "sha256:abc" there'):
            Study.open_or_create(finished.directory, other, layout)
        with pytest.raises(StudyError, match=r"layout\.parameters is 3 there and 4 here"):
            Study.open_or_create(finished.directory, description, replace(layout, parameters=4))
        assert content(finished.directory) == before
        Study.open_or_create(finished.directory, description, layout).close()
        assert content(finished.directory) == before


class TestWeights:
    def test_they_come_back(self, finished, weights_of, layout):
        again = Study.open(finished.directory)
        for place, init in enumerate(layout.inits):
            values = again.weights(init)
            assert values.dtype == np.float32
            assert values.shape == layout.shape[1:]
            for cell in layout.cells():
                if cell.init == place:
                    expected = weights_of(layout, cell)
                    np.testing.assert_array_equal(values[cell.seeds, cell.neighbours], expected)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("edges", [(0, 1, 3, 4), (0, 2, 4, 5), (0, 4)])
    def test_any_edges_and_either_dtype(self, tmp_path, edges, dtype, monkeypatch):
        monkeypatch.setattr("sordino.study.layout._MOST_CHUNK", 30)  # parameters are cut, too
        axes = ("a", "b"), range(edges[-1]), range(edges[-1]), (1, 2), 5
        layout = Layout(*axes, seed_edges=edges, neighbour_edges=edges, dtype=dtype)
        assert layout.chunk[4] < 5
        whole = np.random.default_rng(1).normal(size=layout.shape).astype(dtype)
        with Study.open_or_create(tmp_path, {}, layout) as study:
            for cell in study.missing():
                study.write(cell, whole[cell.init, cell.seeds, cell.neighbours])
        for place, init in enumerate(layout.inits):
            np.testing.assert_array_equal(study.weights(init), whole[place])
        np.testing.assert_array_equal(study.dataset().weights, whole)
        assert (study.dataset().status == "done").all()

    def test_what_is_not_done_is_nan(self, study, weights_of, layout):
        done, failed = layout.cells()[1], layout.cells()[2]
        study.write(done, weights_of(layout, done))
        study.fail(failed, "diverged")
        values = study.weights("vary")
        there = np.zeros(values.shape[:2], dtype=bool)
        there[done.seeds, done.neighbours] = True
        assert np.isfinite(values[there]).all()
        assert np.isnan(values[~there]).all()

    def test_steps_can_be_chosen(self, finished):
        whole = finished.weights("fixed")
        np.testing.assert_array_equal(finished.weights("fixed", steps=[50]), whole[:, :, 1:])
        np.testing.assert_array_equal(finished.weights("fixed", steps=(50, 10)), whole[:, :, ::-1])
        with pytest.raises(InvalidArgument, match="step=11 to be one of the kept ones: 10, 50"):
            finished.weights("fixed", steps=[11])
        with pytest.raises(InvalidArgument, match="init=varied to be one of vary, fixed"):
            finished.weights("varied")

    @pytest.mark.parametrize(
        ("spoil", "sentence"),
        [
            (lambda w: w[:1], "weights.shape=(1, 2, 2, 3) to be (2, 2, 2, 3)"),
            (lambda w: w[..., :2], "weights.shape=(2, 2, 2, 2) to be (2, 2, 2, 3)"),
            (lambda w: w.astype(np.float64), "weights.dtype=float64 to fit into float32"),
            (lambda w: w.astype(str), "weights.dtype=<U32 to fit into float32"),
            (lambda w: np.where(w == w[1, 0, 0, 0], np.float32("nan"), w), "first bad row is 1"),
            (lambda w: np.where(w == w[1, 0, 0, 0], np.float32("inf"), w), "first bad row is 1"),
        ],
    )
    def test_what_is_no_weights_is_refused(self, study, weights_of, layout, spoil, sentence):
        cell = layout.cells()[0]
        with pytest.raises(InvalidArgument) as refused:
            study.write(cell, spoil(weights_of(layout, cell)))
        assert sentence in str(refused.value)
        assert (study.status() == "missing").all()

    def test_narrower_numbers_are_taken(self, study, weights_of, layout):
        cell = layout.cells()[0]
        study.write(cell, weights_of(layout, cell).astype(np.float16))
        half = weights_of(layout, cell).astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(study.weights("vary")[cell.seeds, cell.neighbours], half)

    def test_a_finished_cell_takes_the_same_weights_only(
        self, finished, weights_of, layout, content
    ):
        before = content(finished.directory)
        cell = layout.cells()[4]
        finished.write(cell, weights_of(layout, cell))
        with pytest.raises(StudyError, match=r"the weights it has for cell 4 \(init vary, seeds 4"):
            finished.write(cell, weights_of(layout, cell) + np.float32(1))
        assert content(finished.directory) == before

    def test_a_cell_of_another_layout_is_refused(self, study, layout):
        stranger = Cell(0, slice(0, 1), slice(0, 2), 0)
        past = Cell(0, slice(0, 2), slice(0, 2), 12)
        for cell in (stranger, past, replace(past, number=-1), "cell"):
            with pytest.raises(InvalidArgument, match="of this study"):
                study.fail(cell, "no")


class TestStatus:
    def test_it_follows_the_cells(self, study, weights_of, layout):
        cells = study.cells()
        assert cells == layout.cells()
        assert study.missing() == cells
        study.write(cells[3], weights_of(layout, cells[3]))
        study.fail(cells[5], "seed 4 diverged")
        expected = ["missing"] * 12
        expected[3], expected[5] = "done", "failed"
        for opened in (study, Study.open(study.directory)):
            assert opened.status().tolist() == expected
            assert opened.failures() == {cells[5]: "seed 4 diverged"}
            rest = [cell for cell in cells if cell.number not in (3, 5)]
            assert opened.missing() == rest
            assert opened.missing(retry_failed=True) == sorted(
                [*rest, cells[5]], key=lambda cell: cell.number
            )

    def test_a_failure_can_be_tried_again(self, study, weights_of, layout):
        cell = study.cells()[0]
        study.fail(cell, "first")
        study.fail(cell, "second")
        assert study.failures() == {cell: "second"}
        study.write(cell, weights_of(layout, cell))
        assert study.failures() == {}
        assert study.status()[0] == "done"
        with pytest.raises(InvalidArgument, match=r"not to be done already\. Its weights are kept"):
            study.fail(cell, "third")
        assert study.status()[0] == "done"

    @pytest.mark.parametrize(
        ("reason", "kept"),
        [
            ("  two\nlines ", "two lines"),
            ("", "no reason was given"),
            ("\x1b[2Jé", "?[2Jé"),
            ("x" * 5000, "x" * 1000),
        ],
    )
    def test_a_reason_is_one_line(self, study, reason, kept):
        study.fail(study.cells()[0], reason)
        assert list(Study.open(study.directory).failures().values()) == [kept]

    def test_the_order_of_writing_leaves_no_trace(self, study, weights_of, content, description,
                                                  layout, tmp_path):  # fmt: skip
        with Study.open_or_create(tmp_path / "other", description, layout) as other:
            for cell in reversed(other.cells()):
                other.write(cell, weights_of(layout, cell))
        for cell in study.cells():
            study.fail(cell, "at first")
            study.write(cell, weights_of(layout, cell))
        assert content(study.directory) == content(other.directory)


class TestXarray:
    def test_it_opens_with_meaning(self, finished, layout, weights_of):
        dataset = xr.open_zarr(finished.directory / "grid.zarr")
        assert dataset.weights.dims == ("init", "seed", "neighbour", "step", "parameter")
        assert dataset.status.dims == ("init", "seed", "neighbour")
        assert dataset.init.values.tolist() == ["vary", "fixed"]
        assert dataset.seed.values.tolist() == [0, 1, 2, 3, 4]
        assert dataset.neighbour.values.tolist() == [-1, 70, 4]
        assert dataset.step.values.tolist() == [10, 50]
        assert dataset.attrs["title"].startswith("INTERNAL")
        assert dataset.attrs["study"] == finished.address
        chosen = dataset.weights.sel(init="fixed", seed=3, neighbour=70, step=50)
        np.testing.assert_array_equal(chosen, finished.weights("fixed")[3, 1, 1])
        assert dataset.weights.dtype == np.float32

    def test_status_is_a_variable(self, study, weights_of, layout):
        cells = study.cells()
        study.write(cells[0], weights_of(layout, cells[0]))
        study.fail(cells[1], "diverged")
        dataset = study.dataset()
        assert dataset.status.sel(init="vary", seed=[0, 1, 2]).values.tolist() == [
            ["done", "done", "failed"],
            ["done", "done", "failed"],
            ["missing"] * 3,
        ]
        assert (dataset.status.sel(init="fixed") == "missing").all()
        done = dataset.weights.where(dataset.status == "done")
        np.testing.assert_array_equal(done.sel(init="vary"), study.weights("vary"))
        assert int(dataset.weights.notnull().sum()) == 2 * 2 * 2 * 3

    def test_it_is_read_only_when_used(self, finished):
        dataset = finished.dataset()
        for each in (finished.directory / "grid.zarr" / "weights").glob("c.*"):
            each.unlink()
        assert dataset.weights.isnull().all()


class TestWriters:
    def test_there_is_one(self, study, description, layout):
        for again in (
            lambda: Study.open_or_create(study.directory, description, layout),
            lambda: Study.open(study.directory, writes=True),
        ):
            with pytest.raises(StudyError, match="to be written by one program at a time"):
                again()
        assert len(Study.open(study.directory).missing()) == 12  # a reader is not in the way
        study.close()
        again().close()

    def test_a_refused_study_is_not_kept_locked(self, study, description, layout):
        study.close()
        with pytest.raises(StudyError, match="asked for"):
            Study.open_or_create(study.directory, {}, layout)
        Study.open(study.directory, writes=True).close()

    def test_a_forgotten_one_is_let_go(self, study):
        directory = study.directory
        study.close()
        Study.open(directory, writes=True)  # nobody keeps it
        Study.open(directory, writes=True).close()

    @pytest.mark.parametrize("how", ["reader", "closed"])
    def test_others_cannot_write(self, study, how, layout, weights_of):
        if how == "closed":
            study.close()
        else:
            study = Study.open(study.directory)
        cell = study.cells()[0]
        uses = (
            lambda: study.write(cell, weights_of(layout, cell)),
            lambda: study.fail(cell, "no"),
            study.repair,
        )
        for use in uses:
            with pytest.raises(InvalidArgument, match="to be open for writing here"):
                use()
        assert (study.status() == "missing").all()

    def test_threads_may_share_one(self, study, layout, weights_of):
        from concurrent.futures import ThreadPoolExecutor

        def write(cell: Cell) -> None:
            study.write(cell, weights_of(layout, cell))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, study.missing()))
        assert (study.status() == "done").all()
        assert study.damaged() == {}


def test_the_grid_of_the_papers_is_small(tmp_path):
    layout = Layout.cut(("vary", "fixed"), range(98), range(100), (500,), 51, cell=(13, 100))
    random = np.random.default_rng(0)
    with Study.open_or_create(tmp_path / "study", {}, layout) as study:
        assert len(study.missing()) == 16
        for cell in study.missing():
            study.write(cell, random.normal(size=layout.shape_of(cell)).astype(np.float32))
    files = [each for each in study.directory.rglob("*") if each.is_file()]
    assert len(files) < 80
    assert sum(os.stat(each).st_blocks * 512 for each in files) < 50e6
