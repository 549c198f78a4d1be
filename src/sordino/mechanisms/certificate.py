"""`Certificate`: the papers of one released model, as JSON and in plain words.

It holds what was promised, every number that the proof needs (`Evidence`), and what the promise
does not cover. It is for the public: nothing in it was read from the records, except what
`preprocessing` and `guarantee.not_covered` own up to.
"""

from __future__ import annotations

import datetime
import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import sordino
from sordino import _check
from sordino.mechanisms import certificate_json as plain
from sordino.mechanisms import certificate_words as words
from sordino.mechanisms.certificate_parts import (
    PACKAGES,
    DatasetFacts,
    Model,
    Preprocessing,
    Tuning,
    plain_labels,
)
from sordino.mechanisms.strict_json import CertificateError, Fields, parse, refuse
from sordino.privacy import Guarantee
from sordino.proofs.evidence import Evidence
from sordino.proofs.evidence_kinds import SelectionEvidence

SCHEMA, VERSION = "sordino-certificate", 1
_TOP = (
    *("schema", "version", "date", "model", "guarantee", "why_none", "method", "evidence"),
    *("facts", "noise", "preprocessing", "tuning", "dataset", "ledger_entry", "versions"),
)

__all__ = [
    "Certificate",
    "CertificateError",
    "DatasetFacts",
    "Model",
    "Preprocessing",
    "Tuning",
    "plain_labels",
    "today",
    "versions",
]


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The papers of one released model. `str` gives them in plain words.

    Parameters
    ----------
    date
        Day of the release, UTC, as 2026-01-31. No time: how long a fit took is a side channel.
    model
        What was released.
    guarantee, why_none
        What was proved of it; or None, and a sentence that says why nothing is promised.
    method
        Name of the method that trained it.
    evidence, facts
        The numbers behind the proof, and what they say in words (`Evidence.facts`).
    noise
        The source it came from; how much and where is in `facts`.
    preprocessing, tuning, dataset
        What happened before, and to which records.
    ledger_entry
        Where the ledger recorded the release, if one did.
    versions
        Of the libraries that took part.
    """

    model: Model
    guarantee: Guarantee | None
    why_none: str = ""
    method: str
    evidence: Evidence | None = None
    facts: Mapping[str, str] = field(default_factory=dict, hash=False)
    noise: str
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    tuning: Tuning = field(default_factory=Tuning)
    dataset: DatasetFacts = field(default_factory=DatasetFacts)
    ledger_entry: str | None = None
    date: str = field(default_factory=lambda: today())
    versions: Mapping[str, str] = field(default_factory=lambda: versions(), hash=False)

    def __post_init__(self) -> None:
        _keep(self, "facts", dict(self.facts))
        _keep(self, "versions", dict(self.versions))
        _check_date(self.date)
        if (self.guarantee is None) != bool(self.why_none.strip()):
            hint = "Say why nothing is promised where nothing is, and only there."
            _check.fail("why_none", repr(self.why_none), "to fit the guarantee", hint)
        if self.guarantee is not None and not math.isfinite(self.guarantee.epsilon):
            hint = "Pass None instead: an infinite epsilon promises nothing."
            _check.fail("epsilon", self.guarantee.epsilon, "to be finite", hint)
        if self.evidence is not None and self.evidence.shape != self.model.shape:
            shapes = f"to be that of {len(self.model.labels)} labels and the features recorded"
            _check.fail("evidence.shape", self.evidence.shape, f"{shapes}, {self.model.shape}")
        self._check_tuning()

    def _check_tuning(self) -> None:
        selection = self.evidence if isinstance(self.evidence, SelectionEvidence) else None
        declared = self.tuning.kind == "declared"
        if self.evidence is not None and declared != (selection is not None):
            hint = "Declared tuning is proved by a selection, and by nothing else."
            _check.fail("tuning", self.tuning.kind, f"to fit a {self.evidence.kind} proof", hint)
        if selection is not None and self.tuning.candidates != len(selection.candidates):
            many = f"to be {len(selection.candidates)}, as the proof has them"
            _check.fail("candidates", self.tuning.candidates, many)

    def __str__(self) -> str:
        return words.in_words(self)

    def to_json(self) -> str:
        """Pretty, with sorted keys: equal certificates give equal text, in ASCII."""
        text = json.dumps(_to_plain(self), indent=2, sort_keys=True, allow_nan=False)
        return text + "\n"

    @classmethod
    def from_json(cls, content: str | bytes) -> Certificate:
        """Read what `to_json` wrote, to the letter.

        Raises
        ------
        CertificateError
            For anything else, with one sentence.
        """
        try:
            return _from_plain(parse(content))
        except _check.InvalidArgument as error:
            raise CertificateError(f"The certificate cannot be right. {error}") from None
        except RecursionError:
            refuse("is nested too deeply")


def today() -> str:
    """The day, UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def versions() -> dict[str, str]:
    """Of sordino, Python and the libraries that a release uses, where they are installed."""
    found = {"sordino": sordino.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _to_plain(certificate: Certificate) -> dict[str, Any]:
    guarantee, evidence = certificate.guarantee, certificate.evidence
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "date": certificate.date,
        "model": plain.to_plain(certificate.model),
        "guarantee": None if guarantee is None else plain.guarantee_to_plain(guarantee),
        "why_none": certificate.why_none,
        "method": certificate.method,
        "evidence": None if evidence is None else evidence.to_plain(),
        "facts": certificate.facts,
        "noise": certificate.noise,
        "preprocessing": plain.to_plain(certificate.preprocessing),
        "tuning": plain.to_plain(certificate.tuning),
        "dataset": plain.to_plain(certificate.dataset),
        "ledger_entry": certificate.ledger_entry,
        "versions": certificate.versions,
    }


def _from_plain(values: object) -> Certificate:
    if not isinstance(values, dict) or values.get("schema") != SCHEMA:
        refuse(f"is none: its schema is not {SCHEMA}")
    version = values.get("version")
    if version != VERSION or isinstance(version, bool | float):
        refuse(f"has schema version {version!r:.20}, and this sordino reads version {VERSION}")
    top = Fields(values, "", _TOP)
    evidence, guarantee = top.any("evidence"), top.any("guarantee")
    return Certificate(
        date=top.text("date"),
        model=plain.model_from_plain(top.any("model")),
        guarantee=None if guarantee is None else plain.guarantee_from_plain(guarantee),
        why_none=top.text("why_none"),
        method=top.text("method"),
        evidence=None if evidence is None else plain.evidence_from_plain(evidence),
        facts=top.table("facts"),
        noise=top.text("noise"),
        preprocessing=plain.preprocessing_from_plain(top.any("preprocessing")),
        tuning=plain.tuning_from_plain(top.any("tuning")),
        dataset=plain.dataset_from_plain(top.any("dataset")),
        ledger_entry=top.text_or_none("ledger_entry"),
        versions=top.table("versions"),
    )


def _check_date(day: str) -> None:
    try:
        good = datetime.date.fromisoformat(day).isoformat() == day
    except ValueError:
        good = False
    if not good:
        _check.fail("date", day, "to be a day such as 2026-01-31")


def _keep(part: object, name: str, value: object) -> None:
    object.__setattr__(part, name, value)
