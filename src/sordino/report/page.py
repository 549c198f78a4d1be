"""The pages of an assessment: all of it for those who own the records, a certificate for everybody.

What they say is made in `sections`, as blocks; `render` prints them.
"""

from __future__ import annotations

from collections.abc import Iterator

from sordino.report import drawing, palette, render, words
from sordino.report.assessment import Assessment
from sordino.report.blocks import Page, Section
from sordino.report.public import PublicFacts
from sordino.report.sections import certificate, ending
from sordino.report.sections.measured import attacks, noise
from sordino.report.sections.numbers import numbers, three_numbers
from sordino.report.sections.promise import proof, protection
from sordino.report.sections.release import release

_WHY_INTERNAL = (
    "Do not publish this page: exact accuracies, estimates and what attacks achieved were computed "
    "from the records, and no guarantee covers them."
)


def page(assessment: Assessment) -> str:
    """The whole assessment as one self-contained HTML document. INTERNAL."""
    return render.html(internal(assessment))


def markdown(assessment: Assessment) -> str:
    """The same content as Markdown, with descriptions instead of pictures. INTERNAL."""
    return render.markdown(internal(assessment))


def public_page(facts: PublicFacts) -> str:
    """What a certificate may show, as one self-contained HTML document."""
    return render.html(certificate.page(facts))


def public_markdown(facts: PublicFacts) -> str:
    """The same as Markdown."""
    return render.markdown(certificate.page(facts))


def fragment(assessment: Assessment) -> str:
    """A box for notebooks: verdict, axis and table, in styles that stay inside it. INTERNAL."""
    style = palette.css(".sordino-box") + "\n" + render.sheet("fragment.css")
    shown = {
        "verdict": words.verdict(assessment),
        "notes": words.notes(assessment),
        "axis": drawing.axis(assessment),
        "numbers": three_numbers(assessment),
    }
    return render.fragment("fragment.html.j2", style, shown)


def internal(assessment: Assessment) -> Page:
    """The whole assessment as blocks."""
    question, found = assessment.question, assessment.provenance
    alarm, asked = assessment.broken, f"How private is {question.title}?"
    version = found.versions.get("sordino", "")
    return Page(
        title=f"BROKEN: {asked}" if alarm else asked,
        mark="BROKEN · INTERNAL." if alarm else "INTERNAL.",
        why_marked=_WHY_INTERNAL,
        verdict=words.verdict(assessment),
        subtitle=f"{asked} Assessed on {found.date}.",
        notes=tuple(words.notes(assessment)),
        sections=tuple(_sections(assessment)),
        footer=f"Made by sordino {version}. INTERNAL: do not publish this page.",
        version=version,
        alarm=alarm,
        loud=alarm,
    )


def _sections(assessment: Assessment) -> Iterator[Section]:
    yield numbers(assessment)
    if not assessment.question.mechanism:  # else there is an attack and nothing more
        yield from (part(assessment) for part in (protection, release, proof, noise))
    yield attacks(assessment)
    yield ending.caveats(assessment)
    yield ending.provenance(assessment)
    yield ending.rerun(assessment)
    yield ending.glossary()
