"""What a page is made of, whatever it is printed as: templates know these, and nothing else.

Texts are plain: `render` escapes them. Only the picture of a `Figure` is markup, made by `drawing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

_LETTERS_ON_A_PHONE = 75
"""Of a row of three cells: two lines each, about."""
_ROWS_ON_A_SHEET = 24
"""Of paper, of two lines each, about."""

Tone = Literal["", "warn", "muted", "explained"]


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


@dataclass(frozen=True)
class Drawn:
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


@dataclass(frozen=True)
class Text:
    """A paragraph; `lead` are its first words, set in bold."""

    text: Line
    lead: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class Heading:
    """Of a part of a section; `mark` stands beside it, `name` is its address within the page."""

    text: Line
    mark: str = ""
    name: str = ""


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[Line, ...]


@dataclass(frozen=True)
class Facts:
    """Names and what they stand for; those that stand for nothing are left out."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Group:
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
        letters = max((sum(len(written(cell)) for cell in row) for row in rows), default=0)
        columns = len(self.head)
        stacks = columns > 3 or (columns == 3 and letters > _LETTERS_ON_A_PHONE)
        splits = len(rows) + len(self.groups) > _ROWS_ON_A_SHEET
        return " ".join(["stacks"] * stacks + ["splits"] * splits + ["many"] * (columns > 8))

    @property
    def notes(self) -> dict[str, list[str]]:
        """By note, the titles of its groups: many differ in nothing but what they are about."""
        found: dict[str, list[str]] = {}
        for group in self.groups:
            if group.note:
                found.setdefault(group.note, []).append(group.title)
        return found


@dataclass(frozen=True)
class Figure:
    """A picture."""

    drawn: Drawn


@dataclass(frozen=True)
class Code:
    """Something to type or to compare letter by letter; `label` says what."""

    text: str
    label: str = ""


@dataclass(frozen=True)
class Notice:
    """Blocks that are about one thing, set off by a line beside them."""

    blocks: tuple[Block, ...]
    tone: Tone = ""
    name: str = ""


@dataclass(frozen=True)
class Folded:
    """Long lists, behind their title until somebody looks.

    Printed in full, unless they are for machines (`printed` False): a sheet of JSON helps nobody.
    """

    title: str
    blocks: tuple[Block, ...]
    printed: bool = True


@dataclass(frozen=True)
class Beside:
    """Words and the figure they are about, in two columns where there is room."""

    left: tuple[Block, ...]
    right: tuple[Block, ...]


Block = Text | Heading | Bullets | Facts | Table | Figure | Code | Notice | Folded | Beside


@dataclass(frozen=True)
class Section:
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


def written(line: Line) -> str:
    """The letters of a line."""
    if isinstance(line, str):
        return line
    return written(line.text) if isinstance(line, Span) else "".join(map(written, line))


def listed(caption: str, head: tuple[str, ...], *rows: tuple[Line, ...]) -> Table:
    """A table without groups."""
    return Table(caption, head, (Group("", rows),))
