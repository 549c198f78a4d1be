"""The release: how it was made, what it costs, and where it is."""

from __future__ import annotations

import shlex

from sordino.report import drawing, words, words_cost
from sordino.report.assessment import Assessment
from sordino.report.blocks import (
    Beside,
    Block,
    Code,
    Facts,
    Figure,
    Folded,
    Heading,
    Line,
    Section,
    Span,
    Text,
    listed,
)
from sordino.report.stages import Accuracy, Measure, Release
from sordino.report.words_numbers import about, count, percent, percent_of_confidence, settings


def release(assessment: Assessment) -> Section:
    """Method, noise, accuracy before and after, the bundle."""
    title = "The release"
    found = assessment.release
    if found is None:
        return Section("release", title, (Text("Nothing was released."),))
    blocks: list[Block] = [
        *_made(found, assessment.question.method),
        *_where(found, broken=assessment.broken),
        Heading("What the privacy costs"),
        *_accuracy(assessment, found),
    ]
    return Section("release", title, tuple(blocks))


def _made(release: Release, asked: str) -> list[Block]:
    chosen = " (chosen by public facts alone)" if asked == "auto" else ""
    made: list[Block] = [
        Facts(
            (
                ("Method", f"{release.method}{chosen}"),
                ("Noise", release.noise),
                ("Source of the noise", release.source),
            )
        )
    ]
    if given := settings(release.settings):
        made.append(Folded(f"Settings of the method ({len(given)})", (Facts(given),)))
    return made


def _where(release: Release, *, broken: bool) -> list[Block]:
    if not release.directory:
        why = words.full(release.why_not) or words.NO_REASON
        return [Text(why, lead="No model was written.", tone="warn")]
    if broken:
        refuted = (
            f'The weights are in the directory "{release.directory}" of the study. An attack '
            "refuted what their certificate says."
        )
        return [Text(refuted, lead="They must not leave.", tone="warn")]
    written = (
        f'The weights and their certificate are in the directory "{release.directory}" of the '
        "study. That directory, and nothing else of the study, may leave."
    )
    check = f"sordino certificate verify {shlex.quote(release.directory)}"
    return [Text(written, lead="Where it is."), Code(check, "To check it, in the study:")]


def _accuracy(assessment: Assessment, release: Release) -> list[Block]:
    found = release.accuracy
    if found is None:
        return [Text("No rows were held out, so the accuracy of the model is not known.")]
    said: list[Block] = [Text(words_cost.cost(found)), *_table(found)]
    if useless := words_cost.useless(found):
        sentence = f"{useless[0].upper()}{useless[1:]}"
        said.append(Text(sentence, lead="Hardly useful.", tone="warn"))
    exact = (
        f"All accuracies and scores are exact, over {count(found.test_rows)} held-out rows. They "
        "are themselves not private, which is one reason why this page is internal."
    )
    said.append(Text(exact))
    scores: list[Block] = []
    if rows := words_cost.table(found):
        caption = "The same models by other scores"
        scores = [listed(caption, words_cost.HEAD, *rows), Text(words_cost.MEANING)]
    if not found.curve:
        return [*said, *scores]
    drawn = drawing.accuracy(found, assessment.question.epsilon)
    return [Beside(tuple(said), (Figure(drawn),)), *scores, _curve(found)]


def _curve(found: Accuracy) -> Block:
    """The figure in numbers."""
    rows = tuple(
        (
            about(point.epsilon),
            percent(point.accuracy.value),
            _span(point.accuracy),
            count(point.repeats),
        )
        for point in found.curve
    )
    table = listed(
        "Mean accuracy of releases by epsilon, all else equal",
        ("epsilon", "mean accuracy", "interval of the mean", "releases"),
        *rows,
    )
    return Folded("The accuracy/epsilon curve in numbers", (table,), printed=False)


def _table(found: Accuracy) -> list[Block]:
    level, share = (percent_of_confidence(each.level) for each in (found.before, found.again))
    named = [("without privacy", found.before), ("this release", found.after)]
    named.append((f"{count(found.repeats)} releases like it, mean", found.again))
    rows: list[tuple[Line, ...]] = [
        (name, percent(measure.value), Span(_span(measure), "number"))
        for name, measure in named
        if measure is not None
    ]
    rows.append(("always the most frequent label", percent(found.majority), "-"))
    meaning = (
        f"The range of one model is its {level} interval, the held-out rows being a sample; that "
        f"of the releases is where {share} of them fall."
    )
    head = ("model", "accuracy", "range")
    return [listed("Accuracy before and after", head, *rows), Text(meaning)]


def _span(measure: Measure) -> str:
    return f"{percent(measure.low)} to {percent(measure.high)}"
