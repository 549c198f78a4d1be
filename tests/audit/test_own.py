"""Our own estimators as mechanisms: the runs are those of `fit`, and the claim is its guarantee."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from sordino import PrivateLinearSVC, PrivateLogisticRegression
from sordino._check import InvalidArgument
from sordino.audit import TrainedRelease, audit, neighbour, own
from sordino.audit.own import OwnFit
from sordino.audit.worlds import outputs
from sordino.estimators import methods
from sordino.privacy import NotApplicable, Relation

METHODS = ("rsgd-ar", "nsgd", "bolt-on", "output-gd", "noisy-gd", "dp-sgd", "objective", "dp-agd")
RNG = np.random.default_rng(6)
X = RNG.standard_normal((80, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")
OTHER = np.vstack([-3 * X[:1], X[1:]])


def estimator(method="noisy-gd", kind=PrivateLogisticRegression, **values):
    how = {"epsilon": 1.0, "delta": 1e-5, "classes": ["no", "yes"]} | values
    return kind(method=method, **how)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC])
def test_the_claim_is_the_guarantee_and_the_plan_is_public(method, kind):
    private = estimator(method, kind)
    mechanism, D, D_prime, claim = own.prepare(private, (X, Y), (OTHER, Y))
    promised = private.preview(X, Y)
    assert (claim.epsilon, claim.delta) == (promised.epsilon, promised.delta)
    assert claim.relation is promised.relation
    assert claim.profile.epsilon(1e-5) == pytest.approx(claim.epsilon)
    assert isinstance(mechanism, OwnFit if method in ("objective", "dp-agd") else TrainedRelease)
    assert (D.rows, D.features, D_prime.rows) == (80, 4, 80)
    assert np.array_equal(D.y, np.asarray(Y == "yes", dtype=int))


QUICK = ("nsgd", "dp-sgd", "objective")


@pytest.mark.parametrize(
    "method",
    [*QUICK, *(pytest.param(m, marks=pytest.mark.slow) for m in METHODS if m not in QUICK)],
)
def test_runs_are_those_of_fit(method):
    """Means and spreads of weights agree with those of real fits."""
    private = estimator(method, epsilon=20.0, steps=10 if method == "dp-agd" else None)
    prepared = own.mechanism(private, X, Y)
    other = neighbour.canary(prepared.D).D_prime
    mine, _ = outputs(prepared.mechanism, prepared.D, other, 120, workers=1)
    fits = []
    for _ in range(40):
        private.fit(X, Y)
        fits.append(np.append(private.coef_, private.intercept_))
    fits = np.array(fits)
    error = np.sqrt(fits.var(axis=0) / 40 + mine.var(axis=0) / 120)
    assert (np.abs(fits.mean(axis=0) - mine.mean(axis=0)) < 5 * error).all()
    # Variances from 40 and 120 runs: relative error sqrt(2/40 + 2/120) = 0.26.
    assert np.abs(np.log(fits.std(axis=0) / mine.std(axis=0))).max() < 5 * 0.26 / 2


@pytest.mark.parametrize("method", METHODS)
def test_no_method_breaks_its_promise_on_the_worst_pair(method):
    start = methods.named(method).starts
    worst = neighbour.worst_case_pair(40, start=start)
    private = estimator(
        method, classes=[0, 1], fit_intercept=False, initial_weights=worst.initial_weights
    )
    pair = own.prepare(private, (worst.D.X, worst.D.y), (worst.D_prime.X, worst.D_prime.y))
    runs = 100 if isinstance(pair.mechanism, OwnFit) else 4000
    # Eight tests, none of which may fail by chance: at confidence 1 - 1e-6 each.
    how = {"claim": pair.claim, "confidence": 1 - 1e-6, "workers": 1}
    found = audit(pair.mechanism, pair.D, pair.D_prime, runs, **how)
    assert not found.violated
    if method in ("nsgd", "output-gd"):  # a pair that does not leak would prove little
        # Gaussian DP with epsilon = 1 is 0.268 standard deviations; from 2,000 runs, +- 0.03.
        apart = found.positive.mean() - found.negative.mean()
        assert apart / found.negative.std() > 0.16


def test_output_perturbation_leaks_what_it_claims():
    worst = neighbour.worst_case_pair(40)
    private = estimator(
        "output-gd", classes=[0, 1], fit_intercept=False, initial_weights=worst.initial_weights
    )
    pair = own.prepare(private, (worst.D.X, worst.D.y), (worst.D_prime.X, worst.D_prime.y))
    plain = TrainedRelease(pair.mechanism.spec, 0.0, pair.mechanism.initial_weights)
    first, second = (world[0] for world in outputs(plain, pair.D, pair.D_prime, 1))
    mu = np.linalg.norm(first - second) / pair.mechanism.scale
    assert 0.99 * pair.claim.profile.mu < mu <= pair.claim.profile.mu


def test_added_records_keep_the_plan():
    private = estimator("dp-sgd", relation="add-or-remove-one", public_rows=80)
    pair = own.prepare(private, (X, Y), (X[:-1], Y[:-1]))
    assert pair.claim.relation is Relation.ADD_OR_REMOVE_ONE
    assert pair.D_prime.rows == 79
    found = audit(pair.mechanism, pair.D, pair.D_prime, 200, claim=pair.claim)
    assert not found.violated


class TestRefused:
    def test_more_than_two_classes(self):
        labels = np.array(["a", "b", "c", "d"])[np.arange(80) % 4]
        with pytest.raises(InvalidArgument, match="to be two"):
            own.mechanism(estimator(classes=list("abcd")), X, labels)

    def test_a_fixed_seed(self):
        with pytest.raises(InvalidArgument, match="random_state"):
            own.mechanism(estimator(random_state=0), X, Y)

    @pytest.mark.parametrize("values", [{"epsilon": np.inf}, {"method": "none"}])
    def test_no_promise(self, values):
        with pytest.raises(NotApplicable, match="promise nothing"):
            own.mechanism(estimator(**values), X, Y)

    def test_settings_that_follow_from_the_records(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(NotApplicable, match="data_norm was read off"):
                own.mechanism(estimator(data_norm=None), X, Y)
            with pytest.raises(InvalidArgument, match="to be public"):
                own.prepare(estimator(data_norm=None), (X, Y), (OTHER, Y))

    def test_somebody_elses(self):
        from sklearn.linear_model import LogisticRegression

        with pytest.raises(InvalidArgument, match="one of sordino's"):
            own.mechanism(LogisticRegression(), X, Y)
