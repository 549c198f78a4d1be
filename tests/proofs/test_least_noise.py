"""Noise in every step, in the objective, and by a budget that is spent as one goes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from sordino.accounting import gaussian, objective
from sordino.errors import NotApplicable
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import Relation
from sordino.proofs import NORM_SLACK, prove
from sordino.proofs.adaptive import AdaptiveEvidence, concentrated_budget
from sordino.proofs.objective import ObjectiveEvidence, objective_noise, problem_of
from sordino.proofs.steps import run_of
from sordino.proofs.theorems import noise_for_steps, prove_steps
from sordino.sgd.spec import TrainSpec

REPLACE = Relation.REPLACE_ONE
DELTA = 1e-6


def full_batch(l2=0.01, steps=40, **changed):
    spec = ObjectiveSpec("logistic", l2=l2, intercept=False)
    how = {"learning_rate": 2.0, "batch_size": 500, "steps": steps, "order": "fixed"}
    return TrainSpec(spec, **{**how, "max_grad_norm": 1.0, **changed})


def poisson(**changed):
    return full_batch(**{"batch_size": 50, "order": "poisson", **changed})


def calibrated(spec, epsilon=1.0, accountant="best", **more):
    def run(noise):
        noisy = replace(spec, noise_multiplier=noise)
        return run_of(noisy, spec.objective.constants(1.0), 500, REPLACE, **more)

    noise = noise_for_steps(run(1.0), epsilon, DELTA, accountant)
    noisy = replace(spec, noise_multiplier=noise)
    return noise, prove_steps(run(noise), noisy, DELTA, accountant)


class TestSteps:
    @pytest.mark.parametrize("spec", [full_batch(), full_batch(l2=1.0), poisson()])
    @pytest.mark.parametrize("more", [{}, {"problems": 3}, {"rows_per_person": 2}])
    def test_calibrated_and_asked_again(self, spec, more):
        _, proof = calibrated(spec, **more)
        epsilon = proof.guarantee(DELTA).epsilon
        assert 1 - 1e-4 < epsilon <= 1.0

    def test_composition_of_full_gradients(self):
        noise, proof = calibrated(full_batch(l2=0.0))
        # Gradients are at most 1 + slack long, but the clip is 1: 2 sqrt(steps) / noise = mu.
        assert noise == pytest.approx(2 * math.sqrt(40) * gaussian.sigma(1.0, DELTA), rel=1e-9)
        assert proof.released == "all"

    def test_the_last_iterate_where_it_is_better(self):
        hidden, proof = calibrated(full_batch(l2=0.1, steps=400))
        known, _ = calibrated(full_batch(l2=0.1, steps=400), accountant="pld")
        assert hidden < 0.7 * known
        assert proof.released == "final"

    @pytest.mark.parametrize(
        ("steps", "ratio"),
        # golden.json, 10_erm_baselines, hidden_vs_composition_ratio: eta 4, lam 0.001.
        [(250, 0.9612278942479189), (750, 0.7762641153970417)],
    )
    def test_how_much_hiding_helps(self, steps, ratio):
        spec = full_batch(l2=0.001, steps=steps, learning_rate=4.0)
        hidden, known = calibrated(spec)[0], calibrated(spec, accountant="pld")[0]
        assert hidden / known == pytest.approx(ratio, rel=1e-10)

    def test_it_says_what_the_report_says(self):
        noise, proof = calibrated(poisson())
        spec = replace(poisson(), noise_multiplier=noise)
        report = prove(spec, spec.objective.constants(1.0), 500, REPLACE, DELTA)
        assert report.best is not None
        assert proof.guarantee(DELTA).epsilon == pytest.approx(report.best.epsilon, rel=1e-9)

    def test_moments_need_more_noise(self):
        assert calibrated(poisson(), accountant="moments")[0] > calibrated(poisson())[0]

    def test_classes_cost_the_root_of_their_number(self):
        one, four = calibrated(full_batch())[0], calibrated(full_batch(), problems=4)[0]
        assert four == pytest.approx(2 * one, rel=1e-9)

    def test_a_clip_above_the_loss_own_bound_is_not_paid_for(self):
        wide = calibrated(full_batch(max_grad_norm=10.0))[0]
        narrow = calibrated(full_batch(max_grad_norm=1.0))[0]
        assert 10 * wide == pytest.approx(narrow * (1 + NORM_SLACK), rel=1e-9)

    def test_no_promise(self):
        assert calibrated(poisson(), math.inf)[0] == 0.0


class TestObjective:
    def of(self, loss="logistic", regulariser=32.561, epsilon=1.0, **more):
        problem = problem_of(loss, 0.5, 1.0, regulariser, REPLACE)
        return objective_noise(problem, epsilon, 1e-8, **more)

    def test_it_is_the_accountant_with_the_slack(self):
        exact = objective.noise(
            epsilon=1.0, delta=1e-8, regulariser=32.561, norm=1.0 + NORM_SLACK, curvature=0.25,
            kind="logistic", relation=REPLACE,
        )  # fmt: skip
        assert self.of()[0] == exact
        assert self.of(epsilon=math.inf) == (0.0, 0.0)

    @pytest.mark.parametrize("kind", ["logistic", "huber-svm"])
    @pytest.mark.parametrize("more", [{}, {"problems": 3}, {"rows_per_person": 2}])
    def test_calibrated_and_asked_again(self, kind, more):
        assert self.of(kind, **more)[1] == 0
        sigma, out = self.of(kind, gradient_left=1e-4, **more)
        made = ObjectiveEvidence(
            loss=kind, huber_width=0.5, norm=1.0, regulariser=32.561, sigma=sigma, sigma_out=out,
            gradient_left=1e-4, relation=REPLACE, columns=3, **more,
        )  # fmt: skip
        assert 1 - 1e-4 < made.proof().guarantee(1e-8).epsilon <= 1.0

    def test_too_small_a_regulariser(self):
        with pytest.raises(NotApplicable):
            self.of("huber-svm", regulariser=0.1, epsilon=0.1)


class TestAdaptive:
    @pytest.mark.parametrize("people", [1, 3])
    def test_calibrated_and_asked_again(self, people):
        rho = concentrated_budget(1.0, DELTA, REPLACE, rows_per_person=people)
        how = {"relation": REPLACE, "columns": 3, "rows_per_person": people}
        proof = AdaptiveEvidence(rho=rho, clip=1.0, **how).proof()
        assert 1 - 1e-4 < proof.guarantee(DELTA).epsilon <= 1.0

    def test_golden(self):
        # golden.json, 10_erm_baselines, zcdp_to_dp: rho = 0.01 at 1e-8 is 0.7523258854583619.
        rho = concentrated_budget(0.7523258854583619, 1e-8, REPLACE)
        assert rho == pytest.approx(0.01, rel=1e-4)
