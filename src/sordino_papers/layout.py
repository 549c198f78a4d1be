"""Results of a place in the paper's layout, and what differs, grouped by why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sordino_papers.claims import Explanation, Paper, PaperClaim, Place
from sordino_papers.results import ClaimVerdict, Reproduction, Result

CHECKS, SLIPS = "checks", "slips"
"""Places of a file that are ours: what explanations lean on, and what the paper gets wrong."""


@dataclass(frozen=True)
class PaperRow:
    """A row of a table, or a sentence: one result a column; the column "" is of a row without."""

    title: str
    says: str
    reason: str
    results: Mapping[str, Result]


@dataclass(frozen=True)
class PaperTable:
    """Rows and columns as the paper has them.

    Parameters
    ----------
    columns
        Key to heading, in the paper's order; only "" where the paper has one column of numbers.
    rows
        In order; a cell that the paper leaves empty is missing from its row.
    """

    columns: Mapping[str, str]
    rows: tuple[PaperRow, ...]


@dataclass(frozen=True)
class Deviation:
    """Results of one place that differ for one and the same reason, or for none."""

    results: tuple[Result, ...]
    explanation: Explanation | None

    @property
    def explained(self) -> bool:
        """Whether every check that the explanation leans on holds."""
        return all(result.verdict is ClaimVerdict.EXPLAINED for result in self.results)


def papers(reproduction: Reproduction) -> list[Paper]:
    """Those that something was asked of."""
    asked = {result.claim.name for result in reproduction.results.values()}
    return [paper for paper in reproduction.papers if asked & {c.name for c in paper.claims}]


def places(reproduction: Reproduction, paper: Paper) -> list[Place]:
    """The paper's own tables, figures and passages that were asked."""
    return [
        place
        for place in paper.places
        if place.key not in (CHECKS, SLIPS) and reproduction.of(place)
    ]


def called(reproduction: Reproduction, key: str) -> list[tuple[Paper, Place]]:
    """Every paper's place of this name that was asked."""
    return [
        (paper, place)
        for paper in papers(reproduction)
        for place in paper.places
        if place.key == key and reproduction.of(place)
    ]


def table(results: Iterable[Result]) -> PaperTable:
    """The printed numbers."""
    grouped = rows(result for result in results if result.claim.printed is not None)
    columns: list[str] = []
    headings: dict[str, str] = {}
    for row in grouped:
        _merge(columns, list(row.results))
        headings |= {key: result.claim.column for key, result in row.results.items()}
    return PaperTable({key: headings[key] for key in columns}, grouped)


def sentences(results: Iterable[Result]) -> tuple[PaperRow, ...]:
    """The claims in words."""
    return rows(result for result in results if result.claim.printed is None)


def rows(results: Iterable[Result]) -> tuple[PaperRow, ...]:
    """Results by row, both printed and in words."""
    grouped: dict[str, dict[str, Result]] = {}
    for result in results:
        row, column = _keys(result.claim)
        grouped.setdefault(row, {})[column] = result
    return tuple(_row(each) for each in grouped.values())


def differences(results: Iterable[Result]) -> list[Deviation]:
    """What differs, by explanation; of each that has none, one by itself."""
    grouped: dict[tuple[str, str, bool], list[Result]] = {}
    for result in results:
        if result.verdict not in (ClaimVerdict.EXPLAINED, ClaimVerdict.DIFFERS):
            continue
        explanation, place = result.claim.explanation, result.claim.place
        text = result.claim.name if explanation is None else explanation.text
        key = (place, text, result.verdict is ClaimVerdict.EXPLAINED)
        grouped.setdefault(key, []).append(result)
    return [Deviation(tuple(each), each[0].claim.explanation) for each in grouped.values()]


def missing(reproduction: Reproduction) -> dict[str, list[Result]]:
    """What is not runnable here, by what is missing."""
    found: dict[str, list[Result]] = {}
    for result in reproduction.results.values():
        if result.verdict is ClaimVerdict.NOT_RUNNABLE:
            found.setdefault(result.why, []).append(result)
    return found


def claims(reproduction: Reproduction) -> dict[str, PaperClaim]:
    """Every claim of the papers by name, also of those that were not asked."""
    return {claim.name: claim for paper in reproduction.papers for claim in paper.claims}


def _row(results: Mapping[str, Result]) -> PaperRow:
    claim = next(iter(results.values())).claim
    return PaperRow(claim.row, claim.says, claim.reason, results)


def _keys(claim: PaperClaim) -> tuple[str, str]:
    """Of row and column; headings may be the same in two columns, keys never are."""
    row, _, column = claim.name.removeprefix(f"{claim.place}/").partition("/")
    return row, column


def _merge(columns: list[str], more: list[str]) -> None:
    """Put those that are new before the next one that is known: rows may lack any of them."""
    for at, key in enumerate(more):
        if key in columns:
            continue
        after = next((other for other in more[at:] if other in columns), None)
        columns.insert(len(columns) if after is None else columns.index(after), key)
