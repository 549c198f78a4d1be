"""`Paper`: one paper's file, read strictly: runs, places (tables and figures), claims.

A file is data: what is printed and where, the setting, the tolerance and its reason. No number of a
paper stands anywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sordino_papers.printed import Printed
from sordino_papers.tolerance import Tolerance


@dataclass(frozen=True)
class Run:
    """Something to be computed once and asked often: a grid, a study, a table of formulas.

    Parameters
    ----------
    name
        "v2/adult-logistic".
    kind
        One of `kinds.KINDS`.
    settings
        Of that kind.
    quick
        Settings that replace others with --quick.
    """

    name: str
    kind: str
    settings: Mapping[str, Any]
    quick: Mapping[str, Any]

    def chosen(self, quick: bool) -> dict[str, Any]:
        """The settings that count."""
        return {**self.settings, **(self.quick if quick else {})}


@dataclass(frozen=True)
class Explanation:
    """Why a number differs; it counts only while every claim it leans on holds."""

    text: str
    shown_by: tuple[str, ...]


@dataclass(frozen=True)
class Claim:
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
    explanation: Explanation | None
    ours: bool
    full: bool
    setting: bool


@dataclass(frozen=True)
class Drawing:
    """A figure in the paper's layout: which drawing, of which runs, with which words."""

    draw: str
    runs: tuple[str, ...]
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """A table, a figure or a passage.

    Parameters
    ----------
    name
        "v2/table-3".
    title
        What is there.
    printed_at
        Where it is printed, in words: "Table 3, page 4".
    drawings
        Figures that we draw of it.
    claims
        In order.
    """

    name: str
    title: str
    printed_at: str
    drawings: tuple[Drawing, ...]
    claims: tuple[Claim, ...]

    @property
    def key(self) -> str:
        """Without the paper: "table-3"."""
        return self.name.partition("/")[2]


@dataclass(frozen=True)
class Paper:
    """One file."""

    key: str
    title: str
    authors: str
    year: int
    runs: Mapping[str, Run]
    places: tuple[Place, ...]

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All of them, in order."""
        return tuple(claim for place in self.places for claim in place.claims)
