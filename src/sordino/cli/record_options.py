"""Options that say where records come from, the same for every command that reads some."""

from __future__ import annotations

from typing import Annotated

import typer

RECORDS = "The records"
"""Their panel in the help."""

_DATA = typer.Option(
    metavar="NAME|FILE",
    help="A dataset of `sordino data list`, or your own file: .csv, .csv.gz or .parquet.",
    rich_help_panel=RECORDS,
)
Data = Annotated[str, _DATA]
OptionalData = Annotated[str | None, _DATA]
Target = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="A file's column to predict.", rich_help_panel=RECORDS),
]
Classes = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="The labels there can be.", rich_help_panel=RECORDS),
]
DataNorm = Annotated[
    float | None,
    typer.Option(
        help="Public bound on a row's norm, the intercept's 1 included; longer rows are scaled "
        "down. Default: 1 for a file, the declared bound for a dataset.",
        rich_help_panel=RECORDS,
    ),
]
