"""From a matplotlib figure to SVG that stands inside a page.

Inside a page ids must not meet those of another picture, styles must not reach beyond it, and
size, type and colours are the page's. So all that is taken out, and the text stays text.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from sordino.report import canvas
from sordino.report.page import Figure

WIDTH = 317.0
"""Points: about as wide as a phone, where 9 points can still be read."""
TEXT, SMALL = 10.0, 9.0
HALO = "halo"
"""Group id of texts that stand on lines: they get a seam in the colour of the ground.

A colour after it, as in "halo #0072b2", is for the words before the colon.
"""
HOLLOW: dict[str, Any] = {"mfc": canvas.PANEL, "mew": 1.8, "ms": 7, "ls": "none", "zorder": 5}
"""Look of a mark that stands on lines."""

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_STYLE: dict[Any, Any] = {
    **canvas.STYLE,  # its font is wider than most, so that room is left for any other
    **dict.fromkeys(("font.size", "axes.labelsize", "legend.fontsize"), SMALL),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), SMALL),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), canvas.GREY),
    **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), canvas.INK),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor", "savefig.facecolor"), "none"),
    "axes.unicode_minus": False,
    "text.parse_math": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
}


@contextmanager
def styled() -> Iterator[None]:
    """Within it, what matplotlib makes has the page's look, and nothing outside is changed."""
    from matplotlib import rc_context

    with rc_context(_STYLE), warnings.catch_warnings():
        # A name in a script that the measuring font lacks: the page's fonts have it.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        yield


@contextmanager
def framed(height: float) -> Iterator[tuple[Any, Any]]:
    """A figure so many points high and its axes, to draw on; its legend is put above."""
    from matplotlib.figure import Figure

    with styled():
        figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
        panel = figure.subplots()
        yield figure, panel
        canvas.legend_above(figure, panel, columns=1)


def inline(figure: Any, name: str, title: str, alt: str, caption: str) -> Figure:
    """A matplotlib `figure` for a page; `name` is unlike that of any other picture on it."""
    written = io.StringIO()
    with styled():
        nothing: dict[str, Any] = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(written, format="svg", metadata=nothing)
    # Without metadata, and without the style sheet, whose `*` would reach the whole page.
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", written.getvalue(), flags=re.DOTALL)
    root = ElementTree.fromstring(text)
    used = set(re.findall(r'"(?:url\()?#([^")]+)', text))
    for element in list(root.iter()):
        element.tag = element.tag.removeprefix(_SVG)
        _restyle(element, f"{name}-", used)
    _drop_empty_groups(root)
    root.attrib = {
        "xmlns": "http://www.w3.org/2000/svg",
        "class": f"drawing drawing-{name}",
        "viewBox": root.get("viewBox", ""),
        "role": "img",
        "aria-labelledby": f"{name}-title",
        "aria-describedby": f"{name}-desc",
        "style": "stroke-linejoin: round; stroke-linecap: butt",
    }
    for place, (tag, words) in enumerate((("title", title), ("desc", alt))):
        root.insert(place, _element(tag, words, id=f"{name}-{tag}"))
    return Figure(ElementTree.tostring(root, encoding="unicode"), alt, caption)


def _element(tag: str, text: str, **attributes: str) -> ElementTree.Element:
    made = ElementTree.Element(tag, attributes)
    made.text = text
    return made


def _restyle(element: ElementTree.Element, prefix: str, used: set[str]) -> None:
    """Give ids the picture's prefix, drop those that nothing refers to, and name the colours."""
    attributes = element.attrib
    identity = attributes.pop("id", "")
    if identity in used:
        attributes["id"] = f"{prefix}{identity}"
    if _LINK in attributes:
        attributes["href"] = attributes.pop(_LINK).replace("#", f"#{prefix}")
    if "clip-path" in attributes:
        attributes["clip-path"] = attributes["clip-path"].replace("#", f"#{prefix}")
    if identity.startswith(HALO):
        seam = f"paint-order: stroke; stroke: {canvas.PANEL}; stroke-width: 2.5px"
        attributes["style"] = seam
        colour = identity.removeprefix(HALO).strip()
        for text in element if colour else ():  # the first words, in bold and in a colour
            lead, colon, rest = (text.text or "").partition(":")
            text.text = None
            words = _element("tspan", lead + colon, style=f"font-weight: 700; fill: {colour}")
            words.tail = rest
            text.append(words)
            _restyle(words, prefix, used)
    if "d" in attributes:
        attributes["d"] = " ".join(attributes["d"].split())
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    if "style" in attributes:
        declared = (each.strip() for each in attributes["style"].split(";"))
        style = "; ".join(each for each in declared if each and "font-family" not in each)
        for name, colour in canvas.LIGHT.items():
            style = style.replace(colour, f"var(--{name}, {colour})")
        attributes["style"] = style


def _drop_empty_groups(parent: ElementTree.Element) -> None:
    for child in list(parent):
        _drop_empty_groups(child)
        if child.tag in ("g", "defs") and not child.attrib and len(child) == 0:
            parent.remove(child)
