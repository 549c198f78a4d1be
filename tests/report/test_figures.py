from __future__ import annotations

import math
from pathlib import Path

import pytest

from sordino.errors import InvalidArgument
from sordino.report import figures


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


def drawn(monkeypatch: pytest.MonkeyPatch):
    """Catch figures instead of writing them."""
    caught: list = []
    monkeypatch.setattr(figures, "_save", lambda figure, path, says: caught.append(figure))
    return caught


def lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


SERIES = {
    "proved": [(1, 0.5), (10, 2.0), (100, math.inf)],
    "quoted (as printed, no guarantee)": [(1, 0.1), (10, 0.0), (100, 3.0)],
    "nothing to show": [(1, math.inf)],
}


def test_growth_shows_finite_points_and_dashes_what_is_no_guarantee(monkeypatch) -> None:
    caught = drawn(monkeypatch)
    figures.growth(SERIES, "x.png", across="steps", up="epsilon", title="a title")
    (axes,) = caught[0].axes
    shown = lines(axes)
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
    caught = drawn(monkeypatch)
    figures.noise_growth(SERIES, [(100, 0.5), (400, 0.2)], "x.png", title="a title")
    left, right = caught[0].axes
    assert left.get_xlabel() == "epochs"
    assert left.get_ylabel() == "noise multiplier"
    assert right.get_xlabel() == "steps"
    shown = lines(right)
    assert shown["strong / naive, as proved"].get_xydata().tolist() == [[100, 0.5], [400, 0.2]]
    # 1 / sqrt(steps) through the last point: twice as high at a quarter of the steps.
    assert shown["like 1 / sqrt(steps)"].get_ydata().tolist() == pytest.approx([0.4, 0.2])


def test_noise_growth_without_ratios_is_drawn(tmp_path: Path) -> None:
    figures.noise_growth({"proved": [(1, 1.0)]}, [], str(tmp_path / "a.png"), title="a title")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_finite_is_drawn_without_a_warning(tmp_path: Path) -> None:
    empty = {"proved": [(1, math.inf)]}
    figures.growth(empty, str(tmp_path / "a.png"), across="x", up="y", title="z")
    figures.noise_growth(empty, [], str(tmp_path / "b.png"), title="z")
    assert (tmp_path / "b.png").exists()


def test_an_svg_is_the_same_every_time(tmp_path: Path) -> None:
    paths = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for path in paths:
        figures.growth(SERIES, str(path), across="steps", up="epsilon", title="a title")
    first, second = (path.read_text() for path in paths)
    assert "<dc:date>" not in first
    assert first == second
