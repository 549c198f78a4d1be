"""The outcome of an assessment in words: one sentence, what must be known with it, three numbers.

The page begins with these, and the terminal prints them. Every number is rounded to the side that
is true of it: what is proved up, what was observed down. What privacy costs, and what would help,
follows from three accuracies; it is INTERNAL, as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

from sordino.errors import printable
from sordino.privacy import Estimate, Guarantee
from sordino.report.numbers import about, chance, compared, confidence, lower, percent, upper
from sordino.report.result import Accuracy, Assessment, Attack, Question

_Kind = Literal["proved", "claimed", "estimated", "observed"]

MEANINGS: dict[_Kind, str] = {
    "proved": "nobody can learn more",
    "claimed": "what its makers say",
    "estimated": "what randomness seems to hide",
    "observed": "what our attack learned",
}
"""In five words."""
NO_REASON = "The reason was not recorded."
NOT_COVERED = "; not covered is what was read off the records beforehand"
HARDLY_ANYTHING = 10.0
"""From this epsilon on a guarantee is called next to nothing: odds may change 22,026-fold."""
_LEARNED = (
    (1.0, "learns little about {}"),
    (3.0, "learns a limited amount about {}"),
    (HARDLY_ANYTHING, "may learn a lot about {}, since the guarantee is weak"),
    (math.inf, "may learn almost anything about {}"),
)
_LONGEST_ASIDE = 140
"""Letters of a reason that still fits into the verdict; a longer one stands below it."""

SCORES = ("model", "accuracy", "balanced accuracy", "AUC", "log-loss", "calibration error")
"""Columns of `scores`."""
_MATTERS = 0.01
"""A difference of accuracies below a percentage point is nothing to build an advice on."""
_RANKS = 0.6
"""An AUC from which on a model ranks rows much better than by chance."""


class TableRow(NamedTuple):
    """One of the numbers in words: `of` what, which kind, and how sure."""

    of: str
    kind: _Kind
    meaning: str
    epsilon: str
    delta: str
    certainty: str


def verdict(assessment: Assessment) -> str:
    """One sentence in plain words. It begins with BROKEN if an attack refuted what is promised."""
    name, attack, proved = assessment.question.mechanism, assessment.attack, assessment.proved
    learned = _attack_words(attack)
    if assessment.broken:
        sentence = f"BROKEN: {_broken(assessment)}"
    elif name and (attack is None or attack.claimed is None):
        sentence = f"Nothing is proved or claimed about {name}, and {learned}."
    elif name:
        assert attack is not None
        assert attack.claimed is not None
        claim = f"it claims that epsilon is at most {upper(attack.claimed)}"
        neither = "which neither refutes nor proves the claim"
        sentence = f"Nothing is proved about {name}: {claim}, and {learned}, {neither}."
    elif assessment.state == "nothing proved":
        estimate = _estimate_words(assessment.estimated, promises=False)
        treat = f"{_aside(assessment)}, so treat it like the records themselves"
        sentence = f"Nothing is proved about this model{treat}: epsilon {estimate}, and {learned}."
    else:
        assert proved is not None
        records, release = assessment.records, assessment.release
        rows = None if records is None else records.rows
        kept = release is None or release.directory
        who = "Whoever gets this model" if kept else "Whoever got a model made like this"
        most = f"epsilon is at most {upper(proved.epsilon)} (proved)"
        sentence = (
            f"{who} {learns(proved, _unit(assessment.question), rows)}: {most}, "
            f"{_estimate_words(assessment.estimated)}, and "
            f"{learned}{NOT_COVERED if not_covered(assessment) else ''}."
        )
    return printable(sentence)


def _aside(assessment: Assessment) -> str:
    """Why nothing is proved, within a sentence; "" if it takes several, or is long."""
    parts = assessment.proved_parts
    why = "" if parts is None else parts.why_none.strip().rstrip(".")
    if not 0 < len(why) <= _LONGEST_ASIDE or ". " in why:
        return ""
    first = why.split(" ", 1)[0]
    is_name = len(first) > 1 and not first[1:].islower()
    return f" ({why if is_name else why[:1].lower() + why[1:]})"


def _broken(assessment: Assessment) -> str:
    attack, name = assessment.attack, assessment.question.mechanism
    assert attack is not None
    promised = f"claimed for {name}" if name else "proved for this model"
    proof = "the proof, its code or what it trusts is wrong, and the model must not leave"
    wrong = "the claim is wrong" if name else proof
    sure = f"with {confidence(attack.observed.confidence)} confidence"
    if attack.violated and attack.claimed is not None:
        seen, most = compared(attack.observed.epsilon, attack.claimed)
        shown = f"epsilon is at least {seen}, more than the {most} that is {promised}"
        return f"our attack shows {sure} that {shown}, so {wrong}."
    return f"our attack refutes {sure} the trade-off curve that is {promised}, so {wrong}."


def _estimate_words(estimate: Estimate | None, *, promises: bool = True) -> str:
    if estimate is None:
        return "could not be estimated"
    verb, more = ("", "") if promises else ("is ", ", which promises nothing")
    if math.isinf(estimate.epsilon):
        return f"is without bound by our estimate{more}"
    return f"{verb}about {about(estimate.epsilon, 2)} by our estimate{more}"


def _attack_words(attack: Attack | None) -> str:
    if attack is None:
        return "no attack was made"
    if attack.observed.epsilon > 0:
        return f"our attack shows an epsilon of at least {lower(attack.observed.epsilon, 2)}"
    if attack.claimed is None:
        return "our attack found nothing"
    most = f"about {about(attack.reach, 2)}" if attack.reach > 0 else "nothing"
    promise = "a model that just keeps this promise"
    return f"our attack found nothing (so many runs would find {most} in {promise})"


def asked(risk: str, proved: Guarantee) -> str:
    """What was asked for, and the epsilon that it gave."""
    return f"{risk}, which gives epsilon {upper(proved.epsilon)} at delta {upper(proved.delta)}"


def notes(assessment: Assessment) -> list[str]:
    """What must be known together with the verdict, a sentence or two each; often nothing."""
    return [printable(line) for line in _notes(assessment)]


def _notes(assessment: Assessment) -> Iterator[str]:
    parts, release, records = assessment.proved_parts, assessment.release, assessment.records
    proved, estimated = assessment.proved, assessment.estimated
    if proved is not None and assessment.question.asked:
        yield f"Asked for: {asked(assessment.question.asked, proved)}."
    for each in assessment.triples:
        if each.estimate is not None and each.estimate_refuted:
            seen, said = compared(each.least, each.estimate.epsilon, measured=True)
            shown = f"our attack shows an epsilon of at least {seen}"
            yield f"Estimate refuted for {each.of}: {shown}, more than the estimated {said}."
    if proved and estimated and estimated.epsilon > proved.epsilon and not assessment.broken:
        said, most = compared(estimated.epsilon, proved.epsilon)
        yield f"The estimate ({said}) lies above the {most} that is proved, so it is too high."
    own = assessment.own_noise
    plain = None if own is None else own.estimated.headline
    if own and plain and estimated and plain.epsilon < estimated.epsilon:
        most, least = compared(estimated.epsilon, plain.epsilon, measured=True)
        looks = f"looks more private (about {least} and {most} by our estimates)"
        yield f"Un-noised SGD {looks}, which means little: it has no bound. It made {own.training}."
    if parts is not None and proved is None and parts.why_none:
        yield f"Why nothing is proved: {parts.why_none}"
    if assessment.state == "holds" and (leaks := not_covered(assessment)):
        yield f"Not covered by the guarantee: {'; '.join(leaks)}."
    if proved and records and records.persons:
        yield full(records.persons[0].upper() + records.persons[1:])
    if proved and records and _delta_too_large(proved, records.rows):
        each_ = f"{chance(proved.delta)} for each of {records.rows:,} records"
        many = about(proved.delta * records.rows, 2)
        yield f"Delta is too large: {each_} allows giving away about {many} of them."
    if release and release.accuracy and (said := useless(release.accuracy)):
        yield f"Hardly useful: {said}"
    if release is not None and not release.directory:
        yield f"No model was written. {full(release.why_not)}".rstrip()


def table(assessment: Assessment) -> list[TableRow]:
    """The three numbers of the release (or of the mechanism), then those of un-noised SGD."""
    rows: list[TableRow] = []
    for each in assessment.triples:
        of, estimate, observed = printable(each.of), each.estimate, each.observed

        def add(kind: _Kind, *cells: str, of: str = of) -> None:
            rows.append(TableRow(of, kind, MEANINGS[kind], *cells))

        sure = "refuted by our attack" if each.broken else "holds by a theorem"
        most, delta = f"at most {upper(each.most)}", upper(each.delta)
        if each.bound == "claimed" or math.isinf(each.most):
            nothing = "nothing limits what anybody learns"
            rows.append(TableRow(of, "proved", nothing, "infinite", "any", "nothing is proved"))
        else:
            add("proved", most, delta, sure)
        if each.bound == "claimed":
            sure = sure if each.broken else "not refuted, not proved"
            add("claimed", *(("nothing", "") if math.isinf(each.most) else (most, delta)), sure)
        elif estimate is None:
            add("estimated", "none", "", "none could be made")
        else:
            number = about(estimate.epsilon)
            number = number if math.isinf(estimate.epsilon) else f"about {number}"
            sure = f"{interval(estimate)}; no guarantee"
            add("estimated", number, about(estimate.delta), sure)
        if observed is None:
            add("observed", "none", "", "no attack was made")
        else:
            sure = f"{confidence(observed.confidence)} confidence"
            add("observed", f"at least {lower(observed.epsilon)}", about(observed.delta), sure)
    return rows


def not_covered(assessment: Assessment) -> tuple[str, ...]:
    """What was read off the records beside the training, each once."""
    proved, records = assessment.proved, assessment.records
    from_proof = () if proved is None else proved.not_covered
    return each_once(*(() if records is None else records.reads_private_data), *from_proof)


def each_once(*leaks: str) -> tuple[str, ...]:
    """What was read, each once; a proof also names a delta that is too large, which was not."""
    once = dict.fromkeys(what.rstrip(".") for what in leaks)
    return tuple(what for what in once if not what.startswith("delta = "))


def _delta_too_large(proved: Guarantee, rows: int | None) -> bool:
    """Whether so many records may be given away by chance that the promise means little."""
    return rows is not None and proved.delta * rows > 0.1


def _unit(question: Question) -> str:
    """Who is protected, to stand in a sentence."""
    many = question.rows_per_person
    return "any one record" if many == 1 else f"any one person ({many:,} records at most)"


def learns(proved: Guarantee, unit: str, rows: int | None) -> str:
    """What whoever gets a model with this guarantee learns about `unit`: a verb and its object."""
    if _delta_too_large(proved, rows):
        return "may learn all about some of the records, since delta is too large"
    return next(words for most, words in _LEARNED if proved.epsilon <= most).format(unit)


def interval(estimate: Estimate) -> str:
    """Where the estimated number lies, with its level."""
    if estimate.low is None or estimate.high is None or estimate.level is None:
        return "no interval"
    return f"{about(estimate.low)} to {about(estimate.high)} ({confidence(estimate.level)})"


def full(text: str) -> str:
    """`text` with a full stop."""
    return f"{text.rstrip('.')}." if text else ""


def cost(found: Accuracy) -> str:
    """How much accuracy is lost, in a sentence."""
    points = 100 * (found.before.value - found.again.value)
    lost = f"about {points:.1f} percentage points of accuracy" if points >= 0.05 else "no accuracy"
    mean = f"{percent(found.again.value)} on average over {found.repeats:,} releases like this one"
    return f"Privacy costs {lost}: {percent(found.before.value)} without it, {mean}."


def useless(found: Accuracy) -> str:
    """Said where always saying the most frequent label does as well, and what would help; or ""."""
    constant, without, released = found.majority, found.before.value, found.again.value
    if found.again.low > constant:
        return ""
    some = "releases like this one are on average" if released <= constant else "some releases are"
    # Less noise brings releases no further than the model gets without any.
    if without < max(constant, released) + _MATTERS:
        advice = "other columns or another model might help"
    else:
        advice = "more rows or a larger epsilon would help"
    advice = f"Without privacy {percent(without)} are right: {advice}."
    # Labels of uneven classes may be useless where the ranking behind them is not.
    scored = [("without privacy", found.before_scores), (_one(found), found.after_scores)]
    areas = [(name, each.auc) for name, each in scored if each is not None]
    ranks = max((area or 0.0 for _, area in areas), default=0.0) >= _RANKS
    if without < constant + _MATTERS and ranks:
        said = ", ".join(f"{_number(area)} {name}" for name, area in areas)
        advice += f" Rows are ranked better than by chance (AUC {said}): move the threshold."
    rates = f"{percent(released)} right on average, against {percent(constant)}"
    return f"{some} no better than always saying the most frequent label ({rates}). {advice}"


def scores(found: Accuracy) -> list[tuple[str, ...]]:
    """Rows below `SCORES`; none of an assessment made before there were scores."""
    after = None if found.after is None else found.after.value
    named = (
        ("without privacy", found.before.value, found.before_scores),
        (_one(found), after, found.after_scores),
        ("always the most frequent label", found.majority, found.constant_scores),
    )
    rows: list[tuple[str, ...]] = []
    for name, share, each in named:
        if each is not None:
            balanced = _number(each.balanced_accuracy, share=True)
            others = map(_number, (each.auc, each.log_loss, each.calibration_error))
            rows.append((name, "-" if share is None else percent(share), balanced, *others))
    return rows


def _one(found: Accuracy) -> str:
    return "one like it" if found.after is None else "this release"


def _number(value: float | None, *, share: bool = False) -> str:
    if value is None:
        return "not defined"
    return percent(value) if share else f"{value:.3f}"
