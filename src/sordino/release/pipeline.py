"""`PipelineCertificate`: one guarantee for all steps of a pipeline that read the same rows.

Every step keeps its promise for whatever the steps before it released, so their profiles compose,
adaptively, and exactly where all are Gaussian (`accounting/compose.py`). Every number of the
composition is in the document: `verify_pipeline` computes the guarantee again from these alone.

It holds no weights: those of the model are in its bundle, whose certificate stands here; what the
steps before it learned, whoever gives the pipeline away has to give along.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import sordino
from sordino import checks, serialize
from sordino.accounting.compose import compose
from sordino.errors import InvalidArgument, NotApplicable, filled, printable
from sordino.privacy import Guarantee, Sampling, rounded
from sordino.proofs.prepared import SumsEvidence
from sordino.proofs.proof import Proof
from sordino.release.bundle import read_papers
from sordino.release.certificate import (
    CERTIFICATE_FORM,
    GUARANTEE_FORM,
    MOST_BYTES,
    STEPS_FITTED,
    Certificate,
    CertificateError,
    refuse,
    today,
    versions,
)
from sordino.release.mechanism import SLACK
from sordino.release.noise import OsGaussian
from sordino.release.verify import TRUST, Verdict, verify_certificate

PIPELINE_SCHEMA, PIPELINE_VERSION = "sordino-pipeline-certificate", 1
ONCE = (
    "every step was fitted once, to what the fitted steps before it make of these rows, and "
    "steps that are called public look at each row by itself alone"
)
_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,79}"
_WIDTH = 92
_CLOSE = 1e-6
"""What is claimed is what the same version of sordino computes again, but for rounding."""

Kind = Literal["private", "public", "reads-rows"]


@dataclass(frozen=True, kw_only=True)
class PipelineStep:
    """One step before the model.

    Parameters
    ----------
    estimator
        Name of its class.
    kind
        "private" (what it learned of the rows was released, and is paid for), "public" (it learned
        nothing of them) or "reads-rows" (it did, without noise: NOT COVERED).
    evidence, delta, noise
        Of a private step: the sums it released, the delta of its own promise, and where the noise
        came from.
    not_covered
        What its own promise leaves out.
    ledger_entry
        Where a ledger recorded it, if one did.
    """

    estimator: str
    kind: Kind
    evidence: SumsEvidence | None = None
    delta: float | None = None
    noise: str = ""
    not_covered: tuple[str, ...] = ()
    ledger_entry: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(_NAME, self.estimator):
            checks.fail("estimator", self.estimator, "to be the name of a class")
        checks.one_of("kind", self.kind, ("private", "public", "reads-rows"))
        known = {value is not None for value in (self.evidence, self.delta)}
        if known != {self.kind == "private"}:
            checks.fail("evidence", "[...]", "and a delta for private steps, and for no others")
        object.__setattr__(self, "not_covered", tuple(self.not_covered))

    @property
    def words(self) -> str:
        """What it did, in a sentence."""
        if self.evidence is not None:
            return f"{self.estimator} released {self.evidence.words}; from: {self.noise}"
        if self.kind == "public":
            return f"{self.estimator} learned nothing of the rows"
        return f"{self.estimator} was fitted to the same rows, without a promise: NOT COVERED"


@dataclass(frozen=True, kw_only=True)
class PipelineCertificate:
    """What is known of a fitted pipeline. `str` gives it in plain words.

    Parameters
    ----------
    steps
        All steps before the model, in their order.
    model
        The certificate of the model at the end; None if the last step is a transformer.
    guarantee
        What holds of everything that was released, together.
    date
        Day of the document, UTC.
    versions
        Of the libraries that took part.

    Raises
    ------
    InvalidArgument
        If the parts do not fit together: two relations, units or deltas.
    """

    steps: tuple[PipelineStep, ...]
    model: Certificate | None
    guarantee: Guarantee
    date: str = field(default_factory=today)
    versions: Mapping[str, str] = field(default_factory=versions, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        _parts(self.steps, self.model)

    @property
    def ledger_entries(self) -> tuple[str, ...]:
        """Where ledgers recorded the releases; a ledger composes them by itself."""
        found = [step.ledger_entry for step in self.steps]
        found += [] if self.model is None else [self.model.ledger_entry]
        return tuple(each for each in found if each is not None)

    def to_json(self) -> str:
        """Pretty, with sorted keys: equal documents give equal text, in ASCII."""
        text = json.dumps(_PIPELINE.write(self), indent=2, sort_keys=True, allow_nan=False)
        return text + "\n"

    @classmethod
    def from_json(cls, content: str | bytes) -> PipelineCertificate:
        """Read what `to_json` wrote.

        Raises
        ------
        CertificateError
            For anything else, with one sentence.
        """
        with serialize.refusing("certificate", CertificateError):
            parsed = serialize.parse(content, MOST_BYTES)
            values = serialize.headed(parsed, PIPELINE_SCHEMA, PIPELINE_VERSION)
            made: PipelineCertificate = _PIPELINE.read(values)
            return made

    def __str__(self) -> str:
        lines = [f"PRIVACY CERTIFICATE of a pipeline, {self.date}", "", str(self.guarantee), ""]
        lines += [f"Step {number}: {step.words}" for number, step in enumerate(self.steps, 1)]
        lines += [f"It assumes: {each}" for each in self.guarantee.assumes]
        wrapped = [filled(printable(line), _WIDTH, then="    ", cut=False) for line in lines]
        own = [] if self.model is None else ["", "THE MODEL ALONE", "", str(self.model)]
        return "\n".join([*wrapped, *own])


_PIPELINE = serialize.Forms(
    {Guarantee: GUARANTEE_FORM, Certificate: CERTIFICATE_FORM},
).record(
    PipelineCertificate,
    derived={"schema": lambda _: PIPELINE_SCHEMA, "version": lambda _: PIPELINE_VERSION},
)


def pipeline_guarantee(steps: tuple[PipelineStep, ...], model: Certificate | None) -> Guarantee:
    """What all steps and the model promise together.

    Raises
    ------
    InvalidArgument
        If they have different relations, units or deltas, or none of them promises anything.
    """
    parts = _parts(steps, model)
    last, delta = parts[-1]
    reads = ", ".join(step.estimator for step in steps if step.kind == "reads-rows")
    left_out = [line for part, _ in parts for line in part.not_covered]
    left_out += [f"{STEPS_FITTED} {reads}"] if reads else []
    given = [line for part, _ in parts for line in part.assumes]
    if model is not None:
        left_out += model.preprocessing.reads
        made = model.preprocessing.features
        given += [] if made is None else [made.assumes]
    together = replace(
        last,
        profile=compose([part.profile for part, _ in parts]),
        sampling=Sampling.FULL if model is None else last.sampling,
        assumes=tuple(dict.fromkeys([*given, ONCE])),
        not_covered=tuple(dict.fromkeys(left_out)),
    )
    return together.guarantee(delta)


def _parts(steps: tuple[PipelineStep, ...], model: Certificate | None) -> list[tuple[Proof, float]]:
    """What is proved of each part alone, with its delta, where all are of one kind."""
    parts = [
        (replace(step.evidence.proof(), not_covered=step.not_covered), step.delta)
        for step in steps
        if step.evidence is not None and step.delta is not None
    ]
    if model is not None:
        if model.guarantee is None or model.evidence is None:
            why = model.why_none or "its certificate has no numbers"
            checks.fail("model", model.model.estimator, f"to promise something: {why}")
        proof = replace(model.evidence.proof(), not_covered=model.guarantee.not_covered)
        parts.append((proof, model.guarantee.delta))
    if not parts:
        checks.fail("pipeline", "[...]", "to have a step that releases anything with noise")
    hint = "Promises for others do not add up: set it alike in all steps."
    for name, values in (
        ("relation", [part.profile.relation.value for part, _ in parts]),
        ("unit", [part.unit for part, _ in parts]),
        ("delta", [delta for _, delta in parts]),
    ):
        if different := [value for value in values if value != values[0]]:
            checks.fail(name, different[0], f"to be {values[0]} in every step", hint)
    return parts


def read_either(
    path: str | os.PathLike[str],
) -> tuple[Certificate | PipelineCertificate, bytes]:
    """The certificate of one model or of a pipeline, as its file says, and its exact bytes.

    Raises
    ------
    CertificateError
        If it is neither.
    """
    content = read_papers(path)
    with serialize.refusing("certificate", CertificateError):
        values = serialize.parse(content, MOST_BYTES)
    if isinstance(values, dict) and values.get("schema") == PIPELINE_SCHEMA:
        return PipelineCertificate.from_json(content), content
    return Certificate.from_json(content), content


def verify_pipeline(certificate: PipelineCertificate, content: bytes | None = None) -> Verdict:
    """Compute the guarantee again from the recorded numbers, and check the model's certificate.

    Parameters
    ----------
    certificate
        The document.
    content
        The bytes that it was read from, if it was.

    Raises
    ------
    CertificateError
        If it does not follow, with the difference.
    """
    claimed, model = certificate.guarantee, certificate.model
    alone = () if model is None else verify_certificate(model).findings
    try:
        proved = pipeline_guarantee(certificate.steps, model)
    except (InvalidArgument, NotApplicable) as error:
        raise CertificateError(f"The recorded numbers prove nothing. {error}") from error
    if not claimed.epsilon >= proved.epsilon * (1 - SLACK):
        only = f"prove only {rounded(proved.epsilon, digits=6)}"
        refuse(f"claims epsilon={claimed.epsilon!r}, but the recorded numbers {only}")
    here = certificate.versions.get("sordino") == sordino.__version__
    if here and claimed.epsilon > proved.epsilon * (1 + _CLOSE):
        numbers = f"its numbers are those of {rounded(proved.epsilon, digits=6)}"
        refuse(f"claims epsilon={claimed.epsilon!r}, but {numbers}")
    terms = ["delta", "relation", "unit", "sampling", "released", "not_covered"]
    for name in (*terms, *(("theorem", "assumes") if here else ())):
        claim, proof = getattr(claimed, name), getattr(proved, name)
        if claim != proof:
            refuse(f"claims another {name} than its numbers are for")
    for step in certificate.steps:
        if step.evidence and not step.noise.startswith(OsGaussian.name_under("").split()[0]):
            refuse(f"makes a promise, but says of the noise of a step: {step.noise!r}")
    if content is not None and certificate.to_json().encode() != content:
        refuse("is not written as sordino writes it")
    claim = f"epsilon <= {rounded(claimed.epsilon)} at delta = {rounded(claimed.delta)}"
    says = f"The claim follows from the recorded numbers of all steps together: {claim}."
    left_out = [f"NOT COVERED by it, as the certificate says: {w}." for w in claimed.not_covered]
    of_model = (f"The model alone: {found}" for found in alone if found != TRUST)
    return Verdict(claimed, (says, *left_out, *of_model, TRUST))
