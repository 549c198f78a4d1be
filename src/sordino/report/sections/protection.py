"""What is released, who is protected, and what an attacker can do at most."""

from __future__ import annotations

import math

from sordino.privacy import RELATIONS, Guarantee, Relation
from sordino.report import drawing, words
from sordino.report.assessment import Assessment, Records
from sordino.report.blocks import Beside, Block, Bullets, Facts, Figure, Heading, Section, Text
from sordino.report.drawing.roc import least_missed
from sordino.report.stages import Curve, Proved
from sordino.report.words_numbers import about, chance, count, percent_up, upper

RARELY_WRONG = 0.01
"""False accusations of the attacker for whom the trade-off is said in words."""
_LABELS_SHOWN = 10


def protection(assessment: Assessment) -> Section:
    """Relation, unit, delta, odds, and the best possible guess."""
    blocks: list[Block] = [*refuted(assessment), *_promise(assessment)]
    if assessment.records is not None:
        blocks += [Heading("The records"), *_records(assessment.records)]
    return Section("protection", "What is released, and who is protected", tuple(blocks))


def refuted(assessment: Assessment) -> list[Block]:
    """A warning on top of what an attack showed to be wrong; nothing otherwise."""
    if not assessment.broken:
        return []
    wrong = "Our attack refuted what is proved here, so nothing in this section can be relied on."
    return [Text(wrong, lead="BROKEN.", tone="warn")]


def _promise(assessment: Assessment) -> list[Block]:
    proved, parts = assessment.proved, assessment.proved_parts
    if proved is None or parts is None or math.isinf(proved.epsilon):
        why = "" if parts is None else parts.why_none
        return [
            Text(
                "This model may give single records away. Treat it like the records themselves.",
                lead="Nobody is protected.",
                tone="warn",
            ),
            *([Text(why, lead="Why nothing is proved.")] if why else []),
            Facts(_who(assessment, None)),
        ]
    return [Facts(_who(assessment, proved)), *at_most(parts, proved)]


def at_most(parts: Proved, proved: Guarantee) -> list[Block]:
    """What an attacker can do at most."""
    heading = Heading("What an attacker can do at most")
    said: list[Block] = [
        Text(best_guess(parts.best_guess, proved), lead="The best guess."),
        Text(odds(proved), lead="The odds."),
        Text(_attacker(proved), lead="The attacker"),
    ]
    if parts.tradeoff is None:
        return [heading, *said]
    said.insert(1, Text(_seldom_wrong(parts.tradeoff), lead="Few false alarms."))
    return [heading, Beside(tuple(said), (Figure(drawing.tradeoff(parts)),))]


def _who(assessment: Assessment, proved: Guarantee | None) -> tuple[tuple[str, str], ...]:
    question = assessment.question
    facts = [("Released", released(proved))]
    if proved is not None:
        facts.append(("Protected", proved.unit))
    facts.append(
        (
            "Against which change",
            f"{each_of(question.rows_per_person > 1)}{RELATIONS[question.relation]} "
            f"({question.relation.value})",
        )
    )
    if proved is not None:
        facts.append(("Delta", delta_means(proved.delta)))
    facts.append(("Why this delta", question.delta_reason))
    return tuple((name, text) for name, text in facts if text)


def each_of(several: bool) -> str:
    """What comes before the change, where a person has several records."""
    return "for each of these records, " if several else ""


def released(proved: Guarantee | None) -> str:
    """What may leave."""
    if proved is None:
        return "nothing should be: no guarantee covers it"
    if proved.released == "final":
        return "the final model, and nothing else that was computed on the way"
    return "the final model; every model on the way to it would be covered, too"


def delta_means(delta: float) -> str:
    """What delta allows, as a chance."""
    if delta == 0:
        return "0: the bound on epsilon holds without exception"
    return (
        f"{upper(delta)}, or {chance(delta)}: nobody learns more about a person than from a "
        "release that keeps to epsilon but, with that chance, gives the person's records away"
    )


def best_guess(most: float, proved: Guarantee) -> str:
    """How often anybody guesses membership right."""
    return (
        "If both possibilities are equally likely beforehand, the best possible membership guess "
        f"is right at most {percent_up(most)} of the time. A coin is right 50% of the time. The "
        f"guess: {_either(proved.relation)}"
    )


def odds(proved: Guarantee) -> str:
    """What epsilon means."""
    if proved.epsilon >= words.HARDLY_ANYTHING:
        return (
            f"With epsilon = {upper(proved.epsilon)} the odds of any belief about the record may "
            "change so much that the guarantee means next to nothing."
        )
    return (
        f"Whatever somebody believed beforehand: seeing the model changes the odds of one "
        f"possibility against the other by a factor of at most {upper(math.exp(proved.epsilon))} "
        f"(e to the power of epsilon, {upper(proved.epsilon)}), up to delta."
    )


def _attacker(proved: Guarantee) -> str:
    known = (
        "every record but the one that is protected"
        if proved.unit == "one record"
        else "the records of everybody but the one person who is protected"
    )
    return (
        f"is given the released model, the method and its settings, and knows {known}, or may "
        "even have chosen them. What holds against that attacker holds against everybody who "
        "knows less."
    )


def _either(relation: Relation) -> str:
    if relation is Relation.REPLACE_ONE:
        return "was it this record, or that other one in its place?"
    return "was this record among the data, or was it not?"


def _seldom_wrong(tradeoff: Curve) -> str:
    found = percent_up(1 - least_missed(tradeoff, RARELY_WRONG))
    return (
        "An attacker who raises a false alarm in at most 1 of 100 cases recognises a record that "
        f"is there in at most {found} of the cases. The curve shows this for every rate of false "
        "alarms."
    )


def _records(records: Records) -> list[Block]:
    labels = ", ".join(records.classes[:_LABELS_SHOWN])
    more = ", ..." if len(records.classes) > _LABELS_SHOWN else ""
    facts = (
        ("Rows", f"{count(records.rows)} to train on, {count(records.test_rows)} held out"),
        ("Columns", f"{count(records.columns)}, the intercept's included"),
        ("Labels", f"{len(records.classes)} ({labels}{more})"),
        ("Norm of a row", f"at most {about(records.norm, 6)}, enforced"),
    )
    blocks: list[Block] = [Facts(facts)]
    if records.notes:
        blocks.append(Bullets(records.notes))
    return blocks
