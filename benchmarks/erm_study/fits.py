"""One unit of work: every plan that is asked of one fold, trained, released and scored."""

from __future__ import annotations

import hashlib
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from erm_study import full_batch
from erm_study.design import L2
from erm_study.folds import Stored
from erm_study.plans import Light

from sordino.estimators import methods
from sordino.estimators.methods import Majority
from sordino.estimators.randomness import Randomness
from sordino.estimators.records import Records
from sordino.estimators.risk import NoMinimum
from sordino.estimators.task import Plan
from sordino.estimators.training import train_together
from sordino.mechanisms.release import ReleaseRefused, release

Floats = npt.NDArray[np.float64]
TUNING_DRAWS = 8
Score = tuple[float, float] | None
"""Accuracy on the held-out fold, objective on the training fold; None if nothing was released."""


@dataclass(frozen=True)
class Unit:
    """One fold of one repeat, for one loss."""

    stored: Stored
    loss: str
    repeat: int
    fold: int

    @property
    def name(self) -> str:
        """How results call it."""
        return f"{self.stored.source.name}/{self.loss}/{self.repeat}/{self.fold}"

    def randomness(self, *name: str) -> Randomness:
        """Seeded by this unit and a name."""
        digest = hashlib.sha256("/".join((self.name, *name)).encode()).digest()
        return Randomness.seeded(int.from_bytes(digest[:6], "big"))


@dataclass(frozen=True)
class Done:
    """Scores by fingerprint, and what they cost."""

    unit: Unit
    scores: dict[str, Score]
    seconds: dict[str, float]


def run(unit: Unit, wanted: Sequence[Light], tuning: bool) -> Done:
    """Train and score the plans.

    In tuning, equal trainings without noise are done once for all budgets, and the accuracy is the
    mean over several draws of the noise on the final weights: an oracle should choose by luck as
    little as it can.
    """
    warnings.simplefilter("ignore")
    training, held_out = unit.stored.records(unit.repeat, unit.fold)
    by_method: dict[str, list[Light]] = defaultdict(list)
    for light in wanted:
        by_method[light[1].method].append(light)
    seconds: dict[str, float] = {}
    released: dict[str, list[Floats]] = {}
    refused: list[str] = []
    for method, lights in by_method.items():
        began = time.perf_counter()
        trained = _trained(unit, lights, training, tuning)
        for (name, plan), weights in zip(lights, trained, strict=True):
            randomness = unit.randomness(name, "release")
            draws = TUNING_DRAWS if tuning and plan.spec is not None and plan.scale > 0 else 1
            out = [_released(plan, weights, randomness) for _ in range(draws)]
            refused.append(name) if out[0] is None else released.update({name: out})
        seconds[method] = time.perf_counter() - began
    began = time.perf_counter()
    scores: dict[str, Score] = dict.fromkeys(refused)
    scores.update(_scored(released, wanted[0][1], training, held_out) if released else {})
    seconds["scoring"] = time.perf_counter() - began
    return Done(unit, scores, seconds)


def _trained(
    unit: Unit, lights: Sequence[Light], records: Records, share: bool
) -> Iterable[Floats | None]:
    """Weights before release, one after the other."""
    plans = [plan for _, plan in lights]
    start = np.zeros((1, records.X.shape[1]))
    if plans[0].method == Majority.name:
        start[0, -1] = Majority.intercepts(records)[0]
        return [start[0]] * len(plans)
    if plans[0].spec is None:
        return (_trained_alone(unit, light, records, start) for light in lights)
    if not share:
        return _together(unit, lights, records, start)
    firsts: dict[object, int] = {}
    for place, plan in enumerate(plans):
        firsts.setdefault(plan.spec, place)
    distinct = _together(unit, [lights[i] for i in firsts.values()], records, start)
    weights = dict(zip(firsts, distinct, strict=True))
    return [weights[plan.spec] for plan in plans]


def _trained_alone(unit: Unit, light: Light, records: Records, start: Floats) -> Floats | None:
    name, plan = light
    try:
        trained = methods.named(plan.method).train(plan, records, unit.randomness(name), start)
    except NoMinimum:
        return None
    return np.asarray(trained[0])


def _together(
    unit: Unit, lights: Sequence[Light], records: Records, start: Floats
) -> Sequence[Floats]:
    plans = [plan for _, plan in lights]
    with np.errstate(over="ignore", invalid="ignore"):
        if all(full_batch.fits(plan) for plan in plans):
            return list(
                full_batch.descend(plans, records, [unit.randomness(name) for name, _ in lights])
            )
        return list(train_together(plans, records, unit.randomness(plans[0].method), start)[:, 0])


def _released(plan: Plan, weights: Floats | None, randomness: Randomness) -> Floats | None:
    if weights is None:
        return None
    try:
        out = release(
            weights,
            proof=plan.proof,
            epsilon=plan.task.epsilon if plan.proof else math.inf,
            delta=plan.task.delta,
            noise=randomness.released,
            scale=plan.scale,
            already_inside=plan.noise_inside,
        )
    except ReleaseRefused:
        return None
    return np.asarray(out.value)


def _scored(
    released: dict[str, list[Floats]], plan: Plan, training: Records, held_out: Records
) -> dict[str, Score]:
    """Mean accuracy of the draws, objective of the first."""
    positive = (held_out.labels(0) == 1)[:, None]
    accuracies = []
    for draws in released.values():
        scores = held_out.X @ np.stack(draws).T.astype(held_out.X.dtype)
        accuracies.append(float(((scores > 0) == positive).mean()))
    firsts = np.stack([draws[0] for draws in released.values()])
    objectives = training.risk(0, plan.task, L2).objective(firsts)
    return dict(zip(released, zip(accuracies, objectives.tolist(), strict=True), strict=True))
