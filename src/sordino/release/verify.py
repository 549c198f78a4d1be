"""Does the claim follow from the record? Everything is computed again, through `proofs`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import sordino
from sordino.errors import NotApplicable, printable
from sordino.privacy import Guarantee, rounded
from sordino.proofs.evidence import SelectionEvidence
from sordino.proofs.proof import Evidence
from sordino.release import contradictions
from sordino.release.bundle import SIGNATURE, WEIGHTS, Bundle
from sordino.release.certificate import Certificate, CertificateError, refuse
from sordino.release.certificate_words import SIGNATURES
from sordino.release.mechanism import SLACK

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

CLOSE = 0.01
"""Noise is calibrated: what the numbers prove is what was asked for and claimed, nearly."""
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")
TRUST = (
    "The recorded noise itself is taken on trust: nobody can see from the weights that it was "
    "added."
)


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
    signed = _signature(bundle, public_key)
    return Verdict(
        bundle.certificate.guarantee,
        (
            *_claim(bundle.certificate, bundle.certificate_bytes),
            f"{WEIGHTS} holds the weights that were certified (SHA-256).",
            *signed,
            TRUST,
        ),
    )


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
    findings = (
        *_claim(certificate, content),
        "The weights were not looked at: this is the certificate alone.",
        f"No signature was checked. {SIGNATURES}",
        TRUST,
    )
    return Verdict(certificate.guarantee, findings)


def _signature(bundle: Bundle, key: Ed25519PublicKey | None) -> tuple[str, ...]:
    if key is None:
        there = "There is a signature, but it was not checked: pass its public key."
        missing = "There is no signature."
        return (f"{missing if bundle.signature is None else there} {SIGNATURES}",)
    from sordino.release import signature

    if bundle.signature is None:
        raise CertificateError(f"The bundle is not signed: {SIGNATURE} is missing.")
    signature.check(bundle.certificate_bytes, bundle.signature, key)
    return (f"The certificate was signed by the key {signature.key_name(key)}.",)


def _claim(certificate: Certificate, content: bytes | None) -> tuple[str, ...]:
    """What was found of the claim, recomputed, and of everything that stands beside it."""
    found = _recomputed(certificate)
    if content is not None and certificate.to_json().encode() != content:
        refuse("is not written as sordino writes it, to the letter: blanks could tell something")
    return found


def _recomputed(certificate: Certificate) -> tuple[str, ...]:
    guarantee, evidence = certificate.guarantee, certificate.evidence
    if guarantee is None:
        contradictions.check(certificate)
        return (f"NOTHING IS PROMISED by this certificate: {certificate.why_none}",)
    if evidence is None:
        refuse(
            f"claims epsilon={guarantee.epsilon!r}, but records no numbers from which that follows"
        )
    contradictions.check(certificate)  # first, for a proof may take long
    proved = _proved(evidence, guarantee.delta)
    if not guarantee.epsilon >= proved.epsilon * (1 - SLACK):
        _refuse_epsilon(guarantee, proved)
    _check_terms(certificate, guarantee, proved)
    _check_asked(certificate, guarantee, proved)
    follows = (
        f"The claim follows from the recorded numbers: epsilon <= {rounded(guarantee.epsilon)} at "
        f"delta = {rounded(guarantee.delta)}, {guarantee.relation.value}, for {guarantee.unit}."
    )
    agree = "Settings, model, noise and numbers agree with each other."
    notes = [*_facts(certificate, evidence), *_wording(certificate, guarantee, proved)]
    left_out = (*guarantee.not_covered, *certificate.preprocessing.reads)
    notes += [f"NOT COVERED by it, as the certificate says: {what}." for what in left_out]
    if guarantee.epsilon > proved.epsilon * (1 + CLOSE):
        less = rounded(proved.epsilon)
        notes.append(f"Note: the recorded numbers prove a smaller epsilon still, {less}.")
    return (follows, agree, *notes)


def _proved(evidence: Evidence, delta: float) -> Guarantee:
    try:
        return evidence.proof().guarantee(delta)
    except NotApplicable as reason:
        raise CertificateError(f"The recorded numbers prove nothing: {reason}") from reason
    except Exception as error:  # numbers that somebody made up may break a formula anywhere
        why = str(error).rstrip(".")
        raise CertificateError(f"From the recorded numbers nothing follows: {why}.") from error


def _refuse_epsilon(claimed: Guarantee, proved: Guarantee) -> NoReturn:
    if math.isinf(proved.epsilon):
        refuse(
            f"claims epsilon={claimed.epsilon!r}, but at delta={claimed.delta!r} the recorded "
            "numbers prove nothing"
        )
    more = rounded(proved.epsilon - claimed.epsilon, digits=6)
    refuse(
        f"claims epsilon={claimed.epsilon!r}, but the recorded numbers prove only "
        f"{rounded(proved.epsilon, digits=6)} ({more} more)"
    )


def _check_terms(certificate: Certificate, claimed: Guarantee, proved: Guarantee) -> None:
    """Everything but epsilon must be the same, to the letter."""
    terms = [
        ("relation", claimed.relation.value, proved.relation.value),
        ("unit", claimed.unit, proved.unit),
        ("sampling", claimed.sampling, proved.sampling),
        ("released", claimed.released, proved.released),
        # A larger delta would make a claim that follows, but not the one that was made.
        ("delta", claimed.delta, certificate.model.settings.get("delta")),
        ("delta", claimed.delta, getattr(certificate.evidence, "delta", None)),
    ]
    for name, is_claimed, is_proved in terms:
        if is_proved is not None and is_claimed != is_proved:
            refuse(f"claims {name}={is_claimed!r}, but the recorded numbers are for {is_proved!r}")


def _check_asked(certificate: Certificate, claimed: Guarantee, proved: Guarantee) -> None:
    """The noise was made for the epsilon that was asked for, and that is what is claimed."""
    here, evidence = contradictions.made_here(certificate), certificate.evidence
    if here and claimed.epsilon > proved.epsilon * (1 + CLOSE):
        _refuse_other(f"claims epsilon={claimed.epsilon!r}", proved.epsilon)
    asked = certificate.model.settings["epsilon"]
    if isinstance(asked, bool) or not isinstance(asked, int | float):
        refuse(f"makes a promise for epsilon={asked!r}, which is no number")
    reached = [claimed.epsilon]
    if isinstance(evidence, SelectionEvidence):  # there it is that of each training
        alone = evidence.proofs.values()
        reached = [proof.guarantee(claimed.delta).epsilon for proof in alone]
    if max(reached) > asked * (1 + SLACK):
        refuse(f"claims epsilon={max(reached)!r}, but was fitted for {asked!r}")
    # Beyond these the least or the most noise there is decides, not the budget.
    if here and 1e-9 < asked < 1e6 and min(reached) < asked * (1 - CLOSE):
        _refuse_other(f"was fitted for epsilon={asked!r}", min(reached))


def _refuse_other(said: str, proved: float) -> NoReturn:
    refuse(f"{said}, but its numbers are those of {rounded(proved, digits=6)}")


def _facts(certificate: Certificate, evidence: Evidence) -> tuple[str, ...]:
    try:
        recomputed = evidence.facts()
    except Exception as error:  # as in _proved
        why = str(error).rstrip(".")
        raise CertificateError(f"The recorded numbers cannot be right: {why}.") from error
    facts = dict(certificate.facts)
    if isinstance(evidence, SelectionEvidence):
        recomputed["tuning"], facts["tuning"] = evidence.runs_in_words, certificate.tuning.runs
    notes = []
    for name in sorted({*recomputed, *facts}):
        recorded, found = facts.get(name, "nothing"), recomputed.get(name, "nothing")
        # An older version may have had other words, but for the same numbers.
        alike = _NUMBER.findall(recorded) == _NUMBER.findall(found)
        if recorded != found and (contradictions.made_here(certificate) or not alike):
            refuse(f"describes its {name} as {recorded!r}, but its numbers say {found!r}")
        if recorded != found:
            notes.append(
                f"Note: sordino {_made_by(certificate)} described its {name} as {recorded!r}; from "
                f"the numbers sordino {sordino.__version__} says {found!r}."
            )
    return tuple(notes) or (
        "Schedule, sensitivity and noise are described as the recorded numbers say.",
    )


def _wording(certificate: Certificate, claimed: Guarantee, proved: Guarantee) -> tuple[str, ...]:
    """Theorems and assumptions may be worded anew from version to version, not within one."""
    if (claimed.theorem, claimed.assumes) == (proved.theorem, proved.assumes):
        return ()
    made_by, here = _made_by(certificate), contradictions.made_here(certificate)
    missing = [line for line in proved.assumes if line not in claimed.assumes]
    if here and missing:
        refuse(f"leaves out an assumption of its proof: {missing[0]}")
    if here and claimed.theorem == proved.theorem:
        refuse("assumes more than its proof does, or in another order")
    if here:
        refuse(f"names the theorem {claimed.theorem!r}, but its numbers go by {proved.theorem!r}")
    return (
        f"Note: sordino {made_by} worded the theorem or its assumptions otherwise than "
        f"{sordino.__version__} does; the numbers agree.",
    )


def _made_by(certificate: Certificate) -> str | None:
    return certificate.versions.get("sordino")
