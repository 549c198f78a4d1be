"""Every method by its name, and `auto`, which chooses one by public facts."""

from __future__ import annotations

from sordino import _check
from sordino.estimators import rules
from sordino.estimators.dp_agd import AdaptiveDescent
from sordino.estimators.method import Method
from sordino.estimators.noisy import DpSgd, NoisyGradientDescent
from sordino.estimators.output import (
    BoltOn,
    NumericSgd,
    OutputGradientDescent,
    RestartedAverages,
)
from sordino.estimators.perturbed import NoisyObjective
from sordino.estimators.reference import Majority, NoPrivacy
from sordino.estimators.task import Plan, Settings, Task

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        RestartedAverages(),
        NumericSgd(),
        BoltOn(),
        OutputGradientDescent(),
        NoisyGradientDescent(),
        DpSgd(),
        NoisyObjective(),
        AdaptiveDescent(),
        NoPrivacy(),
        Majority(),
    )
}
NAMES = ("auto", *METHODS)


def named(name: str) -> Method:
    """One method."""
    return METHODS[name]


def plan(
    name: str, task: Task, given: Settings, start_norm: float = 0.0, *, starts: bool = False
) -> Plan:
    """The plan of a method, or of the one that `auto` chooses; `starts` if weights are given."""
    _check.one_of("method", name, NAMES)
    if name != "auto":
        if starts and not METHODS[name].starts:
            hint = "It has no start; a descent has one, such as method='noisy-gd'."
            _check.fail("initial_weights", "[...]", f"not to be given for method={name!r}", hint)
        return METHODS[name].plan(task, given, start_norm)
    for setting, value in given.given.items():
        hint = "Name a method to set it, such as method='rsgd-ar'."
        _check.fail(setting, value, "not to be given for method='auto', which chooses it", hint)
    return METHODS[rules.best_method(task, starts)].plan(task, given, start_norm)
