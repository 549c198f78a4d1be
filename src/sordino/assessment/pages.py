"""Pages from an assessment that is there: the internal one again, and the one that may leave.

The public one is made from the model's certificate alone, as anybody could who has it. Neither says
"proved" of a certificate that was not verified at that moment.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sordino import _files, checks
from sordino.assessment.directory import ASSESSMENT, MODEL, AssessmentError, finished
from sordino.privacy import Guarantee
from sordino.proofs.proof import about_persons
from sordino.release.certificate import Certificate, CertificateError
from sordino.report import public as published
from sordino.report.public import PublicFacts, public_facts
from sordino.report.result import Assessment, Release

if TYPE_CHECKING:
    from sordino.release.bundle import Bundle

_CHANGED = "It was changed: assess anew."
_SLACK = {"rel_tol": 1e-3, "abs_tol": 1e-6}
"""By how much another version may have computed the same otherwise."""


def read(directory: str | os.PathLike[str]) -> Assessment:
    """What a finished assessment found."""
    from sordino.report import result

    path = finished(directory) / ASSESSMENT
    try:
        return result.loads(_files.read(path))
    except OSError as error:
        raise AssessmentError(f"{path} cannot be read: {_files.reason(error)}.") from None
    except result.DocumentError as error:
        raise AssessmentError(f"{path} is damaged: {error} Run `sordino assess` again.") from None


def verified(root: Path, release: Release | None, proved: Guarantee | None) -> Bundle | None:
    """The released model, if it is in its place, and its certificate holds at this moment.

    Parameters
    ----------
    root
        Directory of the assessment.
    release, proved
        What the assessment says of it, as it was kept: files that may have been changed since.

    Returns
    -------
    Bundle or None
        None where nothing was written, or where the model was taken away. Then only the certificate
        that the assessment keeps was verified.

    Raises
    ------
    AssessmentError
        If the certificate does not hold up, the weights are not those that it is about, the model
        is that of another release, or the assessment says something else than the certificate.
    """
    if release is None or not release.certificate:
        return None
    from sordino.release import bundle
    from sordino.release.verify import verify, verify_certificate

    content, model = release.certificate.encode(), None
    try:
        certificate = Certificate.from_json(content)
        if (root / MODEL).exists():
            model = bundle.read(root / MODEL)
            verify(model)
        else:
            verify_certificate(certificate, content)
    except CertificateError as reason:
        raise AssessmentError(f"{root / MODEL} does not hold up. {reason}") from None
    if model is not None and model.certificate_bytes != content:
        raise AssessmentError(f"{root / MODEL} is of another release. Put back the right one.")
    claimed, evidence = certificate.guarantee, certificate.evidence
    if claimed is not None and evidence is not None and evidence.persons_counted is None:
        # An earlier version wrote it, and this one says what that left out.
        more = about_persons(False, evidence.rows_per_person)
        claimed = replace(claimed, assumes=(*claimed.assumes, *more))
    if proved not in (certificate.guarantee, claimed):
        raise AssessmentError(f"{root} contradicts its certificate. {_CHANGED}")
    return model


def _check_theorems(root: Path, assessment: Assessment) -> None:
    """Refuse an assessment that says more of a theorem than its certificate's evidence proves.

    Raises
    ------
    AssessmentError
        For a smaller epsilon or best guess, or larger errors of an attacker.
    """
    release, parts = assessment.release, assessment.proved_parts
    if release is None or not release.certificate or parts is None or parts.guarantee is None:
        return
    from sordino.assessment.stages.prove import best_guess, bounds_of_evidence, curve_of

    certificate = Certificate.from_json(release.certificate.encode())
    evidence = certificate.evidence
    assert evidence is not None
    if certificate.asked != assessment.question.asked:
        raise AssessmentError(f"{root} was asked for something else, it says. {_CHANGED}")
    bounds, profile = bounds_of_evidence(evidence, parts.guarantee.delta)
    proved = {each.name: each.epsilon for each in bounds}
    claims = [(parts.best_guess, best_guess(profile))]
    for each in parts.bounds:
        if each.epsilon is not None and each.kind == "guarantee":
            # Of a theorem by a name of another version, nothing below the certificate itself.
            epsilon = proved.get(each.name, parts.guarantee.epsilon)
            claims.append((each.epsilon, math.inf if epsilon is None else epsilon))
    if parts.tradeoff is not None:
        ours, curve = curve_of(profile), parts.tradeoff
        most = np.interp(curve.x, ours.x, ours.y).tolist()
        claims += [(-error, -proved) for error, proved in zip(curve.y, most, strict=True)]
    if any(claim < least and not math.isclose(claim, least, **_SLACK) for claim, least in claims):
        raise AssessmentError(f"{root} says more than its certificate proves. {_CHANGED}")


def _facts(root: Path, assessment: Assessment) -> PublicFacts:
    """What may be shown of a release: its certificate, and what follows from it."""
    from sordino.assessment.stages.prove import best_guess, bounds_of_evidence, curve_of

    if assessment.broken:
        raise AssessmentError(f"An attack refuted the certificate in {root}: nothing may leave.")
    model = verified(root, assessment.release, assessment.proved)
    if model is None:
        raise AssessmentError(f"Expected {root} to hold a released model.")
    certificate, content = model.certificate, model.certificate_bytes.decode("ascii")
    if certificate.guarantee is None or certificate.evidence is None:
        return public_facts(content)
    bounds, profile = bounds_of_evidence(certificate.evidence, certificate.guarantee.delta)
    return public_facts(
        content,
        tradeoff=curve_of(profile),
        best_guess=best_guess(profile),
        bounds=bounds,
        asked=certificate.asked,
    )


def page_text(directory: str | os.PathLike[str], form: str, *, public: bool) -> str:
    """A page as text: `form` is "html", "md" or "json"."""
    from sordino.report import page, result, sections

    checks.one_of("format", form, ("html", "md", "json"))
    root = finished(directory)
    assessment = read(root)
    makers = {"html": page.html, "md": page.markdown}
    if public:
        facts = _facts(root, assessment)
        return published.dumps(facts) if form == "json" else makers[form](published.page(facts))
    verified(root, assessment.release, assessment.proved)
    _check_theorems(root, assessment)
    return result.dumps(assessment) if form == "json" else makers[form](sections.page(assessment))


def write_page(
    directory: str | os.PathLike[str], form: str, out: str | None, *, public: bool
) -> Path:
    """Write a page, whole or not at all; into the assessment, unless another place is named."""
    finished(directory)
    name = f"{'public' if public else 'report'}.{form}"
    path = Path(directory) / name if out is None else Path(out)
    with _files.explained("--out", path, "written"):
        _files.check_place(path)
    text = page_text(directory, form, public=public)
    with _files.explained("--out", path, "written"):
        _files.write(path, text.encode())
    return path
