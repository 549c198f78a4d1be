"""`Method`: one way to train and release a private linear model."""

from __future__ import annotations

from abc import ABC, abstractmethod

from sordino import _check
from sordino.estimators.randomness import Randomness
from sordino.estimators.records import Records
from sordino.estimators.task import Plan, Settings, Task
from sordino.privacy import NotApplicable, Relation
from sordino.types import Floats


class Method(ABC):
    """Plan first, from public facts; then train. The base class of the estimators releases."""

    name: str
    starts: bool = True
    """Whether it starts from initial weights; a minimiser does not."""
    takes: tuple[str, ...]
    """Settings that mean something to it; others are refused, not ignored."""

    @abstractmethod
    def plan(self, task: Task, given: Settings, start_norm: float = 0.0) -> Plan:
        """Complete the settings by public rules, calibrate the noise, prove."""

    @abstractmethod
    def train(self, plan: Plan, records: Records, randomness: Randomness, start: Floats) -> Floats:
        """Weights [problem, column] as the plan says, before the release adds its noise."""

    def check(self, given: Settings) -> None:
        """Refuse settings that this method does not have."""
        for name, value in given.given.items():
            if name not in self.takes:
                hint = f"It has {', '.join(self.takes)}." if self.takes else "It has no settings."
                _check.fail(name, value, f"not to be given for method={self.name!r}", hint)

    def refuse_private_size(self, task: Task) -> None:
        """For methods that divide by the number of records."""
        if task.relation is Relation.ADD_OR_REMOVE_ONE:
            raise NotApplicable(
                f"The method {self.name} divides by the number of records, which "
                "add-or-remove-one keeps private; use relation='replace-one' or 'zero-out', or "
                "method='objective' or 'dp-sgd' with public_rows."
            )
