"""What is promised: released what, protected who, and proved how, theorem by theorem."""

from __future__ import annotations

import math

from sordino.privacy import RELATIONS, Guarantee, Relation
from sordino.report import drawing, words
from sordino.report.assessment import Assessment, Records
from sordino.report.blocks import (
    Beside,
    Block,
    Bullets,
    Facts,
    Figure,
    Group,
    Heading,
    Section,
    Span,
    Table,
    Text,
    listed,
)
from sordino.report.drawing.roc import least_missed
from sordino.report.stages import Bound, Curve, Proved
from sordino.report.words_numbers import about, chance, count, named, percent_up, upper

_TITLE = "How it was proved"
_AGAIN = "It is checked again from the numbers in the certificate whenever somebody verifies it."
RARELY_WRONG = 0.01
"""False accusations of the attacker for whom the trade-off is said in words."""


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
    change = f"{each_of(question.rows_per_person > 1)}{RELATIONS[question.relation]}"
    return (
        ("Released", released(proved)),
        ("Protected", "" if proved is None else proved.unit),
        ("Against which change", f"{change} ({question.relation.value})"),
        ("Delta", "" if proved is None else delta_means(proved.delta)),
        ("Why this delta", question.delta_reason),
    )


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
    known = "the records of everybody but the one person who is protected"
    if proved.unit == "one record":
        known = "every record but the one that is protected"
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
    facts = (
        ("Rows", f"{count(records.rows)} to train on, {count(records.test_rows)} held out"),
        ("Columns", f"{count(records.columns)}, the intercept's included"),
        ("Labels", named(records.classes)),
        ("Norm of a row", f"at most {about(records.norm, 6)}, enforced"),
    )
    blocks: list[Block] = [Facts(facts)]
    if records.notes:
        blocks.append(Bullets(records.notes))
    return blocks


def proof(assessment: Assessment) -> Section:
    """What every theorem says of this release, or why it says nothing."""
    parts, release = assessment.proved_parts, assessment.release
    if parts is None:
        return Section("proof", _TITLE, (Text("No theorem was asked."),))
    certified = release is not None and bool(release.certificate)
    found = theorems(parts, certified=certified)
    return Section(found.name, found.title, (*refuted(assessment), *found.blocks))


def theorems(parts: Proved, *, certified: bool = True) -> Section:
    """The section, of an assessment or of a certificate."""
    apply = [bound for bound in parts.bounds if _applies(bound)]
    printed = [bound for bound in parts.bounds if bound.kind == "as printed"]
    silent = [bound for bound in parts.bounds if not _applies(bound) and bound not in printed]
    blocks: list[Block] = [*_outcome(parts, certified)]
    if apply:
        blocks += [_ranking(apply), *_conditions(apply)]
    blocks += _trusted(parts, apply)
    if silent:
        reasons = tuple((bound.name, bound.reason or words.NO_REASON) for bound in silent)
        blocks += [Heading("What does not apply, and why"), Facts(reasons)]
    if printed:
        blocks += [Heading("Quoted, not proved"), *_printed(printed)]
    return Section("proof", _TITLE, tuple(blocks))


def _applies(bound: Bound) -> bool:
    return bound.epsilon is not None and bound.kind == "guarantee"


def _outcome(parts: Proved, certified: bool) -> list[Block]:
    blocks: list[Block] = []
    proved = parts.guarantee
    if proved is None:
        blocks.append(Text(parts.why_none, lead="Nothing is proved.", tone="warn"))
    else:
        rests = f"The guarantee rests on this statement: {proved.theorem}."
        blocks.append(Text(f"{rests} {_AGAIN}" if certified else rests))
    if parts.facts:
        numbers = tuple((name.capitalize(), text) for name, text in parts.facts.items())
        blocks += [Heading("Numbers of the proof"), Facts(numbers)]
    return blocks


def _ranking(bounds: list[Bound]) -> Block:
    rows = tuple(
        (
            bound.name + (", used by the guarantee" if bound.used else ""),
            Span(_said(bound), "proved"),
            bound.theorem,
        )
        for bound in sorted(bounds, key=lambda bound: (_epsilon(bound), not bound.used))
    )
    caption = "What each theorem says of this same release; the certificate rests on the used one"
    return listed(caption, ("theorem", "epsilon", "statement"), *rows)


def _conditions(bounds: list[Bound]) -> list[Block]:
    """What was checked: once for all theorems that share it, then what each needs besides."""
    checked = [_checked(bound) for bound in bounds]
    shared = [row for row in checked[0] if len(bounds) > 1 and all(row in each for each in checked)]
    besides = ", besides" if shared else ""
    named = [("for every theorem above", shared)]
    for bound, rows in zip(bounds, checked, strict=True):
        named.append((f"for {bound.name}{besides}", [row for row in rows if row not in shared]))
    groups = tuple(Group(name, tuple(rows)) for name, rows in named if rows)
    caption = "Preconditions that were checked, and by which numbers"
    return [Table(caption, ("precondition", "numbers"), groups)] if groups else []


def _checked(bound: Bound) -> list[tuple[str, str]]:
    return [(each.what, each.numbers or "-") for each in bound.checked if not each.trusted]


def _trusted(parts: Proved, bounds: list[Bound]) -> list[Block]:
    """What no code can see, of all theorems and of the guarantee, each once."""
    told = [each for bound in bounds for each in bound.checked if each.trusted]
    lines = [each.what + (f" ({each.numbers})" if each.numbers else "") for each in told]
    # The guarantee's own list mostly says the same, without numbers.
    known = {each.what for each in told}
    assumed = () if parts.guarantee is None else parts.guarantee.assumes
    lines += [each for each in assumed if each not in known]
    if not lines:
        return []
    return [Heading("Taken on trust"), Bullets(tuple(dict.fromkeys(lines)))]


def _printed(bounds: list[Bound]) -> list[Block]:
    warning = "These formulas are printed somewhere and quoted here for comparison. None counts."
    rows = tuple(
        (bound.name, "-" if bound.epsilon is None else upper(bound.epsilon), bound.theorem)
        for bound in bounds
    )
    return [Text(warning), listed("Formulas as printed", ("name", "epsilon", "formula"), *rows)]


def _said(bound: Bound) -> str:
    epsilon = _epsilon(bound)
    return "infinite" if math.isinf(epsilon) else f"at most {upper(epsilon)}"


def _epsilon(bound: Bound) -> float:
    return math.inf if bound.epsilon is None else bound.epsilon
