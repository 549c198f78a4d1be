"""The release: how it was made, what it costs, and where it is."""

from __future__ import annotations

import shlex

from sordino.report import drawing
from sordino.report.assessment import Assessment
from sordino.report.blocks import Block, Code, Facts, Figure, Folded, Heading, Section, Text, listed
from sordino.report.stages import Accuracy, Measure, Release
from sordino.report.words_numbers import count, percent, percent_of_confidence, plain


def release(assessment: Assessment) -> Section:
    """Method, noise, accuracy before and after, the bundle."""
    title = "The release"
    found = assessment.release
    if found is None:
        return Section("release", title, (Text(_nothing(assessment)),))
    blocks: list[Block] = [
        Facts(_made(found, assessment.question.method)),
        *_settings(found),
        *_where(found),
        Heading("What the privacy costs"),
        *_accuracy(assessment, found),
    ]
    return Section("release", title, tuple(blocks))


def _nothing(assessment: Assessment) -> str:
    if assessment.question.mechanism:
        return "Does not apply: a mechanism that is only attacked releases nothing here."
    return "Nothing was released."


def _made(release: Release, asked: str) -> tuple[tuple[str, str], ...]:
    chosen = " (chosen by public facts alone)" if asked == "auto" else ""
    facts = (
        ("Method", f"{release.method}{chosen}"),
        ("Noise", release.noise),
        ("Source of the noise", release.source),
    )
    return tuple((name, text) for name, text in facts if text)


def _settings(release: Release) -> list[Block]:
    given = [(name.replace("_", " "), plain(value)) for name, value in release.settings.items()]
    if not given:
        return []
    return [Folded(f"Settings of the method ({len(given)})", (Facts(tuple(given)),))]


def _where(release: Release) -> list[Block]:
    if not release.directory:
        why = release.why_not or "The reason was not recorded."
        return [Text(why, lead="No model was written.", tone="warn")]
    check = Code(
        f"sordino certificate verify {shlex.quote(release.directory)}", "To check it, in the study:"
    )
    written = (
        f'The weights and their certificate are in the directory "{release.directory}" of the '
        "study. That directory, and nothing else of the study, may leave."
    )
    return [Text(written, lead="Where it is."), check]


def _accuracy(assessment: Assessment, release: Release) -> list[Block]:
    found = release.accuracy
    if found is None:
        return [Text("No rows were held out, so the accuracy of the model is not known.")]
    blocks: list[Block] = [Text(_cost(found)), _table(found)]
    if found.again.low <= found.majority:
        blocks.append(
            Text(
                "Some releases like this one are no better than always saying the most frequent "
                "label. More rows or a larger epsilon would help.",
                lead="Hardly useful.",
                tone="warn",
            )
        )
    if found.curve:
        blocks.append(Figure(drawing.accuracy(found, assessment.question.epsilon)))
    exact = (
        f"All accuracies are exact counts over {count(found.test_rows)} held-out rows. They are "
        "themselves not private, which is one reason why this page is internal."
    )
    return [*blocks, Text(exact)]


def _cost(found: Accuracy) -> str:
    points = 100 * (found.before.value - found.again.value)
    said = (
        f"costs about {points:.1f} percentage points of accuracy"
        if points >= 0.05
        else "costs no accuracy that these rows could show"
    )
    return (
        f"Privacy {said}: {percent(found.before.value)} without it, {percent(found.again.value)} "
        f"on average over {count(found.repeats)} releases like this one."
    )


def _table(found: Accuracy) -> Block:
    rows = [("without privacy", percent(found.before.value), _of_rows(found.before))]
    if found.after is not None:
        rows.append(("this release", percent(found.after.value), _of_rows(found.after)))
    rows.append(
        (
            f"{count(found.repeats)} releases like it, mean",
            percent(found.again.value),
            f"{percent_of_confidence(found.again.level)} of such releases: {_span(found.again)}",
        )
    )
    rows.append(("always the most frequent label", percent(found.majority), "-"))
    return listed("Accuracy before and after", ("model", "accuracy", "uncertainty"), *rows)


def _of_rows(measure: Measure) -> str:
    level = percent_of_confidence(measure.level)
    return f"{_span(measure)} ({level} interval, test rows being a sample)"


def _span(measure: Measure) -> str:
    return f"{percent(measure.low)} to {percent(measure.high)}"
