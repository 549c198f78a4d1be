"""Blocks as one HTML file without scripts or anything to fetch, or as Markdown.

Every text is escaped: names of columns, files and mechanisms are somebody else's. How it looks is
in `templates`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from sordino.errors import printable
from sordino.report import palette
from sordino.report.blocks import Line, Page, Span
from sordino.report.words_numbers import typeset

CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What a browser may do for a page: show it. Whatever a stranger's text smuggled in stays dead."""
TEMPLATES = Path(__file__).parent / "templates"
PAPER = {"light": "#f6f7f9", "dark": "#0e1013"}
"""The ground of the page; drawings and boxes lie on the palette's panel."""

_CODE = re.compile(r"`([^`]+)`|(?<![\w-])(--[a-z]+(?:-[a-z]+)*)\b")
"""Commands between backticks, and options of the program."""
_WHOLE_CODE = 30
"""Letters of code that fit on a line of a phone, and so are never broken at a hyphen."""
_MARKDOWN_CODE = re.compile(r"(`[^`<>|\\]+`)")
"""What Markdown may take for code: nothing in it could be taken for anything else."""
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~&#])")
_LIST = re.compile(r"^(\d*)([-+=.)])(?=\s|$|[-=])")
"""At the start of a line "-", "+" and "1." would begin a list, and "---" end a paragraph."""


def html(page: Page, style: str = "") -> str:
    """One self-contained document; `style` is CSS beside that of every page."""
    sheets = "\n".join(filter(None, [colours(), sheet("page.css"), style]))
    template = _environment("html", page.as_written).get_template("page.html.j2")
    return template.render(page=page, style=sheets, csp=CSP) + "\n"


def markdown(page: Page) -> str:
    """The same, with descriptions instead of pictures that have no file."""
    text = _environment("markdown", page.as_written).get_template("page.md.j2").render(page=page)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def fragment(template: str, style: str, values: Mapping[str, object]) -> str:
    """A part of a page by a template of its own, in styles that stay inside it."""
    return _environment("html").get_template(template).render(style=style, **values)


@functools.cache
def _environment(kind: str, as_written: bool = False) -> Environment:
    """Templates of HTML are escaped by themselves, those of Markdown by the filter `md`."""
    shown = printable if as_written else _typeset
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES, encoding="utf-8"),
        autoescape=kind == "html",
        # Every value on its way into a template: what nobody could see is written out.
        finalize=(lambda value: _finished(value, shown)) if kind == "html" else None,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "trusted": Markup,
        "prose": lambda line: prose(line, shown),
        "lines": lambda text: Markup("\n").join(escape(printable(t)) for t in text.splitlines()),
        "md": lambda line: in_markdown(line, typeset if not as_written else str),
        # A block of code: nothing in it is acted on.
        "indented": lambda text: "\n".join(f"    {printable(t)}" for t in text.splitlines()),
        "kind": lambda block: type(block).__name__.lower(),
        "name": lambda line: line.name if isinstance(line, Span) else "",
    }
    environment.filters.update(filters)
    return environment


def _finished(value: object, shown: Callable[[str], str]) -> object:
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _typeset(text: str) -> str:
    """`text` as it is printed; no line ends within a power of ten."""
    return typeset(printable(text)).replace(" × 10", "\u00a0×\u00a010")


def prose(line: Line, shown: Callable[[str], str] = _typeset) -> Markup:
    """A line, escaped, in which commands look like commands."""
    if isinstance(line, tuple):
        return Markup("").join(prose(part, shown) for part in line)
    if isinstance(line, Span):
        return _span(line, prose(line.text, shown))
    parts, end = [], 0
    for found in _CODE.finditer(text := shown(line)):
        code = found[1] or found[2]
        look = Markup(' class="whole"') if len(code) <= _WHOLE_CODE else ""
        parts += [escape(text[end : found.start()]), Markup("<code{}>{}</code>").format(look, code)]
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


def _span(span: Span, inside: Markup) -> Markup:
    if span.look == "strong":
        return Markup("<strong>{}</strong>").format(inside)
    known = {"class": span.look, "id": span.name, "href": f"#{span.to}" if span.to else ""}
    known["aria-hidden"] = "true" if span.silent else ""
    given = Markup("").join(
        Markup(' {}="{}"').format(name, value) for name, value in known.items() if value
    )
    tag = Markup("a" if span.to else "span")
    return Markup("<{}{}>{}</{}>").format(tag, given, inside, tag) if given else inside


def in_markdown(line: Line, printed: Callable[[str], str] = typeset) -> str:
    """A line on one line, with what Markdown or HTML would act on escaped, but for commands."""
    stripped = line.strip() if isinstance(line, str) else line
    return _LIST.sub(r"\1\\\2", _marked(stripped, printed).strip())


def _marked(line: Line, printed: Callable[[str], str]) -> str:
    if isinstance(line, tuple):
        return "".join(_marked(part, printed) for part in line)
    if isinstance(line, Span):
        inside = _marked(line.text, printed)
        return f"**{inside}**" if line.look == "strong" else inside
    pieces = _MARKDOWN_CODE.split(printed(printable(line)).replace("\u00a0", " "))
    return "".join(
        piece if at % 2 else _MARKDOWN.sub(r"\\\1", piece) for at, piece in enumerate(pieces)
    )


def colours() -> str:
    """The palette as CSS: light, dark and printed."""
    light = "".join(f"--{name}: {colour}; " for name, colour in palette.LIGHT.items())
    return (
        f"{palette.css()}\n"
        f":root {{ --paper: {PAPER['light']}; {_strip(palette.LIGHT['ink'])} }}\n"
        "@media (prefers-color-scheme: dark) "
        f"{{ :root {{ --paper: {PAPER['dark']}; {_strip(palette.DARK['grid'])} }} }}\n"
        f"@media print {{ :root {{ {light}--paper: #ffffff; }} }}"
    )


def _strip(ground: str) -> str:
    """The line on top of the page: light letters on a dark ground, on light pages and dark ones."""
    return f"--strip: {ground}; --strip-ink: #ffffff;"


@functools.cache
def sheet(name: str) -> str:
    """A style sheet of the templates."""
    return (TEMPLATES / name).read_text(encoding="utf-8")
