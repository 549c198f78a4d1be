"""A network under DP-SGD: composition meets the budget, and nothing more is claimed."""

from __future__ import annotations

import functools
import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from sordino.accounting import dp_sgd
from sordino.accounting.risk import RiskTarget
from sordino.assessment import plan as planning
from sordino.assessment.plan import AssessmentPlan, NetworkPlan, plain_spec
from sordino.assessment.request import Request
from sordino.assessment.stages.prove import prove
from sordino.data import Dataset, load, recipe
from sordino.errors import InvalidArgument
from sordino.models import build
from sordino.privacy import Relation
from sordino.sgd import train

DELTA = 1e-6


def data(rows: int = 600, seed: int = 0) -> Dataset:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return Dataset(X, (X[:, 0] > 0).astype(np.int64), norm_bound=1.0)


@functools.cache
def planned(rows_per_person: int = 1) -> NetworkPlan:
    return NetworkPlan.of(600, None, 2.0, DELTA, rows_per_person=rows_per_person)


@pytest.mark.parametrize("rows_per_person", [1, 3])
def test_the_noise_is_the_least_that_composition_proves(rows_per_person: int) -> None:
    plan = planned(rows_per_person)
    assert 2.0 * 0.99 < plan.guarantee.epsilon <= 2.0
    assert plan.guarantee.delta == DELTA
    assert plan.guarantee.released == "all"
    assert plan.guarantee.relation is Relation.REPLACE_ONE
    steps, noise = plan.spec.total_steps(600), plan.spec.noise_multiplier
    # A record that is replaced leaves, and another comes: that tells no less than leaving alone.
    one = dp_sgd.pld(
        *(noise, plan.spec.batch_size / 600, steps),
        sampling="poisson",
        relation=Relation.ADD_OR_REMOVE_ONE,
    )
    assert one.epsilon(DELTA) < plan.guarantee.epsilon
    if rows_per_person == 1:
        same = dp_sgd.pld(
            *(noise, plan.spec.batch_size / 600, steps),
            sampling="poisson",
            relation=Relation.REPLACE_ONE,
        )
        assert plan.guarantee.epsilon == same.epsilon(DELTA)
    else:
        assert plan.guarantee.unit == "3 records of one person"
        assert noise > 2.5 * planned(1).spec.noise_multiplier


def test_a_network_has_no_bound_beyond_composition() -> None:
    plan = planned()
    found = prove(cast(Any, SimpleNamespace(network=plan, fitting=None, delta=DELTA)))
    assert found.guarantee == plan.guarantee
    first, *others = found.bounds
    assert (first.used, first.name) == (True, "privacy loss distributions")
    assert first.epsilon == plan.guarantee.epsilon
    kept = {bound.name for bound in others if bound.epsilon is not None}
    assert kept == {
        "moments accountant (Renyi DP)",
        "naive composition",
        "strong composition (Dwork et al.)",
        "strong composition (Kairouz et al.)",
        "the notes' naive formula",
    }
    proved = [bound.epsilon for bound in others if bound.epsilon and bound.kind == "guarantee"]
    assert all(epsilon > plan.guarantee.epsilon for epsilon in proved)
    (last,) = [bound for bound in others if bound.name == "last iterate (hidden state)"]
    assert "not convex" in last.reason
    assert "Annamalai 2024" in last.reason
    for name in ("output perturbation", "objective perturbation"):
        (bound,) = [each for each in others if each.name == name]
        assert "not convex" in bound.reason
    assert set(found.facts) == {"schedule", "sensitivity", "noise"}
    assert found.tradeoff is not None


def test_settings_follow_from_the_number_of_records_alone() -> None:
    assert NetworkPlan.of(600, None, 2.0, DELTA).spec == planned().spec
    spec = planned().spec
    assert (spec.order, spec.init, spec.max_grad_norm) == ("poisson", "fixed", 1.0)
    assert spec.objective.l2 == 0
    assert spec.batch_size == max(math.isqrt(600), 600 // 20)
    wander = spec.schedule.rate * spec.noise_multiplier / spec.batch_size * math.sqrt(300)
    assert wander == pytest.approx(planning.WANDER)
    loose = NetworkPlan.of(600, None, 50.0, DELTA)
    assert loose.spec.schedule.rate == planning.MOST_RATE


def test_what_preparing_read_is_not_covered() -> None:
    plan = NetworkPlan.of(600, None, 2.0, DELTA, not_covered=("bounds were read off the rows",))
    assert plan.guarantee.not_covered == ("bounds were read off the rows",)


def test_it_learns_digits() -> None:
    splits = load("digits/binary")
    D, test = splits.train, splits.test
    assert test is not None
    plan = NetworkPlan.of(D.rows, splits.recipe, 4.0, 5e-7)
    weights = train(plan.spec, D, range(3))[:, 0, 0]
    scores = build(plan.spec.objective, D.features).accuracy(weights, test.X, test.y)
    share = float(test.y.mean())
    assert scores.shape == (3,)
    # Runs of seeds 0..2 are 0.87 to 0.91; always saying one class is right in about half.
    assert scores.min() > max(share, 1 - share) + 0.2


def test_accuracy_is_that_of_the_forward_pass() -> None:
    D, spec = data(), plain_spec(600, None, None)
    weights = np.random.default_rng(2).normal(size=(2, spec.objective.hidden * 5 + 1))
    by_hand = []
    for each in weights:
        first = each[:-11].reshape(10, 4)
        units = np.maximum(D.X @ first[:, :3].T + first[:, 3], 0)
        by_hand.append(np.mean((units @ each[-11:-1] + each[-1] > 0) == D.y))
    assert build(spec.objective, 3).accuracy(weights, D.X, D.y) == pytest.approx(by_hand)


def test_ordinary_training_is_the_papers() -> None:
    adult = plain_spec(600, None, recipe("adult"))
    assert (adult.objective.hidden, adult.batch_size, adult.steps) == (8, 32, 1850)
    assert adult.noise_multiplier == 0
    other = plain_spec(20, None, None)
    assert (other.objective.hidden, other.batch_size, other.steps) == (10, 20, 2000)


def test_more_than_two_classes_are_refused() -> None:
    with pytest.raises(InvalidArgument) as refused:
        AssessmentPlan.of(Request(data="digits", model="mlp"))
    assert refused.value.argument == "classes"


def test_a_network_keeps_the_risk_that_was_asked_for():
    target = RiskTarget("advantage", 0.2)
    for persons in (1, 2):
        plan = NetworkPlan.of(400, None, target, DELTA, persons)
        assert 0.2 * 0.999 <= target.of(plan.proof.profile) <= 0.2
        assert plan.guarantee.epsilon == plan.proof.profile.epsilon(DELTA)


@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_epsilon_follows_from_a_risk(model):
    plan = AssessmentPlan.of(Request(model=model, advantage=0.1))
    proof = plan.network.proof if model == "mlp" else plan.fitting.proof
    assert 0.1 * 0.99 <= proof.profile.advantage() <= 0.1
    assert plan.epsilon == pytest.approx(proof.guarantee(plan.delta).epsilon, rel=1e-3)
    assert AssessmentPlan.of(plan.request.with_options(epsilon=0.7)).epsilon == 0.7
