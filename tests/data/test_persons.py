"""Rows per person: counted, cut and held out by draws that look at nothing."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from damaged import WORDS, leaked, said
from scipy import stats

from sordino.data import table_file
from sordino.data.columns import Columns
from sordino.data.persons import Persons, new_secret
from sordino.data.source import Source, held_out
from sordino.data.sources import DataError
from sordino.errors import InvalidArgument
from sordino.types import Ints

LEVEL = 1e-6
"""Of each test of a distribution, whose draws are seeded: no chance decides."""


def random_persons(rng: np.random.Generator) -> Persons:
    """Of one to forty persons, some with most of the rows."""
    shares = rng.dirichlet(np.full(rng.integers(1, 40), rng.choice([0.1, 1.0, 10.0])))
    codes = rng.choice(len(shares), size=rng.integers(1, 300), p=shares)
    return Persons(codes.astype(np.int64), rng.bytes(32))


def counted(codes: Ints) -> Ints:
    return np.bincount(codes)


class Drawn(Persons):
    """Persons whose every row and person has a number of its own, as a coupling gives them."""

    rows: Ints
    persons: Ints

    def _numbers(self, purpose: str, many: int) -> np.ndarray:
        numbers = self.persons if purpose == "persons" else self.rows
        assert len(numbers) == many
        return numbers.astype(np.uint64)


def drawn(codes: Ints, rows: Ints, persons: Ints) -> Drawn:
    made = Drawn(codes)
    object.__setattr__(made, "rows", rows)
    object.__setattr__(made, "persons", persons[: codes.max() + 1])
    return made


class TestCut:
    """At most k rows of everybody."""

    @pytest.mark.parametrize("seed", range(60))
    def test_nobody_has_more_and_nobody_loses_more_than_needed(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        persons, most = random_persons(rng), int(rng.integers(1, 12))
        kept = persons.cut(most)
        assert (np.diff(kept) > 0).all()  # in order, none twice
        many = len(counted(persons.codes))
        stay = np.bincount(persons.codes[kept], minlength=many)
        np.testing.assert_array_equal(stay, np.minimum(counted(persons.codes), most))
        np.testing.assert_array_equal(persons.cut(most), kept)  # resumed, it is the same
        again = persons.take(kept)
        np.testing.assert_array_equal(again.cut(most), np.arange(len(kept)))

    @pytest.mark.parametrize("seed", range(30))
    def test_what_is_kept_of_others_does_not_depend_on_one_persons_rows(self, seed: int) -> None:
        """The coupling of the docstring: a number for each row, whoever else is there."""
        rng = np.random.default_rng(seed)
        codes, most = random_persons(rng).codes, int(rng.integers(1, 6))
        names, numbers = np.arange(len(codes)), rng.permutation(10 * len(codes))
        one = int(rng.choice(codes))
        others = codes != one
        if not others.any():
            return

        def kept(rows: Ints) -> set[int]:
            found = drawn(codes[rows], numbers[rows], numbers).cut(most)
            return {int(names[rows[at]]) for at in found if others[rows[at]]}

        whole = kept(names)
        assert kept(names[others]) == whole  # the person is not there
        fewer = others | (rng.random(len(codes)) < 0.5)
        assert kept(names[fewer]) == whole  # or has fewer rows
        assert kept(rng.permutation(names)) == whole  # or stands elsewhere in the file

    @pytest.mark.parametrize("rule", [Persons.cut, lambda persons, most: np.arange(most)])
    def test_which_rows_stay_is_uniform(self, rule) -> None:
        """A rule that keeps the first rows is told from ours by the same test."""
        rng, codes = np.random.default_rng(1), np.zeros(5, dtype=np.int64)
        counts = dict.fromkeys(combinations(range(5), 2), 0)
        for _ in range(4000):
            counts[tuple(rule(Persons(codes, rng.bytes(32)), 2).tolist())] += 1
        uniform = stats.chisquare(list(counts.values())).pvalue > LEVEL
        assert uniform == (rule is Persons.cut)

    def test_two_persons_are_drawn_independently(self) -> None:
        rng, codes = np.random.default_rng(2), np.array([0, 1, 0, 1, 0, 1])
        table = np.zeros((3, 3), dtype=np.int64)
        for _ in range(4000):
            first, second = Persons(codes, rng.bytes(32)).cut(1)
            if codes[first] == 1:
                first, second = second, first
            table[first // 2, second // 2] += 1
        assert stats.chisquare(table.ravel()).pvalue > LEVEL

    def test_secrets_are_of_the_system_and_never_shown(self) -> None:
        persons = [Persons(np.zeros(40, dtype=np.int64)) for _ in range(2)]
        assert len({tuple(each.cut(20)) for each in persons}) == 2  # but for 1 in 10^11
        assert len({new_secret() for _ in range(10)}) == 10
        for shown in (repr, str):
            assert shown(persons[0]) == "Persons()"
        with pytest.raises(InvalidArgument) as error:
            Persons(np.zeros(3, dtype=np.int64), b"secret")
        assert "secret'" not in str(error.value)
        with pytest.raises(InvalidArgument):
            persons[0].cut(0)


class TestSplit:
    """Nobody on both sides."""

    @pytest.mark.parametrize("seed", range(60))
    def test_nobody_is_on_both_sides(self, seed: int) -> None:
        persons = random_persons(np.random.default_rng(seed))
        kept, held = persons.split(80)
        rows = len(persons.codes)
        assert len(kept) == rows * 80 // 100  # public: by the number of rows alone
        assert not {*persons.codes[kept].tolist()} & {*persons.codes[held].tolist()}
        assert len({*kept.tolist(), *held.tolist()}) == len(kept) + len(held)
        # Only rows of one person are in neither part.
        left = np.setdiff1d(np.arange(rows), np.concatenate([kept, held]))
        assert len({*persons.codes[left].tolist()}) <= 1

    def test_everybody_is_as_likely_to_be_held_out(self) -> None:
        """Whatever their ids and places are: here all have two rows."""
        rng, codes, found = np.random.default_rng(3), np.repeat(np.arange(10), 2), np.zeros(10)
        for _ in range(3000):
            held = Persons(codes, rng.bytes(32)).split(80)[1]
            found += np.bincount(codes[held], minlength=10) / 2
        # Two of ten are drawn without replacement, so counts scatter less than a multinomial's.
        assert (np.abs(found - 600) < 6 * np.sqrt(3000 * 0.2 * 0.8)).all()
        assert found.sum() == 6000

    @pytest.mark.parametrize("seed", range(20))
    def test_others_stay_where_they_are_if_one_person_is_replaced(self, seed: int) -> None:
        """By somebody with as many rows, at other places of the file."""
        rng = np.random.default_rng(seed)
        codes = random_persons(rng).codes
        rows, persons = rng.permutation(len(codes)), rng.permutation(100)
        places = rng.permutation(len(codes))

        def parts(order: Ints) -> list[set[int]]:
            found = drawn(codes[order], rows[order], persons).split(80)
            return [{int(order[at]) for at in part} for part in found]

        assert parts(np.arange(len(codes))) == parts(places)

    def test_cuts_and_splits_have_draws_of_their_own(self) -> None:
        """A row that was lucky once is not lucky again."""
        rng, codes = np.random.default_rng(4), np.arange(2000)
        persons = Persons(codes, rng.bytes(32))
        numbers = [persons._numbers(name, 2000) for name in ("rows", "persons", "split")]
        for first, second in combinations(numbers, 2):
            assert abs(stats.spearmanr(first, second).statistic) < 6 / np.sqrt(2000)


TABLE = """\
target = "ill"
classes = ["no", "yes"]
person = "who"

[columns.age]
bounds = [0, 120]
"""


def written(path: Path, ids: list[object], name: str = "people.csv") -> Path:
    place = path / name
    rows = "".join(f"{i},{20 + at % 60},{'yes' if at % 3 else 'no'}\n" for at, i in enumerate(ids))
    place.write_text(f"who,age,ill\n{rows}")
    return place


class TestTables:
    """The column that tells persons apart."""

    def test_it_is_no_feature_and_tells_rows_apart_as_they_are_written(self, tmp_path) -> None:
        ids = ["007", "7", "a", " a ", "A", "7.0", "7"]
        table = table_file.read(written(tmp_path, ids), None, Columns.from_toml(TABLE))
        assert table.feature_names == ("age",)
        assert table.reads_private_data == ()
        assert table.persons is not None
        assert table.persons.tolist() == [0, 1, 2, 2, 3, 4, 1]

    def test_parquet_has_numbers(self, tmp_path) -> None:
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, which is optional")
        path, known = tmp_path / "people.parquet", Columns.from_toml(TABLE)
        frame = {"age": [1, 2, 3, 4], "ill": ["no", "yes"] * 2}
        for ids in ([7, 8, 7, 9], [7.0, 8.0, 7.0, 9.0], ["7", "8", "7", "9"]):
            pd.DataFrame({"who": ids, **frame}).to_parquet(path)
            table = table_file.read(path, None, known)
            assert table.persons is not None
            assert table.persons.tolist() == [0, 1, 0, 2]
        pd.DataFrame({"who": [7, None, 7, 9], **frame}).to_parquet(path)
        with pytest.raises(DataError, match="row 2"):
            table_file.read(path, None, known)

    @pytest.mark.parametrize("missing", ["", "  ", "NA", "nan", "null"])
    def test_a_row_of_nobody_is_refused(self, tmp_path, missing: str) -> None:
        """It could be of anybody who has k rows already."""
        path = written(tmp_path, ["a", "b", missing, "a"])
        with pytest.raises(DataError, match=r"Column who tells persons apart .* row 3"):
            table_file.read(path, None, Columns.from_toml(TABLE))

    @pytest.mark.parametrize("draft", [False, True])
    def test_no_id_is_told(self, tmp_path, draft: bool) -> None:
        known = Columns.from_toml("read_from_data = true\n" * draft + TABLE)
        for word in (*WORDS, *(word + "\n" for word in WORDS)):
            for last in ("b", "", "NA"):
                path = written(tmp_path, [f'"{word}"', "b", f'"{word}"', last])
                found, told = said(lambda path=path: table_file.read(path, None, known))
                assert not leaked(told)
                if isinstance(found, table_file.UserTable):
                    assert not leaked(found.feature_names, found.reads_private_data, found.notes)
                    assert not leaked(found)

    @pytest.mark.parametrize(
        "lines",
        [
            'target = "who"\nperson = "who"',
            'target = "ill"\nperson = "age"\n[columns.age]\nbounds = [0, 1]',
            'target = "ill"\nperson = "age"\n[columns.age]\nlevels = ["a"]',
            'target = "ill"\nperson = 7',
        ],
    )
    def test_what_is_learned_from_tells_nobody_apart(self, lines: str) -> None:
        for draft in ("", "read_from_data = true\n"):
            with pytest.raises(InvalidArgument) as error:
                Columns.from_toml(draft + lines)
            assert error.value.argument == "person"
            assert not draft or "who" not in str(error.value)

    def test_a_description_is_written_and_read_again(self) -> None:
        for text in (TABLE, TABLE + "\n[columns.who]\nignore = true\n"):
            known = Columns.from_toml(text)
            assert known.person == "who"
            assert list(known.features) == ["age"]
            assert Columns.from_toml(known.to_toml()) == known

    def test_options_and_description_agree(self, tmp_path) -> None:
        path = written(tmp_path, ["a", "b"] * 50)
        (tmp_path / "columns.toml").write_text(TABLE)
        columns = str(tmp_path / "columns.toml")
        assert Source(str(path), None, columns, person="who").described().person == "who"
        plain = Source(str(path), "ill", None, "no,yes", person="who")
        assert plain.described().person == "who"
        for wrong in (
            {"columns": columns, "person": "age"},
            {"target": "who", "person": "who"},
            {"target": "who", "columns": columns},
        ):
            with pytest.raises(InvalidArgument):
                Source(str(path), **wrong)
        with pytest.raises(InvalidArgument):
            Source("breast-cancer", person="who")
        with pytest.raises(InvalidArgument) as error:
            Source(str(path), "ill", person="whom").read(persons=True)
        assert error.value.argument == "person"

    @pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
    def test_whoever_does_not_count_says_so(self, tmp_path) -> None:
        source = Source(
            str(written(tmp_path, ["a", "b"] * 50)), "ill", None, "no,yes", person="who"
        )
        with pytest.warns(UserWarning, match="Rows per person are not counted here"):
            assert source.read().persons is None

    @pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
    def test_cut_then_held_out(self, tmp_path) -> None:
        rng = np.random.default_rng(6)
        ids = [f"p{each}" for each in rng.integers(0, 60, 400)]
        source = Source(str(written(tmp_path, ids)), "ill", None, "no,yes", person="who")
        secret = rng.bytes(32)
        whole = source.read(persons=True, secret=secret)
        cut = whole.cut(3)
        assert cut.persons is not None
        assert counted(cut.persons.codes).max() == 3
        np.testing.assert_array_equal(cut.y, whole.y[cut.X.index])
        train, test_X, test_y = held_out(cut)
        assert train.persons is not None
        who = np.asarray(ids)
        assert not {*who[train.X.index]} & {*who[test_X.index]}
        np.testing.assert_array_equal(test_y, whole.y[test_X.index])
        np.testing.assert_array_equal(train.y, whole.y[train.X.index])
        assert len(train.y) == len(cut.y) * 80 // 100
        again = held_out(source.read(persons=True, secret=secret).cut(3))[0]
        assert list(again.X.index) == list(train.X.index)
        other = held_out(source.read(persons=True).cut(3))[0]
        assert list(other.X.index) != list(train.X.index)

    @pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
    def test_one_person_cannot_be_held_out(self, tmp_path) -> None:
        source = Source(str(written(tmp_path, ["a"] * 90)), "ill", None, "no,yes", person="who")
        with pytest.raises(InvalidArgument) as error:
            held_out(source.read(persons=True).cut(90))
        assert error.value.argument == "rows"


class TestDrafts:
    """`sordino data describe` proposes the column."""

    @pytest.mark.parametrize(
        ("column", "proposed"),
        [
            (("patient_id", [f"a{at // 3}" for at in range(90)]), True),
            (("patientId", [at // 30 for at in range(90)]), True),
            (("Customer No", [at // 3 for at in range(90)]), True),
            (("user", [f"u{at // 3}" for at in range(90)]), True),
            (("file", [f"u{at % 30}" for at in range(90)]), False),
            (("user", ["new", "old", "new"] * 30), False),  # two kinds
            (("patient_id", [f"a{at}" for at in range(90)]), False),  # each once
            (("person", [at / 7 for at in range(90)]), False),
            (("number_of_patients", [at // 3 for at in range(90)]), False),
            (("visits", [f"v{at // 2}" for at in range(900)]), True),  # by what it holds
        ],
    )
    def test_what_is_proposed(self, tmp_path, column, proposed: bool) -> None:
        name, ids = column
        frame = pd.DataFrame(
            {"age": np.arange(len(ids)) % 50, name: ids, "ill": ["no", "yes"] * (len(ids) // 2)}
        )
        frame.to_csv(tmp_path / "people.csv", index=False)
        drafted = table_file.draft(tmp_path / "people.csv", "ill")
        known = Columns.from_toml(drafted.toml)
        assert known.person == (name if proposed else None)
        assert known.read_from_data
        if proposed:
            assert name not in known.features
            assert drafted.of_people
            assert "people with several rows each in column 2" in drafted.looks
            table = table_file.read(tmp_path / "people.csv", None, replace_draft(known))
            assert table.persons is not None

    def test_how_often_anybody_occurs_is_not_told(self, tmp_path) -> None:
        ids = ["a1"] * 4397 + [f"b{at}" for at in range(3000)] * 2
        frame = pd.DataFrame({"patient_id": ids, "ill": (["no", "yes"] * len(ids))[: len(ids)]})
        frame["age"] = np.arange(len(ids)) % 50
        frame.to_csv(tmp_path / "people.csv", index=False)
        drafted = table_file.draft(tmp_path / "people.csv", "ill")
        assert 'person = "patient_id"' in drafted.toml
        for told in (drafted.toml, drafted.looks):
            assert not any(number in told for number in ("4397", "4,397", "3000", "3,000", "a1"))


def replace_draft(known: Columns) -> Columns:
    """The same, declared public."""
    return Columns(known.target, known.classes, known.columns, False, known.person)
