"""`Promise`: what is to be trained and promised, checked before any record is read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sordino import _check
from sordino.assessment.brief import named_budget
from sordino.assessment.source import Prepared, not_given
from sordino.cli.run_options import RELATIONS

if TYPE_CHECKING:
    from sordino.mechanisms.ledger import Ledger


class ModelName(StrEnum):
    """What is trained."""

    LOGISTIC = "logistic"
    SVM = "svm"


@dataclass(frozen=True)
class Promise:
    """The options that say what is trained and promised; checked before any record is read."""

    model: ModelName
    epsilon: float
    delta: float | None
    relation: str
    method: str
    l2: float
    max_rows_per_person: int
    public_rows: int | None

    def __post_init__(self) -> None:
        _check.positive("epsilon", self.epsilon, "Pass the budget you promise, such as 1.0.")
        if self.delta is not None and not 0 < self.delta < 1:
            _check.fail("delta", self.delta, "in (0, 1)", "1e-6 is usual.")
        relation = RELATIONS.get(self.relation.lower(), self.relation)
        _check.one_of("relation", relation, tuple(dict.fromkeys(RELATIONS.values())))
        object.__setattr__(self, "relation", relation)
        _check.non_negative("l2", self.l2, "Pass the regulariser's weight, such as 0.001.")
        _check.whole("--max-rows-per-person", self.max_rows_per_person, at_least=1)
        self._check_rows()
        self._check_method()

    def _check_rows(self) -> None:
        private = self.relation == "add-or-remove-one"
        if self.public_rows is not None:
            _check.whole("--public-rows", self.public_rows, at_least=1)
        if private and self.public_rows is None:
            hint = "The number of records is private there: pass a public number near it."
            not_given("--public-rows N", f"for {self.relation}", hint)
        if not private and self.public_rows is not None:
            hint = "Only for add-or-remove-one the number of records is private."
            _check.fail("--public-rows", self.public_rows, f"to be left out: {self.relation}", hint)

    def _check_method(self) -> None:
        from sordino.estimators import methods

        promising = [name for name in methods.NAMES if name not in ("none", "majority")]
        _check.one_of("method", self.method, promising)

    def estimator(self, prepared: Prepared) -> Any:
        """The model to fit."""
        from sordino.estimators import PrivateLinearSVC, PrivateLogisticRegression

        kinds = {ModelName.LOGISTIC: PrivateLogisticRegression, ModelName.SVM: PrivateLinearSVC}
        return kinds[self.model](
            epsilon=self.epsilon,
            delta=self.delta,
            relation=self.relation,
            method=self.method,
            l2=self.l2,
            data_norm=prepared.data_norm,
            classes=prepared.classes,
            max_rows_per_person=self.max_rows_per_person,
            public_rows=self.public_rows,
        )

    def ledger(self, path: str | None, dataset: str | None) -> Ledger | None:
        """The budget that is charged, if one is named."""
        rows = self.max_rows_per_person
        return named_budget(path, dataset, relation=self.relation, max_rows_per_person=rows)
