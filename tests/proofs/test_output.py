"""Noise on the final weights: the numbers reach the accountant, and conditions are checked."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sordino import sensitivity
from sordino.accounting import gaussian
from sordino.accounting.last_iterate.permuted import hockey_mixture
from sordino.data import neighbours
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument, NotApplicable
from sordino.models.constants import Constants, ObjectiveSpec
from sordino.privacy import Relation
from sordino.proofs import NORM_SLACK
from sordino.proofs.output import OutputEvidence
from sordino.sgd import train
from sordino.sgd.spec import Schedule, TrainSpec

LOGISTIC = ObjectiveSpec("logistic", l2=0.1, intercept=False)
REPLACE, ZERO = Relation.REPLACE_ONE, Relation.ZERO_OUT


def spec_of(objective=LOGISTIC, **changed):
    how = {"learning_rate": 1.0, "batch_size": 10, "epochs": 3, "order": "permute-once"}
    return TrainSpec(objective, **{**how, "dtype": "float64", **changed})


def perturbation(spec, relation=REPLACE, n=100, norm=1.0, **more):
    how = {"relation": relation, "columns": 5, "sigma": 1.0, **more}
    return OutputEvidence(spec=spec, rows=n, norm=norm, **how).done()


def slacked(objective, norm=1.0):
    """The constants for rows that exceed their norm by the slack the data allow."""
    known = objective.constants(norm)
    data = (known.smooth - known.strongly_convex) * (1 + NORM_SLACK) ** 2
    return Constants(
        known.lipschitz * (1 + NORM_SLACK), known.strongly_convex + data, known.strongly_convex
    )


class TestNumbers:
    def test_rsgd_ar_is_the_recurrence_with_slack_and_rounding(self):
        rate = Schedule.per_epoch(1.0)
        spec = spec_of(learning_rate=rate, epochs=4, average_every=2, restart_every=2)
        found = perturbation(spec).sensitivity
        exact = sensitivity.rsgd_ar(
            constants=slacked(LOGISTIC), n=100, batch_size=10, relation=REPLACE, epochs=4,
            eta0=1.0, tau=2,
        )  # fmt: skip
        for ours, theirs in zip(found.positions, exact.positions, strict=True):
            # Rounding adds something, and next to nothing.
            assert theirs < ours < theirs * (1 + 1e-6)
        assert found.shares == exact.shares

    def test_the_noise_is_that_of_the_mixture(self):
        found = perturbation(spec_of())
        sigma = found.sigma(1.0, 1e-6)
        profile = hockey_mixture(
            sensitivities=found.sensitivity.positions,
            weights=found.sensitivity.shares,
            sigma=sigma,
            relation=REPLACE,
        )
        assert profile.epsilon(1e-6) <= 1.0
        assert profile.epsilon(1e-6) == pytest.approx(1.0, rel=1e-4)
        assert found.proof(sigma).guarantee(1e-6).epsilon == profile.epsilon(1e-6)

    def test_a_known_order_pays_for_its_worst_batch(self):
        secret, known = perturbation(spec_of()), perturbation(spec_of(order="fixed"))
        worst = gaussian.sigma(1.0, 1e-6, known.sensitivity.worst)
        assert known.sigma(1.0, 1e-6) == pytest.approx(worst, rel=1e-12)
        assert secret.sigma(1.0, 1e-6) < worst

    def test_new_orders_every_epoch(self):
        spec = spec_of(order="shuffle", batch_size=50, epochs=3)
        found = perturbation(spec)
        assert len(found.epochs) == 3
        assert found.profile(0.3).epsilon(1e-6) <= perturbation(
            spec_of(order="fixed", batch_size=50, epochs=3)
        ).profile(0.3).epsilon(1e-6)

    def test_full_batches(self):
        spec = spec_of(batch_size=100, epochs=7, order="fixed")
        exact = sensitivity.gradient_descent(
            constants=slacked(LOGISTIC), n=100, rate=1.0, steps=7, relation=REPLACE
        )
        assert perturbation(spec).sensitivity.worst == pytest.approx(exact.worst, rel=1e-9)

    def test_classes_and_people(self):
        one = perturbation(spec_of(order="fixed")).sigma(1.0, 1e-6)
        four = perturbation(spec_of(order="fixed"), problems=4).sigma(1.0, 1e-6)
        assert four == pytest.approx(2 * one, rel=1e-9)
        people = perturbation(spec_of(order="fixed"), rows_per_person=3)
        assert people.sigma(1.0, 1e-6) == pytest.approx(3 * one, rel=1e-9)
        assert people.proof(1.0).unit == "3 records of one person"

    def test_zero_out_moves_half_as_far(self):
        whole, half = perturbation(spec_of()), perturbation(spec_of(), relation=ZERO)
        assert half.sensitivity.worst == pytest.approx(whole.sensitivity.worst / 2, rel=1e-6)

    def test_a_clip_below_the_norm_counts(self):
        clipped = perturbation(spec_of(max_grad_norm=0.25)).sensitivity.worst
        assert clipped == pytest.approx(perturbation(spec_of()).sensitivity.worst / 4, rel=1e-5)

    def test_no_promise_needs_no_noise(self):
        assert perturbation(spec_of()).sigma(math.inf, 1e-6) == 0.0


class TestRefusals:
    @pytest.mark.parametrize(
        ("changed", "words"),
        [
            ({"order": "poisson"}, "permute-once"),
            ({"order": "allocation"}, "permute-once"),
            ({"dtype": "float32"}, "float64"),
            ({"radius": 2.0}, "radius=None"),
            ({"noise_multiplier": 1.0, "max_grad_norm": 1.0}, "noise_multiplier=0"),
        ],
    )
    def test_trainings_without_a_theorem(self, changed, words):
        with pytest.raises(NotApplicable, match=words):
            perturbation(spec_of(**changed))

    def test_private_sizes(self):
        with pytest.raises(NotApplicable, match="private"):
            perturbation(spec_of(), relation=Relation.ADD_OR_REMOVE_ONE)

    def test_networks(self):
        with pytest.raises(InvalidArgument, match="linear model"):
            perturbation(spec_of(ObjectiveSpec("mlp")))


@pytest.mark.parametrize("kind", ["logistic", "huber-svm"])
def test_real_twins_of_the_engine_stay_within_it(kind):
    # What the estimators train, on rows in float32 that use up the whole slack of their norm.
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 5)).astype(np.float32)
    X /= np.linalg.norm(X.astype(float), axis=1, keepdims=True) / (1 + 0.9 * NORM_SLACK)
    data = Dataset(X.astype(np.float32), np.arange(60) % 2, norm_bound=1.0)
    spec = spec_of(
        ObjectiveSpec(kind, l2=0.05, intercept=False),
        learning_rate=Schedule.per_epoch(0.9),
        epochs=4,
        average_every=2,
        restart_every=2,
        drop_last=True,
        init="given",
    )
    found = perturbation(spec, n=60).sensitivity
    changed = neighbours.replace_by_first(data, range(1, 60))
    weights = train(spec, data, range(20), changed, initial_weights=np.zeros(5))
    moved = np.linalg.norm(weights[:, 1:, 0] - weights[:, :1, 0], axis=-1)
    assert moved.max() <= found.worst
    assert moved.max() > 0.1 * found.worst
