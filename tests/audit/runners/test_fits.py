"""Our own estimators as mechanisms: the runs are those of `fit`, and the claim is its guarantee."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from scipy.special import expit

from sordino import PrivateLinearSVC, PrivateLogisticRegression
from sordino.audit import TrainedRelease, audit, pairs
from sordino.audit.pairs import Difference, difference
from sordino.audit.runners import fits
from sordino.audit.runners.fits import SingleFit
from sordino.audit.runners.minimised import records_of
from sordino.audit.runners.outputs import outputs
from sordino.data import neighbours as nb
from sordino.data.dataset import Dataset, row_norms
from sordino.errors import InvalidArgument, NotApplicable
from sordino.estimators import methods
from sordino.estimators.fit import Randomness
from sordino.privacy import Relation
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
    mechanism, D, D_prime, claim = fits.prepare(private, (X, Y), (OTHER, Y))
    promised = private.preview(X, Y)
    assert (claim.epsilon, claim.delta) == (promised.epsilon, promised.delta)
    assert claim.relation is promised.relation
    assert claim.profile.epsilon(1e-5) == pytest.approx(claim.epsilon)
    assert isinstance(mechanism, SingleFit if method in ("objective", "dp-agd") else TrainedRelease)
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
    mechanism, D, _ = fits.mechanism(private, X, Y)
    mine, _ = outputs(mechanism, D, pairs.canary(D).D_prime, 120, workers=1)
    real = []
    for _ in range(40):
        private.fit(X, Y)
        real.append(np.append(private.coef_, private.intercept_))
    real = np.array(real)
    error = np.sqrt(real.var(axis=0) / 40 + mine.var(axis=0) / 120)
    assert (np.abs(real.mean(axis=0) - mine.mean(axis=0)) < 5 * error).all()
    # Variances from 40 and 120 runs: relative error sqrt(2/40 + 2/120) = 0.26.
    assert np.abs(np.log(real.std(axis=0) / mine.std(axis=0))).max() < 5 * 0.26 / 2


def crafted(method, **values):
    """An estimator that `fits.worst_case` takes."""
    return estimator(method, **({"classes": [0, 1], "fit_intercept": False} | values))


def worst_pair(method, epsilon=1.0):
    return fits.worst_case(crafted(method, epsilon=epsilon), 40)


def with_less_noise(release, factor):
    spec = release.spec
    if spec.noise_multiplier:
        spec = dataclasses.replace(spec, noise_multiplier=spec.noise_multiplier / factor)
    return dataclasses.replace(release, spec=spec, scale=release.scale / factor)


class TestWorstPair:
    """No method breaks its promise, on a pair and by runs that would show noise of half the size.

    The claimed curve (0.27 standard deviations, if it is a Gaussian's) lies at most 0.11 above the
    diagonal. 4,000 tested runs a world know the observed one to 0.06 (DKW, 99.9 %), and with half
    the noise it is 0.21 above.
    """

    ENGINE = tuple(method for method in METHODS if method not in ("objective", "dp-agd"))
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
        release = with_less_noise(worst_pair(method).mechanism, 2)
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
    mechanism, D, claim = fits.mechanism(estimator(method, relation=relation), X, Y)
    pair = pairs.canary(D, relation=Relation.ZERO_OUT, slot=5)
    assert isinstance(pair.D_prime, nb.Neighbours)
    found = audit(mechanism, *pair, 16, claim=claim, workers=1, confidence=0.9)
    assert found.claimed.relation is Relation.ZERO_OUT
    first, second = fits.lay_out(*pair)
    np.testing.assert_array_equal(first.X, pair.D.X)
    assert difference(first, second) == Difference(Relation.REPLACE_ONE, 5, 5, in_order=True)
    assert not second.X[5].any()


def test_a_row_of_zeros_is_a_silent_record():
    """Also where there is an intercept, since that is a column: both train to the same weights."""
    mechanism, D, _ = fits.mechanism(estimator("noisy-gd", relation="zero-out"), X, Y)
    silent = nb.zero_out(D, [5], with_base=False)
    spec = dataclasses.replace(mechanism.spec, noise_multiplier=0.0, dtype="float64")
    start = {"initial_weights": mechanism.initial_weights}
    wanted = train(spec, D, [0], silent, **start)[0, 0, 0]
    found, base = (
        train(spec, each, [0], **start)[0, 0, 0] for each in fits.lay_out(D, silent)[::-1]
    )
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert np.abs(base - wanted).max() > 1e-4


def test_overlays_are_laid_out():
    _, D, _ = fits.mechanism(estimator(), X, Y)
    rows = np.arange(80)
    first, second = fits.lay_out(D, nb.replace_by_first(D, [3]))
    np.testing.assert_array_equal(first.X, D.X[1:])
    np.testing.assert_array_equal(second.y, D.y[[1, 2, 0, *rows[4:]]])
    np.testing.assert_array_equal(second.X, D.X[[1, 2, 0, *rows[4:]]])
    other = nb.replace(D, [7], D.X[:1], 1 - D.y[:1], with_base=False)
    first, second = fits.lay_out(D, other)
    np.testing.assert_array_equal(second.X[7], D.X[0])
    assert second.y[7] == 1 - D.y[0]
    first, second = fits.lay_out(D, nb.remove(D, [7], with_base=False))
    np.testing.assert_array_equal(second.X, np.delete(D.X, 7, axis=0))
    first, second = fits.lay_out(D, nb.add(D, D.X[:1], D.y[:1], with_base=False))
    assert (first.rows, second.rows) == (80, 81)
    np.testing.assert_array_equal(second.X[80], D.X[0])
    with pytest.raises(InvalidArgument, match="to be one"):
        fits.lay_out(D, nb.zero_out(D, [1, 2]))
    with pytest.raises(InvalidArgument, match="of another dataset"):
        fits.lay_out(D.take(range(1, 80)), nb.zero_out(D, [1], with_base=False))


def gradient_share(mechanism, D, D_prime):
    """The difference of the two records' gradients at released weights, over two norms; a mean."""
    records = np.stack([each.X[0] * np.where(each.y[0] == 1, 1, -1) for each in (D, D_prime)])
    both = np.concatenate(outputs(mechanism, D, D_prime, 200, workers=1))
    first, second = expit(-both @ records.T).T[:, :, None] * records[:, None]
    return np.linalg.norm(first - second, axis=1).mean() / (2 * D.norm_bound)


@pytest.mark.parametrize("method", ["objective", "noisy-gd", "output-gd"])
@pytest.mark.parametrize("rows", [400, 1200])
def test_a_canary_for_the_model_that_is_audited(method, rows):
    rng = np.random.default_rng(rows)
    X = rng.standard_normal((rows, 4)) * [1, 1, 1, 0.1]
    y = (X[:, 0] > 0).astype(int)  # nothing but the regulariser holds a model back
    mechanism, D, _ = fits.mechanism(crafted(method), X, y)
    l2 = fits.held_back(mechanism, rows)
    guessed, found = (gradient_share(mechanism, *pairs.canary(D, l2=each)) for each in (None, l2))
    assert found > 0.99 * guessed  # a descent is moved on its way, too
    assert method != "objective" or found > 1.02 * guessed


@pytest.mark.parametrize("method", [each for each in METHODS if each not in ("dp-sgd", "dp-agd")])
def test_records_as_long_as_pull_most(method):
    """Where a model starts at 0, others of full length would not take it so far."""
    private = crafted(method)

    def moved(D, D_prime):
        pair = fits.prepare(private, (D.X, D.y), (D_prime.X, D_prime.y))
        if method == "objective":
            return gradient_share(pair.mechanism, pair.D, pair.D_prime)
        return TestAttained.moved(pair, 30).mean()

    plain = pairs.worst_case_pair(4000, start=False, l2=1.0)  # all of full length
    l2 = fits.held_back(fits.mechanism(private, plain.D.X, plain.D.y)[0], 4000)
    X, mirrored = plain.D.X.copy(), plain.D.X.copy()
    X[0], mirrored[0] = [-0.35, 0.93], [-0.35, -0.93]
    worlds = (Dataset(each, plain.D.y, norm_bound=1.0) for each in (X, mirrored))
    found = pairs.worst_case_pair(4000, start=False, l2=l2)
    assert found.initial_weights is None
    assert moved(found.D, found.D_prime) > 1.03 * moved(*worlds)


class TestAttained:
    """How much of what a theorem allows one record the worst pair takes, by runs of both worlds.

    Runs of the two worlds share their orders and step noise, so that what is left of their
    difference is the record's. For any size, regulariser and norm.
    """

    SETTINGS = tuple(
        (int(rows), float(l2), float(norm))
        for rows, l2, norm in zip(
            RNG.integers(30, 1500, 4),
            10 ** RNG.uniform(-4, -1.5, 4),
            RNG.uniform(0.3, 5, 4),
            strict=True,
        )
    )

    @staticmethod
    def pair(method, rows, l2, norm):
        private = crafted(method, l2=l2 * norm**2, data_norm=norm)
        pair = fits.worst_case(private, rows, 3, norm)
        assert difference(pair.D, pair.D_prime) == Difference(Relation.REPLACE_ONE, 0, 0, True)
        assert max(row_norms(each.X).max() for each in (pair.D, pair.D_prime)) <= norm
        return private, pair

    @staticmethod
    def moved(pair, runs=200):
        plain = dataclasses.replace(pair.mechanism, scale=0.0)
        first, second = outputs(plain, pair.D, pair.D_prime, runs, workers=1)
        return np.linalg.norm(first - second, axis=1)

    @pytest.mark.parametrize("method", ["rsgd-ar", "nsgd", "bolt-on", "output-gd"])
    @pytest.mark.parametrize("setting", SETTINGS)
    def test_noise_on_the_final_weights(self, method, setting):
        private, pair = self.pair(method, *setting)
        private.initial_weights = pair.mechanism.initial_weights
        bound = private._prepare(pair.D.X, pair.D.y).plan.evidence.done().sensitivity
        moved = self.moved(pair)
        assert moved.max() <= bound.worst
        # By the place in the secret order, which these runs draw.
        chance = 4 * np.std(bound.positions) / np.sqrt(len(moved))
        assert moved.mean() > 0.99 * bound.mean - chance

    @pytest.mark.parametrize("method", ["noisy-gd", "dp-sgd"])
    @pytest.mark.parametrize("setting", SETTINGS)
    def test_noise_on_gradients(self, method, setting):
        _, pair = self.pair(method, *setting)
        spec = pair.mechanism.spec
        rows, norm, rate = pair.D.rows, setting[2], spec.schedule.rate
        steps, keep = spec.total_steps(rows), 1 - rate * spec.objective.l2
        # Every step by a whole gradient in each direction, over the records that are divided by.
        most = 2 * rate * norm / rows * (1 - keep**steps) / (1 - keep)
        moved = self.moved(pair)
        chance = 4 * moved.std() / np.sqrt(len(moved))
        assert most * 0.99 - chance < moved.mean() < most * 1.01 + chance

    @pytest.mark.parametrize(("rows", "share"), [(100, 0.55), (1000, 0.8), (8000, 0.93)])
    @pytest.mark.parametrize("norm", [0.7, 3.0])
    def test_noise_in_the_objective(self, rows, share, norm):
        """The released weights tell the noise, which moved by the difference of two gradients."""
        _, pair = self.pair("objective", rows, 0.001, norm)
        assert share < gradient_share(pair.mechanism, pair.D, pair.D_prime) < 1

    @pytest.mark.parametrize(
        ("rows", "l2", "norm"), [(20, 1e-3, 1.0), (60, 1e-4, 0.5), (100, 1e-3, 4.0), (100, 0.03, 1)]
    )
    def test_noise_of_adaptive_steps(self, rows, l2, norm):
        """All of the gradients' share, four fifths, of the budget; choices of lengths tell nothing.

        Of a Gaussian with this budget mu would be sqrt(2 rho).
        """
        private, pair = self.pair("dp-agd", rows, l2, norm)
        fit = pair.mechanism
        train = methods.METHODS["dp-agd"].train
        first, second = (
            np.array(
                [
                    train(fit.plan, records_of(fit.plan, data), Randomness.seeded(run), fit.start)[
                        0
                    ]
                    for run in range(200)
                ]
            )
            for data in (pair.D, pair.D_prime)
        )
        across = first[:, 1]
        moved = second[:, 1] - across
        assert moved.std() < 0.05 * abs(moved.mean())  # no choice of a length hides any of it
        mu = abs(moved.mean()) / across.std()
        rho = private._prepare(pair.D.X, pair.D.y).plan.evidence.rho
        # 200 runs know a deviation to 5 %.
        assert mu == pytest.approx(np.sqrt(0.8 * 2 * rho), rel=0.15)


def test_added_records_keep_the_plan():
    private = estimator("dp-sgd", relation="add-or-remove-one", public_rows=80)
    pair = fits.prepare(private, (X, Y), (X[:-1], Y[:-1]))
    assert pair.claim.relation is Relation.ADD_OR_REMOVE_ONE
    assert pair.D_prime.rows == 79
    found = audit(pair.mechanism, pair.D, pair.D_prime, 200, claim=pair.claim)
    assert not found.violated


class TestRefused:
    def test_a_fixed_seed(self):
        with pytest.raises(InvalidArgument, match="random_state"):
            fits.mechanism(estimator(random_state=0), X, Y)

    @pytest.mark.parametrize("values", [{"epsilon": np.inf}, {"method": "none"}])
    def test_no_promise(self, values):
        with pytest.raises(NotApplicable, match="promise nothing"):
            fits.mechanism(estimator(**values), X, Y)

    def test_settings_that_follow_from_the_records(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(NotApplicable, match="data_norm was read off"):
                fits.mechanism(estimator(data_norm=None), X, Y)
            with pytest.raises(InvalidArgument, match="to be public"):
                fits.prepare(estimator(data_norm=None), (X, Y), (OTHER, Y))

    def test_somebody_elses(self):
        from sklearn.linear_model import LogisticRegression

        with pytest.raises(InvalidArgument, match="one of sordino's"):
            fits.mechanism(LogisticRegression(), X, Y)
