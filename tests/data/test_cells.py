"""What columns seem to be: many tables made of known kinds, and that only the kind is told."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sordino.data import table_file
from sordino.data.cells import Cells, Look, look
from sordino.data.columns import Columns
from sordino.errors import PrivacyLeakWarning

Made = Callable[[np.random.Generator, int], list[str]]


def _days(rng: np.random.Generator, rows: int, form: str) -> list[str]:
    first = datetime.date(2019, 1, 1)
    return [f"{first + datetime.timedelta(int(day)):{form}}" for day in rng.integers(0, 900, rows)]


def _codes(rng: np.random.Generator, rows: int, low: int, high: int, many: int) -> list[str]:
    return [f"{code:05d}" for code in rng.choice(rng.integers(low, high, many), rows)]


KINDS: dict[str, tuple[Look | None, Made]] = {
    "record number": (
        Look.IDENTIFIER,
        lambda rng, n: [str(7319500 + i) for i in rng.permutation(n)],
    ),
    "record word": (Look.IDENTIFIER, lambda rng, n: [f"xq7j-{i}" for i in rng.permutation(n)]),
    "patient": (Look.PEOPLE, lambda rng, n: [f"xq7j{i // 3}" for i in rng.permutation(n)]),
    "patient number": (
        Look.PEOPLE,
        lambda rng, n: [str(7319500 + i // 3) for i in rng.permutation(n)],
    ),
    "iso day": (Look.DATES, lambda rng, n: _days(rng, n, "%Y-%m-%d")),
    "moment": (Look.DATES, lambda rng, n: _days(rng, n, "%Y-%m-%dT08:15:00")),
    "german day": (Look.DATES, lambda rng, n: _days(rng, n, "%d.%m.%Y")),
    "american day": (Look.DATES, lambda rng, n: _days(rng, n, "%m/%d/%y")),
    "day in one number": (Look.DATES, lambda rng, n: _days(rng, n, "%Y%m%d")),
    "postcode": (Look.CODES, lambda rng, n: _codes(rng, n, 10_000, 99_999, 40)),
    "postcode with zeros": (Look.CODES, lambda rng, n: _codes(rng, n, 1, 99_999, 40)),
    "code of a form": (Look.FEW_CODES, lambda rng, n: [str(i) for i in rng.integers(1, 8, n)]),
    "year": (Look.YEARS, lambda rng, n: [str(i) for i in rng.integers(1925, 2010, n)]),
    "age": (None, lambda rng, n: [str(i) for i in rng.integers(18, 95, n)]),
    "pressure": (None, lambda rng, n: [f"{x:.1f}" for x in rng.normal(120, 15, n)]),
    "income": (None, lambda rng, n: [str(int(x)) for x in rng.lognormal(8, 1, n)]),
    "flag": (None, lambda rng, n: [str(i) for i in rng.integers(0, 2, n)]),
    "sex": (None, lambda rng, n: list(rng.choice(["F", "M"], n))),
    "town": (None, lambda rng, n: [f"town{i}" for i in rng.integers(0, 30, n)]),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_column_of_a_kind_is_told(name: str, tmp_path: Path) -> None:
    """Through a file, as a user has it: with gaps, in tables of several sizes."""
    expected, made = KINDS[name]
    for seed, rows in enumerate((600, 1500, 3000)):
        rng = np.random.default_rng(seed)
        cells = made(rng, rows)
        for gap in rng.integers(0, rows, rows // 30):
            cells[gap] = rng.choice(["", "NA"])
        path = tmp_path / f"{seed}.csv"
        lines = (f"{cell},{i % 2}" for i, cell in enumerate(cells))
        path.write_text("\n".join(["thing,ill", *lines, ""]))
        found = table_file.draft(path, "ill")
        title = expected.title if expected else ""
        assert found.looks == (f"{title} in column 1" if expected else ""), (name, seed)
        column = Columns.from_toml(found.toml).columns["thing"]
        assert column.ignore == (expected is not None and expected.left_out)
        assert found.of_people == (expected is Look.PEOPLE)
        if expected:  # the remark stands there, whatever the lines it is broken into
            assert expected.remark in found.toml.replace("\n# ", " ")


def test_codes_with_zeros_in_front_are_drafted_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    codes = ["00731", "01042", "99999", "NA", ""]
    path.write_text("zip,ill\n" + "".join(f"{codes[i % 5]},{i % 2}\n" for i in range(300)))
    known = Columns.from_toml(table_file.draft(path, "ill").toml)
    assert known.columns["zip"].levels == ("00731", "01042", "99999")
    with pytest.warns(PrivacyLeakWarning):
        table = table_file.read(path, None, known)
    assert table.X.sum(axis=0).tolist() == [60, 60, 60]


def test_no_look_holds_a_cell(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    columns = {name: made(rng, 900) for name, (_, made) in KINDS.items()}
    path = tmp_path / "people.csv"
    pd.DataFrame({**columns, "ill": [i % 2 for i in range(900)]}).to_csv(path, index=False)
    said = table_file.draft(path, "ill").looks
    with pytest.warns(PrivacyLeakWarning) as warned:
        table_file.read(_without_words(path), "ill")
    told = f"{said} {' '.join(str(each.message) for each in warned)}".lower()
    # Places have two digits at most, and no cell of these does but ages and codes of a form.
    for name, cells in columns.items():
        if name not in ("age", "code of a form", "flag", "sex"):
            assert not any(cell.lower() in told for cell in cells), name
    assert not any(name in told for name in KINDS if " " in name)
    assert "look first at what may be identifiers in column 1," in told
    assert "numbers that are codes in columns" in told


def _without_words(path: Path) -> Path:
    """The same without the word of its own in every row, which `read` refuses."""
    kept = path.with_name("kept.csv")
    pd.read_csv(path, dtype=str).drop(columns=["record word"]).to_csv(kept, index=False)
    return kept


def test_columns_that_cannot_be_used_have_no_look() -> None:
    for strange in ([float("inf")] * 99, [[1]] * 99, [None] * 99, [datetime.date.today()] * 99):
        assert look(Cells("", pd.Series(strange, dtype=object))) is None
