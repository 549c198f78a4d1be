"""The picture in the README: the axis of an assessment as a file of its own.

    sordino assess --out study
    python examples/axis_picture.py study --out assess.svg

The study is INTERNAL, and so is this picture: it shows an estimate and what an attack achieved.
The README's is of handwritten digits that anybody has.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sordino.assessment import pages
from sordino.report.drawing.axis import axis
from sordino.report.drawing.svg import standalone


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
