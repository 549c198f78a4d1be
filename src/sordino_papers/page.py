"""The page of a reproduction: one HTML file with its figures inside, and nothing to fetch or run.

What it says is `Reproduction` and nothing else; how it looks is in `templates`, over the style of
the report's page.
"""

from __future__ import annotations

import base64
import functools
import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

import sordino
from sordino._shown import printable
from sordino.report.page import CSP, colours
from sordino.report.page import TEMPLATES as REPORT
from sordino.report.words_numbers import seconds
from sordino_papers import effort, layout, scoreboard, words
from sordino_papers.results import Picture, Reproduction, Verdict

TEMPLATES = Path(__file__).parent / "templates"

CLASSES = {
    Verdict.REPRODUCED: "reproduced",
    Verdict.EXPLAINED: "explained",
    Verdict.DIFFERS: "differs",
    Verdict.NOT_RUNNABLE: "missing",
}
MEANINGS = {
    Verdict.REPRODUCED: "our number is within the tolerance that the claim states",
    Verdict.EXPLAINED: "it is not, and a run of ours supports the reason that is given",
    Verdict.DIFFERS: "it is not, and nobody knows why",
    Verdict.NOT_RUNNABLE: "it could not be judged on this machine, at this size",
}
_CODE = re.compile(r"`([^`]+)`")
_LARGE = 1_500_000
"""Bytes of a drawing, from which the smaller of its two files is taken: points by the thousand."""


def page(reproduction: Reproduction, directory: Path) -> str:
    """Everything that was found, as one self-contained HTML document.

    Parameters
    ----------
    reproduction
        What was found.
    directory
        Where the files of its pictures are.
    """
    style = "\n".join([colours(), _file(REPORT / "page.css"), _file(TEMPLATES / "page.css")])
    template = _environment().get_template("page.html.j2")
    return template.render(
        found=reproduction,
        style=style,
        csp=CSP,
        version=sordino.__version__,
        whole=scoreboard.total(reproduction),
        papers=layout.papers(reproduction),
        claims=layout.claims(reproduction),
        missing=layout.missing(reproduction),
        differences=layout.differences(reproduction.results.values()),
        efforts=effort.efforts(reproduction),
        longest=effort.longest_first(reproduction, list(reproduction.runs)),
        source=lambda picture: _source(picture, Path(directory)),
    )


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES, encoding="utf-8"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {
        "words": words,
        "layout": layout,
        "scoreboard": scoreboard,
        "Verdict": Verdict,
        "classes": CLASSES,
        "meanings": MEANINGS,
        "seconds": seconds,
    }
    environment.filters |= {"trusted": Markup, "prose": _prose}
    return environment


def _shown(value: object) -> object:
    """Every value on its way into the page: what nobody could see is written out."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value


def _prose(text: str) -> Markup:
    """A sentence, escaped, in which commands look like commands."""
    pieces = _CODE.split(printable(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if at % 2 else escape(piece)
        for at, piece in enumerate(pieces)
    )


def _source(picture: Picture, directory: Path) -> str:
    """A drawing as an address that holds it: ids and styles of one never reach another."""
    path, kind = directory / picture.svg, "svg+xml"
    other = directory / picture.png
    if path.stat().st_size > _LARGE and other.stat().st_size < path.stat().st_size:
        path, kind = other, "png"
    return f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


@functools.cache
def _file(path: Path) -> str:
    return path.read_text(encoding="utf-8")
