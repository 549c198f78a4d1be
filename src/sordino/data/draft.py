"""A first description of a user's own table, for somebody who knows better to edit.

It is read off the rows: READS PRIVATE DATA, and every draft says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sordino.data import frames, header, looks
from sordino.data.cells import Cells, Unusable
from sordino.data.columns import Column, Columns
from sordino.data.looks import Look
from sordino.data.table_file import checked, no_cells

_DESCRIBED = """\
READ FROM THE DATA: the bounds, levels and classes below are what these records hold, and the \
names are the file's first line. Keep this as private as the records until you have gone through \
it. Replace each by what is known without looking, such as [0, 120] for an age, or the levels that \
a form offers. Used as they are, they tell about the records, a leak that no guarantee covers.
A column has bounds = [low, high] (numbers), levels = [...] (words) or ignore = true (left out).
Missing values need no care: a missing number counts as the middle of its bounds, and a missing or \
unknown level is zero in all of the level's columns. Every record needs a label.
The promise is for one row. Where a person may have several, pass --max-rows-per-person."""
_TOO_MANY = "more than can be gone through. Leave the column out (ignore = true), or group them."
_NO_LABEL = "Records without a label, which `sordino release` refuses (fill them in or drop them)"


@dataclass(frozen=True)
class Draft:
    """What `draft` gives.

    Parameters
    ----------
    toml
        A file of columns for somebody who knows better to edit. It holds what the records hold, and
        says so.
    looks
        Columns to look at first, by their place, and what they seem to be; it holds no cell.
    of_people
        Whether one seems to tell people with several rows each.
    """

    toml: str
    looks: str
    of_people: bool


def draft(path: str | Path, target: str) -> Draft:
    """Describe a table AS ITS ROWS ARE.

    A column that `read` would refuse, or that looks like identifiers, people or dates, is ignored
    there, with a remark.
    """
    target, names = checked(path, target, Columns())
    with no_cells(path):
        frame = frames.read(path, names, words=(), leave_out=())
        coded = frames.zeros_in_front(path, names) - {target}
        codes = _codes(path, names, coded) if coded else {}
        labels = Cells(header.called(target, names, {target}), frame.pop(target))
        described, remarks, seen = {}, {}, {}
        for name in frame.columns:
            cells = Cells("", frame[name])
            if kind := looks.look(cells, name in coded):
                seen[name] = kind
            described[name], remarks[name] = _drafted_column(cells, kind, codes.get(name, set()))
        if empty := np.count_nonzero(labels.missing):
            remarks[target] = f"{_NO_LABEL}: {empty:,} of {len(frame):,}."
        drafted = Columns(target, labels.classes(), described, read_from_data=True)
    return Draft(
        drafted.to_toml(_DESCRIBED, remarks),
        looks.told(seen, names),
        Look.PEOPLE in seen.values(),
    )


def _codes(path: str | Path, names: Sequence[str], coded: set[str]) -> dict[str, set[str]]:
    """The different values of columns of codes, as they are written."""
    frame = frames.read(path, names, words=coded, leave_out=set(names) - coded)
    return {name: Cells("", frame[name]).words.difference(frames.MISSING) for name in coded}


def _drafted_column(cells: Cells, kind: Look | None, codes: set[str]) -> tuple[Column, str]:
    """A column as its rows are, by its `codes` if it has some; and a remark."""
    remark = kind.remark if kind else ""
    if (kind and kind.left_out) or len(codes) > looks.MANY:
        return Column(ignore=True), remark
    try:
        column = cells.inferred()
    except Unusable as unusable:
        return Column(ignore=True), f"It {unusable.why}."
    levels = len(column.levels or ())
    if levels > looks.MANY:
        return column, f"{levels:,} levels: {_TOO_MANY}"
    return Column(levels=tuple(sorted(codes))) if codes else column, remark
