"""`Source`: the records a command works on, a dataset by its name or a file of the user's own."""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from sordino import _check

if TYPE_CHECKING:
    from sordino.data import Dataset
    from sordino.data.columns import Columns, Label
    from sordino.data.table_file import UserTable

_ADVICE = {
    "draft": "{columns} is a draft read from the data: put in what you know without looking, then "
    "delete read_from_data = true from it",
    "classes": "Say which classes there can be (--classes, or in the file of columns)",
    "rest": "Describe the other columns in {columns} too (`sordino data describe` drafts them)",
    "all": "Describe the columns: `sordino data describe {data} --target {target} > columns.toml`, "
    "put in what you know without looking, and pass it as --columns",
}
_TEN_DIGITS = ("digits", "mnist")
"""Datasets with ten classes; all others have two."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """Records ready for a fit, and what is known of them.

    Parameters
    ----------
    X, y
        Rows and labels.
    classes
        The labels there can be; None if nobody said, and the labels themselves must tell.
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


@dataclass(frozen=True)
class Source:
    """The options that say where records come from; checked before any is read."""

    data: str
    target: str | None = None
    columns: str | None = None
    classes: str | None = None
    data_norm: float | None = None
    data_dir: str | None = None

    def __post_init__(self) -> None:
        if self.data_norm is not None:
            hint = "Pass a norm that you know without looking at the data, such as 1.0."
            _check.positive("--data-norm", self.data_norm, hint)
        if self.is_file:
            self._check_file()
        else:
            self._check_name()

    @property
    def is_file(self) -> bool:
        """Whether a file of the user's is meant; a dataset's name comes first."""
        from sordino.data import names

        looks_so = "." in os.path.basename(self.data) or os.path.exists(self.data)
        return self.data not in names() and looks_so

    def _check_file(self) -> None:
        from sordino.data import frames

        frames.check_path(self.data)
        known = self.described()
        if self.target is None and known.target is None:
            not_given("--target COLUMN", "for a file", "Pass the name of the column to predict.")

    def _check_name(self) -> None:
        from sordino.data import recipe
        from sordino.data.frames import ENDINGS

        try:
            name = recipe(self.data).name
        except _check.InvalidArgument as error:
            files = f"Or pass a file that ends in {', '.join(ENDINGS)}."
            raise _check.InvalidArgument(f"{error} {files}") from None
        for option in ("target", "columns", "classes"):
            if (value := getattr(self, option)) is not None:
                hint = f"{name} comes with its own."
                _check.fail(f"--{option}", value, "to be left out for a dataset by name", hint)

    def described(self) -> Columns:
        """What the options say about the columns of a file."""
        from sordino.data.columns import Columns

        known = Columns() if self.columns is None else Columns.from_file(self.columns)
        if self.classes is None:
            return known
        if known.classes is not None:
            hint = f"{self.columns} has them too."
            _check.fail("--classes", self.classes, "to be given once", hint)
        return replace(known, classes=_classes(self.classes))

    def read(self) -> Prepared:
        """Read and prepare the records; what that takes from them is warned about."""
        return self._read_file() if self.is_file else self._read_named()

    def _read_file(self) -> Prepared:
        import pandas as pd

        from sordino.data import table_file

        known = self.described()
        table = table_file.read(self.data, self.target, known)
        # What was read off the rows is not published: only that it was.
        public = not table.reads_private_data and table.classes is not None
        return Prepared(
            # With names, so that a certificate tells which weight belongs to what.
            pd.DataFrame(table.X, columns=list(table.feature_names), copy=False),
            table.y,
            None if table.classes is None else list(table.classes),
            1.0 if self.data_norm is None else self.data_norm,
            table.reads_private_data,
            table.notes,
            replace(known, target=self.target or known.target).to_toml() if public else "",
            advice="" if public else self._advice(known, table),
        )

    def _advice(self, known: Columns, table: UserTable) -> str:
        if known.read_from_data:
            case = "draft"
        elif not table.reads_private_data:
            case = "classes"
        else:
            case = "all" if self.columns is None else "rest"
        names = {"data": self.data, "columns": self.columns, "target": self.target or known.target}
        return f"{_ADVICE[case].format(**names)}, to release without this leak."

    def _read_named(self) -> Prepared:
        from sordino.data import load
        from sordino.privacy import PrivacyLeakWarning

        splits = load(self.data, data_dir=self.data_dir)
        train, norm, reads = splits.train, self.data_norm, splits.reads_private_data
        if norm is None:
            if train.norm_bound is None:
                hint = "Pass one you know without looking; longer rows are scaled down to it."
                not_given("--data-norm NORM", f"for {self.data}, which declares none", hint)
            norm = math.hypot(train.norm_bound, 1.0)  # the intercept's 1 included
        for what in reads:
            said = f"Not private: preparing {self.data} read the {what}."
            warnings.warn(said, PrivacyLeakWarning, stacklevel=2)
        classes = list(range(10 if splits.recipe.name in _TEN_DIGITS else 2))
        return Prepared(train.X, train.y, classes, norm, reads, test=splits.test)


def not_given(option: str, when: str, hint: str) -> NoReturn:
    """Refuse a command without an option it needs, by the option's name as it is typed."""
    raise _check.InvalidArgument(f"Expected {f'{option} {when}'.rstrip()}. {hint}")


def _classes(listed: str) -> tuple[Label, ...]:
    """The classes of a list with commas: numbers if all are."""
    words = [word.strip() for word in listed.split(",")]
    if len(words) < 2 or len(set(words)) < len(words) or "" in words:
        hint = "Pass the labels there can be, such as --classes no,yes."
        _check.fail("--classes", listed, "to be at least two, all different", hint)
    try:
        found = [float(word) for word in words]
    except ValueError:
        return tuple(words)
    return tuple(int(each) if each.is_integer() else each for each in found)
