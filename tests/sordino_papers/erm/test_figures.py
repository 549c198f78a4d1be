"""Chen, Lee & Kifer's figures: their panels, lines and scales."""

from __future__ import annotations

import io
from importlib import resources

import numpy as np
import pytest

from sordino_papers.claims import read
from sordino_papers.erm import figures

LINES = {
    "rsgd-ar/tuned": "RSGD-AR",
    "sgd-ma/2016": "SGD-MA",
    "none": "NonPrivate",
    "majority": "Majority",
}


def study(folds=5):
    draw = np.random.default_rng(0)
    middle = np.array([[0.78, 0.82], [np.nan, 0.83], [0.83, 0.83], [0.76, 0.76]])
    spread = 0.002 * draw.standard_normal((4, 2, folds))
    return {
        "methods": np.array(list(LINES)),
        "epsilons": np.array([0.1, 1.0]),
        "accuracies": middle[:, :, None] + spread,
        "objectives": 1.2 - middle[:, :, None] + spread,
    }


def test_accuracies_stand_above_objectives_a_column_a_dataset():
    figure = figures.accuracy_and_objective(study(), study(), titles=["One", "Two"], lines=LINES)
    top_left, top_right, bottom_left, _ = figure.axes
    assert (top_left.get_title(loc="left"), top_right.get_title(loc="left")) == ("One", "Two")
    assert "Accuracy" in top_left.get_ylabel()
    assert bottom_left.get_ylabel() == "Objective"
    assert len(top_left.containers) == 4
    assert len(bottom_left.containers) == 3  # always the same answer has no objective to compare
    line = top_left.containers[0].lines[0]
    np.testing.assert_allclose(line.get_ydata(), 100 * study()["accuracies"][0].mean(axis=1))
    # The majority's 76 % are far below all that must be told apart: said, and cut off.
    low, high = top_left.get_ylim()
    assert 76.1 < low < 78
    assert high > 83
    assert any("76." in text.get_text() for text in top_left.texts)
    # Crosses where a budget cannot be met: below the first epsilon, of one method alone.
    crosses = [
        line for line in top_left.lines if line.get_marker() == "x" and len(line.get_xdata())
    ]
    assert [list(line.get_xdata()) for line in crosses] == [[0.1]]
    figure.savefig(io.BytesIO())


def test_every_line_of_the_file_has_a_style():
    text = resources.files("sordino_papers").joinpath("chen.toml").read_text("utf-8")
    drawings = [d for place in read("chen", text).places for d in place.drawings]
    assert {d.draw for d in drawings} == set(figures.DRAWINGS)
    for each in drawings:
        for method in each.arguments["lines"]:
            assert method.removesuffix("/tuned") in figures.STYLES


def test_a_title_for_every_run_is_needed():
    with pytest.raises(ValueError, match="zip"):
        figures.accuracy_and_objective(study(), titles=["One", "Two"], lines=LINES)


def test_one_fold_has_no_error_bars():
    figure = figures.accuracy_and_objective(study(1), titles=["One"], lines=LINES)
    assert figure.axes[0].containers[0].has_yerr is False


def test_seconds_against_thousands_of_rows():
    numbers = {
        "methods": np.array(["rsgd-ar", "objective"]),
        "rows": np.array([50_000, 100_000]),
        "seconds": np.array([[0.2, 0.4], [0.3, 0.9]]),
    }
    lines = {"rsgd-ar": "RSGD-AR", "objective": "ObjPert"}
    figure = figures.processing_times(numbers, lines=lines)
    (panel,) = figure.axes
    assert panel.get_yscale() == "log"
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["RSGD-AR", "ObjPert"]
    np.testing.assert_allclose(panel.containers[1].lines[0].get_xydata(), [[50, 0.3], [100, 0.9]])
