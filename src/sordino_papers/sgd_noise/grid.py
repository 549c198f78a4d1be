"""Kind "grid": seeds x neighbouring datasets, trained by `intrinsic.measure`, and their statistics.

They are asked of `sordino.intrinsic` one by one: its `summary` also looks for directions, which no
table of the papers has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import threadpoolctl

from sordino import randomness
from sordino.intrinsic import distances, epsilon, normality, spread
from sordino.intrinsic.grid import Measured, load
from sordino.intrinsic.theory import printed_sensitivity, theory
from sordino.models.constants import ObjectiveSpec
from sordino.sgd.spec import TrainSpec
from sordino.types import Indices
from sordino_papers.runs import read_settings

if TYPE_CHECKING:
    from sordino.data.dataset import Dataset
    from sordino_papers.quantities import Numbers
    from sordino_papers.runs import RunStore

_MOST = 20_000
"""Distances that are kept, for drawings and shares; maxima are of all."""
_SHOWN_RUNS = 20
"""Runs whose weights are followed through the training."""
_CURVE_SIZES, _CURVE_DRAWS = 16, 60
"""Numbers of seeds at which sigma_i is computed, and random subsets of each."""
_NORMAL_95 = 1.959964


@dataclass(frozen=True)
class GridSettings:
    """What a run of this kind may say.

    Parameters
    ----------
    data, form
        As `sordino.data.load` takes them.
    model
        "logistic", "mlp" or "cnn".
    learning_rate, batch_size, steps, hidden
        Of the training.
    seeds, neighbours, init, checkpoints
        Of the grid; neighbours are replaced records, the dataset itself is trained on, too.
    tested
        Datasets whose weights are tested for normality.
    accuracy_runs
        Runs, one a seed, whose accuracy on the test rows is computed.
    claimed_norm
        Norm of the rows that a paper computes its bound with, where they have none that holds.
    follow
        Two weights whose paths are kept; if none are given, those that the seed moves most.
    half
        Whether only every second record is used, for half the steps: as many passes.
    """

    data: str
    model: str
    learning_rate: float
    batch_size: int
    steps: int
    seeds: int
    neighbours: int
    init: tuple[str, ...] = ("vary", "fixed")
    checkpoints: int = 1
    hidden: int | None = None
    form: str | None = None
    tested: int = 1
    accuracy_runs: int = 100
    claimed_norm: float | None = None
    follow: tuple[int, ...] = ()
    half: bool = False

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> GridSettings:
        """Of a file; an unknown key is refused."""
        inits = given.get("init", cls.init)
        named = (inits,) if isinstance(inits, str) else inits
        return read_settings(cls, {**given, "init": named}, "init", "follow")

    @property
    def spec(self) -> TrainSpec:
        """How to train."""
        objective = ObjectiveSpec(self.model)
        if self.hidden is not None:
            objective = replace(objective, hidden=self.hidden)
        steps = round(self.steps / 2) if self.half else self.steps
        return TrainSpec(objective, self.learning_rate, self.batch_size, steps=steps)

    @property
    def trained(self) -> dict[str, Any]:
        """What the weights depend on: the study is named by it."""
        others = ("tested", "accuracy_runs", "claimed_norm", "follow")
        return {name: value for name, value in vars(self).items() if name not in others}


def make(settings: Mapping[str, Any], store: RunStore) -> Numbers:
    """Train the grid, or go on with it, and compute its numbers."""
    given = GridSettings.read(settings)
    splits = store.splits(given.data, given.form)
    measured = _train(given, splits.train, store)
    if given.follow:
        followed = np.array(given.follow, dtype=np.intp)
    else:  # the two that the seed moves most: chosen to be seen, not to be typical
        moved = measured.final(measured.inits[0])[:, measured.base or 0].std(axis=0)
        followed = np.argsort(-moved, kind="stable")[:2]
    found: dict[str, Any] = {**_facts(given, measured), **_bounds(given, measured)}
    found["trajectory_weights"] = followed
    # The products are small and many: threads would wait for each other longer than they compute.
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        for init in measured.inits:
            numbers = _Init(given, measured, init, followed).numbers(splits.test)
            found.update({f"{init}/{name}": value for name, value in numbers.items()})
    return {name: np.asarray(value) for name, value in found.items()}


def _train(given: GridSettings, train: Dataset, store: RunStore) -> Measured:
    from sordino.intrinsic.measure import measure

    if given.half:
        stream = randomness.stream("reproduce", "half", given.data)
        train = train.take(np.sort(stream.permutation(train.rows)[::2]))
    study = measure(
        *(given.spec, train, given.seeds, given.neighbours),
        init=given.init,
        checkpoints=given.checkpoints,
        store=store.folder("grid", given.trained),
        client=store.client,
        progress=lambda progress: store.tell(progress.runs_done, progress.runs_total),
    )
    return load(study)


def _facts(given: GridSettings, measured: Measured) -> dict[str, Any]:
    """What was run."""
    n, seeds, datasets = measured.dataset.size, len(measured.seeds), len(_replaced(measured))
    return {
        "n": n,
        **{f"delta_v{version}": epsilon.usual_delta(n, version=version) for version in (1, 2)},
        "parameters": measured.parameters,
        "hidden": math.nan if given.hidden is None else given.hidden,
        "seeds": seeds,
        "neighbours": datasets,
        "experiments": seeds * datasets * len(measured.inits),
        "steps": np.array(sorted(measured.steps)),
        "batch_size": given.batch_size,
        "learning_rate": given.learning_rate,
    }


def _bounds(given: GridSettings, measured: Measured) -> dict[str, Any]:
    """The papers' fraction of a bound, by both lengths of a pass, and the bound that holds."""
    facts, steps, spec = measured.dataset, max(measured.steps), measured.spec
    assert spec is not None
    norm = given.claimed_norm if facts.norm_bound is None else facts.norm_bound
    last = theory(spec, facts.size, norm, steps, measured.relation)
    constants = None if norm is None else spec.objective.constants(norm)
    if last.bound is None or last.printed is None or constants is None:
        nothing = dict.fromkeys(("bound_printed", "bound_whole_batches", "bound_holds"), math.nan)
        empty = {f"bound_curve/{name}": np.empty(0) for name in ("steps", "holds", "printed")}
        return {**nothing, **empty}
    whole = printed_sensitivity(
        constants, facts.size, spec.batch_size, spec.schedule.rate, steps, whole_batches=True
    )
    return {
        "bound_printed": last.printed.value,
        "bound_whole_batches": whole.value,
        "bound_holds": math.nan if facts.norm_bound is None else last.bound.worst,
        "bound_curve/steps": np.array(last.steps),
        "bound_curve/holds": last.bounds,
        "bound_curve/printed": last.fractions,
    }


def _replaced(measured: Measured) -> list[int]:
    """Positions of the datasets that are compared: the papers', without the data itself."""
    return [at for at in range(len(measured.neighbours)) if at != measured.base]


class _Init:
    """One kind of initial weights."""

    def __init__(self, given: GridSettings, grid: Measured, init: str, followed: Indices) -> None:
        self.given, self.measured, self.init, self.followed = given, grid, init, followed
        self.replaced = _replaced(grid)
        self.W = grid.final(init)[:, self.replaced]

    def numbers(self, test: Dataset | None) -> dict[str, Any]:
        return {
            **self._sigmas(),
            **self._distances(),
            **self._settling(),
            **self._by_steps(),
            **({} if test is None else self._accuracy(test)),
        }

    def stream(self, *name: str) -> np.random.Generator:
        return randomness.stream("reproduce", "grid", self.init, *name)

    def _sigmas(self) -> dict[str, Any]:
        numbers: dict[str, Any] = {"sigma_by_dataset": spread.sigmas(self.W)}
        wanted: dict[str, tuple[spread.Aggregate, spread.Variant]] = {
            "sigma": ("minimum", "pooled"),
            "sigma_median": ("median", "pooled"),
            "sigma_per_weight": ("median", "per-weight"),
            "sigma_norm": ("median", "norm"),
        }
        for name, (aggregate, variant) in wanted.items():
            stream = self.stream(name)
            one = spread.sigma(self.W, stream=stream, aggregate=aggregate, variant=variant)
            numbers[name] = np.array([one.value, one.low, one.high])
        return numbers

    def _distances(self) -> dict[str, Any]:
        """delta_S, delta_V and others; of each two datasets, the largest delta_S over seeds.

        Beside them the p-values of the weights.
        """
        W, most, stream = self.W, _MOST, self.stream
        delta_s = distances.between_datasets(W, stream=stream("delta_S"), most=most)
        delta_v = distances.between_seeds(W, stream=stream("delta_V"), most=most)
        delta_sv = distances.between_both(W, stream=stream("delta_S+V"), most=most)
        gaussian = distances.against_gaussian(W, stream=stream("Gaussian vectors"), most=most)
        total = sum((distances.largest_by_pair(rows[None]) for rows in W), np.zeros(()))
        pairs, tested = np.triu_indices(W.shape[1], 1), min(self.given.tested, W.shape[1])
        values = {
            "delta_s": delta_s.values,
            "delta_v": delta_v.values,
            "delta_sv": delta_sv.values,
            "gaussian_distances": gaussian.gaussian,
            "delta_s_pairs": total[pairs] / len(W),
            "delta_s_pairs_largest": distances.largest_by_pair(W)[pairs],
            "p_values": normality.shapiro_wilk(W, datasets=tested).p_values,
        }
        # For drawings and shares: seven digits are enough, and half the bytes.
        short = {name: each.astype(np.float32) for name, each in values.items()}
        return {"sensitivity": delta_s.maximum, **short}

    def _settling(self) -> dict[str, Any]:
        seeds = self.W.shape[0]
        sizes = np.unique(np.rint(np.linspace(2, seeds, _CURVE_SIZES)).astype(int)).tolist()
        stream = self.stream("seeds")
        by_seeds = spread.sigma_curve(self.W, stream=stream, sizes=sizes, draws=_CURVE_DRAWS)
        curves = {"by_comparisons": spread.sensitivity_curve(self.W), "by_seeds": by_seeds}
        numbers: dict[str, Any] = {}
        for name, curve in curves.items():
            numbers[f"{name}/x"] = np.array(curve.sizes)
            for part in ("middle", "low", "high"):
                numbers[f"{name}/{part}"] = getattr(curve, part)
        return numbers

    def _by_steps(self) -> dict[str, Any]:
        """Sensitivity and sigma after each kept step, and two weights of some runs."""
        base = self.measured.base or 0
        largest, spreads, followed = [], [], []
        # One step at a time: all of a network's would not fit into memory with other things.
        for step in sorted(self.measured.steps):
            W = self.measured.weights(self.init, steps=[step])[:, :, 0]
            followed.append(W[:_SHOWN_RUNS, base][:, self.followed])
            largest.append(float(distances.largest_by_pair(W[:, self.replaced]).max()))
            spreads.append(float(spread.sigmas(W[:, self.replaced]).min()))
        return {
            "by_steps/sensitivity": np.array(largest),
            "by_steps/sigma": np.array(spreads),
            "trajectories": np.stack(followed, axis=1),
        }

    def _accuracy(self, test: Dataset) -> dict[str, Any]:
        """On held-out rows, of runs that share neither seed nor, but by chance, dataset."""
        from sordino.models import build

        stream = self.stream("accuracy")
        seeds, datasets = self.W.shape[:2]
        chosen = stream.permutation(seeds)[: self.given.accuracy_runs]
        weights = self.W[chosen, stream.integers(0, datasets, len(chosen))]
        assert self.measured.spec is not None
        objective = build(self.measured.spec.objective, test.features, test.image_shape)
        found = objective.accuracy(weights.astype(np.float32), test.X, test.y)
        mean, deviation = float(found.mean()), float(found.std(ddof=1))
        half = _NORMAL_95 * deviation / math.sqrt(len(found))
        return {"accuracy": np.array([mean, mean - half, mean + half]), "accuracy_sd": deviation}
