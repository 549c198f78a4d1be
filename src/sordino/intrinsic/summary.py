"""`summary`: from a measured grid to every number of the tables, as one value.

All of it is INTERNAL: numbers without noise, from the records themselves. Every epsilon in it is an
`Estimate`: an estimate, not a guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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

BASE = -1
"""Label of the neighbour that is the dataset itself."""
MOST_TESTS = 6000
"""Weights tested for normality: v1 took 25 datasets, v2 50, and they are nearly copies."""
MOST_DATASETS = 50
SHOWN_RUNS = 20
"""Runs whose weights are followed through the training."""
MOST_BYTES = 2**29
"""Of weights held at once where all kept steps are gone through."""

NamedStream = Callable[..., np.random.Generator]
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class OverSteps:
    """The empirical sensitivity and sigma_i (minimum) after each kept number of steps."""

    steps: tuple[int, ...]
    sensitivity: Floats
    sigma: Floats


@dataclass(frozen=True)
class Trajectories:
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
    by_steps: OverSteps
    trajectories: Trajectories

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
        rows = {
            "initial weights": [each.init for each in self.inits],
            "sigma_i, the seed's own spread (least)": _texts(
                each.sigma["minimum"].value for each in self.inits
            ),
            "sensitivity: bound for one record": _texts(
                None if bound is None else bound.worst for _ in self.inits
            ),
            "sensitivity: largest seen": _texts(each.sensitivity for each in self.inits),
            "epsilon of the bound": _texts(
                each.by_bound.exact.epsilon if each.by_bound else None for each in self.inits
            ),
            "epsilon of the largest seen": _texts(
                each.by_observed.exact.epsilon if each.by_observed else None for each in self.inits
            ),
            "epsilon of the worst pair, its direction": _texts(
                each.worst.epsilon(delta).epsilon if each.worst else None for each in self.inits
            ),
        }
        grid = f"{len(self.measured.seeds)} seeds x {len(self.inits[0].neighbours)} datasets"
        return "\n".join(
            [
                f"INTERNAL. {grid}, {self.steps:,} steps, delta = {delta:.3g}.",
                "Every epsilon is an estimate, not a guarantee.",
                *(f"  {name:<42}" + "".join(f"{x:>12}" for x in row) for name, row in rows.items()),
                *(f"Note: {note}" for note in self.notes),
            ]
        )

    __repr__ = __str__


def summary(
    measured: Measured, *, delta: float | None = None, stream: NamedStream = randomness.stream
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
        raise StudyError(
            f"Expected study={measured.study.directory} to have 2 seeds and 2 datasets whose runs "
            f"are finished, and it has {seeds} and {datasets}. Measure more of them."
        )
    chosen = default_delta(n, exact=True) if delta is None else _delta(delta, n, notes)
    of_theory = theory(measured.spec, n, measured.dataset.norm_bound, last, measured.relation)
    if of_theory.reason:
        notes.append(f"No theoretical bound: {of_theory.reason}")
    # The products are small and many: threads would wait for each other longer than they compute.
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        inits = tuple(
            _Grid(measured, init, chosen, of_theory, stream, notes).summary()
            for init in measured.inits
        )
    return Summary(measured, last, chosen, of_theory, inits, tuple(notes))


class _Grid:
    """One init's grid, and the statistics of it."""

    def __init__(
        self,
        measured: Measured,
        init: str,
        delta: float,
        of_theory: Theory,
        stream: NamedStream,
        notes: list[str],
    ) -> None:
        self.measured, self.init, self.delta, self.theory = measured, init, delta, of_theory
        self.everything = measured.final(init)
        self.pairs = _pairs(measured)
        self.last = self.everything[:, self.pairs]
        self._stream, self._notes = stream, notes

    def summary(self) -> InitSummary:
        W = self.last
        delta_s = distances.between_datasets(W, stream=self.stream("delta_S"))
        sigmas = self._sigmas()
        sigma, bound, printed = sigmas["minimum"], self.theory.bound, self.theory.printed
        by_steps, trajectories = self._by_steps()
        still = (W[:1, :1] == W).all()  # neither seed nor record moved anything
        worst = directional.worst_pair
        datasets = max(1, min(MOST_DATASETS, MOST_TESTS // W.shape[2]))
        return InitSummary(
            init=self.init,
            neighbours=tuple(self.measured.neighbours[at] for at in self.pairs),
            delta_s=delta_s,
            delta_v=distances.between_seeds(W, stream=self.stream("delta_V")),
            delta_sv=distances.between_both(W, stream=self.stream("delta_S+V")),
            from_base=self._from_base(),
            gaussian=distances.against_gaussian(W, stream=self.stream("Gaussian vectors")),
            sigma=sigmas,
            across=spread.across_datasets(W),
            by_bound=self._epsilon(None if bound is None else bound.worst, sigma, False),
            by_printed=self._epsilon(None if printed is None else printed.value, sigma, False),
            by_observed=self._epsilon(delta_s.maximum, sigma, True),
            pairwise=self._try(
                *("pairwise epsilon", epsilon.pairwise_epsilon, delta_s.values),
                *(sigma.value, self.delta),
            ),
            worst=None if still else self._drawn("directional estimate", "directions", worst, W),
            normality=self._try(
                "normality of each weight", normality.shapiro_wilk, W, datasets=datasets
            ),
            joint=self._drawn("joint normality", "joint normality", normality.joint, W[:, 0]),
            by_comparisons=spread.sensitivity_curve(W),
            by_seeds=self._drawn("sigma against seeds", "seeds", spread.sigma_curve, W),
            by_steps=by_steps,
            trajectories=trajectories,
        )

    def stream(self, *name: str) -> np.random.Generator:
        return self._stream("summary", self.init, *name)

    def _from_base(self) -> Distances | None:
        base = self.measured.base
        if base is None:
            return None
        stream = self.stream("delta_S", "dataset itself")
        return distances.between_datasets(self.everything, stream=stream, against=base)

    def _sigmas(self) -> dict[str, Interval]:
        wanted: dict[str, tuple[spread.Aggregate, spread.Variant]] = {
            "minimum": ("minimum", "pooled"),
            "median": ("median", "pooled"),
            "per-weight": ("minimum", "per-weight"),
            "norm": ("minimum", "norm"),
        }
        return {
            name: spread.sigma(
                self.last, stream=self.stream("sigma", name), aggregate=aggregate, variant=variant
            )
            for name, (aggregate, variant) in wanted.items()
        }

    def _epsilon(
        self, sensitivity: float | None, sigma: Interval, observed: bool
    ) -> IntrinsicEpsilon | None:
        if sensitivity is None or (sensitivity == 0 and sigma.low == 0):
            return None  # neither seed nor record moved anything
        return epsilon.intrinsic_epsilon(sensitivity, sigma, self.delta, observed=observed)

    def _by_steps(self) -> tuple[OverSteps, Trajectories]:
        """Go through the kept steps, as many at once as fit into `MOST_BYTES`."""
        at, steps = self.measured.base or 0, tuple(sorted(self.measured.steps))
        moved = np.argsort(-self.everything[:, at].std(axis=0), kind="stable")[:2]
        size = max(1, MOST_BYTES // self.everything.nbytes)
        largest, spreads, followed = [], [], []
        for start in range(0, len(steps), size):
            W = self.measured.weights(self.init, steps=steps[start : start + size])
            followed.append(W[:SHOWN_RUNS, at][:, :, moved])
            for place in range(W.shape[2]):
                one = W[:, self.pairs, place]
                largest.append(float(distances.largest_by_pair(one).max()))
                spreads.append(float(spread.sigmas(one).min()))
        return (
            OverSteps(steps, np.array(largest), np.array(spreads)),
            Trajectories(steps, tuple(moved.tolist()), np.concatenate(followed, axis=1)),
        )

    def _drawn(
        self, what: str, name: str, compute: Callable[..., _Found], weights: Floats
    ) -> _Found | None:
        """One that draws from the stream of this name."""
        return self._try(what, compute, weights, stream=self.stream(name))

    def _try(
        self, what: str, compute: Callable[..., _Found], *arguments: Any, **named: Any
    ) -> _Found | None:
        """A statistic that small grids do not have: None, and a note that says why."""
        try:
            return compute(*arguments, **named)
        except InvalidArgument as error:
            self._notes.append(f"No {what} ({self.init}): {error}")
            return None


def _texts(values: Iterable[float | None]) -> list[str]:
    return ["-" if value is None else f"{value:.4g}" for value in values]


def _pairs(measured: Measured) -> list[int]:
    """Positions of the datasets that are compared: the papers', without the data itself."""
    there = range(len(measured.neighbours))
    replaced = [at for at in there if measured.neighbours[at] != BASE]
    return replaced if len(replaced) > 1 else list(there)


def _delta(delta: float, n: int, notes: list[str]) -> float:
    hint = "Pass less than one over the number of records, such as 1e-8."
    if checks.probability_below_one("delta", delta, hint) == 0:
        checks.fail("delta", delta, "in (0, 1)", "At 0 every epsilon would be infinite.")
    if delta > 1 / (10 * n):
        notes.append(
            f"delta = {delta:.3g} is large for {n:,} records: at 1/n publishing a record at random "
            "would pass."
        )
    return delta
