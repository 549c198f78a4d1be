"""`Paper`: what one paper prints, read strictly from its TOML file: runs, places, claims.

A file is data: what is printed and where, the setting, the tolerance and its reason. No number of a
paper stands anywhere else. Every key is known, and every name refers to something.
"""

from __future__ import annotations

import math
import operator
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import Any

from sordino import checks
from sordino.errors import InvalidArgument
from sordino.serialize import Forms, refusing
from sordino_papers.quantities import Answer

KEYS = ("v1", "v2", "chen", "notes", "annamalai")
"""The papers, in the order they are shown."""
_FORM = re.compile(
    r"(?P<number>[+-]?(?:\d[\d,]*)?(?:\.\d+)?(?:e[+-]?\d+)?)(?:\((?P<spread>\d+)\))?(?P<percent>%?)"
)


@dataclass(frozen=True)
class Printed:
    """A printed number: "0.719(2)", "+.00002", "36.31%", "9,000", "1.23e-8".

    `text` is as it stands in the paper, `value` the number before a percent sign (`percent`),
    `unit` one unit of its last digit, and `spread` the standard deviation in brackets, if any, in
    the units of `value`.
    """

    text: str
    value: float
    unit: float
    spread: float | None
    percent: bool

    @classmethod
    def parse(cls, text: str) -> Printed:
        """Read a number as it is printed.

        >>> Printed.parse("0.719(2)").spread
        0.002
        """
        match = _FORM.fullmatch(text.strip())
        if match is None or not any(c.isdigit() for c in match["number"].partition("e")[0]):
            checks.fail("printed", text, 'to be a number as printed, such as "0.719(2)" or "+.07"')
        number = Decimal(match["number"].replace(",", ""))
        exponent = number.as_tuple().exponent
        assert isinstance(exponent, int)
        unit = Decimal(1).scaleb(exponent)
        spread = None if match["spread"] is None else float(int(match["spread"]) * unit)
        return cls(text, float(number), float(unit), spread, bool(match["percent"]))

    def __str__(self) -> str:
        return self.text


_BESIDE_PRINTED = {
    "rounding": "as printed",
    "relative": "within {percent:g} %",
    "factor": "within {size:g} times",
    "absolute": "within {size:g}",
    "interval": "in our interval",
}
_ALONE: dict[str, Callable[[float, float], bool]] = {
    **{"at_least": operator.ge, "at_most": operator.le},
    **{"above": operator.gt, "below": operator.lt},
}
_SLACK = 1e-9
"""Of comparisons in floating point, relative to the printed unit."""


@dataclass(frozen=True)
class Tolerance:
    """How far our number may be from the printed one: `size`, by its `kind`.

    "rounding": ours, rounded, is what is printed. "relative", "absolute", "factor": within `size`
    of it (as a share, a difference, a ratio either way), after what rounding hides. "interval": the
    printed number, as far as rounding leaves it open, lies in the interval that our own runs give.
    For claims in words: "at_least", "at_most", "above", "below" a threshold that the file states.
    """

    kind: str
    size: float

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Tolerance:
        """Read a table with one entry, such as { relative = 0.05 }."""
        if len(given) != 1:
            checks.fail("tolerance", dict(given), "to have one entry, such as { relative = 0.05 }")
        ((kind, size),) = given.items()
        checks.one_of("tolerance", kind, (*_BESIDE_PRINTED, *_ALONE))
        if kind in ("rounding", "interval"):
            if size is not True:
                checks.fail(f"tolerance.{kind}", size, "to be true")
            return cls(kind, 0.0)
        return cls(kind, float(size))

    @property
    def needs_printed(self) -> bool:
        """Whether it compares with a printed number."""
        return self.kind in _BESIDE_PRINTED

    def holds(self, answer: Answer, printed: Printed | None) -> bool:
        """Whether our number is within it."""
        value, size = answer.value, self.size
        if not math.isfinite(value):
            return False
        if not self.needs_printed:
            return _ALONE[self.kind](value, size)
        assert printed is not None
        ends = [printed.value - printed.unit / 2, printed.value + printed.unit / 2]
        if self.kind == "factor":
            ends = [far for end in ends for far in (end * size, end / size)]
        far = {"relative": size * abs(printed.value), "absolute": size}.get(self.kind, 0.0)
        far += _SLACK * printed.unit
        low = high = value
        if self.kind == "interval" and answer.low is not None and answer.high is not None:
            low, high = answer.low, answer.high
        return low <= max(ends) + far and min(ends) - far <= high

    def __str__(self) -> str:
        if self.kind in _ALONE:
            return f"{self.kind.replace('_', ' ')} {self.size:g}"
        return _BESIDE_PRINTED[self.kind].format(size=self.size, percent=100 * self.size)


@dataclass(frozen=True)
class PaperRun:
    """Something to be computed once and asked often: a grid, a study, a table of formulas.

    Parameters
    ----------
    name
        "v2/adult-logistic".
    kind
        One of `runs.SOURCES`.
    settings
        Of that kind.
    quick
        Settings that replace others with --quick.
    """

    name: str
    kind: str
    settings: Mapping[str, Any]
    quick: Mapping[str, Any] = field(default_factory=dict)

    def at_size(self, quick: bool) -> dict[str, Any]:
        """The settings of the full or of the quick size."""
        return {**self.settings, **(self.quick if quick else {})}


@dataclass(frozen=True)
class _Explanation:
    """Why cells of a place differ; it counts only while every claim in `shown_by` holds."""

    cells: tuple[str, ...]
    text: str
    shown_by: tuple[str, ...]


@dataclass(frozen=True)
class PaperClaim:
    """One cell of a table, or one thing that a figure or sentence says.

    Parameters
    ----------
    name
        "v2/table-3/sigma/cifar2".
    place
        "v2/table-3".
    row, column
        What it is called in the paper's layout; column is empty where there is none.
    says
        The claim in words, where nothing is printed; else what is compared.
    quantity, runs, arguments
        What is asked of which runs.
    printed
        The printed number, if there is one.
    tolerance, reason
        How far ours may be, and why so far.
    explanation
        Why it differs, if it does.
    ours
        A check of ours (what an explanation leans on, or a slip in print), not a claim of the
        paper's.
    full
        Whether it can only be judged at full size, not with --quick.
    setting
        Whether the printed number is itself a setting of the run: it is shown, and not counted.
    """

    name: str
    place: str
    row: str
    column: str
    says: str
    quantity: str
    runs: tuple[str, ...]
    arguments: Mapping[str, Any]
    printed: Printed | None
    tolerance: Tolerance
    reason: str
    explanation: _Explanation | None
    ours: bool
    full: bool
    setting: bool

    @property
    def category(self) -> str:
        """What it counts as: a "check" of ours, "words", a "setting", or a "printed" number."""
        if self.ours:
            return "check"
        return "words" if self.printed is None else "setting" if self.setting else "printed"


@dataclass(frozen=True)
class _Drawing:
    """A figure in the paper's layout: which drawing, of which runs, with which arguments."""

    draw: str
    runs: tuple[str, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """A table, a figure or a passage ("v2/table-3"); `printed_at` says where: "Table 3, page 4"."""

    name: str
    title: str
    printed_at: str
    drawings: tuple[_Drawing, ...]
    claims: tuple[PaperClaim, ...]

    @property
    def key(self) -> str:
        """The name without the paper: "table-3"."""
        return self.name.partition("/")[2]


@dataclass(frozen=True)
class Paper:
    """One paper: who wrote it, the runs that its file names, and its places."""

    key: str
    title: str
    authors: str
    year: int
    runs: Mapping[str, PaperRun]
    places: tuple[Place, ...]

    @property
    def claims(self) -> tuple[PaperClaim, ...]:
        """Every claim, in order."""
        return tuple(claim for place in self.places for claim in place.claims)


# The forms of a file -------------------------------------------------------------------------


@dataclass(frozen=True)
class _About:
    title: str
    authors: str
    year: int


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
class _Place:
    title: str
    printed_at: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[_Row, ...] = ()
    explained: tuple[_Explanation, ...] = ()
    drawings: tuple[_Drawing, ...] = ()


@dataclass(frozen=True)
class _File:
    paper: _About
    places: Mapping[str, _Place]
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@cache
def papers() -> dict[str, Paper]:
    """Every paper, checked against the others: runs may be another paper's.

    >>> list(papers())
    ['v1', 'v2', 'chen', 'notes', 'annamalai']
    """
    files = resources.files("sordino_papers")
    held = {key: read(key, files.joinpath(f"{key}.toml").read_text("utf-8")) for key in KEYS}
    runs = {run for paper in held.values() for run in paper.runs}
    for paper in held.values():
        check_names(paper, runs)
    return held


def read(key: str, text: str) -> Paper:
    """Read one file's text."""
    with refusing(f"paper {key}", InvalidArgument):
        given: _File = Forms(by_hand=True).of(_File).read(tomllib.loads(text))
    runs = {}
    for name, each in given.runs.items():
        settings = {k: value for k, value in each.items() if k not in ("kind", "quick")}
        run = PaperRun(f"{key}/{name}", each["kind"], settings, each.get("quick", {}))
        _known(f"{run.name}.quick", run.quick, set(settings))
        runs[run.name] = run
    places = tuple(_place(key, f"{key}/{name}", each) for name, each in given.places.items())
    return Paper(key, given.paper.title, given.paper.authors, given.paper.year, runs, places)


def check_names(paper: Paper, runs: Collection[str]) -> None:
    """Refuse a run, or a claim that an explanation leans on, that does not exist."""
    claims = {claim.name for claim in paper.claims}
    for claim in paper.claims:
        for run in claim.runs:
            checks.one_of(f"{claim.name}.run", run, sorted(runs))
        for name in claim.explanation.shown_by if claim.explanation else ():
            checks.one_of(f"{claim.name}.shown_by", name, sorted(claims))
    for place in paper.places:
        for run in (run for drawing in place.drawings for run in drawing.runs):
            checks.one_of(f"{place.name}.drawings", run, sorted(runs))


def _place(paper: str, name: str, given: _Place) -> Place:
    claims = []
    for row in given.rows:  # one claim a column, or one alone where the row has none
        if given.columns:  # else the row has columns of its own
            _known(f"{name}/{row.key}.columns", row.columns or (), set(given.columns))
        keys = list(given.columns if row.columns is None else row.columns) or [""]
        texts = row.printed if isinstance(row.printed, list) else [row.printed] * len(keys)
        if len(texts) != len(keys):
            condition = f"to have {len(keys)} entries, one a column"
            checks.fail(f"{name}/{row.key}.printed", texts, condition)
        for key, text in zip(keys, texts, strict=True):
            if text or not isinstance(row.printed, list):  # else the paper leaves it empty
                claims.append(_claim(paper, name, given, row, key, text))
    names = [claim.name for claim in claims]
    cells = [f"{name}/{cell}" for each in given.explained for cell in each.cells]
    for claim in names:
        if names.count(claim) > 1:
            checks.fail(f"{name}.rows", claim, "to be there once")
    for cell in cells:
        if cell not in names or cells.count(cell) > 1:
            checks.fail(f"{name}.explained.cells", cell, "to be a cell here, explained once")
    drawings = tuple(
        replace(each, runs=tuple(_full_name(paper, run) for run in each.runs))
        for each in given.drawings
    )
    return Place(name, given.title, given.printed_at, drawings, tuple(claims))


def _claim(paper: str, place: str, given: _Place, row: _Row, column: str, text: str) -> PaperClaim:
    def filled(value: Any) -> Any:
        return value.replace("{column}", column) if isinstance(value, str) else value

    cell = "/".join(filter(None, [row.key, column]))
    name = f"{place}/{cell}"
    rule = row.tolerance
    if all(isinstance(each, Mapping) for each in rule.values()):
        # A tolerance a column: { adult = { ... }, else = { ... } }
        if given.columns:
            _known("tolerance", rule, {*given.columns, "else"})
        rule = rule[column] if column in rule else rule["else"]
    tolerance, printed = Tolerance.read(rule), Printed.parse(text) if text else None
    if tolerance.needs_printed != (printed is not None):
        wanted = "a printed number" if tolerance.needs_printed else "no printed number"
        checks.fail(f"{name}.tolerance", tolerance.kind, f"to go with {wanted}")
    if printed is None and not row.says:
        checks.fail(f"{name}.says", "", "to be a sentence where nothing is printed")
    runs = row.runs or ((row.run,) if row.run is not None else ())
    as_given = ("says", "quantity", "reason", "ours", "full", "setting")
    return PaperClaim(
        name=name,
        place=place,
        row=row.row or row.says.rstrip(".") or row.key,
        column=given.columns.get(column, column),
        runs=tuple(_full_name(paper, filled(run)) for run in runs),
        arguments={key: filled(value) for key, value in row.arguments.items()},
        printed=printed,
        tolerance=tolerance,
        explanation=next((each for each in given.explained if cell in each.cells), None),
        **{each: getattr(row, each) for each in as_given},
    )


def _full_name(paper: str, run: str) -> str:
    return run if "/" in run else f"{paper}/{run}"


def _known(where: str, given: Collection[str], allowed: set[str]) -> None:
    if unknown := sorted(set(given) - allowed):
        checks.fail(where, unknown, f"to have only keys of {sorted(allowed)}")
