"""The attacks: what was tried, what came out, and what could have come out."""

from __future__ import annotations

from sordino.report import drawing
from sordino.report.assessment import Assessment
from sordino.report.blocks import Block, Cell, Facts, Figure, Heading, Section, Text, listed
from sordino.report.stages import Attack
from sordino.report.words_numbers import about, count, lower, percent_of_confidence, upper

_TITLES = {
    "release": "On the release",
    "un-noised SGD": "On un-noised SGD",
    "mechanism": "On the mechanism",
}


def attacks(assessment: Assessment) -> Section:
    """Each with its pair, its score, its errors and its power."""
    title = "The attack" if len(assessment.attacks) <= 1 else "The attacks"
    if not assessment.attacks:
        return Section("attack", title, (Text("No attack was made."),))
    intro = (
        "The game: train many times on a dataset and on a neighbour of it that differs in one "
        "record, and guess from each result which of the two it was. Half of the runs teach the "
        "attack, the other half test it. Whoever guesses better than an epsilon allows has "
        "refuted that epsilon. An attack that finds nothing proves nothing."
    )
    blocks: list[Block] = [Text(intro)]
    for attack in assessment.attacks:
        blocks += _one(attack)
    return Section("attack", title, tuple(blocks))


def _one(attack: Attack) -> list[Block]:
    refuted = attack.violated or attack.curve_refuted is True
    return [
        Heading(_TITLES.get(attack.of, f"On {attack.of}")),
        Text(_sentence(attack.verdict), lead="Outcome.", tone="warn" if refuted else ""),
        Facts(_facts(attack)),
        Figure(drawing.roc(attack)),
        _bounds(attack),
    ]


def _facts(attack: Attack) -> tuple[tuple[str, str], ...]:
    observed = attack.observed
    facts = [
        ("The two datasets differ in", attack.pair),
        ("The attack looks at", attack.score),
        (
            "Runs",
            f"{count(attack.runs)} on each of the two, {count(attack.tested)} of them to test",
        ),
        ("To refute", _claim(attack)),
        ("Confidence", f"{percent_of_confidence(observed.confidence)}: {_confidence(attack)}"),
        ("Power", power(attack)),
    ]
    if attack.curve_refuted is not None:
        facts.append(("The whole curve", _curve(attack.curve_refuted)))
    return tuple(facts)


def _claim(attack: Attack) -> str:
    if attack.claimed is None:
        return "nothing: no epsilon is promised"
    return f"epsilon at most {upper(attack.claimed)} at delta = {about(attack.observed.delta)}"


def _confidence(attack: Attack) -> str:
    wrong = 1 - attack.observed.confidence
    return f"an audit like this one shows too much in at most {about(100 * wrong)} of 100 cases"


def power(attack: Attack) -> str:
    """What so many runs could have shown at most."""
    runs = f"{count(attack.tested)} tested runs"
    most, family = max(attack.reach, attack.observed.epsilon), ""
    if attack.gaussian_reach is not None and attack.gaussian_reach > most:
        family = f"; below {lower(attack.gaussian_reach)} if its noise is taken for Gaussian"
    if most <= 0:
        return f"{runs} are too few to refute any epsilon without a hypothesis{family}"
    if attack.claimed is None:
        return f"{runs} could have shown an epsilon of {lower(most)} at most{family}"
    return f"{runs} could have refuted an epsilon below {lower(most)}{family}"


def _curve(refuted: bool) -> str:
    if refuted:
        return "refuted by a second test, over all thresholds, at the same confidence"
    return "not refuted by a second test, over all thresholds, at the same confidence"


def _bounds(attack: Attack) -> Block:
    found = (attack.observed, *attack.others)
    rows = tuple(
        (
            f"{observation.attack}{' (the headline)' if observation is attack.observed else ''}",
            Cell(f"at least {lower(observation.epsilon)}", "observed"),
            percent_of_confidence(observation.confidence),
        )
        for observation in found
    )
    return listed(
        "Lower bounds from the same runs. Some assume more, and hold only if that is so",
        ("bound, and what it assumes", "epsilon", "confidence"),
        *rows,
    )


def _sentence(text: str) -> str:
    """`text` with a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""
