"""The page engine: what a page is made of, and how it becomes HTML or Markdown.

A page is a tree of blocks, made by `sections`, `public` and the reproduction of the papers. `html`
makes one file of it without scripts or anything to fetch; `markdown` the same as text. Texts are
plain: every one is escaped, since names of columns, files and mechanisms are somebody else's. Only
the markup of a `Figure` is trusted. How a page looks is in `templates`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from sordino.errors import printable
from sordino.report import canvas
from sordino.report.numbers import typeset

_LETTERS_ON_A_PHONE = 75
"""Of a row of three cells: two lines each, about."""
_ROWS_ON_A_SHEET = 24
"""Of paper, of two lines each, about."""

_Tone = Literal["", "warn", "muted", "explained"]


@dataclass(frozen=True)
class Span:
    """Words within a line that look, link or are read out unlike the rest.

    Parameters
    ----------
    text
        A line of its own.
    look
        Classes of the style sheet, such as one of the three words or a verdict; "strong" is bold.
    to, name
        The address within the page that it links to, and its own.
    silent
        Whether screen readers pass over it, since words beside it say the same.
    """

    text: Line
    look: str = ""
    to: str = ""
    name: str = ""
    silent: bool = False


Line: TypeAlias = "str | Span | tuple[Line, ...]"
"""Words in a row; `commands` between backticks look like commands."""


class Text(NamedTuple):
    """A paragraph; `lead` are its first words, set in bold."""

    text: Line
    lead: str = ""
    tone: _Tone = ""


class Heading(NamedTuple):
    """Of a part of a section; `mark` stands beside it, `name` is its address within the page."""

    text: Line
    mark: str = ""
    name: str = ""


class Bullets(NamedTuple):
    """A list of sentences."""

    items: tuple[Line, ...]


class Facts(NamedTuple):
    """Names and what they stand for; those that stand for nothing are left out."""

    pairs: tuple[tuple[str, str], ...]


class Group(NamedTuple):
    """Rows of a table that belong together.

    Parameters
    ----------
    title
        May be "".
    rows
        A row's first cell names it; if it is a `Span` with a name, that is the whole row's.
    note
        A sentence about all of them, below.
    """

    title: str
    rows: tuple[tuple[Line, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Table:
    """`head` names the columns."""

    caption: str
    head: tuple[str, ...]
    groups: tuple[Group, ...]

    @property
    def look(self) -> str:
        """Classes of the style sheet.

        On a phone cells stand below each other where it is too narrow for them ("stacks"), on
        paper the table may end on the next sheet if one is too short for it ("splits"), and a table
        of very many columns has small letters ("many").
        """
        rows = [row for group in self.groups for row in group.rows]
        letters = max((sum(len(_letters(cell)) for cell in row) for row in rows), default=0)
        columns = len(self.head)
        stacks = columns > 3 or (columns == 3 and letters > _LETTERS_ON_A_PHONE)
        splits = len(rows) + len(self.groups) > _ROWS_ON_A_SHEET
        return " ".join(["stacks"] * stacks + ["splits"] * splits + ["many"] * (columns > 8))

    @property
    def notes(self) -> dict[str, list[str]]:
        """By note, the titles of its groups: many differ in nothing but what they are about."""
        titles: dict[str, list[str]] = {}
        for group in self.groups:
            titles.setdefault(group.note, []).append(group.title)
        return {note: titles[note] for note in titles if note}


class Figure(NamedTuple):
    """A picture.

    Parameters
    ----------
    markup
        Trusted: an `<svg class="drawing">` without a width (the page gives it one, and the height
        follows), or an image that holds its own data.
    alt
        What is to be seen, in a few sentences: numbers that stand beside the picture are left to
        the text. Also inside `markup`, for screen readers.
    caption
        A sentence to stand below.
    file
        Address of the same picture beside a Markdown text; "" where only words can stand for it.
    """

    markup: str
    alt: str
    caption: str
    file: str = ""


class Code(NamedTuple):
    """Something to type or to compare letter by letter; `label` says what."""

    text: str
    label: str = ""


class Notice(NamedTuple):
    """Blocks that are about one thing, set off by a line beside them."""

    blocks: tuple[Block, ...]
    tone: _Tone = ""
    name: str = ""


class Folded(NamedTuple):
    """Long lists, behind their title until somebody looks.

    Printed in full, unless they are for machines (`printed` False): a sheet of JSON helps nobody.
    """

    title: str
    blocks: tuple[Block, ...]
    printed: bool = True


class Beside(NamedTuple):
    """Words and the figure they are about, in two columns where there is room."""

    left: tuple[Block, ...]
    right: tuple[Block, ...]


Block = Text | Heading | Bullets | Facts | Table | Figure | Code | Notice | Folded | Beside


class Section(NamedTuple):
    """`name` is its address within the page."""

    name: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """A whole document.

    Parameters
    ----------
    title
        Of the window.
    mark, why_marked
        On the line on top: a few bold words ("INTERNAL.") and a sentence.
    verdict, subtitle
        The first line, and what stands below it.
    notes
        What must be known with the verdict.
    alarm, loud
        Whether the verdict, and the line on top, are in the colour of warnings.
    as_written
        Whether numbers stay as they are: 5e-06 is printed as 5 × 10⁻⁶ otherwise.
    """

    title: str
    mark: str
    why_marked: str
    verdict: str
    subtitle: Line
    notes: tuple[Line, ...]
    sections: tuple[Section, ...]
    footer: str
    version: str
    alarm: bool = False
    loud: bool = False
    as_written: bool = False


def _letters(line: Line) -> str:
    """The letters of a line."""
    if isinstance(line, str):
        return line
    return _letters(line.text) if isinstance(line, Span) else "".join(map(_letters, line))


def listed(caption: str, head: tuple[str, ...], *rows: tuple[Line, ...]) -> Table:
    """A table without groups."""
    return Table(caption, head, (Group("", rows),))


CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What a browser may do for a page: show it. Whatever a stranger's text smuggled in stays dead."""
PAPER = {"light": "#f6f7f9", "dark": "#0e1013"}
"""The ground of the page; figures and boxes lie on the panel of the colours."""
_TEMPLATES = Path(__file__).parent / "templates"
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
    strip = "--strip: {}; --strip-ink: #ffffff;"  # light letters, on light pages and dark ones
    sheets = [
        canvas.css(),
        f":root {{ --paper: {PAPER['light']}; {strip.format(canvas.LIGHT['ink'])} }}",
        "@media (prefers-color-scheme: dark) "
        f"{{ :root {{ --paper: {PAPER['dark']}; {strip.format(canvas.DARK['grid'])} }} }}",
        f"@media print {{ :root {{ {canvas.properties(canvas.LIGHT)} --paper: #ffffff; }} }}",
        sheet("page.css"),
        *filter(None, [style]),
    ]
    template = environment("html", page.as_written).get_template("page.html.j2")
    return template.render(page=page, style="\n".join(sheets), csp=CSP) + "\n"


def markdown(page: Page) -> str:
    """The same, with descriptions instead of figures that have no file.

    >>> parts = (Section("a", "Part", (Bullets(("first",)),)),)
    >>> page = Page("title", "", "why", "verdict", "subtitle", (), parts, "footer", "0.1")
    >>> [line for line in markdown(page).splitlines() if line]
    ['# verdict', 'why', 'subtitle', '## Part', '- first', '---', 'footer']
    """
    text = environment("markdown", page.as_written).get_template("page.md.j2").render(page=page)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


@functools.cache
def environment(kind: str, as_written: bool = False) -> Environment:
    """The templates: those of HTML escape by themselves, those of Markdown by the filter `md`."""
    shown = printable if as_written else _typeset

    def finish(value: object) -> object:
        """Every value on its way into a template: what nobody could see is written out."""
        return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    made = Environment(
        loader=FileSystemLoader(_TEMPLATES, encoding="utf-8"),
        autoescape=kind == "html",
        finalize=finish if kind == "html" else None,
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
    made.filters.update(filters)
    return made


@functools.cache
def sheet(name: str) -> str:
    """A style sheet of the templates."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


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
    pair = Markup(' {}="{}"')
    given = Markup("").join(pair.format(name, value) for name, value in known.items() if value)
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
    pieces = enumerate(_MARKDOWN_CODE.split(printed(printable(line)).replace("\u00a0", " ")))
    return "".join(each if at % 2 else _MARKDOWN.sub(r"\\\1", each) for at, each in pieces)
