"""`Source`: the records a command works on, a dataset by its name or a file of the user's own."""

from __future__ import annotations

import math
import os
import shlex
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from sordino import checks
from sordino.errors import InvalidArgument

if TYPE_CHECKING:
    from sordino.data import Dataset
    from sordino.data.columns import Columns, Label
    from sordino.data.given import Given
    from sordino.data.persons import Persons
    from sordino.data.table_file import UserTable
    from sordino.types import Ints

_ADVICE = {
    "draft": "{columns} is a draft: correct it, then delete read_from_data = true",
    "classes": "Give --classes",
    "rest": "Describe the other columns in {columns} too (`sordino data describe` drafts them)",
    "all": "Describe the columns: {draft}, correct it, and pass --columns columns.toml",
}
_ADVICE_IN_MEMORY = {
    "draft": "Correct the description of the columns, which is a draft",
    "classes": "Pass classes=",
    "rest": "Describe the other columns in columns=, too",
    "all": "Pass columns=, a public description of the columns",
}
_TEN_DIGITS = ("digits", "mnist")
"""Datasets with ten classes; all others have two, or a number."""
_NOT_COUNTED = (
    "Rows per person are not counted here: neighbouring datasets differ in one row, not in all "
    "rows of one person."
)
IN_MEMORY = "data in memory"
"""What stands in the place of a name where records are passed as they are (`data.given`)."""
LEAST_ROWS = 50
"""Rows of a file, below which nothing can be held out and learned from the rest."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """Records ready for a fit, and what is known of them.

    Parameters
    ----------
    X, y
        Rows and labels.
    classes
        The labels there can be; None if nobody said, and the labels themselves must tell.
    target_bounds
        Of a target that is a number, low and high; then there are no classes.
    data_norm
        Public bound on a row's norm, the intercept's 1 included.
    reads_private_data
        What preparing them read off the rows.
    notes
        How they were prepared, in words.
    description
        The public description they were prepared by, as TOML; empty if it is not complete.
    test
        Rows that no training sees, where there are some.
    advice
        How to prepare them without reading so much off them; empty if nothing can be done.
    persons
        Whose each row is, where a column tells.
    unit
        Whether every number lies in [0, 1], as a described table's do, and no norm was asked for:
        then a model may have rows in these bounds instead of a norm.
    declared
        Whether `reads_private_data` is all that the preparation read: of rows that came prepared
        nobody here knows.
    """

    X: Any
    y: Any
    classes: list[Any] | None
    data_norm: float
    reads_private_data: tuple[str, ...]
    notes: tuple[str, ...] = ()
    description: str = ""
    test: Dataset | None = None
    advice: str = ""
    persons: Persons | None = None
    target_bounds: tuple[float, float] | None = None
    declared: bool = True
    unit: bool = False

    @property
    def made(self) -> tuple[str, ...]:
        """How rows were made; not the norm, the last note, where a model has them in bounds."""
        return self.notes[:-1] if self.unit else self.notes

    def take(self, places: Ints) -> Self:
        """Some of the rows."""
        X = self.X.iloc[places] if hasattr(self.X, "iloc") else self.X[places]
        persons = None if self.persons is None else self.persons.take(places)
        return replace(self, X=X, y=self.y[places], persons=persons)

    def cut(self, most: int) -> Self:
        """At most so many rows of everybody, drawn at random; all, where no column tells."""
        return self if self.persons is None else self.take(self.persons.cut(most))


@dataclass(frozen=True)
class Source:
    """The options that say where records come from; checked before any is read.

    Parameters
    ----------
    data, data_dir
        A dataset by name or a file; where a dataset's raw files are.
    target, columns, classes
        Of a file: what to predict, the description of its columns or the file that holds it, and
        the labels there can be, as "no,yes" or one by one.
    data_norm
        Public bound on a row's norm, the intercept's 1 included; longer rows are scaled down to it.
    person
        Of a file: the column that tells persons apart, unless the description names it.
    target_bounds
        Of a file whose target is a number: what it lies between, as "0,400".
    records
        Instead of a file, what is in memory; `data` only says so then.
    """

    data: str
    target: str | None = None
    columns: str | Columns | None = None
    classes: str | tuple[Label, ...] | None = None
    data_norm: float | None = None
    data_dir: str | None = None
    person: str | None = None
    records: Given | None = field(default=None, repr=False, compare=False)
    target_bounds: str | tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.data_norm is not None:
            checks.positive("--data-norm", self.data_norm)
        if self.records is not None and self.records.table is None:
            self._check_rows()
        elif self.is_file or self.records is not None:
            from sordino.data import frames

            if self.records is None:
                frames.check_path(self.data)
            known = self.described()  # checks them, whether or not a target is missing
            if self.target is None and known.target is None:
                hint = "Name the column to predict."
                if self.records is None:
                    checks.fail_missing("--target COLUMN", "for a file", hint)
                checks.fail_missing("target=COLUMN", "for a table", hint)
            replace(known, target=self.target or known.target)  # which may not be the person's
        else:
            self._check_name()

    @property
    def is_file(self) -> bool:
        """Whether a file of the user's is meant."""
        return self.records is None and names_file(self.data)

    def _check_rows(self) -> None:
        """Of rows that come prepared no column can be described any more."""
        for name in ("target", "columns", "person"):
            if getattr(self, name) is not None:
                hint = "Pass a table, to have it prepared."
                checks.fail(name, "[given]", "to be left out with rows of numbers", hint)

    def _check_name(self) -> None:
        from sordino.data.catalogue.recipes import recipe
        from sordino.data.frames import ENDINGS

        try:
            name = recipe(self.data).name
        except InvalidArgument as error:
            files = f"Or pass a file that ends in {', '.join(ENDINGS)}."
            raise InvalidArgument(f"{error} {files}", "data") from None
        columns = self.columns if isinstance(self.columns, str | None) else "[...]"
        given = {"target": self.target, "columns": columns, "classes": self.classes}
        given |= {"person": self.person, "target-bounds": self.target_bounds}
        for option, value in given.items():
            if value is not None:
                checks.fail(f"--{option}", value, f"to be left out for {name}")

    def described(self) -> Columns:
        """What the options say about the columns of a file."""
        from sordino.data.columns import Columns

        known = self.columns or Columns()
        if isinstance(known, str):
            known = Columns.from_file(known)
        known = known.with_person(self.person)
        if self.target_bounds is not None:
            if known.bounds is not None:
                where = f"to be left out: {self._where} has them"
                checks.fail("--target-bounds", "[...]", where)
            given_bounds = self.target_bounds
            if isinstance(given_bounds, str):
                given_bounds = listed_bounds(given_bounds)
            known = replace(known, bounds=given_bounds)
        if self.classes is None:
            return known
        if known.classes is not None:
            checks.fail("--classes", self.classes, f"to be left out: {self._where} has them")
        given = self.classes
        classes = listed_classes(given) if isinstance(given, str) else given
        return replace(known, classes=classes)

    @property
    def _where(self) -> str:
        """What describes the columns."""
        return self.columns if isinstance(self.columns, str) else "The study"

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Public bounds of a target that is a number; None of classes."""
        if self.is_file or self.records is not None:
            return self.described().bounds
        from sordino.data.catalogue.recipes import recipe

        return recipe(self.data).target_bounds

    def refuse_numbers(self) -> None:
        """Refuse a target that is a number, for those who take classes alone."""
        if self.bounds is not None:
            hint = "Numbers are predicted by `sordino release --model ridge`."
            checks.fail("target", "[a number]", "to be one of some classes here", hint)

    def read(
        self, *, persons: bool = False, secret: bytes | None = None, numbers: bool = False
    ) -> Prepared:
        """Read and prepare the records; what that takes from them is warned about.

        Parameters
        ----------
        persons
            Whether the caller counts rows per person (`Prepared.cut`); if it does not, and a column
            tells persons apart, that is warned about.
        secret
            Of the draws about persons; None takes a new one.
        numbers
            Whether the caller can do with a target that is a number; else that is refused.
        """
        if not numbers:
            self.refuse_numbers()
        if self.records is None and not self.is_file:
            return self._read_named()
        if self.records is not None and self.records.table is None:
            return self._read_rows(self.records)
        import pandas as pd

        from sordino.data import table_file
        from sordino.data.cells import Unusable
        from sordino.data.encoding import marked
        from sordino.data.persons import Persons, new_secret
        from sordino.data.sources import DataError

        known = self.described()
        if known.person is not None and not persons:
            warnings.warn(_NOT_COUNTED, stacklevel=2)
        try:
            given = self.data if self.records is None else self.records.table
            assert given is not None
            table = table_file.read(given, self.target, known)
        except Unusable as error:
            if not error.in_columns or self.records is not None:
                raise
            where = f"That file is {self._where}."
            if self.columns is None:  # what to type, where describing the column would help
                where = f"Draft one: {self._describe(known)}, and pass --columns columns.toml."
            raise DataError(f"{error} {where}") from None
        if table.classes is None and known.bounds is None:
            labels = len(set(table.y.tolist()))
            if labels > 10 and 2 * labels > len(table.y):
                why = "is the target and has hardly a label twice (an identifier?)"
                raise Unusable(str(self.target or known.target), why, "")
        norm = 1.0 if self.data_norm is None else self.data_norm
        # What was read off the rows is not published: only that it was.
        said = table.classes is not None or known.bounds is not None
        public = not table.reads_private_data and said
        return Prepared(
            # With names, so that a certificate tells which weight belongs to what.
            marked(pd.DataFrame(table.X, columns=list(table.feature_names), copy=False)),
            table.y,
            None if table.classes is None else list(table.classes),
            norm,
            table.reads_private_data,
            (*table.notes, _clipping(norm)),
            replace(known, target=self.target or known.target).to_toml() if public else "",
            advice="" if public else self._advice(known, table),
            persons=Persons(table.persons, secret or new_secret())
            if persons and table.persons is not None
            else None,
            target_bounds=known.bounds,
            unit=self.data_norm is None,
        )

    def _describe(self, known: Columns) -> str:
        """The command that drafts a description."""
        words = ("sordino", "data", "describe", self.data, "--target", self.target or known.target)
        return f"`{shlex.join(map(str, words))} > columns.toml`"

    def _advice(self, known: Columns, table: UserTable) -> str:
        if known.read_from_data:
            case = "draft"
        elif not table.reads_private_data:
            case = "classes"
        else:
            case = "all" if self.columns is None else "rest"
        if self.records is not None:
            return f"{_ADVICE_IN_MEMORY[case]}, to release without this leak."
        names = {"draft": self._describe(known), "columns": self._where}
        return f"{_ADVICE[case].format(**names)}, to release without this leak."

    def _read_rows(self, given: Given) -> Prepared:
        """Rows that came prepared: how, and what that read of them, is not known here."""
        norm = 1.0 if self.data_norm is None else self.data_norm
        classes = self.described().classes
        return Prepared(
            given.X,
            given.y,
            None if classes is None else list(classes),
            norm,
            (),
            ("rows are taken as they were given, as numbers", _clipping(norm)),
            declared=False,
        )

    def _read_named(self) -> Prepared:
        from sordino.data import load
        from sordino.errors import PrivacyLeakWarning

        splits = load(self.data, data_dir=self.data_dir)
        train, norm, reads = splits.train, self.data_norm, splits.reads_private_data
        if norm is None:
            if train.norm_bound is None:
                hint = "Pass a public one; longer rows are scaled down to it."
                checks.fail_missing("--data-norm NORM", f"for {self.data}", hint)
            norm = math.hypot(train.norm_bound, 1.0)  # the intercept's 1 included
        for what in reads:
            warnings.warn(f"Not private: {self.data} read the {what}.", PrivacyLeakWarning, 2)
        classes = list(range(10 if splits.recipe.name in _TEN_DIGITS else 2))
        notes = () if self.data_norm is None else (_clipping(norm),)
        found = Prepared(train.X, train.y, classes, norm, reads, notes, test=splits.test)
        if self.bounds is None:
            return found
        return replace(found, classes=None, target_bounds=self.bounds)


def held_out(prepared: Prepared, percent: int = 20) -> tuple[Prepared, Any, Any]:
    """Return the records to train on, and rows and labels to test with.

    A dataset by name has its own test rows. Of a file, `percent` % are drawn by position: which
    ones depends on the number of records, not on what they hold. Where persons are told apart,
    nobody is on both sides (`Persons.split`).

    Raises
    ------
    InvalidArgument
        If there are too few rows to do so, or one class only to learn.
    """
    if (test := prepared.test) is not None:
        return prepared, test.X, test.y
    from sordino.data import preprocess

    rows, persons = len(prepared.y), prepared.persons
    if rows < LEAST_ROWS:
        checks.fail("rows", rows, f">= {LEAST_ROWS}", f"{percent} % are held out to test.")
    if persons is None:
        kept, held = preprocess.shuffled(rows, 100 - percent, "assess")
    else:
        kept, held = persons.split(100 - percent)
    if not len(held):
        checks.fail("rows", rows, "to be of more persons", f"{percent} % are held out to test.")
    train, test_part = prepared.take(kept), prepared.take(held)
    if len(set(train.y.tolist())) < 2:
        checks.fail("labels", f"[{len(kept)} records]", "to be of more than one class")
    return train, test_part.X, test_part.y


def names_file(data: str, directory: str = "") -> bool:
    """Whether a user's file is meant, seen from `directory`; a dataset's name comes first."""
    from sordino.data import names

    if data == IN_MEMORY:
        return False
    path = os.path.join(directory, os.path.expanduser(data))
    return data not in names() and ("." in os.path.basename(data) or os.path.exists(path))


def _clipping(norm: float) -> str:
    return f"rows longer than {norm:g}, the intercept's 1 included, are scaled down to that norm"


def listed_bounds(listed: str) -> tuple[float, float]:
    """The bounds of a list with a comma."""
    try:
        low, high = (float(word) for word in listed.split(","))
    except ValueError:
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        checks.fail("--target-bounds", listed, "to be LOW,HIGH, two numbers such as 0,400")
    return low, high


def listed_classes(listed: str) -> tuple[Label, ...]:
    """The classes of a list with commas: numbers if all are."""
    words = [word.strip() for word in listed.split(",")]
    if len(words) < 2 or len(set(words)) < len(words) or "" in words:
        checks.fail("--classes", listed, "to be two or more different ones, such as no,yes")
    try:
        found = [float(word) for word in words]
    except ValueError:
        return tuple(words)
    return tuple(int(each) if each.is_integer() else each for each in found)
