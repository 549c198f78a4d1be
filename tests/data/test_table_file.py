from __future__ import annotations

import gzip
import importlib.metadata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sordino.data import frames, table_file
from sordino.data.columns import Column, Columns
from sordino.data.sources import DataError
from sordino.errors import InvalidArgument, PrivacyLeakWarning

PEOPLE = """\
patient,age, sex ,member,zip,note,ill
a-1,30,M,True,01234,"x, y",no
a-2,,F,false,01235,NA,yes
a-3,130,,TRUE,,"x, y",no
"""
KNOWN = Columns.from_toml(
    """
    target = "ill"
    classes = ["no", "yes"]
    [columns.patient]
    ignore = true
    [columns.age]
    bounds = [20, 120]
    [columns.sex]
    levels = ["F", "M", "X"]
    [columns.member]
    levels = [false, true]
    [columns.zip]
    levels = ["01234", "99999"]
    [columns.note]
    levels = ["NA", "x, y"]
    """
)
SECRET = "Xylophon"


@pytest.fixture
def csv(tmp_path: Path):
    def write(text: str | bytes, name: str = "people.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def _frame(columns: dict, tmp_path: Path) -> Path:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, which is optional")
    path = tmp_path / "people.parquet"
    pd.DataFrame(columns).to_parquet(path)
    return path


def test_a_described_table_reads_nothing_from_the_records(csv) -> None:
    table = table_file.read(csv(PEOPLE), None, KNOWN)  # no PrivacyLeakWarning: it would be an error
    assert table.feature_names == (
        *("age", "sex=F", "sex=M", "sex=X", "member=False", "member=True"),
        *("zip=01234", "zip=99999", "note=NA", "note=x, y"),
    )
    # 30 lies a tenth of the way from 20 to 120; a missing age is the middle; 130 counts as 120.
    expected = [
        [0.1, 0, 1, 0, 0, 1, 1, 0, 0, 1],
        [0.5, 1, 0, 0, 1, 0, 0, 0, 1, 0],
        [1.0, 0, 0, 0, 0, 1, 0, 0, 0, 1],
    ]
    np.testing.assert_array_equal(table.X, expected)
    assert table.X.dtype == np.float64
    assert table.y.tolist() == ["no", "yes", "no"]
    assert table.classes == ("no", "yes")
    assert table.reads_private_data == ()
    assert table.notes[0] == "left out: column patient"
    assert "missing ones to the middle" in table.notes[1]
    assert "all zero for missing and unknown ones" in table.notes[2]


def test_what_is_not_described_is_read_off_the_rows_and_said(csv) -> None:
    # As it stands, "note" has one word beside NA, which usually marks a missing one.
    text = PEOPLE.replace("NA", "z")
    with pytest.warns(PrivacyLeakWarning, match="minimum and maximum of columns 2 and 5"):
        table = table_file.read(csv(text), "ill")
    assert table.reads_private_data == (
        "minimum and maximum of columns 2 and 5 of the file",
        "levels of columns 1, 3, 4 and 6 of the file",
    )
    ages = table.X[:, table.feature_names.index("column 2")]
    np.testing.assert_array_equal(ages, [0.0, 0.5, 1.0])
    assert table.classes is None


def test_one_column_left_out_of_the_description_is_named(csv) -> None:
    columns = {name: column for name, column in KNOWN.columns.items() if name != "age"}
    with pytest.warns(PrivacyLeakWarning) as leaks:
        table = table_file.read(csv(PEOPLE), "ill", Columns(None, KNOWN.classes, columns))
    assert table.reads_private_data == ("minimum and maximum of column 2 of the file",)
    (leak,) = leaks
    assert str(leak.message).startswith("Not private: minimum and maximum of column 2 of the file;")
    assert leak.filename == __file__


def test_notes_are_the_same_for_all_records(csv) -> None:
    full = PEOPLE.replace(",,", ",1,")
    one = table_file.read(csv(PEOPLE), None, KNOWN)
    other = table_file.read(csv(full), None, KNOWN)
    assert (one.notes, one.feature_names) == (other.notes, other.feature_names)


def test_many_names_make_a_short_sentence(csv) -> None:
    names = [f"c{i}" for i in range(40)]
    text = f"{','.join(names)},y\n" + f"{'1,' * 40}0\n" + f"{'2,' * 40}1\n"
    with pytest.warns(PrivacyLeakWarning):
        table = table_file.read(csv(text), "y")
    (sentence,) = table.reads_private_data
    assert sentence == "minimum and maximum of 40 columns (1, 2, 3, 4, 5, 6, ...) of the file"


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        (["0", "1"], None, [0, 1]),
        (["1.0", "2.0"], None, [1, 2]),
        (["no", "yes"], None, ["no", "yes"]),
        (["True", "FALSE"], None, ["True", "False"]),
        (["0", "1"], (0, 1, 2), [0, 1]),
        (["0", "1"], ("0", "1"), ["0", "1"]),
        (["007", "7"], ("7", "007"), ["007", "7"]),
        (["true", "FALSE"], (False, True), ["True", "False"]),
        (["0.5", "1"], (0.5, 1), [0.5, 1.0]),
        (["NA", "yes"], ("NA", "yes"), ["NA", "yes"]),
    ],
)
def test_labels_are_words_or_whole_numbers(csv, labels, classes, expected) -> None:
    path = csv(f"x,y\n1,{labels[0]}\n2,{labels[1]}\n")
    table = table_file.read(path, "y", Columns(None, classes, {"x": Column(bounds=(0, 4))}))
    assert table.y.tolist() == expected
    assert table.y.dtype.kind == {str: "U", int: "i", float: "f"}[type(expected[0])]
    assert (table.classes is None) == (classes is None)
    assert classes is None or set(expected) <= set(table.classes)


def test_levels_may_be_numbers(csv) -> None:
    path = csv("grade,y\n1,0\n2.0,1\n3,1\n")
    table = table_file.read(path, "y", Columns("y", (0, 1), {"grade": Column(levels=(2, 1))}))
    np.testing.assert_array_equal(table.X, [[0, 1], [1, 0], [0, 0]])
    assert table.feature_names == ("grade=2", "grade=1")


def test_words_that_look_like_numbers_are_numbers(csv) -> None:
    with pytest.warns(PrivacyLeakWarning):
        table = table_file.read(csv('x,y\n" 1",0\n"3.0",1\n2e0 ,1\n'), "y")
    np.testing.assert_array_equal(table.X, [[0], [1], [0.5]])


@pytest.mark.parametrize("form", ["compressed", "semicolons", "tabs", "windows", "numbered"])
def test_usual_forms_of_the_same_table(csv, form: str) -> None:
    text = PEOPLE.replace('"x, y"', "xy")
    known = Columns(KNOWN.target, KNOWN.classes, {**KNOWN.columns, "note": Column(levels=("xy",))})
    expected = table_file.read(csv(text), None, known)
    name = "other.csv"
    if form == "compressed":
        content, name = gzip.compress(text.encode()), "other.csv.gz"
    elif form == "windows":
        content = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    elif form == "numbered":  # as pandas and R write tables
        lines = text.splitlines()
        content = "\n".join(f"{i or ''},{line}" for i, line in enumerate(lines)).encode()
    else:
        content = text.replace(",", ";" if form == "semicolons" else "\t").encode()
    table = table_file.read(csv(content, name), None, known)
    np.testing.assert_array_equal(table.X, expected.X)
    assert table.y.tolist() == expected.y.tolist()
    numbered = "left out: a column without a name (row numbers?)" in table.notes
    assert numbered == (form == "numbered")


def test_parquet(tmp_path: Path) -> None:
    columns = {
        "age": pd.array([30, None, 130], dtype="Int64"),
        "sex": pd.Categorical(["M", "F", None]),
        "member": [True, False, True],
        "zip": ["01234", "01235", " "],
        "note": ["x, y", "NA", "x, y"],
        "patient": ["a", "b", "c"],
        "ill": ["no", "yes", "no"],
    }
    path = _frame(columns, tmp_path)
    pd.read_parquet(path).set_index(pd.Index([7, 8, 9])).to_parquet(path)  # keeps row numbers
    table = table_file.read(path, None, KNOWN)
    expected = [
        [0.1, 0, 1, 0, 0, 1, 1, 0, 0, 1],
        [0.5, 1, 0, 0, 1, 0, 0, 0, 1, 0],
        [1.0, 0, 0, 0, 0, 1, 0, 0, 0, 1],
    ]
    np.testing.assert_array_equal(table.X, expected)
    assert table.y.tolist() == ["no", "yes", "no"]


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (pd.to_datetime(["2020-01-01", "2021-01-01"]), "holds dates or times"),
        ([[1], [2]], "holds neither numbers nor words"),
        ([b"1", b"2"], "holds neither numbers nor words"),
    ],
)
def test_parquet_columns_that_cannot_be_used(tmp_path: Path, column, why: str) -> None:
    path = _frame({"x": column, "y": [0, 1]}, tmp_path)
    with pytest.raises(DataError, match=f"Column 1 of the file {why}"):
        table_file.read(path, "y")


def test_a_broken_parquet_file(csv) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, which is optional")
    with pytest.raises(DataError, match="it is damaged or of another kind"):
        table_file.read(csv("x,y\n1,2\n", "x.parquet"), "y")


def test_pyarrow_is_optional_and_must_be_safe(csv, monkeypatch: pytest.MonkeyPatch) -> None:
    path = csv("", "x.parquet")

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(InvalidArgument, match=r"to have pyarrow to read it\. pip install pyarrow"):
        frames.check_path(path)
    for version, safe in {"14.0.0": False, "9.9.9": False, "14.0.1": True, "26.0.1": True}.items():
        monkeypatch.setattr(importlib.metadata, "version", lambda name, v=version: v)
        if safe:
            assert frames.check_path(path) == path
        else:
            with pytest.raises(InvalidArgument, match=f"pyarrow={version} >= 14.0.1"):
                frames.check_path(path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("x,y\n", "has no rows"),
        ("x,x,y\n1,2,3\n", "has one name twice: in columns 1, 2"),
        ("x, x ,y\n1,2,3\n", "has one name twice: in columns 1, 2"),
        ("y\n1\n0\n", "has no column but the target y"),
        ("x,y\n1,0\n2,1,9\n", "cannot be parsed: Expected 2 fields in line 3, saw 3"),
        ("x,y\n1,0,9\n2,1,9\n", "has more fields than names"),
        ("x,y\n1,0,9\n2,1\n", "has more fields than names"),
        ('"x,y\n' + "1,0\n" * 40_000, "has a header that cannot be parsed .a quote left open"),
        (b"x,y\n\0\0\n", "is not a text file"),
        ("x,y\nGröße,1\n".encode("latin-1"), "is not text in UTF-8"),
        (b"x,y\n" + b"1,0\n" * 40_000 + b"\xff,1\n", "is not text in UTF-8"),
        (f"x,y\n{SECRET},0\n{SECRET},1\n", "Column 1 of the file has one value only. Describe it"),
        ("x,y\n7,0\n7,1\n,1\n", "Column 1 of the file has one value only"),
        ("x,y\nTrue,0\nTrue,1\n", "Column 1 of the file has one value only"),
        (
            "x,y\n,0\nNA,1\n",
            r"Column 1 of the file is empty. Leave it out in a file of columns \(ignore = true",
        ),
        ("x,y\n1,0\n-inf,1\n", "Column 1 of the file has no finite number in row 2"),
        ("x,y\n-1e308,0\n1e308,1\n", "Column 1 of the file has numbers too large to scale"),
        ("x,y\n1,0\n2,\n", "Column y is the target and has no label in row 2"),
        ("x,y\n1,0.5\n2,0.25\n", "Column y is the target and holds numbers that are no classes"),
        (f"x,y\n1,{SECRET}\n2,{SECRET}\n", "Column y is the target and has one class only"),
    ],
)
def test_content_that_cannot_be_used_is_one_sentence(csv, text, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence) as refused:
        table_file.read(csv(text), "y")
    assert "\n" not in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"x,s,y\n1,a,0\n{SECRET},a,1\n", "Column x has no finite number in row 2"),
        ("x,s,y\n1,a,0\ninf,a,1\n", "Column x has no finite number in row 2"),
        (f"x,s,y\n1,{SECRET},0\n2,,1\n", "Column s has none of its levels in any row. Check them"),
        ("x,s,y\n1,a,0\n2,a,3\n", "Column y is the target and has none of the classes in row 2"),
        ("x,s,y\n1,a,0\n2,a,\n", "Column y is the target and has no label in row 2"),
    ],
)
def test_rows_that_break_their_description(csv, text: str, sentence: str) -> None:
    columns = {"x": Column(bounds=(0, 1)), "s": Column(levels=("a", "b"))}
    with pytest.raises(DataError, match=sentence) as refused:
        table_file.read(csv(text), "y", Columns("y", (0, 1), columns))
    assert SECRET not in str(refused.value)


def test_a_described_column_may_be_constant_or_empty(csv) -> None:
    columns = {"x": Column(bounds=(0, 2)), "z": Column(bounds=(0, 2))}
    table = table_file.read(csv("x,z,y\n2,,0\n2,,1\n"), "y", Columns("y", (0, 1), columns))
    np.testing.assert_array_equal(table.X, [[1, 0.5], [1, 0.5]])


def test_a_long_header(csv) -> None:
    names = [f"{'long ' * 50}name, {i}" for i in range(600)]
    quoted = ",".join(f'"{name}"' for name in names)
    path = csv(f"{quoted},y\n{'1,' * 600}0\n{'2,' * 600}1\n")
    with pytest.warns(PrivacyLeakWarning):
        table = table_file.read(path, "y")
    assert table.feature_names == tuple(f"column {i}" for i in range(1, 601))


def test_identifiers_are_refused(csv) -> None:
    rows = "".join(f"{SECRET}{i},{i % 2}\n" for i in range(1001))
    with pytest.raises(DataError, match="Column 1 of the file has more than 1,000 different words"):
        table_file.read(csv(f"x,y\n{rows}"), "y")
    turned = "".join(f"{i},{SECRET}{i}\n" for i in range(1001))
    with pytest.raises(DataError, match="Column y is the target and has more than 1,000 labels"):
        table_file.read(csv(f"x,y\n{turned}"), "y")


def test_a_table_that_would_not_fit_is_refused(csv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sordino._cost.free_memory", lambda: 4 * 3 * 10 * 8 - 1)
    told = r"3 rows of 10 columns\] to fit into memory: about 960 bytes would be needed"
    with pytest.raises(InvalidArgument, match=told):
        table_file.read(csv(PEOPLE), None, KNOWN)


def test_usage_errors_come_before_the_rows(csv, tmp_path: Path) -> None:
    path = csv(PEOPLE)
    (tmp_path / "sheet.xlsx").touch()
    cases = {
        "to be a file, not a directory": (tmp_path, "y", None),
        "parquet, .pq. Save it as CSV": (tmp_path / "sheet.xlsx", "y", None),
        "to end in .csv, .csv.gz, .parquet, .pq": (csv("", "people.txt"), "y", None),
        "to exist": (tmp_path / "none.csv", "y", None),
        "target=None to be given": (path, None, None),
        "target='il' to be a column of the table. Did you mean ill?": (path, "il", None),
        "target=sex to be the description's 'ill'": (path, "sex", KNOWN),
        "columns='agee' to be a column of the table. Did you mean age?": (
            *(path, "ill"),
            Columns(columns={"agee": Column(ignore=True)}),
        ),
        "columns=ill not to describe the target": (
            *(path, "ill"),
            Columns(columns={"ill": Column(ignore=True)}),
        ),
    }
    for sentence, arguments in cases.items():
        with pytest.raises(InvalidArgument) as refused:
            table_file.read(*arguments)
        assert sentence in str(refused.value)


def test_a_file_cut_short(csv) -> None:
    packed = gzip.compress(PEOPLE.encode())
    for content in (packed[:-12], b"no gzip", packed[:20] + b"?" * 20):
        with pytest.raises(DataError, match="cannot be decompressed"):
            table_file.read(csv(content, "cut.csv.gz"), "ill")


def test_describing_a_table_gives_what_would_be_read_off_it(csv) -> None:
    text = PEOPLE.replace("NA", 'say "z"')
    described = table_file.draft(csv(text), "ill").toml
    assert described.startswith("# READ FROM THE DATA")
    said = described.replace("\n# ", " ")
    assert "such as [0, 120] for an age" in said
    assert "this leaks, and no guarantee covers it" in said
    assert "Missing values need no care" in said
    assert max(map(len, described.splitlines())) <= 90
    assert "without a label" not in described
    drafted = Columns.from_toml(described)
    assert drafted.read_from_data
    assert drafted.columns["zip"] == Column(levels=("01234", "01235"))  # codes, not 1234
    columns = {**drafted.columns, "zip": Column(bounds=(1234.0, 1235.0))}
    known = replace(drafted, columns=columns, read_from_data=False)  # as if it were public
    assert known.classes == ("no", "yes")
    assert known.columns["age"] == Column(bounds=(30.0, 130.0))
    assert known.columns["note"] == Column(levels=('say "z"', "x, y"))
    assert known.columns["member"] == Column(levels=(False, True))
    table = table_file.read(csv(text), None, known)
    with pytest.warns(PrivacyLeakWarning):
        inferred = table_file.read(csv(text), "ill")
    np.testing.assert_array_equal(table.X, inferred.X)
    header = [name.strip() for name in text.partition("\n")[0].split(",")]
    places = {name: f"column {place}" for place, name in enumerate(header, 1)}
    assert [places[name.partition("=")[0]] for name in table.feature_names] == [
        name.partition("#")[0] for name in inferred.feature_names
    ]


def test_a_draft_is_a_leak_until_somebody_declares_it_public(csv) -> None:
    draft = replace(KNOWN, read_from_data=True)
    with pytest.warns(PrivacyLeakWarning, match="delete read_from_data = true") as leaks:
        table = table_file.read(csv(PEOPLE), None, draft)
    (leak,) = leaks
    (said,) = table.reads_private_data
    assert said in str(leak.message)
    assert said == (
        "minimum and maximum of column 2 of the file, levels of columns 3, 4, 5 and 6 of the file, "
        "which columns are left out, which classes there are: drafted from the rows by `sordino "
        "data describe` and not declared public"
    )
    assert table.classes == KNOWN.classes
    # One column is missing from the draft: that is named as well.
    columns = {name: column for name, column in KNOWN.columns.items() if name != "sex"}
    with pytest.warns(PrivacyLeakWarning):
        table = table_file.read(
            csv(PEOPLE.replace("a-3,130,,", "a-3,130,F,")), None, replace(draft, columns=columns)
        )
    assert table.reads_private_data[1:] == ("levels of column 3 of the file",)


def test_the_order_of_features_is_that_of_the_description(csv) -> None:
    turned = replace(KNOWN, columns=dict(reversed(KNOWN.columns.items())))
    one, other = (table_file.read(csv(PEOPLE), None, known) for known in (KNOWN, turned))
    assert other.feature_names[:2] == ("note=NA", "note=x, y")
    assert other.feature_names[-1] == "age"
    places = [other.feature_names.index(name) for name in one.feature_names]
    np.testing.assert_array_equal(other.X[:, places], one.X)
    part = replace(KNOWN, columns={"note": KNOWN.columns["note"]})
    with pytest.warns(PrivacyLeakWarning):
        rest = table_file.read(csv(PEOPLE.replace("a-3,130,,", "a-3,130,F,")), None, part)
    assert rest.feature_names[1:4] == ("note=x, y", "column 1#1", "column 1#2")


def test_new_rows_are_prepared_as_those_of_the_training(csv) -> None:
    expected = table_file.read(csv(PEOPLE), None, KNOWN)
    # Neither target nor what is left out is there, in another order, with a column too many.
    frame = pd.read_csv(csv(PEOPLE), dtype={"zip": str}, keep_default_na=False, na_values=[""])
    columns = ["note", "zip", "member", " sex ", "age"]
    path = csv(frame[columns].assign(more="?").to_csv(index=False), "new.csv")
    for source in (path, str(path), frame[columns].set_index(pd.Index([7, 8, 9]))):
        rows = table_file.rows(source, KNOWN)
        assert tuple(rows.columns) == expected.feature_names
        np.testing.assert_array_equal(rows.to_numpy(), expected.X)
    assert rows.index.tolist() == [7, 8, 9]
    one = table_file.rows(frame.iloc[2:], KNOWN)  # a missing level is none that is misspelled
    np.testing.assert_array_equal(one.to_numpy(), expected.X[2:])


def test_rows_that_cannot_be_prepared(csv) -> None:
    frame = pd.read_csv(csv(PEOPLE)).drop(columns="age")
    with pytest.raises(InvalidArgument, match="columns='age' to be a column of the table"):
        table_file.rows(frame, KNOWN)
    with pytest.raises(InvalidArgument, match="columns='age' to be a column of the table"):
        table_file.rows(csv(frame.to_csv()), KNOWN)
    with pytest.raises(DataError, match="Column sex has none of its levels in any row"):
        table_file.rows(frame.assign(age=1, sex="f").drop(columns=" sex "), KNOWN)
    with pytest.raises(DataError, match="more than one column 'sex'"):
        table_file.rows(frame.assign(age=1, sex="F"), KNOWN)
    with pytest.raises(InvalidArgument, match="to describe columns to learn from"):
        table_file.rows(frame, Columns())
    with pytest.raises(InvalidArgument, match="source=list to be a path or a pandas table"):
        table_file.rows([[1]], KNOWN)  # type: ignore[arg-type]


def test_describing_warns_of_identifiers_dates_and_missing_labels(csv) -> None:
    lines = ["number,name,day,weight,size,y"]
    for i in range(404):
        day, size = f"2026-{i % 101}", 51 if i == 0 else i % 51
        lines.append(f"{1000 + i},n{i},{day},{i / 7},{size},{'' if i in (3, 4) else i % 2}")
    described = table_file.draft(csv("\n".join(lines)), "y").toml
    known = Columns.from_toml(described)
    assert known.ignored == ["number", "name", "day"]
    assert described.count("# An identifier?") == 2
    assert "[columns.day]\n# People with several rows?" in described
    assert known.columns["size"] == Column(bounds=(0.0, 51.0))
    assert known.columns["weight"].bounds is not None  # measurements all differ, too
    unwrapped = described.replace("\n# ", " ")
    assert "without a label: 2 of 404.\ntarget" in unwrapped
    assert known.classes == (0, 1)
    few = table_file.draft(csv("\n".join(lines[:51])), "y").toml  # 50 rows may differ by chance
    assert Columns.from_toml(few).ignored == []
    one_more = table_file.draft(csv("\n".join(lines[:52])), "y").toml
    assert Columns.from_toml(one_more).ignored[:2] == ["number", "name"]


def test_describing_leaves_out_what_cannot_be_used(csv) -> None:
    text = "one,none,inf,y\n7,,inf,True\n7,,1,False\n"
    described = table_file.draft(csv(text), "y").toml
    assert "[columns.one]\n# It has one value only.\nignore = true\n" in described
    assert "[columns.none]\n# It is empty.\nignore = true\n" in described
    assert "[columns.inf]\n# It has no finite number in row 1.\nignore = true\n" in described
    assert Columns.from_toml(described).classes == (False, True)
