"""What a page is made of, whatever it is printed as: templates know these, and nothing else.

Texts are plain: a template escapes them. Only the picture of a `Figure` is markup, made here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

_LETTERS_ON_A_PHONE = 75
"""Of a row of three cells: two lines each, about."""
_ROWS_ON_A_SHEET = 24
"""Of paper, of two lines each, about."""

Tone = Literal["", "warn", "good"]


class Drawing(Protocol):
    """A picture as inline SVG, what it shows in words, and its caption."""

    @property
    def svg(self) -> str:
        """Markup, trusted."""
        ...

    @property
    def alt(self) -> str:
        """What a person sees who cannot see it."""
        ...

    @property
    def caption(self) -> str:
        """Below it."""
        ...


@dataclass(frozen=True)
class Text:
    """A paragraph; `lead` are its first words, set in bold."""

    text: str
    lead: str = ""
    tone: Tone = ""
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Heading:
    """Of a part of a section; `mark` stands beside it."""

    text: str
    mark: str = ""
    kind: ClassVar[str] = "heading"


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]
    kind: ClassVar[str] = "bullets"


@dataclass(frozen=True)
class Facts:
    """Names and what they stand for."""

    pairs: tuple[tuple[str, str], ...]
    kind: ClassVar[str] = "facts"


@dataclass(frozen=True)
class Cell:
    """Of a table, in the colour and with the symbol of one of the three words."""

    text: str
    of: str = ""


@dataclass(frozen=True)
class Group:
    """Rows of a table that belong together; `title` may be "". A row's first cell names it."""

    title: str
    rows: tuple[tuple[str | Cell, ...], ...]


@dataclass(frozen=True)
class Table:
    """`head` names the columns."""

    caption: str
    head: tuple[str, ...]
    groups: tuple[Group, ...]
    kind: ClassVar[str] = "table"

    @property
    def stacks(self) -> bool:
        """Whether a phone is too narrow for it: cells then stand below each other."""
        rows = [row for group in self.groups for row in group.rows]
        letters = [sum(len(_text(cell)) for cell in row) for row in rows]
        wordy = max(letters, default=0) > _LETTERS_ON_A_PHONE
        return len(self.head) > 3 or (len(self.head) == 3 and wordy)

    @property
    def splits(self) -> bool:
        """Whether a sheet of paper is too short for it: it may then end on the next one."""
        return sum(1 + len(group.rows) for group in self.groups) > _ROWS_ON_A_SHEET


@dataclass(frozen=True)
class Figure:
    """A picture."""

    drawn: Drawing
    kind: ClassVar[str] = "figure"


@dataclass(frozen=True)
class Code:
    """Something to type or to compare letter by letter; `label` says what."""

    text: str
    label: str = ""
    kind: ClassVar[str] = "code"


@dataclass(frozen=True)
class Folded:
    """Long lists, behind their title until somebody looks.

    Printed in full, unless they are for machines (`printed` False): a sheet of JSON helps nobody.
    """

    title: str
    blocks: tuple[Block, ...]
    printed: bool = True
    kind: ClassVar[str] = "folded"


@dataclass(frozen=True)
class Beside:
    """Words and the figure they are about, in two columns where there is room."""

    left: tuple[Block, ...]
    right: tuple[Block, ...]
    kind: ClassVar[str] = "beside"


Block = Text | Heading | Bullets | Facts | Table | Figure | Code | Folded | Beside


@dataclass(frozen=True)
class Section:
    """`name` is its address within the page."""

    name: str
    title: str
    blocks: tuple[Block, ...]


def _text(cell: str | Cell) -> str:
    return cell if isinstance(cell, str) else cell.text


def listed(caption: str, head: tuple[str, ...], *rows: tuple[str | Cell, ...]) -> Table:
    """A table without groups."""
    return Table(caption, head, (Group("", rows),))
