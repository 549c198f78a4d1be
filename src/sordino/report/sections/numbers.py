"""The three numbers: on one axis, and in a table."""

from __future__ import annotations

from itertools import groupby

from sordino.report import drawing, words
from sordino.report.assessment import Assessment
from sordino.report.blocks import Block, Cell, Figure, Group, Section, Table, Text

_MEASURES = (
    "Epsilon measures how much one record can change what comes out; smaller is more private."
)
_HEAD = ("kind", "what it means", "epsilon", "delta", "how sure")


def numbers(assessment: Assessment) -> Section:
    """Where the truth lies: between what was observed and what is proved."""
    blocks: tuple[Block, ...] = (
        Figure(drawing.axis(assessment)),
        three_numbers(assessment),
        Text(_reading(assessment), lead="How to read it."),
    )
    return Section("numbers", "The three numbers", blocks)


def three_numbers(assessment: Assessment) -> Table:
    """What is proved, estimated and observed, each of the same thing."""
    groups = tuple(
        Group(
            of,
            tuple(
                (
                    Cell(row.kind, row.kind),
                    row.meaning,
                    Cell(row.epsilon, row.kind),
                    Cell(row.delta or "-", "number"),
                    row.certainty,
                )
                for row in rows
            ),
        )
        for of, rows in groupby(words.table(assessment), key=lambda row: row.of)
    )
    return Table("Epsilon by kind: smaller is more private", _HEAD, groups)


def _reading(assessment: Assessment) -> str:
    attack = assessment.attack
    if assessment.question.mechanism:
        return f"{_MEASURES} The true epsilon is at least what was observed; nothing limits it."
    if assessment.broken and attack is not None and attack.violated:
        return (
            f"{_MEASURES} What was observed lies above what is proved, and both cannot be right: "
            "the true epsilon is at least what was observed."
        )
    if assessment.broken:
        return (
            f"{_MEASURES} The attack refuted what is proved by the errors of all its thresholds "
            "together, not by this one number."
        )
    if assessment.state == "nothing proved":
        return (
            f"{_MEASURES} The true epsilon is at least what was observed; nothing limits it. The "
            "estimate says where it may be, and promises nothing."
        )
    return (
        f"{_MEASURES} All numbers of a group are about the same thing. The true epsilon lies "
        "between what was observed and what is proved; the estimate says where it may be, and "
        "promises nothing. Un-noised SGD is the same model trained in the ordinary way, for "
        "comparison: it is not released."
    )
