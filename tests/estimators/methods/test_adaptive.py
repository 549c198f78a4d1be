"""DP-AGD: every draw is paid for, its sensitivity holds, and the descent descends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from sordino import InvalidArgument
from sordino.accounting.zcdp import Filter
from sordino.estimators.methods import adaptive
from sordino.estimators.methods.adaptive import Releases, Shares, clipped_sum, descend, step_scores
from sordino.estimators.minimum.linear import Risk

KINDS = ("logistic", "huber-svm")


class Purse(Filter):
    """The filter, writing down everything that is paid."""

    def __init__(self, total, log=None):
        super().__init__(total)
        self.payments, self.log = [], [] if log is None else log

    def spend(self, rho):
        assert rho > 0
        super().spend(rho)
        self.payments.append(rho)
        self.log.append("spend")


def made(kind="logistic", rows=2000, features=5, l2=0.01, norm=1.0, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    X *= norm / np.linalg.norm(X, axis=1, keepdims=True)
    y = X @ rng.normal(size=features) * 5 / norm + rng.normal(size=rows) > 0
    return Risk(X.astype(dtype), y.astype(int), kind, 0.5, l2)


def gumbels(rng):
    return lambda size: rng.gumbel(size=size)


def descent(risk, purse, seed=0, shares=None, start=None, **changed):
    return descend(releases(risk, purse, seed, **changed), shares, start)


def releases(risk, purse=None, seed=0, **changed):
    rng = np.random.default_rng(seed)
    how = {"clip": 1.0, "norm": 1.0, "sensitivity_factor": 2.0}
    how |= {"normals": rng.standard_normal, "gumbels": gumbels(rng)}
    return Releases(risk, purse or Purse(1e9), **{**how, **changed})


class TestBudget:
    @pytest.mark.parametrize("factor", [1.0, 2.0])
    @pytest.mark.parametrize("total", [1e-5, 2e-4, 0.02, 0.15])
    def test_every_draw_is_paid_for_at_its_price(self, total, factor, monkeypatch):
        """Prices are recounted from the noise really used: D^2 / (2 s^2) and r^2 / 8."""
        prices, log = [], []
        scale, temperature = adaptive.gaussian_scale, adaptive.exponential_temperature

        def normal_noise(sensitivity, rho):
            assert sensitivity >= factor * 0.5  # the clip
            noise = scale(sensitivity, rho)
            prices.append((factor * 0.5) ** 2 / (2 * noise**2))
            return noise

        def choice_noise(span, rho):
            t = temperature(span, rho)
            prices.append((span / t) ** 2 / 8)
            return t

        monkeypatch.setattr(adaptive, "gaussian_scale", normal_noise)
        monkeypatch.setattr(adaptive, "exponential_temperature", choice_noise)
        rng = np.random.default_rng(1)

        def drawn(draw):
            return lambda size: log.append("draw") or draw(size)

        draws = {"normals": drawn(rng.standard_normal), "gumbels": drawn(gumbels(rng))}
        purse = Purse(total, log)
        descent(made(), purse, clip=0.5, sensitivity_factor=factor, **draws)
        assert prices == pytest.approx(purse.payments, rel=1e-12)
        assert purse.spent == pytest.approx(math.fsum(prices), rel=1e-12)
        assert log == ["spend", "draw"] * len(prices)
        assert 0.85 * total <= math.fsum(prices) <= total * (1 + 1e-12)

    @pytest.mark.parametrize("seed", range(20))
    def test_any_shares_stay_within_the_total(self, seed):
        rng = np.random.default_rng(seed)
        total = 10 ** rng.uniform(-5, -1)
        gradient, selection = total * 10 ** rng.uniform(-2, 0.5, size=2)
        purse = Purse(total)
        descent(
            made(rows=50), purse, seed, shares=Shares(gradient, selection, rng.uniform(0.05, 2))
        )
        assert purse.left >= 0

    def test_a_budget_too_small_for_a_round_buys_nothing(self):
        purse = Purse(1e-3)
        assert not descent(made(), purse, shares=Shares(1e-2, 1e-2)).any()
        assert purse.payments == []

    def test_a_lost_choice_buys_a_sharper_gradient_by_inverse_variance(self):
        # The Gumbel numbers decide: 0 wins twice, then the longest step.
        wins = iter([0, 0, 11])
        normal = iter([1.0, 2.0, 4.0])
        risk, purse = made(l2=0.5), Purse(0.024 + 3e-4)
        w = descent(
            risk,
            purse,
            shares=Shares(1e-2, 1e-4, increase=0.5, largest_step=1.0),
            normals=lambda size: np.full(size, next(normal)),
            gumbels=lambda size: np.eye(size)[next(wins)] * 1e9,
        )
        first, again, last = 1e-2, 5e-3, 0.009
        assert purse.payments == pytest.approx([first, 1e-4, again, 1e-4, last, 1e-4])
        shares = np.array([first, again, last])
        noises = np.array([1.0, 2.0, 4.0]) * 2 / np.sqrt(2 * shares)
        mean = clipped_sum(risk, np.zeros(5), 1.0) + (shares * noises).sum() / shares.sum()
        direction = mean / np.linalg.norm(mean)
        assert w == pytest.approx(-direction * 0.8**2, rel=1e-5)

    def test_pooled_noise_has_the_variance_of_the_pooled_share(self):
        rng = np.random.default_rng(0)
        one, two = 1e-3, 5e-4
        a, b = (rng.normal(size=200_000) * adaptive.gaussian_scale(2.0, s) for s in (one, two))
        pooled = (one * a + two * b) / (one + two)
        assert pooled.std() == pytest.approx(adaptive.gaussian_scale(2.0, one + two), rel=0.01)


def neighbours(kind, rng, norm=2.0, dtype=np.float64):
    """Weights, a dataset, one with its first record exchanged and one with it zeroed.

    Half of the time the two records are nearly opposite and yet both badly misclassified, by a
    common part along very long weights: the worst case of docs/math.md 10.6.
    """
    D = made(kind, rows=5, features=3, norm=norm, seed=int(rng.integers(1e6)), dtype=dtype)
    w = rng.normal(size=3) * 10 ** rng.uniform(-1, 2)
    x, other, y = norm * rng.normal(size=3) / 3, D.X.copy(), D.y.copy()
    if rng.random() < 0.5:
        w = np.array([0.0, 0.0, -(10 ** rng.uniform(0, 5))])
        other[0], y[0] = norm * np.array([0.996, 0.0, 0.089]), 1
        D = Risk(other.copy(), y, kind, 0.5, D.l2)
        x = other[0] * [-1, 1, 1]
    else:
        y[0] = rng.integers(2)
    other[0] = x * min(1, norm / np.linalg.norm(x))
    none = D.X.copy()
    none[0] = 0
    return w, D, Risk(other, y, kind, 0.5, D.l2), Risk(none, y, kind, 0.5, D.l2)


class TestSensitivity:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("clip", [0.3, 1.0, 3.0])
    def test_the_clipped_sum(self, kind, clip):
        """Search over weights and over the record that is exchanged; the bound is attained."""
        rng, replaced, zeroed = np.random.default_rng(0), 0.0, 0.0
        bound = min(clip, 2.0)
        for _ in range(200):
            w, *sets = neighbours(kind, rng)
            here, there, gone = (clipped_sum(risk, w, bound) for risk in sets)
            replaced = max(replaced, np.linalg.norm(here - there))
            zeroed = max(zeroed, np.linalg.norm(here - gone))
        assert 1.95 * bound <= replaced <= 2 * bound * (1 + 1e-12)
        assert 0.95 * bound <= zeroed <= bound * (1 + 1e-12)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_the_scores_of_the_candidates(self, kind, dtype):
        """Two neighbours' scores differ within 2 norm diam (1 for a zeroed record), attained."""
        rng, replaced, zeroed = np.random.default_rng(1), 0.0, 0.0
        for _ in range(200):
            w, *sets = neighbours(kind, rng, dtype=dtype)
            v = rng.normal(size=3) if rng.random() < 0.5 else np.array([1.0, 0, 0])
            v = v / np.linalg.norm(v)
            lengths = np.linspace(0, 10 ** rng.uniform(-2, 2), 7)
            here, there, gone = (step_scores(risk, w, v, lengths) for risk in sets)
            unit = 2.0 * np.ptp(lengths) * (1 + adaptive.NORM_SLACK)
            replaced = max(replaced, np.ptp(here - there) / unit)
            zeroed = max(zeroed, np.ptp(here - gone) / unit)
        assert 1.95 <= replaced <= 2
        assert 0.95 <= zeroed <= 1

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("rho", [1e-4, 1e-2, 0.5])
    def test_a_choice_costs_no_more_than_it_pays(self, kind, rho):
        """Renyi divergences of the two laws of the index, computed exactly, below rho alpha."""
        rng, largest = np.random.default_rng(2), 0.0
        for _ in range(50):
            w, *sets = neighbours(kind, rng)
            lengths = np.linspace(0, 10 ** rng.uniform(-1, 1), rng.integers(2, 17))
            t = adaptive.exponential_temperature(2 * 2.0 * np.ptp(lengths), rho)
            logs = [-step_scores(r, w, np.array([1.0, 0, 0]), lengths) / t for r in sets[:2]]
            p, q = (log - np.logaddexp.reduce(log) for log in logs)
            for one, two in ((p, q), (q, p)):
                for order in (1.01, 2.0, 10.0, 100.0):
                    tilted = order * one + (1 - order) * two
                    spent = np.logaddexp.reduce(tilted) / (order - 1)
                    assert spent <= rho * order * (1 + 1e-6) + 1e-14
                    largest = max(largest, spent / (rho * order))
        assert largest > 0.8

    def test_rows_above_the_declared_norm_are_refused(self):
        with pytest.raises(InvalidArgument, match="every row's norm"):
            descent(made(norm=1.1), Purse(1.0))


class TestDraws:
    def test_one_number_for_all_candidates_is_refused(self):
        # numpy's first argument is the location: no noise at all, and nobody would see it.
        rng = np.random.default_rng(0)
        with pytest.raises(InvalidArgument, match=r"noise\.shape"):
            descent(made(), Purse(1.0), gumbels=rng.gumbel)
        with pytest.raises(InvalidArgument, match=r"noise\.shape"):
            descent(made(), Purse(1.0), normals=rng.normal)

    def test_the_gradients_noise(self):
        risk = made(features=2000, rows=20)
        release = releases(risk, clip=0.5)
        noise = release.gradient(np.zeros(2000), 0.02) - clipped_sum(risk, np.zeros(2000), 0.5)
        assert kstest(noise / 5.0, "norm").pvalue > 1e-3  # 2 * 0.5 / sqrt(2 * 0.02)

    @pytest.mark.parametrize("rho", [1e-3, 0.1])
    def test_the_choices_law(self, rho):
        risk, lengths = made(rows=60), np.linspace(0, 4.0, 6)
        w, v = np.full(5, 0.1), np.array([1.0, 0, 0, 0, 0])
        release, draws = releases(risk), 4000
        t = 2 * 4.0 / math.sqrt(8 * rho)
        values = risk.objective(np.stack([w - a * v for a in lengths])) * risk.rows
        p = np.exp(-(values - values.min()) / t)
        chosen = [release.choice(w, v, lengths, rho) for _ in range(draws)]
        assert chisquare(np.bincount(chosen, minlength=6), p / p.sum() * draws).pvalue > 1e-3

    def test_scores_are_the_objectives(self):
        risk, lengths = made("huber-svm", l2=0.7), np.array([0.0, 0.3, 2.0])
        w, v = np.linspace(-1, 1, 5), np.ones(5) / math.sqrt(5)
        values = risk.objective(np.stack([w - a * v for a in lengths]))
        scores = step_scores(risk, w, v, lengths)
        assert scores == pytest.approx((values - values[0]) * risk.rows, abs=1e-9)


class TestDescent:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_without_noise_it_finds_the_minimum(self, kind, dtype):
        risk = made(kind, l2=0.05, dtype=dtype)
        best = risk.minimise(None, 1e-9)
        w = descent(risk, Purse(2e11), shares=Shares(1e9, 1e9, increase=0.01))
        assert risk.value(w) - risk.value(best) < 1e-6
        assert w == pytest.approx(best, abs=5e-3)

    def test_the_regulariser_is_added_before_normalising(self):
        # From far away the regulariser rules; added to a unit vector it would be lost.
        risk = made(l2=10.0)
        w = np.full(5, 3.0)
        after = descent(
            *(risk, Purse(2e-2), 0, Shares(1e-2, 1e-2, largest_step=1.0), w),
            normals=np.zeros,
            gumbels=lambda size: np.eye(size)[11] * 1e9,
        )
        gradient = risk.gradient(w)
        assert w - after == pytest.approx(gradient / np.linalg.norm(gradient), rel=1e-9)

    @pytest.mark.parametrize("winner", [1, 7, 11])
    def test_the_step_is_the_chosen_candidates(self, winner):
        w = descent(
            made(),
            Purse(2e-2),
            shares=Shares(1e-2, 1e-2, largest_step=3.0),
            gumbels=lambda size: np.eye(size)[winner] * 1e9,
        )
        assert np.linalg.norm(w) == pytest.approx(3.0 * winner / 11, rel=1e-9)

    def test_more_budget_is_better_and_a_little_helps(self):
        risk = made(rows=5000)
        best = risk.value(risk.minimise(None, 1e-9))
        values = [
            np.mean([risk.value(descent(risk, Purse(rho), seed)) for seed in range(5)]) - best
            for rho in (1e-4, 2e-3, 0.1)
        ]
        assert math.log(2) - best > values[0] > values[1] > values[2]
        assert values[2] < 0.01

    def test_the_rule_is_public_and_spends_a_fifth_on_choices(self):
        few = Shares.by_rule(1e-4, 500, 100, 1.0, 1.0, 2.0)
        some = Shares.by_rule(1e-4, 50_000, 100, 1.0, 1.0, 2.0)
        many = Shares.by_rule(1.6, 50_000, 120, 2.0, 2.0, 2.0)
        assert few.gradient + few.selection == pytest.approx(1e-4 / 5)
        assert some.gradient + some.selection == pytest.approx(1e-4 / 50)
        rounds = 60 * (0.04 * 2 * 1.6 * 50_000**2 / (4 * 120) / 60) ** 0.25
        assert many.gradient + many.selection == pytest.approx(1.6 / rounds)
        assert many.selection / many.gradient == pytest.approx(1 / 4)
        assert many.largest_step == 1.0

    @pytest.mark.parametrize("name", ["gradient", "selection", "increase", "largest_step"])
    def test_shares_are_checked(self, name):
        with pytest.raises(InvalidArgument, match=name):
            Shares(**{"gradient": 1.0, "selection": 1.0, name: 0.0})
