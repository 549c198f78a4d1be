"""Figures of grids: panels where the paper has them, and in them what the run found."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest

from sordino import randomness
from sordino.errors import InvalidArgument
from sordino.report import canvas
from sordino_papers.sgd_noise.figures import DRAWINGS

N, BATCH, STEPS = 1000, 50, np.array([30, 60, 90])
SIGMA = {"vary": 0.2, "fixed": 0.05}
FIRST_TESTS, WEIGHTS = 10, 21


def numbers(bound=0.9, inits=("vary", "fixed")) -> dict[str, np.ndarray]:
    """What a grid leaves, made up: delta_S around 0.01, delta_V around 1 (vary) or 0.3 (fixed)."""
    rng = randomness.stream("test", "drawing grids")
    found: dict[str, object] = {
        "n": N,
        "batch_size": BATCH,
        "parameters": WEIGHTS,
        "delta_v1": 1 / N,
        "steps": STEPS,
        "bound_printed": bound,
        "trajectory_weights": [26, 36],
    }
    for init in inits:
        size = 1.0 if init == "vary" else 0.3
        found |= {
            f"{init}/delta_s": rng.gamma(4, 0.0025, 3000),
            f"{init}/delta_s_pairs_largest": rng.gamma(16, 0.0025, 300),
            f"{init}/delta_v": rng.normal(size, 0.05 * size, 3000),
            f"{init}/delta_sv": rng.normal(size, 0.05 * size, 3000),
            f"{init}/gaussian_distances": rng.normal(size, 0.02 * size, 3000),
            f"{init}/sensitivity": 0.08,
            f"{init}/sigma": [SIGMA[init], 0.9 * SIGMA[init], 1.1 * SIGMA[init]],
            f"{init}/sigma_median": [SIGMA[init], 0.9 * SIGMA[init], 1.1 * SIGMA[init]],
            f"{init}/p_values": np.append(rng.uniform(size=FIRST_TESTS * WEIGHTS - 1), np.nan),
            f"{init}/by_steps/sensitivity": np.array([0.05, 0.06, 0.08]),
            f"{init}/by_steps/sigma": SIGMA[init] * np.array([2, 1.5, 1]),
            f"{init}/by_comparisons/x": np.array([1, 10, 100]),
            f"{init}/by_seeds/x": np.array([2, 5, 9]),
            f"{init}/trajectories": np.cumsum(rng.normal(size=(4, 6, 2)), axis=1),
        }
        for curve, height in (("by_comparisons", 0.08), ("by_seeds", SIGMA[init])):
            for part, share in (("low", 0.5), ("middle", 0.8), ("high", 1.0)):
                found[f"{init}/{curve}/{part}"] = share * height * np.ones(3)
    return {name: np.asarray(value) for name, value in found.items()}


def panels(figure) -> list:
    return [axes for axes in figure.axes if axes.axison]


def lines(panel) -> dict[str, np.ndarray]:
    return {str(line.get_label()): line.get_xydata() for line in panel.get_lines()}


def legend(figure) -> list[str]:
    (one,) = figure.legends
    return [text.get_text() for text in one.get_texts()]


def texts(panel) -> list[str]:
    return [text.get_text() for text in panel.texts]


CALLS = {
    "distances": {"titles": ["one"]},
    "cnn_distances": {"title": "one"},
    "by_steps": {"titles": ["one"]},
    "p_values": {"titles": ["one"], "level": 0.05},
    "settling": {"titles": ["one"]},
    "trajectories": {"title": "one"},
    "pairwise": {"titles": ["one"]},
}


@pytest.mark.parametrize("name", CALLS)
def test_every_drawing_can_be_saved_and_its_legend_hides_nothing(name, tmp_path) -> None:
    figure = DRAWINGS[name](numbers(), **CALLS[name])
    canvas.save(figure, str(tmp_path / "it.svg"), "x")
    assert any("one" in panel.get_title(loc="left") for panel in panels(figure))
    assert all(panel.get_legend() is None for panel in panels(figure))  # it stands above


def test_the_same_numbers_give_the_same_file(tmp_path) -> None:
    paths = [tmp_path / f"{at}.svg" for at in (1, 2)]
    for path in paths:
        canvas.save(DRAWINGS["pairwise"](numbers(), titles=["one"]), str(path), "x")
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("name", ["distances", "by_steps", "p_values", "settling", "pairwise"])
def test_panels_stand_in_rows_and_what_is_left_over_is_white(name) -> None:
    arguments = {**CALLS[name], "titles": ["a", "b", "c"], "across": 2}
    figure = DRAWINGS[name](*[numbers()] * 3, **arguments)
    each = 2 if name == "settling" else 1
    shown = panels(figure)
    assert len(shown) == 3 * each
    assert len(figure.axes) == 4 * each
    rows = [panel.get_subplotspec().rowspan.start for panel in shown]
    assert rows == [0] * 2 * each + [1] * each
    begun = [panel.get_title(loc="left").partition(":")[0] for panel in shown[::each]]
    assert begun == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"titles": ["a"]}, "titles=.* to be 2, one a run"),
        ({"titles": ["a", "b"], "rows": ["x", "y", "z"]}, "rows=.* to be 2, one a row"),
    ],
)
def test_words_that_fit_no_panel_are_refused(arguments, said) -> None:
    with pytest.raises(InvalidArgument, match=said):
        DRAWINGS["distances"](numbers(), numbers(), **arguments)


def test_distances_lie_where_they_are_and_the_bound_is_dashed() -> None:
    run = numbers(bound=0.5)
    figure = DRAWINGS["distances"](run, titles=["a"])
    (panel,) = panels(figure)
    drawn = lines(panel)
    for label, name in (
        (r"$\Delta_V^{\mathrm{vary}}$", "vary/delta_v"),
        (r"$\Delta_V^{\mathrm{fix}}$", "fixed/delta_v"),
        (r"$\Delta_{S+V}^{\mathrm{vary}}$", "vary/delta_sv"),
        (r"$\Delta_{S+V}^{\mathrm{fix}}$", "fixed/delta_sv"),
    ):
        x, y = drawn[label].T
        # A density: area 1, and its mean is that of the sample, up to the width of a place.
        assert np.trapezoid(y, x) == pytest.approx(1, abs=0.01)
        assert np.trapezoid(x * y, x) == pytest.approx(run[name].mean(), rel=0.02)
    assert (drawn[r"bound $\hat\Delta_S$"][:, 0] == 0.5).all()
    assert legend(figure) == list(drawn)


def test_delta_s_is_far_higher_so_that_its_peak_is_said() -> None:
    (panel,) = panels(DRAWINGS["distances"](numbers(), titles=["a"]))
    peak = lines(panel)[r"$\Delta_S$"][:, 1].max()
    top = panel.get_ylim()[1]
    assert peak > top > lines(panel)[r"$\Delta_V^{\mathrm{fix}}$"][:, 1].max()
    (said,) = texts(panel)
    assert float(said.rpartition(" ")[2]) == pytest.approx(peak, rel=0.05)  # two digits
    same = numbers() | {"vary/delta_s": numbers()["vary/delta_v"]}
    same["fixed/delta_s"] = same["vary/delta_s"]
    (panel,) = panels(DRAWINGS["distances"](same, titles=["a"]))
    assert texts(panel) == []
    assert panel.get_ylim()[1] > lines(panel)[r"$\Delta_S$"][:, 1].max()


def test_a_network_has_no_bound_and_the_legend_is_of_a_panel_that_has() -> None:
    network = numbers(bound=math.nan)
    (panel,) = panels(DRAWINGS["distances"](network, titles=["a"]))
    assert r"bound $\hat\Delta_S$" not in lines(panel)
    both = DRAWINGS["distances"](network, numbers(), titles=["a", "b"], across=2)
    assert r"bound $\hat\Delta_S$" in legend(both)


def test_one_kind_of_initial_weights_is_enough() -> None:
    run = numbers(inits=("vary",))
    figure = DRAWINGS["distances"](run, titles=["a"])
    assert not any("fix" in said for said in legend(figure))
    assert len(legend(DRAWINGS["by_steps"](run, titles=["a"]))) == 3


def test_gaussian_vectors_stand_beside_the_convolutional_network() -> None:
    run = numbers(bound=math.nan)
    (panel,) = panels(DRAWINGS["cnn_distances"](run, title="a"))
    x, y = lines(panel)["Gaussian vectors"].T
    assert np.trapezoid(x * y, x) == pytest.approx(run["vary/gaussian_distances"].mean(), rel=0.02)
    assert panel.get_ylim()[1] > y.max()


def test_the_bound_climbs_a_stair_each_pass() -> None:
    run = numbers(bound=0.9)  # 90 steps of 20 a pass are 4.5 passes: 0.2 each, and five begin
    (panel,) = panels(DRAWINGS["by_steps"](run, titles=["a"]))
    stairs = lines(panel)[r"$\hat\Delta_S$, the papers' bound"]
    assert stairs[:, 0].tolist() == [0, 20, 40, 60, 80, 90]
    np.testing.assert_allclose(stairs[:, 1], [0.2, 0.4, 0.6, 0.8, 1.0, 1.0])
    assert panel.get_yscale() == "linear"
    drawn = lines(panel)[r"$\sigma_i$, initial weights fixed"]
    np.testing.assert_allclose(drawn, np.column_stack([STEPS, [0.1, 0.075, 0.05]]))


def test_networks_are_drawn_on_a_logarithmic_axis() -> None:
    (panel,) = panels(DRAWINGS["by_steps"](numbers(bound=math.nan), titles=["a"]))
    assert panel.get_yscale() == "log"
    assert panel.get_ylim()[0] < 0.05 < 0.4 < panel.get_ylim()[1]


@pytest.mark.parametrize(
    ("corrected", "by"), [("parameters", WEIGHTS), ("tests", FIRST_TESTS * WEIGHTS)]
)
def test_p_values_and_both_thresholds(corrected, by) -> None:
    run = numbers()
    run["vary/p_values"] = np.where(np.arange(FIRST_TESTS * WEIGHTS) % 4 == 0, 0.01, 0.6)
    run["vary/p_values"] = run["vary/p_values"].reshape(FIRST_TESTS, WEIGHTS)
    figure = DRAWINGS["p_values"](run, titles=["a"], level=0.05, corrected=corrected, init="vary")
    (panel,) = panels(figure)
    drawn = lines(panel)
    assert (drawn["p = 0.05"][:, 0] == 0.05).all()
    np.testing.assert_allclose(drawn["corrected"][:, 0], 0.05 / by)
    x, y = drawn["initial weights vary"].T
    width = np.diff(np.log10(x))[0]
    assert y.sum() * width == pytest.approx(1)
    assert y[x < 0.05].sum() * width == pytest.approx(53 / 210)
    assert texts(panel) == ["25% below 0.05"]
    assert "initial weights fixed" not in drawn


def test_correction_is_for_tests_or_parameters() -> None:
    with pytest.raises(InvalidArgument, match="corrected=both"):
        DRAWINGS["p_values"](numbers(), titles=["a"], level=0.05, corrected="both")


def test_settling_shows_the_numbers_that_are_used() -> None:
    left, right = panels(DRAWINGS["settling"](numbers(), titles=["a"], init="fixed"))
    assert (left.get_xscale(), right.get_xscale()) == ("log", "linear")
    for panel, used in ((left, 0.08), (right, 0.05)):
        middle, dashed = panel.get_lines()
        np.testing.assert_allclose(middle.get_ydata(), 0.8 * used)
        assert set(dashed.get_ydata()) == {used}
        assert texts(panel) == [f"used: {used:.3g}"]


def test_paths_begin_and_end_where_they_do() -> None:
    run = numbers()
    (panel,) = panels(DRAWINGS["trajectories"](run, title="a", init="fixed"))
    paths = run["fixed/trajectories"]
    curves = [line.get_xydata() for line in panel.get_lines() if line.get_linestyle() == "-"]
    np.testing.assert_allclose(curves[: len(paths)], paths)
    ends = [line.get_xydata() for line in panel.get_lines() if line.get_marker() == "o"]
    np.testing.assert_allclose(ends[0], paths[:, -1])
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("$w^{26}$", "$w^{36}$")


@pytest.mark.parametrize("over", ["seeds", "largest"])
def test_pairwise_epsilon_is_the_papers_and_an_estimate(over) -> None:
    run = numbers()
    (panel,) = panels(DRAWINGS["pairwise"](run, titles=["a"], init="fixed", over=over))
    drawn = lines(panel)
    one = math.sqrt(2 * math.log(1.25 * N)) / SIGMA["fixed"]
    assert drawn["largest"][0, 0] == pytest.approx(0.08 * one)
    sample = run["fixed/delta_s" if over == "seeds" else "fixed/delta_s_pairs_largest"]
    assert drawn["median"][0, 0] == pytest.approx(np.median(sample) * one)
    assert texts(panel) == [f"{np.median(sample) * one:.3g}", f"{0.08 * one:.3g}"]
    assert "estimate, not a guarantee" in panel.get_xlabel()


def png(figure):
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
    assert png(figure)


def test_feature_values_say_how_many_are_zero():
    run = {"edges": np.linspace(-1, 1, 5)}
    for name, zeros in (("pca", 0.0), ("crop", 0.46)):
        run[f"{name}/density"], run[f"{name}/zeros"] = np.array([0.1, 0.9, 0.9, 0.1]), zeros
    figure = DRAWINGS["feature_values"](run, names={"pca": "PCA", "crop": "Crop"})
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["PCA", "Crop (46 % are 0)"]
    assert png(figure)


def test_training_curves_mark_the_convergence_point():
    run = {"steps": np.array([1, 10, 100]), "chosen": np.array(80)}
    for name in ("pca", "grp"):
        run[f"{name}/loss"] = np.array([[0.7, 0.8], [0.5, 0.5], [0.2, 0.3]])
        run[f"{name}/accuracy"] = 1 - run[f"{name}/loss"]
    figure = DRAWINGS["training_curves"](run, names={"pca": "PCA", "grp": "GRP"})
    loss, accuracy = figure.axes
    assert loss.lines[0].get_ydata().tolist() == pytest.approx([0.75, 0.5, 0.25])
    assert accuracy.lines[-1].get_xdata() == [80, 80]
    assert png(figure)
