"""`Task`, `Settings` and `FitPlan`: what is asked, how it will be done, and what that proves.

All three are made from public facts alone, before anything is trained.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass, replace

from sordino import checks
from sordino.accounting import gaussian
from sordino.models.constants import Constants, ObjectiveSpec
from sordino.privacy import Relation
from sordino.proofs import Proof
from sordino.proofs.evidence import Evidence
from sordino.sgd.spec import TrainSpec


@dataclass(frozen=True)
class Task:
    """The public facts of one fit. Nothing in it was read from the records.

    Parameters
    ----------
    kind, huber_width, l2
        The loss: see `ObjectiveSpec`.
    rows
        Number of records; where the relation keeps it private, a public number near it.
    columns
        Weights of one problem, the intercept's among them.
    norm
        What no row's Euclidean norm exceeds, the intercept's 1 included.
    epsilon, delta, relation
        The promise. An infinite epsilon promises nothing.
    problems
        Binary problems trained: one, or one a class.
    rows_per_person
        Records that one person may have.
    """

    kind: str
    l2: float
    rows: int
    columns: int
    norm: float
    epsilon: float
    delta: float
    relation: Relation = Relation.REPLACE_ONE
    problems: int = 1
    rows_per_person: int = 1
    huber_width: float = 0.5

    @property
    def objective(self) -> ObjectiveSpec:
        """The loss of one problem. The intercept is a column of the rows like any other."""
        return self.objective_with(self.l2)

    def objective_with(self, l2: float) -> ObjectiveSpec:
        """The same loss with another regulariser."""
        return ObjectiveSpec(self.kind, l2=l2, intercept=False, huber_width=self.huber_width)

    @property
    def constants(self) -> Constants:
        """What is proved of the loss for rows within the norm."""
        constants = self.objective.constants(self.norm)
        assert constants is not None
        return constants

    @property
    def curvature(self) -> float:
        """Largest second derivative of the loss in the score."""
        return self.objective.curvature

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return math.isfinite(self.epsilon)

    @functools.cached_property
    def mu(self) -> float:
        """Gaussian DP with the same budget, for one problem and one record; infinite if none.

        What the rules for settings are made of: noise of 2 norm / mu on a sum of gradients would
        meet the promise under replace-one.
        """
        if not self.private:
            return math.inf
        return 1 / gaussian.sigma(self.epsilon, self.delta) / self.share

    @property
    def share(self) -> float:
        """How much more noise the classes and rows of one person need, in Gaussian DP."""
        return math.sqrt(self.problems) * self.rows_per_person

    @property
    def alone(self) -> Task:
        """About the same task for one problem and one record: a share of the budget.

        What rules ask, since the noise for several problems together takes long to find.
        """
        if self.share == 1:
            return self
        return replace(
            self,
            problems=1,
            rows_per_person=1,
            epsilon=self.epsilon / self.share,
            delta=self.delta / self.share,
        )

    @property
    def moved(self) -> float:
        """Norms by which one record can move a sum of gradients."""
        return 2.0 if self.relation is Relation.REPLACE_ONE else 1.0

    @property
    def signal(self) -> float:
        """Records over the noise that one sum of their gradients needs: rows * mu / 2 or rows * mu.

        The one number that says how much this task can afford, for rows of norm 1.
        """
        return self.rows * self.mu / self.moved


@dataclass(frozen=True)
class Settings:
    """How a method trains; None where it does not matter, or where a rule is to choose."""

    epochs: int | None = None
    steps: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    average_every: int | None = None
    max_grad_norm: float | None = None
    l2: float | None = None
    accountant: str | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "steps", "batch_size", "average_every"):
            if getattr(self, name) is not None:
                checks.whole(name, getattr(self, name), at_least=1)
        for name in ("learning_rate", "max_grad_norm"):
            if getattr(self, name) is not None:
                checks.positive(name, getattr(self, name))
        if self.l2 is not None:
            checks.non_negative("l2", self.l2)
        if self.epochs is not None and self.steps is not None:
            checks.fail("steps", self.steps, "or epochs to be given, not both")

    @property
    def given(self) -> dict[str, object]:
        """Those that are set."""
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None}

    def filled(self, **defaults: object) -> Settings:
        """These settings, and the defaults where nothing was given."""
        return Settings(**{**defaults, **self.given})  # type: ignore[arg-type]

    def clipped(self, norm: float) -> Settings:
        """With a clip of at most `norm`: no gradient of a row within it is longer."""
        assert self.max_grad_norm is not None
        return replace(self, max_grad_norm=min(self.max_grad_norm, norm))


@dataclass(frozen=True)
class FitPlan:
    """How a task will be done. Complete: only records and randomness are missing.

    Parameters
    ----------
    method, task, settings
        What will be done, for whom, how.
    proof
        What it will prove; None where nothing is promised.
    evidence
        The numbers of the proof, for its certificate.
    sigma
        Standard deviation of the noise that protects: on each weight, each sum of gradients or
        each coefficient of the linear term, as `noise_at` says.
    scale
        Standard deviation of the noise that the release adds to each weight.
    noise_at
        Where `sigma` is, in words.
    spec
        The training, where the engine does it.
    l2
        Regulariser that was really used; a noisy objective may need more than was asked for.
    """

    method: str
    task: Task
    settings: Settings
    proof: Proof | None
    sigma: float
    scale: float
    noise_at: str
    spec: TrainSpec | None = None
    l2: float = 0.0
    evidence: Evidence | None = None

    @property
    def noise_inside(self) -> str:
        """Where the training itself adds noise; empty if only the release does."""
        return "" if self.sigma == self.scale else self.noise_at
