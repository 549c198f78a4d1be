"""Every theorem about one release: numbers by hand, refusals by name, nothing below the truth."""

from __future__ import annotations

import functools
import json
import math
import warnings
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from sordino import PrivateLinearSVC, PrivateLogisticRegression
from sordino.accounting.profile import GaussianProfile
from sordino.assessment.stages.prove import best_guess, bounds_of_evidence, curve_of, prove
from sordino.data import neighbours
from sordino.estimators.classifiers import PrivateLinearClassifier
from sordino.estimators.fit import PlannedFit
from sordino.privacy import Relation
from sordino.proofs.evidence import SelectionEvidence, from_plain
from sordino.report.result import Bound, Proved
from sordino.sgd import train

ROWS, COLUMNS, DELTA = 400, 4, 1e-6
MODELS = {"logistic": PrivateLogisticRegression, "svm": PrivateLinearSVC}
OUTPUT = ("rsgd-ar", "nsgd", "bolt-on", "output-gd")
STEPS = ("noisy-gd", "dp-sgd")
METHODS = (*OUTPUT, *STEPS, "objective", "dp-agd")
SLACK = 1e-5
"""Rows may exceed their norm by 1e-6, which every theorem counts in, and rounding by less."""


def records(classes: int = 2) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    generator = np.random.default_rng(5)
    X = generator.normal(size=(ROWS, COLUMNS))
    return X / np.linalg.norm(X, axis=1, keepdims=True), np.arange(ROWS) % classes


def estimator(method: str, model: str = "logistic", **settings: Any) -> PrivateLinearClassifier:
    given = {"epsilon": 1.0, "delta": DELTA, "data_norm": 1.0, "classes": [0, 1], **settings}
    made: PrivateLinearClassifier = MODELS[model](method=method, fit_intercept=False, **given)
    return made


def planned(method: str, model: str = "logistic", **settings: Any) -> PlannedFit:
    X, y = records(len(settings.get("classes", [0, 1])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random_state, where a test sets it
        return estimator(method, model, **settings)._prepare(X, y)


def proved(fitting: PlannedFit) -> Proved:
    return prove(cast(Any, SimpleNamespace(network=None, fitting=fitting, delta=DELTA)))


@functools.cache
def usual(method: str, model: str = "logistic") -> tuple[PlannedFit, Proved]:
    """With the settings that public rules choose."""
    fitting = planned(method, model)
    return fitting, proved(fitting)


def named(found: Proved, name: str) -> Bound:
    (bound,) = [each for each in found.bounds if each.name.startswith(name)]
    return bound


def gaussian_epsilon(mu: float) -> float:
    """Of the Gaussian mechanism, from the definition of delta."""

    def excess(epsilon: float) -> float:
        upper = norm.cdf(mu / 2 - epsilon / mu)
        return float(upper - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - DELTA)

    return float(brentq(excess, 0.0, 100.0, xtol=1e-13))


def close(bound: Bound, moved: float, sigma: float) -> None:
    """A bound is the exact Gaussian's for this distance, and not below it."""
    exact = gaussian_epsilon(moved / sigma)
    assert bound.epsilon is not None
    assert exact * (1 - 1e-9) <= bound.epsilon <= exact * (1 + 10 * SLACK)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("method", METHODS)
def test_the_used_bound_is_the_certificate_s_and_the_rest_is_in_order(
    method: str, model: str
) -> None:
    X, y = records()
    fitted = estimator(method, model).fit(X, y)
    fitting, found = usual(method, model)
    first, *others = found.bounds
    assert first.used
    assert not any(bound.used for bound in others)
    assert fitted.privacy_ is not None
    assert first.epsilon == fitted.privacy_.epsilon
    assert found.guarantee == fitted.privacy_
    assert first.theorem == fitted.privacy_.theorem
    ranked = [bound for bound in others if bound.epsilon is not None and bound.kind == "guarantee"]
    epsilons = [bound.epsilon for bound in ranked]
    assert epsilons == sorted(cast(list[float], epsilons))
    # No other theorem proves less than the one that was chosen as the least.
    assert all(epsilon >= first.epsilon * (1 - 1e-12) for epsilon in cast(list[float], epsilons))
    assert len(ranked) >= 1
    refusals = [bound for bound in others if bound.epsilon is None]
    assert len(refusals) >= 2
    assert all(bound.reason.endswith(".") and bound.theorem for bound in refusals)
    assert fitting.plan.evidence is not None
    assert found.facts == fitting.plan.evidence.facts()


@pytest.mark.parametrize("method", METHODS)
def test_a_certificate_s_numbers_give_the_same_bounds(method: str) -> None:
    fitting, found = usual(method)
    evidence = fitting.plan.evidence
    assert evidence is not None
    public = from_plain(json.loads(json.dumps(evidence.to_plain())))
    bounds, profile = bounds_of_evidence(public, DELTA)
    assert bounds == found.bounds
    assert profile.epsilon(DELTA) == bounds[0].epsilon


@pytest.mark.parametrize("method", METHODS)
def test_assumptions_are_marked_as_taken_on_trust(method: str) -> None:
    _, found = usual(method)
    assert found.guarantee is not None
    checked = found.bounds[0].checked
    trusted = {check.what for check in checked if check.trusted}
    assert trusted
    assert trusted <= set(found.guarantee.assumes)
    assert any("without looking at these data" in what for what in trusted)
    assert all(check.numbers for check in checked if not check.trusted)


# Output perturbation: distances by hand ----------------------------------------------------------


def test_gradient_descent_s_bounds_are_those_of_the_closed_forms() -> None:
    fitting = planned("output-gd", steps=30, learning_rate=2.0, l2=0.01)
    found, sigma = proved(fitting), fitting.plan.scale
    smooth, rate = 0.25 + 0.01, 2.0
    rho = max(abs(1 - rate * 0.01), abs(1 - rate * smooth))
    kick = 2 * rate / ROWS
    moved = kick * (1 - rho**30) / (1 - rho)
    close(found.bounds[0], moved, sigma)
    close(named(found, "gradient descent, closed form"), moved, sigma)
    close(named(found, "bolt-on, convex"), 30 * kick, sigma)
    close(named(found, "any number of passes"), kick / (1 - rho), sigma)
    zhang = 5 * (smooth + 0.01) / (ROWS * 0.01 * smooth)
    close(named(found, "gradient descent (Zhang"), zhang, sigma)
    assert "one place only" in named(found, "exact Gaussian, random").reason


def test_bolt_on_s_strongly_convex_bound_is_two_over_n_l2() -> None:
    fitting = planned("bolt-on", batch_size=50, epochs=5)
    found = proved(fitting)
    bound = named(found, "bolt-on, strongly convex")
    close(bound, 2 / (fitting.plan.l2 * ROWS), fitting.plan.scale)
    assert any("<= 2" in check.what for check in bound.checked)
    assert "falls" in named(found, "any number of passes").reason


def test_nsgd_s_convex_bound_adds_up_the_visits() -> None:
    fitting = planned("nsgd", batch_size=40, epochs=3, learning_rate=1.0)
    moved = 2 / 40 * (1 + 1 / 2 + 1 / 3)
    close(named(proved(fitting), "bolt-on, convex"), moved, fitting.plan.scale)


def test_renyi_dp_is_what_the_moments_say() -> None:
    fitting = planned("nsgd", batch_size=40, epochs=3, learning_rate=1.0)
    evidence = cast(Any, fitting.plan.evidence)
    of = evidence.done().sensitivity
    mus = np.array(of.positions) / fitting.plan.scale
    orders = np.linspace(1.5, 60, 4000)
    moments = np.exp(np.outer(orders * (orders - 1) / 2, mus**2)) @ np.array(of.shares)
    rho = np.log(moments) / (orders - 1)
    mixed = rho + np.log1p(-1 / orders) - (math.log(DELTA) + np.log(orders)) / (orders - 1)
    bound = named(proved(fitting), "Renyi DP, random sensitivity").epsilon
    # Ours minimises over fewer orders, and over three conversions instead of one.
    assert bound == pytest.approx(float(mixed.min()), rel=2e-3)


def test_the_classical_formula_is_a_bound_below_one_only() -> None:
    fitting = planned("output-gd", epsilon=0.3)
    bound = named(proved(fitting), "classical")
    moved = cast(Any, fitting.plan.evidence).done().farthest
    by_hand = moved * math.sqrt(2 * math.log(1.25 / DELTA)) / fitting.plan.scale
    assert bound.epsilon == pytest.approx(by_hand, rel=1e-11)
    assert bound.epsilon > 0.3
    refused = named(proved(planned("output-gd", epsilon=1.0)), "classical")
    assert refused.epsilon is None
    assert "epsilon < 1 only" in refused.reason


def test_a_rate_that_can_expand_is_refused_where_the_theorem_forbids_it() -> None:
    found = proved(planned("bolt-on", learning_rate=9.0, batch_size=50, epochs=2))
    assert "above 2 / smoothness" in named(found, "bolt-on, convex").reason
    assert "min(1 / smoothness" in named(found, "bolt-on, strongly convex").reason
    rate = [check for check in found.bounds[0].checked if "2 / smoothness" in check.what]
    assert "expansion is counted in" in rate[0].numbers


@pytest.mark.parametrize("method", OUTPUT)
def test_no_bound_is_below_what_two_trainings_show(method: str) -> None:
    # A Huber SVM starts with slope 1, and -x against x is as far as two records can be apart. The
    # other rows hardly move the weights, so the distance comes close to the bound.
    X, y = records()
    X = 1e-3 * X
    X[0], y[0] = np.eye(COLUMNS)[0], 1
    given = {"batch_size": 40, "epochs": 2} if method != "output-gd" else {"steps": 10}
    rate = {} if method == "bolt-on" else {"learning_rate": 0.2}
    average = {"average_every": 2} if method == "rsgd-ar" else {}
    fitting = estimator(method, "svm", **given, **rate, **average)._prepare(X, y)
    D = fitting.records.dataset(0)
    other = neighbours.replace(D, [0], X=-D.X[:1], y=D.y[:1])
    assert fitting.plan.spec is not None
    weights = train(fitting.plan.spec, D, range(20), other, initial_weights=fitting.start[0])
    distance = float(np.linalg.norm(np.diff(weights[:, :, 0], axis=1), axis=-1).max())
    shown = gaussian_epsilon(distance / fitting.plan.scale)
    found = proved(fitting)
    for bound in found.bounds:
        # A mean over the places of the record may lie below its worst place.
        if bound.epsilon is not None and "random" not in bound.name:
            assert bound.epsilon >= shown
    largest = named(found, "exact Gaussian, largest").epsilon
    assert largest is not None
    assert shown > 0.3 * largest


# Noise in every step -----------------------------------------------------------------------------


def test_noisy_descent_s_bounds_are_those_of_the_closed_forms() -> None:
    fitting = planned("noisy-gd", steps=40, learning_rate=1.0, l2=0.05)
    found, spec = proved(fitting), fitting.plan.spec
    assert spec is not None
    step = 2 / spec.noise_multiplier
    close(named(found, "privacy loss"), step * math.sqrt(40), 1.0)
    c = 1 - 0.05
    last = step * math.sqrt((1 - c**40) / (1 + c**40) * (1 + c) / (1 - c))
    close(named(found, "last iterate (hidden"), last, 1.0)
    assert named(found, "last iterate (hidden").used
    assert "Poisson" in named(found, "last iterate, linear").reason
    for name in ("naive", "strong composition (Kairouz", "strong composition (Dwork", "moments"):
        bound = named(found, name).epsilon
        assert bound is not None
        assert bound > gaussian_epsilon(step * math.sqrt(40))


def test_dp_sgd_lists_what_is_printed_apart_and_no_estimate() -> None:
    _, found = usual("dp-sgd")
    kinds = [bound.kind for bound in found.bounds if bound.epsilon is not None]
    assert kinds == ["guarantee"] * (len(kinds) - 1) + ["as printed"]
    assert "not a guarantee" in named(found, "the notes' naive").reason
    assert named(found, "last iterate (hidden").epsilon is None
    assert "not for a record replaced" in named(found, "last iterate (hidden").reason
    assert named(found, "last iterate, linear").epsilon is None


def test_classes_and_records_of_a_person_are_paid_for() -> None:
    beside = {"classes": [0, 1, 2], "multi_class": "one-vs-rest"}
    fitting = planned("noisy-gd", **beside, max_rows_per_person=2)
    found, spec = proved(fitting), fitting.plan.spec
    assert spec is not None
    assert found.guarantee is not None
    assert found.guarantee.unit == "2 records of one person"
    steps = spec.total_steps(ROWS)
    mu = 2 * math.sqrt(3) * 2 / spec.noise_multiplier * math.sqrt(steps)
    close(named(found, "privacy loss"), mu, 1.0)
    assert "2 records of a person delta grows" in named(found, "naive").reason
    assert not any(bound.kind == "as printed" for bound in found.bounds)


@pytest.mark.parametrize("method", OUTPUT)
def test_classes_and_records_of_a_person_move_the_weights_farther(method: str) -> None:
    beside = {"classes": [0, 1, 2], "multi_class": "one-vs-rest"}
    fitting = planned(method, **beside, max_rows_per_person=2)
    found = proved(fitting)
    assert found.guarantee is not None
    assert found.bounds[0].epsilon == found.guarantee.epsilon
    one = cast(Any, planned(method).plan.evidence)
    alone = type(one)(**{**one.__dict__, "spec": cast(Any, fitting.plan.spec)})
    moved = 2 * math.sqrt(3) * alone.done().farthest
    close(named(found, "exact Gaussian, largest"), moved, fitting.plan.scale)


# Noise in the objective, budgets, choices, nothing -----------------------------------------------


def test_objective_perturbation_is_never_below_the_gaussian_on_gradients() -> None:
    fitting, found = usual("objective")
    least = gaussian_epsilon(2 / fitting.plan.sigma)
    for name in ("objective perturbation, logistic", "objective perturbation, any", "Renyi DP"):
        bound = named(found, name).epsilon
        assert bound is not None
        assert bound >= least * (1 - 1e-9)
    reason = named(found, "output perturbation").reason
    assert f"{2 / (fitting.plan.l2 * ROWS) * (1 + 1e-6):.6g}" in reason
    assert "Gamma" in named(found, "objective perturbation, delta = 0").reason


def test_a_filter_s_closed_form_is_bun_and_steinke_s() -> None:
    evidence = cast(Any, planned("dp-agd", max_rows_per_person=2).plan.evidence)
    found = Proved(None, bounds=bounds_of_evidence(evidence, DELTA)[0])
    rho = 4 * evidence.rho
    by_hand = rho + 2 * math.sqrt(rho * math.log(1 / DELTA))
    assert named(found, "zCDP, closed form").epsilon == pytest.approx(by_hand, rel=1e-11)
    assert "fixed beforehand" in named(found, "privacy loss").reason


def test_the_best_of_several_is_not_the_chosen_training_alone() -> None:
    evidence = planned("output-gd").plan.evidence
    assert evidence is not None
    tuned = SelectionEvidence(
        persons_counted=False,
        relation=evidence.relation,
        columns=evidence.columns,
        candidates=(evidence, evidence),
        selected=0,
        mean=5.0,
        shape_of_runs=1.0,
    )
    (used, alone), profile = bounds_of_evidence(tuned, DELTA)
    assert used.used
    assert used.epsilon == profile.epsilon(DELTA) > 1.0
    assert alone.epsilon is None
    assert "chosen from several" in alone.reason


def test_where_nothing_is_promised_no_epsilon_is_shown() -> None:
    repeatable = proved(planned("noisy-gd", random_state=1))
    assert repeatable.guarantee is None
    assert repeatable.why_none == "random_state makes its noise repeatable"
    assert repeatable.bounds
    assert all(bound.epsilon is None and bound.reason for bound in repeatable.bounds)
    assert repeatable.tradeoff is None
    assert repeatable.best_guess == 1.0
    nothing = proved(planned("none"))
    assert (nothing.guarantee, nothing.bounds) == (None, ())
    assert "adds no noise" in nothing.why_none


# The curve ---------------------------------------------------------------------------------------


def test_a_gaussian_s_curve_and_best_guess_are_exact() -> None:
    profile = GaussianProfile(parameter=0.8, relation=Relation.REPLACE_ONE, theorem="")
    curve = curve_of(profile)
    alphas, betas = np.array(curve.x), np.array(curve.y)
    assert np.allclose(betas, norm.cdf(norm.ppf(1 - alphas) - 0.8), atol=1e-9)
    assert best_guess(profile) == pytest.approx(norm.cdf(0.4), rel=1e-11)
    assert best_guess(profile) > norm.cdf(0.4)


@pytest.mark.parametrize("method", ["rsgd-ar", "dp-sgd", "objective"])
def test_a_curve_of_lines_lies_closely_under_the_profile_s(method: str) -> None:
    fitting, found = usual(method)
    assert fitting.proof is not None
    profile, curve = fitting.proof.profile, found.tradeoff
    assert curve is not None
    assert len(curve.x) == 120
    assert (curve.x[0], curve.x[-1], curve.y[-1]) == (0.0, 1.0, 0.0)
    assert list(curve.y) == sorted(curve.y, reverse=True)
    for alpha, beta in list(zip(curve.x, curve.y, strict=True))[1:-1:13]:
        # Golden section finds the highest line up to a little; seventy lines come this close.
        assert profile.beta(alpha) - 1e-3 < beta < profile.beta(alpha) + 1e-6
