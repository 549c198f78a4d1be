"""Normality, weight by weight and jointly: right sizes, and eyes for what is not Gaussian."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sordino.errors import InvalidArgument
from sordino.intrinsic import normality
from sordino.randomness import stream


def gaussian(seeds, parameters, *name):
    """Correlated noise, of sizes that differ by a factor 1000."""
    rng = stream("test", "normality", *name)
    mixing = rng.standard_normal((parameters, parameters)) * np.geomspace(1, 1000, parameters)
    return rng.standard_normal((seeds, parameters)) @ mixing


class TestShapiroWilk:
    def test_weight_by_weight(self):
        W = gaussian(40, 6).reshape(40, 2, 3) * 1e-30  # also where scipy alone would warn
        found = normality.shapiro_wilk(W)
        for a in range(2):
            for k in range(3):
                wanted = stats.shapiro(W[:, a, k] * 1e30).pvalue
                assert found.p_values[a, k] == pytest.approx(wanted, rel=1e-6)

    def test_lines_and_counts(self):
        rng = stream("test", "lines")
        W = rng.standard_normal((98, 4, 10))
        W[:, :, 0] = rng.exponential(size=(98, 4))
        W[:, 1, 3] = 2.0
        found = normality.shapiro_wilk(W)
        assert found.tests == 39
        assert np.isnan(found.p_values[1, 3])
        assert found.bonferroni == pytest.approx(0.05 / 39)
        assert found.rejected == 4  # the exponential ones, of which a test of 98 misses none
        assert found.below_level >= 4 / 39

    def test_gaussian_noise_is_below_the_level_as_often_as_the_level_says(self):
        W = stream("test", "uniform").standard_normal((50, 20, 50))
        found = normality.shapiro_wilk(W)
        # 1,000 tests: three standard errors are .02.
        assert found.below_level == pytest.approx(0.05, abs=0.021)
        assert found.rejected == 0

    def test_only_some_datasets(self):
        W = stream("test", "some").standard_normal((20, 5, 3))
        assert normality.shapiro_wilk(W, datasets=2).p_values.shape == (2, 3)
        with pytest.raises(InvalidArgument, match="seeds=2 >= 3"):
            normality.shapiro_wilk(W[:2])


class TestJoint:
    def test_no_affine_map_changes_it(self):
        X = gaussian(98, 51)
        rng = stream("test", "affine")
        Y = 7 + X @ np.linalg.qr(rng.standard_normal((51, 51)))[0] * rng.uniform(1, 10, 51)
        one = normality.joint(X, stream=stream("j"), draws=199)
        two = normality.joint(Y, stream=stream("j"), draws=199)
        assert one.directions == 51
        assert not one.halved
        assert one.p_value == two.p_value
        assert one.kurtosis == pytest.approx(two.kurtosis, rel=1e-8)
        assert one.p_value > 0.05

    def test_the_statistic_is_mardias(self):
        X = gaussian(30, 4)
        centred = X - X.mean(axis=0)
        squares = np.einsum("ij,jk,ik->i", centred, np.linalg.inv(np.cov(X.T, bias=True)), centred)
        found = normality._kurtosis(X[None])[0]
        assert found == pytest.approx(np.mean(squares**2), rel=1e-8)

    @pytest.mark.parametrize("directions", [None, 8])
    def test_heavy_tails_are_seen(self, directions):
        X = gaussian(98, 51) * stream("test", "t").standard_t(3, (98, 1))
        found = normality.joint(X, stream=stream("j"), directions=directions, draws=199)
        assert found.p_value <= 0.02
        assert found.kurtosis > 1

    def test_light_tails_are_seen(self):
        """Uniform noise in every weight, as uniform initial weights leave it."""
        X = stream("test", "light").uniform(size=(98, 20))
        found = normality.joint(X, stream=stream("j"))
        assert found.p_value <= 0.01
        assert found.kurtosis < 1

    def test_with_fewer_seeds_than_weights_halves_are_tested(self):
        found = normality.joint(gaussian(40, 521), stream=stream("j"), draws=199)
        assert found.halved
        assert found.directions == 6
        assert found.p_value > 0.05

    def test_small_samples_are_below_the_level_as_often_as_the_level_says(self):
        rng = stream("test", "small")
        low = [
            normality.joint(rng.standard_normal((12, 3)), stream=rng, draws=99).p_value <= 0.2
            for _ in range(300)
        ]
        # Standard error .023; a one-sided slip would give .4.
        assert np.mean(low) == pytest.approx(0.2, abs=0.08)

    def test_weights_that_never_vary_or_are_copies_do_not_count(self):
        X = gaussian(60, 5)
        X = np.hstack([X, np.ones((60, 3)), X[:, :1], X[:, 1:3].sum(axis=1, keepdims=True)])
        found = normality.joint(X, stream=stream("j"), draws=99)
        assert found.directions == 5
        alone = normality.joint(X[:, :5], stream=stream("j"), draws=99)
        assert found.kurtosis == pytest.approx(alone.kurtosis, rel=1e-8)

    def test_nonsense_is_refused(self):
        with pytest.raises(InvalidArgument, match="two dimensions"):
            normality.joint(np.ones((9, 2, 2)), stream=stream("j"))
        with pytest.raises(InvalidArgument, match=r"directions=19 <= 18"):
            normality.joint(gaussian(40, 50), stream=stream("j"), directions=19)
        with pytest.raises(InvalidArgument, match="All seeds gave the same weights"):
            normality.joint(np.ones((40, 50)), stream=stream("j"))
        with pytest.raises(InvalidArgument, match="directions=3 <= 2, the directions with any"):
            normality.joint(gaussian(40, 2), stream=stream("j"), directions=3)

    @pytest.mark.slow
    @pytest.mark.parametrize(("parameters", "directions"), [(51, None), (51, 8), (300, None)])
    def test_size(self, parameters, directions):
        p_values = np.array(
            [
                normality.joint(
                    gaussian(98, parameters, trial),
                    stream=stream("size", trial),
                    directions=directions,
                    draws=199,
                ).p_value
                for trial in range(300)
            ]
        )
        whole = directions is None and parameters == 51
        for level in (0.05, 0.2):
            share, slack = float((p_values <= level).mean()), 4 * np.sqrt(level / 300)
            assert share <= level + slack
            # Joining two halves costs little: they are all but independent.
            assert share >= (level if whole else 0.8 * level) - slack
