"""A study file: what is asked of an assessment, as TOML. `request.Request` holds what it says."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Mapping
from typing import Any

from sordino import _files, checks
from sordino.errors import InvalidArgument

PATHS = ("data", "columns", "data_dir", "mechanism", "pair", "ledger")
"""Settings that may name a file."""

TEMPLATE = """\
# A study for `sordino assess study.toml`. As it stands, it is what `sordino assess` does by itself.
# A line that begins with #NAME = shows what could be said: take the # away. Files are looked for
# beside this one. Options of the command line come before what is said here.

# The records: a name from `sordino data list`, or your own .csv, .csv.gz or .parquet.
data = "digits/binary"
# The column to predict; a file of your own needs it.
#target = "ill"
# The labels there can be. Left out, they are read off the labels: a leak that the page repeats.
#classes = ["no", "yes"]
# No row is longer than this, the intercept's 1 included: longer ones are scaled down. Left out, it
# is 1 for a file and the declared norm for a dataset. Never take it from the rows.
#data_norm = 1.0
# Where the raw files of a dataset like adult are.
#data_dir = "raw"

# logistic, svm, or mlp, of which less can be proved.
model = "logistic"
# How the release is made private: auto takes the best for public facts such as the size.
method = "auto"
# The weight of (l2/2) ||w||^2. More of it is easier to protect.
l2 = 0.001

# The promise: the lower, the less the model tells about anyone. 1 is strong, 10 is weak.
epsilon = 1.0
# The chance with which the promise may fail, far below 1 / records. Left out, it is 1 / records^2,
# rounded down to one digit.
#delta = 1e-6
# Rows that one person may have: all of them are protected together.
max_rows_per_person = 1
# The budget that the release is charged to: a file that `sordino ledger init` made, and the name
# of the budget in it. Asked before any work, charged once.
#ledger = "budgets.db"
#dataset = "patients-2026"

# quick, standard or thorough: how much is trained and attacked. What is proved stays the same.
effort = "standard"
# SGD's own noise is measured over so many seeds ...
#seeds = 98
# ... and so many datasets that differ in one record.
#neighbours = 50
# Runs of the attack on each of two datasets. More runs can refute a larger epsilon.
#audit_runs = 40000
# How sure what the attack observes shall be.
confidence = 0.99

# Attack something of your own instead, and nothing else: a function (data, generator) -> numbers,
# or a scikit-learn estimator. epsilon is then what it claims. It is imported and run, so
# `sordino assess study.toml` wants --run-code then: never pass it for a file you have not read.
#mechanism = "mine.py:train"
# With it, instead of data: a function that returns the two datasets.
#pair = "mine.py:pair"

# What is known of a file's columns without looking at its rows, in a file of its own
# (`sordino data describe` drafts one) ...
#columns = "columns.toml"
# ... or here, below all else. What is left out is read off the rows: a leak that the page repeats.
# Whoever copies a draft keeps this line until every number and word is public knowledge:
#read_from_data = true
#[columns.age]
#bounds = [0, 120]
#[columns.sex]
#levels = ["female", "male"]
#[columns.patient]
#ignore = true
"""


def text_of(path: str | os.PathLike[str]) -> str:
    """The text of a study file."""
    hint = "`sordino assess --write-study > study.toml` makes one to edit."
    with _files.explained("study", path, "read", hint):
        return _files.read_text(path)


def parsed(text: str, names: Collection[str]) -> dict[str, Any]:
    """What a study file says, by the names of the settings; their values are checked elsewhere.

    Parameters
    ----------
    text
        TOML.
    names
        The settings there are; `described` stands for the tables [columns.NAME].
    """
    try:
        given = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
        raise InvalidArgument(f"The study is not valid TOML: {error}.") from None
    keys = [name for name in names if name != "described"]
    for key in given:
        hint = "`sordino assess --write-study` explains them."
        checks.one_of("key of the study", key, keys, hint)
    columns = given.get("columns")
    if isinstance(columns, Mapping):
        for name, described in columns.items():
            _check_above(name, described, keys)
        given["described"] = given.pop("columns")
    elif columns is not None and not isinstance(columns, str):
        hint = 'Write columns = "columns.toml", or tables such as [columns.age].'
        checks.fail("columns", columns, "to be the name of a file, or tables", hint)
    return given


def _check_above(column: str, described: object, keys: Collection[str]) -> None:
    """TOML gives every line below [columns.NAME] to that column."""
    for key in described if isinstance(described, Mapping) else ():
        if key in keys:
            hint = f"Below it, it belongs to column {column}."
            where = "to stand above the first [columns.NAME]"
            raise InvalidArgument(f"Expected the key {key} {where}. {hint}")


def beside(path: str | os.PathLike[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings with files looked for where the study file is."""
    directory = os.path.dirname(os.fspath(path))
    return {name: _placed(name, value, directory) for name, value in given.items()}


def in_full(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings with files by their full paths, which mean the same everywhere."""
    return {name: _placed(name, value, os.getcwd()) for name, value in settings.items()}


def _placed(name: str, value: Any, directory: str) -> Any:
    """The value with its file found from `directory`; as it is, if it names no file."""
    if name not in PATHS or not isinstance(value, str):
        return value
    if name in ("mechanism", "pair"):
        place, colon, thing = value.rpartition(":")
        file = place.endswith(".py")
        return f"{_joined(directory, place)}{colon}{thing}" if file else value
    if name == "data":
        from sordino.data.source import names_file

        if not names_file(value, directory):
            return value
    return _joined(directory, value)


def _joined(directory: str, path: str) -> str:
    return os.path.join(directory, os.path.expanduser(path))


def written(heading: str, settings: Mapping[str, Any]) -> str:
    """A study file of these settings; those that are None are left out."""
    lines = [f"# {heading}"]
    for name, value in settings.items():
        if value is not None and name != "described":
            lines.append(f"{name} = {toml_value(name, value)}")
    return "\n".join(lines) + "\n" + described_part(settings.get("described") or {})


def described_part(described: Mapping[str, Mapping[str, Any]]) -> str:
    """The tables that describe columns."""
    from sordino.serialize import toml_key

    lines = []
    for name, column in described.items():
        lines += ["", f"[columns.{toml_key(name)}]"]
        lines += [
            f"{toml_key(key)} = {toml_value(f'column {name}', each)}"
            for key, each in column.items()
        ]
    return "\n".join(lines) + "\n" if lines else ""


def toml_value(name: str, value: Any) -> str:
    """A value as TOML; what TOML cannot hold is refused by `name`."""
    from sordino.serialize import refusing, toml  # here: the command line's help does without

    with refusing(f"setting {name}", InvalidArgument):
        return toml(value)
