"""Figures of formulas and of the worst-case loss: what is drawn is what was given."""

import numpy as np
import pytest

from sordino_papers.theory import figures

STEPS = np.array([1, 100, 10_000])
FIXED = {"epsilon": np.ones(3), "delta": np.full(3, 1e-5), "sample_rate": np.full(3, 0.01)}


def lines(panel):
    return {str(line.get_label()): line.get_ydata() for line in panel.get_lines()}


def test_noise_of_every_method():
    columns = {name: STEPS * (1.0 + at) for at, name in enumerate(figures._NOISE)}
    figure = figures.DRAWINGS["noise_by_steps"]({**FIXED, "steps": STEPS, **columns})
    (panel,) = figure.axes
    drawn = lines(panel)
    assert len(drawn) == 8
    np.testing.assert_array_equal(drawn["naive, proved"], columns["naive"])
    np.testing.assert_array_equal(drawn["moments accountant"], columns["moments"])
    (legend,) = figure.legends
    assert legend.get_title().get_text() == "ε = 1, δ = 1e-05, q = 0.01"


def test_the_ratio_has_its_slope_beside_it():
    naive, strong = STEPS * 1.0, STEPS**0.25
    table = {**FIXED, "steps": STEPS, "naive": naive, "strong": strong, "ratio_order": STEPS**-0.5}
    (panel,) = figures.DRAWINGS["noise_ratio"](table, since=100).axes
    drawn = lines(panel)
    np.testing.assert_allclose(drawn["proved (slope -0.750)"], STEPS**-0.75)
    assert "printed order, constant 1 (slope -0.500)" in drawn
    assert drawn["like 1/√T"][-1] == pytest.approx(strong[-1] / naive[-1])
    assert drawn["like 1/√T"][0] == pytest.approx(drawn["like 1/√T"][-1] * 100)


def test_growth_with_epochs():
    epochs = np.array([1, 2, 4])
    powers = {"naive": 1.0, "strong": 0.9, "moments": 0.5, "least": 0.55}
    table = {**FIXED, "noise_multiplier": np.full(3, 2.0), "steps": np.full(3, 1000)}
    table |= {"epochs": epochs, **{name: epochs**power for name, power in powers.items()}}
    (panel,) = figures.DRAWINGS["epsilon_by_epochs"](table).axes
    drawn = lines(panel)
    np.testing.assert_allclose(drawn["strong composition (slope 0.90)"], epochs**0.9)
    assert "moments accountant (slope 0.50)" in drawn
    assert set(drawn["moments, if constant"]) == {1.0}
    assert panel.get_xlabel() == "epochs of 1,000 steps"


RATES = np.linspace(0, 1, 5)
RUN = {
    "noise_multiplier": np.array(0.5),
    "sample_rate": np.array(0.01),
    "steps": np.array(1024),
    "claimed": np.array(13.49),
    "linear": np.array(3.007),
    **{
        f"{order}/{line}/{rate}": RATES if rate == "fpr" else 1 - RATES**power
        for power, order in enumerate(("presence", "absence"), 1)
        for line in ("observed", "composed", "linear")
        for rate in ("fpr", "fnr")
    },
}


def test_figure_one_has_a_panel_a_training():
    figure = figures.DRAWINGS["worst_case_curves"](RUN, RUN, RUN, orders=["presence"])
    assert len(figure.axes) == 3
    panel = figure.axes[0]
    title = "σ = 0.5, q = 0.01, T = 1024\nepsilon 13.5, linear 3.01"
    assert panel.get_title(loc="left") == title
    np.testing.assert_array_equal(lines(panel)["observed, final iterate"], 1 - RATES)
    both = figures.DRAWINGS["worst_case_curves"](RUN, log=True)
    assert len(both.axes) == 2
    np.testing.assert_array_equal(lines(both.axes[1])["observed, final iterate"], 1 - RATES**2)


def test_figure_two_has_every_way_and_no_other():
    run = {
        "sample_rate": np.array(0.1),
        "steps": np.array(100),
        "epsilons": np.array([1.0, 4.0]),
        "paper_printed": np.full((2, 2), np.inf),
        "paper_restricted": np.array([[1.2, 1.4], [4.2, 4.4]]),
        "area": np.array([[0.9, 1.1], [3.9, 4.1]]),
        "ours": np.array([[0.8], [3.5]]),
        "exact": np.array([[7.0, 7.0], [7.0, 7.0]]),
    }
    panel, other = figures.DRAWINGS["worst_case_epsilons"](
        run, {**run, "steps": np.array(1024)}
    ).axes
    assert panel.get_title(loc="left") == "q = 0.1, T = 100"
    assert other.get_title(loc="left") == "q = 0.1, T = 1024"
    means = sorted(bar.lines[0].get_ydata()[0] for bar in panel.containers)
    assert means == pytest.approx([0.8, 1.0, 1.3, 3.5, 4.0, 4.3])
