"""`Evidence`: all the numbers behind one proof, so that anybody can do it again.

A certificate carries one of these. Every number in it is public, none was read from the records,
and `proof` needs nothing else: whoever reads the certificate gets the same guarantee, or sees that
the claimed one does not follow. That the noise was really added is taken on trust.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from sordino import checks, serialize
from sordino.errors import InvalidArgument
from sordino.privacy import Relation
from sordino.proofs.proof import Proof
from sordino.sgd.spec import TrainSpec

MOST_COUNTED = 10**15
"""Records or weights: floats count exactly so far."""
MOST_CANDIDATES = 200
"""Of a selection: each is proved anew when it is verified."""
MOST_ROWS_PER_PERSON = 10_000
"""Group privacy takes a step for each record of a person."""


@dataclass(frozen=True, kw_only=True)
class Evidence(ABC):
    """What every proof of a linear model needs.

    Parameters
    ----------
    relation
        What counts as a neighbouring dataset.
    columns
        Weights of one model, the intercept's among them.
    problems
        Models trained on the same records and released together.
    rows_per_person
        Size of the group protected.
    """

    kind: ClassVar[str]

    relation: Relation
    columns: int
    problems: int = 1
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.relation, Relation):
            checks.fail("relation", self.relation, "to be a Relation")
        for name in ("columns", "problems", "rows_per_person"):
            count(name, getattr(self, name))
        if self.rows_per_person > MOST_ROWS_PER_PERSON:
            checks.fail("rows_per_person", self.rows_per_person, f"<= {MOST_ROWS_PER_PERSON:,}")

    @abstractmethod
    def done(self) -> object:
        """What was done, as the theorems of `theorems.THEOREMS[kind]` take it."""

    @abstractmethod
    def proof(self) -> Proof:
        """What the numbers prove; the same for everybody.

        Raises
        ------
        NotApplicable
            If they prove nothing.
        """

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """In words: "schedule", "sensitivity" and "noise"."""

    @property
    def shape(self) -> tuple[int, int]:
        """Of the released weights: one row a problem."""
        return self.problems, self.columns

    @property
    def loss_kind(self) -> str | None:
        """Which loss the numbers are of, where the proof depends on it."""
        return None

    @property
    def length(self) -> int:
        """How long the proof takes to recompute, in steps of a training."""
        return 1

    def to_plain(self) -> dict[str, Any]:
        """Values that JSON can hold; `from_plain` gives equal evidence back."""
        with serialize.refusing("evidence", InvalidArgument):
            plain: dict[str, Any] = _form().write(self)
            return plain


def from_plain(values: object) -> Evidence:
    """Evidence from what `to_plain` returned, also after a trip through JSON.

    Raises
    ------
    InvalidArgument
        For anything else: an unknown kind, a missing or unknown key, a number that is none.
    """
    with serialize.refusing("evidence", InvalidArgument):
        found: Evidence = _form().read(values)
        return found


class _Spec(serialize.Form):
    def _read(self, value: Any, place: serialize.Where) -> TrainSpec:
        if not isinstance(value, dict):
            place.refuse(f"is {serialize.shown(value)}, and no object")
        return TrainSpec.from_dict(value)

    def _write(self, value: Any, place: serialize.Where) -> dict[str, Any]:
        return TrainSpec.to_dict(value)


@functools.cache
def _form() -> serialize.Form:
    from sordino.proofs.evidence_kinds import KINDS

    kinds: dict[str, serialize.RecordForm] = {}
    form = serialize.Tagged(kinds)
    forms = serialize.Forms(
        {
            # A whole number stays one: certificates are compared to the letter.
            float: serialize.Number(as_given=True),
            TrainSpec: _Spec(),
            tuple[Evidence, ...]: serialize.listed(form, MOST_CANDIDATES),
        }
    )
    kinds.update({name: forms.record(kind) for name, kind in KINDS.items()})
    return form


def count(name: str, value: int) -> int:
    """Return a number of records, weights or models, if it is one and not absurd."""
    if checks.whole(name, value, at_least=1) > MOST_COUNTED:
        checks.fail(name, value, f"<= {MOST_COUNTED:.0e}")
    return value
