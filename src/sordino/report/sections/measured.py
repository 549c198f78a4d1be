"""What was measured: SGD's own noise, and what attacks achieved and could have achieved."""

from __future__ import annotations

from collections.abc import Iterator

from sordino.privacy import Estimate
from sordino.report import drawing, words
from sordino.report.assessment import Assessment
from sordino.report.blocks import (
    Beside,
    Block,
    Bullets,
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
from sordino.report.stages import Attack, Estimated, OwnNoise
from sordino.report.words_numbers import about, count, lower, percent, percent_of_confidence, upper

NO_GUARANTEE = (
    "Everything in this section is an estimate, not a guarantee: it was measured on some seeds and "
    "some pairs of datasets, and takes the noise for Gaussian. Nobody may rely on it in place of "
    "the proof."
)
_TITLES = {
    "release": "On the release",
    "un-noised SGD": "On un-noised SGD",
    "mechanism": "On the mechanism",
}


def noise(assessment: Assessment) -> Section:
    """Distances, sigma and estimates, of the release and of SGD without added noise."""
    title = "SGD's own noise"
    own, estimated = assessment.own_noise, assessment.release_estimated
    if own is None and estimated is None:
        return Section("noise", title, (Text("It was not measured."),))
    intro = (
        "Training is random: the seed decides in which order records are seen. If another seed "
        "moves the final weights more than another record does, the seed may hide the record."
    )
    blocks: list[Block] = [Text(NO_GUARANTEE, tone="warn"), Text(intro)]
    if own is not None:
        blocks += _own(own)
    blocks += [Heading("The estimates"), *_estimates(assessment, estimated, own)]
    return Section("noise", title, tuple(blocks))


def _own(own: OwnNoise) -> list[Block]:
    facts = [
        ("Training", own.training),
        (
            "Measured over",
            f"{count(own.runs)} trainings: {count(own.seeds)} seeds, each on the records and on "
            f"{count(own.neighbours)} neighbouring datasets, and more on the attacked pair",
        ),
        ("Sigma: how widely the seed spreads a weight", _sigma(own)),
        (
            "One record moves the weights, as seen (the crafted one, too)",
            f"by {lower(own.sensitivity)} or more",
        ),
        ("One record moves the weights, as proved", _bound(own)),
    ]
    if own.gaussian_share is not None:
        facts.append(
            (
                "Weights whose noise looks Gaussian",
                f"{percent(own.gaussian_share, 0)} (a test at 5% would call 95% so if all were)",
            )
        )
    return [
        Heading("Un-noised SGD"),
        Beside((Facts(tuple(facts)),), (Figure(drawing.distances(own)),)),
        *([Bullets(own.notes)] if own.notes else []),
    ]


def _sigma(own: OwnNoise) -> str:
    sigma = own.sigma
    level = percent_of_confidence(sigma.level)
    return f"{about(sigma.value)} ({level} interval {about(sigma.low)} to {about(sigma.high)})"


def _bound(own: OwnNoise) -> str:
    if own.bound is None:
        return own.no_bound or "no bound is known"
    return f"by {upper(own.bound)} at most"


def _estimates(
    assessment: Assessment, release: Estimated | None, own: OwnNoise | None
) -> list[Block]:
    plain = None if own is None else own.estimated
    named = ((words.RELEASE, release), (words.PLAIN, plain))
    groups = [
        Group(of, rows) for of, found in named if found is not None and (rows := _rows(found))
    ]
    head = ("way", "epsilon", "interval")
    table = Table("Estimates, none of them a guarantee", head, tuple(groups))
    blocks: list[Block] = [table] if groups else []
    drawn = drawing.estimates(assessment)
    if drawn is not None:
        blocks = [Beside(tuple(blocks), (Figure(drawn),))]
    for of, found in named:
        if found is not None:
            blocks += _described(of, found)
    return blocks


def _rows(found: Estimated) -> tuple[tuple[Line, ...], ...]:
    ways = (
        ("one sigma for all directions", found.isotropic),
        ("along the most telling direction", found.directional),
    )
    rows = [_row(way, estimate) for way, estimate in ways if estimate is not None]
    if found.headline is not None and found.headline not in (found.isotropic, found.directional):
        rows.append(_row("on the axis", found.headline))
    return tuple(rows)


def _row(way: str, estimate: Estimate) -> tuple[Line, ...]:
    return way, Span(f"about {about(estimate.epsilon)}", "estimated"), words.interval(estimate)


def _described(of: str, found: Estimated) -> list[Block]:
    blocks: list[Block] = []
    if found.headline is None:
        blocks.append(Text(found.why_none or words.NO_REASON, lead=f"No estimate of {of}."))
    lines = [*found.words]
    if found.headline is not None:
        lines.append(f"By {found.headline.method}; {found.headline.caveat}.")
    if lines:
        blocks += [Text("", lead=f"How it was measured for {of}."), Bullets(tuple(lines))]
    return blocks


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
        refuted = "refuted" if attack.curve_refuted else "not refuted"
        second = f"{refuted} by a second test, over all thresholds, at the same confidence"
        facts.append(("The whole curve", second))
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


def _bounds(attacks: tuple[Attack, ...]) -> Block:
    groups = tuple(
        Group(_title(attack) if len(attacks) > 1 else "", tuple(_lower_bounds(attack)))
        for attack in attacks
    )
    return Table(
        "Lower bounds from the same runs. Some assume more, and hold only if that is so",
        ("bound, and what it assumes", "epsilon", "confidence"),
        groups,
    )


def _lower_bounds(attack: Attack) -> Iterator[tuple[Line, ...]]:
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
