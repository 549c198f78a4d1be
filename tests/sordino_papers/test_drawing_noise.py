"""Figures of noise are drawn with the paper's panels, lines and words."""

import io

import numpy as np
import pytest

from sordino_papers.own_noise.drawing_noise import DRAWINGS


def drawn(figure):
    """Its PNG; a warning, as for a missing letter, fails."""
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


@pytest.fixture
def epsilons():
    target = np.array([[[5, 5], [7, 7], [8, 9]]])
    cases = ("bound", "empirical", "bound-fixed", "empirical-fixed")
    run = {
        "rows": np.array(10),
        "epsilons": np.array([0.1, 1.0, 20.0]),
        "noiseless": np.array([9, 9]),
    }
    for case in cases:
        run[f"{case}/target"], run[f"{case}/augmented"] = target, target + 1
    return run


@pytest.mark.parametrize(("fixed", "lines"), [(False, 5), (True, 7)])
def test_accuracy_against_epsilon_has_a_column_a_dataset(epsilons, fixed, lines):
    titles = ["(a) One", "(b) Two"]
    figure = DRAWINGS["accuracy_by_epsilon"](epsilons, epsilons, titles=titles, fixed=fixed)
    above, below = figure.axes[:2], figure.axes[2:]
    assert [panel.get_title(loc="left") for panel in above] == titles
    assert [len(panel.lines) for panel in above] == [lines] * 2
    target = above[0].lines[1]
    assert target.get_ydata().tolist() == [0.5, 0.7, 0.8]  # of the first model alone
    dashes = [line.get_linestyle() for line in above[0].lines]
    assert dashes.count("--") == (lines - 1) // 2  # the empirical sensitivity
    for line in below[0].lines:  # one of ten rows more, in each of both models
        assert line.get_ydata().tolist() == pytest.approx([10, 10, 10])
    assert drawn(figure)


def test_feature_values_say_how_many_are_zero():
    run = {"edges": np.linspace(-1, 1, 5)}
    for name, zeros in (("pca", 0.0), ("crop", 0.46)):
        run[f"{name}/density"], run[f"{name}/zeros"] = np.array([0.1, 0.9, 0.9, 0.1]), zeros
    figure = DRAWINGS["feature_values"](run, names={"pca": "PCA", "crop": "Crop"})
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["PCA", "Crop (46 % are 0)"]
    assert drawn(figure)


def test_training_curves_mark_the_convergence_point():
    run = {"steps": np.array([1, 10, 100]), "chosen": np.array(80)}
    for name in ("pca", "grp"):
        run[f"{name}/loss"] = np.array([[0.7, 0.8], [0.5, 0.5], [0.2, 0.3]])
        run[f"{name}/accuracy"] = 1 - run[f"{name}/loss"]
    figure = DRAWINGS["training_curves"](run, names={"pca": "PCA", "grp": "GRP"})
    loss, accuracy = figure.axes
    assert loss.lines[0].get_ydata().tolist() == pytest.approx([0.75, 0.5, 0.25])
    assert accuracy.lines[-1].get_xdata() == [80, 80]
    assert drawn(figure)
