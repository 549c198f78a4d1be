"""What tables and figures ask of grids (kind "grid") and of accuracies under noise (kind "noise").

Also slips in print, which are of printed numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import stats

from sordino import checks, randomness
from sordino.accounting import gaussian
from sordino.intrinsic.augment import paired_test
from sordino.types import Array, Floats
from sordino_papers.quantities import Answer, Numbers, Quantities

_PEAK_BINS = 60
"""Of the histogram whose highest bin is where a density is highest."""
_SIGMAS = {"minimum": "sigma", "median": "sigma_median"}
_OF_SEVERAL = {
    *("ratio", "least", "largest", "range_over"),
    *("quotient", "multiplier", "epsilon_of", "exact_of_printed"),
}
"""What no quantity of several runs asks of each."""


def _gap(one: Array, other: Array) -> float:
    """The largest gap of two distribution functions."""
    return float(stats.ks_2samp(one, other, method="asymp").statistic)


class GridQuantities(Quantities):
    """What claims ask of a grid: settings, distances, sensitivity, sigma, epsilon.

    `init` is the kind of initial weights, "vary" or "fixed".
    """

    held: ClassVar[Mapping[str, str]] = {
        **{n: n for n in ("learning_rate", "batch_size", "parameters", "hidden")},
        "datasets": "neighbours",
        "records": "n",
        "bound_that_holds": "bound_holds",
    }

    # Distances -------------------------------------------------------------------------------

    def share_seed_above_data(
        self, *, init: str = "vary", of: str = "pairs", largest: float | None = None
    ) -> float:
        """How often another seed moves the weights further than another record.

        Of two pairs of runs chosen at random, or (`of="largest"`) against the largest delta_S:
        ours, or another one, such as a printed one.
        """
        checks.one_of("of", of, ("pairs", "largest"))
        seed = self[f"{init}/delta_v"]
        if of == "largest":
            top = float(self[f"{init}/sensitivity"]) if largest is None else largest
            return float((seed > top).mean())
        data = np.sort(self[f"{init}/delta_s"])
        return float(np.searchsorted(data, seed, "left").mean() / len(data))

    def share_seed_above_bound(self, *, init: str = "vary") -> float:
        """How often another seed moves the weights further than the papers' bound."""
        return float((self[f"{init}/delta_v"] > float(self["bound_whole_batches"])).mean())

    def median_seed_over_data(self, *, init: str = "vary") -> float:
        """The median delta_V over the median delta_S."""
        return float(np.median(self[f"{init}/delta_v"])) / float(np.median(self[f"{init}/delta_s"]))

    def seed_distance(self, *, init: str = "vary", at: float = 0.5) -> float:
        """A quantile of delta_V."""
        return float(np.quantile(self[f"{init}/delta_v"], at))

    def vary_over_fixed(self, *, at: float = 0.5) -> float:
        """How much further apart seeds are if they draw the initial weights, too."""
        over, under = (np.quantile(self[f"{init}/delta_v"], at) for init in ("vary", "fixed"))
        return float(over / under)

    def overlap(self, *, init: str = "vary") -> float:
        """Of the distributions of delta_V and delta_S+V: 1 if they are the same, 0 if apart."""
        return 1 - _gap(self[f"{init}/delta_v"], self[f"{init}/delta_sv"])

    def gaussian_gap(self, *, init: str = "vary") -> float:
        """Of delta_V and distances of Gaussian vectors: the largest gap of the distributions."""
        return _gap(self[f"{init}/delta_v"], self[f"{init}/gaussian_distances"])

    def gaussian_width(self, *, init: str = "vary") -> float:
        """The deviation of delta_V over that of distances of Gaussian vectors."""
        seed, drawn = self[f"{init}/delta_v"], self[f"{init}/gaussian_distances"]
        return float(seed.std(dtype=np.float64) / drawn.std(dtype=np.float64))

    def relative_width(self, *, init: str = "vary") -> float:
        """The deviation of delta_V over its mean."""
        seed = self[f"{init}/delta_v"].astype(np.float64)
        return float(seed.std() / seed.mean())

    def skew_of_pairs(self, *, init: str = "vary", over: str = "seeds") -> float:
        """(q99 - q50) / (q50 - q01) of delta_S: above 1, a few pairs lie far to the right."""
        low, middle, high = np.quantile(self._pairs(init, over), [0.01, 0.5, 0.99])
        return float((high - middle) / (middle - low))

    def _pairs(self, init: str, over: str) -> Array:
        """delta_S of pairs of datasets: at each seed ("seeds"), or the "largest" over seeds."""
        names = {"seeds": "delta_s", "largest": "delta_s_pairs_largest"}
        return self[f"{init}/{names[checks.one_of('over', over, names)]}"].astype(np.float64)

    # Pairwise epsilon (v1) -------------------------------------------------------------------

    def _pairwise(
        self,
        distances: Array,
        *,
        init: str,
        version: int = 2,
        aggregate: str = "minimum",
        formula: str = "printed",
    ) -> Array:
        """Epsilon of each distance, sorted."""
        from sordino.intrinsic.epsilon import pairwise_epsilon

        checks.one_of("formula", formula, ("printed", "exact"))
        checks.one_of("aggregate", aggregate, ("minimum", "median"))
        sigma, delta = self[f"{init}/{_SIGMAS[aggregate]}"][0], self[f"delta_v{version}"]
        return np.asarray(getattr(pairwise_epsilon(distances, float(sigma), float(delta)), formula))

    def pairwise_epsilon(
        self, *, init: str = "vary", at: float | str = 0.5, over: str = "seeds", **how: Any
    ) -> float:
        """Epsilon of pairs of datasets: a quantile, the density's "peak", or the "maximum" of all.

        Each at one seed (of a sample), or at the seed where it is largest (`over="largest"`).
        """
        if at in (1.0, "maximum"):
            (top,) = self._pairwise(self[f"{init}/sensitivity"], init=init, **how)
            return float(top)
        values = self._pairwise(self._pairs(init, over), init=init, **how)
        if at != "peak":
            return float(np.quantile(values, float(at)))
        # The tail is long: bins up to where it begins.
        heights, edges = np.histogram(values, _PEAK_BINS, (0, float(np.quantile(values, 0.99))))
        top = int(heights.argmax())
        return float((edges[top] + edges[top + 1]) / 2)

    def share_pairwise_above(
        self, *, epsilon: float, init: str = "vary", over: str = "seeds", **how: Any
    ) -> float:
        """The share of pairs whose epsilon is above one."""
        return float((self._pairwise(self._pairs(init, over), init=init, **how) > epsilon).mean())

    # Normality -------------------------------------------------------------------------------

    def _p_values(self, init: str, datasets: int | None) -> Array:
        """p-values of the first datasets; a weight that never varied is not tested."""
        held = self[f"{init}/p_values"][:datasets]
        return held[np.isfinite(held)]

    def share_normal(
        self, *, init: str = "vary", level: float = 0.05, datasets: int | None = None
    ) -> Answer:
        """Weights that pass the test."""
        return Answer.share(self._p_values(init, datasets) >= level)

    def share_rejected(
        self,
        *,
        init: str = "vary",
        level: float = 0.05,
        hypotheses: str = "tests",
        datasets: int | None = None,
        corrected_for: int | None = None,
    ) -> Answer:
        """Weights below Bonferroni's line level / M.

        M counts "parameters" (v1) or all "tests" (v2); with `corrected_for`, that many datasets,
        where fewer are tested.
        """
        checks.one_of("hypotheses", hypotheses, ("tests", "parameters"))
        p, many = self._p_values(init, datasets), int(self["parameters"])
        if hypotheses == "tests":
            many = len(p) if corrected_for is None else many * corrected_for
        return Answer.share(p < level / many)

    # Growth with the training ----------------------------------------------------------------

    def sensitivity_slope(self, *, init: str = "vary") -> float:
        """Slope of the sensitivity against steps over that of the papers' linear bound."""
        steps = self["steps"].astype(np.float64)
        if len(steps) < 2:
            return math.nan  # one checkpoint has no slope
        slope = float(np.polyfit(steps, self._by_steps(init, "sensitivity"), 1)[0])
        return slope / (float(self["bound_whole_batches"]) / float(steps[-1]))

    def sensitivity_growth(self, *, init: str = "vary", **between: float) -> float:
        """The sensitivity later over earlier."""
        return self._growth("sensitivity", init, **between)

    def sigma_growth(self, *, init: str = "vary", **between: float) -> float:
        """Sigma later over earlier."""
        return self._growth("sigma", init, **between)

    def sensitivity_over_sigma_growth(self, *, init: str = "vary", **between: float) -> float:
        """How private the papers would call it, up to a constant, later over earlier."""
        return self._growth("ratio", init, **between)

    def _growth(self, of: str, init: str, start: float = 0.0, end: float = 1.0) -> float:
        """The value at the last checkpoint up to `end` over the first from `start` on (shares)."""
        shares, held = self["steps"] / self["steps"][-1], self._by_steps(init, of)
        return float(held[shares <= end + 1e-9][-1] / held[shares >= start - 1e-9][0])

    def sensitivity_drift(self, *, init: str = "vary", start: float = 0.5) -> float:
        """How much the mean sensitivity changes after `start`."""
        return self._drift("sensitivity", init, start)

    def sigma_drift(self, *, init: str = "vary", start: float = 0.5) -> float:
        """How much the mean sigma changes after `start`."""
        return self._drift("sigma", init, start)

    def _drift(self, of: str, init: str, start: float) -> float:
        """How much the mean changes, either way, between the halves of what follows `start`.

        Means, because within a pass the spread rises and falls: where all runs have seen all
        records, they are closest.
        """
        shares = self["steps"] / self["steps"][-1]
        held = self._by_steps(init, of)[shares >= start - 1e-9]
        if len(held) < 2:
            return math.nan
        change = float(held[len(held) // 2 :].mean() / held[: len(held) // 2].mean())
        return max(change, 1 / change)

    def sensitivity_trend(self, *, init: str = "vary") -> float:
        """Spearman's rank correlation of the sensitivity with the steps."""
        held = self._by_steps(init, "sensitivity")
        if len(held) < 2 or np.ptp(held) == 0:
            return math.nan
        return float(stats.spearmanr(self["steps"], held).statistic)

    def _by_steps(self, init: str, of: str) -> Array:
        if of == "ratio":
            return self._by_steps(init, "sensitivity") / self._by_steps(init, "sigma")
        return self[f"{init}/by_steps/{of}"]

    def final_spread(self, *, init: str = "fixed") -> float:
        """How far apart followed runs end, over how far the longest path leads from its start."""
        paths = self[f"{init}/trajectories"]
        ends = paths[:, -1]
        apart = np.linalg.norm(ends[:, None] - ends[None], axis=2).max()
        return float(apart / np.linalg.norm(ends - paths[:, 0], axis=1).max())

    # How settled -----------------------------------------------------------------------------

    def sigma_settles(self, *, seeds: int, init: str = "vary") -> float:
        """The largest change of the middle sigma_i from `seeds` seeds on, relative to all's."""
        x, middle = self[f"{init}/by_seeds/x"], self[f"{init}/by_seeds/middle"]
        later = np.append(middle[x >= seeds], np.interp(seeds, x, middle))
        return float(np.abs(later / middle[-1] - 1).max())

    def sensitivity_settles(self, *, share: float = 0.5, init: str = "vary") -> float:
        """The largest delta_S of all comparisons over the middle one of this share of them."""
        x, middle = self[f"{init}/by_comparisons/x"], self[f"{init}/by_comparisons/middle"]
        return float(middle[-1] / np.interp(share * x[-1], x, middle))

    def less_stable(self, *, many: int, init: str = "vary") -> Answer:
        """How widely the sensitivity of `many` comparisons varies, over sigma_i of `many` seeds.

        Each by the band over random subsets, relative to the value of all.
        """

        def width(curve: str) -> float:
            x, low, high = (self[f"{init}/{curve}/{part}"] for part in ("x", "low", "high"))
            apart = float(np.interp(many, x, high)) - float(np.interp(many, x, low))
            return apart / float(self[f"{init}/{curve}/middle"][-1])

        top, sigma = width("by_comparisons"), width("by_seeds")
        words = f"{100 * top:.2g} % against {100 * sigma:.2g} %"
        return Answer(top / sigma if sigma > 0 else math.nan, words=words)

    # Settings, as they were run --------------------------------------------------------------

    def steps(self) -> float:
        """Of the whole training."""
        return float(self["steps"][-1])

    def experiments(self) -> Answer:
        """Runs on replaced records; the dataset itself is trained on, too, and not counted."""
        total, seeds, datasets = (int(self[n]) for n in ("experiments", "seeds", "neighbours"))
        words = f"{seeds} seeds x {datasets} datasets x {total // (seeds * datasets)}"
        return Answer(float(total), words=words)

    # Sensitivity, sigma, epsilon -------------------------------------------------------------

    def delta(self, *, version: int = 2) -> float:
        """1 / n^2 as in v2, or v1's 1 / n."""
        checks.one_of("version", str(version), ("1", "2"))
        return float(self[f"delta_v{version}"])

    def bound(self, *, whole_batches: bool = False) -> float:
        """The papers' 2 k L eta / B; a pass is n / B steps, or floor(n / B)."""
        return float(self["bound_whole_batches" if whole_batches else "bound_printed"])

    def bound_of_passes(self) -> Answer:
        """2 ceil(k) L eta / B: holds where a pass is floor(n / B) whole batches, k started."""
        per_pass = int(self["n"]) // int(self["batch_size"])
        passes = int(self["steps"][-1]) / per_pass
        bound = self.bound(whole_batches=True) * math.ceil(passes) / passes
        return Answer(bound, words=f"{math.ceil(passes)} passes")

    def sigma(self, *, init: str = "vary", aggregate: str = "minimum") -> Answer:
        """sigma_i with its interval over seeds (for the median, over datasets too)."""
        checks.one_of("aggregate", aggregate, sorted(_SIGMAS))
        value, low, high = self[f"{init}/{_SIGMAS[aggregate]}"].tolist()
        return Answer(value, low, high)

    def sigma_of_datasets(self, *, init: str = "vary", end: str = "minimum") -> Answer:
        """The least or largest sigma_a; its interval is sigma_i's, in proportion."""
        checks.one_of("end", end, ("minimum", "maximum"))
        held = self[f"{init}/sigma_by_dataset"]
        value = float(held.min() if end == "minimum" else held.max())
        middle, low, high = (float(each) for each in self[f"{init}/sigma"])
        ends = (value * low / middle, value * high / middle) if middle else ()
        return Answer(value, *ends)

    def sigma_spread(self, *, init: str = "vary") -> float:
        """(largest - least) / least sigma_a."""
        held = self[f"{init}/sigma_by_dataset"]
        return float((held.max() - held.min()) / held.min())

    def sigma_aggregates(self, *, other: str, init: str = "vary") -> float:
        """Another way to pool the weights over sigma_i, both medians over datasets."""
        checks.one_of("other", other, ("per-weight", "norm"))
        over = float(self[f"{init}/sigma_{other.replace('-', '_')}"][0])
        return over / float(self[f"{init}/sigma_median"][0])

    def sensitivity(self, *, init: str = "vary") -> float:
        """The largest delta_S of all pairs and seeds; a maximum has no interval."""
        return float(self[f"{init}/sensitivity"])

    def epsilon(
        self,
        *,
        init: str = "vary",
        by: str = "bound",
        version: int = 2,
        aggregate: str = "minimum",
        formula: str = "printed",
        whole_batches: bool = True,
    ) -> Answer:
        """epsilon_i of the bound or epsilon_i* of the observed sensitivity; interval by sigma's."""
        checks.one_of("by", by, ("bound", "observed"))
        bound = by == "bound"
        top = self.bound(whole_batches=whole_batches) if bound else self.sensitivity(init=init)
        delta, sigma = self.delta(version=version), self.sigma(init=init, aggregate=aggregate)
        return _of_sigma(sigma, lambda each: _epsilon_of(top, each, delta, formula))

    def epsilon_of_sigma(
        self, *, sigma: float, version: int = 2, whole_batches: bool = True
    ) -> float:
        """epsilon_i of the run's bound with another sigma, such as a printed one."""
        bound = self.bound(whole_batches=whole_batches)
        return _epsilon_of(bound, sigma, self.delta(version=version))

    def bound_over_sensitivity(self, *, init: str = "vary", whole_batches: bool = False) -> float:
        """The papers' bound over the observed sensitivity."""
        return self.bound(whole_batches=whole_batches) / self.sensitivity(init=init)

    def sensitivity_over_sigma(self, *, init: str = "vary") -> Answer:
        """The observed sensitivity over sigma_i."""
        top = self.sensitivity(init=init)
        return _of_sigma(self.sigma(init=init), lambda sigma: top / sigma)

    def accuracy(self, *, init: str = "vary", percent: bool = False) -> Answer:
        """Mean over runs on held-out rows; of all runs, half of each start, with init="both"."""
        parts = np.array([self[f"{each}/accuracy"] for each in _starts(init)])
        value = float(parts[:, 0].mean())
        half = float(np.sqrt(np.sum((parts[:, 2] - parts[:, 0]) ** 2))) / len(parts)
        scale = 100 if percent else 1
        return Answer(scale * value, scale * (value - half), scale * (value + half))

    def accuracy_sd(self, *, init: str = "vary", percent: bool = False) -> float:
        """Standard deviation over runs."""
        means = np.array([self[f"{each}/accuracy"][0] for each in _starts(init)])
        within = np.array([float(self[f"{each}/accuracy_sd"]) ** 2 for each in _starts(init)])
        return math.sqrt(within.mean() + means.var()) * (100 if percent else 1)

    # Of several runs: any of the above, `of`, with its arguments -----------------------------

    def _of_each(self, of: str, arguments: dict[str, Any]) -> list[float]:
        checks.one_of("of", of, sorted(set(self.names()) - _OF_SEVERAL))
        return [type(self)(run).ask(of, **arguments).value for run in self.runs]

    def ratio(self, *, of: str, **arguments: Any) -> Answer:
        """A quantity of the first run over that of the second."""
        over, under = self._of_each(of, arguments)
        return Answer(over / under, words=f"{over:.4g} over {under:.4g}")

    def least(self, *, of: str, **arguments: Any) -> float:
        """The least of all runs."""
        return float(np.min(self._of_each(of, arguments)))

    def largest(self, *, of: str, **arguments: Any) -> float:
        """The largest of all runs."""
        return float(np.max(self._of_each(of, arguments)))

    def range_over(self, *, of: str, **arguments: Any) -> float:
        """The largest over the least."""
        values = self._of_each(of, arguments)
        return float(np.max(values) / np.min(values))

    # Of printed numbers alone ----------------------------------------------------------------

    def quotient(self, *, over: float, under: float) -> float:
        """Of two printed numbers."""
        return over / under

    def multiplier(self, *, delta: float, slip: bool = False) -> float:
        """sqrt(2 ln(1.25/delta)), or the algorithms' sqrt(2 ln(1.25)/delta), a slip."""
        return math.sqrt(2 * math.log(1.25) / delta) if slip else _multiplier(delta)

    def epsilon_of(
        self, *, sensitivity: float, sigma: float, delta: float, formula: str = "printed"
    ) -> float:
        """Epsilon of printed numbers."""
        return _epsilon_of(sensitivity, sigma, delta, formula)

    def exact_of_printed(self, *, epsilon: float, delta: float) -> float:
        """What the exact formula gives where the papers' gives `epsilon`."""
        return gaussian.epsilon(epsilon / _multiplier(delta), delta)


def _epsilon_of(sensitivity: float, sigma: float, delta: float, formula: str = "printed") -> float:
    """The papers' sqrt(2 ln(1.25/delta)) Delta / sigma ("printed"), or the exact epsilon."""
    checks.one_of("formula", formula, ("printed", "exact"))
    if not math.isfinite(sensitivity):
        return math.nan  # no bound is known
    if sigma == 0:
        return math.inf
    if formula == "exact":
        return gaussian.epsilon(sensitivity / sigma, delta)
    return _multiplier(delta) * sensitivity / sigma


def _multiplier(delta: float) -> float:
    return math.sqrt(2 * math.log(1.25 / delta))


def _of_sigma(sigma: Answer, value: Callable[[float], float]) -> Answer:
    """A value that falls as sigma grows: less noise is more epsilon."""
    assert sigma.low is not None
    assert sigma.high is not None
    return Answer(value(sigma.value), value(sigma.high), value(sigma.low))


def _starts(init: str) -> tuple[str, ...]:
    return ("vary", "fixed") if init == "both" else (init,)


# Accuracies under noise ----------------------------------------------------------------------

_Counts = npt.NDArray[np.int32]
_Statistic = Callable[["Trio"], Floats]
_DRAWS, _TAILS = 1000, (0.025, 0.975)


@dataclass(frozen=True, eq=False)
class Trio:
    """Rows labelled correctly without noise, with all of it, and with the rest of it: counts.

    Models are on the last axis. Counts are subtracted before they are divided, so that equal gains
    are equal to the last bit.
    """

    counts: tuple[_Counts, _Counts, _Counts]
    rows: float

    @classmethod
    def of(
        cls, numbers: Numbers, case: str, epsilon: float, over: str = "models", level: int = 0
    ) -> Trio:
        """Accuracies of one case at one epsilon: [model], or over draws [draw, model]."""
        checks.one_of("over", over, ("models", "draws"))
        at = int(np.flatnonzero(np.isclose(numbers["epsilons"], epsilon))[0])
        prefix = "drawn/" if over == "draws" else ""
        target, augmented = (numbers[f"{prefix}{case}/{of}"] for of in ("target", "augmented"))
        counts = numbers[f"{prefix}noiseless"], target[level, at], augmented[level, at]
        return cls(counts, float(numbers["rows"]))

    def part(self, name: str) -> Floats:
        """An accuracy ("noiseless", "target": all of the noise, "augmented": what SGD's leaves).

        Or the "gain" of counting SGD's own noise, or the "gap", what all of the noise costs.
        """
        noiseless, target, augmented = self.counts
        counts = {"noiseless": noiseless, "target": target, "augmented": augmented}
        counts |= {"gain": augmented - target, "gap": noiseless - target}
        return np.asarray(counts[name] / self.rows)

    def mean(self, name: str) -> Floats:
        """The mean over models of a part."""
        return np.asarray(self.part(name).mean(axis=-1))

    def closed(self, *, of_models: bool = False) -> Floats:
        """Percent of the gap that is closed: the mean gain over the mean gap.

        Or the mean of the models' own ratios; a model without a gap counts as 0.
        """
        read = self.part if of_models else self.mean
        gain, gap = read("gain"), read("gap")
        ratios = np.divide(gain, gap, out=np.zeros_like(gap), where=gap != 0)
        return np.asarray(100 * (ratios.mean(axis=-1) if of_models else ratios))

    def redraw(self, averaged: int) -> Trio:
        """The same with as many models as the paper's means are over, drawn with replacement.

        Of one draw's models [model] many times, of many draws' [draw, model] once each.
        """
        stream = randomness.stream("reproduce", "noise", "bootstrap")
        models = self.counts[1].shape[-1]
        many = _DRAWS if self.counts[1].ndim == 1 else len(self.counts[1])
        chosen = stream.integers(0, models, (many, averaged))
        noiseless, target, augmented = (
            np.take_along_axis(np.broadcast_to(part, (many, models)), chosen, axis=1)
            for part in self.counts
        )
        return Trio((noiseless, target, augmented), self.rows)


def curve(numbers: Numbers, case: str, part: str, models: int | None = None) -> Floats:
    """Means over the first models at every epsilon, of a part of `Trio`."""
    held = (Trio.of(numbers, case, epsilon) for epsilon in numbers["epsilons"])
    return np.array([float(each.part(part)[:models].mean()) for each in held])


class NoiseQuantities(Quantities):
    """What claims ask of accuracies under noise.

    `case` names one way to compute the noise, `epsilon` the target. `over` says what an interval is
    over: "models" is the authors' vector, and a mean over as many models as the paper's (together
    with where else the sensitivity could have come out, if it is a maximum over a sample of pairs);
    "draws" is other vectors; or, if the run has such, other random projections or test rows, with
    models drawn again, too: these are asked where nothing is said.
    """

    def _trio(self, case: str, epsilon: float, over: str = "models", level: int = 0) -> Trio:
        return Trio.of(self.runs[0], case, epsilon, over, level)

    def _over(self, case: str, epsilon: float, over: str, statistic: _Statistic) -> Answer:
        """A statistic of models, with the interval that holds 95 % of what else it could have been.

        Where the sensitivity is a maximum over a sample, models and sensitivity are drawn together:
        all levels after the first are equally likely.
        """
        over = over or _natural(self.runs[0])
        averaged = int(self["averaged"])
        levels = len(self[f"drawn/{case}/target" if over == "draws" else f"{case}/target"])
        held = [self._trio(case, epsilon, over, level) for level in range(levels)]
        likely = held[1:] or held
        if over == "draws":
            again = [each.redraw(averaged) if self["random_rows"] else each for each in likely]
            values = np.sort(np.concatenate([statistic(each) for each in again]))
            # Between which two one more lies with 95 % (of fewer than 39: the outermost).
            rank = max(int((len(values) + 1) * _TAILS[0]), 1)
            ends = values[[rank - 1, -rank]]
            value = float(np.median(statistic(held[0])))
            words = f"median of {len(held[0].counts[1])} draws"
        else:
            ends = np.quantile([statistic(each.redraw(averaged)) for each in likely], _TAILS)
            value, words = float(statistic(held[0])), ""
        low, high = (float(end) for end in ends)
        return Answer(value, min(value, low), max(value, high), words)

    def _mean(self, part: str, case: str, epsilon: float, over: str) -> Answer:
        return self._over(case, epsilon, over, lambda trio: trio.mean(part))

    def _deviation(self, part: str, case: str, epsilon: float, over: str) -> Answer:
        """Standard deviation over models that share one vector."""
        return self._over(case, epsilon, over, lambda t: t.part(part).std(axis=-1, ddof=1))

    @property
    def _any_case(self) -> tuple[str, float]:
        """Without noise it is the same in every case."""
        case = next(n.partition("/")[0] for n in self.runs[0] if n.endswith("/sensitivities"))
        return case, float(self["epsilons"][0])

    def noiseless_accuracy(self, *, over: str = "") -> Answer:
        """Without noise, mean over models."""
        return self._mean("noiseless", *self._any_case, over)

    def noiseless_spread(self, *, over: str = "") -> Answer:
        """Without noise, standard deviation over models."""
        return self._deviation("noiseless", *self._any_case, over)

    def noisy_accuracy(self, *, case: str, epsilon: float, over: str = "") -> Answer:
        """With all of the noise, mean over models."""
        return self._mean("target", case, epsilon, over)

    def noisy_spread(self, *, case: str, epsilon: float, over: str = "") -> Answer:
        """With all of the noise, standard deviation over models."""
        return self._deviation("target", case, epsilon, over)

    def gain(self, *, case: str, epsilon: float, over: str = "") -> Answer:
        """What counting SGD's own noise gains, mean over models."""
        return self._mean("gain", case, epsilon, over)

    def gap_closed(
        self, *, case: str, epsilon: float, over: str = "", of: str = "models"
    ) -> Answer:
        """Percent of the gap to the noiseless model that counting SGD's own noise closes."""
        checks.one_of("of", of, ("models", "means"))
        return self._over(case, epsilon, over, lambda t: t.closed(of_models=of == "models"))

    def gain_p_value(self, *, case: str, epsilon: float, over: str = "models") -> Answer:
        """Paired t-test of the gain, over models or over draws; 1 where it is a loss."""
        trio = self._trio(case, epsilon, over)
        t, p = paired_test(trio.mean("gain") if over == "draws" else trio.part("gain"))
        return Answer(p if t > 0 else 1.0, words=f"t = {t:.3g}")

    def own_vectors_over_one(self, *, case: str, epsilon: float) -> Answer:
        """Deviation over models with a vector of their own, over that with the authors' for all."""
        trios = (self._trio(case, epsilon, over) for over in ("draws", "models"))
        own, one = (trio.part("target").std(ddof=1) for trio in trios)
        return Answer(float(own / one), words=f"{own:.3g} and {one:.3g}")

    def share_of_vectors_as_near(
        self, *, case: str, printed: Sequence[Sequence[float]], within: float
    ) -> Answer:
        """Share of drawn vectors that give all printed accuracies, pairs (epsilon, accuracy)."""
        near = [
            np.abs(self._trio(case, epsilon, "draws").mean("target") - accuracy) <= within
            for epsilon, accuracy in printed
        ]
        return Answer.share(np.all(near, axis=0))

    def off_prevalence(self, *, case: str, epsilon: float, accuracy: float | None = None) -> Answer:
        """How far an accuracy, all of the noise's or a given one, is from the share of label 1.

        That share is the accuracy of a model that always says 1.
        """
        share = float(self["positive"] / self["rows"])
        if accuracy is None:
            accuracy = float(self._trio(case, epsilon).mean("target"))
        return Answer(abs(accuracy - share), words=f"{accuracy:.3g} and {share:.3g}")

    def gain_over(
        self, *, case: str, epsilon: float, other_case: str = "", other_epsilon: float = 0
    ) -> float:
        """Mean gain over the mean gain of another case or epsilon."""
        other = self._trio(other_case or case, other_epsilon or epsilon)
        return float(self._trio(case, epsilon).mean("gain") / other.mean("gain"))

    def case_above(
        self, *, case: str, other: str, epsilon: float, part: str = "augmented"
    ) -> float:
        """Mean accuracy of one case minus that of another."""
        first, second = (self._trio(each, epsilon).part(part) for each in (case, other))
        return float((first - second).mean())

    def closed_more(self, *, case: str, other: str, epsilon: float) -> Answer:
        """Percent of the gap closed, a ratio of means, of one case minus that of another."""
        first, second = (float(self._trio(each, epsilon).closed()) for each in (case, other))
        return Answer(first - second, words=f"{first:.3g} and {second:.3g}")

    def first_above_rest(self, *, part: str, case: str, epsilon: float) -> Answer:
        """A mean ("augmented", "gain"), or "gap_closed", of one run minus the rest's largest."""
        held = (Trio.of(run, case, epsilon, _natural(run)) for run in self.runs)
        parts = (each.closed() if part == "gap_closed" else each.mean(part) for each in held)
        values = [float(np.median(each)) for each in parts]
        words = ", ".join(f"{value:.3g}" for value in values)
        return Answer(values[0] - max(values[1:]), words=words)

    # Curves against epsilon (v1, Figures 5 and 9) --------------------------------------------

    def share_of_epsilons_gaining(self, *, case: str) -> Answer:
        """Share of epsilons at which counting SGD's own noise loses nothing in the mean."""
        return Answer.share(curve(self.runs[0], case, "gain") >= 0)

    def gain_rise_and_fall(self, *, case: str) -> float:
        """The largest gain of all epsilons, minus the larger of those at both ends."""
        gains = curve(self.runs[0], case, "gain")
        return float(gains.max() - max(gains[0], gains[-1]))

    def equal_over_intrinsic(self, *, case: str) -> Answer:
        """The least epsilon from which on no model differs from the noiseless one, over epsilon_i.

        epsilon_i is where sigma_target is SGD's own noise.
        """
        epsilons = self["epsilons"]
        held = [self._trio(case, epsilon).counts for epsilon in epsilons]
        noisy = np.flatnonzero([np.any(counts[0] != counts[2]) for counts in held])
        after = int(noisy[-1]) + 1 if len(noisy) else 0
        equal_from = float(epsilons[after]) if after < len(epsilons) else math.inf
        target, sigma = self[f"{case}/sigma_target"][0, 0], self[f"{case}/sigma"]
        intrinsic = float(epsilons[0] * target / sigma)
        return Answer(equal_from / intrinsic, words=f"{equal_from:g} and {intrinsic:.3g}")

    def mean_gain_over(self, *, case: str, other: str) -> float:
        """Mean gain over all epsilons, over that of another case."""
        ours, theirs = (curve(self.runs[0], each, "gain").mean() for each in (case, other))
        return float(ours / theirs)


def _natural(numbers: Numbers) -> str:
    """What a paper's number is compared with: draws where its rows cannot be made again."""
    return "draws" if numbers["random_rows"] else "models"
