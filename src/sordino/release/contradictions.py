"""Papers that contradict themselves: what stands twice, or follows from something else, must agree.

`verify` computes the promise again from the recorded numbers (`Evidence`). Beside them stand the
model, the settings it was asked for, the noise's source, the columns, the ledger, the versions: a
reader believes these too. Whoever forges papers without a contradiction has to forge the numbers
themselves, and against that only a signature helps.

`proofs/settings.py` compares the settings with the numbers, this file all the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import sordino
from sordino.privacy import Relation, default_delta, large_delta
from sordino.proofs.evidence import SelectionEvidence
from sordino.proofs.objective import ObjectiveEvidence
from sordino.proofs.output import OutputEvidence
from sordino.proofs.proof import Evidence, TrainingEvidence
from sordino.proofs.settings import ESTIMATORS, GENERAL, HOW, METHODS, TrainingRequest, method_of
from sordino.release.certificate import PACKAGES, CertificateError, Model, Preprocessing, refuse
from sordino.release.ledger_terms import dataset_name
from sordino.release.noise import CryptoNormals, OsGaussian

if TYPE_CHECKING:
    from sordino.release.certificate import Certificate

AUTO = ("objective", "noisy-gd", "dp-sgd")
"""What "auto" may have chosen."""
_ENTRY, _VERSION = r"[0-9a-f]{32}", r"[0-9][0-9A-Za-z.+!-]{0,40}"


def check(certificate: Certificate) -> None:
    """Return if nothing in the certificate speaks against anything else in it.

    Raises
    ------
    CertificateError
        For the first contradiction, with both sides.
    """
    try:
        _check_model(certificate.model)
        _check_columns(certificate.model, certificate.preprocessing)
        _check_papers(certificate)
        if certificate.guarantee is None:
            _check_no_promise(certificate)
        else:
            _check_promise(certificate)
    except CertificateError:
        raise
    except Exception as error:  # settings that somebody made up may break a comparison anywhere
        raise CertificateError(
            f"The certificate cannot be right: {error}".rstrip(".") + "."
        ) from error


def released(evidence: Evidence) -> Evidence:
    """The numbers of the training whose model was released."""
    if isinstance(evidence, SelectionEvidence):
        return evidence.candidates[evidence.selected]
    return evidence


def made_here(certificate: Certificate) -> bool:
    """Whether this version of sordino wrote it: then also the words are known to the letter."""
    return certificate.versions.get("sordino") == sordino.__version__


# What stands beside the proof


def _check_model(model: Model) -> None:
    if model.estimator not in ESTIMATORS:
        known = " and ".join(ESTIMATORS)
        refuse(f"is of a {model.estimator}, and this version knows {known} only")
    names = {*GENERAL, *HOW, *(("huber_width",) if model.estimator == "PrivateLinearSVC" else ())}
    for name in sorted(names - set(model.settings)):
        refuse(f"does not say its setting {name}")
    for name in sorted(set(model.settings) - names):
        refuse(f"has a setting {name!r} that is none")
    if list(model.labels) != sorted(model.labels):
        refuse("has its labels in another order than that of the weights, which is sorted")
    _same("fit_intercept", model.settings["fit_intercept"], "the model", model.intercept)


def _check_columns(model: Model, before: Preprocessing) -> None:
    if not before.columns:
        return
    from sordino.data.cells import spelled
    from sordino.data.columns import Columns, feature_names

    known = Columns.from_toml(before.columns)
    if known.read_from_data:
        refuse("describes its columns by what was read from the records, and calls that public")
    names = feature_names(known.features)
    if len(names) != model.features:
        refuse(f"describes columns for {len(names)} features, and its model has {model.features}")
    if model.feature_names not in (None, names):
        refuse("names other features than its description of the columns does")
    if known.classes is not None:
        labels = tuple(np.unique(spelled(known.classes)).tolist())
        _same("classes", labels, "the model", model.labels, "description of the columns")


def _check_papers(certificate: Certificate) -> None:
    """The ledger's part is whole or missing, and versions are versions."""
    dataset, entry = certificate.dataset, certificate.ledger_entry
    if len({each is None for each in (dataset.name, dataset.fingerprint, entry)}) > 1:
        refuse("has only some of the name, the fingerprint and the entry that a ledger gives")
    if entry is not None and not re.fullmatch(_ENTRY, entry):
        refuse(f"names an entry {entry!r}, which no ledger has")
    if dataset.name is not None and dataset_name(dataset.name) != dataset.name:
        refuse(f"has a name {dataset.name!r} for its records that no ledger has")
    if "sordino" not in certificate.versions:
        refuse("does not say which version of sordino wrote it")
    for name, version in certificate.versions.items():
        if not re.fullmatch(_VERSION, version):
            refuse(f"has a version {version!r} of {name!r}, and that is none")
        if made_here(certificate) and name not in ("sordino", "python", *PACKAGES):
            refuse(f"has a version of {name!r}, which takes no part in a release")


def _check_no_promise(certificate: Certificate) -> None:
    if certificate.evidence is not None or certificate.facts:
        refuse("promises nothing, and yet records the numbers of a proof")
    if certificate.tuning.kind == "declared":
        refuse("promises nothing, and yet says that its tuning was paid for")


# The proof, and what was asked for


def _check_promise(certificate: Certificate) -> None:
    guarantee, evidence = certificate.guarantee, certificate.evidence
    settings = certificate.model.settings
    assert guarantee is not None
    assert evidence is not None  # `verify` asks for it first
    one = released(evidence)
    method = METHODS.get(certificate.method)
    if method is None or not isinstance(one, method.kind):
        refuse(f"names the method {certificate.method!r}, but its numbers are of {one.kind}")
    if settings["method"] != certificate.method:
        if settings["method"] != "auto":
            refuse(f"names the method {certificate.method!r}, but {settings['method']!r} was asked")
        _check_auto(certificate.method, settings)
    _check_noise(certificate, one)
    if isinstance(one, ObjectiveEvidence) and settings["public_rows"] is not None:
        least = settings["l2"] * settings["public_rows"] * (1 - 1e-9)
        if not one.regulariser >= least:
            refuse(f"says l2={settings['l2']!r} by its settings, but its proof has a weaker one")
    _same("relation", settings["relation"], "its proof", one.relation.value)
    _same("max_rows_per_person", settings["max_rows_per_person"], "its proof", one.rows_per_person)
    _check_rows(settings, one, guarantee.delta, guarantee.not_covered)
    for name in HOW:
        if settings[name] is not None and name not in method.takes:
            refuse(
                f"has a setting {name}={settings[name]!r}, which {certificate.method} does not take"
            )
    asked = TrainingRequest.of(certificate.model.estimator, settings, certificate.method)
    for name, said, found in asked.compared(one):
        _same(name, said, "its proof", found)
    if isinstance(evidence, SelectionEvidence):
        _check_others(certificate, evidence)


def _check_auto(method: str, settings: Mapping[str, Any]) -> None:
    given = [name for name in HOW if settings[name] is not None]
    if method not in AUTO or given:
        what = f"{given[0]} for it" if given else f"{method!r} by it"
        refuse(f"was asked for the method 'auto', and there is no {what}")


def _check_noise(certificate: Certificate, evidence: Evidence) -> None:
    """A promise rests on noise that nobody can draw again, from the source of its method."""
    noise = certificate.noise
    sources = (OsGaussian.named("").split()[0], CryptoNormals.name.split()[0])
    if not noise.startswith(sources):  # of any version
        refuse(f"makes a promise, but says of its noise: {noise!r}")
    on_output = isinstance(evidence, OutputEvidence | ObjectiveEvidence)
    opendp = certificate.versions.get("opendp", "")
    expected = OsGaussian.named(opendp) if on_output else CryptoNormals.name
    if made_here(certificate) and noise != expected:
        refuse(f"says of its noise {noise!r}, but that of its method is {expected!r}")


def _check_rows(
    settings: Mapping[str, Any], evidence: Evidence, delta: float, not_covered: tuple[str, ...]
) -> None:
    """The number of records, where it stands anywhere, and the delta that follows from it."""
    private = evidence.relation is Relation.ADD_OR_REMOVE_ONE
    rows = settings["public_rows"]
    if (rows is not None) != private:
        refuse(f"has public_rows={rows!r} under {evidence.relation.value}")
    if isinstance(evidence, TrainingEvidence):
        if private:
            _same("public_rows", rows, "its proof", evidence.rows)
        rows = evidence.rows
    if settings["delta"] is None:  # one digit, and that of the records where they are counted
        default = float(f"{delta:.0e}") if rows is None else default_delta(rows)
        _same("delta", default, "its promise", delta, "default")
    if rows is None:
        return
    if not set(large_delta(delta, rows)) <= set(not_covered):
        refuse(f"does not say that delta={delta!r} is too large for {rows} records to mean much")


def _check_others(certificate: Certificate, evidence: SelectionEvidence) -> None:
    """The candidates that were not released: their numbers are all that is known of them."""
    guarantee, chosen, model = certificate.guarantee, released(evidence), certificate.model
    assert guarantee is not None
    for each in evidence.candidates:
        if (each.problems, each.columns) not in (
            (model.problems, model.features),
            (model.problems, model.features + 1),
        ):
            refuse("chose among models of other shapes than its data have")
        _same("delta", guarantee.delta, "a candidate", getattr(each, "delta", guarantee.delta))
        if each.relation is not Relation.ADD_OR_REMOVE_ONE:
            rows = [one.rows for one in (chosen, each) if isinstance(one, TrainingEvidence)]
            _same("rows", rows[:1], "a candidate", rows[-1:])
        for name, said, found in TrainingRequest(method_of(each), {}).compared(each):
            _same(name, said, "a candidate", found)


def _same(name: str, said: object, where: str, found: object, by: str = "settings") -> None:
    # True equals 1, but no flag is a number.
    if said != found or isinstance(said, bool) != isinstance(found, bool):
        refuse(f"says {name}={said!r} by its {by}, but {where} says {found!r}")
