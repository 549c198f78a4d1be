"""One study releases one model, whatever stops it, and scores it without spending anything."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import sordino
from sordino import Ledger
from sordino.assessment.plan import AssessmentPlan
from sordino.assessment.request import Request
from sordino.assessment.stages import release
from sordino.estimators.classifiers import PrivateLinearClassifier
from sordino.report.result import Release

REQUEST = Request(data="digits/binary", effort="quick", epsilon=2.0)


@pytest.fixture(scope="module")
def subject() -> AssessmentPlan:
    return AssessmentPlan.of(REQUEST)


def released(subject: AssessmentPlan, place: Path) -> Release:
    return release.release(subject, place, lambda done, total: None, bundle=place / "model")


def no_fit(*_: object, **__: object) -> None:
    pytest.fail("a second release")


def test_the_bundle_is_written_with_what_was_read(subject: AssessmentPlan, tmp_path: Path) -> None:
    given = replace(subject, prepared=replace(subject.prepared, reads_private_data=("the moon",)))
    found = released(given, tmp_path)
    model = sordino.load(tmp_path / "model")
    papers = model.certificate_
    assert papers.preprocessing.declared
    assert papers.preprocessing.reads == ("the moon",)
    assert json.loads(found.certificate) == json.loads(
        (tmp_path / "model" / "certificate.json").read_text()
    )
    assert subject.fitting is not None
    plan = subject.fitting.plan
    assert (found.directory, found.method, found.why_not) == ("model", plan.method, "")
    assert found.settings["l2"] == 0.001
    assert found.settings["steps"] == plan.settings.steps
    assert found.noise == f"standard deviation {plan.sigma:.4g} on every sum of clipped gradients"
    assert found.source.startswith("ChaCha20")
    accuracy = found.accuracy
    assert accuracy is not None
    assert accuracy.after is not None
    assert accuracy.after.value == model.score(subject.test_X, subject.test_y)
    assert [point.epsilon for point in accuracy.curve] == list(
        REQUEST.epsilons_around(REQUEST.epsilon)
    )
    assert accuracy.curve[0].accuracy.high < accuracy.curve[-1].accuracy.low
    assert accuracy.before.value > accuracy.majority
    assert accuracy.test_rows == len(subject.test_y)


def test_a_ledger_is_charged_for_the_release_alone(subject: AssessmentPlan, tmp_path: Path) -> None:
    with Ledger(tmp_path / "b.db", dataset="d", epsilon=2.5, delta=1e-3) as ledger:
        released(subject, tmp_path)
        assert len(ledger.status().entries) == 1
        released(subject, tmp_path)
        assert len(ledger.status().entries) == 1


def test_the_model_comes_last(subject: AssessmentPlan, tmp_path: Path) -> None:
    """Whatever fails, nothing was released: the scores of others like it, or the page."""

    def stop(*_: object) -> None:
        raise ZeroDivisionError

    for how in ({"progress": stop}, {"progress": lambda done, total: None, "rehearse": stop}):
        with pytest.raises(ZeroDivisionError):
            release.release(subject, tmp_path, bundle=tmp_path / "model", **how)
        assert not (tmp_path / "model").exists()
        assert not (tmp_path / "released").exists()


def test_stopped_after_the_release_it_goes_on_with_the_same_model(
    subject: AssessmentPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(PrivateLinearClassifier, "predict", _stop)  # which scores it
        with pytest.raises(KeyboardInterrupt):
            released(subject, tmp_path)
    weights = (tmp_path / "model" / "model.safetensors").read_bytes()
    monkeypatch.setattr(PrivateLinearClassifier, "_save_planned", no_fit)
    found = released(subject, tmp_path)
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == weights
    (tmp_path / "afresh").mkdir()
    whole = release.release(
        subject, tmp_path / "afresh", lambda done, total: None, bundle=tmp_path / "model"
    )
    assert found == whole


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_model_that_was_made_otherwise_is_refused(
    subject: AssessmentPlan, tmp_path: Path
) -> None:
    assert subject.estimator is not None
    other = sordino.PrivateLogisticRegression(
        epsilon=1.0, delta=subject.delta, classes=[0, 1], data_norm=subject.prepared.data_norm
    )
    other.fit(subject.X, subject.y).save(tmp_path / "model")
    with pytest.raises(release.AnotherRelease, match="made otherwise"):
        released(subject, tmp_path)


def test_without_held_out_rows_there_is_no_accuracy(
    subject: AssessmentPlan, tmp_path: Path
) -> None:
    found = released(replace(subject, test_X=None, test_y=None), tmp_path)
    assert found.accuracy is None
    assert (tmp_path / "model").is_dir()


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("objective", "{0:.4g} on the linear term of the objective and standard deviation {1:.4g}"),
        ("rsgd-ar", "{1:.4g} on every weight"),
    ],
)
def test_noise_in_words(method: str, words: str, tmp_path: Path) -> None:
    asked = replace(AssessmentPlan.of(replace(REQUEST, method=method)), test_X=None, test_y=None)
    assert asked.fitting is not None
    fit = asked.fitting.plan
    said = "standard deviation " + words.format(fit.sigma, fit.scale)
    assert released(asked, tmp_path).noise.startswith(said)


@pytest.mark.slow
def test_a_network_is_scored_and_not_written(tmp_path: Path) -> None:
    subject = AssessmentPlan.of(replace(REQUEST, model="mlp"))
    found = released(subject, tmp_path)
    assert subject.network is not None
    assert (found.method, found.directory, found.certificate) == ("dp-sgd", "", "")
    assert "no private estimator" in found.why_not
    assert found.settings["noise_multiplier"] == subject.network.spec.noise_multiplier
    assert not (tmp_path / "model").exists()
    accuracy = found.accuracy
    assert accuracy is not None
    assert accuracy.after is None
    assert accuracy.before.value > accuracy.again.value
    assert accuracy.curve[0].accuracy.value < accuracy.curve[-1].accuracy.value
    assert released(subject, tmp_path) == found
