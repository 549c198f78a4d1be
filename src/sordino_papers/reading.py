"""Reading a paper's TOML file; every key is known, every name refers to something."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from sordino import checks
from sordino.errors import InvalidArgument
from sordino.serialize import Forms, refusing
from sordino_papers.claims import (
    Drawing,
    Explanation,
    Paper,
    PaperClaim,
    PaperRun,
    Place,
    Printed,
    Tolerance,
)

KEYS = ("v1", "v2", "chen", "notes", "annamalai")
"""The papers, in the order they are shown."""
_COLUMN = "{column}"


@dataclass(frozen=True)
class _About:
    title: str
    authors: str
    year: int


@dataclass(frozen=True)
class _Explained:
    cells: tuple[str, ...]
    text: str
    shown_by: tuple[str, ...]


@dataclass(frozen=True)
class _Drawn:
    draw: str
    runs: tuple[str, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Row:
    key: str
    quantity: str
    tolerance: Mapping[str, Any]
    reason: str
    row: str = ""
    says: str = ""
    run: str | None = None
    runs: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    printed: Any = ""
    columns: tuple[str, ...] | None = None
    ours: bool = False
    full: bool = False
    setting: bool = False


@dataclass(frozen=True)
class _Shown:
    title: str
    printed_at: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[_Row, ...] = ()
    explained: tuple[_Explained, ...] = ()
    drawings: tuple[_Drawn, ...] = ()


@dataclass(frozen=True)
class _File:
    paper: _About
    places: Mapping[str, _Shown]
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@cache
def papers() -> dict[str, Paper]:
    """Every paper, checked against the others: runs may be another paper's."""
    found = {}
    for key in KEYS:
        text = resources.files("sordino_papers").joinpath(f"{key}.toml").read_text("utf-8")
        found[key] = read(key, text)
    names = {run for paper in found.values() for run in paper.runs}
    for paper in found.values():
        _check_names(paper, names)
    return found


def read(key: str, text: str) -> Paper:
    """One file's text."""
    with refusing(f"paper {key}", InvalidArgument):
        given: _File = Forms(by_hand=True).of(_File).read(tomllib.loads(text))
    runs = [_run(key, name, each) for name, each in given.runs.items()]
    about = given.paper
    return Paper(
        key,
        about.title,
        about.authors,
        about.year,
        {run.name: run for run in runs},
        tuple(_place(key, name, each) for name, each in given.places.items()),
    )


def _run(paper: str, name: str, given: Mapping[str, Any]) -> PaperRun:
    settings = {key: value for key, value in given.items() if key not in ("kind", "quick")}
    quick = given.get("quick", {})
    _known(f"{paper}/{name}.quick", quick, set(settings))
    return PaperRun(f"{paper}/{name}", given["kind"], settings, quick)


def _place(paper: str, key: str, given: _Shown) -> Place:
    name = f"{paper}/{key}"
    claims = [claim for row in given.rows for claim in _claims(paper, name, given, row)]
    _names_once(name, claims)
    _explanations_used(name, given.explained, claims)
    drawings = [
        Drawing(each.draw, tuple(_full_name(paper, run) for run in each.runs), each.arguments)
        for each in given.drawings
    ]
    return Place(name, given.title, given.printed_at, tuple(drawings), tuple(claims))


def _claims(paper: str, place: str, shown: _Shown, row: _Row) -> list[PaperClaim]:
    """One claim a column, or one alone where the row has none."""
    name = f"{place}/{row.key}"
    if shown.columns:  # else the row has columns of its own
        _known(f"{name}.columns", row.columns or (), set(shown.columns))
    keys = list(shown.columns if row.columns is None else row.columns) or [""]
    texts = row.printed if isinstance(row.printed, list) else [row.printed] * len(keys)
    if len(texts) != len(keys):
        checks.fail(f"{name}.printed", texts, f"to have {len(keys)} entries, one a column")
    return [
        _claim(paper, place, shown, row, key, text)
        for key, text in zip(keys, texts, strict=True)
        if text or not isinstance(row.printed, list)  # the paper leaves this cell empty
    ]


def _claim(paper: str, place: str, shown: _Shown, row: _Row, column: str, text: str) -> PaperClaim:
    name = f"{place}/{row.key}" + (f"/{column}" if column else "")
    runs = row.runs or ((row.run,) if row.run is not None else ())
    claim = PaperClaim(
        name=name,
        place=place,
        row=row.row or row.says.rstrip(".") or row.key,
        column=shown.columns.get(column, column),
        says=row.says,
        quantity=row.quantity,
        runs=tuple(_full_name(paper, _filled(run, column)) for run in runs),
        arguments={key: _filled(value, column) for key, value in row.arguments.items()},
        printed=Printed.parse(text) if text else None,
        tolerance=Tolerance.read(_of_column(row.tolerance, column, shown.columns)),
        reason=row.reason,
        explanation=_explanation(name, place, shown.explained),
        ours=row.ours,
        full=row.full,
        setting=row.setting,
    )
    if claim.tolerance.needs_printed != (claim.printed is not None):
        wanted = "a printed number" if claim.tolerance.needs_printed else "no printed number"
        checks.fail(f"{name}.tolerance", claim.tolerance.kind, f"to go with {wanted}")
    if claim.printed is None and not claim.says:
        checks.fail(f"{name}.says", "", "to be a sentence where nothing is printed")
    return claim


def _of_column(
    given: Mapping[str, Any], column: str, columns: Mapping[str, str]
) -> Mapping[str, Any]:
    """One tolerance for all, or a table of them by column: { adult = { ... }, else = { ... } }."""
    if not all(isinstance(each, Mapping) for each in given.values()):
        return given  # Tolerance.read refuses what it does not know
    if columns:
        _known("tolerance", given, {*columns, "else"})
    chosen: Mapping[str, Any] = given[column] if column in given else given["else"]
    return chosen


def _explanation(name: str, place: str, explained: Sequence[_Explained]) -> Explanation | None:
    for each in explained:
        if any(name == f"{place}/{cell}" for cell in each.cells):
            return Explanation(each.text, each.shown_by)
    return None


def _names_once(place: str, claims: Sequence[PaperClaim]) -> None:
    names = [claim.name for claim in claims]
    for name in names:
        if names.count(name) > 1:
            checks.fail(f"{place}.rows", name, "to be there once")


def _explanations_used(
    place: str, explained: Sequence[_Explained], claims: Sequence[PaperClaim]
) -> None:
    left = {claim.name for claim in claims}
    for cell in [cell for each in explained for cell in each.cells]:
        if f"{place}/{cell}" not in left:
            condition = "to be a cell of that place, explained once"
            checks.fail(f"{place}.explained.cells", cell, condition)
        left.remove(f"{place}/{cell}")


def _filled(value: Any, column: str) -> Any:
    return value.replace(_COLUMN, column) if isinstance(value, str) else value


def _full_name(paper: str, run: str) -> str:
    return run if "/" in run else f"{paper}/{run}"


def _known(where: str, given: Collection[str], allowed: set[str]) -> None:
    if unknown := sorted(set(given) - allowed):
        checks.fail(where, unknown, f"to have only keys of {sorted(allowed)}")


def _check_names(paper: Paper, runs: set[str]) -> None:
    """Runs and the claims that explanations lean on exist."""
    claims = {claim.name for claim in paper.claims}
    for claim in paper.claims:
        for run in claim.runs:
            checks.one_of(f"{claim.name}.run", run, sorted(runs))
        for name in claim.explanation.shown_by if claim.explanation else ():
            checks.one_of(f"{claim.name}.shown_by", name, sorted(claims))
    for place in paper.places:
        for drawing in place.drawings:
            for run in drawing.runs:
                checks.one_of(f"{place.name}.drawings", run, sorted(runs))
