"""`Job`: one fit with everything public settled, before anything is trained."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sordino.estimators.records import Records
from sordino.estimators.task import Plan
from sordino.mechanisms.fingerprint import new_salt
from sordino.mechanisms.ledger import Charge
from sordino.mechanisms.release import ReleaseRefused
from sordino.proofs import Proof
from sordino.types import Array


@dataclass(frozen=True, eq=False)
class Job:
    """A plan, and the records it is for.

    Parameters
    ----------
    plan
        What will be done, and what it proves.
    records, start
        Rows within their norm, and initial weights.
    classes
        Labels, in the order of the records' class numbers.
    X
        The rows as they were given.
    not_covered
        What was read off the records beside the training, in words.
    why_none
        Why nothing can be promised whatever the plan proves; empty if something can.
    """

    plan: Plan
    records: Records
    start: npt.NDArray[np.float64]
    classes: Array
    X: Array
    not_covered: tuple[str, ...] = ()
    why_none: str = ""

    @property
    def proof(self) -> Proof | None:
        """The plan's, with what it does not cover."""
        proof = self.plan.proof
        return None if proof is None else replace(proof, not_covered=self.not_covered)

    def charge(self, what: str) -> Charge:
        """What a ledger is asked for; refused if nothing is promised, since no budget covers it."""
        task = self.plan.task
        if self.proof is None or self.why_none:
            why = self.why_none or "it adds no noise"
            raise ReleaseRefused(f"A ledger is open and this fit has no guarantee: {why}.")
        return Charge(
            profile=self.proof.profile,
            epsilon=self.proof.guarantee(task.delta).epsilon,
            delta=task.delta,
            rows_per_person=task.rows_per_person,
            what=what,
            fingerprint=self.content_digest(),
            salt=new_salt(),
        )

    def content_digest(self) -> str:
        """SHA-256 of the rows and labels, whatever the settings: stays inside."""
        digest = hashlib.sha256()
        X, codes = self.X, self.records.codes
        digest.update(repr((X.dtype.str, X.shape, [str(label) for label in self.classes])).encode())
        digest.update(np.ascontiguousarray(X).data)
        digest.update(np.ascontiguousarray(codes).data)
        return digest.hexdigest()
