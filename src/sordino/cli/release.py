"""`sordino release`: train a private model, write its bundle, print its certificate."""

from __future__ import annotations

import json as json_text
from contextlib import nullcontext
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.assessment.source import Prepared, Source, not_given
from sordino.cli.data import DataDir
from sordino.cli.preview import Preview
from sordino.cli.promise import ModelName, Promise
from sordino.cli.promise_options import PROMISE, PublicRows, RelationOption
from sordino.cli.record_options import RECORDS, Classes, Data, DataNorm, Target
from sordino.cli.terminal import (
    ask,
    block,
    busy,
    errors,
    kept,
    line,
    say,
    short_warnings,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sordino.cli.screen import Screen
    from sordino.mechanisms.certificate import Certificate
    from sordino.mechanisms.ledger import Ledger

_LEDGER, _OUT = "The ledger", "Output"


class TuningName(StrEnum):
    """What was tried on the same records before."""

    NONE = "none"
    UNKNOWN = "unknown"


Epsilon = Annotated[
    float,
    typer.Option(help="The budget you promise, such as 1.0.", rich_help_panel=PROMISE),
]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="New directory for the bundle; needed unless --dry-run.",
        rich_help_panel=_OUT,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Say what would be released and what would be left in the ledger; nothing is "
        "trained, recorded or written. Exit code 1 if the budget does not allow it.",
        rich_help_panel=_OUT,
    ),
]
ColumnsFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.toml",
        help="What is publicly known of a file's columns: bounds, levels, classes. Without it they "
        "are read off the rows, a leak that the certificate names. `sordino data describe` writes "
        "one to edit.",
        rich_help_panel=RECORDS,
    ),
]
Model = Annotated[ModelName, typer.Option(help="What is trained.", rich_help_panel=PROMISE)]
Delta = Annotated[
    float | None,
    typer.Option(help="Default: 1 / rows^2, rounded down.", rich_help_panel=PROMISE),
]
Method = Annotated[
    str,
    typer.Option(help="How; docs/release.md has the list.", rich_help_panel=PROMISE),
]
L2 = Annotated[
    float, typer.Option("--l2", help="Weight of (l2/2) ||w||^2.", rich_help_panel=PROMISE)
]
RowsPerPerson = Annotated[
    int,
    typer.Option(
        "--max-rows-per-person",
        help="All rows of one person are protected together.",
        rich_help_panel=PROMISE,
    ),
]
TuningOption = Annotated[
    TuningName,
    typer.Option(
        "--tuning",
        help="Whether settings were tried on these records before: **none**, or **unknown**.",
        rich_help_panel=PROMISE,
    ),
]
LedgerFile = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="FILE",
        help="Charge the release to a budget in this file; `sordino ledger init` makes it.",
        rich_help_panel=_LEDGER,
    ),
]
DatasetName = Annotated[
    str | None,
    typer.Option(
        "--dataset", metavar="NAME", help="Whose budget; with --ledger.", rich_help_panel=_LEDGER
    ),
]
SignWith = Annotated[
    str | None,
    typer.Option(
        metavar="KEY", help="Ed25519 private key to sign the certificate.", rich_help_panel=_OUT
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the certificate as JSON.", rich_help_panel=_OUT)
]


_TUNINGS = {TuningName.NONE: "none declared", TuningName.UNKNOWN: "unknown"}


def release(
    data: Data,
    epsilon: Epsilon,
    out: Out = None,
    target: Target = None,
    columns: ColumnsFile = None,
    classes: Classes = None,
    data_norm: DataNorm = None,
    data_dir: DataDir = None,
    model: Model = ModelName.LOGISTIC,
    delta: Delta = None,
    relation: RelationOption = "replace-one",
    method: Method = "auto",
    l2: L2 = 0.001,
    max_rows_per_person: RowsPerPerson = 1,
    public_rows: PublicRows = None,
    tuning: TuningOption = TuningName.NONE,
    ledger: LedgerFile = None,
    dataset: DatasetName = None,
    sign_with: SignWith = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Train a private model, write it with its certificate, and say in words what is promised.

    All arguments are checked before the records are read. The budget is spent when the model is on
    the disk, before it gets its name: a disk that is full costs nothing. What the guarantee does
    not cover is said on standard error and in the certificate. In a file, a missing number counts
    as the middle of its bounds, and a missing or unknown level is zero in all of the level's
    columns.

    `sordino release --data breast-cancer --epsilon 2 --out model`

    `sordino data describe patients.csv --target ill > columns.toml`, edit that, and then
    `sordino release --data patients.csv --columns columns.toml --epsilon 1 --out model
    --ledger budgets.db --dataset patients-2026`
    """
    promise = Promise(
        *(model, epsilon, delta, relation, method, l2, max_rows_per_person, public_rows)
    )
    place, key = _place(out, needed=not dry_run), _key(sign_with)
    source = Source(data, target, columns, classes, data_norm, data_dir)
    from sordino.assessment import released_before

    console = errors()
    with short_warnings(console), promise.ledger(ledger, dataset) or nullcontext() as book:
        with busy(console, f"Reading {data}"):
            prepared = source.read()
        released_before.warn(source)
        estimator = promise.estimator(prepared)
        if dry_run:
            found = Preview.of(estimator, prepared, book)
            if json:
                block(json_text.dumps(found.to_dict(), indent=2) + "\n")
            else:
                say(*found.lines())
            return
        assert place is not None
        with busy(console, f"Training on {data}"):
            estimator.fit_and_save(
                *(prepared.X, prepared.y, place),
                sign=None if key is None else partial(_signed, key),
                preprocessing=prepared.reads_private_data,
                columns=prepared.description,
                tuning=_TUNINGS[tuning],
            )
        released_before.note(source)
        _say(console, prepared, estimator, book)
    with kept(f"The model was released, and its bundle is in {place}."):
        _print(estimator.certificate_, place, signed=key is not None, as_json=json)
    if prepared.advice:
        line(console, f"Note: {prepared.advice}")


def _place(out: str | None, *, needed: bool) -> Path | None:
    """Where the bundle goes."""
    from sordino.mechanisms import bundle

    if out is None and needed:
        not_given("--out DIR", "", "Pass a new directory for the bundle, or --dry-run.")
    return None if out is None else bundle.check_target(out, "--out")


def _key(path: str | None) -> Any:
    """The key to sign with; a passphrase is asked for now, not after the training."""
    if path is None:
        return None
    from sordino.mechanisms import signature

    return signature.load_private(path, lambda: ask(f"Passphrase of {path}"))


def _signed(key: Any, content: bytes) -> bytes:
    from sordino.mechanisms import signature

    return signature.sign(content, key)


def _say(console: Screen, prepared: Prepared, fitted: Any, book: Ledger | None) -> None:
    """What the person at the keyboard should know, and nobody else."""
    for note in prepared.notes:
        line(console, f"Note: {note}.")
    if prepared.test is not None:
        accuracy, rows = fitted.score(prepared.test.X, prepared.test.y), prepared.test.rows
        line(
            console,
            f"INTERNAL, do not publish: accuracy {accuracy:.4f} on {rows:,} held-out rows; "
            "the guarantee does not cover it.",
        )
    if book is not None:
        line(console, f"Ledger: of the budget of {book.dataset!r}, {book.status().left}.")


def _print(certificate: Certificate, place: Path, *, signed: bool, as_json: bool) -> None:
    if as_json:
        papers = json_text.loads(certificate.to_json())
        document = {"directory": str(place), "signed": signed, "certificate": papers}
        block(json_text.dumps(document, indent=2) + "\n")
        return
    block(f"{certificate}\n")
    say("", f"The bundle{', signed' if signed else ''}: {place}")
