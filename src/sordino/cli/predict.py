"""`sordino predict`: what a released model says of new rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

from sordino import _files, checks
from sordino.cli import options, terminal
from sordino.cli.options import OUTPUT, RECORDS, argument, option
from sordino.cli.tables import pick
from sordino.cli.terminal import block, line, print_json, say
from sordino.errors import printable
from sordino.privacy import rounded

if TYPE_CHECKING:
    import pandas as pd

    from sordino.data.blocks import Blocks
    from sordino.data.columns import Columns

_PREDICTION = "prediction"
"""Name of the column with a label a row."""
_WAITING = 1 << 26
"""Bytes of output that wait in memory; more wait on the disk, until every row could be read."""
_DATA = option(RECORDS, "Your .csv, .csv.gz or .parquet.", "--data", metavar="FILE")
_DESCRIBES = option(RECORDS, "If the certificate describes no columns.", metavar="FILE.toml")
_KEEP = option(OUTPUT, "Copied beside, such as an id; or A,B.", "--keep", metavar="COLUMN")
_OUT = option(OUTPUT, "A .csv, .csv.gz or .parquet. Default: print.", "--out", metavar="FILE")
_PROBA = option(OUTPUT, "Probabilities, one column a class.", "--proba")
_KEY = option("The model", "Who must have signed it.", "--key", metavar="PUBLIC")


def predict(
    model: Annotated[str, argument("MODEL", "A bundle's directory, as a release wrote it.")],
    data: Annotated[str | None, _DATA] = None,
    columns: Annotated[str | None, _DESCRIBES] = None,
    keep: Annotated[str | None, _KEEP] = None,
    proba: Annotated[bool, _PROBA] = False,
    out: Annotated[str | None, _OUT] = None,
    key: Annotated[Path | None, _KEY] = None,
    json: options.Json = False,
) -> None:
    """Predict a label for every row of a table, by a model that was released.

    The bundle is verified first. Rows are prepared by the description in its certificate, each by
    itself, as in the training: columns are found by their names, others are not looked at, and the
    target need not be there. A missing number counts as the middle of its bounds, one outside as
    the nearer bound, and a missing or unknown level is zero in all of the level's columns: how many
    cells that concerned is said on standard error, by column. A number that is none is refused.

    Rows keep their order. A long table is read in blocks, and the output appears whole or not at
    all. No cell is copied into it but those of the columns named by `--keep`, as text.

    Where the certificate has no description, pass the one that the training was given (--columns),
    or a table of prepared numbers with the model's own names for its features.

    The guarantee is about whoever was learned from. A prediction tells about the row that it is
    made for: keep it like that row.

    `sordino predict model --data new.csv`

    `sordino predict study/model --data new.parquet --proba --keep patient --out scores.parquet`
    """
    if data is None:
        checks.fail_missing("--data FILE", "", "A table with the columns that the model learned.")
    from sordino.data import blocks

    console = terminal.errors()
    with terminal.plain_warnings(console):
        place = None if out is None else blocks.check_place(out, data)
        estimator, known = _loaded(model, columns, key)
        if proba and not hasattr(estimator, "predict_proba"):
            kind = type(estimator).__name__
            checks.fail("--proba", kind, "to be of a model with probabilities", "Leave it out.")
        rows = blocks.Blocks(data, known, _features(estimator, known), keep=keep)
        names = _names(estimator, proba)
        if taken := sorted({*rows.kept} & {*names}):
            checks.fail("--keep", taken[0], "to be no name of a column of the output")
        with terminal.bar(f"Scoring {data}", console) as show:
            parts = _parts(rows, estimator, names, lambda: show(rows.rows, None))
            if place is not None:
                blocks.write(place, parts)
            elif json:
                document = _columns(parts, [*rows.kept, *names])
            else:
                waiting = _waiting(parts)
    with terminal.add_note("" if place is None else f"The predictions are in {place}."):
        if json:
            about = _about(rows, estimator)
            if place is None:
                print_json({**about, "out": None, "columns": document})
            else:
                print_json({**about, "out": str(place)})
        elif place is not None:
            say(f"Predictions of {rows.rows:,} rows: {place}")
        else:
            with waiting:
                while text := "".join(waiting.readlines(1 << 20)):
                    block(text)
    for name, odd in rows.odd.items():
        line(console, f"Note: of {rows.rows:,} cells of column {printable(name, 60)}: {odd.words}.")
    line(console, f"Note: {_promise(estimator)}")


def _loaded(directory: str, columns: str | None, key: Path | None) -> tuple[Any, Columns | None]:
    """The model, verified, and the public description of its columns, if there is one."""
    from sordino.data.columns import Columns
    from sordino.estimators import load, tables

    known = None if columns is None else Columns.from_file(columns)
    estimator = load(directory, key=key)
    described = tables.described(estimator)
    if described is not None and known is not None:
        checks.fail("--columns", columns, "to be left out: the certificate describes them")
    if (made := estimator.certificate_.preprocessing.features) is not None:
        hint = "In Python: PrivateHead.load(MODEL, features=...)."
        checks.fail(
            "MODEL", directory, f"to take rows of a table, not features by {made.name}", hint
        )
    if known is not None and _has_bounds(estimator):
        hint = "A description maps cells to [0, 1], and these bounds are of rows as they are."
        checks.fail("--columns", columns, "to be left out for a model with bounds of its own", hint)
    return estimator, described or known


def _has_bounds(estimator: Any) -> bool:
    """Whether it has bounds of its own, beside those of cells that are described."""
    low, high = getattr(estimator, "bounds", None) or ((0.0,), (1.0,))
    return {*low} != {0.0} or {*high} != {1.0}


def _features(estimator: Any, known: Columns | None) -> list[str]:
    """What the model calls its features; where it has no names, they are numbered."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    if known is None:
        hint = "Pass the description that the training was given, or predict in Python."
        checks.fail_missing("--columns FILE.toml", "for a model without names of columns", hint)
    return [f"column {place}" for place in range(1, estimator.n_features_in_ + 1)]


def _names(estimator: Any, proba: bool) -> list[str]:
    """What the columns of the output are called."""
    return [str(label) for label in estimator.classes_.tolist()] if proba else [_PREDICTION]


def _parts(
    rows: Blocks, estimator: Any, names: list[str], show: Callable[[], None]
) -> Iterator[pd.DataFrame]:
    """The output, block by block: columns that are kept, then what the model says."""
    named = hasattr(estimator, "feature_names_in_")
    for each in rows:
        X = each.X if named else each.X.to_numpy()
        part = each.kept
        if names == [_PREDICTION]:
            part[_PREDICTION] = estimator.predict(X)
        else:
            part[names] = estimator.predict_proba(X)
        show()
        yield part


def _columns(parts: Iterator[pd.DataFrame], names: list[str]) -> dict[str, list[Any]]:
    """The output as lists, a column each."""
    found: dict[str, list[Any]] = {name: [] for name in names}
    for part in parts:
        for name in names:
            found[name] += part[name].tolist()
    return found


def _waiting(parts: Iterator[pd.DataFrame]) -> SpooledTemporaryFile[str]:
    """The output as text; it is printed when every row could be read, or not at all."""
    from sordino.data.blocks import csv_lines

    with ExitStack() as stack:
        spool = stack.enter_context(
            SpooledTemporaryFile(_WAITING, "w+", encoding="utf-8", newline="")
        )
        with _files.explained("--out", "[left out]", "printed", "Pass --out FILE."):
            spool.writelines(csv_lines(parts))
            spool.seek(0)
        stack.pop_all()  # whoever prints it closes it
    return spool


def _about(rows: Blocks, estimator: Any) -> dict[str, Any]:
    """What a program is told beside the predictions."""
    guarantee, promised = estimator.privacy_, None
    if guarantee is not None:
        promised = pick(guarantee, "epsilon", "delta", "relation", "unit")
        promised["relation"] = guarantee.relation.value
        promised["not_covered"] = list(guarantee.not_covered)
    odd = {name: pick(each, "missing", "unknown", "outside") for name, each in rows.odd.items()}
    return {"rows": rows.rows, "promised": promised, "odd_cells": odd}


def _promise(estimator: Any) -> str:
    """What the model promises to whoever it learned from."""
    guarantee = estimator.privacy_
    if guarantee is None:
        return f"NOTHING IS PROMISED by this model: {estimator.certificate_.why_none}."
    epsilon, delta = rounded(guarantee.epsilon), rounded(guarantee.delta)
    promise = f"epsilon <= {epsilon} at delta = {delta}, {guarantee.relation.value}"
    promise = f"the model promises {promise}, for {guarantee.unit} that it learned from."
    left_out = "; ".join(printable(each) for each in guarantee.not_covered)
    return f"{promise} NOT COVERED: {left_out}." if left_out else promise
