"""The picture in the README: the axis of an assessment as a file of its own.

    sordino assess --out study
    python examples/axis_picture.py study --out assess.svg

The study is INTERNAL, and so is this picture: it shows an estimate and what an attack achieved.
The README's is of handwritten digits that anybody has.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from xml.etree import ElementTree

from sordino.assessment import pages
from sordino.report import canvas
from sordino.report.drawing.axis import axis
from sordino.report.page import Figure

_MARGIN = 8.0
"""Points around the picture."""
_SVG = "http://www.w3.org/2000/svg"


def standalone(drawn: Figure, width: int = 640) -> str:
    """The picture as a file of its own: with a size, a ground, a font and both sets of colours."""
    root = ElementTree.fromstring(drawn.markup)
    wide, high = (float(each) + 2 * _MARGIN for each in root.attrib["viewBox"].split()[2:])
    root.set("viewBox", f"{-_MARGIN:g} {-_MARGIN:g} {wide:g} {high:g}")
    root.set("width", str(width))
    root.set("height", f"{width * high / wide:.0f}")
    fonts = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
    rule = f"svg {{ background: var(--panel); font-family: {fonts}; }}"
    style = ElementTree.Element(f"{{{_SVG}}}style")
    style.text = f"{canvas.css('svg')}\n{rule}"
    root.insert(2, style)
    ElementTree.register_namespace("", _SVG)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def main(arguments: list[str] | None = None) -> None:
    """Draw the axis of the study that is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", help="directory that `sordino assess` made")
    parser.add_argument("--out", type=Path, default=Path("assess.svg"))
    given = parser.parse_args(arguments)
    found = pages.read(given.study)
    given.out.write_text(standalone(axis(found)), encoding="utf-8")
    print(f"{given.out}: {found.question.title}")


if __name__ == "__main__":
    main()
