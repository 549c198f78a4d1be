"""The example that writes the axis of an assessment as a file of its own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sordino.report import canvas
from sordino.report.drawing.axis import axis

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def loaded(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_file_of_its_own_has_a_size_a_ground_and_both_sets_of_colours(monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tests" / "report"), *sys.path])
    sample = loaded(ROOT / "tests" / "report" / "sample_assessment.py").release_sample()
    drawn = axis(sample)
    root = ElementTree.fromstring(
        loaded(ROOT / "examples" / "axis_picture.py").standalone(drawn, width=500)
    )
    assert root.tag == f"{SVG}svg"
    wide, high = (float(each) for each in root.attrib["viewBox"].split()[2:])
    assert root.get("width") == "500"
    assert float(root.attrib["height"]) == pytest.approx(500 * high / wide, abs=0.5)
    style = root.find(f"{SVG}style")
    light, _, dark = style.text.partition("@media")
    for name in canvas.LIGHT:
        assert f"--{name}: {canvas.LIGHT[name]};" in light
        assert f"--{name}: {canvas.DARK[name]};" in dark
    assert "background: var(--panel)" in style.text
    words = [list(each.itertext()) for each in root.iter(f"{SVG}text")]
    inline = ElementTree.fromstring(drawn.markup)
    assert words == [list(each.itertext()) for each in inline.iter(f"{SVG}text")]
