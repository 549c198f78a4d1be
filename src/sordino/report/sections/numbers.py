"""The three numbers: on one axis, and in a table."""

from __future__ import annotations

from itertools import groupby

from sordino.report import drawing, words
from sordino.report.assessment import Assessment
from sordino.report.blocks import Beside, Block, Figure, Group, Section, Span, Table, Text

_MEASURES = (
    "Epsilon measures how much one record can change what comes out; smaller is more private."
)
_PLAIN = (
    "Un-noised SGD is the same model trained in the ordinary way. It is not released, and its "
    "numbers are about that training alone, not about the release."
)
_ONLY_ATTACKED = (
    "A mechanism from elsewhere is attacked and nothing else: nothing of it was proved, measured "
    "or released here."
)
_HEAD = ("kind", "what it means", "epsilon", "delta", "how sure")


def numbers(assessment: Assessment) -> Section:
    """Where the truth lies: between what was observed and what is proved."""
    axis = Figure(drawing.axis(assessment))
    return Section(
        "numbers",
        "The three numbers",
        (Beside((axis,), tuple(_reading(assessment))), three_numbers(assessment)),
    )


def three_numbers(assessment: Assessment) -> Table:
    """What is proved, estimated and observed, each of the same thing."""
    groups = tuple(
        Group(
            of,
            tuple(
                (
                    Span(row.kind, row.kind),
                    row.meaning,
                    Span(row.epsilon, row.kind),
                    Span(row.delta or "-", "number"),
                    row.certainty,
                )
                for row in rows
            ),
        )
        for of, rows in groupby(words.table(assessment), key=lambda row: row.of)
    )
    return Table("Epsilon by kind: smaller is more private", _HEAD, groups)


def _reading(assessment: Assessment) -> list[Block]:
    said: list[Block] = [
        Text(_MEASURES, lead="How to read it."),
        Text(_truth(assessment), lead="Where the truth lies."),
    ]
    if assessment.question.mechanism:
        said.append(Text(_ONLY_ATTACKED, lead="Only attacked."))
    elif assessment.own_noise is not None or assessment.plain_attack is not None:
        said.append(Text(_PLAIN, lead="For comparison."))
    return said


def _truth(assessment: Assessment) -> str:
    attack = assessment.attack
    if assessment.question.mechanism:
        return "The true epsilon is at least what was observed; nothing limits it."
    if assessment.broken and attack is not None and attack.violated:
        return (
            "What was observed lies above what is proved, and both cannot be right: the true "
            "epsilon is at least what was observed."
        )
    if assessment.broken:
        return (
            "The attack refuted what is proved by the errors of all its thresholds together, not "
            "by this one number."
        )
    if assessment.state == "nothing proved":
        return (
            "The true epsilon is at least what was observed; nothing limits it. The estimate says "
            "where it may be, and promises nothing."
        )
    return (
        "The true epsilon lies between what was observed and what is proved. The estimate says "
        "where it may be, and promises nothing."
    )
