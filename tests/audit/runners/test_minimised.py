"""Objective perturbation, many runs at once: the same minimisers as those of single fits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.linalg import cho_factor

from sordino import PrivateLinearSVC, PrivateLogisticRegression
from sordino.audit import audit, pairs
from sordino.audit.runners import fits, minimised
from sordino.audit.runners.minimised import _TOGETHER as TOGETHER
from sordino.audit.runners.minimised import MinimisedFit, Minimisers, SingleFit, records_of
from sordino.audit.runners.outputs import OutputFileError, outputs
from sordino.estimators.fit import Randomness
from sordino.estimators.methods.objective_perturbation import NoisyObjective
from sordino.estimators.minimum.linear import Risk
from sordino.estimators.rules import mechanism
from sordino.randomness import SeededStreams

KINDS = (PrivateLogisticRegression, PrivateLinearSVC)
RNG = np.random.default_rng(8)
X = RNG.standard_normal((300, 4)).astype(np.float32)
Y = (X[:, 0] + 0.3 * RNG.standard_normal(300) > 0).astype(int)
Z = np.digitize(X[:, 1], [-0.5, 0.5])


def prepared(kind=PrivateLogisticRegression, labels=Y, epsilon=1.0):
    how = {"delta": 1e-5, "classes": sorted(set(labels.tolist())), "method": "objective"}
    mechanism, D, claim = fits.mechanism(kind(epsilon=epsilon, **how), X, labels)
    return mechanism, pairs.canary(D), claim


def exact(fit):
    """Without the noise that is added to the minimiser."""
    return dataclasses.replace(fit, plan=dataclasses.replace(fit.plan, scale=0.0))


class GivenTerms:
    """Noise that gives each problem's linear term, in order."""

    def __init__(self, terms):
        self.terms = list(terms)

    def perturb(self, values, scale):
        assert not np.any(values)
        return scale * self.terms.pop(0)


@pytest.mark.parametrize("labels", [Y, Z], ids=["two classes", "three"])
@pytest.mark.parametrize("kind", KINDS)
def test_minimisers_are_those_of_a_fit_with_the_same_linear_terms(kind, labels):
    fit, pair, _ = prepared(kind, labels)
    fit = exact(fit)
    runs = TOGETHER + 3
    found = outputs(fit, *pair, runs, seed=5)
    plan, streams = fit.plan, SeededStreams("audit 5")
    # Strong convexity: a gradient of this norm is this near to the minimum, for both of the two.
    near = 2 * mechanism(plan.task, plan.l2).gradient_left / (plan.task.rows * plan.l2)
    shape = TOGETHER, plan.task.columns
    for world, data in enumerate(pair):
        for run in (0, 7, TOGETHER + 2):
            block, place = run - run % TOGETHER, run % TOGETHER
            terms = [
                streams.stream("linear term", world, block, problem).standard_normal(shape)
                for problem in range(plan.task.problems)
            ]
            noise = GivenTerms(term[place] for term in terms)
            randomness = Randomness(streams, noise, noise)
            wanted = NoisyObjective().train(plan, records_of(plan, data), randomness, fit.start)
            weights = found[world][run].reshape(wanted.shape)
            assert np.linalg.norm(weights - wanted, axis=1).max() <= near
    assert found[0].std(axis=0).min() > 100 * near  # else any weights would do


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0.02, 1.0, 50.0])
def test_all_runs_are_within_the_tolerance_and_none_is_left_over(kind, epsilon, monkeypatch):
    fit, pair, _ = prepared(kind, epsilon=epsilon)
    plan = fit.plan
    risk = records_of(plan, pair.D).risk(0, plan.task, plan.l2)
    tolerance = mechanism(plan.task, plan.l2).gradient_left / len(X)
    together = Minimisers(risk, tolerance, plan.task.norm, fit.start[0])
    monkeypatch.delattr(Risk, "minimise")
    linear = RNG.normal(0, plan.sigma / len(X), (200, plan.task.columns))
    for b, w in zip(linear, together(linear), strict=True):
        assert np.linalg.norm(risk.gradient(w) + b) <= tolerance


@pytest.mark.parametrize("passes", [0, 1], ids=["none comes down", "few do"])
def test_what_does_not_come_down_is_minimised_alone(passes, monkeypatch):
    fit, pair, _ = prepared()
    wanted = outputs(exact(fit), *pair, 5)
    monkeypatch.setattr(minimised, "_PASSES", passes)
    for ours, theirs in zip(outputs(exact(fit), *pair, 5), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_another_hessian_brings_down_what_the_first_did_not(monkeypatch):
    """Here the first one knows nothing of columns that differ by a factor of 100 in size."""
    rows = RNG.standard_normal((400, 30)) * np.geomspace(1, 0.01, 30)
    rows /= np.linalg.norm(rows, axis=1).max()
    risk = Risk(X=rows, y=Y[np.arange(400) % 300], l2=1e-4)
    together = Minimisers(risk, 1e-9, 1.0, np.zeros(30))
    together._factor = cho_factor(0.01 * np.eye(30))
    linear = RNG.normal(0, 1e-3, (20, 30))
    norms = np.full(20, np.inf)
    together._descend(np.zeros_like(linear), norms, linear, together._factor)
    assert (norms > together.tolerance).all()
    monkeypatch.delattr(Risk, "minimise")
    found = together(linear)
    assert np.linalg.norm(together.gradients(found, linear), axis=1).max() <= 1e-9


def test_one_seed_one_result_whatever_was_made_before(tmp_path):
    fit, pair, _ = prepared()
    whole = outputs(fit, *pair, 150, seed=2, workers=1)
    file = tmp_path / "outputs"
    part = outputs(fit, *pair, 70, seed=2, file=file)
    going_on = outputs(fit, *pair, 150, seed=2, file=file)
    again = outputs(fit, *pair, 150, seed=2, file=file)
    for world in (0, 1):
        np.testing.assert_allclose(part[world], whole[world][:70], atol=1e-9)
        np.testing.assert_allclose(going_on[world], whole[world], atol=1e-9)
        np.testing.assert_array_equal(going_on[world], again[world])
    with pytest.raises(OutputFileError, match="same mechanism"):
        outputs(prepared(epsilon=2.0)[0], *pair, 150, seed=2, file=file)


def test_runs_and_worlds_are_independent():
    fit, pair, _ = prepared()
    first, second = outputs(fit, *pair, 2000)
    assert len(np.unique(np.concatenate([first, second]), axis=0)) == 4000
    for one, other in ((first, second), (first[:-1], first[1:]), (first[:-64], first[64:])):
        for column in range(first.shape[1]):
            # A correlation of 2000 independent runs is within 5 / sqrt(2000).
            assert abs(np.corrcoef(one[:, column], other[:, column])[0, 1]) < 5 / np.sqrt(1900)


def test_what_is_added_to_the_minimiser():
    fit, pair, _ = prepared(labels=Z)
    noisy = dataclasses.replace(fit, plan=dataclasses.replace(fit.plan, scale=0.5))
    added = outputs(noisy, *pair, 300)[1] - outputs(exact(fit), *pair, 300)[1]
    # Relative error of a deviation from 4500 numbers: 1 / sqrt(9000).
    assert added.std() == pytest.approx(0.5, rel=5 / np.sqrt(9000))
    assert np.abs(np.corrcoef(added.T) - np.eye(15)).max() < 5 / np.sqrt(300)


def test_too_many_columns_are_fitted_one_by_one():
    fit, *_ = prepared()
    wide = dataclasses.replace(fit.plan.task, columns=5000)
    assert MinimisedFit.can_do(fit.plan)
    assert not MinimisedFit.can_do(dataclasses.replace(fit.plan, task=wide))
    assert isinstance(fit, SingleFit)


class TestWorstPair:
    """As in `test_fits.TestWorstPair`, on more records: they take a model to where a loss is steep.

    Half of the noise is then seen by the test of all thresholds, a sixth by two numbers alone.
    """

    def audited(self, factor):
        how = {"epsilon": 1.0, "delta": 1e-5, "classes": [0, 1], "fit_intercept": False}
        private = PrivateLogisticRegression(method="objective", **how)
        fit, D, D_prime, claim = fits.worst_case(private, 2000)
        less = dataclasses.replace(fit.plan, sigma=factor * fit.plan.sigma)
        fit = dataclasses.replace(fit, plan=less)
        return audit(fit, D, D_prime, 8000, claim=claim, confidence=0.999)

    def test_a_promise_is_kept(self):
        found = self.audited(1.0)  # seeded: the same every time
        assert found.curve_refuted is False
        assert not found.violated

    @pytest.mark.parametrize(("factor", "violated"), [(1 / 2, False), (1 / 6, True)])
    def test_with_less_noise_it_is_seen_not_to_be(self, factor, violated):
        found = self.audited(factor)
        assert found.curve_refuted
        assert found.violated is violated
