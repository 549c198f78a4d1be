"""The game: verdicts, scores of known laws, and every bad input in one sentence."""

from __future__ import annotations

import numpy as np
import pytest

from sordino._check import InvalidArgument
from sordino.accounting import gaussian
from sordino.accounting.profile import GaussianProfile
from sordino.audit import Claim, TrainedRelease, audit
from sordino.audit.power import ceiling, gaussian_reach, reach
from sordino.data import neighbours as nb
from sordino.data.dataset import Dataset
from sordino.objectives.objective import ObjectiveSpec
from sordino.privacy import Relation, rounded
from sordino.sgd import TrainSpec, train

REPLACE, ADD = Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE_ONE
DELTA = 1e-5
ZERO, ONE = np.zeros(3), np.array([0.0, 0.0, 1.0])
RNG = np.random.default_rng(8)
X = RNG.uniform(-0.5, 0.5, (20, 3))
Y = RNG.integers(0, 2, 20)
D, D_PRIME = (Dataset(rows, Y) for rows in (X, np.vstack([-X[:1], X[1:]])))


def noise_of(sigma):
    def gaussian_noise(data, generator, runs):
        return data.sum() + sigma * generator.standard_normal((runs, 1))

    gaussian_noise.batched = True
    return gaussian_noise


SIGMA = gaussian.sigma(1.0, DELTA)  # just enough for epsilon = 1


class TestVerdict:
    def test_a_violation(self):
        found = audit(noise_of(SIGMA / 4), ZERO, ONE, 4000, claim=Claim(1.0, DELTA, REPLACE))
        assert found.violated
        assert found.verdict.startswith("violation: observed epsilon >= ")
        assert found.verdict.endswith("at delta = 1e-05 with 99% confidence, above the claimed 1")
        assert 1 < found.observed.epsilon <= gaussian.epsilon(4 / SIGMA, DELTA)

    def test_none(self):
        found = audit(noise_of(SIGMA), ZERO, ONE, 20_000, claim=1.0, delta=DELTA)
        assert not found.violated
        wanted = reach(1.0, runs=10_000, delta=DELTA, confidence=0.99)
        assert found.reach == wanted
        below = rounded(wanted, up=False, digits=3)  # what is said must be true
        further = rounded(found.gaussian_reach, up=False, digits=3)
        assert found.verdict == (
            f"no violation found; this audit could have refuted epsilon below {below} "
            f"(below {further} within the family of Gaussian mechanisms)"
        )
        how = {"runs": 10_000, "delta": DELTA, "confidence": 0.99}
        assert found.gaussian_reach == gaussian_reach(1.0, **how)
        assert found.curve_refuted is None  # no curve was claimed
        assert found.claimed == Claim(1.0, DELTA, REPLACE)

    def test_too_few_runs_to_refute_anything(self):
        found = audit(noise_of(SIGMA), ZERO, ONE, 60, claim=1.0, delta=DELTA)
        assert found.verdict == "no violation found; these runs were too few to refute any claim"

    def test_a_claimed_curve_is_refuted_where_two_numbers_are_not(self):
        """Noise of half the size: epsilon 1 stands, since its delta is too rare to be seen."""
        mu = 1 / SIGMA
        curve = GaussianProfile(parameter=mu, relation=REPLACE, theorem="claimed")
        claim = Claim(1.0, DELTA, REPLACE, profile=curve)
        found = audit(noise_of(SIGMA / 2), ZERO, ONE, 20_000, claim=claim)
        assert not found.violated
        assert found.curve_refuted
        assert found.verdict.startswith("the claimed curve is refuted with 99% confidence, though")
        kept = audit(noise_of(SIGMA), ZERO, ONE, 20_000, claim=claim)
        assert kept.curve_refuted is False
        assert kept.verdict.startswith("no violation found")

    def test_nothing_claimed(self):
        found = audit(noise_of(SIGMA / 4), ZERO, ONE, 400, delta=DELTA)
        assert found.claimed is None
        assert not found.violated
        assert found.reach == ceiling(200, delta=DELTA, confidence=0.99)
        assert "nothing was claimed" in found.verdict


class TestBounds:
    def test_every_bound_says_what_it_is(self):
        found = audit(noise_of(SIGMA / 2), ZERO, ONE, 10_000, claim=1.0, delta=DELTA)
        truth = gaussian.epsilon(2 / SIGMA, DELTA)
        said = [found.observed, *found.others]
        assert [each.trials for each in said] == [10_000] * 4
        assert all(each.epsilon <= truth for each in said)
        assert "chosen by other runs" in found.observed.attack
        bonferroni, at_threshold, band = (each.attack for each in found.others)
        assert "Bonferroni over 20 thresholds" in bonferroni
        assert "if the mechanism is Gaussian" in at_threshold
        assert "within the family of Gaussian mechanisms" in band
        assert found.others[2].epsilon > found.observed.epsilon

    def test_pure_privacy_has_no_gaussian_bounds(self):
        found = audit(noise_of(0.2), ZERO, ONE, 1000, delta=0.0)
        assert len(found.others) == 1
        assert found.observed.epsilon > 3

    def test_the_tested_half_is_what_is_counted(self):
        found = audit(noise_of(SIGMA), ZERO, ONE, 1001, delta=DELTA, score=lambda o: o[:, 0])
        from sordino.audit.bounds import at_threshold
        from sordino.audit.worlds import outputs

        worlds = outputs(noise_of(SIGMA), ZERO, ONE, 1001)
        np.testing.assert_array_equal(found.negative, worlds[0][500:, 0])
        np.testing.assert_array_equal(found.positive, worlds[1][500:, 0])
        again = at_threshold(
            found.negative, found.positive, found.threshold, delta=DELTA, confidence=0.99
        )
        assert found.observed.epsilon == again.epsilon

    def test_one_seed_gives_one_audit(self):
        first, again, other = (
            audit(noise_of(0.5), ZERO, ONE, 400, delta=DELTA, seed=seed) for seed in (3, 3, 4)
        )
        np.testing.assert_array_equal(first.negative, again.negative)
        assert first.observed == again.observed
        assert not np.isin(first.negative, other.negative).any()


def spec(**values):
    base = {"learning_rate": 0.5, "batch_size": 5, "epochs": 4, "dtype": "float64"}
    return TrainSpec(ObjectiveSpec("logistic"), **(base | values))


FIXED = {"order": "fixed", "init": "fixed"}


class TestScores:
    def test_the_likelihood_ratio_where_the_law_is_known(self):
        release = TrainedRelease(spec(**FIXED), scale=0.05)
        found = audit(release, D, D_PRIME, 2000, delta=DELTA, score="likelihood")
        w, v = (train(spec(**FIXED), data, [0])[0, 0, 0] for data in (D, D_PRIME))
        mu = np.linalg.norm(v - w) / 0.05
        # The log likelihood ratio of N(0, 1) against N(mu, 1) is N(-+mu^2/2, mu^2).
        assert found.negative.mean() == pytest.approx(-(mu**2) / 2, abs=6 * mu / np.sqrt(1000))
        assert found.positive.mean() == pytest.approx(mu**2 / 2, abs=6 * mu / np.sqrt(1000))
        assert found.negative.std() == pytest.approx(mu, rel=6 / np.sqrt(2000))
        assert found.score == "the likelihood ratio"

    @pytest.mark.parametrize(
        "mechanism",
        [
            TrainedRelease(spec(), scale=0.1),
            TrainedRelease(spec(**FIXED)),
            TrainedRelease(spec(order="fixed"), scale=0.1),
            lambda data, generator: 1.0,
        ],
    )
    def test_it_is_refused_elsewhere(self, mechanism):
        with pytest.raises(InvalidArgument, match="where the law is known"):
            audit(mechanism, D, D_PRIME, 100, delta=DELTA, score="likelihood")

    @pytest.mark.parametrize("kind", ["logistic", "huber-svm", "least-squares"])
    def test_the_loss_is_that_of_the_objective(self, kind):
        from sordino.audit.laws import loss
        from sordino.objectives import build

        objective = ObjectiveSpec(kind, huber_width=0.7)
        score = loss(TrainedRelease(TrainSpec(objective, 0.5, 5, steps=3)), D, D_PRIME)
        weights = RNG.normal(size=(6, 4))
        records = [(data.X[:1], data.y[:1]) for data in (D, D_PRIME)]
        wanted = [build(objective, 3).loss(weights, *record) for record in records]
        np.testing.assert_allclose(score(weights), wanted[0] - wanted[1], atol=1e-6)

    def test_the_loss_tells_the_worlds_apart(self):
        release = TrainedRelease(spec(epochs=20, **FIXED), scale=0.02)
        found = audit(release, D, D_PRIME, 1000, delta=DELTA, score="loss")
        assert found.observed.epsilon > 3
        one_less = Dataset(X[1:], Y[1:])
        pair = audit(release, one_less, D, 1000, delta=DELTA, score="loss")
        assert pair.observed.epsilon > 1

    def test_the_loss_of_a_silent_record(self):
        release = TrainedRelease(spec(epochs=20, **FIXED), scale=0.02)
        silent = nb.zero_out(D, [0], with_base=False)
        found = audit(release, D, silent, 1000, delta=DELTA, score="loss")
        assert found.observed.epsilon > 1

    def test_an_unknown_score(self):
        with pytest.raises(InvalidArgument, match="learned, likelihood, loss"):
            audit(noise_of(1), ZERO, ONE, 100, delta=DELTA, score="loses")


class TestBadInput:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"D_prime": ZERO}, "the same records"),
            ({"D_prime": ZERO + 1}, "3 other records"),
            ({"D_prime": np.zeros(5)}, "2 other records"),
            ({"runs": 8}, "enough tested runs a world"),
            ({"runs": 0}, ">= 1"),
            ({"confidence": 1.0}, "confidence"),
            ({"delta": None}, "delta=None to be given"),
            ({"delta": 1.0}, r"in \[0, 1\)"),
            ({"claim": Claim(1.0, DELTA, ADD)}, "add-or-remove-one to be about this pair"),
            ({"claim": Claim(1.0, 1e-6, REPLACE)}, "to be the claim's 1e-06"),
            ({"claim": -1.0}, "epsilon=-1.0 >= 0"),
            ({"mechanism": lambda data, g: np.nan}, "NaN"),
            ({"mechanism": lambda data, g: np.zeros(1 + int(data.sum()))}, "one shape"),
        ],
    )
    def test_one_sentence(self, change, words):
        how = {"mechanism": noise_of(1), "D": ZERO, "D_prime": ONE, "runs": 100, "delta": DELTA}
        with pytest.raises(InvalidArgument, match=words) as caught:
            audit(**(how | change))
        assert "\n" not in str(caught.value)

    def test_a_hundred_nines(self):
        with pytest.raises(InvalidArgument, match="enough tested runs"):
            audit(noise_of(1), ZERO, ONE, 30, delta=DELTA, confidence=1 - 1e-9)

    def test_neighbours_of_a_claim(self):
        more = np.append(ZERO, 1.0)
        found = audit(noise_of(1), ZERO, more, 100, claim=Claim(1.0, DELTA, ADD))
        assert found.claimed.relation is ADD
        assert audit(noise_of(1), ZERO, more, 100, claim=1.0, delta=DELTA).claimed.relation is ADD
        silent = Claim(1.0, DELTA, Relation.ZERO_OUT)
        assert audit(noise_of(1), ZERO, ONE, 100, claim=silent).claimed is silent
