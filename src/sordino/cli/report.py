"""`sordino report`: the page of an assessment, again, from its study."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from sordino.cli.terminal import block, kept, say


class Format(StrEnum):
    """How the page is written."""

    HTML = "html"
    MARKDOWN = "md"
    JSON = "json"


Directory = Annotated[
    str, typer.Argument(metavar="DIR", help="The study that `sordino assess` made.")
]
Public = Annotated[
    bool,
    typer.Option("--public", help="Show only what the model's certificate may show."),
]
FormatOption = Annotated[
    Format, typer.Option("--format", help="**html**, **md** (Markdown) or **json**.")
]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Default: report.html (or public.html, ...) in DIR; - prints it."
    ),
]


def report(
    directory: Directory,
    public: Public = False,
    format: FormatOption = Format.HTML,
    out: Out = None,
) -> None:
    """Write the page of an assessment again, from its study; nothing is trained or released.

    The page is **INTERNAL**: exact accuracies, estimates and what attacks achieved are not
    private. `--public` makes the version that may leave, from the certificate alone.

    `sordino report study --format md --out -`

    `sordino report study --public`
    """
    from sordino.assessment.public import page_text, write_page

    if out == "-":
        block(page_text(directory, format.value, public=public))
        return
    path = write_page(directory, format.value, out, public=public)
    said = "may leave: it shows only what the certificate may show" if public else "INTERNAL"
    with kept(f"The page is in {path}."):
        say(f"{path} ({said})")
