"""What was released of the rows before a training, to prepare them: a mean, and mean squares.

Each is a sum over rows of a bounded norm plus Gaussian noise: exact Gaussian DP (Balle & Wang
2018). The training that follows keeps its promise for every centre and every scale that may have
come out, so the two compose, adaptively: Gaussian DP adds up exactly, other profiles by their
losses (`accounting/compose.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sordino import checks
from sordino.accounting.compose import compose, group
from sordino.accounting.profile import GaussianProfile, Profile
from sordino.privacy import Relation, Sampling
from sordino.proofs.proof import NORM_SLACK, Evidence, Proof, about_persons, unit_of

MEAN, SQUARES = "mean", "squares"
PREPARED_NORM = 1.0
"""Of rows after a centre or a scale, the constant feature included, whatever `data_norm` is."""
SQUARED_PART = 0.5
"""Squares are of centred rows scaled down to this much of `data_norm`."""
_ORDERS = ((MEAN,), (SQUARES,), (MEAN, SQUARES))


@dataclass(frozen=True)
class SumRelease:
    """The noisy sum of all rows ("mean"), or of their squares column by column ("squares").

    Parameters
    ----------
    what
        "mean" or "squares".
    norm
        What no row's Euclidean norm exceeds when it is summed, or squared and summed.
    sigma
        Standard deviation of the noise on each column's sum.

    Examples
    --------
    >>> SumRelease("mean", 1.0, 10.0).moved(Relation.REPLACE_ONE)
    2.000002
    """

    what: str
    norm: float
    sigma: float

    def __post_init__(self) -> None:
        checks.one_of("what", self.what, (MEAN, SQUARES))
        checks.positive("norm", self.norm)
        checks.positive("sigma", self.sigma)

    def moved(self, relation: Relation) -> float:
        """How far one record moves the sum, in Euclidean norm."""
        return sum_moved(self.what, self.norm, relation)

    def profile(self, relation: Relation, rows_per_person: int) -> Profile:
        """Everything that the noisy sum tells of a person."""
        mu = self.moved(relation) / self.sigma * (1 + 1e-15)
        theorem = f"Gaussian mechanism on the {self._of} (Balle & Wang 2018)"
        one = GaussianProfile(parameter=mu, relation=relation, theorem=theorem)
        return group(one, rows_per_person).noted(theorem=theorem)

    def proof(self, relation: Relation, rows_per_person: int, counted: bool | None) -> Proof:
        """What holds of this sum alone."""
        assumes = (self.assumption, *about_persons(counted, rows_per_person, relation))
        profile = self.profile(relation, rows_per_person)
        return Proof(profile, Sampling.FULL, assumes, unit=unit_of(rows_per_person))

    @property
    def _of(self) -> str:
        return "sum of rows" if self.what == MEAN else "sum of squares of centred rows"

    @property
    def assumption(self) -> str:
        """What the release rests on."""
        return f"N(0, {self.sigma:.6g}^2) on each column's {self._of}, drawn by the system"

    def words(self, relation: Relation) -> str:
        """For the certificate."""
        scaled = f"the {self._of}, each scaled down to norm {self.norm:.6g}"
        moves = f"one record moves it by at most {self.moved(relation):.6g}"
        return f"{scaled}: {moves}, noise of standard deviation {self.sigma:.6g} on each column"


def sum_moved(what: str, norm: float, relation: Relation) -> float:
    """How far one record moves a sum of rows within the norm, or of their squares.

    Two rows of norm R are at most 2 R apart. Squares of a row make a vector without negative
    entries of norm at most R^2, and two such are at most sqrt(2) R^2 apart. A record that is added,
    removed, or zeroed out (then it has no part in any sum) moves them by its own length.
    """
    bound = norm * (1 + NORM_SLACK)
    replaced = relation is Relation.REPLACE_ONE
    if what == MEAN:
        return 2 * bound if replaced else bound
    return (math.sqrt(2) if replaced else 1.0) * bound**2


@dataclass(frozen=True, kw_only=True)
class PreparedEvidence(Evidence):
    """A training on rows that were centred and scaled by what was released of them before.

    Parameters
    ----------
    releases
        In the order in which they were made: the squares are of rows around the released mean.
    training
        The numbers of the training, on rows of norm `PREPARED_NORM`.
    """

    kind = "prepared"

    releases: tuple[SumRelease, ...]
    training: Evidence

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.sequence("releases", self.releases)
        if any(not isinstance(each, SumRelease) for each in self.releases):
            checks.fail("releases", "[...]", "to be sums over rows")
        if tuple(each.what for each in self.releases) not in _ORDERS:
            checks.fail("releases", f"[{len(self.releases)}]", "to be a mean, squares, or both")
        if not isinstance(self.training, Evidence) or self.training.kind in (
            "prepared",
            "selection",
        ):
            checks.fail("training", "[...]", "to be one training")
        for name in ("relation", "columns", "problems", "rows_per_person", "persons_counted"):
            if getattr(self.training, name) != getattr(self, name):
                checks.fail(name, getattr(self, name), "to be that of the training")
        if getattr(self.training, "norm", PREPARED_NORM) != PREPARED_NORM:
            checks.fail("norm", "[...]", f"to be {PREPARED_NORM:g} after a centre or a scale")

    @property
    def length(self) -> int:
        """Of the training."""
        return self.training.length

    def done(self) -> Proof:
        """What is proved of the training alone."""
        return self.training.proof()

    def proof(self) -> Proof:
        """What the releases and the training prove together."""
        training = self.done()
        profile = compose([*before_training(self), training.profile])
        after = "beside the weights only these sums leave; the training is for any that come out"
        assumes = (*(each.assumption for each in self.releases), *training.assumes, after)
        return replace(training, profile=profile, assumes=assumes, rests_on="prepared")

    def facts(self) -> dict[str, str]:
        """Schedule, sensitivity and noise of the training; and what was released before it."""
        before = "; then ".join(each.words(self.relation) for each in self.releases)
        return {**self.training.facts(), "preparation": f"released before the training: {before}"}


def before_training(of: PreparedEvidence) -> list[Profile]:
    """What was told before the training began."""
    return [each.profile(of.relation, of.rows_per_person) for each in of.releases]


def training_of(evidence: Evidence) -> Evidence:
    """The numbers of the training, without what was released before it."""
    return evidence.training if isinstance(evidence, PreparedEvidence) else evidence
