"""Which plans a source needs, made once and light enough to be sent to every worker."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from erm_study.design import REFERENCES, default, estimator_method, grid, task
from erm_study.folds import Stored
from sordino._check import InvalidArgument
from sordino.estimators import methods
from sordino.estimators.task import Plan, Settings
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
    """Plans of one method for one source and loss: at defaults and on the grid, by epsilon.

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
        defaults[epsilon] = _light(stored, loss, method, epsilon, default(method, rows))
        tuned[epsilon] = [_light(stored, loss, method, epsilon, given) for given in settings]
    return Planned(stored, loss, method, defaults, tuned)


def _light(
    stored: Stored, loss: str, method: str, epsilon: float, settings: Settings
) -> Light | str:
    if method in REFERENCES:
        epsilon = math.inf  # nothing is promised, whatever the budget: one fit for all
    asked = task(stored.source, loss, stored.training_rows, stored.columns, epsilon)
    try:
        plan = methods.plan(estimator_method(method), asked, settings)
    except (InvalidArgument, NotApplicable) as refusal:
        return f"{type(refusal).__name__}: {refusal}"
    if plan.proof is not None:
        plan = dataclasses.replace(plan, proof=Proved(plan.proof.guarantee(asked.delta)))
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
