"""Pages from a study that is there: the internal one again, and the one that may leave.

The public one is made from the model's certificate alone, as anybody could who has it.
"""

from __future__ import annotations

import os
from pathlib import Path

from sordino import _check
from sordino.assessment.directory import ASSESSMENT, MODEL, AssessmentError, found
from sordino.report import public as published
from sordino.report.assessment import Assessment
from sordino.report.public import PublicFacts, public_facts

FORMATS = ("html", "md", "json")


def read(directory: str | os.PathLike[str]) -> Assessment:
    """What a finished study found."""
    from sordino.report import document

    return document.loads((found(directory) / ASSESSMENT).read_text("utf-8"))


def facts(directory: str | os.PathLike[str]) -> PublicFacts:
    """What may be shown of a study's release: its certificate, and what follows from it."""
    from sordino.assessment.proving import best_guess, bounds_of_evidence, curve_of
    from sordino.mechanisms import bundle

    root = found(directory)
    if read(root).broken:
        hint = "An attack refuted what its certificate says: nothing of it may leave."
        raise AssessmentError(f"Expected {root} to hold a model that keeps its promise. {hint}")
    if not (root / MODEL).exists():
        hint = "Nothing was released, so there is nothing to show."
        raise AssessmentError(f"Expected {root} to hold a released model. {hint}")
    certificate, content = bundle.read_certificate(root / MODEL)
    if certificate.guarantee is None or certificate.evidence is None:
        return public_facts(content.decode("ascii"))
    bounds, profile = bounds_of_evidence(certificate.evidence, certificate.guarantee.delta)
    return public_facts(
        content.decode("ascii"),
        tradeoff=curve_of(profile),
        best_guess=best_guess(profile),
        bounds=bounds,
    )


def page_text(directory: str | os.PathLike[str], form: str, *, public: bool) -> str:
    """A page as text."""
    from sordino.report import document, page

    _check.one_of("format", form, FORMATS)
    if public:
        makers = {"html": page.public_page, "md": page.public_markdown, "json": published.dumps}
        return makers[form](facts(directory))
    return {"html": page.page, "md": page.markdown, "json": document.dumps}[form](read(directory))


def write_page(
    directory: str | os.PathLike[str], form: str, out: str | None, *, public: bool
) -> Path:
    """Write a page; into the study, unless another place is named."""
    text = page_text(directory, form, public=public)
    name = f"{'public' if public else 'report'}.{form}"
    path = Path(directory) / name if out is None else Path(out)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        _check.fail("--out", path, f"to be a file that can be written ({error.strerror})")
    return path
