"""Adult (Census Income): whether a person earns more than 50,000 dollars a year."""

from __future__ import annotations

import numpy as np

from sordino.data import holdout
from sordino.data.catalogue import files, tabular
from sordino.data.catalogue.recipe import Form, Parts, Reader
from sordino.data.catalogue.tabular import ParsedTable
from sordino.data.sources import RawFile

# fmt: off
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)
# fmt: on
# As the publisher documents them (adult.names), with "?", which stands for an unknown value.
# Public knowledge, so the recipe need not learn them from people's records.
DOCUMENTED = {
    "workclass": """
        ? Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay
        Never-worked""",
    "education": """
        Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th
        Masters 1st-4th 10th Doctorate 5th-6th Preschool""",
    "marital-status": """
        Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent
        Married-AF-spouse""",
    "occupation": """
        ? Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty
        Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving
        Priv-house-serv Protective-serv Armed-Forces""",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native-country": """
        ? United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc)
        India Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica
        Vietnam Mexico Portugal Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti
        Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador
        Trinadad&Tobago Peru Hong Holand-Netherlands""",
}
LEVELS = {column: tuple(words.split()) for column, words in DOCUMENTED.items()}
NUMERIC = tuple(c for c in COLUMNS[:-1] if c not in LEVELS)


def parse(raw: RawFile, content: bytes, *, skip: int) -> ParsedTable:
    """Read adult.data (skip=0), or adult.test with its comment line (skip=1)."""
    kinds = {c: np.float64 if c in NUMERIC else str for c in COLUMNS}
    frame = tabular.read_csv(
        raw,
        content,
        header=None,
        names=list(COLUMNS),
        skipinitialspace=True,
        skiprows=skip,
        dtype=kinds,
    )
    y = tabular.binary_label(raw, frame["income"].str.rstrip("."), "<=50K", ">50K")
    return ParsedTable(frame, y, NUMERIC, tuple(LEVELS), LEVELS)


def build(read: Reader, form: Form) -> Parts:
    """Both files; the papers test on the second, Chen et al. use all 48,842 rows."""
    import pandas as pd

    first = parse(files.ADULT_DATA, read(files.ADULT_DATA), skip=0)
    second = parse(files.ADULT_TEST, read(files.ADULT_TEST), skip=1)
    frame = pd.concat([first.frame, second.frame], ignore_index=True)
    y = np.concatenate([first.y, second.y])
    table = ParsedTable(frame, y, NUMERIC, tuple(LEVELS), LEVELS)
    rows = np.arange(table.rows)
    kept, held = holdout.first_tenth(first.rows)
    return tabular.build(table, form, (rows[kept], rows[held], rows[first.rows :]))
