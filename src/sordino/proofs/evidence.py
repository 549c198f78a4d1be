"""`Evidence`: all the numbers behind one proof, so that anybody can do it again.

A certificate carries one of these. Every number in it is public, none was read from the records,
and `proof` needs nothing else: whoever reads the certificate gets the same guarantee, or sees that
the claimed one does not follow. That the noise was really added is taken on trust.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sordino import _check
from sordino.privacy import Relation
from sordino.proofs.proof import Proof
from sordino.sgd.spec import TrainSpec

MOST_COUNTED = 10**15
"""Records or weights: floats count exactly so far."""
MOST_CANDIDATES = 200
"""Of a selection: each is proved anew when it is verified."""
MOST_ROWS_PER_PERSON = 10_000
"""Group privacy takes a step for each record of a person."""
_HINT = "Pass what `to_plain` returned."


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
            _check.fail("relation", self.relation, "to be a Relation")
        for name in ("columns", "problems", "rows_per_person"):
            count(name, getattr(self, name))
        if self.rows_per_person > MOST_ROWS_PER_PERSON:
            _check.fail("rows_per_person", self.rows_per_person, f"<= {MOST_ROWS_PER_PERSON:,}")

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
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"kind": self.kind, **{name: _plain(value) for name, value in values.items()}}


def from_plain(values: object) -> Evidence:
    """Evidence from what `to_plain` returned, also after a trip through JSON.

    Raises
    ------
    InvalidArgument
        For anything else: an unknown kind, a missing or unknown key, a number that is none.
    """
    if not isinstance(values, Mapping) or not isinstance(values.get("kind"), str):
        _check.fail("evidence", type(values).__name__, "to be an object with a kind", _HINT)
    from sordino.proofs.evidence_kinds import KINDS

    kind = KINDS[_check.one_of("kind", values["kind"], tuple(KINDS))]
    fields = [field.name for field in dataclasses.fields(kind)]
    for name in values:
        _check.one_of("key", name, (*fields, "kind"))
    for name in fields:
        if name not in values:
            _check.fail("keys", sorted(values), f"to contain {name}", _HINT)
    given = {name: _READ.get(name, _number_or_text)(values[name]) for name in fields}
    return kind(**given)


def _plain(value: object) -> object:
    if isinstance(value, Relation):
        return value.value
    if isinstance(value, TrainSpec):
        return value.to_dict()
    if isinstance(value, tuple):
        return [each.to_plain() for each in value]
    # JSON has no infinity; Poisson runs have one as their shape.
    return "inf" if value == math.inf else value


def _relation(value: object) -> Relation:
    return Relation(_check.one_of("relation", str(value), [each.value for each in Relation]))


def _spec(value: object) -> TrainSpec:
    if not isinstance(value, dict):
        _check.fail("spec", type(value).__name__, "to be an object", _HINT)
    return TrainSpec.from_dict(value)


def _candidates(value: object) -> tuple[Evidence, ...]:
    if not isinstance(value, list) or len(value) > MOST_CANDIDATES:
        _check.fail("candidates", type(value).__name__, "to be a list, and not too long", _HINT)
    return tuple(from_plain(each) for each in value)


def _number_or_text(value: object) -> Any:
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        _check.fail("value", type(value).__name__, "to be a number or a text", _HINT)
    return value


_READ: dict[str, Callable[[object], Any]] = {
    "relation": _relation,
    "spec": _spec,
    "candidates": _candidates,
}


def count(name: str, value: int) -> int:
    """Return a number of records, weights or models, if it is one and not absurd."""
    if _check.whole(name, value, at_least=1) > MOST_COUNTED:
        _check.fail(name, value, f"<= {MOST_COUNTED:.0e}")
    return value
