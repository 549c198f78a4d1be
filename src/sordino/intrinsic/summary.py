"""`summary`: from a measured grid to every number of the tables, as one value.

All of it is INTERNAL: numbers without noise, from the records themselves. Every epsilon in it is an
`Estimate`: an estimate, not a guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import threadpoolctl

from sordino import checks, randomness
from sordino.errors import InvalidArgument
from sordino.intrinsic import directional, distances, epsilon, normality, spread
from sordino.intrinsic.directional import Directional
from sordino.intrinsic.distances import Distances, GaussianComparison
from sordino.intrinsic.epsilon import IntrinsicEpsilon, PairwiseEpsilon
from sordino.intrinsic.grid import Measured
from sordino.intrinsic.interval import Interval
from sordino.intrinsic.normality import JointNormality, Normality
from sordino.intrinsic.spread import AcrossDatasets, SubsetCurve
from sordino.intrinsic.theory import Theory, theory
from sordino.privacy import default_delta
from sordino.study import StudyError
from sordino.types import Floats

_MOST_TESTS, _MOST_DATASETS = 6000, 50
"""Weights tested for normality: v1 took 25 datasets, v2 50, and they are nearly copies."""
_MOST_BYTES = 2**29
"""Of weights held at once where all kept steps are gone through."""
_SIGMAS: dict[str, tuple[spread.Aggregate, spread.Variant]] = {
    "minimum": ("minimum", "pooled"),
    "median": ("median", "pooled"),
    "per-weight": ("minimum", "per-weight"),
    "norm": ("minimum", "norm"),
}

_NamedStream = Callable[..., np.random.Generator]
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class _OverSteps:
    """The empirical sensitivity and sigma_i (minimum) after each kept number of steps."""

    steps: tuple[int, ...]
    sensitivity: Floats
    sigma: Floats


@dataclass(frozen=True)
class _Trajectories:
    """Two weights of one dataset through the training: values[seed, step, weight].

    They are the two that the seed moves most at the end: chosen to be seen, not to be typical.
    """

    steps: tuple[int, ...]
    weights: tuple[int, ...]
    values: Floats


@dataclass(frozen=True)
class InitSummary:
    """What one kind of initial weights ("vary" or "fixed") gave, after the last kept step.

    Parameters
    ----------
    init
        Its label.
    neighbours
        Labels of the datasets compared: of the grid, all but the data itself, as in the papers.
    delta_s, delta_v, delta_sv
        Distances of runs that differ in the data, the seed, or both.
    from_base
        delta_S between the dataset itself and each neighbour, where it is in the grid: these
        differ in one place, other pairs in two.
    gaussian
        delta_V beside distances of Gaussian vectors.
    sigma
        sigma_i by name: "minimum" (v2), "median" (v1), and v2's footnote: "per-weight" and "norm"
        (minima).
    across
        sigma_a over datasets.
    by_bound, by_printed, by_observed
        epsilon_i of the bound that holds, of the papers' fraction of it, and epsilon_i* of the
        empirical sensitivity, each with v2's sigma and by both formulas. None: no such number.
    pairwise
        Epsilon of every pair of datasets.
    worst
        The two datasets that are easiest to tell apart, direction by direction. `worst.pair` are
        positions in `neighbours`.
    normality, joint
        Tests of single weights, and of all weights of the first dataset.
    by_comparisons, by_seeds, by_steps
        How settled the numbers are, and how they grow with the training.
    """

    init: str
    neighbours: tuple[int, ...]
    delta_s: Distances
    delta_v: Distances
    delta_sv: Distances
    from_base: Distances | None
    gaussian: GaussianComparison
    sigma: Mapping[str, Interval]
    across: AcrossDatasets
    by_bound: IntrinsicEpsilon | None
    by_printed: IntrinsicEpsilon | None
    by_observed: IntrinsicEpsilon | None
    pairwise: PairwiseEpsilon | None
    worst: Directional | None
    normality: Normality | None
    joint: JointNormality | None
    by_comparisons: SubsetCurve
    by_seeds: SubsetCurve | None
    by_steps: _OverSteps
    trajectories: _Trajectories

    @property
    def sensitivity(self) -> float:
        """The papers' empirical sensitivity: the largest delta_S, a LOWER estimate."""
        return self.delta_s.maximum


@dataclass(frozen=True, repr=False)
class Summary:
    """Every number of a measured grid. INTERNAL; each epsilon is an estimate, not a guarantee.

    Printed, it is a table of the numbers that matter most; `sordino measure show` has all of them.
    """

    measured: Measured
    steps: int
    delta: float
    theory: Theory
    inits: tuple[InitSummary, ...]
    notes: tuple[str, ...]

    def of(self, init: str) -> InitSummary:
        """What "vary" or "fixed" initial weights gave."""
        checks.one_of("init", init, [each.init for each in self.inits])
        return next(each for each in self.inits if each.init == init)

    def __str__(self) -> str:
        bound, delta = self.theory.bound, self.delta
        numbers: dict[str, Callable[[InitSummary], float | None]] = {
            "sigma_i, the seed's own spread (least)": lambda one: one.sigma["minimum"].value,
            "sensitivity: bound for one record": lambda _: bound.worst if bound else None,
            "sensitivity: largest seen": lambda one: one.sensitivity,
            "epsilon of the bound": lambda one: _exact(one.by_bound),
            "epsilon of the largest seen": lambda one: _exact(one.by_observed),
            "epsilon of the worst pair, its direction": lambda one: (
                one.worst.epsilon(delta).epsilon if one.worst else None
            ),
        }
        rows = {"initial weights": [each.init for each in self.inits]}
        for name, number in numbers.items():
            found = [number(each) for each in self.inits]
            rows[name] = ["-" if value is None else f"{value:.4g}" for value in found]
        grid = f"{len(self.measured.seeds)} seeds x {len(self.inits[0].neighbours)} datasets"
        lines = [f"INTERNAL. {grid}, {self.steps:,} steps, delta = {delta:.3g}."]
        lines.append("Every epsilon is an estimate, not a guarantee.")
        for name, row in rows.items():
            lines.append(f"  {name:<42}" + "".join(f"{x:>12}" for x in row))
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])

    __repr__ = __str__


def _exact(found: IntrinsicEpsilon | None) -> float | None:
    return found.exact.epsilon if found else None


def summary(
    measured: Measured, *, delta: float | None = None, stream: _NamedStream = randomness.stream
) -> Summary:
    """Compute every statistic of a measured grid; some seconds for 98 seeds x 100 neighbours.

    Parameters
    ----------
    measured
        As `sordino.intrinsic.grid.load` gives it.
    delta
        Where epsilons are estimated; None is v2's 1 / n^2.
    stream
        Gives the named streams of `sordino.randomness` that pairs and resamples are drawn from.

    Raises
    ------
    StudyError
        If fewer than two seeds or two neighbours are complete.
    """
    n, last = measured.dataset.size, max(measured.steps)
    notes = [f"{said[0].upper()}{said[1:]}." for said in measured.left_out]
    seeds, datasets = len(measured.seeds), len(measured.neighbours)
    if min(seeds, datasets) < 2:
        wanted = f"to have 2 seeds and 2 datasets finished, not {seeds} and {datasets}"
        checks.fail("study", measured.study.directory, wanted, "Measure more.", StudyError)
    if delta is None:
        delta = default_delta(n, exact=True)
    elif checks.probability_below_one("delta", delta, "Pass less than 1 / records.") == 0:
        checks.fail("delta", delta, "in (0, 1)", "At 0 every epsilon would be infinite.")
    elif delta > 1 / (10 * n):
        notes.append(f"delta = {delta:.3g} is large for {n:,} records; at 1/n one may be leaked.")
    bounds = theory(measured.spec, n, measured.dataset.norm_bound, last, measured.relation)
    if bounds.reason:
        notes.append(f"No theoretical bound: {bounds.reason}")
    # The products are small and many: threads would wait for each other longer than they compute.
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        inits = [_of_init(measured, init, delta, bounds, stream, notes) for init in measured.inits]
    return Summary(measured, last, delta, bounds, tuple(inits), tuple(notes))


def _of_init(
    measured: Measured,
    init: str,
    delta: float,
    bounds: Theory,
    streams: _NamedStream,
    notes: list[str],
) -> InitSummary:
    """The statistics of one kind of initial weights."""

    def stream(*name: str) -> np.random.Generator:
        return streams("summary", init, *name)

    def maybe(what: str, make: Callable[..., _Found], *given: Any, **named: Any) -> _Found | None:
        """A statistic that small grids do not have: None, and a note that says why."""
        try:
            return make(*given, **named)
        except InvalidArgument as error:
            notes.append(f"No {what} ({init}): {error}")
            return None

    def epsilon_of(sensitivity: float | None, observed: bool = False) -> IntrinsicEpsilon | None:
        if sensitivity is None or (sensitivity == 0 and sigma.low == 0):
            return None  # neither seed nor record moved anything
        return epsilon.intrinsic_epsilon(sensitivity, sigma, delta, observed=observed)

    everything = measured.final(init)
    # The papers' datasets: without the data itself.
    places = [at for at, label in enumerate(measured.neighbours) if label != -1]
    if len(places) < 2:
        places = list(range(len(measured.neighbours)))
    W = everything[:, places]
    delta_s = distances.between_datasets(W, stream=stream("delta_S"))
    sigmas = {
        name: spread.sigma(W, stream=stream("sigma", name), aggregate=aggregate, variant=variant)
        for name, (aggregate, variant) in _SIGMAS.items()
    }
    sigma, base, worst, from_base = sigmas["minimum"], measured.base, None, None
    by_steps, trajectories = _by_steps(measured, init, everything, places)
    if base is not None:
        own = stream("delta_S", "dataset itself")
        from_base = distances.between_datasets(everything, stream=own, against=base)
    gaps = delta_s.values, sigma.value, delta
    pairwise = maybe("pairwise epsilon", epsilon.pairwise_epsilon, *gaps)
    if not (W[:1, :1] == W).all():  # or neither seed nor record moved anything
        folds = stream("directions")
        worst = maybe("directional estimate", directional.worst_pair, W, stream=folds)
    datasets = max(1, min(_MOST_DATASETS, _MOST_TESTS // W.shape[2]))
    return InitSummary(
        init=init,
        neighbours=tuple(measured.neighbours[at] for at in places),
        delta_s=delta_s,
        delta_v=distances.between_seeds(W, stream=stream("delta_V")),
        delta_sv=distances.between_both(W, stream=stream("delta_S+V")),
        from_base=from_base,
        gaussian=distances.against_gaussian(W, stream=stream("Gaussian vectors")),
        sigma=sigmas,
        across=spread.across_datasets(W),
        by_bound=epsilon_of(bounds.bound.worst if bounds.bound else None),
        by_printed=epsilon_of(bounds.printed.value if bounds.printed else None),
        by_observed=epsilon_of(delta_s.maximum, observed=True),
        pairwise=pairwise,
        worst=worst,
        normality=maybe("normality of each weight", normality.shapiro_wilk, W, datasets=datasets),
        joint=maybe("joint normality", normality.joint, W[:, 0], stream=stream("joint normality")),
        by_comparisons=spread.sensitivity_curve(W),
        by_seeds=maybe("sigma against seeds", spread.sigma_curve, W, stream=stream("seeds")),
        by_steps=by_steps,
        trajectories=trajectories,
    )


def _by_steps(
    measured: Measured, init: str, everything: Floats, places: list[int]
) -> tuple[_OverSteps, _Trajectories]:
    """Go through the kept steps, as many at once as fit into `_MOST_BYTES`."""
    at, steps = measured.base or 0, tuple(sorted(measured.steps))
    moved = np.argsort(-everything[:, at].std(axis=0), kind="stable")[:2]
    size = max(1, _MOST_BYTES // everything.nbytes)
    largest, spreads, followed = [], [], []
    for start in range(0, len(steps), size):
        W = measured.weights(init, steps=steps[start : start + size])
        # Runs whose weights are followed through the training.
        followed.append(W[:20, at][:, :, moved])
        for place in range(W.shape[2]):
            one = W[:, places, place]
            largest.append(float(distances.largest_by_pair(one).max()))
            spreads.append(float(spread.sigmas(one).min()))
    return (
        _OverSteps(steps, np.array(largest), np.array(spreads)),
        _Trajectories(steps, tuple(moved.tolist()), np.concatenate(followed, axis=1)),
    )
