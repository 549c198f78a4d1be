"""`Screen`: a Rich console that takes no text as markup and lets no text act on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from sordino.errors import printable

if TYPE_CHECKING:
    from rich.console import HighlighterType, JustifyMethod, OverflowMethod
    from rich.style import Style
    from rich.text import Text


class Screen(Console):
    """Every text, in a table too, becomes a `Text` in `render_str`, and is cleaned there."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, markup=False, emoji=False)

    def render_str(
        self,
        text: str,
        *,
        style: str | Style = "",
        justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None,
        emoji: bool | None = None,
        markup: bool | None = None,
        highlight: bool | None = None,
        highlighter: HighlighterType | None = None,
    ) -> Text:
        """As Rich does it, of the cleaned text; `markup` and `emoji` are never on."""
        return super().render_str(
            printable(text),
            style=style,
            justify=justify,
            overflow=overflow,
            emoji=False,
            markup=False,
            highlight=highlight,
            highlighter=highlighter,
        )
