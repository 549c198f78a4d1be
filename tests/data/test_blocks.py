"""A table read in blocks is the table read whole, whatever the size of a block."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sordino.data import blocks, table_file
from sordino.data.blocks import Blocks
from sordino.data.columns import Columns, feature_names
from sordino.data.encoding import Odd, is_marked
from sordino.data.sources import DataError
from sordino.errors import InvalidArgument

SIZES = (1, 2, 3, 7, 1000)
KNOWN = Columns.from_toml("""
target = "ill"
classes = [0, 1]
[columns.age]
bounds = [0, 120]
[columns.patient]
ignore = true
[columns.smoker]
levels = [false, true]
[columns.grade]
levels = [1, 2.5, 3]
[columns.job]
levels = ["clerk", "nurse, night", "NA"]
""")
NAMES = list(feature_names(KNOWN.features))
AWKWARD = """\
job,grade,smoker,age,note,code
clerk,1,TRUE,30,x,0001
"nurse, night",2.5,false,NA,x,NA
NA,3.0,True,,x,
pilot,null,,130,x,1e3
,7,no,nan,x,a b
clerk,1,FALSE, 64.5,"two
lines","say ""x"" it"
clerk,n/a,TRUE,-5

NA,one,true,#N/A,x,9
"""
KEPT = ["0001", "NA", None, "1e3", "a b", 'say "x" it', None, "9"]
ODD = {
    "age": Odd(missing=4, outside=2),
    "smoker": Odd(missing=1, unknown=1),
    "grade": Odd(missing=2, unknown=2),
    "job": Odd(missing=1, unknown=1),
}


@pytest.fixture(params=["plain.csv", "packed.csv.gz", "table.parquet"])
def awkward(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(AWKWARD.encode()))
    elif path.suffix == ".csv":
        path.write_text(AWKWARD)
    else:
        pytest.importorskip("pyarrow")
        whole = tmp_path / "whole.csv"
        whole.write_text(AWKWARD)
        frame = pd.read_csv(
            whole, dtype=str, keep_default_na=False, na_values=[""], skipinitialspace=True
        )
        ages = pd.to_numeric(frame["age"], errors="coerce")
        grades = pd.to_numeric(frame["grade"], errors="coerce")
        frame["grade"] = grades.mask(frame["grade"] == "one", 9)
        frame.assign(age=ages).to_parquet(path)
    return path


def _read(path: Path, rows: int, **options: object) -> tuple[Blocks, pd.DataFrame, pd.DataFrame]:
    found = Blocks(path, KNOWN, NAMES, rows=rows, **options)  # type: ignore[arg-type]
    parts = list(found)
    assert all(len(each.X) <= rows for each in parts)
    assert all(is_marked(each.X) for each in parts)
    X, kept = ([getattr(each, name) for each in parts] for name in ("X", "kept"))
    return found, pd.concat(X, ignore_index=True), pd.concat(kept, ignore_index=True)


@pytest.mark.parametrize("rows", SIZES)
def test_blocks_of_any_size_are_the_whole_table(awkward: Path, rows: int) -> None:
    whole = table_file.rows(awkward, KNOWN)
    found, X, kept = _read(awkward, rows, keep="code")
    pd.testing.assert_frame_equal(X, whole)
    assert found.rows == len(whole) == 8
    assert [None if pd.isna(each) else each for each in kept["code"]] == KEPT
    assert found.odd == ODD


@pytest.mark.parametrize("rows", SIZES)
def test_a_column_is_kept_as_it_stands_and_counted_as_a_number(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "plain.csv"
    path.write_text(AWKWARD)
    _, X, kept = _read(path, rows, keep="age, job")
    np.testing.assert_allclose(X, table_file.rows(path, KNOWN), rtol=0, atol=1e-15)
    assert list(kept) == ["age", "job"]
    assert kept["age"].dropna().tolist() == ["30", "NA", "130", "nan", "64.5", "-5", "#N/A"]


@pytest.mark.parametrize("rows", SIZES)
def test_long_ids_beside_an_empty_cell_keep_every_digit(tmp_path: Path, rows: int) -> None:
    pytest.importorskip("pyarrow")
    ids = pd.array([2**53 + 1, None, 7, 2**62 + 3], dtype="Int64")
    frame = pd.DataFrame({"age": [1, 2, 3, 4], "smoker": [True] * 4, "grade": 1, "job": "clerk"})
    days = pd.to_datetime(["2026-01-01", "2026-01-02", None, "2026-01-04"])
    frame.assign(id=ids, day=days).to_parquet(tmp_path / "t.parquet")
    _, _, kept = _read(tmp_path / "t.parquet", rows, keep="id,day")
    assert kept["id"].tolist() == [str(2**53 + 1), None, "7", str(2**62 + 3)]
    assert [each and each[:10] for each in kept["day"]] == [
        *("2026-01-01", "2026-01-02", None, "2026-01-04")
    ]


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("clerk,1,true,Xq7j", "Column age has no finite number in row 9"),
        ("clerk,1,true,inf", "Column age has no finite number in row 9"),
        ("clerk,1,true,30,x,y,z,more", "cannot be parsed|more fields than names"),
        ('clerk,1,true,30,"open', "cannot be parsed"),
    ],
)
def test_a_bad_row_is_told_by_its_place_in_the_file(
    tmp_path: Path, rows: int, row: str, said: str
) -> None:
    path = tmp_path / "plain.csv"
    path.write_text(f"{AWKWARD}{row}\n")
    with pytest.raises(DataError, match=said) as whole:
        table_file.rows(path, KNOWN)
    with pytest.raises(DataError, match=said) as error:
        _read(path, rows)
    assert "Xq7j" not in f"{whole.value}{error.value}"
    assert ("row 9" in str(whole.value)) == ("row 9" in str(error.value))


@pytest.mark.parametrize("rows", SIZES)
def test_levels_that_no_row_has_are_refused_behind_the_last_block(
    tmp_path: Path, rows: int
) -> None:
    path = tmp_path / "plain.csv"
    other = AWKWARD.replace("clerk", "Clerk").replace("nurse", "Nurse").replace("NA", "")
    path.write_text(other)
    with pytest.raises(DataError, match="Column job has none of its levels in any row"):
        _read(path, rows)
    path.write_text(AWKWARD.replace("clerk", "Clerk"))  # a block of its own may have none
    assert _read(path, rows)[0].odd["job"].unknown == 4


def test_files_and_columns_that_do_not_fit_are_refused_before_a_row_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plain.csv"
    path.write_text(AWKWARD)
    for known, features, keep in (
        (KNOWN, NAMES[:-1], None),
        (KNOWN, [*NAMES[:-1], "other"], None),
        (KNOWN, NAMES, "jog"),
        (KNOWN, NAMES, "job,"),
        (KNOWN, NAMES, "job,job"),
        (None, NAMES, None),
    ):
        with pytest.raises(InvalidArgument):
            Blocks(path, known, features, keep=keep)
    by_place = [f"column {1 + i}#{i}" for i in range(len(NAMES))]  # as of a draft
    assert next(iter(Blocks(path, KNOWN, by_place))).X.columns.tolist() == by_place
    path.write_text("job,grade,smoker,age\n")
    with pytest.raises(DataError, match="has no rows"):
        list(Blocks(path, KNOWN, NAMES))


def test_rows_that_come_prepared_are_complete_numbers(tmp_path: Path) -> None:
    path = tmp_path / "plain.csv"
    path.write_text("b,note,a\n1,x,2\n3,x,4\n")
    parts = [each.X for each in Blocks(path, None, ["a", "b"], rows=1)]
    assert pd.concat(parts).to_numpy().tolist() == [[2, 1], [4, 3]]
    path.write_text("b,note,a\n1,x,2\n3,x,\n")
    with pytest.raises(DataError, match="Column a has no number in row 2"):
        list(Blocks(path, None, ["a", "b"], rows=1))


def _parts() -> Iterator[pd.DataFrame]:
    yield pd.DataFrame({"id": ["1", None], "p": [0.1, 1 / 3], "n": [1, 2]})
    yield pd.DataFrame({"id": [None, "x,y"], "p": [1.0, 0.0], "n": [3, 4]})


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_a_table_is_written_part_by_part_or_not_at_all(tmp_path: Path, name: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    path = blocks.check_place(tmp_path / name)
    blocks.write(path, _parts())
    read = pd.read_parquet if name.endswith("parquet") else pd.read_csv
    whole = pd.concat(_parts(), ignore_index=True)
    found = read(path).assign(id=lambda each: each["id"].astype(object))
    pd.testing.assert_frame_equal(found, whole.assign(id=whole["id"].astype(object)))
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()

    def broken() -> Iterator[pd.DataFrame]:
        yield from _parts()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        blocks.write(path, broken())
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [name]


def test_the_place_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    os.symlink("t.csv", tmp_path / "link.csv")
    for name in ("t.txt", "no/t.csv", "link.csv", "t.csv", ""):
        with pytest.raises(InvalidArgument, match="--out"):
            blocks.check_place(tmp_path / name, tmp_path / "t.csv")
    assert blocks.check_place(tmp_path / "t.csv", tmp_path / "none.csv") == tmp_path / "t.csv"


@pytest.mark.slow
def test_a_million_rows_take_the_memory_of_a_block(tmp_path: Path) -> None:
    """Encoded at once they would take 5.6 GB; text of the file, a few hundred MB."""
    resource = pytest.importorskip("resource")
    levels = ", ".join(f'"v{i}"' for i in range(700))
    known = Columns.from_toml(f"[columns.a]\nbounds = [0, 9]\n[columns.v]\nlevels = [{levels}]\n")
    path = tmp_path / "long.csv"
    part = "".join(f"{i % 10},v{i % 700},{i}\n" for i in range(10_000))
    with path.open("w") as file:
        file.write("a,v,id\n")
        file.writelines(part for _ in range(100))
    names = list(feature_names(known.features))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = Blocks(path, known, names, keep="id")
    sums = ((each.kept.assign(s=each.X.to_numpy().sum(axis=1))) for each in rows)
    blocks.write(tmp_path / "out.csv", sums)
    assert rows.rows == 10**6
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600_000  # kilobytes
    with (tmp_path / "out.csv").open() as file:
        assert sum(1 for _ in file) == 10**6 + 1


ODD_CELLS = (
    *("", " ", "NA", "nan", "null", "inf", "-inf", "True", "TRUE", "1e999", "?", "0", "1.0", "2.5"),
    *("007", "1_0", "0x1F", "1e3", " 64 ", "Xq7j", "123456789012345678", "0.1", "-0", "é", "yes"),
)


def _either(use: Callable[[], pd.DataFrame]) -> pd.DataFrame | str:
    """What it gives, or how it is refused."""
    try:
        return use()
    except (DataError, InvalidArgument) as error:
        return str(error)


def test_blocks_of_odd_cells_are_the_whole_table_or_refused_as_it_is(tmp_path: Path) -> None:
    """Types of a column are guessed from each block alone: that must not show."""
    refused = sum(_odd_cells(random.Random(seed), tmp_path / "odd.csv") for seed in range(15))
    assert 3 <= refused <= 12  # of both kinds


@pytest.mark.slow
def test_blocks_of_two_hundred_tables_of_odd_cells(tmp_path: Path) -> None:
    for seed in range(1000, 1200):
        _odd_cells(random.Random(seed), tmp_path / "odd.csv")


def _odd_cells(rng: random.Random, path: Path) -> bool:
    """Whether such a table is refused: the same in one piece and in blocks."""
    cells = rng.sample(ODD_CELLS, rng.choice((2, 3, 6, len(ODD_CELLS))))
    usual = {"age": ["30", "4"], "smoker": ["true", "False"], "grade": ["1", "3"], "job": ["clerk"]}
    lines = ["id,job,grade,smoker,age"]
    for number in range(rng.choice((3, 20, 40))):
        row = {name: rng.choice(listed) for name, listed in usual.items()}
        if rng.random() < 0.3:
            row[rng.choice(list(usual))] = rng.choice(cells)
        lines.append(",".join([str(number), *(row[name] for name in lines[0].split(",")[1:])]))
    path.write_text("\n".join(lines) + "\n")
    whole = _either(lambda: table_file.rows(path, KNOWN))
    for size in (1, 5, 1000):
        found = _either(lambda size=size: _read(path, size)[1])
        if isinstance(whole, str):
            assert found == whole
        else:
            pd.testing.assert_frame_equal(found, whole, check_exact=False, rtol=0, atol=1e-12)
    return isinstance(whole, str)
