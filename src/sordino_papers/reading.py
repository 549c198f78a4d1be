"""Reading a paper's TOML file; every key is known, every name refers to something."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from sordino import _check
from sordino_papers.claims import Claim, Drawing, Explanation, Paper, Place, Run
from sordino_papers.printed import Printed
from sordino_papers.tolerance import Tolerance

KEYS = ("v1", "v2", "chen", "notes", "annamalai")
"""The papers, in the order they are shown."""
_COLUMN = "{column}"
_PLACE = {"title", "printed_at", "columns", "rows", "explained", "drawings"}
_ROW = {
    *("key", "row", "says", "quantity", "run", "runs", "arguments", "printed", "columns"),
    *("tolerance", "reason", "ours", "full", "setting"),
}


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
    given = tomllib.loads(text)
    _known(key, given, {"paper", "runs", "places"})
    about = given["paper"]
    _known(f"{key}.paper", about, {"title", "authors", "year"})
    runs = [_run(key, name, each) for name, each in given.get("runs", {}).items()]
    places = [_place(key, name, each) for name, each in given["places"].items()]
    return Paper(
        key,
        about["title"],
        about["authors"],
        about["year"],
        {run.name: run for run in runs},
        tuple(places),
    )


def _run(paper: str, name: str, given: Mapping[str, Any]) -> Run:
    settings = {key: value for key, value in given.items() if key not in ("kind", "quick")}
    quick = given.get("quick", {})
    _known(f"{paper}/{name}.quick", quick, set(settings))
    return Run(f"{paper}/{name}", given["kind"], settings, quick)


def _place(paper: str, key: str, given: Mapping[str, Any]) -> Place:
    name = f"{paper}/{key}"
    _known(name, given, _PLACE)
    columns = given.get("columns", {})
    claims = [
        claim
        for row in given.get("rows", [])
        for claim in _claims(paper, name, columns, row, given.get("explained", []))
    ]
    _names_once(name, claims)
    _explanations_used(name, given.get("explained", []), claims)
    return Place(
        name,
        given["title"],
        given.get("printed_at", ""),
        tuple(_drawing(paper, each) for each in given.get("drawings", [])),
        tuple(claims),
    )


def _drawing(paper: str, given: Mapping[str, Any]) -> Drawing:
    _known(f"{paper} drawing", given, {"draw", "runs", "arguments"})
    runs = tuple(_full_name(paper, run) for run in given["runs"])
    return Drawing(given["draw"], runs, given.get("arguments", {}))


def _claims(
    paper: str,
    place: str,
    columns: Mapping[str, str],
    given: Mapping[str, Any],
    explained: Sequence[Mapping[str, Any]],
) -> list[Claim]:
    """One claim a column, or one alone where the row has none."""
    name = f"{place}/{given['key']}"
    _known(name, given, _ROW)
    if columns:  # else the row has columns of its own
        _known(f"{name}.columns", dict.fromkeys(given.get("columns", ())), set(columns))
    keys = list(given.get("columns", columns)) or [""]
    printed = given.get("printed", "")
    texts = printed if isinstance(printed, list) else [printed] * len(keys)
    if len(texts) != len(keys):
        _check.fail(f"{name}.printed", texts, f"to have {len(keys)} entries, one a column")
    found = []
    for key, text in zip(keys, texts, strict=True):
        if isinstance(printed, list) and not text:
            continue  # the paper leaves this cell empty
        found.append(_claim(paper, place, columns, given, key, text, explained))
    return found


def _claim(
    paper: str,
    place: str,
    columns: Mapping[str, str],
    given: Mapping[str, Any],
    column: str,
    text: str,
    explained: Sequence[Mapping[str, Any]],
) -> Claim:
    name = f"{place}/{given['key']}" + (f"/{column}" if column else "")
    runs = given.get("runs", [given["run"]] if "run" in given else [])
    arguments = {key: _filled(value, column) for key, value in given.get("arguments", {}).items()}
    claim = Claim(
        name=name,
        place=place,
        row=given.get("row") or given.get("says", "").rstrip(".") or given["key"],
        column=columns.get(column, column),
        says=given.get("says", ""),
        quantity=given["quantity"],
        runs=tuple(_full_name(paper, _filled(run, column)) for run in runs),
        arguments=arguments,
        printed=Printed.parse(text) if text else None,
        tolerance=Tolerance.read(_of_column(given["tolerance"], column, columns)),
        reason=given["reason"],
        explanation=_explanation(name, place, explained),
        ours=given.get("ours", False),
        full=given.get("full", False),
        setting=given.get("setting", False),
    )
    if claim.tolerance.needs_printed != (claim.printed is not None):
        wanted = "a printed number" if claim.tolerance.needs_printed else "no printed number"
        _check.fail(f"{name}.tolerance", claim.tolerance.kind, f"to go with {wanted}")
    if claim.printed is None and not claim.says:
        _check.fail(f"{name}.says", "", "to be a sentence where nothing is printed")
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


def _explanation(
    name: str, place: str, explained: Sequence[Mapping[str, Any]]
) -> Explanation | None:
    for each in explained:
        _known(f"{place}.explained", each, {"cells", "text", "shown_by"})
        if any(name == f"{place}/{cell}" for cell in each["cells"]):
            return Explanation(each["text"], tuple(each["shown_by"]))
    return None


def _names_once(place: str, claims: Sequence[Claim]) -> None:
    names = [claim.name for claim in claims]
    for name in names:
        if names.count(name) > 1:
            _check.fail(f"{place}.rows", name, "to be there once")


def _explanations_used(
    place: str, explained: Sequence[Mapping[str, Any]], claims: Sequence[Claim]
) -> None:
    left = {claim.name for claim in claims}
    for each in explained:
        for cell in each["cells"]:
            if f"{place}/{cell}" not in left:
                condition = "to be a cell of that place, explained once"
                _check.fail(f"{place}.explained.cells", cell, condition)
            left.remove(f"{place}/{cell}")


def _filled(value: Any, column: str) -> Any:
    return value.replace(_COLUMN, column) if isinstance(value, str) else value


def _full_name(paper: str, run: str) -> str:
    return run if "/" in run else f"{paper}/{run}"


def _known(where: str, given: Mapping[str, Any], allowed: set[str]) -> None:
    if unknown := sorted(set(given) - allowed):
        _check.fail(where, unknown, f"to have only keys of {sorted(allowed)}")


def _check_names(paper: Paper, runs: set[str]) -> None:
    """Runs and the claims that explanations lean on exist."""
    claims = {claim.name for claim in paper.claims}
    for claim in paper.claims:
        for run in claim.runs:
            _check.one_of(f"{claim.name}.run", run, sorted(runs))
        for name in claim.explanation.shown_by if claim.explanation else ():
            _check.one_of(f"{claim.name}.shown_by", name, sorted(claims))
    for place in paper.places:
        for drawing in place.drawings:
            for run in drawing.runs:
                _check.one_of(f"{place.name}.drawings", run, sorted(runs))
