"""Figures that commands write: what is drawn is what was given."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from sordino import randomness
from sordino.accounting.profile import ApproximateProfile
from sordino.audit.bounds import error_rates
from sordino.errors import InvalidArgument
from sordino.intrinsic.distances import densities
from sordino.privacy import Estimate, Relation
from sordino.report import canvas, figures
from sordino.report.drawing.axis import INFINITY
from sordino.report.figures import Repeats, WorstCaseSetting, epsilons_against_theory, error_curves

# --- What theorems say


@pytest.mark.parametrize("most", [1, 2, 7, 100, 12_345, 10**7])
@pytest.mark.parametrize("places", [9, 15])
def test_counts_rise_to_the_last(most: int, places: int) -> None:
    counts = figures.counts(most, places)
    assert counts[-1] == most
    assert counts == sorted(set(counts))
    assert counts[0] == max(1, round(most / 1000))
    assert len(counts) <= places
    assert all(isinstance(count, int) for count in counts)


def test_counts_refuse_nothing_to_draw() -> None:
    with pytest.raises(InvalidArgument, match=r"^Expected steps=0 >= 1 where a figure is drawn"):
        figures.counts(0)


@pytest.mark.parametrize("name", ["a.png", "a.SVG", "a.b.pdf"])
def test_a_path_that_can_be_written_passes(tmp_path: Path, name: str) -> None:
    figures.check_path(str(tmp_path / name))
    assert not (tmp_path / name).exists()


def test_a_path_that_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "directory.png").mkdir()
    for name, sentence in (
        ("figure", r"to end in \.png, \.svg, \.pdf"),
        ("figure.jpg", r"to end in \.png"),
        ("no/figure.png", "that can be written .there is no directory"),
        ("directory.png", "it is a directory, not a file"),
    ):
        with pytest.raises(InvalidArgument, match=sentence):
            figures.check_path(str(tmp_path / name))
    monkeypatch.setattr(figures.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidArgument, match="matplotlib to draw it"):
        figures.check_path(str(tmp_path / "figure.png"))


def caught_figures(monkeypatch: pytest.MonkeyPatch):
    """Catch figures instead of writing them."""
    caught: list = []
    monkeypatch.setattr(canvas, "save", lambda figure, *_, **__: caught.append(figure))
    return caught


def by_label(axes):
    return {line.get_label(): line for line in axes.get_lines()}


SERIES = {
    "proved": [(1, 0.5), (10, 2.0), (100, math.inf)],
    "quoted (as printed, no guarantee)": [(1, 0.1), (10, 0.0), (100, 3.0)],
    "nothing to show": [(1, math.inf)],
}


def test_growth_shows_finite_points_and_dashes_what_is_no_guarantee(monkeypatch) -> None:
    caught = caught_figures(monkeypatch)
    figures.growth("x.png", "a title", ("a title", "steps", "epsilon", SERIES))
    (axes,) = caught[0].axes
    shown = by_label(axes)
    assert set(shown) == {"proved", "quoted (as printed, no guarantee)"}
    assert shown["proved"].get_xydata().tolist() == [[1, 0.5], [10, 2.0]]
    assert shown["proved"].get_linestyle() == "-"
    quoted = shown["quoted (as printed, no guarantee)"]
    assert quoted.get_xydata().tolist() == [[1, 0.1], [100, 3.0]]
    assert quoted.get_linestyle() == "--"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("steps", "epsilon")
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_title("left")) == (
        "log",
        "log",
        "a title",
    )
    assert {text.get_text() for text in axes.get_legend().get_texts()} == set(shown)


def test_noise_growth_shows_the_ratio_beside_its_rate(monkeypatch) -> None:
    caught = caught_figures(monkeypatch)
    figures.noise_growth(SERIES, [(100, 0.5), (400, 0.2)], "x.png", title="a title")
    left, right = caught[0].axes
    assert left.get_xlabel() == "epochs"
    assert left.get_ylabel() == "noise multiplier"
    assert right.get_xlabel() == "steps"
    shown = by_label(right)
    assert shown["strong / naive, as proved"].get_xydata().tolist() == [[100, 0.5], [400, 0.2]]
    # 1 / sqrt(steps) through the last point: twice as high at a quarter of the steps.
    assert shown["like 1 / sqrt(steps)"].get_ydata().tolist() == pytest.approx([0.4, 0.2])


def test_noise_growth_without_ratios_is_drawn(tmp_path: Path) -> None:
    figures.noise_growth({"proved": [(1, 1.0)]}, [], str(tmp_path / "a.png"), title="a title")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_finite_is_drawn_without_a_warning(tmp_path: Path) -> None:
    empty = {"proved": [(1, math.inf)]}
    figures.growth(str(tmp_path / "a.png"), "z", ("z", "x", "y", empty))
    figures.noise_growth(empty, [], str(tmp_path / "b.png"), title="z")
    assert (tmp_path / "b.png").exists()


def test_an_svg_is_the_same_every_time(tmp_path: Path) -> None:
    paths = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for path in paths:
        figures.growth(str(path), "a title", ("a title", "steps", "epsilon", SERIES))
    first, second = (path.read_text() for path in paths)
    assert "<dc:date>" not in first
    assert first == second


# --- SGD's own noise

RNG = randomness.stream("test", "figures")
DATA, SEED, BOTH = (scale * RNG.lognormal(0, 0.3, 500) for scale in (0.01, 1.0, 1.1))
SETS = densities({"vary": [DATA, SEED, BOTH], "fixed": [DATA, 0.2 * SEED, 0.2 * BOTH]})


def lines(axes) -> dict[str, np.ndarray]:
    return {str(line.get_label()): line.get_xydata() for line in axes.get_lines()}


def named(figure) -> list[str]:
    """What the legend says."""
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def title(figure) -> str:
    (legend,) = figure.legends
    return legend.get_title().get_text()


def estimate(epsilon: float, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(epsilon, 1e-6, low, high, None if low is None else 0.95, "m", "c")


def test_trajectories_have_a_panel_a_weight_and_a_line_a_seed() -> None:
    values = RNG.normal(size=(7, 3, 2))
    figure = figures.trajectories((0, 10, 20), values, ("weight 26", "weight 36"))
    upper, lower = figure.axes
    assert len(upper.get_lines()) == len(lower.get_lines()) == 7
    drawn = lower.get_lines()[4].get_xydata()
    np.testing.assert_array_equal(drawn, np.column_stack([(0, 10, 20), values[4, :, 1]]))
    assert upper.get_ylabel() == "weight 26"
    assert lower.get_xlabel() == "training steps"


def test_one_step_is_no_trajectory() -> None:
    with pytest.raises(InvalidArgument, match="two or more where weights are followed"):
        figures.trajectories((10,), RNG.normal(size=(7, 1, 2)), ("a", "b"))


def test_distances_show_both_inits_and_the_bound_dashed() -> None:
    figure = figures.distances(SETS, bound=0.3, printed=0.25, title="a title")
    (panel,) = figure.axes
    assert title(figure) == "a title"
    said = named(figure)
    assert any("another record (vary)" in text for text in said)
    assert any("another seed (fixed)" in text for text in said)
    assert "bound, one record: 0.3" in said
    assert "papers' fraction: 0.25" in said
    by_name = {str(line.get_label()): line for line in panel.get_lines()}
    mark = by_name["bound, one record: 0.3"]
    assert mark.get_linestyle() == "--"
    assert list(mark.get_xdata()) == [0.3, 0.3]
    # The hill of the seed is where the seed's distances are.
    name = next(text for text in by_name if "another seed (vary)" in text)
    x, y = by_name[name].get_xydata().T
    assert x[y.argmax()] == pytest.approx(np.median(SEED), rel=0.2)
    low, high = panel.get_xlim()
    assert low < np.quantile(DATA, 0.01)
    assert high > SEED.max()


def test_distances_without_a_bound_and_with_zeros_say_so() -> None:
    some = DATA.copy()
    some[:125] = 0
    said = named(figures.distances(densities({"vary": [some, SEED, BOTH]})))
    assert any("(25% are 0)" in text for text in said)
    assert not any("bound" in text for text in said)


def test_nothing_but_zeros_and_single_numbers_can_be_drawn(tmp_path: Path) -> None:
    """Without noise, or with one pair, pictures are dull; they must not fail (nor warn)."""
    zeros, one = np.zeros(20), np.ones(1)
    band = ((1,), one, one, one)
    for figure in (
        figures.distances(densities({"fixed": [zeros, zeros, zeros]})),
        figures.pairwise({"fixed": zeros}, {"fixed": zeros}, delta=1e-6),
        figures.convergence({"fixed": band}, {"fixed": ((2, 3), *[np.zeros(2)] * 3)}),
        figures.normality({"fixed": one * 0.5}),
        figures.over_steps((1, 2), {"fixed": np.zeros(2)}, {"fixed": np.zeros(2)}),
        figures.epsilons({"fixed": {"a": estimate(0.0), "b": estimate(np.inf)}}, delta=1e-6),
    ):
        canvas.save(figure, str(tmp_path / "dull.png"), "INTERNAL")


def test_normality_sorts_p_values_and_draws_the_corrected_line() -> None:
    p = RNG.random(200)
    figure = figures.normality({"vary": np.append(p, np.nan), "fixed": p[:50]})
    (panel,) = figure.axes
    drawn = lines(panel)["initial weights vary"]
    np.testing.assert_allclose(drawn[:, 1], np.sort(p))
    np.testing.assert_allclose(drawn[:, 0], np.arange(1, 201) / 200)
    heights = {float(line.get_ydata()[0]) for line in panel.get_lines()}
    assert {0.05, 0.05 / 200} <= heights
    texts = [text.get_text() for text in panel.texts]
    assert "Bonferroni, 0.0003" in texts
    assert panel.get_ylim()[0] < 0.05 / 200


def test_normality_without_a_number_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="at least one number"):
        figures.normality({"vary": np.full(3, np.nan)})


def test_pairwise_draws_the_share_of_pairs_above_each_epsilon() -> None:
    exact = np.sort(RNG.lognormal(0, 1, 300))
    figure = figures.pairwise({"vary": exact}, {"vary": 1.1 * exact}, delta=1e-6)
    (panel,) = figure.axes
    drawn = lines(panel)["initial weights vary"]
    assert tuple(drawn[0]) == (exact[-1], 1 / 300)
    assert tuple(drawn[-1]) == (exact[0], 1.0)
    assert "estimate, not a guarantee" in panel.get_xlabel()
    assert "papers' formula" in named(figure)


def test_utility_draws_each_setting_of_each_sensitivity() -> None:
    epsilons = [0.5, 1.0, 2.0]
    curve = np.array([[0.7, 0.8, 0.9], [0.6, 0.7, 0.8], [0.8, 0.9, 1.0]])
    settings = {"noiseless": curve, "deterministic": curve - 0.1, "random": curve - 0.05}
    figure = figures.utility(epsilons, {"theoretical": settings, "empirical": settings})
    (panel,) = figure.axes
    said = named(figure)
    assert said.count("no noise") == 1
    assert len(said) == 5
    by_name = {str(line.get_label()): line for line in panel.get_lines()}
    dashed = next(line for name, line in by_name.items() if name.endswith("augment}}$, empirical"))
    assert dashed.get_linestyle() == "--"
    np.testing.assert_allclose(dashed.get_ydata(), curve[0] - 0.05)
    assert "no guarantee" in panel.get_xlabel()


def test_curves_over_steps() -> None:
    steps, values = (10, 20, 30), {"vary": np.array([1.0, 2.0, 3.0])}
    stairs = (0, 15, 30), np.array([0.0, 2.0, 4.0])
    figure = figures.over_steps(steps, values, {"vary": np.ones(3)}, bound=stairs)
    upper, lower = figure.axes
    assert lines(upper)["initial weights vary"].tolist() == [[10, 1], [20, 2], [30, 3]]
    bound = next(line for line in upper.get_lines() if line.get_label() == "bound for one record")
    assert bound.get_drawstyle() == "steps-post"
    assert bound.get_linestyle() == "--"
    assert lower.get_xlabel() == "training steps"
    assert upper.get_ylim()[0] == 0


def test_convergence_draws_bands_and_where_they_end() -> None:
    band = ((1, 10, 100), np.array([1.0, 2.0, 3.0]), np.ones(3), np.full(3, 3.0))
    figure = figures.convergence({"vary": band}, {"vary": band})
    for panel in figure.axes:
        last = panel.get_lines()[-1]
        assert list(last.get_ydata()) == [3.0, 3.0]
        assert last.get_linestyle() == "--"
    assert figure.axes[0].get_xscale() == "log"
    assert figure.axes[1].get_xscale() == "linear"


def test_epsilons_stand_on_one_axis_with_intervals_and_infinity_at_its_end() -> None:
    found = {
        "vary": {"a": estimate(2.0, 1.0, 3.0), "b": estimate(5.0)},
        "fixed": {"a": estimate(np.inf, 4.0, np.inf)},
    }
    figure = figures.epsilons(found, delta=1e-6, title="digits")
    (panel,) = figure.axes
    words = [text.get_text() for text in panel.texts]
    assert words[:5] == [
        "digits",
        "epsilon at delta = 1e-06 (estimate, not a guarantee)",
        "initial weights vary",
        "a: 2 (1 to 3)",
        "b: 5",
    ]
    assert words[5:7] == ["initial weights fixed", "a: ∞ (4 to ∞)"]
    diamonds = [patch for patch in panel.patches if len(patch.get_xy()) == 5][:3]
    middles = [float(patch.get_xy()[1, 0]) for patch in diamonds]
    assert middles[0] < middles[1] < middles[2] == INFINITY


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_same_figure_is_the_same_file_and_nothing_global_changes(
    tmp_path: Path, suffix: str
) -> None:
    before = dict(matplotlib.rcParams)
    written = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.{suffix}"
        canvas.save(figures.distances(SETS, bound=0.3), str(path), "INTERNAL")
        written.append(path.read_bytes())
    assert written[0] == written[1]
    assert dict(matplotlib.rcParams) == before
    start = b"\x89PNG" if suffix == "png" else b"<?xml"
    assert written[0].startswith(start)


def test_a_figure_is_one_column_wide() -> None:
    for figure in (
        figures.distances(SETS),
        figures.normality({"vary": RNG.random(9)}),
    ):
        assert figure.get_figwidth() == canvas.COLUMN


def test_pyplot_is_not_loaded() -> None:
    code = (
        "import sys; from sordino.report import figures; import numpy as np; "
        "figures.normality({'vary': np.array([.1, .5])}); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- Audits

NEGATIVE, POSITIVE = RNG.normal(0, 1, 300).round(1), RNG.normal(1, 1, 200).round(1)


@pytest.mark.parametrize("claimed", [True, False])
def test_one_audit_gives_one_picture(tmp_path: Path, claimed: bool) -> None:
    budget = {"relation": Relation.REPLACE_ONE, "theorem": "claimed", "budget": (1.0, 1e-5)}
    beta = ApproximateProfile(**budget).beta if claimed else None
    for name in ("first.svg", "second.svg"):
        rates = error_rates(NEGATIVE, POSITIVE)
        figure = figures.attack_errors(rates, 300, tested=(0.1, 0.6), claimed=beta, title="noise")
        canvas.save(figure, str(tmp_path / name), "noise")
    first, second = ((tmp_path / name).read_text() for name in ("first.svg", "second.svg"))
    assert first == second
    assert "<svg" in first
    assert len(figure.axes[0].collections) == claimed


ALPHAS = np.linspace(0, 1, 11)
PRESENCE = {
    "observed": (ALPHAS, (1 - ALPHAS) ** 4),
    "composed": (ALPHAS, (1 - ALPHAS) ** 3),
    "linear": (ALPHAS, (1 - ALPHAS) ** 2),
}
ABSENCE = {name: (betas[::-1], alphas[::-1]) for name, (alphas, betas) in PRESENCE.items()}
SETTINGS = [
    WorstCaseSetting(title, {"presence": PRESENCE, "absence": ABSENCE}) for title in ("a", "b", "c")
]


def lines_of(panel) -> dict[str, np.ndarray]:
    return {str(line.get_label()): line.get_xydata() for line in panel.get_lines()}


@pytest.mark.parametrize("log", [True, False])
def test_error_curves_have_a_column_a_setting_and_a_row_an_order(log: bool) -> None:
    figure = error_curves(SETTINGS, log=log)
    grid = np.array(figure.axes).reshape(2, 3)
    assert [panel.get_title(loc="left") for panel in grid[0]] == ["a", "b", "c"]
    assert "in D′, not in D" in grid[0, 0].get_ylabel()
    assert "in D, not in D′" in grid[1, 0].get_ylabel()
    for panel, curves in ((grid[0, 1], PRESENCE), (grid[1, 2], ABSENCE)):
        lines = lines_of(panel)
        np.testing.assert_array_equal(
            lines["observed, final iterate"], np.column_stack(curves["observed"])
        )
        np.testing.assert_array_equal(
            lines["all iterates, composed (PLD)"], np.column_stack(curves["composed"])
        )
        np.testing.assert_array_equal(
            lines["linear loss, final iterate"], np.column_stack(curves["linear"])
        )
        assert panel.get_xscale() == panel.get_yscale() == ("log" if log else "linear")
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 3


def test_epsilons_show_means_spreads_and_what_did_not_fit() -> None:
    ours = Repeats("ours", {1.0: [0.8, 0.9, 1.0], 4.0: [3.8, 3.8, 3.8]})
    paper = Repeats("paper", {1.0: [math.inf] * 3, 4.0: [math.inf, 4.4, 4.6]})
    figure = epsilons_against_theory({"first": [paper, ours], "second": [ours]})
    panel, second = figure.axes
    points = sorted(bar.lines[0].get_ydata()[0] for bar in panel.containers)
    assert points == pytest.approx([0.9, 3.8, 4.5])
    bar = next(bar for bar in panel.containers if bar.lines[0].get_ydata()[0] < 1)
    low, high = bar.lines[2][0].get_segments()[0][:, 1]
    assert (low, high) == (pytest.approx(0.9 - 0.2), pytest.approx(0.9 + 0.2))
    assert [text.get_text() for text in panel.texts] == ["3 of 3", "1 of 3"]
    assert not second.texts
    assert panel.get_xticks().tolist() == [1.0, 4.0]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["theory", "paper", "ours"]


def test_nothing_to_draw_is_refused_and_dull_numbers_are_drawn(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="settings"):
        error_curves([], log=True)
    with pytest.raises(InvalidArgument, match="panels"):
        epsilons_against_theory({})
    dull = {"only": [Repeats("nothing", {2.0: [math.inf]}), Repeats("one", {2.0: [0.0]})]}
    canvas.save(epsilons_against_theory(dull), str(tmp_path / "dull.png"), "nothing")
    canvas.save(error_curves(SETTINGS[:1], log=True), str(tmp_path / "one.png"), "one")
