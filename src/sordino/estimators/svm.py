"""`PrivateLinearSVC`."""

from __future__ import annotations

from typing import Any

from sordino import _check
from sordino.estimators.base import PrivateLinearClassifier
from sordino.privacy import Relation


class PrivateLinearSVC(PrivateLinearClassifier):
    """Linear support vector machine whose fitted weights are safe to publish.

    The hinge is rounded (Huber) over a width of 2 `huber_width` around its corner, since every
    theorem here needs a smooth loss. All else is as in `PrivateLogisticRegression`, which see.

    Parameters
    ----------
    epsilon, delta, relation, method, l2, epochs, steps, batch_size, learning_rate, average_every,
    max_grad_norm, accountant, initial_weights, data_norm, classes, fit_intercept,
    max_rows_per_person, public_rows, random_state
        As in `PrivateLogisticRegression`.
    huber_width
        Half the width over which the hinge is rounded; the paper has 0.5.

    Attributes
    ----------
    coef_, intercept_, classes_, privacy_, sigma_, noise_, method_, settings_
        As in `PrivateLogisticRegression`.
    """

    _kind = "huber-svm"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        relation: Relation | str = "replace-one",
        method: str = "auto",
        l2: float = 0.001,
        epochs: int | None = None,
        steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        average_every: int | None = None,
        max_grad_norm: float | None = None,
        accountant: str | None = None,
        initial_weights: Any = None,
        data_norm: float | None = 1.0,
        classes: Any = None,
        fit_intercept: bool = True,
        max_rows_per_person: int = 1,
        public_rows: int | None = None,
        huber_width: float = 0.5,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            relation=relation,
            method=method,
            l2=l2,
            epochs=epochs,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            average_every=average_every,
            max_grad_norm=max_grad_norm,
            accountant=accountant,
            initial_weights=initial_weights,
            data_norm=data_norm,
            classes=classes,
            fit_intercept=fit_intercept,
            max_rows_per_person=max_rows_per_person,
            public_rows=public_rows,
            random_state=random_state,
        )
        self.huber_width = huber_width

    def _huber_width(self) -> float:
        return _check.positive("huber_width", self.huber_width, "The paper has 0.5.")
