from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sample_evidence import NOISY, SHAPE, SPEC

from sordino.accounting.profile import GaussianProfile
from sordino.errors import NotApplicable
from sordino.privacy import Guarantee, Relation
from sordino.proofs.adaptive import AdaptiveEvidence
from sordino.proofs.evidence import SelectionEvidence, StepsEvidence
from sordino.proofs.objective import ObjectiveEvidence
from sordino.proofs.output import OutputEvidence
from sordino.proofs.proof import Evidence, Proof
from sordino.proofs.settings import METHODS
from sordino.release import bundle, signature
from sordino.release.certificate import Certificate, CertificateError, Model, Tuning
from sordino.release.noise import CryptoNormals, OsGaussian
from sordino.release.verify import TRUST, verify, verify_certificate

DELTA = 1e-6
WEIGHTS = bundle.weights_file(np.ones((1, 3)), np.ones(1))
_NOISY = replace(SPEC, **NOISY, steps=8, epochs=None, drop_last=False)
ADAPTIVE = AdaptiveEvidence(rho=0.02, clip=1.0, **SHAPE)
KINDS: list[Evidence] = [
    ADAPTIVE,
    AdaptiveEvidence(rho=0.02, clip=1.0, rows_per_person=3, **SHAPE),
    OutputEvidence(
        spec=SPEC, rows=200, norm=1.0, sigma=0.5, source=METHODS["bolt-on"].source, **SHAPE
    ),
    StepsEvidence(spec=_NOISY, rows=200, norm=1.0, delta=DELTA, **SHAPE),
    ObjectiveEvidence(
        loss="logistic",
        huber_width=0.5,
        norm=1.0,
        regulariser=10.0,
        sigma=20.0,
        sigma_out=0.1,
        gradient_left=1e-6,
        **SHAPE,
    ),
    SelectionEvidence(
        candidates=(ADAPTIVE, replace(ADAPTIVE, clip=0.5)),
        selected=0,
        mean=5.0,
        shape_of_runs=1.0,
        **SHAPE,
    ),
]


_METHOD = {
    "output-perturbation": "bolt-on",
    "noisy-steps": "dp-sgd",
    "objective-perturbation": "objective",
    "adaptive": "dp-agd",
}


def _released(evidence: Evidence) -> Evidence:
    selects = isinstance(evidence, SelectionEvidence)
    return evidence.candidates[evidence.selected] if selects else evidence


def _settings(evidence: Evidence) -> dict[str, Any]:
    """What such numbers were asked for."""
    one = _released(evidence)
    trained = isinstance(one, OutputEvidence | StepsEvidence)
    return {
        "epsilon": one.proof().guarantee(DELTA).epsilon,
        "delta": DELTA,
        "relation": "replace-one",
        "method": _METHOD[one.kind],
        "l2": 0.01,
        "epochs": None,
        "steps": None,
        "batch_size": 50 if trained else None,
        "learning_rate": 0.5 if trained else None,
        "average_every": None,
        "max_grad_norm": None,
        "accountant": "best" if isinstance(one, StepsEvidence) else None,
        "data_norm": 1.0,
        "fit_intercept": True,
        "max_rows_per_person": one.rows_per_person,
        "public_rows": None,
    }


def _certificate(evidence: Evidence = ADAPTIVE, **changed: Any) -> Certificate:
    tuning, one = Tuning(), _released(evidence)
    if isinstance(evidence, SelectionEvidence):
        tuning = Tuning("declared", len(evidence.candidates), evidence.runs_in_words)
    model = Model(
        estimator="PrivateLogisticRegression",
        settings=_settings(evidence),
        labels=(0, 1),
        label_type="int",
        features=3,
        feature_names=None,
        intercept=True,
        sha256=bundle.digest(WEIGHTS),
    )
    on_output = isinstance(one, OutputEvidence | ObjectiveEvidence)
    honest = Certificate(
        model=model,
        guarantee=evidence.proof().guarantee(DELTA),
        method=_METHOD[one.kind],
        evidence=evidence,
        facts=evidence.facts(),
        noise=OsGaussian().name if on_output else CryptoNormals.name,
        tuning=tuning,
    )
    return replace(honest, **changed)


def _promise(certificate: Certificate, **changed: Any) -> Certificate:
    assert certificate.guarantee is not None
    return replace(certificate, guarantee=replace(certificate.guarantee, **changed))


def _refusal(certificate: Certificate) -> str:
    with pytest.raises(CertificateError) as refused:
        verify_certificate(certificate)
    assert str(refused.value).isprintable()
    assert str(refused.value).endswith(".")
    return str(refused.value)


# What follows


@pytest.mark.parametrize("evidence", KINDS, ids=lambda each: each.kind)
def test_an_honest_certificate_is_verified_after_json(evidence: Evidence) -> None:
    certificate = _certificate(evidence)
    verdict = verify_certificate(Certificate.from_json(certificate.to_json()))
    assert verdict.guarantee == certificate.guarantee
    assert verdict.findings[0].startswith("The claim follows from the recorded numbers: epsilon")
    assert not any("Note" in finding for finding in verdict.findings)
    assert "weights were not looked at" in str(verdict)
    assert verdict.findings[-1] == TRUST


@pytest.mark.parametrize("evidence", KINDS, ids=lambda each: each.kind)
def test_a_lower_epsilon_is_refused_with_the_difference(evidence: Evidence) -> None:
    true = _certificate(evidence)
    assert true.guarantee is not None
    proved = true.guarantee.epsilon
    _refusal(_promise(true, epsilon=proved * (1 - 2e-9)))
    sentence = _refusal(_promise(true, epsilon=proved / 2))
    assert f"claims epsilon={proved / 2!r}, but the recorded numbers prove only" in sentence
    told = float(sentence.rpartition(" ")[2].rstrip("."))
    assert proved <= told <= proved * (1 + 1e-5)  # six digits, rounded up


def test_the_refusal_names_what_was_claimed_and_what_is_proved() -> None:
    # The Gaussian mechanism, mu = 1, delta = 1e-6, by mpmath: findroot(lambda e:
    #   ncdf(0.5 - e) - exp(e) * ncdf(-0.5 - e) - 1e-6, 4.8) = 4.886554117462212
    sentence = _refusal(_promise(_certificate(Fixed(mu=1.0, **SHAPE)), epsilon=0.5))
    assert sentence == (
        "The certificate claims epsilon=0.5, but the recorded numbers prove only 4.88656."
    )


def test_a_claim_that_is_too_modest_is_noted_of_another_version_and_refused_of_this() -> None:
    modest = _promise(_certificate(), epsilon=2.0)
    assert "says epsilon=2.0 by its claim" in _refusal(modest)
    settings = {**modest.model.settings, "epsilon": 2.0}
    old = replace(modest, versions={"sordino": "0.0.1"})
    verdict = verify_certificate(replace(old, model=replace(old.model, settings=settings)))
    assert "Note: the recorded numbers prove a smaller one" in str(verdict)
    assert "epsilon <= 2 " in verdict.findings[0]


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"relation": Relation.ADD_OR_REMOVE_ONE}, "claims relation='add-or-remove-one'"),
        ({"unit": "2 records of one person"}, "claims unit='2 records of one person'"),
        ({"sampling": "poisson"}, "claims sampling='poisson'"),
        ({"released": "final"}, "claims released='final'"),
        ({"delta": 1e-9}, "claims epsilon="),
        ({"theorem": "a better theorem"}, "says theorem='a better theorem'"),
        ({"assumes": ()}, "leaves out an assumption"),
    ],
)
def test_edited_terms_are_refused(changed: dict[str, Any], part: str) -> None:
    assert part in _refusal(_promise(_certificate(), **changed))


def test_a_larger_delta_is_not_the_one_that_was_promised() -> None:
    sentence = "claims delta=0.0001, but the recorded numbers are for 1e-06"
    for evidence in (ADAPTIVE, KINDS[3]):
        assert sentence in _refusal(_promise(_certificate(evidence), delta=1e-4))


@pytest.mark.parametrize("name", ["schedule", "sensitivity", "noise"])
def test_facts_must_be_what_the_numbers_say(name: str) -> None:
    honest = _certificate()
    for facts in (
        {**honest.facts, name: "almost none"},
        {k: v for k, v in honest.facts.items() if k != name},
        {**honest.facts, "more": "words"},
    ):
        assert "describes its" in _refusal(replace(honest, facts=facts))


def test_the_numbers_themselves_cannot_be_edited_alone() -> None:
    honest = _certificate()
    less = replace(honest, evidence=replace(ADAPTIVE, rho=0.01))
    assert "but its numbers are those of" in _refusal(less)
    more = replace(honest, evidence=replace(ADAPTIVE, rho=0.04))
    assert "prove only" in _refusal(more)


def test_tuning_is_described_as_the_numbers_say() -> None:
    honest = _certificate(KINDS[-1])
    wrong = replace(honest, tuning=replace(honest.tuning, runs="just one training"))
    assert "describes its tuning as 'just one training'" in _refusal(wrong)


def test_a_promise_without_numbers_is_refused() -> None:
    assert "records no numbers" in _refusal(replace(_certificate(), evidence=None, facts={}))


def test_more_that_is_not_covered_may_be_said() -> None:
    verify_certificate(_promise(_certificate(), not_covered=("the classes",)))


def test_a_theorem_may_be_worded_anew_in_another_version() -> None:
    old = _promise(_certificate(versions={"sordino": "0.0.1"}), theorem="an older wording")
    verdict = verify_certificate(old)
    assert "Note: sordino 0.0.1 worded the theorem or its assumptions otherwise" in str(verdict)


def test_another_version_may_have_other_words_but_no_other_numbers() -> None:
    old = _certificate(versions={"sordino": "0.0.1"})
    worded = {**old.facts, "sensitivity": "no gradient is longer than 1"}
    verdict = verify_certificate(replace(old, facts=worded))
    assert "Note: its sensitivity is described as 'no gradient" in str(verdict)
    for sensitivity in ("no gradient is longer than 0.1", "next to nothing", ""):
        assert "describes its sensitivity as" in _refusal(
            replace(old, facts={**old.facts, "sensitivity": sensitivity})
        )


def test_nothing_promised_is_verified_as_nothing() -> None:
    bare = _certificate(guarantee=None, why_none="random_state was given.")
    assert "promises nothing, and yet has numbers" in _refusal(bare)
    verdict = verify_certificate(replace(bare, evidence=None, facts={}))
    assert verdict.guarantee is None
    assert "NOTHING IS PROMISED" in verdict.findings[0]
    assert "claim follows" not in str(verdict)


# Numbers that somebody made up


@dataclass(frozen=True, kw_only=True)
class Fixed(AdaptiveEvidence):
    """Gaussian DP of a given mu; or a proof that fails."""

    rho: float = 0.5
    clip: float = 1.0
    mu: float = 1.0
    error: Exception | None = None

    def proof(self) -> Proof:
        if self.error is not None:
            raise self.error
        profile = GaussianProfile(
            relation=self.relation, theorem="the Gaussian mechanism", parameter=self.mu
        )
        return Proof(profile=profile, sampling="full", assumes=("N(0, 1) on the output",))

    def facts(self) -> dict[str, str]:
        return {"noise": f"mu = {self.mu}"}


@pytest.mark.parametrize(
    "error",
    [NotApplicable("The rate is too large; lower it."), OverflowError("inf"), ZeroDivisionError()],
)
def test_numbers_that_prove_nothing_are_refused(error: Exception) -> None:
    honest = _certificate(Fixed(**SHAPE))
    sentence = _refusal(replace(honest, evidence=Fixed(error=error, **SHAPE)))
    assert "nothing" in sentence


# Whole bundles


@pytest.fixture
def written(tmp_path: Path) -> Path:
    bundle.write(tmp_path / "model", _certificate(), WEIGHTS)
    return tmp_path / "model"


def test_a_bundle_without_a_signature_is_told_about_forgers(written: Path) -> None:
    verdict = verify(bundle.read(written))
    assert "There is no signature. Without a checked signature" in str(verdict)
    assert "not forgers" in str(verdict)
    assert "holds the weights that were certified" in str(verdict)
    assert TRUST in verdict.findings


def test_signatures_are_checked_against_the_key_given(written: Path) -> None:
    mine, theirs = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    with pytest.raises(CertificateError, match="is not signed"):
        verify(bundle.read(written), public_key=mine.public_key())
    content = bundle.read(written).certificate_bytes
    bundle.write_signature(written, signature.sign(content, mine))
    found = bundle.read(written)
    verdict = verify(found, public_key=mine.public_key())
    assert f"signed by the key {signature.key_name(mine.public_key())}" in str(verdict)
    assert "forgers" not in str(verdict)
    assert "it was not checked" in str(verify(found))
    with pytest.raises(CertificateError, match="signature is wrong"):
        verify(found, public_key=theirs.public_key())


def test_any_edit_of_a_signed_certificate_is_seen(written: Path) -> None:
    key = Ed25519PrivateKey.generate()
    path = written / bundle.CERTIFICATE
    bundle.write_signature(written, signature.sign(path.read_bytes(), key))
    plain = json.loads(path.read_text())
    edits: list[Callable[[], object]] = [
        lambda: plain.update(date="2020-02-02"),
        lambda: plain["guarantee"].update(not_covered=["the classes"]),
        lambda: plain["preprocessing"].update(declared=True),
    ]
    for edit in edits:
        edit()
        path.write_text(json.dumps(plain, indent=2, sort_keys=True) + "\n")
        verify(bundle.read(written))  # a forger is not detected without the key
        with pytest.raises(CertificateError, match="signature is wrong"):
            verify(bundle.read(written), public_key=key.public_key())


def test_a_verdict_is_about_the_guarantee_claimed(written: Path) -> None:
    found = verify(bundle.read(written)).guarantee
    assert isinstance(found, Guarantee)
    assert found == _certificate().guarantee
