"""Does the claim follow from the record? Everything is computed again, through `proofs`.

`verify` computes the promise again from the recorded numbers (`Evidence`). Beside them stand the
model, the settings it was asked for, the noise's source, the columns, the ledger, the versions: a
reader believes these too. What stands twice, or follows from something else, must agree: whoever
forges a certificate without a contradiction has to forge the numbers themselves, and against that
only a signature helps. `proofs/settings.py` compares the settings with the numbers, this file
all the rest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import sordino
from sordino.accounting.profile import Profile
from sordino.accounting.risk import RiskTarget
from sordino.errors import printable
from sordino.privacy import Guarantee, Relation, default_delta, large_delta, rounded
from sordino.proofs.evidence import SelectionEvidence
from sordino.proofs.objective import ObjectiveEvidence
from sordino.proofs.output import OutputEvidence
from sordino.proofs.prepared import training_of
from sordino.proofs.proof import Evidence, TrainingEvidence
from sordino.proofs.settings import (
    ESTIMATORS,
    GENERAL,
    HOW,
    METHODS,
    WRITTEN_IF_GIVEN,
    TrainingRequest,
    method_of,
)
from sordino.release import certificate as form
from sordino.release.bundle import SIGNATURE, WEIGHTS, Bundle
from sordino.release.certificate import Certificate, CertificateError, Model, Preprocessing, refuse
from sordino.release.ledger.budget import dataset_name
from sordino.release.mechanism import SLACK
from sordino.release.noise import CryptoNormals, OsGaussian

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

TRUST = "The noise is taken on trust: the weights do not show it."
_CLOSE = 0.01
"""Noise is calibrated: what the numbers prove is what was asked for and claimed, nearly."""
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")
_AUTO = ("objective", "noisy-gd", "dp-sgd")
"""What the method "auto" may have chosen."""
_ENTRY, _VERSION = r"[0-9a-f]{32}", r"[0-9][0-9A-Za-z.+!-]{0,40}"


@dataclass(frozen=True)
class Verdict:
    """What was checked and held, and what could not be checked, a sentence each.

    `guarantee` is the claim that was verified; None if the certificate makes none.
    """

    guarantee: Guarantee | None
    findings: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(map(printable, self.findings))


def verify(bundle: Bundle, *, public_key: Ed25519PublicKey | None = None) -> Verdict:
    """Check all that can be checked of a bundle that `bundle.read` returned.

    Parameters
    ----------
    bundle
        The bundle; reading it compared the weights with their digest.
    public_key
        Whose signature it must carry. None: a signature is mentioned, not checked.

    Raises
    ------
    CertificateError
        If anything does not hold, with the difference.
    """
    if public_key is None:
        what = "no signature" if bundle.signature is None else "a signature, and it was not checked"
        signed = f"There is {what}. {form.SIGNATURES}"
    elif bundle.signature is None:
        raise CertificateError(f"The bundle is not signed: {SIGNATURE} is missing.")
    else:
        from sordino.release import signature

        signature.check(bundle.certificate_bytes, bundle.signature, public_key)
        signed = f"The certificate was signed by the key {signature.key_name(public_key)}."
    claim = _recompute(bundle.certificate, bundle.certificate_bytes)
    weights = f"{WEIGHTS} holds the weights that were certified (SHA-256)."
    return Verdict(bundle.certificate.guarantee, (*claim, weights, signed, TRUST))


def verify_certificate(certificate: Certificate, content: bytes | None = None) -> Verdict:
    """Check a certificate alone: whether its claim follows, not whose weights it is about.

    Parameters
    ----------
    certificate
        The certificate.
    content
        The bytes that it was read from, if it was.

    Raises
    ------
    CertificateError
        If it does not follow, with the difference.
    """
    alone = f"The weights were not looked at, and no signature. {form.SIGNATURES}"
    return Verdict(certificate.guarantee, (*_recompute(certificate, content), alone, TRUST))


def check_consistent(certificate: Certificate) -> None:
    """Return if nothing in the certificate speaks against anything else in it.

    Raises
    ------
    CertificateError
        For the first contradiction, with both sides.
    """
    with _refusing("The certificate cannot be right"):
        _check_model(certificate.model)
        _check_columns(certificate.model, certificate.preprocessing)
        _check_persons(certificate.preprocessing, certificate.evidence)
        _check_record(certificate)
        if certificate.guarantee is not None:
            _check_promise(certificate, certificate.guarantee)
        elif certificate.evidence or certificate.facts or certificate.tuning.kind == "declared":
            refuse("promises nothing, and yet has numbers of a proof or declared tuning")


@contextmanager
def _refusing(says: str) -> Iterator[None]:
    """Refuse whatever breaks: numbers and settings that somebody made up may do so anywhere."""
    try:
        yield
    except CertificateError:
        raise
    except Exception as error:
        why = str(error).rstrip(".")
        raise CertificateError(f"{says}: {why}.") from error


# --- The claim, computed again


def _recompute(certificate: Certificate, content: bytes | None) -> list[str]:
    """What was found of the claim, recomputed, and of everything that stands beside it."""
    guarantee, evidence = certificate.guarantee, certificate.evidence
    if guarantee is not None and evidence is None:
        refuse(f"claims epsilon={guarantee.epsilon!r}, but records no numbers that prove it")
    check_consistent(certificate)  # first, for a proof may take long
    findings = [f"NOTHING IS PROMISED by this certificate: {certificate.why_none}"]
    if guarantee is not None and evidence is not None:
        findings = _findings(certificate, guarantee, evidence)
    # To the letter: blanks could tell something.
    if content is not None and certificate.to_json().encode() != content:
        refuse("is not written as sordino writes it")
    return findings


def _findings(certificate: Certificate, claimed: Guarantee, evidence: Evidence) -> list[str]:
    with _refusing("The recorded numbers prove nothing"):
        proof = evidence.proof()
        proved = proof.guarantee(claimed.delta)
    if not claimed.epsilon >= proved.epsilon * (1 - SLACK):
        only = f"prove only {rounded(proved.epsilon, digits=6)}"
        refuse(f"claims epsilon={claimed.epsilon!r}, but the recorded numbers {only}")
    _check_terms(certificate, claimed, proved)
    notes = []
    if "target" in certificate.model.settings:
        _check_target(certificate, proof.profile)
        notes.append(f"They keep what was asked for: {certificate.asked}.")
    else:
        _check_epsilon(certificate, claimed)
    notes += [*_facts(certificate, evidence), *_wording(certificate, claimed, proved)]
    if evidence.persons_counted is None:
        notes.append("It does not say whether anybody counted rows per person.")
    left_out = (*claimed.not_covered, *certificate.preprocessing.reads)
    notes += [f"NOT COVERED by it, as the certificate says: {what}." for what in left_out]
    if (made := certificate.preprocessing.features) is not None:
        notes.append(f"It takes it that {made.assumes} (SHA-256 {made.sha256}).")
    if claimed.epsilon > proved.epsilon * (1 + _CLOSE):
        notes.append(f"Note: the recorded numbers prove a smaller one, {rounded(proved.epsilon)}.")
    claim = f"epsilon <= {rounded(claimed.epsilon)} at delta = {rounded(claimed.delta)}"
    whom = f"{claimed.relation.value}, for {claimed.unit}"
    says = f"The claim follows from the recorded numbers: {claim}, {whom}."
    return [says, "Settings, model, noise and numbers agree with each other.", *notes]


def _check_terms(certificate: Certificate, claimed: Guarantee, proved: Guarantee) -> None:
    """Everything but epsilon must be the same, and epsilon nearly."""
    settings, evidence = certificate.model.settings, certificate.evidence
    here = _is_ours(certificate)
    names = ("relation", "unit", "sampling", "released")
    terms = [(name, getattr(claimed, name), getattr(proved, name)) for name in names]
    # A larger delta would make a claim that follows, but not the one that was made.
    trained = None if evidence is None else training_of(evidence)
    deltas = (settings.get("delta"), getattr(trained, "delta", claimed.delta))
    terms += [("delta", claimed.delta, delta) for delta in deltas if delta is not None]
    for name, claim, proof in terms:
        if claim != proof:
            claim, proof = (getattr(each, "value", each) for each in (claim, proof))
            refuse(f"claims {name}={claim!r}, but the recorded numbers are for {proof!r}")
    if here and claimed.epsilon > proved.epsilon * (1 + _CLOSE):
        _differ("epsilon", claimed.epsilon, "claim", rounded(proved.epsilon, digits=6))


def _check_epsilon(certificate: Certificate, claimed: Guarantee) -> None:
    """It is what was asked for, nearly."""
    evidence, here = certificate.evidence, _is_ours(certificate)
    asked = certificate.model.settings["epsilon"]
    if isinstance(asked, bool) or not isinstance(asked, int | float):
        refuse(f"was fitted for epsilon={asked!r}, which is no number")
    reached = [claimed.epsilon]
    if isinstance(evidence, SelectionEvidence):  # there it is that of each training
        reached = [proof.guarantee(claimed.delta).epsilon for proof in evidence.proofs.values()]
    if max(reached) > asked * (1 + SLACK):
        refuse(f"claims epsilon={max(reached)!r}, but was fitted for {asked!r}")
    # Beyond these the least or the most noise there is decides, not the budget.
    if here and 1e-9 < asked < 1e6 and min(reached) < asked * (1 - _CLOSE):
        _differ("epsilon", asked, "settings", rounded(min(reached), digits=6))


def _check_target(certificate: Certificate, profile: Profile) -> None:
    """The risk that was asked for is kept, and nearly reached."""
    with _refusing("The recorded numbers cannot be right"):
        target = RiskTarget.parse(certificate.model.settings["target"])
        risk, excess = target.of(profile), target.excess(profile)
    if not risk <= target.most * (1 + SLACK):
        allow = f"allow a risk of {rounded(risk, digits=6)}"
        refuse(f"promises {target}, but the recorded numbers {allow}")
    if _is_ours(certificate) and excess < math.log1p(-_CLOSE):
        _differ("target", str(target), "settings", f"a risk of {rounded(risk, digits=6)}")


def _facts(certificate: Certificate, evidence: Evidence) -> list[str]:
    with _refusing("The recorded numbers cannot be right"):
        recomputed = evidence.facts()
    facts = dict(certificate.facts)
    if isinstance(evidence, SelectionEvidence):
        recomputed["tuning"], facts["tuning"] = evidence.runs_in_words, certificate.tuning.runs
    notes = []
    for name in sorted({*recomputed, *facts}):
        recorded, now = facts.get(name, "nothing"), recomputed.get(name, "nothing")
        # An older version may have had other words, but for the same numbers.
        alike = _NUMBER.findall(recorded) == _NUMBER.findall(now)
        if recorded != now and (_is_ours(certificate) or not alike):
            refuse(f"describes its {name} as {recorded!r}, but its numbers say {now!r}")
        if recorded != now:
            notes.append(f"Note: its {name} is described as {recorded!r}; now as {now!r}.")
    return notes or ["Schedule, sensitivity and noise are as the recorded numbers say."]


def _wording(certificate: Certificate, claimed: Guarantee, proved: Guarantee) -> Iterator[str]:
    """Theorems and assumptions may be worded anew from version to version, not within one."""
    if (claimed.theorem, claimed.assumes) == (proved.theorem, proved.assumes):
        return
    if not _is_ours(certificate):
        by = certificate.versions.get("sordino")
        yield f"Note: sordino {by} worded the theorem or its assumptions otherwise."
        return
    if missing := [line for line in proved.assumes if line not in claimed.assumes]:
        refuse(f"leaves out an assumption of its proof: {missing[0]}")
    if claimed.theorem == proved.theorem:
        refuse("assumes more than its proof does, or in another order")
    _differ("theorem", claimed.theorem, "claim", proved.theorem)


def _is_ours(certificate: Certificate) -> bool:
    """Whether this version of sordino wrote it: then also the words are known to the letter."""
    return certificate.versions.get("sordino") == sordino.__version__


# --- What stands beside the proof


def _check_model(model: Model) -> None:
    if model.estimator not in ESTIMATORS:
        refuse(f"is of a {model.estimator}, not of {' or '.join(ESTIMATORS)}")
    names = {*GENERAL, *HOW, *(("huber_width",) if model.estimator == "PrivateLinearSVC" else ())}
    names -= {name for name in WRITTEN_IF_GIVEN if model.settings.get(name) is None}
    if (target := model.settings.get("target")) is not None:
        names.discard("epsilon")
        _same("target", target, "its wording", str(RiskTarget.parse(target)))
    if different := sorted(names ^ set(model.settings)):
        refuse(f"lacks the setting {different[0]!r}, or has one of that name too many")
    if list(model.labels) != sorted(model.labels):
        refuse("has its labels in another order than its weights")
    _same("fit_intercept", model.settings["fit_intercept"], "the model", model.intercept)


def _check_columns(model: Model, before: Preprocessing) -> None:
    if not before.columns:
        return
    from sordino.data.cells import spelled
    from sordino.data.columns import Columns, feature_names

    known = Columns.from_toml(before.columns)
    if known.read_from_data:
        refuse("calls columns public that were read from the records")
    names = feature_names(known.features)
    if len(names) != model.features:
        refuse(f"describes columns for {len(names)} features, and its model has {model.features}")
    if model.feature_names not in (None, names):
        refuse("names other features than its columns do")
    if known.classes is not None:
        labels = tuple(np.unique(spelled(known.classes)).tolist())
        _same("classes", labels, "the model", model.labels, "description of the columns")


def _check_persons(before: Preprocessing, evidence: Evidence | None) -> None:
    """A column that tells persons apart is there to be counted by."""
    from sordino.data.columns import Columns

    if evidence is None or not before.columns or evidence.persons_counted:
        return
    if Columns.from_toml(before.columns).person is not None:
        refuse("names a column that tells persons apart, and its proof counted nobody's rows")


def _check_record(certificate: Certificate) -> None:
    """The ledger's part is whole or missing, and versions are versions."""
    dataset, entry = certificate.dataset, certificate.ledger_entry
    if len({each is None for each in (dataset.name, dataset.fingerprint, entry)}) > 1:
        refuse("has only a part of the name, fingerprint and entry of a ledger")
    if entry is not None and not re.fullmatch(_ENTRY, entry):
        refuse(f"names an entry {entry!r}, which no ledger has")
    if dataset.name is not None and dataset_name(dataset.name) != dataset.name:
        refuse(f"names a dataset {dataset.name!r}, which no ledger has")
    if "sordino" not in certificate.versions:
        refuse("does not say which version of sordino wrote it")
    known = ("sordino", "python", *form.PACKAGES)
    for name, version in certificate.versions.items():
        if not re.fullmatch(_VERSION, version) or (_is_ours(certificate) and name not in known):
            refuse(f"has a version {version!r} of {name!r}, which cannot be")


def _check_promise(certificate: Certificate, guarantee: Guarantee) -> None:
    """The proof is of the method and the settings that were asked for."""
    evidence, settings = certificate.evidence, certificate.model.settings
    assert evidence is not None  # `_recompute` asks for it first
    one = evidence  # the numbers of the training whose model was released
    if isinstance(evidence, SelectionEvidence):
        one = evidence.candidates[evidence.selected]
    whole, one = one, training_of(one)
    method = METHODS.get(certificate.method)
    if method is None or not isinstance(one, method.kind):
        refuse(f"names the method {certificate.method!r}, but its numbers are of {one.kind}")
    given = [name for name in HOW if settings.get(name) is not None]
    if settings["method"] == "auto":
        if certificate.method not in _AUTO or given:
            what = f"{given[0]} for it" if given else f"{certificate.method!r} by it"
            refuse(f"was asked for the method 'auto', and there is no {what}")
    else:
        _same("method", settings["method"], "its proof", certificate.method)
    _check_noise(certificate, one)
    if isinstance(one, ObjectiveEvidence) and (rows := settings["public_rows"]) is not None:
        least = settings["l2"] * rows * (1 - 1e-9)
        if not one.regulariser >= least:
            _differ("l2", settings["l2"], "settings", "a weaker one")
    _same("relation", settings["relation"], "its proof", one.relation.value)
    _same("max_rows_per_person", settings["max_rows_per_person"], "its proof", one.rows_per_person)
    _check_rows(settings, one, guarantee)
    for name in given:
        if name not in method.takes:
            refuse(f"has a setting {name}, which {certificate.method} does not take")
    asked = TrainingRequest.of(certificate.model.estimator, settings, certificate.method)
    for name, wanted, used in asked.compared(whole):
        _same(name, wanted, "its proof", used)
    if isinstance(evidence, SelectionEvidence):
        _check_candidates(certificate.model, guarantee.delta, evidence, one)


def _check_noise(certificate: Certificate, evidence: Evidence) -> None:
    """A promise rests on noise that nobody can draw again, from the source of its method."""
    noise = certificate.noise
    if not noise.startswith((OsGaussian.name_under("").split()[0], CryptoNormals.name.split()[0])):
        refuse(f"makes a promise, but says of its noise: {noise!r}")  # of any version
    on_output = isinstance(evidence, OutputEvidence | ObjectiveEvidence)
    opendp = certificate.versions.get("opendp", "")
    if _is_ours(certificate):
        source = OsGaussian.name_under(opendp) if on_output else CryptoNormals.name
        _same("noise", noise, "its method", source, "words")


def _check_rows(settings: Mapping[str, Any], evidence: Evidence, guarantee: Guarantee) -> None:
    """The number of records, where it stands anywhere, and the delta that follows from it."""
    private = evidence.relation is Relation.ADD_OR_REMOVE_ONE
    rows, delta = settings["public_rows"], guarantee.delta
    if (rows is not None) != private:
        refuse(f"has public_rows={rows!r} under {evidence.relation.value}")
    if isinstance(evidence, TrainingEvidence):
        if private:
            _same("public_rows", rows, "its proof", evidence.rows)
        rows = evidence.rows
    if settings["delta"] is None:  # one digit, and that of the records where they are counted
        default = float(f"{delta:.0e}") if rows is None else default_delta(rows)
        _same("delta", default, "its promise", delta, "default")
    if rows is not None and not set(large_delta(delta, rows)) <= set(guarantee.not_covered):
        refuse(f"does not say that delta={delta!r} is too large for {rows} records")


def _check_candidates(
    model: Model, delta: float, evidence: SelectionEvidence, chosen: Evidence
) -> None:
    """The candidates that were not released: their numbers are all that is known of them."""
    for each in evidence.candidates:
        if each.problems != model.problems or each.columns - model.features not in (0, 1):
            refuse("chose among models of other shapes")
        alone = training_of(each)
        _same("delta", delta, "a candidate", getattr(alone, "delta", delta))
        if each.relation is not Relation.ADD_OR_REMOVE_ONE:
            rows = [one.rows for one in (chosen, alone) if isinstance(one, TrainingEvidence)]
            _same("rows", rows[:1], "a candidate", rows[-1:])
        for name, wanted, used in TrainingRequest(method_of(each), {}).compared(each):
            _same(name, wanted, "a candidate", used)


def _same(name: str, says: object, where: str, other: object, by: str = "settings") -> None:
    # True equals 1, but no flag is a number.
    if says != other or isinstance(says, bool) != isinstance(other, bool):
        refuse(f"says {name}={says!r} by its {by}, but {where} says {other!r}")


def _differ(name: str, says: object, by: str, other: str) -> None:
    refuse(f"says {name}={says!r} by its {by}, but its numbers are those of {other}")
