"""Our own estimators as mechanisms: the runs are those of `fit`, and the claim is its guarantee."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

from sordino import PrivateLinearSVC, PrivateLogisticRegression
from sordino._check import InvalidArgument
from sordino.audit import TrainedRelease, audit, neighbour, own
from sordino.audit.difference import Difference, difference
from sordino.audit.own import OwnFit
from sordino.audit.worlds import outputs
from sordino.data import neighbours as nb
from sordino.estimators import methods
from sordino.privacy import NotApplicable, Relation
from sordino.sgd import train

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


QUICK = ("dp-sgd",)


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


def worst_pair(method, epsilon=1.0):
    worst = neighbour.worst_case_pair(40, start=methods.named(method).starts)
    private = estimator(
        method,
        epsilon=epsilon,
        classes=[0, 1],
        fit_intercept=False,
        initial_weights=worst.initial_weights,
    )
    return own.prepare(private, (worst.D.X, worst.D.y), (worst.D_prime.X, worst.D_prime.y))


def with_less_noise(release, factor):
    spec = release.spec
    if spec.noise_multiplier:
        spec = dataclasses.replace(spec, noise_multiplier=spec.noise_multiplier / factor)
    return dataclasses.replace(release, spec=spec, scale=release.scale / factor)


class TestWorstPair:
    """No method breaks its promise, on a pair and by runs that would show noise of half the size.

    The claimed curve (0.27 standard deviations, if it is a Gaussian's) lies at most 0.11 above the
    diagonal. 4,000 tested runs a world know the observed one to 0.06 (DKW, 99.9 %), and with half
    the noise it is 0.21 above. Bolt-on's theorem gives more than this pair takes, two thirds: of it
    noise of a third would be seen.
    """

    ENGINE = tuple(method for method in METHODS if method not in ("objective", "dp-agd"))
    SEEN = dict.fromkeys(ENGINE, 2) | {"bolt-on": 3}
    OWN_RUNS = 200
    OWN_SEEN = 40.0
    """These take milliseconds a run: of so few runs only an epsilon of this size would be seen (one
    of 20 most often, one of 10 not)."""

    def audited(self, method, mechanism):
        pair = worst_pair(method)
        how = {"claim": pair.claim, "confidence": 0.999, "workers": 1}
        return audit(mechanism or pair.mechanism, pair.D, pair.D_prime, 8000, **how)

    @pytest.mark.parametrize("method", ENGINE)
    def test_a_promise_is_kept(self, method):
        found = self.audited(method, None)  # seeded: the same every time
        assert found.curve_refuted is False
        assert not found.violated

    @pytest.mark.parametrize("method", ENGINE)
    def test_and_with_too_little_noise_it_would_be_seen_not_to_be(self, method):
        release = with_less_noise(worst_pair(method).mechanism, self.SEEN[method])
        assert self.audited(method, release).curve_refuted

    def own_audited(self, method, epsilon):
        """Of a training at this epsilon that claims 1."""
        claim, pair = worst_pair(method).claim, worst_pair(method, epsilon)
        # Noise is the system's, another each time, and no test may fail by chance.
        how = {"claim": claim, "confidence": 1 - 1e-6, "workers": 1}
        return audit(pair.mechanism, pair.D, pair.D_prime, self.OWN_RUNS, **how)

    @pytest.mark.parametrize("method", ["objective", "dp-agd"])
    def test_a_promise_of_few_runs_is_kept(self, method):
        found = self.own_audited(method, 1.0)
        assert found.curve_refuted is False
        assert not found.violated

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["objective", "dp-agd"])
    def test_and_a_much_larger_epsilon_would_be_seen(self, method):
        assert self.own_audited(method, self.OWN_SEEN).curve_refuted


@pytest.mark.parametrize("method", ["objective", "dp-agd"])
def test_overlays_of_methods_that_are_no_training_spec(method):
    """A silent record is a row of zeros, the intercept's column among them."""
    relation = Relation.ZERO_OUT.value
    mechanism, D, claim = own.mechanism(estimator(method, relation=relation), X, Y)
    pair = neighbour.canary(D, relation=Relation.ZERO_OUT, slot=5)
    assert isinstance(pair.D_prime, nb.Neighbours)
    found = audit(mechanism, *pair, 16, claim=claim, workers=1, confidence=0.9)
    assert found.claimed.relation is Relation.ZERO_OUT
    first, second = own.laid_out(*pair)
    np.testing.assert_array_equal(first.X, pair.D.X)
    assert difference(first, second) == Difference(Relation.REPLACE_ONE, 5, 5, in_order=True)
    assert not second.X[5].any()


def test_a_row_of_zeros_is_a_silent_record():
    """Also where there is an intercept, since that is a column: both train to the same weights."""
    mechanism, D, _ = own.mechanism(estimator("noisy-gd", relation="zero-out"), X, Y)
    silent = nb.zero_out(D, [5], with_base=False)
    spec = dataclasses.replace(mechanism.spec, noise_multiplier=0.0, dtype="float64")
    start = {"initial_weights": mechanism.initial_weights}
    wanted = train(spec, D, [0], silent, **start)[0, 0, 0]
    found, base = (
        train(spec, each, [0], **start)[0, 0, 0] for each in own.laid_out(D, silent)[::-1]
    )
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert np.abs(base - wanted).max() > 1e-4


def test_overlays_are_laid_out():
    _, D, _ = own.mechanism(estimator(), X, Y)
    rows = np.arange(80)
    first, second = own.laid_out(D, nb.replace_by_first(D, [3]))
    np.testing.assert_array_equal(first.X, D.X[1:])
    np.testing.assert_array_equal(second.y, D.y[[1, 2, 0, *rows[4:]]])
    np.testing.assert_array_equal(second.X, D.X[[1, 2, 0, *rows[4:]]])
    other = nb.replace(D, [7], D.X[:1], 1 - D.y[:1], with_base=False)
    first, second = own.laid_out(D, other)
    np.testing.assert_array_equal(second.X[7], D.X[0])
    assert second.y[7] == 1 - D.y[0]
    first, second = own.laid_out(D, nb.remove(D, [7], with_base=False))
    np.testing.assert_array_equal(second.X, np.delete(D.X, 7, axis=0))
    first, second = own.laid_out(D, nb.add(D, D.X[:1], D.y[:1], with_base=False))
    assert (first.rows, second.rows) == (80, 81)
    np.testing.assert_array_equal(second.X[80], D.X[0])
    with pytest.raises(InvalidArgument, match="to be one"):
        own.laid_out(D, nb.zero_out(D, [1, 2]))
    with pytest.raises(InvalidArgument, match="of another dataset"):
        own.laid_out(D.take(range(1, 80)), nb.zero_out(D, [1], with_base=False))


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
