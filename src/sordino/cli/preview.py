"""`Preview`: what a release would be, found out without training, recording or writing anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sordino.assessment.source import Prepared
    from sordino.mechanisms.ledger import Ledger
    from sordino.privacy import Guarantee


@dataclass(frozen=True)
class Preview:
    """The public facts of a release that did not happen.

    Parameters
    ----------
    model, method
        What would be trained, and how.
    guarantee
        What would be promised.
    noise
        How much noise would be added, in words.
    not_covered
        What the guarantee would say nothing about.
    left
        What would be left in the ledger, in words; empty without one.
    """

    model: str
    method: str
    guarantee: Guarantee
    noise: str
    not_covered: tuple[str, ...]
    left: str

    @classmethod
    def of(cls, estimator: Any, prepared: Prepared, book: Ledger | None) -> Preview:
        """Ask for a release of these records, and the open ledger for its budget.

        Raises
        ------
        BudgetExceeded
            If too little is left.
        """
        from sordino.estimators.job import Door

        # The first half of `fit`; `estimator.preview` does this too, but tells the guarantee only.
        job = estimator._prepare(prepared.X, prepared.y)
        door = Door.of(job, estimator)
        left = ""
        if book is not None and door.charge is not None:
            left = f"{book.dataset!r} would have {book.status().after(door.charge).left}"
        guarantee = job.proof.guarantee(job.plan.task.delta)
        return cls(
            model=type(estimator).__name__,
            method=job.plan.method,
            guarantee=guarantee,
            noise=job.plan.evidence.facts()["noise"],
            not_covered=(*guarantee.not_covered, *prepared.reads_private_data),
            left=left,
        )

    def lines(self) -> list[str]:
        """It in words."""
        from sordino.privacy import rounded

        promise = self.guarantee
        epsilon, delta = rounded(promise.epsilon), rounded(promise.delta)
        return [
            "DRY RUN: nothing was trained, recorded or written.",
            f"Model: {self.model}, by method {self.method}",
            f"Promise: epsilon <= {epsilon} at delta = {delta}",
            f"For whom: {promise.unit}, {promise.relation.value}",
            f"Noise: {self.noise}",
            *(f"NOT COVERED: {what}" for what in self.not_covered),
            f"Ledger: {self.left or 'none is charged'}",
        ]

    def to_dict(self) -> dict[str, object]:
        """The same for a program."""
        promise = self.guarantee
        return {
            "dry_run": True,
            "model": self.model,
            "method": self.method,
            "epsilon": promise.epsilon,
            "delta": promise.delta,
            "relation": promise.relation.value,
            "unit": promise.unit,
            "noise": self.noise,
            "not_covered": list(self.not_covered),
            "ledger": self.left or None,
        }
