"""Options of `sordino assess`, and what its help says of each."""

from __future__ import annotations

from typing import Annotated

import typer

from sordino.cli.record_options import RECORDS

_PROMISE, _EFFORT, _FOREIGN, _STUDY = (
    "The release",
    "How hard to look",
    "A mechanism of your own",
    "The study",
)

StudyFile = Annotated[
    str | None,
    typer.Argument(
        metavar="STUDY.toml",
        help="A study file with these settings; options given here come first. `--write-study` "
        "prints one to edit.",
        show_default=False,
    ),
]
DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Directory with the raw files of a dataset; only read. Default: SORDINO_DATA, if set.",
        rich_help_panel=RECORDS,
    ),
]
ColumnsFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.toml",
        help="What is publicly known of a file's columns: bounds, levels, classes. Without it they "
        "are read off the rows, a leak that the page names. `sordino data describe` drafts one; "
        "a study file may hold it, too.",
        rich_help_panel=RECORDS,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="**logistic** (default), **svm**, or **mlp**: a network, which is measured and "
        "attacked; of its final weights nothing is proved beyond DP-SGD's composition.",
        rich_help_panel=_PROMISE,
    ),
]
Epsilon = Annotated[
    float | None,
    typer.Option(
        help="The budget you promise (default 1); with --mechanism, what it claims.",
        rich_help_panel=_PROMISE,
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(
        help="Default: 1 / rows^2, rounded down to one digit: far below the 1 / rows at which "
        "giving one record away would count as private.",
        rich_help_panel=_PROMISE,
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        help="How the release is made; **auto** (default) chooses by public facts. "
        "docs/release.md has the list.",
        rich_help_panel=_PROMISE,
    ),
]
L2 = Annotated[
    float | None,
    typer.Option(
        "--l2", help="Weight of (l2/2) ||w||^2 (default 0.001).", rich_help_panel=_PROMISE
    ),
]
RowsPerPerson = Annotated[
    int | None,
    typer.Option(
        "--max-rows-per-person",
        help="All rows of one person are protected together (default 1).",
        rich_help_panel=_PROMISE,
    ),
]
LedgerFile = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="FILE",
        help="Charge the release to a budget in this file; `sordino ledger init` makes it. Asked "
        "before any work, charged once.",
        rich_help_panel=_PROMISE,
    ),
]
DatasetName = Annotated[
    str | None,
    typer.Option(
        "--dataset", metavar="NAME", help="Whose budget; with --ledger.", rich_help_panel=_PROMISE
    ),
]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="A first look: fewer runs.", rich_help_panel=_EFFORT),
]
Thorough = Annotated[
    bool,
    typer.Option("--thorough", help="More runs than by default.", rich_help_panel=_EFFORT),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        help="Seeds of the grid of trainings that measures SGD's own noise.",
        rich_help_panel=_EFFORT,
    ),
]
NeighbourCount = Annotated[
    int | None,
    typer.Option(
        "--neighbours",
        help="Datasets of that grid, each with one record exchanged.",
        rich_help_panel=_EFFORT,
    ),
]
AuditRuns = Annotated[
    int | None,
    typer.Option(
        help="Trainings the attack sees of each of two datasets; the more, the larger the epsilon "
        "that it can refute.",
        rich_help_panel=_EFFORT,
    ),
]
Confidence = Annotated[
    float | None,
    typer.Option(
        help="With which the attack's lower bound holds (default 0.99).", rich_help_panel=_EFFORT
    ),
]
Mechanism = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:NAME",
        help="Attack this and nothing else: a function (data, generator) -> numbers or a "
        "scikit-learn estimator, as package.module:name or file.py:name; or gallery:NAME.",
        rich_help_panel=_FOREIGN,
    ),
]
Pair = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:NAME",
        help="With --mechanism, instead of --data: a function that returns the two datasets.",
        rich_help_panel=_FOREIGN,
    ),
]
RunCode = Annotated[
    bool,
    typer.Option(
        "--run-code",
        help="Import and run the mechanism that a study file names. Whoever wrote the file chose "
        "that code: read it first.",
        rich_help_panel=_FOREIGN,
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Directory of the study: made, or gone on with. INTERNAL. Default: a name made of "
        "what is asked, here.",
        rich_help_panel=_STUDY,
    ),
]
Public = Annotated[
    bool,
    typer.Option(
        "--public",
        help="Also write public.html, which shows only what the certificate of the released model "
        "may show.",
        rich_help_panel=_STUDY,
    ),
]
Open = Annotated[
    bool, typer.Option("--open", help="Open the page in a browser.", rich_help_panel=_STUDY)
]
WriteStudy = Annotated[
    bool,
    typer.Option(
        "--write-study", help="Print a study file to edit, and stop.", rich_help_panel=_STUDY
    ),
]
