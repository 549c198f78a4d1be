"""Parsers and builders of the tabular recipes, on small made files."""

from __future__ import annotations

import numpy as np
import pytest

from sordino.data.catalogue import files, tabular
from sordino.data.preprocess import READS
from sordino.data.sources import CorruptFileError, DataError, RawFile, Reader


def _reader(**contents: bytes) -> Reader:
    by_file = {getattr(files, name): content for name, content in contents.items()}
    return lambda raw: by_file[raw]


# --- adult

PERSON = (
    "{age}, {work}, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, "
    "{sex}, {gain}, 0, 40, United-States, {label}\n"
)


def _person(age: int, work: str, sex: str, gain: int, label: str) -> str:
    return PERSON.format(age=age, work=work, sex=sex, gain=gain, label=label)


ADULT_DATA = (
    "".join(
        _person(20 + i, "?" if i % 2 else "Private", "Male" if i % 3 else "Female", i, label)
        for i, label in enumerate(["<=50K", ">50K"] * 10)
    )
    + "\n"
).encode()
ADULT_TEST = (
    "|1x3 Cross validator\n"
    + _person(60, "State-gov", "Male", 3, ">50K.")
    + _person(20, "Private", "Female", 3, "<=50K.")
    + "\n"
).encode()


def test_adult_reads_labels_with_and_without_a_full_stop() -> None:
    train = tabular.parse_adult(files.ADULT_DATA, ADULT_DATA, skip=0)
    test = tabular.parse_adult(files.ADULT_TEST, ADULT_TEST, skip=1)
    assert train.y.tolist() == [0, 1] * 10
    assert test.y.tolist() == [1, 0]
    assert test.frame["native-country"].tolist() == ["United-States"] * 2
    assert train.frame["workclass"].tolist() == ["Private", "?"] * 10
    assert train.frame["age"].tolist() == list(range(20, 40))


def test_adult_documents_94_columns_of_levels() -> None:
    assert sum(len(v) - 1 for v in tabular.ADULT_LEVELS.values()) == 94
    assert len(tabular.ADULT_NUMERIC) == 6
    for column in ("workclass", "occupation", "native-country"):
        assert sorted(tabular.ADULT_LEVELS[column])[0] == "?"


def test_adult_scales_by_the_training_rows_only() -> None:
    parts = tabular.adult(_reader(ADULT_DATA=ADULT_DATA, ADULT_TEST=ADULT_TEST), "papers")
    assert parts.validation is not None
    assert parts.test is not None
    assert [len(p[1]) for p in (parts.train, parts.validation, parts.test)] == [18, 2, 2]
    assert parts.validation[1].tolist() == [0, 1]
    # What varies in the training rows: age, capital-gain, workclass Private, sex Male.
    # Ages there run from 22 to 39 and gains from 2 to 19, so a man of 60 with gain 3 from
    # another workclass is this, before he is put on the sphere:
    raw = np.array([(60 - 22) / 17, (3 - 2) / 17, 0.0, 1.0])
    np.testing.assert_allclose(parts.test[0][0], raw / np.linalg.norm(raw))
    assert parts.norm_bound == 1.0
    assert parts.reads_private_data == (READS["ranges"],)


def test_adult_in_erm_form_is_every_row_and_every_column() -> None:
    parts = tabular.adult(_reader(ADULT_DATA=ADULT_DATA, ADULT_TEST=ADULT_TEST), "erm")
    X, y = parts.train
    assert X.shape == (22, 100)
    assert y.tolist() == [0, 1] * 10 + [1, 0]
    assert parts.validation is None
    assert parts.test is None
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1)


def test_adult_refuses_an_unknown_label_and_a_missing_number() -> None:
    with pytest.raises(CorruptFileError, match="row 1 has another label"):
        tabular.parse_adult(
            files.ADULT_DATA,
            (_person(1, "?", "Male", 0, "<=50K") + _person(1, "?", "Male", 0, "maybe")).encode(),
            skip=0,
        )
    with pytest.raises(CorruptFileError, match="cannot be parsed"):
        tabular.parse_adult(files.ADULT_DATA, ADULT_DATA.replace(b"25,", b",", 1), skip=0)


# --- forest


def _forest_rows(labels: list[int]) -> bytes:
    rows = []
    for i, label in enumerate(labels):
        row = [0] * 54
        row[0], row[1], row[20] = 100 + i, 7, i % 2
        rows.append(",".join(map(str, [*row, label])))
    return ("\n".join(rows) + "\n").encode()


def test_forest_keeps_cover_types_one_and_two() -> None:
    table = tabular.parse_forest(files.COVTYPE, _forest_rows([5, 2, 1, 7, 2]))
    assert table.y.tolist() == [1, 0, 1]
    assert table.frame["0"].tolist() == [101, 102, 104]


def test_forest_drops_constant_columns() -> None:
    parts = tabular.forest(_reader(COVTYPE=_forest_rows([1, 2] * 50)), "papers")
    assert parts.validation is not None
    assert parts.test is not None
    assert parts.train[0].shape == (77, 2)
    assert len(parts.validation[1]) == 8
    assert len(parts.test[1]) == 15


def test_forest_refuses_another_width() -> None:
    with pytest.raises(CorruptFileError, match="it has 3 columns, not 55"):
        tabular.parse_forest(files.COVTYPE, b"1,2,3\n")


# --- bank

BANK_HEAD = (
    '"age";"job";"marital";"education";"default";"balance";"housing";"loan";"contact";"day";'
    '"month";"duration";"campaign";"pdays";"previous";"poutcome";"y"\n'
)


def _bank(*rows: tuple[int, str, str]) -> bytes:
    lines = [
        f'{age};"management";"married";"tertiary";"no";{age * 10};"yes";"no";"unknown";5;'
        f'"{month}";261;1;-1;0;"unknown";"{label}"\n'
        for age, month, label in rows
    ]
    return (BANK_HEAD + "".join(lines)).encode()


def test_bank_counts_months_and_keeps_the_other_words() -> None:
    table = tabular.parse_bank(files.BANK, _bank((58, "may", "no"), (33, "dec", "yes")))
    assert table.y.tolist() == [0, 1]
    assert table.frame["month"].tolist() == [5, 12]
    assert table.frame["poutcome"].tolist() == ["unknown", "unknown"]


def test_bank_has_the_width_of_chen_et_al_less_the_intercept() -> None:
    content = _bank((58, "may", "no"), (33, "dec", "yes"))
    parts = tabular.bank(_reader(BANK=content), "erm")
    assert parts.train[0].shape == (2, 32)


def test_bank_refuses_a_missing_column_and_a_strange_month() -> None:
    with pytest.raises(CorruptFileError, match="lacks the columns poutcome, previous"):
        tabular.parse_bank(
            files.BANK, BANK_HEAD.replace('"previous";"poutcome";', "").encode() + b"1;2;3\n"
        )
    with pytest.raises(CorruptFileError, match="row 1 has no known month"):
        tabular.parse_bank(files.BANK, _bank((1, "may", "no"), (1, "mai", "no")))


# --- kddcup99


def _connection(service: str, label: str, size: int) -> str:
    return ",".join(["0", "tcp", service, "SF", str(size), *["0.00"] * 36, label]) + "\n"


CONNECTIONS = "".join(
    _connection("http" if i % 2 else "smtp", "normal." if i % 4 else "smurf.", i)
    for i in range(100)
).encode()


def test_kddcup99_sets_normal_against_the_rest() -> None:
    table = tabular.parse_kddcup99(files.KDD_TENTH, CONNECTIONS)
    assert table.y.tolist() == [1, 0, 0, 0] * 25
    assert len(table.numeric) == 38


def test_kddcup99_learns_levels_and_says_so() -> None:
    erm = tabular.kddcup99(_reader(KDD_TENTH=CONNECTIONS), "erm")
    assert erm.train[0].shape == (100, 38 + 0 + 1 + 0)
    assert erm.reads_private_data == (READS["levels"], READS["ranges"])
    papers = tabular.kddcup99_full(_reader(KDD_FULL=CONNECTIONS), "papers")
    assert papers.train[0].shape == (72, 2)


def test_rows_are_the_same_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tabular.kddcup99(_reader(KDD_TENTH=CONNECTIONS), "papers")
    monkeypatch.setattr(tabular, "BLOCK_ROWS", 7)
    pieces = tabular.kddcup99(_reader(KDD_TENTH=CONNECTIONS), "papers")
    assert np.array_equal(whole.train[0], pieces.train[0])
    assert np.array_equal(whole.train[1], pieces.train[1])


def test_kddcup99_refuses_a_label_without_its_full_stop() -> None:
    with pytest.raises(CorruptFileError, match="row 100 has the label 'normal'"):
        tabular.parse_kddcup99(
            files.KDD_TENTH, CONNECTIONS + _connection("http", "normal", 1).encode()
        )


# --- ipums

EXTRACT = "age,SEX,marst, LABEL\n" + "".join(
    f"{20 + i},{1 + i % 2},{i % 5},{int(i > 30)}\n" for i in range(50)
)


def _parse_ipums(text: str) -> None:
    tabular.parse_ipums(files.IPUMS, text.encode())


def test_ipums_takes_any_of_the_documented_columns() -> None:
    table = tabular.parse_ipums(files.IPUMS, EXTRACT.encode())
    assert (table.numeric, table.categorical) == (("AGE",), ("MARST", "SEX"))
    assert table.y.sum() == 19
    parts = tabular.ipums(_reader(IPUMS=EXTRACT.encode()), "erm")
    assert parts.train[0].shape == (50, 1 + 4 + 1)
    split = tabular.ipums(_reader(IPUMS=EXTRACT.encode()), "papers")
    assert split.test is not None
    assert len(split.test[1]) == 10


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("age,", "SERIAL,"), "has 4 columns; wrong: 1. It needs LABEL"),
        (("LABEL", "INCTOT"), "It needs LABEL"),
        (("marst", "sex"), "each once"),
        (("25,2", ",2"), "AGE is not a finite number in 1 rows, first line 7"),
        (("25,2", "nan,2"), "AGE is not a finite number"),
        (("25,2", "inf,2"), "AGE is not a finite number"),
        (("25,2,0", "25,,0"), "SEX is empty in 1 rows, first line 7"),
        (("25,2,0,0", "25,2,0,2"), "LABEL is neither 0 nor 1 in 1 rows, first line 7"),
        (("25,2,0,0", "25,2,0,"), "LABEL is not a finite number in 1 rows"),
    ],
)
def test_ipums_names_what_is_wrong_and_drops_nothing(change: tuple[str, str], why: str) -> None:
    assert change[0] in EXTRACT
    with pytest.raises(DataError) as caught:
        _parse_ipums(EXTRACT.replace(*change, 1))
    assert why in str(caught.value)


def test_ipums_refuses_text_that_is_no_table() -> None:
    with pytest.raises(CorruptFileError, match="cannot be parsed"):
        _parse_ipums("")


def test_every_raw_file_is_well_formed() -> None:
    raws = [value for value in vars(files).values() if isinstance(value, RawFile)] + [*files.MNIST]
    assert len({raw.name for raw in raws}) == 12
    for raw in raws:
        if raw is not files.IPUMS:
            algorithm, digest = str(raw.digest).split(":")
            assert len(digest) == {"md5": 32, "sha256": 64}[algorithm]
            assert raw.addresses
