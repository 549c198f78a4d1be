"""Options that say for whom something is promised or claimed, the same for every command."""

from __future__ import annotations

from typing import Annotated

import typer

PROMISE = "The promise"
"""Their panel in the help."""

RelationOption = Annotated[
    str,
    typer.Option(
        "--relation",
        metavar="RELATION",
        help="Who is a neighbour: **replace-one**, **zero-out** or **add-or-remove-one**.",
        rich_help_panel=PROMISE,
    ),
]
PublicRows = Annotated[
    int | None,
    typer.Option(
        help="A public number near that of the rows, for add-or-remove-one.",
        rich_help_panel=PROMISE,
    ),
]
