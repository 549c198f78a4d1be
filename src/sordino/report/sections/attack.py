"""The attacks: what was tried, what came out, and what could have come out."""

from __future__ import annotations

from collections.abc import Iterator

from sordino.report import drawing, words
from sordino.report.assessment import Assessment
from sordino.report.blocks import (
    Beside,
    Block,
    Facts,
    Figure,
    Group,
    Heading,
    Line,
    Section,
    Span,
    Table,
    Text,
)
from sordino.report.stages import Attack
from sordino.report.words_numbers import about, count, lower, percent_of_confidence, upper

_TITLES = {
    "release": "On the release",
    "un-noised SGD": "On un-noised SGD",
    "mechanism": "On the mechanism",
}


def attacks(assessment: Assessment) -> Section:
    """Each with its pair, its score, its errors and its power."""
    found = assessment.attacks
    title = "The attack" if len(found) <= 1 else "The attacks"
    if not found:
        return Section("attack", title, (Text("No attack was made."),))
    intro = (
        "The game: train many times on a dataset and on a neighbour of it that differs in one "
        "record, and guess from each result which of the two it was. Half of the runs teach the "
        "attack, the other half test it. Whoever guesses better than an epsilon allows has "
        "refuted that epsilon. An attack that finds nothing proves nothing."
    )
    blocks: list[Block] = [Text(intro)]
    same_pair = len({attack.pair for attack in found}) == 1
    if same_pair:
        blocks.append(Text(_sentence(found[0].pair), lead="The two datasets."))
    for attack in found:
        blocks += _one(attack, with_pair=not same_pair)
    return Section("attack", title, (*blocks, _bounds(found)))


def _one(attack: Attack, *, with_pair: bool) -> list[Block]:
    refuted = attack.violated or attack.curve_refuted is True
    outcome = Text(_sentence(attack.verdict), lead="Outcome.", tone="warn" if refuted else "")
    facts = _facts(attack)
    if with_pair:
        facts.insert(0, ("The two datasets", attack.pair))
    return [
        Heading(_title(attack)),
        Beside((outcome, Facts(tuple(facts))), (Figure(drawing.roc(attack)),)),
    ]


def _title(attack: Attack) -> str:
    return _TITLES.get(attack.of, f"On {attack.of}")


def _facts(attack: Attack) -> list[tuple[str, str]]:
    observed = attack.observed
    facts = [
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
    return facts


def _claim(attack: Attack) -> str:
    if attack.claimed is None:
        return "nothing: no epsilon is promised"
    return f"epsilon at most {upper(attack.claimed)} at delta = {about(attack.observed.delta)}"


def _confidence(attack: Attack) -> str:
    wrong = about(100 * (1 - attack.observed.confidence))
    said = f"an audit like this one shows too much in at most {wrong} of 100 cases"
    if attack.curve_refuted is None:
        return said
    return f"{said}, and the test of the whole curve in as many again"


def power(attack: Attack) -> str:
    """What so many runs could have shown."""
    runs = f"{count(attack.tested)} tested runs"
    if attack.claimed is None:
        most = max(attack.reach, attack.observed.epsilon)
        return f"{runs} could have shown an epsilon of {lower(most)} at most"
    would = f"an epsilon below {lower(attack.reach)}" if attack.reach > 0 else "no epsilon"
    family = ""
    if attack.gaussian_reach:
        family = f", and one below {lower(attack.gaussian_reach)} if taken for Gaussian"
    return (
        f"{runs} could have refuted {would} of Gaussian noise that leaks all that is allowed"
        f"{family}; what leaks more shows more"
    )


def _curve(refuted: bool) -> str:
    if refuted:
        return "refuted by a second test, over all thresholds, at the same confidence"
    return "not refuted by a second test, over all thresholds, at the same confidence"


def _bounds(attacks: tuple[Attack, ...]) -> Block:
    groups = tuple(
        Group(_title(attack) if len(attacks) > 1 else "", tuple(_rows(attack)))
        for attack in attacks
    )
    return Table(
        "Lower bounds from the same runs. Some assume more, and hold only if that is so",
        ("bound, and what it assumes", "epsilon", "confidence"),
        groups,
    )


def _rows(attack: Attack) -> Iterator[tuple[Line, ...]]:
    found = (attack.observed, *attack.others)
    # All begin with the score, which is said above.
    scores = {observation.attack.partition("; ")[0] for observation in found}
    shared = f"{scores.pop()}; " if len(scores) == 1 else ""
    for observation in found:
        headline = " (the headline)" if observation is attack.observed else ""
        yield (
            observation.attack.removeprefix(shared) + headline,
            Span(f"at least {lower(observation.epsilon)}", "observed"),
            percent_of_confidence(observation.confidence),
        )


def _sentence(text: str) -> str:
    """`text` with a capital and a full stop."""
    return words.full(f"{text[:1].upper()}{text[1:]}")
