"""The paper's methods by name: at the package's public defaults, tuned, or with the noise of old.

=================  ==============================================================================
a method's name    as the estimators have it: public rules, the least noise that is proved
"NAME/tuned"       the best of these and of the file's settings, by the accuracy that is shown
"sgd-ma"           DP-SGD in batches of sqrt(n) by the moments accountant, as the paper has it
"sgd-ma/2016"      the same with Abadi et al.'s own accountant: whole orders up to a highest one
"objective/2011"   objective perturbation with Chaudhuri, Monteleoni & Sarwate's noise: no delta
"objective/2012"   with Kifer, Smith & Thakurta's Gaussian noise
"output-gd/inside" the descent of output-gd, step by step, with the noise on its gradients
=================  ==============================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from sordino.accounting import renyi
from sordino.accounting.pld.loss import DIRECTIONS, PoissonLoss
from sordino.accounting.pld.numerics import first_below
from sordino.errors import NotApplicable
from sordino.estimators import methods
from sordino.estimators.fit import FitPlan, FitRecords, Randomness, Settings, Task
from sordino.estimators.methods.noisy_steps import DP_SGD
from sordino.release.mechanism import SLACK
from sordino.types import Floats

REFERENCES = ("none", "majority")
_LEFT = 1e-6
"""Norm of the mean gradient at which minimising stops where nothing is proved of it."""


@dataclass(frozen=True, kw_only=True)
class MethodSettings:
    """What runs of more than one kind say: the dataset, its form, methods, and delta and l2."""

    data: str
    form: str | None = "erm"
    methods: tuple[str, ...]
    delta: float
    l2: float


def make_plans(
    method: str, task: Task, tries: Callable[[str], list[dict[str, float]]], orders: int
) -> list[FitPlan | None]:
    """A method's plans for one budget: one, or one a setting that is tried; None if it cannot.

    `tries` gives the settings of a tuned method, `orders` is the highest order of "sgd-ma/2016".
    """
    name, _, variant = method.partition("/")
    if variant != "tuned":
        return [_or_none(lambda: _plan_of(method, task, orders))]
    estimator, public = as_estimator(name, task.rows)
    tried = [_setting(each, public, task) for each in tries(name)]
    return [_or_none(lambda how=how: _plan(estimator, task, how)) for how in (public, *tried)]


def _or_none(make: Callable[..., FitPlan | None]) -> FitPlan | None:
    try:
        return make()
    except NotApplicable:
        return None


def _plan_of(method: str, task: Task, orders: int) -> FitPlan | None:
    if method in REFERENCES:
        return _plan(method, replace(task, epsilon=math.inf), Settings())
    if method == "sgd-ma/2016":
        return _old_moments(task, orders)
    if method == "output-gd/inside":
        outside = _plan("output-gd", task, Settings()).settings
        given = Settings(steps=outside.steps, learning_rate=outside.learning_rate)
        return _plan("noisy-gd", task, given)
    estimator, public = as_estimator(method, task.rows)
    return _plan(estimator, task, public)


def as_estimator(method: str, rows: int) -> tuple[str, Settings]:
    """The estimators' name of a method, and what is set by hand: for SGD-MA what the paper says."""
    if method != "sgd-ma":
        return method, Settings()
    return "dp-sgd", Settings(accountant="moments", batch_size=max(1, round(math.sqrt(rows))))


def _plan(name: str, task: Task, given: Settings) -> FitPlan:
    """Folds ask the same again; and the noise of DP-SGD, slow to find, does not know the rate."""
    rate = given.learning_rate
    if rate is None or given.steps is None or given.batch_size is None:
        return _light_plan(name, task, given)
    plan = _light_plan(name, task, replace(given, learning_rate=1.0))
    assert plan.spec is not None
    return replace(
        plan,
        settings=replace(plan.settings, learning_rate=rate),
        spec=replace(plan.spec, learning_rate=rate),
    )


@lru_cache(512)
def _light_plan(name: str, task: Task, given: Settings) -> FitPlan:
    """Without its proof, which weighs megabytes where it is a privacy loss distribution."""
    plan = methods.plan(name, task, given)
    if plan.proof is not None:  # a release would refuse it otherwise
        assert plan.proof.guarantee(task.delta).epsilon <= task.epsilon * (1 + SLACK)
    return replace(plan, proof=None, evidence=None)


def _setting(given: Mapping[str, Any], public: Settings, task: Task) -> Settings:
    """A file's setting: `rate` in inverse smoothnesses, the rest as the estimators have it."""
    rest = dict(given)
    if "rate" in rest:
        rest["learning_rate"] = rest.pop("rate") / task.constants.smooth
    return Settings(**{"accountant": public.accountant, **rest})


def _old_moments(task: Task, orders: int) -> FitPlan | None:
    """DP-SGD as of 2016, under its own add-or-remove-one; nothing if no noise is enough."""
    method = DP_SGD
    given = method.settings(task, Settings(batch_size=round(math.sqrt(task.rows))))
    spec = method.spec(task, given)
    rate, steps = spec.batch_size / task.rows, spec.total_steps(task.rows)
    noise = old_moments_noise(task.epsilon, task.delta, rate, steps, orders)
    if noise is None:
        return None
    spec = replace(spec, noise_multiplier=noise)
    sigma = noise * task.norm
    return FitPlan(method.name, task, given, None, sigma, 0.0, "in every step", spec, task.l2)


def old_moments_epsilon(noise: float, delta: float, rate: float, steps: int, orders: int) -> float:
    """Epsilon by Abadi et al. 2016: the least over whole moments 1 to `orders`."""
    moments = np.arange(1.0, orders + 1)
    loss = PoissonLoss(noise_multiplier=noise, sample_rate=rate)
    logs = np.max([loss.log_moments(moments, direction) for direction in DIRECTIONS], axis=0)
    return float(renyi.mironov(moments + 1, steps * logs / moments, delta).min())


def least_epsilon(delta: float, orders: int) -> float:
    """What the conversion alone costs at the highest order, with any noise: ln(1/delta)/orders."""
    return -math.log(delta) / orders


def old_moments_noise(
    epsilon: float, delta: float, sample_rate: float, steps: int, orders: int
) -> float | None:
    """The least noise multiplier by that accountant; None if no noise is enough."""
    if epsilon <= least_epsilon(delta, orders):
        return None

    def excess(noise: float) -> float:
        return old_moments_epsilon(noise, delta, sample_rate, steps, orders) - epsilon

    low, high = 0.5, 1.0
    while excess(high) > 0:  # ends: above, some noise is enough
        low, high = high, 2 * high
    return high if excess(low) <= 0 else first_below(excess, low, high, 1e-6)


def old_objective(
    method: str, task: Task, records: FitRecords, randomness: Randomness
) -> tuple[Floats, float]:
    """The minimiser with the noise of 2011 or 2012, and the size of one coefficient's noise."""
    if method == "objective/2012":
        l2, sigma = noise_2012(task)
        linear = randomness.released.perturb(np.zeros(task.columns), sigma)
    else:
        l2, scale = noise_2011(task)
        draw = randomness.orders.stream("objective 2011")
        direction = draw.standard_normal(task.columns)
        linear = direction / np.linalg.norm(direction) * draw.gamma(task.columns, scale)
        sigma = scale * math.sqrt(task.columns + 1)  # so that E||b||^2 = columns sigma^2
    found = records.risk(0, task, l2).minimise(np.asarray(linear) / task.rows, _LEFT)
    return found, sigma


def noise_2012(task: Task) -> tuple[float, float]:
    """Regulariser and standard deviation of each coefficient: Kifer, Smith & Thakurta 2012.

    sqrt(8 ln(2/delta) + 4 epsilon) / epsilon for gradients of norm 1, and 2 curvature / epsilon
    more of a regulariser on the sum (docs/math.md 10.1).
    """
    curvature = task.curvature * task.norm**2
    l2 = task.l2 + 2 * curvature / (task.epsilon * task.rows)
    spread = math.sqrt(8 * math.log(2 / task.delta) + 4 * task.epsilon)
    return l2, task.norm * spread / task.epsilon


def noise_2011(task: Task) -> tuple[float, float]:
    """Regulariser and scale of the norm's Gamma law: Chaudhuri et al. 2011, Algorithm 2."""
    curvature, rows = task.curvature * task.norm**2, task.rows
    left = task.epsilon - 2 * math.log1p(curvature / (rows * task.l2))
    if left > 0:
        return task.l2, 2 * task.norm / left
    l2 = curvature / (rows * math.expm1(task.epsilon / 4))
    return l2, 2 * task.norm / (task.epsilon / 2)
