"""Figures of SGD's own noise: what is drawn is what was given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from sordino import randomness
from sordino.errors import InvalidArgument
from sordino.privacy import Estimate
from sordino.report import canvas, intrinsic
from sordino.report.drawing.sheet import INFINITY
from sordino.report.intrinsic import Band, DistanceSet

RNG = randomness.stream("test", "figures")
DATA, SEED, BOTH = (scale * RNG.lognormal(0, 0.3, 500) for scale in (0.01, 1.0, 1.1))
SETS = {"vary": DistanceSet(DATA, SEED, BOTH), "fixed": DistanceSet(DATA, 0.2 * SEED, 0.2 * BOTH)}


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


def test_a_density_has_the_area_of_what_is_above_zero() -> None:
    values = np.concatenate([np.zeros(100), DATA[:300]])
    x, y = canvas.density(values, 1e-4, 1.0)
    area = np.sum(y) * np.diff(np.log10(x))[0]
    assert area == pytest.approx(0.75, rel=1e-3)  # the kernel is cut at 4 widths: 6e-5
    centre = np.sum(np.log10(x) * y) / np.sum(y)
    # Values are put into bins of 0.008 decades.
    assert centre == pytest.approx(np.log10(DATA[:300]).mean(), abs=0.008)


def test_a_density_of_equal_values_is_narrow_and_finite() -> None:
    x, y = canvas.density(np.full(50, 0.1), 0.01, 1.0)
    assert np.isfinite(y).all()
    assert x[y.argmax()] == pytest.approx(0.1, rel=0.02)


@pytest.mark.parametrize("many", [1, 5, 400, 401, 10**6])
def test_thinning_keeps_both_ends(many: int) -> None:
    at = canvas.thinned(many, 400)
    assert (at[0], at[-1]) == (0, many - 1)
    assert (np.diff(at) > 0).all()
    assert len(at) <= 400 or many == len(at)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.05, "0.05"), (1000, "1,000"), (20.0, "20"), (1e-5, "1e-5"), (2e7, "2e7"), (0, "0")],
)
def test_ticks_are_plain_numbers(value: float, text: str) -> None:
    assert canvas.plain(value) == text


def test_trajectories_have_a_panel_a_weight_and_a_line_a_seed() -> None:
    values = RNG.normal(size=(7, 3, 2))
    figure = intrinsic.trajectories((0, 10, 20), values, ("weight 26", "weight 36"))
    upper, lower = figure.axes
    assert len(upper.get_lines()) == len(lower.get_lines()) == 7
    drawn = lower.get_lines()[4].get_xydata()
    np.testing.assert_array_equal(drawn, np.column_stack([(0, 10, 20), values[4, :, 1]]))
    assert upper.get_ylabel() == "weight 26"
    assert lower.get_xlabel() == "training steps"


def test_one_step_is_no_trajectory() -> None:
    with pytest.raises(InvalidArgument, match="two or more where weights are followed"):
        intrinsic.trajectories((10,), RNG.normal(size=(7, 1, 2)), ("a", "b"))


def test_distances_show_both_inits_and_the_bound_dashed() -> None:
    figure = intrinsic.distances(SETS, bound=0.3, printed=0.25, title="a title")
    (panel,) = figure.axes
    assert title(figure) == "a title"
    said = named(figure)
    assert any("another record (vary)" in text for text in said)
    assert any("another seed (fixed)" in text for text in said)
    assert "bound, one record: 0.3" in said
    assert "papers' fraction of it: 0.25" in said
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
    said = named(intrinsic.distances({"vary": DistanceSet(some, SEED, BOTH)}))
    assert any("(25% are 0)" in text for text in said)
    assert not any("bound" in text for text in said)


def test_nothing_but_zeros_and_single_numbers_can_be_drawn(tmp_path: Path) -> None:
    """Without noise, or with one pair, pictures are dull; they must not fail (nor warn)."""
    zeros, one = np.zeros(20), np.ones(1)
    band = Band((1,), one, one, one)
    for figure in (
        intrinsic.distances({"fixed": DistanceSet(zeros, zeros, zeros)}),
        intrinsic.pairwise({"fixed": zeros}, {"fixed": zeros}, delta=1e-6),
        intrinsic.convergence({"fixed": band}, {"fixed": Band((2, 3), *[np.zeros(2)] * 3)}),
        intrinsic.normality({"fixed": one * 0.5}),
        intrinsic.over_steps((1, 2), {"fixed": np.zeros(2)}, {"fixed": np.zeros(2)}),
        intrinsic.epsilons({"fixed": {"a": estimate(0.0), "b": estimate(np.inf)}}, delta=1e-6),
    ):
        canvas.save(figure, str(tmp_path / "dull.png"), "INTERNAL")


def test_normality_sorts_p_values_and_draws_the_corrected_line() -> None:
    p = RNG.random(200)
    figure = intrinsic.normality({"vary": np.append(p, np.nan), "fixed": p[:50]})
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
        intrinsic.normality({"vary": np.full(3, np.nan)})


def test_pairwise_draws_the_share_of_pairs_above_each_epsilon() -> None:
    exact = np.sort(RNG.lognormal(0, 1, 300))
    figure = intrinsic.pairwise({"vary": exact}, {"vary": 1.1 * exact}, delta=1e-6)
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
    figure = intrinsic.utility(epsilons, {"theoretical": settings, "empirical": settings})
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
    figure = intrinsic.over_steps(steps, values, {"vary": np.ones(3)}, bound=stairs)
    upper, lower = figure.axes
    assert lines(upper)["initial weights vary"].tolist() == [[10, 1], [20, 2], [30, 3]]
    bound = next(line for line in upper.get_lines() if line.get_label() == "bound for one record")
    assert bound.get_drawstyle() == "steps-post"
    assert bound.get_linestyle() == "--"
    assert lower.get_xlabel() == "training steps"
    assert upper.get_ylim()[0] == 0


def test_convergence_draws_bands_and_where_they_end() -> None:
    band = Band((1, 10, 100), np.array([1.0, 2.0, 3.0]), np.ones(3), np.full(3, 3.0))
    figure = intrinsic.convergence({"vary": band}, {"vary": band})
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
    figure = intrinsic.epsilons(found, delta=1e-6, title="digits")
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
        canvas.save(intrinsic.distances(SETS, bound=0.3), str(path), "INTERNAL")
        written.append(path.read_bytes())
    assert written[0] == written[1]
    assert dict(matplotlib.rcParams) == before
    start = b"\x89PNG" if suffix == "png" else b"<?xml"
    assert written[0].startswith(start)


def test_a_figure_is_one_column_wide() -> None:
    for figure in (
        intrinsic.distances(SETS),
        intrinsic.normality({"vary": RNG.random(9)}),
    ):
        assert figure.get_figwidth() == canvas.COLUMN


def test_pyplot_is_not_loaded() -> None:
    code = (
        "import sys; from sordino.report import intrinsic; import numpy as np; "
        "intrinsic.normality({'vary': np.array([.1, .5])}); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
