"""Whatever is wrong with a table, nothing that is said of it holds a cell or an undeclared name."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from damaged import HEADER, NUMBERS, WORDS, csv_file, damaged_file, leaked, said

from sordino.data import frames, table_file
from sordino.data.blocks import Blocks
from sordino.data.catalogue import files
from sordino.data.catalogue.tabular import ParsedTable, parse_ipums
from sordino.data.columns import Columns, feature_names
from sordino.data.sources import DataError
from sordino.errors import InvalidArgument

pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, which is optional")

PUBLIC = Columns.from_toml(
    """
    target = "ill"
    [columns.age]
    bounds = [0, 120]
    [columns.name]
    levels = ["Smith", "Jones"]
    [columns.code]
    ignore = true
    """
)
DRAFT = Columns(PUBLIC.target, ("no", "yes"), PUBLIC.columns, read_from_data=True)
PERSONS = replace(PUBLIC, person="code")
FEATURES = feature_names(PUBLIC.features)


def _uses(path: Path) -> dict[str, Callable[[], object]]:
    return {
        "read": lambda: table_file.read(path, "ill"),
        "read a class for a name": lambda: table_file.read(path, "yes"),
        "read described": lambda: table_file.read(path, None, PUBLIC),
        "read drafted": lambda: table_file.read(path, None, DRAFT),
        "read persons": lambda: table_file.read(path, None, PERSONS),
        "read drafted persons": lambda: table_file.read(path, None, DRAFT.with_person("code")),
        "read persons alone": lambda: table_file.read(path, "ill", Columns(person="name")),
        "rows": lambda: table_file.rows(path, PUBLIC),
        "blocks": lambda: list(Blocks(path, PUBLIC, FEATURES, rows=7)),
        "blocks that are kept": lambda: list(Blocks(path, PUBLIC, FEATURES, keep="age", rows=7)),
        "prepared blocks": lambda: list(Blocks(path, None, ["age", "code"], rows=7)),
        "describe": lambda: table_file.draft(path, "ill"),
    }


def _check(seed: int, directory: Path) -> set[str]:
    """Use one damaged table in every way; what became of each."""
    path = damaged_file(random.Random(seed), directory)
    ends = set()
    for name, use in _uses(path).items():
        found, told = said(use)
        assert not leaked(told), (seed, name)
        if isinstance(found, table_file.UserTable):  # these are published
            assert not leaked(found.feature_names, found.reads_private_data, found.notes)
        if isinstance(found, Exception):
            assert isinstance(found, DataError | InvalidArgument), (seed, name)
            assert "\n" not in str(found)
        ends.add(type(found).__name__ if isinstance(found, Exception) else "used")
    return ends


def test_no_sentence_about_a_damaged_table_holds_a_cell(tmp_path: Path) -> None:
    ends = [_check(seed, tmp_path) for seed in range(50)]
    # The damage is of many kinds: some tables are refused, others can be used.
    for end in ("DataError", "InvalidArgument", "used"):
        assert sum(end in each for each in ends) >= 5


@pytest.mark.slow
def test_no_sentence_about_hundreds_of_damaged_tables_holds_a_cell(tmp_path: Path) -> None:
    for seed in range(1000, 1600):
        _check(seed, tmp_path)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (HEADER, ""),
        (("", "age", "ill"), ""),
        (("inf", "NA", "x1", "Größe", "age (years)"), ""),
        (("0", "1", "2", "ill"), ""),  # as pandas numbers columns that have no name
        (("1", "2", "3", "ill"), ""),
        (("0", "1", "ill"), "seems to have no header: .* in columns 1, 2"),
        (
            ("39", "State-gov", "77516", "Bachelors", "13", "<=50K", "2e5"),
            "in columns 1, 3, 5 and 1",
        ),
        (("Anna", "2020-01-31", "yes"), "in column 2"),
        (("age", "name,ill\n39,Anna,yes\n"), "cannot be parsed .a quote left open"),
        (("age", "na\x1b[2Jme"), "cannot be parsed"),
        (("age", "n" * 1001), "cannot be parsed"),
        (("age", "sex", "age"), "has one name twice: in columns 1, 3"),
    ],
)
def test_what_can_be_a_header(names: tuple[str, ...], why: str) -> None:
    if not why:
        frames.check_names("people.csv", names)
        return
    with pytest.raises(DataError, match=why):
        frames.check_names("people.csv", names)
    if "twice" not in why:  # whoever declares such a name knows it
        frames.check_names("people.csv", names, declared=names)


def test_a_name_that_is_declared_public_is_told(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("63,name,ill\n" + "x,a,no\ny,b,yes\n")
    known = Columns.from_toml("target = 'ill'\n[columns.63]\nbounds = [0, 1]")
    with pytest.raises(DataError, match="Column 63 has no finite number in row 1"):
        table_file.read(path, None, known)
    with pytest.raises(DataError, match="seems to have no header"):
        table_file.read(path, "ill")


def test_a_draft_of_another_file_is_no_public_description(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,ill\n1,no\n2,yes\n")
    for word in WORDS:
        column = f"[columns.{json.dumps(word)}]".replace("\x7f", "")
        for described in (
            f"{column}\nbounds = [0, 1]",
            f"{column}\nbonds = 1",
            f"{column}\nlevels=[]",
        ):
            text = f"read_from_data = true\ntarget = 'ill'\n{described}"
            found, told = said(
                lambda text=text: table_file.read(path, None, Columns.from_toml(text))
            )
            assert isinstance(found, InvalidArgument)
            assert not leaked(told)


def test_an_extract_of_the_census_is_somebodys_own(tmp_path: Path) -> None:
    """It is read by a recipe, since its columns are known; all else about it is not."""
    for seed in range(40):
        rng = random.Random(seed)
        path = csv_file(rng, tmp_path)
        text = path.read_bytes().replace(b"age", b"AGE").replace(b"ill", b"LABEL")
        named = text.replace(b"name", b"SEX").replace(b"code", b"EDUC")
        for content in (text, named):
            found, told = said(partial(parse_ipums, files.IPUMS, content))
            assert not leaked(told), seed
            assert isinstance(found, DataError | ParsedTable), seed


def test_new_rows_of_a_pandas_table() -> None:
    for cell in (*WORDS, *NUMBERS, [WORDS[0]], {WORDS[0]}, 10**5000):
        for names in (HEADER, (WORDS[0], *HEADER[1:]), ("age", "age", "name", "ill")):
            table = pd.DataFrame([[cell] * 4] * 3, columns=list(names))
            found, told = said(partial(table_file.rows, table, PUBLIC))
            assert not leaked(told)
            assert isinstance(found, pd.DataFrame | DataError | InvalidArgument)
