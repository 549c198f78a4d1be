"""KDD Cup 1999: whether a network connection is an attack (label 1) or normal (label 0)."""

from __future__ import annotations

import numpy as np

from sordino.data import holdout
from sordino.data.catalogue import files, tabular
from sordino.data.catalogue.recipe import Form, Parts, Reader
from sordino.data.catalogue.tabular import ParsedTable
from sordino.data.sources import CorruptFileError, RawFile

FEATURES = 41
# protocol_type, service, flag. The publisher documents no list of their levels.
CATEGORICAL = ("1", "2", "3")


def parse(raw: RawFile, content: bytes) -> ParsedTable:
    """Read 41 features and a label; every label but "normal." is an attack."""
    label = str(FEATURES)
    names = [str(c) for c in range(FEATURES + 1)]
    kinds = {c: "category" if c in (*CATEGORICAL, label) else np.float64 for c in names}
    frame = tabular.read_csv(raw, content, header=None, names=names, index_col=False, dtype=kinds)
    named = frame[label].astype(str).str.endswith(".")
    if not named.all():
        row = int(np.argmin(named.to_numpy()))
        raise CorruptFileError(raw, f"row {row} has the label {frame[label].iloc[row]!r}")
    y = np.asarray(frame[label] != "normal.", dtype=np.int64)
    numeric = tuple(c for c in names[:-1] if c not in CATEGORICAL)
    return ParsedTable(frame, y, numeric, CATEGORICAL)


def build_tenth(read: Reader, form: Form) -> Parts:
    """Use the publisher's 10 % subset."""
    return _build(files.KDD_TENTH, read, form)


def build_full(read: Reader, form: Form) -> Parts:
    """Use the full file: 4.9 million rows, several GB of memory."""
    return _build(files.KDD_FULL, read, form)


def _build(raw: RawFile, read: Reader, form: Form) -> Parts:
    table = parse(raw, read(raw))
    return tabular.build(table, form, holdout.papers(table.rows, 80, "kddcup99"))
