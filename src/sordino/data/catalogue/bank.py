"""Bank Marketing: whether a client subscribes to a term deposit after the call."""

from __future__ import annotations

import numpy as np

from sordino.data import holdout
from sordino.data.catalogue import files, tabular
from sordino.data.catalogue.recipe import Form, Parts, Reader
from sordino.data.catalogue.tabular import ParsedTable
from sordino.data.sources import CorruptFileError, RawFile

NUMERIC = ("age", "balance", "day", "month", "duration", "campaign", "pdays", "previous")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# As the publisher documents them (bank-names.txt).
DOCUMENTED = {
    "job": """
        admin. unknown unemployed management housemaid entrepreneur student blue-collar
        self-employed retired technician services""",
    "marital": "married divorced single",
    "education": "unknown secondary primary tertiary",
    "default": "yes no",
    "housing": "yes no",
    "loan": "yes no",
    "contact": "unknown telephone cellular",
    "poutcome": "unknown other failure success",
}
LEVELS = {column: tuple(words.split()) for column, words in DOCUMENTED.items()}


def parse(raw: RawFile, content: bytes) -> ParsedTable:
    """Read bank-full.csv. The month counts 1 to 12: so encoded, the width is that of Chen et al."""
    frame = tabular.read_csv(raw, content, sep=";")
    missing = {*NUMERIC, *LEVELS, "y"} - set(frame.columns)
    if missing:
        raise CorruptFileError(raw, f"it lacks the columns {', '.join(sorted(missing))}")
    month = frame["month"].map({name: i + 1 for i, name in enumerate(MONTHS)})
    if month.isna().any():
        raise CorruptFileError(raw, f"row {int(np.argmax(month.isna()))} has no known month")
    y = tabular.binary_label(raw, frame["y"], "no", "yes")
    return ParsedTable(frame.assign(month=month), y, NUMERIC, tuple(LEVELS), LEVELS)


def build(read: Reader, form: Form) -> Parts:
    """No test part is published: the papers' form holds out a fixed random 20 %."""
    table = parse(files.BANK, read(files.BANK))
    return tabular.build(table, form, holdout.papers(table.rows, 80, "bank"))
