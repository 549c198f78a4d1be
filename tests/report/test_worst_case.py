"""Figures of the worst-case audit: what is drawn is what was given."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from sordino.errors import InvalidArgument
from sordino.report import canvas
from sordino.report.worst_case import Repeats, WorstCaseSetting, epsilons, error_curves

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


def drawn(panel) -> dict[str, np.ndarray]:
    return {str(line.get_label()): line.get_xydata() for line in panel.get_lines()}


@pytest.mark.parametrize("log", [True, False])
def test_error_curves_have_a_column_a_setting_and_a_row_an_order(log: bool) -> None:
    figure = error_curves(SETTINGS, log=log)
    grid = np.array(figure.axes).reshape(2, 3)
    assert [panel.get_title(loc="left") for panel in grid[0]] == ["a", "b", "c"]
    assert "D without the record" in grid[0, 0].get_ylabel()
    assert "D with the record" in grid[1, 0].get_ylabel()
    for panel, curves in ((grid[0, 1], PRESENCE), (grid[1, 2], ABSENCE)):
        lines = drawn(panel)
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
    figure = epsilons({"first": [paper, ours], "second": [ours]})
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
        epsilons({})
    dull = {"only": [Repeats("nothing", {2.0: [math.inf]}), Repeats("one", {2.0: [0.0]})]}
    canvas.save(epsilons(dull), str(tmp_path / "dull.png"), "nothing")
    canvas.save(error_curves(SETTINGS[:1], log=True), str(tmp_path / "one.png"), "one")
