"""`Proof`: what holds of a release, before it is asked at one delta; `Evidence`: its numbers.

A certificate carries one piece of evidence. Every number in it is public, none was read from the
records, and `proof` needs nothing else: whoever reads the certificate gets the same guarantee, or
sees that the claimed one does not follow. That the noise was really added is taken on trust.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from sordino import checks, serialize
from sordino.accounting.profile import Profile
from sordino.errors import InvalidArgument
from sordino.models.constants import Constants
from sordino.privacy import MOST_ROWS_PER_PERSON, Guarantee, Relation, Sampling
from sordino.sgd.spec import TrainSpec

Released = Literal["final", "all"]
NORM_SLACK = 1e-6
"""By how much, relatively, a row may exceed the norm bound it was declared with (data/dataset.py).

Gradients grow with the row's norm, curvature with its square; both are multiplied in.
"""
_MOST_COUNTED = 10**15
"""Records or weights: floats count exactly so far."""
_MOST_STEPS = 20_000_000
"""A record of more steps than this is refused instead of recomputed for hours."""


@dataclass(frozen=True)
class Proof:
    """What was proved of a training or a release, before it is asked at one delta.

    Parameters
    ----------
    profile
        Everything an attacker can gain, with its relation and its theorem.
    sampling
        How batches were drawn, as the theorem assumes it.
    assumes
        What the theorem rests on beside what was checked.
    released
        "final" if only the last weights leave the building, "all" if every iterate may.
    unit
        Who is protected; `profile` must already be the one of this unit.
    not_covered
        What was read off the data beside the training.
    rests_on
        The theorem's name in the table of `theorems.py`.

    Examples
    --------
    >>> from sordino.accounting.profile import GaussianProfile
    >>> from sordino.privacy import Relation
    >>> profile = GaussianProfile(parameter=1.0, relation=Relation.ZERO_OUT, theorem="example")
    >>> round(Proof(profile, "full", ()).guarantee(1e-5).epsilon, 3)
    4.377
    """

    profile: Profile
    sampling: str
    assumes: tuple[str, ...]
    released: Released = "final"
    unit: str = "one record"
    not_covered: tuple[str, ...] = ()
    rests_on: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.profile, Profile):
            checks.fail("profile", type(self.profile).__name__, "to be a Profile")
        if isinstance(self.assumes, str):  # tuple("abc") would be three assumptions
            checks.fail("assumes", self.assumes, "to be a tuple of sentences")
        object.__setattr__(self, "assumes", tuple(self.assumes))
        checks.one_of("released", self.released, ("final", "all"))

    def guarantee(self, delta: float) -> Guarantee:
        """The least epsilon proved at `delta`, as a `Guarantee`; infinite if there is none."""
        names = ("sampling", "unit", "assumes", "released", "not_covered")
        return Guarantee(
            epsilon=self.profile.epsilon(delta),
            delta=delta,
            relation=self.profile.relation,
            theorem=self.profile.theorem,
            **{name: getattr(self, name) for name in names},
        )


def unit_of(rows_per_person: int) -> str:
    """Who is protected, in words."""
    return "one record" if rows_per_person == 1 else f"{rows_per_person} records of one person"


def about_persons(
    counted: bool | None, rows_per_person: int, relation: Relation = Relation.REPLACE_ONE
) -> tuple[str, ...]:
    """What a promise rests on that is about rows of a person; nothing where nobody said."""
    most = "1 row" if rows_per_person == 1 else f"{rows_per_person:,} rows"
    if counted is None:
        return ()
    if not counted:
        nobody = f"nobody has more than {most}"
        return (f"nobody counted rows per person: that {nobody} is taken on trust",)
    left = "" if relation is Relation.ADD_OR_REMOVE_ONE else "; how many are left in all is public"
    by = "by ids (taken on trust) and cut, by draws that are secret"
    return (f"rows per person were counted {by}, to at most {most} each{left}",)


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
        Rows of weights that are trained on the same records and released together: one for two
        classes, else one a class.
    rows_per_person
        Size of the group protected.
    persons_counted
        Whether rows per person were counted and cut to so many; None where an earlier version did
        not say.
    """

    kind: ClassVar[str]
    _positive: ClassVar[tuple[str, ...]] = ()

    relation: Relation
    columns: int
    problems: int = 1
    rows_per_person: int = 1
    persons_counted: bool | None = field(default=None, metadata={"added": serialize.UNLESS_DEFAULT})

    def __post_init__(self) -> None:
        if self.persons_counted is not None:
            checks.flag("persons_counted", self.persons_counted)
        if not isinstance(self.relation, Relation):
            checks.fail("relation", self.relation, "to be a Relation")
        for name in {"columns", "problems", "rows_per_person", "rows"} & set(vars(self)):
            if checks.whole(name, getattr(self, name), at_least=1) > _MOST_COUNTED:
                checks.fail(name, getattr(self, name), f"<= {_MOST_COUNTED:.0e}")
        if self.rows_per_person > MOST_ROWS_PER_PERSON:
            checks.fail("rows_per_person", self.rows_per_person, f"<= {MOST_ROWS_PER_PERSON:,}")
        for name in self._positive:
            checks.positive(name, getattr(self, name))

    def done(self) -> object:
        """What was done, as the theorems of `theorems.THEOREMS[kind]` take it."""
        return self

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
    def about_persons(self) -> tuple[str, ...]:
        """What the proof rests on that is about rows of a person."""
        return about_persons(self.persons_counted, self.rows_per_person, self.relation)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the released weights: one row a problem."""
        return self.problems, self.columns

    @property
    def models(self) -> int:
        """Models trained beside each other: one record moves sqrt(models) times as far as one.

        One a row of weights, but for a softmax, which is one model with one gradient.
        """
        return self.problems

    @property
    def length(self) -> int:
        """How long the proof takes to recompute, in steps of a training."""
        return 1

    def to_plain(self) -> dict[str, Any]:
        """Values that JSON can hold; `evidence.from_plain` gives equal evidence back."""
        from sordino.proofs.evidence import form

        with serialize.refusing("evidence", InvalidArgument):
            plain: dict[str, Any] = form().write(self)
            return plain


def check_length(steps: int) -> None:
    """Refuse a proof that would take hours to recompute."""
    if steps > _MOST_STEPS:
        checks.fail("steps", steps, f"<= {_MOST_STEPS:,}", "It would take hours to recompute.")


@dataclass(frozen=True, kw_only=True)
class TrainingEvidence(Evidence):
    """What every proof about a `TrainSpec` needs; `norm` is what no row's norm exceeds."""

    spec: TrainSpec
    rows: int
    norm: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.spec, TrainSpec):
            checks.fail("spec", type(self.spec).__name__, "to be a TrainSpec")
        check_length(self.length)
        checks.positive("norm", self.norm)
        objective = self.spec.objective
        if objective.kind == "softmax" and objective.classes != self.problems:
            checks.fail("problems", self.problems, f"to be the {objective.classes} classes")

    @property
    def constants(self) -> Constants:
        """What is proved of the loss for these rows."""
        constants = self.spec.objective.constants(self.norm)
        if constants is None:
            kind = self.spec.objective.kind
            checks.fail("objective", kind, "to be a linear model, of which theorems hold")
        return constants

    @property
    def models(self) -> int:
        """See `Evidence.models`."""
        return 1 if self.spec.objective.kind == "softmax" else self.problems

    @property
    def length(self) -> int:
        """Steps of the training."""
        return self.spec.total_steps(self.rows)

    def schedule(self) -> str:
        """The training in words."""
        spec, rate = self.spec, self.spec.schedule
        steps, per_epoch = self.length, spec.batches_per_epoch(self.rows)
        parts = [f"{steps:,} steps with batches of {spec.batch_size:,} of {self.rows:,} records"]
        if spec.order == Sampling.POISSON:
            drawn = spec.batch_size / self.rows if spec.sample_rate is None else spec.sample_rate
            parts = [f"{steps:,} steps, each record in each batch with probability {drawn:.6g}"]
        elif spec.order == Sampling.ALLOCATION:
            once = "each record in one step of every epoch, drawn at random"
            parts = [f"{steps:,} steps in epochs of {per_epoch:,}, {once}"]
            parts.append(f"sums divided by {spec.batch_size:,}")
        elif per_epoch > 1:
            batches = f"{per_epoch:,} batches, {spec.written_order}"
            parts.append(f"{steps / per_epoch:.4g} epochs of {batches}")
        if rate.kind == "strongly-convex":
            falling = f"min(1 / {rate.smooth:.6g}, 1 / ({rate.strongly_convex:.6g} t))"
            parts.append(f"learning rate {falling}")
        else:
            in_epoch = " / h in epoch h" if rate.kind == "per-epoch" else ""
            parts.append(f"learning rate {rate.rate:.6g}{in_epoch}")
        if spec.average_every is not None:
            parts.append(f"averaged and restarted every {spec.average_every} epochs")
        if spec.max_grad_norm is not None:
            parts.append(f"gradients clipped to {spec.max_grad_norm:.6g}")
        parts.append(f"{spec.objective.kind} loss, regulariser {spec.objective.l2:.6g}")
        return ", ".join(parts)
