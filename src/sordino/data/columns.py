"""`Columns`: what is publicly known about a table before anybody looks at its rows.

Bounds of numbers and levels of categories that are given here were not read from the data, so a
release that uses them leaks nothing through them. They are kept in a TOML file::

    target = "income"
    classes = ["<=50K", ">50K"]
    person = "patient"

    [columns.age]
    bounds = [0, 120]

    [columns.sex]
    levels = ["Female", "Male"]

A target that is a number has ``bounds = [0, 400]`` beside it instead of classes.

The order of the columns is part of the description: rows are prepared in it, whatever the order in
a file. `read_from_data = true` says that all this is a draft which was read off the rows.
"""

from __future__ import annotations

import math
import sys
import textwrap
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sordino import _files, checks
from sordino.errors import InvalidArgument, printable
from sordino.serialize import toml, toml_key

Label = str | int | float | bool
"""A level or a class, as a TOML file can write it."""

_ONE_KEY = "Give bounds = [low, high], levels = [...] or ignore = true."
_DRAFT = "Delete the next line when all of this is public knowledge."
_DRAFT_PERSON = "Does it tell persons apart? Rows are counted by it. If not, delete the next line."
NOT_THE_TARGET = ("not to describe the target", "Give classes = [...] instead.")
_NOT_LEARNED = "It tells persons apart, and nothing is learned from it."
_LINE = 80


@dataclass(frozen=True)
class Column:
    """One column: numbers within `bounds`, one of `levels`, or left out; exactly one of the three.

    Numbers are scaled to [0, 1] between the bounds, and values outside count as the nearer bound.
    A level becomes a 0/1 column of its own; a value that is none of the levels is all zeros.
    """

    bounds: tuple[float, float] | None = None
    levels: tuple[Label, ...] | None = None
    ignore: bool = False

    @classmethod
    def of(cls, name: str, given: object) -> Column:
        """Check what a file says about the column `name`."""
        name = printable(name, 60)
        if not isinstance(given, Mapping):
            checks.fail(f"column {name}", given, "to be a table", _ONE_KEY)
        for key in given:
            checks.one_of(f"key of column {name}", key, ("bounds", "levels", "ignore"))
        if len(given) != 1:
            checks.fail(f"column {name}", list(given), "to have exactly one key", _ONE_KEY)
        if "bounds" in given:
            return cls(bounds=_bounds(name, given["bounds"]))
        if "levels" in given:
            return cls(levels=_labels(f"levels of column {name}", given["levels"], at_least=1))
        if given["ignore"] is not True:
            checks.fail(f"ignore of column {name}", given["ignore"], "to be true", _ONE_KEY)
        return cls(ignore=True)


@dataclass(frozen=True)
class Columns:
    """The public description of a table; columns that are not described must be read off the rows.

    Parameters
    ----------
    target
        Name of the column to predict.
    classes
        The labels there can be.
    columns
        What is known of the others, by name, in the order in which they become numbers.
    read_from_data
        Whether all this was read off the rows, and nobody has declared it public since.
    person
        Name of the column that tells persons apart, so that their rows can be counted; nothing is
        learned from it.
    bounds
        Of a target that is a number, low and high, instead of classes.
    """

    target: str | None = None
    classes: tuple[Label, ...] | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    read_from_data: bool = False
    person: str | None = None
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.bounds is not None and self.classes is not None:
            hint = "A target is a number within bounds, or one of the classes."
            checks.fail("bounds", "[...]", "or classes, not both", hint)
        if self.target is not None and self.target in self.columns:
            checks.fail("columns", self.target, *NOT_THE_TARGET)
        if self.person is None:
            return
        shown = "[not shown]" if self.read_from_data else repr(printable(self.person, 60))
        if self.person == self.target:
            checks.fail("person", shown, "not to be the target", _NOT_LEARNED)
        if self.person in self.features:
            checks.fail("person", shown, "not to be a column with bounds or levels", _NOT_LEARNED)

    @classmethod
    def from_file(cls, path: str | Path) -> Columns:
        """Read a TOML file; whatever is not understood is refused in a sentence."""
        with _files.explained("columns", path, "read"):
            return cls.from_toml(_files.read_text(path))

    @classmethod
    def from_toml(cls, text: str) -> Columns:
        """Read the text of such a file."""
        try:
            given = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
            raise InvalidArgument(f"The description is not valid TOML: {error}.") from None
        for key in given:
            keys = ("read_from_data", "target", "classes", "bounds", "person", "columns")
            checks.one_of("key of the description", key, keys)
        target, person = given.get("target"), given.get("person")
        for key, value in (("target", target), ("person", person)):
            if value is not None and not isinstance(value, str):
                checks.fail(key, value, "to be the name of a column, in quotes")
        classes = given.get("classes")
        described = given.get("columns", {})
        if not isinstance(described, Mapping):
            checks.fail("columns", described, "to be tables, such as [columns.age]")
        draft = checks.flag("read_from_data", given.get("read_from_data", False))
        return cls(
            target,
            None if classes is None else _labels("classes", classes, at_least=2),
            {
                # A draft's names are those of the file, which may be a record.
                name: Column.of(f"number {place}" if draft else name, column)
                for place, (name, column) in enumerate(described.items(), 1)
            },
            draft,
            person,
            None if given.get("bounds") is None else _bounds("target", given["bounds"]),
        )

    def to_toml(self, heading: str = "", remarks: Mapping[str, str] | None = None) -> str:
        """Write the file that `from_toml` reads.

        Parameters
        ----------
        heading
            Lines of comment for the top.
        remarks
            A line of comment for some of the columns, the target among them, by name.
        """
        remarks = remarks or {}
        lines = _comment(heading)
        lines += ["", *_comment(_DRAFT), "read_from_data = true", ""] if self.read_from_data else []
        lines += _comment(remarks.get(self.target or "", ""))
        lines += [f"target = {_value(self.target)}"] if self.target is not None else []
        lines += [f"classes = {_listed(self.classes)}"] if self.classes is not None else []
        lines += [f"bounds = {_listed(self.bounds)}"] if self.bounds is not None else []
        lines += _comment(_DRAFT_PERSON) if self.read_from_data and self.person else []
        lines += [f"person = {_value(self.person)}"] if self.person is not None else []
        for name, column in self.columns.items():
            lines += ["", f"[columns.{toml_key(name, escaped=True)}]"]
            lines += _comment(remarks.get(name, ""))
            if column.bounds is not None:
                lines.append(f"bounds = {_listed(column.bounds)}")
            elif column.levels is not None:
                lines.append(f"levels = {_listed(column.levels)}")
            else:
                lines.append("ignore = true")
        return "\n".join(lines) + "\n"

    def with_person(self, person: str | None) -> Columns:
        """The same with the column that somebody named beside it, if they agree."""
        if person is None:
            return self
        if self.person not in (None, person):
            checks.fail("person", person, "to be the column that the description names")
        return replace(self, person=person)

    @property
    def features(self) -> dict[str, Column]:
        """The columns to learn from, in order: all that are not left out."""
        return {name: column for name, column in self.columns.items() if not column.ignore}

    @property
    def ignored(self) -> list[str]:
        """Names of the columns that are left out."""
        return [name for name, column in self.columns.items() if column.ignore]


def feature_names(
    described: Mapping[str, Column], secret: Collection[str] = (), names: Sequence[str] = ()
) -> tuple[str, ...]:
    """Names of the features, which are published: `secret` columns and their levels are numbered.

    `names` are those of the file, to tell places.
    """
    from sordino.data.cells import spelled

    features: list[str] = []
    for name, column in described.items():
        levels: list[Any] = [] if column.levels is None else list(spelled(column.levels))
        if name in secret:
            place = f"column {names.index(name) + 1}"
            features += [f"{place}#{number}" for number, _ in enumerate(levels, 1)] or [place]
        else:
            features += [f"{name}={level}" for level in levels] or [name]
    return tuple(features)


def _bounds(name: str, given: object) -> tuple[float, float]:
    what, wanted = f"bounds of column {name}", "to be two finite numbers, [low, high]"
    if not isinstance(given, list) or len(given) != 2:
        checks.fail(what, given, wanted)
    for value in given:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or abs(value) > sys.float_info.max or value != value:
            checks.fail(what, value, wanted)
    low, high = map(float, given)
    if not low < high or not math.isfinite(high - low):
        checks.fail(what, given, wanted)
    return low, high


def _labels(what: str, given: object, *, at_least: int) -> tuple[Label, ...]:
    """Words, numbers or true and false; not mixed, none twice.

    Sentences tell places: a draft holds what the records do.
    """
    listed = f"[{len(given)} of them]" if isinstance(given, list) else f"[{type(given).__name__}]"
    if not isinstance(given, list) or len(given) < at_least:
        checks.fail(what, listed, f'to be a list of {at_least} or more, such as ["no", "yes"]')
    kinds = set()
    for place, label in enumerate(given, 1):
        number = isinstance(label, int | float) and math.isfinite(label)
        word = isinstance(label, str) and label.strip() == label != ""
        if not number and not word:
            # A cell's surrounding blanks are taken away, and an empty cell is a missing one.
            checks.fail(what, f"[number {place}]", "to be trimmed words, or finite numbers")
        kinds.add("word" if word else "flag" if isinstance(label, bool) else "number")
    if len(kinds) > 1:
        checks.fail(what, listed, "to be all words, all numbers, or true and false")
    if len(set(given)) < len(given):
        again = next(place for place, label in enumerate(given, 1) if label in given[: place - 1])
        checks.fail(what, listed, f"to be all different; number {again} stands there twice")
    return tuple(given)


def _comment(text: str) -> list[str]:
    wrapper = textwrap.TextWrapper(_LINE - 2, break_long_words=False, break_on_hyphens=False)
    wrapped = (wrapper.wrap(line) or [""] for line in text.splitlines())
    return [f"# {line}".rstrip() for lines in wrapped for line in lines]


def _listed(values: Iterable[Label]) -> str:
    """A list; over several lines if it is long, for people to edit."""
    lines = [""]
    for item in map(_value, values):
        if lines[-1] and len(lines[-1]) + len(item) > _LINE:
            lines.append("")
        lines[-1] += f"{item}, "
    if len(lines) == 1:
        return f"[{lines[0].removesuffix(', ')}]"
    return "\n".join(["[", *(f"    {line.rstrip()}" for line in lines), "]"])


def _value(value: Label | None) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return toml(value, escaped=True)
