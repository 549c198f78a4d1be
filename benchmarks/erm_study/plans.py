"""Which plans a source needs, made once and light enough to be sent to every worker."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from erm_study.design import REFERENCES, default, estimator_method, grid, task
from erm_study.folds import Stored

from sordino._check import InvalidArgument
from sordino.estimators import methods
from sordino.estimators.task import Plan, Settings, Task
from sordino.privacy import Guarantee, NotApplicable

Light = tuple[str, Plan]
"""Fingerprint and plan."""


@dataclass(frozen=True)
class Proved:
    """A proof that was asked already; privacy loss distributions weigh megabytes."""

    stated: Guarantee

    def guarantee(self, delta: float) -> Guarantee:
        """The statement, at the only delta it was asked."""
        assert delta == self.stated.delta
        return self.stated


@dataclass(frozen=True)
class Planned:
    """Plans of one method for one source and loss, by epsilon.

    At defaults; and what the oracle chooses from, the default first, then the grid.

    A refusal stands for a plan where the method cannot meet the budget.
    """

    stored: Stored
    loss: str
    method: str
    defaults: dict[float, Light | str]
    tuned: dict[float, list[Light | str]]


def plan_method(stored: Stored, loss: str, method: str) -> Planned:
    """All plans of one method."""
    source, rows = stored.source, stored.training_rows
    settings = grid(method, loss, rows) if method in source.oracles else ()
    defaults, tuned = {}, {}
    for epsilon in source.epsilons:
        # References promise nothing, whatever the budget: one fit for all.
        asked = math.inf if method in REFERENCES else epsilon
        of = functools.partial(_plan, task(source, loss, rows, stored.columns, asked), method)
        defaults[epsilon] = _light(of(default(method, rows)))
        if settings:
            grid_plans = [_light(plan) for plan in _plans(of, settings)]
            tuned[epsilon] = [defaults[epsilon], *grid_plans]
    return Planned(stored, loss, method, defaults, tuned)


def _plans(
    of: Callable[[Settings], Plan | str], settings: Sequence[Settings]
) -> Iterator[Plan | str]:
    """DP-SGD's noise does not depend on the rate: found once for all rates of a grid."""
    found: dict[Settings, Plan | str] = {}
    for given in settings:
        if given.batch_size is None or given.steps is None:  # not DP-SGD
            yield of(given)
            continue
        key = dataclasses.replace(given, learning_rate=None)
        if key not in found:
            found[key] = of(given)
        plan = found[key]
        yield plan if isinstance(plan, str) else _with_rate(plan, given.learning_rate)


def _with_rate(plan: Plan, rate: float) -> Plan:
    return dataclasses.replace(
        plan,
        settings=dataclasses.replace(plan.settings, learning_rate=rate),
        spec=dataclasses.replace(plan.spec, learning_rate=rate),
    )


def _plan(asked: Task, method: str, settings: Settings) -> Plan | str:
    try:
        return methods.plan(estimator_method(method), asked, settings)
    except (InvalidArgument, NotApplicable) as refusal:
        return f"{type(refusal).__name__}: {refusal}"


def _light(plan: Plan | str) -> Light | str:
    if isinstance(plan, str):
        return plan
    if plan.proof is not None:
        plan = dataclasses.replace(plan, proof=Proved(plan.proof.guarantee(plan.task.delta)))
    return fingerprint(plan), plan


def fingerprint(plan: Plan) -> str:
    """Equal for plans that do the same: results are kept under it."""
    parts: list[Any] = [
        plan.method,
        {**dataclasses.asdict(plan.task), "relation": plan.task.relation.value},
        plan.settings.given,
        plan.spec.to_json() if plan.spec else None,
        *(plan.sigma, plan.scale, plan.l2),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]
