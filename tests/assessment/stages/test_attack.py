"""Attacks of an assessment: a right release passes, a broken one does not, and runs are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sordino.assessment.plan import AssessmentPlan
from sordino.assessment.request import EFFORTS, Request
from sordino.assessment.stages import attack, measure
from sordino.audit.bounds import clopper_pearson_upper
from sordino.audit.pairs import Claim
from sordino.audit.runners import trained
from sordino.audit.target import Target
from sordino.privacy import Relation
from sordino.report.result import Attack

RUNS = 600


def subject_of(**asked) -> AssessmentPlan:
    return AssessmentPlan.of(Request(**{"audit_runs": RUNS} | asked))


@pytest.fixture(scope="module")
def subject() -> AssessmentPlan:
    """Where a larger epsilon leaves something to see for so few runs."""
    return subject_of(method="output-gd", epsilon=4.0)


def made(subject: AssessmentPlan, directory: Path, told=None) -> Attack:
    tell = (lambda done, total: None) if told is None else lambda *done: told.append(done)
    return attack.attack_release(subject, directory, tell)


def with_less_noise(subject: AssessmentPlan, factor: float) -> AssessmentPlan:
    plan = replace(subject.fitting.plan, scale=subject.fitting.plan.scale / factor)
    return replace(subject, fitting=replace(subject.fitting, plan=plan))


def test_a_right_release(subject, tmp_path):
    told: list[tuple[int, int]] = []
    found = made(subject, tmp_path, told)
    assert (found.of, found.runs, found.tested) == ("release", RUNS, RUNS / 2)
    assert found.claimed == pytest.approx(4.0, rel=1e-6)
    assert 0 < found.observed.epsilon <= found.claimed
    assert (found.observed.delta, found.observed.confidence) == (subject.delta, 0.99)
    assert not found.violated
    assert not found.curve_refuted
    assert "no violation found" in found.verdict
    assert told[-1] == (2 * RUNS, 2 * RUNS)
    assert "1,294 records" in found.pair


def test_the_curves_of_a_page(subject, tmp_path):
    found = made(subject, tmp_path)
    x, y = np.array(found.roc.x), np.array(found.roc.y)
    assert 100 < len(x) <= 300
    assert (x[0], y[0], x[-1], y[-1]) == (1, 0, 0, 1)
    assert (np.diff(x) <= 0).all()
    assert (np.diff(y) >= 0).all()
    # The tested threshold is one of those counted, and its bounds are 99.5 % ones of 300 runs.
    counts = np.arange(RUNS // 2 + 1)
    bounds = np.array([clopper_pearson_upper(each, RUNS // 2, 0.005) for each in counts])
    errors = [counts[np.abs(bounds - each).argmin()] / counts[-1] for each in found.tested_point]
    assert min(np.abs(bounds - found.tested_point[0])) < 1e-12
    assert (np.hypot(x - errors[0], y - errors[1]) < 0.01).any()
    assert np.exp(found.observed.epsilon) == pytest.approx(
        max((1 - found.tested_point[i]) / found.tested_point[1 - i] for i in (0, 1)), rel=0.01
    )
    profile = subject.fitting.proof.profile
    claimed = found.claimed_curve
    assert claimed.x[0] == 0
    assert claimed.x[-1] == 1
    assert len(claimed.x) <= 100
    for alpha, beta in zip(claimed.x[::10], claimed.y[::10], strict=True):
        assert beta == pytest.approx(profile.beta(alpha), rel=1e-5)


def test_a_broken_release(tmp_path):
    """A twelfth of the noise that the claim needs."""
    found = made(with_less_noise(subject_of(method="output-gd", epsilon=2.0), 12), tmp_path)
    assert found.violated
    assert found.observed.epsilon > found.claimed
    assert found.verdict.startswith("violation")


def test_it_goes_on_where_it_stopped(subject, tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    whole = made(subject, tmp_path / "other")

    def stop(done, total):
        if done > total / 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attack.attack_release(subject, tmp_path, stop)
    assert made(subject, tmp_path) == whole
    monkeypatch.setattr(trained.Trained, "_grids", lambda *_: pytest.fail("trained again"))
    assert made(subject, tmp_path) == whole


def test_sgd_without_noise(subject, tmp_path):
    found = attack.attack_plain(subject, tmp_path, lambda done, total: None)
    assert (found.of, found.runs) == ("un-noised SGD", RUNS)
    assert found.claimed is None
    assert found.claimed_curve is None
    assert found.observed.delta == subject.delta
    # All 300 tested runs are told right: nothing larger can be observed by so many.
    assert found.observed.epsilon == pytest.approx(found.reach)


def test_objective_perturbation(tmp_path):
    found = made(subject_of(method="objective", model="svm"), tmp_path)
    assert not found.violated
    assert (tmp_path / "release.outputs").is_file()


def test_a_fit_that_promises_nothing_is_attacked_without_a_claim(subject, tmp_path):
    fitting = replace(subject.fitting, why_none="the moon is full")
    found = made(replace(subject, fitting=fitting), tmp_path)
    assert found.claimed is None
    assert found.observed.delta == subject.delta


def test_records_of_one_person_together(tmp_path):
    found = made(subject_of(method="output-gd", max_rows_per_person=3), tmp_path)
    assert "3 records of one person" in found.pair
    assert not found.violated


@pytest.mark.parametrize(
    ("model", "words"), [("logistic", "side of the model"), ("svm", "all 10 models")]
)
def test_more_than_two_classes(model, words, tmp_path):
    many = subject_of(data="digits", method="output-gd", epsilon=2.0, model=model)
    found = made(many, tmp_path)
    assert words in found.pair
    assert "over all models" in found.score
    assert not found.violated
    (tmp_path / "broken").mkdir()
    assert made(with_less_noise(many, 15), tmp_path / "broken").violated


def test_the_better_attack_is_taken():
    """Learned, where the weights tell more than the losses of the record do."""
    normals = np.random.default_rng(1).standard_normal((2, 400, 3))
    for column, better in ((0, False), (2, True)):
        made = normals.copy()
        made[1, :, column] += 3
        chosen = attack.better_score(lambda outputs: outputs[:, 0], made, 1e-5, 0.99)
        assert (chosen == "learned") is better


@pytest.mark.slow
def test_a_network(tmp_path):
    found = made(subject_of(model="mlp", audit_runs=100), tmp_path)
    assert "a linear model" in found.pair
    assert not found.violated


class TestMechanism:
    CLAIM = Claim(1.0, 1e-5, Relation.REPLACE_ONE)
    PAIR = np.zeros((20, 1)), np.vstack([[[1.0]], np.zeros((19, 1))])

    def attacked(self, scale, directory):
        def noisy(data, generator):
            return data.sum() + scale * generator.standard_normal()

        return self.play(noisy, directory, 2000)

    def play(self, mechanism, directory, runs):
        pair = "a one among zeros"
        target = Target(mechanism, *self.PAIR, self.CLAIM, 1e-5, "m:f", pair)
        asked = Request(mechanism="m:f", audit_runs=runs)
        return attack.attack_mechanism(asked, target, directory, lambda done, total: None)

    def test_broken_and_right(self, tmp_path):
        broken = self.attacked(0.3, tmp_path)
        assert (broken.of, broken.pair) == ("mechanism", "a one among zeros")
        assert broken.violated
        assert len(broken.claimed_curve.x) == len(broken.claimed_curve.y)
        (tmp_path / "right").mkdir()
        assert not self.attacked(5.0, tmp_path / "right").violated
        assert (tmp_path / "mechanism.outputs").is_file()

    def test_what_cannot_be_written_down_is_not_kept(self, tmp_path):
        class Holder:
            def __init__(self):
                self.thing = object()

            def __call__(self, data, generator):
                return generator.standard_normal()

        found = self.play(Holder(), tmp_path, 100)
        assert not found.violated
        assert list(tmp_path.iterdir()) == []


class TestRuns:
    def test_as_asked(self, subject):
        assert attack.audit_runs(subject) == attack.audit_runs(subject, plain=True) == RUNS

    @pytest.mark.parametrize("method", ["noisy-gd", "objective", "dp-agd"])
    def test_more_effort_more_runs_within_what_it_affords(self, method):
        found = []
        for effort, seconds in ((name, each.attacking) for name, each in EFFORTS.items()):
            subject = subject_of(audit_runs=None, effort=effort, method=method)
            runs = attack.audit_runs(subject)
            each = measure.cost_of_fit(subject.fitting.plan)
            assert runs <= subject.request.limits.audit_runs
            assert runs == attack.LEAST_RUNS or runs * each <= seconds
            assert attack.audit_runs(subject, plain=True) <= subject.request.limits.audit_runs
            found.append(runs)
        assert found == sorted(found)

    def test_never_too_few(self):
        assert attack.runs_within(60, 1000.0, 10_000) == attack.LEAST_RUNS
        assert attack.runs_within(60, 0.1, 10_000) == 1200
        assert attack.runs_within(60, 1e-9, 10_000) == 10_000
