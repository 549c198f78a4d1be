"""The game: verdicts, scores of known laws, and every bad input in one sentence."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import binom

from sordino.accounting import gaussian
from sordino.accounting.profile import GaussianProfile
from sordino.audit import Claim, TrainedRelease, audit, bounds, game
from sordino.audit.game import ceiling, gaussian_reach, reach
from sordino.data import neighbours as nb
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument
from sordino.models.constants import ObjectiveSpec
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
        few = "these runs were too few to refute noise that just keeps its claim"
        assert found.verdict == f"no violation found; {few}"

    def test_what_was_observed_could_have_been_refuted(self):
        """Whatever Gaussian noise would have shown: this mechanism showed more."""
        found = audit(noise_of(0.0), ZERO, ONE, 400, claim=20.0, delta=DELTA)
        assert found.observed.epsilon > found.reach
        below = rounded(found.observed.epsilon, up=False, digits=3)
        assert f"could have refuted epsilon below {below}" in found.verdict
        assert str(found).startswith(found.verdict)
        assert "negative" not in repr(found)

    def test_a_claimed_curve_is_refuted_where_two_numbers_are_not(self):
        """Noise of half the size: epsilon 1 stands, since its delta is too rare to be seen."""
        mu = 1 / SIGMA
        curve = GaussianProfile(parameter=mu, relation=REPLACE, theorem="claimed")
        claim = Claim(1.0, DELTA, REPLACE, profile=curve)
        found = audit(noise_of(SIGMA / 2), ZERO, ONE, 20_000, claim=claim)
        assert not found.violated
        assert found.curve_refuted
        said = (
            "the claimed curve is refuted with 99% confidence by a second test, of all thresholds"
        )
        assert found.verdict.startswith(f"{said}, though not its epsilon 1;")
        kept = audit(noise_of(SIGMA), ZERO, ONE, 20_000, claim=claim)
        assert kept.curve_refuted is False
        assert kept.verdict.startswith("no violation found")

    @pytest.mark.parametrize("runs", [16, 18, 20])
    def test_too_few_runs_for_a_curve(self, runs):
        curve = GaussianProfile(parameter=1 / SIGMA, relation=REPLACE, theorem="claimed")
        claim = Claim(1.0, DELTA, REPLACE, profile=curve)
        found = audit(noise_of(SIGMA), ZERO, ONE, runs, claim=claim)
        assert found.curve_refuted is None
        assert "too few" in found.verdict

    def test_a_pair_that_nobody_could_compare(self):
        class Unknown:
            def __init__(self, value):
                self.value = value

            def sum(self):
                return self.value

        found = audit(noise_of(SIGMA), Unknown(0), Unknown(1), 60, claim=1.0, delta=DELTA)
        assert not found.checked_pair
        unchecked = "that the two datasets differ in one record was not checked"
        assert found.verdict.endswith(f"; {unchecked}")
        assert audit(noise_of(SIGMA), ZERO, ONE, 60, delta=DELTA).checked_pair
        caught = dataclasses.replace(found, observed=dataclasses.replace(found.observed, epsilon=9))
        assert caught.verdict.startswith("violation")
        assert caught.verdict.endswith(unchecked)

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
        from sordino.audit.runners.outputs import outputs

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


class TestHalves:
    """Nothing that is fixed before the test may come from the runs that are tested."""

    RUNS, PROBES, COLUMNS = 400, 30, 6

    def audited(self, monkeypatch, second, score):
        """An audit whose first half never changes, with the Bonferroni thresholds that it used."""
        rng = np.random.default_rng(0)
        half = self.RUNS // 2
        first = [shift + rng.standard_normal((half, self.COLUMNS)) for shift in (0.0, 0.3)]
        probes = [rng.standard_normal((self.PROBES, self.COLUMNS)) for _ in range(2)]
        worlds = [np.concatenate(parts) for parts in zip(first, probes, second, strict=True)]
        grids, real = [], bounds.bonferroni

        def spy(negative, positive, thresholds, **how):
            grids.append(np.array(thresholds))
            return real(negative, positive, thresholds, **how)

        monkeypatch.setattr(game, "outputs", lambda *given, **how: worlds)
        monkeypatch.setattr(bounds, "bonferroni", spy)
        found = audit(noise_of(1), ZERO, ONE, self.RUNS, delta=DELTA, score=score)
        monkeypatch.undo()
        return found, grids[0]

    @pytest.mark.parametrize("score", ["learned", lambda outputs: outputs @ np.arange(6.0)])
    def test_the_second_half_changes_no_test(self, monkeypatch, score):
        rest = self.RUNS // 2 - self.PROBES, self.COLUMNS
        rng = np.random.default_rng(1)
        alike = [rng.standard_normal(rest) for _ in range(2)]
        # The other way round, far apart, in other units, and partly the same number again.
        other = [5 + 3 * rng.standard_normal(rest), -5 + rng.standard_normal(rest)]
        other[1][::2] = -5.0
        (one, first_grid), (two, second_grid) = (
            self.audited(monkeypatch, second, score) for second in (alike, other)
        )
        assert one.threshold == two.threshold
        np.testing.assert_array_equal(first_grid, second_grid)
        assert one.score == two.score
        for name in ("negative", "positive"):
            scores = [getattr(found, name) for found in (one, two)]
            # The same runs have the same scores, but for sums in another order.
            seen = [values[: self.PROBES] for values in scores]
            np.testing.assert_allclose(*seen, rtol=1e-10, atol=1e-10)
            assert not np.isclose(scores[0][self.PROBES :], scores[1][self.PROBES :]).any()

    def above_nothing(self, audits):
        """Audits of equal worlds, few runs in many columns, that show an epsilon: by each bound."""

        def blind(data, generator, runs):
            return generator.standard_normal((runs, 40))

        blind.batched = True
        above = np.zeros(4)
        for seed in range(audits):
            how = {"delta": DELTA, "confidence": 0.8, "seed": seed, "workers": 1}
            found = audit(blind, ZERO, ONE, 100, **how)
            above += [each.epsilon > 0 for each in (found.observed, *found.others)]
        return above

    def test_equal_worlds_are_told_apart_no_more_often_than_stated(self):
        assert (self.above_nothing(150) <= binom.ppf(1 - 1e-4, 150, 0.2)).all()

    def test_and_would_be_if_the_tested_runs_had_been_learned_from(self, monkeypatch):
        monkeypatch.setattr(game, "halves", lambda runs: [slice(runs // 2, runs)] * 2)
        # Bonferroni and the band. (The one threshold is chosen by folds, and does not fit itself.)
        assert (self.above_nothing(40)[[1, 3]] > binom.ppf(1 - 1e-4, 40, 0.2)).all()


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
        with pytest.raises(InvalidArgument, match="likelihood to be used for"):
            audit(mechanism, D, D_PRIME, 100, delta=DELTA, score="likelihood")

    @pytest.mark.parametrize("kind", ["logistic", "huber-svm", "least-squares"])
    def test_the_loss_is_that_of_the_objective(self, kind):
        from sordino.audit.scores import loss
        from sordino.models import build

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

    def test_the_loss_where_slots_are_not_rows(self):
        """Record 3 stands in slot 2, and record 0 replaces it."""
        from sordino.audit.scores import loss

        release = TrainedRelease(spec(**FIXED), scale=0.02)
        overlay = nb.replace_by_first(D, [3])
        weights = RNG.normal(size=(6, 4))
        base, other = Dataset(X[1:], Y[1:]), Dataset(X[[1, 2, 0, *range(4, 20)]], Y[1:].copy())
        other = Dataset(other.X, Y[[1, 2, 0, *range(4, 20)]])
        wanted = loss(release, base, other)(weights)
        np.testing.assert_allclose(loss(release, D, overlay)(weights), wanted, atol=1e-12)
        added = nb.add(D, D_PRIME.X[:1], Y[:1], with_base=False)
        more = Dataset(np.vstack([X, D_PRIME.X[:1]]), np.append(Y, Y[0]))
        wanted = loss(release, D, more)(weights)
        np.testing.assert_allclose(loss(release, D, added)(weights), wanted, atol=1e-12)

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
            ({"runs": 8}, "tested runs a world"),
            ({"runs": 0}, ">= 1"),
            ({"confidence": 1.0}, "confidence"),
            ({"delta": None}, "delta=None to be given"),
            ({"delta": 1.0}, r"in \[0, 1\)"),
            ({"claim": Claim(1.0, DELTA, ADD)}, "claim=add-or-remove-one to be"),
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
        with pytest.raises(InvalidArgument, match="tested runs"):
            audit(noise_of(1), ZERO, ONE, 30, delta=DELTA, confidence=1 - 1e-9)

    def test_neighbours_of_a_claim(self):
        more = np.append(ZERO, 1.0)
        found = audit(noise_of(1), ZERO, more, 100, claim=Claim(1.0, DELTA, ADD))
        assert found.claimed.relation is ADD
        assert audit(noise_of(1), ZERO, more, 100, claim=1.0, delta=DELTA).claimed.relation is ADD
        silent = Claim(1.0, DELTA, Relation.ZERO_OUT)
        assert audit(noise_of(1), ZERO, ONE, 100, claim=silent).claimed is silent

    def test_a_zero_out_claim_is_not_about_replaced_records(self):
        """Noise that is enough for a record left out is not for one turned to its opposite."""
        sigma = 1.01 * gaussian.sigma(1.0, 0.01)
        pair = np.array([[-1.0], [0.0]]), np.array([[1.0], [0.0]])
        claim = Claim(1.0, 0.01, Relation.ZERO_OUT)
        with pytest.raises(InvalidArgument, match="zero_out") as caught:
            audit(noise_of(sigma), *pair, 20_000, claim=claim)
        assert "\n" not in str(caught.value)
        # The claim is true, and such an audit would have said otherwise.
        replaced = dataclasses.replace(claim, relation=REPLACE)
        assert audit(noise_of(sigma), *pair, 20_000, claim=replaced).violated
        silent = np.array([[0.0], [0.0]])
        assert not audit(noise_of(sigma), silent, pair[1], 20_000, claim=claim).violated


def estimator(**values):
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(loss="log_loss", max_iter=1, tol=None, **values)


class TestPairs:
    """Of which pairs, and for which mechanisms, an audit tells anything."""

    ORDER = np.roll(np.arange(20), 1)

    def test_an_unaligned_pair_is_refused_where_the_order_may_matter(self):
        moved = Dataset(D_PRIME.X[self.ORDER], Y[self.ORDER])
        fixed = TrainedRelease(spec(**FIXED), scale=0.1)
        rows = (X, Y), (moved.X, moved.y)
        for mechanism, pair in (
            (fixed, (D, moved)),
            (noise_of(1), rows),
            (estimator(), rows),
        ):
            with pytest.raises(InvalidArgument, match="another order"):
                audit(mechanism, *pair, 100, delta=DELTA, workers=1)
        shuffled = TrainedRelease(spec(), scale=0.1)
        assert audit(shuffled, D, moved, 100, delta=DELTA).observed.trials == 100

    def test_so_is_one_less_in_another_order(self):
        less = X[1:], Y[1:]
        moved = X[1:][::-1], Y[1:][::-1]
        mean = noise_of(1)
        for given in (((X, Y), moved), (moved, (X, Y))):
            with pytest.raises(InvalidArgument, match="another order"):
                audit(lambda data, g: mean(data[0], g, 1)[0], *given, 100, delta=DELTA)
        found = audit(
            lambda data, g: mean(data[0], g, 1)[0], (X, Y), less, 100, delta=DELTA, workers=1
        )
        assert found.checked_pair

    def test_an_order_that_nobody_sees_does_not_matter(self):
        """What the refusal prevents: an order of its own tells the worlds apart."""
        halves = np.repeat([[1.0, 0.0], [-1.0, 0.0]], 10, axis=0)
        other = halves[::-1].copy()
        other[0] = [0.0, 1.0]
        steps = spec(order="fixed", init="fixed", learning_rate=2.0, batch_size=1, epochs=1)
        found = [
            train(steps, Dataset(rows, np.ones(20, dtype=int)), [0])[0, 0, 0]
            for rows in (halves, other, np.vstack([halves[:-1], other[:1]]))
        ]
        moved, aligned = (np.linalg.norm(found[0] - each) for each in found[1:])
        assert moved > 3 * aligned

    def test_estimators_need_records_that_can_be_compared(self):
        unknown = np.array([object() for _ in Y])
        with pytest.raises(InvalidArgument, match="of plain values"):
            audit(estimator(), (X, unknown), (D_PRIME.X, unknown), 100, delta=DELTA)

    def test_estimators_with_labels_as_objects(self):
        labels = np.array(["no", "yes"], dtype=object)[Y]
        with pytest.raises(InvalidArgument, match="20 other records"):
            audit(estimator(), (X, labels), (X + 1, labels), 100, delta=DELTA)
        found = audit(estimator(), (X, labels), (D_PRIME.X, labels), 40, delta=DELTA, workers=1)
        assert found.checked_pair

    def test_zeros_are_not_silent_where_there_is_an_intercept(self):
        zeros = Dataset(np.vstack([0 * X[:1], X[1:]]), Y)
        claim = Claim(1.0, DELTA, Relation.ZERO_OUT)
        for objective in (ObjectiveSpec("logistic"), ObjectiveSpec("logistic", intercept=False)):
            release = TrainedRelease(dataclasses.replace(spec(**FIXED), objective=objective), 1.0)
            if objective.intercept:
                with pytest.raises(InvalidArgument, match="zero_out"):
                    audit(release, D, zeros, 100, claim=claim)
            else:
                assert audit(release, D, zeros, 100, claim=claim).claimed is claim
        with pytest.raises(InvalidArgument, match="zero_out"):
            audit(estimator(), (X, Y), (zeros.X, Y), 100, claim=claim, workers=1)
        plain = estimator(fit_intercept=False)
        assert audit(plain, (X, Y), (zeros.X, Y), 40, claim=claim, workers=1).claimed is claim

    def test_a_silent_record_is_one_that_replaces_another(self):
        release = TrainedRelease(spec(**FIXED), scale=1.0)
        silent = nb.zero_out(D, [0], with_base=False)
        for relation in (REPLACE, Relation.ZERO_OUT):
            claim = Claim(1.0, DELTA, relation)
            assert audit(release, D, silent, 100, claim=claim).claimed is claim
        with pytest.raises(InvalidArgument, match="as the pair"):
            audit(release, D, silent, 100, claim=Claim(1.0, DELTA, ADD))

    def test_overlays_are_for_our_own_trainings(self):
        silent = nb.zero_out(D, [0], with_base=False)
        for mechanism in (noise_of(1), estimator()):
            with pytest.raises(InvalidArgument, match="to be a dataset"):
                audit(mechanism, D, silent, 100, delta=DELTA)
        with pytest.raises(InvalidArgument, match="the same records"):
            audit(TrainedRelease(spec()), D, nb.only(D), 100, delta=DELTA)
