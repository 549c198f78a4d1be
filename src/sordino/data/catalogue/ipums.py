"""IPUMS: a user's own extract of census records, predicting a label the user has set.

IPUMS data may not be passed on, so there is nothing to download and no size to expect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sordino.data import holdout
from sordino.data.catalogue import files, tabular
from sordino.data.catalogue.recipe import Form, Parts, Reader
from sordino.data.catalogue.tabular import ParsedTable
from sordino.data.sources import DataError, RawFile

if TYPE_CHECKING:
    import pandas as pd

# Attributes usual for predicting income, under their IPUMS USA names. Chen et al. do not say
# which they took.
NUMERIC = ("AGE", "FAMSIZE", "NCHILD", "UHRSWORK", "VEHICLES")
CATEGORICAL = ("DISABWRK", "EDUC", "MARST", "MOVEDIN", "NATIVITY", "OWNERSHP", "SEX")
LABEL = "LABEL"
_SHOWN = 6


def parse(raw: RawFile, content: bytes) -> ParsedTable:
    """Read a CSV file with a header: LABEL (0 or 1) and any of the documented columns."""
    frame = tabular.read_csv(raw, content, dtype=str, skipinitialspace=True)
    frame.columns = [c.strip().upper() for c in frame.columns]
    _check_columns(raw, list(frame.columns))
    numeric = tuple(c for c in NUMERIC if c in frame.columns)
    categorical = tuple(c for c in CATEGORICAL if c in frame.columns)
    frame = frame.apply(lambda column: column.str.strip())
    numbers = _numbers(raw, frame, (*numeric, LABEL))
    for column in categorical:
        _refuse(raw, column, frame[column] == "", "is empty")
    _refuse(raw, LABEL, ~numbers[LABEL].isin([0, 1]), "is neither 0 nor 1")
    y = numbers.pop(LABEL).to_numpy(dtype=np.int64)
    return ParsedTable(frame.assign(**numbers), y, numeric, categorical)


def build(read: Reader, form: Form) -> Parts:
    """All rows in the form of Chen et al.; the papers' form holds out a fixed random 20 %."""
    table = parse(files.IPUMS, read(files.IPUMS))
    return tabular.build(table, form, holdout.papers(table.rows, 80, "ipums"))


def _check_columns(raw: RawFile, columns: list[str]) -> None:
    known = {*NUMERIC, *CATEGORICAL, LABEL}
    unknown = [c for c in columns if c not in known]
    if unknown or LABEL not in columns or len(set(columns)) != len(columns) or len(columns) < 2:
        # By place: the file is somebody's own, and its first line may be a record.
        places = [
            str(n) for n, c in enumerate(columns, 1) if c not in known or c in columns[: n - 1]
        ]
        wrong = f"; wrong: {', '.join(places[:_SHOWN])}{', ...' * (len(places) > _SHOWN)}"
        raise DataError(
            f"{raw.name} has {len(columns)} columns{wrong if places else ''}. It needs {LABEL} "
            f"(0 or 1) and one or more of {', '.join((*NUMERIC, *CATEGORICAL))}, each once, and "
            "nothing else."
        )


def _numbers(raw: RawFile, frame: pd.DataFrame, columns: tuple[str, ...]) -> dict[str, pd.Series]:
    import pandas as pd

    numbers = {c: pd.to_numeric(frame[c], errors="coerce") for c in columns}
    for column, values in numbers.items():
        _refuse(raw, column, ~np.isfinite(values), "is not a finite number")
    return numbers


def _refuse(raw: RawFile, column: str, bad: pd.Series, why: str) -> None:
    if bad.any():
        # The header is line 1, and people look lines up in an editor.
        line = int(np.argmax(bad.to_numpy())) + 2
        raise DataError(
            f"{raw.name}: {column} {why} in {int(bad.sum())} rows, the first on line {line}. "
            "Correct or remove these rows; none was dropped for you."
        )
