"""Recipes made from tables: Adult, Bank, Covertype, KDD Cup 1999, IPUMS, breast cancer, diabetes.

A parser turns a raw file into a `ParsedTable`; `_build` makes rows of norm 1 of it.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino.data import preprocess
from sordino.data.catalogue import files
from sordino.data.preprocess import READS, Form, Index, Parts, Rows
from sordino.data.sources import CorruptFileError, DataError, RawFile, Reader
from sordino.types import Floats

if TYPE_CHECKING:
    import pandas as pd

BLOCK_ROWS = 50_000


@dataclass(frozen=True, eq=False)
class ParsedTable:
    """Parsed rows. `levels` are the documented ones, or None if they must be learned."""

    frame: pd.DataFrame
    y: npt.NDArray[np.int64]
    numeric: tuple[str, ...]
    categorical: tuple[str, ...] = ()
    levels: Mapping[str, Sequence[str]] | None = None

    @property
    def rows(self) -> int:
        """Number of records."""
        return len(self.y)


def _build(table: ParsedTable, form: Form, papers: Sequence[Index]) -> Parts:
    """Encode and scale the rows; numbers come first, then levels.

    Parameters
    ----------
    table
        The parsed rows.
    form
        "papers" prepares as Hyland and Tople do: statistics of the training rows, constant columns
        dropped. "erm" does as Chen et al. do: statistics of all rows, every column kept, one set.
    papers
        Which rows are (train, validation, test) in the papers' form.
    """
    parts = papers if form == "papers" else (np.arange(table.rows),)
    words = table.frame[list(table.categorical)]
    if table.levels is not None or not table.categorical:
        one_hot = preprocess.OneHot.public(table.levels or {}, drop_first=True)
    else:
        one_hot = preprocess.OneHot.fit(words.iloc[parts[0]], drop_first=True)
    numbers = table.frame[list(table.numeric)].to_numpy(dtype=np.float64)

    def wide(block: Index) -> Floats:
        return np.hstack([numbers[block], one_hot.apply(words.iloc[block])])

    blocks = map(wide, _blocks(parts[0]))
    scale = preprocess.MinMax.fit_blocks(blocks, drop_constant=form == "papers")
    rows: list[Rows] = []
    for part in parts:
        X = np.empty((len(part), int(scale.keep.sum())))
        for at, block in zip(_blocks(np.arange(len(part))), _blocks(part), strict=True):
            X[at] = preprocess.unit_rows(scale.apply(wide(block)))
        rows.append((X, table.y[part]))
    validation, test = rows[1:] or (None, None)
    reads = one_hot.reads_private_data + scale.reads_private_data
    return Parts(rows[0], validation, test, 1.0, reads)


def _read_csv(raw: RawFile, content: bytes, **options: Any) -> pd.DataFrame:
    """Parse comma-separated text; nothing is taken for missing."""
    import pandas as pd

    try:
        frame: pd.DataFrame = pd.read_csv(io.BytesIO(content), na_filter=False, **options)
    except (ValueError, TypeError):  # which may quote what it stumbled over
        raise CorruptFileError(raw, "it cannot be parsed") from None
    return frame


def _binary_label(raw: RawFile, values: pd.Series, zero: str, one: str) -> npt.NDArray[np.int64]:
    """Turn two words into 0 and 1, and refuse a third."""
    known = values.isin([zero, one])
    if not known.all():
        row = int(np.argmin(known.to_numpy()))
        raise CorruptFileError(raw, f"row {row} has another label")
    return np.asarray(values == one, dtype=np.int64)


def _blocks(rows: Index) -> Iterator[Index]:
    # The wide form of millions of rows is held once, in its result, and otherwise in pieces.
    for start in range(0, len(rows), BLOCK_ROWS):
        yield rows[start : start + BLOCK_ROWS]


def _of_one_file(
    raw: RawFile,
    parse: Callable[[RawFile, bytes], ParsedTable],
    train_percent: int,
    name: str,
    read: Reader,
    form: Form,
) -> Parts:
    """Build a recipe without a published test part: a fixed random split in the papers' form."""
    table = parse(raw, read(raw))
    return _build(table, form, preprocess.papers(table.rows, train_percent, name))


# --- Adult (Census Income): whether a person earns more than 50,000 dollars a year

# fmt: off
_ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)
# fmt: on
# As the publisher documents them (adult.names), with "?", which stands for an unknown value.
# Public knowledge, so the recipe need not learn them from people's records.
_ADULT_DOCUMENTED = {
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
ADULT_LEVELS = {column: tuple(words.split()) for column, words in _ADULT_DOCUMENTED.items()}
ADULT_NUMERIC = tuple(c for c in _ADULT_COLUMNS[:-1] if c not in ADULT_LEVELS)


def parse_adult(raw: RawFile, content: bytes, *, skip: int) -> ParsedTable:
    """Read adult.data (skip=0), or adult.test with its comment line (skip=1)."""
    kinds = {c: np.float64 if c in ADULT_NUMERIC else str for c in _ADULT_COLUMNS}
    frame = _read_csv(
        raw,
        content,
        header=None,
        names=list(_ADULT_COLUMNS),
        skipinitialspace=True,
        skiprows=skip,
        dtype=kinds,
    )
    y = _binary_label(raw, frame["income"].str.rstrip("."), "<=50K", ">50K")
    return ParsedTable(frame, y, ADULT_NUMERIC, tuple(ADULT_LEVELS), ADULT_LEVELS)


def adult(read: Reader, form: Form) -> Parts:
    """Both files; the papers test on the second, Chen et al. use all 48,842 rows."""
    import pandas as pd

    first = parse_adult(files.ADULT_DATA, read(files.ADULT_DATA), skip=0)
    second = parse_adult(files.ADULT_TEST, read(files.ADULT_TEST), skip=1)
    frame = pd.concat([first.frame, second.frame], ignore_index=True)
    y = np.concatenate([first.y, second.y])
    table = ParsedTable(frame, y, ADULT_NUMERIC, tuple(ADULT_LEVELS), ADULT_LEVELS)
    rows = np.arange(table.rows)
    kept, held = preprocess.first_tenth(first.rows)
    return _build(table, form, (rows[kept], rows[held], rows[first.rows :]))


# --- Bank Marketing: whether a client subscribes to a term deposit after the call

_BANK_NUMERIC = ("age", "balance", "day", "month", "duration", "campaign", "pdays", "previous")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# As the publisher documents them (bank-names.txt).
_BANK_DOCUMENTED = {
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
_BANK_LEVELS = {column: tuple(words.split()) for column, words in _BANK_DOCUMENTED.items()}


def parse_bank(raw: RawFile, content: bytes) -> ParsedTable:
    """Read bank-full.csv. The month counts 1 to 12: so encoded, the width is that of Chen et al."""
    frame = _read_csv(raw, content, sep=";")
    missing = {*_BANK_NUMERIC, *_BANK_LEVELS, "y"} - set(frame.columns)
    if missing:
        raise CorruptFileError(raw, f"it lacks the columns {', '.join(sorted(missing))}")
    month = frame["month"].map({name: i + 1 for i, name in enumerate(_MONTHS)})
    if month.isna().any():
        raise CorruptFileError(raw, f"row {int(np.argmax(month.isna()))} has no known month")
    y = _binary_label(raw, frame["y"], "no", "yes")
    return ParsedTable(
        frame.assign(month=month), y, _BANK_NUMERIC, tuple(_BANK_LEVELS), _BANK_LEVELS
    )


bank = functools.partial(_of_one_file, files.BANK, parse_bank, 80, "bank")

# --- Covertype: whether a patch of forest is lodgepole pine (label 1) or spruce and fir (label 0)

_FOREST_FEATURES = 54


def parse_forest(raw: RawFile, content: bytes) -> ParsedTable:
    """Read covtype.data and keep cover types 1 (label 0) and 2 (label 1), the most numerous."""
    frame = _read_csv(raw, content, header=None, dtype=np.int32)
    if frame.shape[1] != _FOREST_FEATURES + 1:
        raise CorruptFileError(raw, f"it has {frame.shape[1]} columns, not {_FOREST_FEATURES + 1}")
    frame.columns = [str(c) for c in frame.columns]
    label = str(_FOREST_FEATURES)
    frame = frame[frame[label].isin([1, 2])]
    y = np.asarray(frame[label] == 2, dtype=np.int64)
    return ParsedTable(frame, y, tuple(c for c in frame.columns if c != label))


# The papers' split is random; ours is too, fixed.
forest = functools.partial(_of_one_file, files.COVTYPE, parse_forest, 85, "forest")

# --- KDD Cup 1999: whether a network connection is an attack (label 1) or normal (label 0)

_KDD_FEATURES = 41
# protocol_type, service, flag. The publisher documents no list of their levels.
_KDD_CATEGORICAL = ("1", "2", "3")


def parse_kddcup99(raw: RawFile, content: bytes) -> ParsedTable:
    """Read 41 features and a label; every label but "normal." is an attack."""
    label = str(_KDD_FEATURES)
    names = [str(c) for c in range(_KDD_FEATURES + 1)]
    kinds = {c: "category" if c in (*_KDD_CATEGORICAL, label) else np.float64 for c in names}
    frame = _read_csv(raw, content, header=None, names=names, index_col=False, dtype=kinds)
    named = frame[label].astype(str).str.endswith(".")
    if not named.all():
        row = int(np.argmin(named.to_numpy()))
        raise CorruptFileError(raw, f"row {row} has the label {frame[label].iloc[row]!r}")
    y = np.asarray(frame[label] != "normal.", dtype=np.int64)
    numeric = tuple(c for c in names[:-1] if c not in _KDD_CATEGORICAL)
    return ParsedTable(frame, y, numeric, _KDD_CATEGORICAL)


kddcup99 = functools.partial(_of_one_file, files.KDD_TENTH, parse_kddcup99, 80, "kddcup99")
# 4.9 million rows, several GB of memory.
kddcup99_full = functools.partial(_of_one_file, files.KDD_FULL, parse_kddcup99, 80, "kddcup99")

# --- IPUMS: a user's own extract of census records, predicting a label the user has set. It may not
# be passed on, so there is nothing to download and no size to expect.

# Attributes usual for predicting income, under their IPUMS USA names. Chen et al. do not say
# which they took.
_IPUMS_NUMERIC = ("AGE", "FAMSIZE", "NCHILD", "UHRSWORK", "VEHICLES")
_IPUMS_CATEGORICAL = ("DISABWRK", "EDUC", "MARST", "MOVEDIN", "NATIVITY", "OWNERSHP", "SEX")
_LABEL = "LABEL"
_SHOWN = 6


def parse_ipums(raw: RawFile, content: bytes) -> ParsedTable:
    """Read a CSV file with a header: LABEL (0 or 1) and any of the documented columns."""
    import pandas as pd

    frame = _read_csv(raw, content, dtype=str, skipinitialspace=True)
    frame.columns = [c.strip().upper() for c in frame.columns]
    _check_columns(raw, list(frame.columns))
    numeric = tuple(c for c in _IPUMS_NUMERIC if c in frame.columns)
    categorical = tuple(c for c in _IPUMS_CATEGORICAL if c in frame.columns)
    frame = frame.apply(lambda column: column.str.strip())
    numbers = {c: pd.to_numeric(frame[c], errors="coerce") for c in (*numeric, _LABEL)}
    for column, values in numbers.items():
        _refuse(raw, column, ~np.isfinite(values), "is not a finite number")
    for column in categorical:
        _refuse(raw, column, frame[column] == "", "is empty")
    _refuse(raw, _LABEL, ~numbers[_LABEL].isin([0, 1]), "is neither 0 nor 1")
    y = numbers.pop(_LABEL).to_numpy(dtype=np.int64)
    return ParsedTable(frame.assign(**numbers), y, numeric, categorical)


def _check_columns(raw: RawFile, columns: list[str]) -> None:
    known = {*_IPUMS_NUMERIC, *_IPUMS_CATEGORICAL, _LABEL}
    unknown = [c for c in columns if c not in known]
    if unknown or _LABEL not in columns or len(set(columns)) != len(columns) or len(columns) < 2:
        # By place: the file is somebody's own, and its first line may be a record.
        places = [
            str(n) for n, c in enumerate(columns, 1) if c not in known or c in columns[: n - 1]
        ]
        wrong = f"; wrong: {', '.join(places[:_SHOWN])}{', ...' * (len(places) > _SHOWN)}"
        needed = f"{_LABEL} and some of {', '.join((*_IPUMS_NUMERIC, *_IPUMS_CATEGORICAL))}"
        has = f"{len(columns)} columns{wrong if places else ''}"
        raise DataError(f"{raw.name} has {has}. It needs {needed}, each once.")


def _refuse(raw: RawFile, column: str, bad: pd.Series, why: str) -> None:
    if bad.any():
        # The header is line 1, and people look lines up in an editor.
        line = int(np.argmax(bad.to_numpy())) + 2
        raise DataError(f"{raw.name}: {column} {why} in {int(bad.sum())} rows, first line {line}.")


ipums = functools.partial(_of_one_file, files.IPUMS, parse_ipums, 80, "ipums")


def breast_cancer(read: Reader, form: Form) -> Parts:
    """Thirty measurements of cell nuclei; 1 is benign, as scikit-learn codes it."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    index = preprocess.papers(len(bunch.data), 80, "breast-cancer")
    scale = preprocess.MinMax.fit(bunch.data[index[0]], drop_constant=True)
    X, y = preprocess.unit_rows(scale.apply(bunch.data)), bunch.target.astype(np.int64)
    train, validation, test = ((X[part], y[part]) for part in index)
    return Parts(train, validation, test, 1.0, scale.reads_private_data)


def diabetes(read: Reader, form: Form) -> Parts:
    """Ten measurements of patients, and how far the disease had gone a year later: a number.

    scikit-learn hands the columns out with mean 0 and sum of squares 1, as their publisher does.
    Most values of such a column of 442 are within 0.2: that makes 1 here, and longer rows are
    scaled down to norm 1.
    """
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes()
    index = preprocess.papers(len(bunch.data), 80, "diabetes")
    X, y = preprocess.clip_rows(bunch.data / 0.2, 1.0), bunch.target.astype(np.float64)
    train, validation, test = ((X[part], y[part]) for part in index)
    return Parts(train, validation, test, 1.0, (READS["standard"],))
