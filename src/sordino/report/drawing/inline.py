"""From a matplotlib figure to SVG that stands inside a page, or alone as a file.

Inside a page ids must not meet those of another picture, styles must not reach beyond it, and
size, type and colours are the page's. So all that is taken out, and the text stays text.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from sordino.report import canvas, palette
from sordino.report.blocks import Drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 317.0
"""Points: about as wide as a phone, where 9 points can still be read."""
TEXT, SMALL = 10.0, 9.0
HALO = "halo"
"""Group id of texts that stand on lines: they get a seam in the colour of the ground.

A colour after it, as in "halo #0072b2", is for the words before the colon.
"""

HOLLOW: dict[str, Any] = {"mfc": palette.PANEL, "mew": 1.8, "ms": 7, "ls": "none", "zorder": 5}
"""Look of a mark that stands on lines."""

_MARGIN = 8.0
"""Points around a picture that stands alone."""
_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_NO_METADATA: dict[str, Any] = dict.fromkeys(("Date", "Creator", "Format", "Type"))
_STYLE: dict[Any, Any] = {
    **canvas.STYLE,  # its font is wider than most, so that room is left for any other
    **dict.fromkeys(("font.size", "axes.labelsize", "legend.fontsize"), SMALL),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), SMALL),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), palette.MUTED),
    **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), palette.INK),
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


def framed(height: float) -> tuple[Any, Any]:
    """A figure so many points high, and its axes. To be called within `styled`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
    return figure, figure.subplots()


def inline(figure: Figure, name: str, title: str, alt: str, caption: str) -> Drawn:
    """`figure` as a `Drawn`; `name` is unlike that of any other picture on the page."""
    text = io.StringIO()
    with styled():
        figure.savefig(text, format="svg", metadata=_NO_METADATA)
    root = _without_wrapping(ElementTree.fromstring(text.getvalue()))
    used = _used_ids(root)
    for element in list(root.iter()):
        element.tag = element.tag.removeprefix(_SVG)
        _rename(element, f"{name}-", used)
    for element in root.iter():
        _restyle(element)
    _without_empty_groups(root)
    view = root.get("viewBox", "")
    root.attrib = {
        "xmlns": "http://www.w3.org/2000/svg",
        "class": f"drawing drawing-{name}",
        "viewBox": view,
        "role": "img",
        "aria-labelledby": f"{name}-title",
        "aria-describedby": f"{name}-desc",
        "style": "stroke-linejoin: round; stroke-linecap: butt",
    }
    for place, (tag, words) in enumerate((("title", title), ("desc", alt))):
        element = ElementTree.Element(tag, {"id": f"{name}-{tag}"})
        element.text = words
        root.insert(place, element)
    return Drawn(_serialised(root), alt, caption)


def standalone(drawn: Drawn, width: int = 640) -> str:
    """The picture as a file of its own: with a size, a ground, a font and the palette's colours."""
    root = ElementTree.fromstring(drawn.markup)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
    wide, high = (float(each) + 2 * _MARGIN for each in root.attrib["viewBox"].split()[2:])
    root.set("xmlns", "http://www.w3.org/2000/svg")
    root.set("viewBox", f"{-_MARGIN:g} {-_MARGIN:g} {wide:g} {high:g}")
    root.set("width", str(width))
    root.set("height", f"{width * high / wide:.0f}")
    style = ElementTree.Element("style")
    style.text = (
        f"{palette.css('svg')}\n"
        "svg { background: var(--panel); font-family: system-ui, 'Segoe UI', Roboto, "
        "'Helvetica Neue', Arial, sans-serif; }"
    )
    root.insert(2, style)
    return _serialised(root) + "\n"


def _serialised(root: ElementTree.Element) -> str:
    return ElementTree.tostring(root, encoding="unicode")


def _without_wrapping(root: ElementTree.Element) -> ElementTree.Element:
    """Without metadata, and without the style sheet, whose `*` would reach the whole page."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{_SVG}metadata", f"{_SVG}style"):
                parent.remove(child)
    return root


def _used_ids(root: ElementTree.Element) -> set[str]:
    values = [value for element in root.iter() for value in element.attrib.values()]
    linked = {value[1:] for value in values if value.startswith("#")}
    return linked | {found for value in values for found in re.findall(r"url\(#(.+?)\)", value)}


def _rename(element: ElementTree.Element, prefix: str, used: set[str]) -> None:
    """Give ids the picture's prefix; drop those that nothing refers to."""
    identity = element.attrib.pop("id", None)
    if identity in used:
        element.set("id", f"{prefix}{identity}")
    link = element.attrib.pop(_LINK, None)
    if link is not None:
        element.set("href", f"#{prefix}{link.removeprefix('#')}")
    if "clip-path" in element.attrib:
        clip = element.attrib["clip-path"].removeprefix("url(#").removesuffix(")")
        element.set("clip-path", f"url(#{prefix}{clip})")
    if identity is not None and identity.startswith(HALO):
        element.set("style", f"paint-order: stroke; stroke: {palette.PANEL}; stroke-width: 2.5px")
        _lead(element, identity.removeprefix(HALO).strip())


def _lead(group: ElementTree.Element, colour: str) -> None:
    """Set a text's first words, up to the colon, in bold and in a colour."""
    for text in group if colour else ():
        lead, colon, rest = (text.text or "").partition(":")
        text.text = None
        words = ElementTree.SubElement(
            text, "tspan", {"style": f"font-weight: 700; fill: {colour}"}
        )
        words.text, words.tail = lead + colon, rest


def _restyle(element: ElementTree.Element) -> None:
    if "d" in element.attrib:
        element.set("d", " ".join(element.attrib["d"].split()))
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    if "style" not in element.attrib:
        return
    declared = [each.strip() for each in element.attrib["style"].split(";")]
    kept = [each for each in declared if each and not each.startswith("font-family")]
    style = "; ".join(kept)
    for name, colour in palette.LIGHT.items():
        style = style.replace(colour, f"var(--{name}, {colour})")
    element.set("style", style)


def _without_empty_groups(root: ElementTree.Element) -> None:
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in ("g", "defs") and not child.attrib:
                _without_empty_groups(child)
                if len(child) == 0:
                    parent.remove(child)
