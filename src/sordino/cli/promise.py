"""`Promise`: what is to be trained and promised, checked before any record is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from sordino import checks
from sordino.assessment.request import named_budget
from sordino.cli import options
from sordino.cli.options import ModelName
from sordino.data.source import Prepared
from sordino.privacy import Relation

if TYPE_CHECKING:
    from sordino.release.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The options that say what is trained and promised; checked before any record is read."""

    epsilon: Annotated[
        float, options.option(options.PROMISE, "The budget you promise, such as 1.0.")
    ]
    model: options.Model = ModelName.LOGISTIC
    delta: options.Delta = None
    relation: options.RelationOption = Relation.REPLACE_ONE.value
    method: options.Method = "auto"
    l2: options.L2 = 0.001
    max_rows_per_person: options.RowsPerPerson = 1
    public_rows: options.PublicRows = None

    def __post_init__(self) -> None:
        checks.positive("epsilon", self.epsilon, "Pass the budget you promise, such as 1.0.")
        if self.delta is not None and not 0 < self.delta < 1:
            checks.fail("delta", self.delta, "in (0, 1)", "1e-6 is usual.")
        object.__setattr__(self, "relation", options.relation(self.relation).value)
        checks.non_negative("l2", self.l2, "Pass the regulariser's weight, such as 0.001.")
        checks.whole("--max-rows-per-person", self.max_rows_per_person, at_least=1)
        self._check_rows()
        from sordino.estimators import methods

        promising = [name for name in methods.NAMES if name not in ("none", "majority")]
        checks.one_of("method", self.method, promising)

    def _check_rows(self) -> None:
        private = self.relation == "add-or-remove-one"
        if self.public_rows is not None:
            checks.whole("--public-rows", self.public_rows, at_least=1)
        if private and self.public_rows is None:
            hint = "The number of records is private there: pass a public number near it."
            checks.fail_missing("--public-rows N", f"for {self.relation}", hint)
        if not private and self.public_rows is not None:
            hint = "Only for add-or-remove-one the number of records is private."
            checks.fail("--public-rows", self.public_rows, f"to be left out: {self.relation}", hint)

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
