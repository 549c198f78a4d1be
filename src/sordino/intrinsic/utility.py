"""What noise costs in accuracy, with SGD's own noise counted and without.

Hyland & Tople (v1, VI-D, Table IV, Figures 5 and 9; v2, Tables 4 and 7) compare, on held-out rows,

1. noiseless: weights as trained;
2. 'SGD as deterministic': noise of sigma_target is added;
3. 'SGD as random': noise of sigma_augment is added (`augment`, which protects nobody),

over 500 trained models chosen at random, with a paired t-test of 3 against 2. Here 2 and 3 add THE
SAME standard normal vector, scaled by each sigma, at every epsilon: they differ in nothing else.
Every model has a vector of its own. The authors' code gave all models one and the same (it sets
NumPy's seed before each draw), so their means depend on that one vector; `sordino reproduce` draws
it again and finds their numbers.

A linear model's score is linear in its weights, so a score under noise is score(w) + sigma
score(noise): two matrix products serve all epsilons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from sordino import checks
from sordino.intrinsic.augment import Augmented
from sordino.intrinsic.distances import grid
from sordino.intrinsic.interval import Interval, percentile
from sordino.types import Floats, Indices, Ints

MODELS = 500
"""How many models the papers sample."""

_BLOCK = 1 << 18


@dataclass(frozen=True)
class Comparison:
    """One epsilon of a `Utility`: accuracies and what counting SGD's own noise gains.

    Parameters
    ----------
    augmented
        Both sigmas, with the `Estimate` that says what they are not.
    deterministic, random
        Mean accuracy over the models with noise of sigma_target and of sigma_augment.
    gain
        Mean of random minus deterministic, model by model.
    t, p_value
        Paired two-sided t-test over models, as in the papers. It takes models for independent,
        though those of one seed, or one dataset, are not.
    p_value_by_seed
        The same test of each seed's mean gain: seeds are independent.
    percent_closed
        100 gain / (noiseless - deterministic), a ratio of means; None where no gap can be told
        from 0. (The percentages of v2's Table 4 are not the ratios of its printed means.)
    """

    augmented: Augmented
    deterministic: Interval
    random: Interval
    gain: Interval
    t: float
    p_value: float
    p_value_by_seed: float
    percent_closed: Interval | None


@dataclass(frozen=True, eq=False)
class Utility:
    """Accuracies of sampled models without noise and with both amounts, for each epsilon.

    Parameters
    ----------
    seeds, neighbours
        Place in the grid of each sampled model.
    noiseless
        Accuracy of each model: [model].
    deterministic, random
        Accuracy of each model with noise: [epsilon, model].
    noiseless_mean
        Mean of `noiseless`.
    rows
        One `Comparison` for each epsilon, in the order given.
    test_rows
        How many held-out rows an accuracy is of. Its intervals are over models, not over rows.
    """

    seeds: Indices
    neighbours: Indices
    noiseless: Floats
    deterministic: Floats
    random: Floats
    noiseless_mean: Interval
    rows: tuple[Comparison, ...]
    test_rows: int

    @property
    def models(self) -> int:
        """How many models were sampled."""
        return len(self.noiseless)

    @property
    def target_epsilons(self) -> Floats:
        """The epsilons asked for: none of them is a guarantee."""
        return np.array([row.augmented.target_epsilon for row in self.rows])

    def curves(self) -> dict[str, Floats]:
        """Mean, low and high against epsilon for each setting: arrays [3, epsilon] to draw."""
        found = {
            "noiseless": [self.noiseless_mean] * len(self.rows),
            "deterministic": [row.deterministic for row in self.rows],
            "random": [row.random for row in self.rows],
        }
        return {
            name: np.array([(one.value, one.low, one.high) for one in intervals]).T
            for name, intervals in found.items()
        }

    def table(self) -> dict[str, list[float | None]]:
        """Columns of the papers' tables, one entry for each epsilon; `_sd` is over models."""
        rows = self.rows
        return {
            "target_epsilon": [row.augmented.target_epsilon for row in rows],
            "sigma_target": [row.augmented.sigma_target for row in rows],
            "sigma_augment": [row.augmented.sigma_augment for row in rows],
            "noiseless": [self.noiseless_mean.value] * len(rows),
            "noiseless_sd": [float(self.noiseless.std(ddof=1))] * len(rows),
            "deterministic": [row.deterministic.value for row in rows],
            "deterministic_sd": self.deterministic.std(axis=1, ddof=1).tolist(),
            "random": [row.random.value for row in rows],
            "random_sd": self.random.std(axis=1, ddof=1).tolist(),
            "gain": [row.gain.value for row in rows],
            "gain_low": [row.gain.low for row in rows],
            "gain_high": [row.gain.high for row in rows],
            "t": [row.t for row in rows],
            "p_value": [row.p_value for row in rows],
            "p_value_by_seed": [row.p_value_by_seed for row in rows],
            "percent_closed": [
                None if row.percent_closed is None else row.percent_closed.value for row in rows
            ],
        }

    def __str__(self) -> str:
        lines = [
            f"accuracy of {self.models} models on {self.test_rows:,} held-out rows; each epsilon is"
            " a target: an estimate, not a guarantee",
            f"noiseless {self.noiseless_mean}",
            "epsilon  deterministic  random    gain       p        of gap",
        ]
        for row in self.rows:
            closed = row.percent_closed
            lines.append(
                f"{row.augmented.target_epsilon:<8.4g} {row.deterministic.value:<14.4f} "
                f"{row.random.value:<9.4f} {row.gain.value:<+10.5f} {row.p_value:<8.1e} "
                + ("-" if closed is None else f"{closed.value:.2f}%")
                + ("  (random adds no noise at all)" if row.augmented.adds_nothing else "")
            )
        return "\n".join(lines)


def evaluate(
    weights: npt.ArrayLike,
    X_test: npt.ArrayLike,
    y_test: npt.ArrayLike,
    augmented: Sequence[Augmented],
    *,
    stream: np.random.Generator,
    models: int = MODELS,
    draws: int = 500,
    level: float = 0.95,
) -> Utility:
    """Accuracy of linear models on held-out rows, for every one of `augmented`.

    Models and noise are drawn first, so the same stream gives the same of both for another list of
    `augmented` (such as that of a fixed start, v1's Figure 9).

    Parameters
    ----------
    weights
        Of linear classifiers: [seed, neighbour, parameter], an intercept, if any, last.
    X_test, y_test
        Rows that no model was trained on, and their labels 0 and 1.
    augmented
        Of `augment.augment_each`: one for each epsilon.
    stream
        A stream of `sordino.randomness`.
    models
        How many runs of the grid to sample without replacement; all of them if it has fewer.
    draws, level
        Of the bootstrap, which resamples seeds and neighbours (see `interval.bootstrap`: it errs to
        the long side).
    """
    W = grid(weights, seeds=2)
    X, y = _checked_rows(X_test, y_test, W.shape[2])
    _checked_targets(augmented)
    models = checks.whole("models", models, "A mean over models needs two.", at_least=2)
    draws = checks.whole("draws", draws, at_least=20)
    runs = stream.permutation(W.shape[0] * W.shape[1])[:models]
    seeds, neighbours = np.divmod(np.sort(runs), W.shape[1])
    trained = W[seeds, neighbours]
    noise = stream.standard_normal(trained.shape)
    sigmas = [one.sigma_target for one in augmented] + [one.sigma_augment for one in augmented]
    right = _right(trained, noise, np.array([0.0, *sigmas]), X, y)
    noiseless, (deterministic, random) = right[0], np.split(right[1:], 2)
    resample = _Resample(seeds, neighbours, W.shape[:2], draws, level, stream)
    return Utility(
        seeds,
        neighbours,
        noiseless / len(y),
        deterministic / len(y),
        random / len(y),
        resample.mean(noiseless / len(y)),
        tuple(
            _compared(one, noiseless, deterministic[at], random[at], len(y), resample)
            for at, one in enumerate(augmented)
        ),
        len(y),
    )


def paired_test(gains: npt.ArrayLike) -> tuple[float, float]:
    """Two-sided t-test that paired differences have mean 0: (t, p).

    (0, 1) if all are 0, NaN if there are fewer than two.
    """
    values = np.asarray(gains, dtype=np.float64)
    if len(values) < 2:
        return np.nan, np.nan
    if np.ptp(values) == 0:  # no spread to measure them by
        some = float(values[0])
        return (np.sign(some) * np.inf, 0.0) if some != 0 else (0.0, 1.0)
    found = stats.ttest_1samp(values, 0.0)
    return float(found.statistic), float(found.pvalue)


def _compared(
    augmented: Augmented,
    noiseless: Ints,
    deterministic: Ints,
    random: Ints,
    rows: int,
    resample: _Resample,
) -> Comparison:
    # Whole numbers are subtracted, so that equal gains are equal to the last bit.
    gains, gaps = (random - deterministic) / rows, (noiseless - deterministic) / rows
    t, p_value = paired_test(gains)
    places = np.unique(resample.seeds, return_inverse=True)[1]
    by_seed = np.bincount(places, gains) / np.bincount(places)
    return Comparison(
        augmented,
        resample.mean(deterministic / rows),
        resample.mean(random / rows),
        resample.mean(gains),
        t,
        p_value,
        paired_test(by_seed)[1],
        resample.percent(gains, gaps),
    )


class _Resample:
    """Bootstrap of means over sampled models, whose seeds and neighbours are drawn anew."""

    def __init__(
        self,
        seeds: Indices,
        neighbours: Indices,
        shape: tuple[int, ...],
        draws: int,
        level: float,
        stream: np.random.Generator,
    ) -> None:
        self.seeds, self.level = seeds, level
        often = [stream.multinomial(many, np.full(many, 1 / many), draws) for many in shape]
        counts = (often[0][:, seeds] * often[1][:, neighbours]).astype(np.float64)
        counts = counts[counts.any(axis=1)]  # a draw may have missed every sampled model
        self.weights = counts / counts.sum(axis=1, keepdims=True)

    def mean(self, values: Floats) -> Interval:
        """Mean of `values`, one for each model."""
        return percentile(float(values.mean()), self.weights @ values, self.level)

    def percent(self, gains: Floats, gaps: Floats) -> Interval | None:
        """100 mean(gains) / mean(gaps); None unless the gap's whole interval is above 0."""
        if self.mean(gaps).low <= 0:
            return None
        gained, gap = self.weights @ gains, self.weights @ gaps
        drawn = np.divide(gained, gap, out=np.full_like(gap, np.inf), where=gap > 0)
        value = float(gains.mean()) / float(gaps.mean())
        return percentile(100 * value, 100 * drawn, self.level)


def _right(
    trained: Floats, noise: Floats, sigmas: Floats, X: Floats, y: npt.NDArray[np.bool_]
) -> Ints:
    """How many rows each model labels correctly under each amount of noise: [sigma, model]."""
    right = np.empty((len(sigmas), len(trained)), dtype=np.int64)
    step = max(1, _BLOCK // len(X))
    for start in range(0, len(trained), step):
        part = slice(start, start + step)
        scores, moved = trained[part] @ X.T, noise[part] @ X.T
        for at, sigma in enumerate(sigmas):
            right[at, part] = np.count_nonzero((scores + sigma * moved > 0) == y, axis=1)
    return right


def _checked_rows(
    X_test: npt.ArrayLike, y_test: npt.ArrayLike, parameters: int
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Rows with a last feature 1 if the weights have an intercept, and labels as booleans."""
    X = np.asarray(X_test, dtype=np.float64)
    if X.ndim != 2 or len(X) == 0 or parameters - X.shape[1] not in (0, 1):
        condition = f"to be (rows, {parameters - 1}), or (rows, {parameters}) without an intercept"
        checks.fail("X_test.shape", X.shape, condition, "Only linear models are evaluated.")
    checks.finite("X_test", X)
    y = np.asarray(y_test)
    if y.shape != (len(X),):
        checks.fail("y_test.shape", y.shape, f"to be ({len(X)},), one label a row")
    if not np.isin(y, (0, 1)).all():
        checks.fail("y_test", "labels", "to be 0 or 1")
    if X.shape[1] < parameters:
        X = np.hstack([X, np.ones((len(X), 1))])
    return X, y.astype(bool)


def _checked_targets(augmented: Sequence[Augmented]) -> None:
    checks.sequence("augmented", augmented, "Pass what augment.augment_each gives.")
    if len(augmented) == 0 or not all(isinstance(one, Augmented) for one in augmented):
        hint = "Pass what augment.augment_each gives."
        checks.fail("augmented", f"{len(augmented)} values", "to be Augmented, at least one", hint)
