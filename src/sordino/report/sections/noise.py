"""SGD's own noise: what the seed of a training hides, and what it does not promise."""

from __future__ import annotations

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
from sordino.report.stages import Estimated, OwnNoise
from sordino.report.words_numbers import about, count, lower, percent, percent_of_confidence, upper

NO_GUARANTEE = (
    "Everything in this section is an estimate, not a guarantee: it was measured on some seeds and "
    "some pairs of datasets, and takes the noise for Gaussian. Nobody may rely on it in place of "
    "the proof."
)


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
        why = found.why_none or "The reason was not recorded."
        blocks.append(Text(why, lead=f"No estimate of {of}."))
    lines = [*found.words]
    if found.headline is not None:
        lines.append(f"By {found.headline.method}; {found.headline.caveat}.")
    if lines:
        blocks += [Text("", lead=f"How it was measured for {of}."), Bullets(tuple(lines))]
    return blocks
