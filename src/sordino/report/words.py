"""The outcome of an assessment in words: one sentence, what must be known with it, three numbers.

The page begins with these, and the terminal prints them. Every number is rounded to the side that
is true of it: what is proved up, what was observed down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from sordino.errors import printable
from sordino.privacy import Estimate, Guarantee, Observation
from sordino.report import words_cost
from sordino.report.assessment import Assessment, Question
from sordino.report.stages import Attack
from sordino.report.words_numbers import (
    about,
    chance,
    compared,
    lower,
    percent_of_confidence,
    upper,
)

Kind = Literal["proved", "claimed", "estimated", "observed"]

MEANINGS: dict[Kind, str] = {
    "proved": "nobody can learn more",
    "claimed": "what its makers say",
    "estimated": "what randomness seems to hide",
    "observed": "what our attack learned",
}
"""In five words."""
NO_REASON = "The reason was not recorded."
NOTHING_PROVED = "nothing limits what anybody learns"

RELEASE, PLAIN = "the release", "un-noised SGD"
HARDLY_ANYTHING = 10.0
"""From this epsilon on a guarantee is called next to nothing: odds may change 22,026-fold."""

_LEARNED = (
    (1.0, "learns little about {unit}"),
    (3.0, "learns a limited amount about {unit}"),
    (HARDLY_ANYTHING, "may learn a lot about {unit}, since the guarantee is weak"),
    (
        math.inf,
        "may learn almost anything about {unit}, since such a guarantee means next to nothing",
    ),
)
_LONGEST_ASIDE = 140
"""Letters of a reason that still fits into the verdict; a longer one stands below it."""


@dataclass(frozen=True)
class Row:
    """One of the numbers in words: `of` what, which kind, and how sure."""

    of: str
    kind: Kind
    meaning: str
    epsilon: str
    delta: str
    certainty: str


def verdict(assessment: Assessment) -> str:
    """One sentence in plain words. It begins with BROKEN if an attack refuted what is promised."""
    if assessment.broken:
        sentence = f"BROKEN: {_broken(assessment)}"
    elif assessment.question.mechanism:
        sentence = _foreign(assessment)
    elif assessment.state == "nothing proved":
        sentence = _nothing(assessment)
    else:
        sentence = _holds(assessment)
    return printable(sentence)


def notes(assessment: Assessment) -> list[str]:
    """What must be known together with the verdict, a sentence or two each; often nothing."""
    lines = _refuted(assessment)
    lines += [] if assessment.broken else _above_proof(assessment)
    lines += _looks_better(assessment)
    parts, release, records = assessment.proved_parts, assessment.release, assessment.records
    proved = assessment.proved
    if parts is not None and proved is None and parts.why_none:
        lines.append(f"Why nothing is proved: {parts.why_none}")
    if assessment.state == "holds" and (leaks := not_covered(assessment)):
        lines.append(f"Not covered by the guarantee: {'; '.join(leaks)}.")
    if proved is not None and records is not None and delta_too_large(proved, records.rows):
        lines.append(
            f"Delta is too large: with {records.rows:,} records, {chance(proved.delta)} for each "
            f"allows giving away about {about(proved.delta * records.rows, 2)} of them."
        )
    cost = None if release is None else release.accuracy
    if cost is not None and (said := words_cost.useless(cost)):
        lines.append(f"Hardly useful: {said}")
    if release is not None and not release.directory:
        lines.append(f"No model was written. {full(release.why_not)}".rstrip())
    return [printable(line) for line in lines]


def table(assessment: Assessment) -> list[Row]:
    """The three numbers of the release, then those of SGD without added noise."""
    if assessment.question.mechanism:
        return _mechanism_rows(assessment)
    rows = [
        _proved_row(RELEASE, assessment.proved, broken=assessment.broken),
        _estimated_row(RELEASE, assessment.estimated),
        _observed_row(RELEASE, assessment.observed),
    ]
    if assessment.own_noise is None and assessment.plain_attack is None:
        return rows
    return [
        *rows,
        Row(PLAIN, "proved", NOTHING_PROVED, "infinite", "any", "no noise is added: no theorem"),
        _estimated_row(PLAIN, assessment.plain_estimated),
        _observed_row(PLAIN, assessment.plain_observed),
    ]


def not_covered(assessment: Assessment) -> tuple[str, ...]:
    """What was read off the records beside the training, each once."""
    proved, records = assessment.proved, assessment.records
    from_proof = () if proved is None else proved.not_covered
    from_rows = () if records is None else records.reads_private_data
    return leaks(*from_rows, *from_proof)


def leaks(*said: str) -> tuple[str, ...]:
    """What was read, each once; a proof also names a delta that is too large, which was not."""
    once = dict.fromkeys(what.rstrip(".") for what in said)
    return tuple(what for what in once if not what.startswith("delta = "))


def delta_too_large(proved: Guarantee, rows: int | None) -> bool:
    """Whether so many records may be given away by chance that the promise means little."""
    return rows is not None and proved.delta * rows > 0.1


def unit(question: Question) -> str:
    """Who is protected, to stand in a sentence."""
    if question.rows_per_person == 1:
        return "any one record"
    return f"any one person ({question.rows_per_person:,} records at most)"


def learned(proved: Guarantee, unit: str, rows: int | None) -> str:
    """What whoever gets a model with this guarantee learns about `unit`: a verb and its object."""
    if delta_too_large(proved, rows):
        return "may learn all about some of the records, since delta is too large"
    words = next(words for most, words in _LEARNED if proved.epsilon <= most)
    return words.format(unit=unit)


def interval(estimate: Estimate) -> str:
    """Where the estimated number lies, with its level."""
    if estimate.low is None or estimate.high is None or estimate.level is None:
        return "no interval"
    level = percent_of_confidence(estimate.level)
    return f"{about(estimate.low)} to {about(estimate.high)} ({level})"


def full(text: str) -> str:
    """`text` with a full stop."""
    return f"{text.rstrip('.')}." if text else ""


def _holds(assessment: Assessment) -> str:
    proved = assessment.proved
    assert proved is not None
    records, release = assessment.records, assessment.release
    rows = None if records is None else records.rows
    learns = learned(proved, unit(assessment.question), rows)
    kept = release is None or release.directory
    who = "Whoever gets this model" if kept else "Whoever got a model made like this"
    sentence = (
        f"{who} {learns}: epsilon is "
        f"at most {upper(proved.epsilon)} (proved), {_estimate_said(assessment.estimated)}, and "
        f"{_attack_said(assessment.attack)}"
    )
    if not not_covered(assessment):
        return f"{sentence}."
    return f"{sentence}; not covered is what was read off the records beforehand."


def _nothing(assessment: Assessment) -> str:
    parts = assessment.proved_parts
    why = "" if parts is None else parts.why_none.strip().rstrip(".")
    # A reason of several sentences cannot stand within one.
    aside = (
        f" ({_uncapitalised(why)})" if 0 < len(why) <= _LONGEST_ASIDE and ". " not in why else ""
    )
    return (
        f"Nothing is proved about this model{aside}, so treat it like the records themselves: "
        f"epsilon {_estimate_said(assessment.estimated, promises_nothing=True)}, and "
        f"{_attack_said(assessment.attack)}."
    )


def _foreign(assessment: Assessment) -> str:
    name, attack = assessment.question.mechanism, assessment.attack
    if attack is None:
        return f"Nothing is proved about {name}, and it was not attacked."
    if attack.claimed is None:
        return f"Nothing is proved about {name} and nothing is claimed, and {_attack_said(attack)}."
    return (
        f"Nothing is proved about {name}: it claims that epsilon is at most "
        f"{upper(attack.claimed)}, and {_attack_said(attack)}, which does not refute the claim and "
        "does not prove it either."
    )


def _broken(assessment: Assessment) -> str:
    attack, name = assessment.attack, assessment.question.mechanism
    assert attack is not None
    promised = f"claimed for {name}" if name else "proved for this model"
    wrong = (
        "the claim is wrong"
        if name
        else "the proof, its code or what it trusts is wrong, and the model must not be released"
    )
    sure = f"with {percent_of_confidence(attack.observed.confidence)} confidence"
    if attack.violated and attack.claimed is not None:
        seen, said = compared(attack.observed.epsilon, attack.claimed)
        return (
            f"our attack shows {sure} that epsilon is at least {seen}, more than the {said} that "
            f"is {promised}, so {wrong}."
        )
    return (
        f"our attack refutes {sure} the trade-off curve that is {promised}, though not its "
        f"epsilon by itself, so {wrong}."
    )


def _refuted(assessment: Assessment) -> list[str]:
    """Attacks that showed more than was estimated."""
    lines = []
    for of, observed, estimated in (
        (RELEASE, assessment.observed, assessment.estimated),
        (PLAIN, assessment.plain_observed, assessment.plain_estimated),
    ):
        if observed is None or estimated is None or observed.epsilon <= estimated.epsilon:
            continue
        seen, said = compared(observed.epsilon, estimated.epsilon, measured=True)
        lines.append(
            f"Estimate refuted for {of}: our attack shows an epsilon of at least {seen}, more than "
            f"the estimated {said}. What the estimate takes for granted does not hold."
        )
    return lines


def _above_proof(assessment: Assessment) -> list[str]:
    """An estimate above what is proved is too high."""
    estimated, proved = assessment.estimated, assessment.proved
    if estimated is None or proved is None or estimated.epsilon <= proved.epsilon:
        return []
    if math.isinf(estimated.epsilon):
        return [
            f"The estimate is infinite, and at most {upper(proved.epsilon)} is proved: what was "
            "measured takes part of the noise for none."
        ]
    said, most = compared(estimated.epsilon, proved.epsilon)
    return [
        f"The estimate of {said} lies above the {most} that is proved, so it is too high: the "
        "proof holds for all pairs of datasets, and the estimate is uncertain."
    ]


def _looks_better(assessment: Assessment) -> list[str]:
    """What an estimate for SGD without noise that lies below the release's does not mean."""
    own, release, plain = assessment.own_noise, assessment.estimated, assessment.plain_estimated
    if own is None or plain is None or release is None or plain.epsilon >= release.epsilon:
        return []
    most, least = compared(release.epsilon, plain.epsilon, measured=True)
    return [
        f"Un-noised SGD looks more private than the release (about {least} and {most} by our "
        f"estimates), which means little: nothing limits its epsilon. It made {own.training}. One "
        "record of many shows only in runs that saw it among the last: these are few and tell a "
        "lot, and the estimate takes them for Gaussian noise."
    ]


def _estimate_said(estimate: Estimate | None, *, promises_nothing: bool = False) -> str:
    if estimate is None:
        return "could not be estimated"
    most = ", which promises nothing" if promises_nothing else ""
    if math.isinf(estimate.epsilon):
        return f"is without bound by our estimate{most}"
    verb = "is " if promises_nothing else ""
    return f"{verb}about {about(estimate.epsilon, 2)} by our estimate{most}"


def _attack_said(attack: Attack | None) -> str:
    if attack is None:
        return "no attack was made"
    if attack.observed.epsilon > 0:
        return f"our attack shows an epsilon of at least {lower(attack.observed.epsilon, 2)}"
    if attack.claimed is None:
        return "our attack found nothing"
    if attack.reach > 0:
        most = f"about {about(attack.reach, 2)} in a model that just keeps this promise"
        return f"our attack found nothing (so many runs would find {most})"
    return (
        "our attack found nothing (nor would so few runs in a model that just keeps this promise)"
    )


def _uncapitalised(text: str) -> str:
    """`text` with its first word as within a sentence, unless that word is a name."""
    first = text.split(" ", 1)[0]
    return text if not first[1:].islower() and len(first) > 1 else text[:1].lower() + text[1:]


def _proved_row(of: str, proved: Guarantee | None, *, broken: bool = False) -> Row:
    if proved is None or math.isinf(proved.epsilon):
        return Row(of, "proved", NOTHING_PROVED, "infinite", "any", "nothing is proved")
    epsilon, delta = f"at most {upper(proved.epsilon)}", upper(proved.delta)
    sure = "refuted by our attack" if broken else "holds by a theorem"
    return Row(of, "proved", MEANINGS["proved"], epsilon, delta, sure)


def _estimated_row(of: str, estimate: Estimate | None) -> Row:
    kind: Kind = "estimated"
    if estimate is None:
        return Row(of, kind, MEANINGS[kind], "none", "", "none could be made")
    epsilon = "infinite" if math.isinf(estimate.epsilon) else f"about {about(estimate.epsilon)}"
    certainty = f"{interval(estimate)}; no guarantee"
    return Row(of, kind, MEANINGS[kind], epsilon, about(estimate.delta), certainty)


def _observed_row(of: str, observed: Observation | None) -> Row:
    kind: Kind = "observed"
    if observed is None:
        return Row(of, kind, MEANINGS[kind], "none", "", "no attack was made")
    epsilon = f"at least {lower(observed.epsilon)}"
    certainty = f"{percent_of_confidence(observed.confidence)} confidence"
    return Row(of, kind, MEANINGS[kind], epsilon, about(observed.delta), certainty)


def _mechanism_rows(assessment: Assessment) -> list[Row]:
    name, attack = printable(assessment.question.mechanism), assessment.attack
    said, delta = "nothing", ""
    if attack is not None and attack.claimed is not None:
        said, delta = f"at most {upper(attack.claimed)}", about(attack.observed.delta)
    sure = "refuted by our attack" if assessment.broken else "not refuted, not proved"
    return [
        _proved_row(name, None),
        Row(name, "claimed", MEANINGS["claimed"], said, delta, sure),
        _observed_row(name, assessment.observed),
    ]
