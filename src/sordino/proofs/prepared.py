"""What was released of the rows to prepare them: a mean, mean squares, second moments.

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
from sordino.privacy import MOST_ROWS_PER_PERSON, Relation, Sampling
from sordino.proofs.proof import NORM_SLACK, Evidence, Proof, about_persons, unit_of

MEAN, SQUARES, MOMENTS = "mean", "squares", "second-moments"
PREPARED_NORM = 1.0
"""Of rows after a centre or a scale, the constant feature included, whatever `data_norm` is."""
SQUARED_PART = 0.5
"""Squares are of centred rows scaled down to this much of `data_norm`."""
_ORDERS = ((MEAN,), (SQUARES,), (MEAN, SQUARES))
_ORDERS_ALONE = (*_ORDERS, (MOMENTS,), (MEAN, MOMENTS))
_NAMES = {
    MEAN: "sum of rows",
    SQUARES: "sum of squares of centred rows",
    MOMENTS: "sum of x x^T of centred rows",
}
_NOISY = {MOMENTS: "each entry on the diagonal, and sqrt(2) less off it"}


@dataclass(frozen=True)
class SumRelease:
    """A noisy sum over all rows.

    Of the rows themselves ("mean"), of their squares column by column ("squares"), or of x x^T
    ("second-moments"), which is symmetric: off the diagonal, the noise has half the variance.

    Parameters
    ----------
    what
        "mean", "squares" or "second-moments".
    norm
        What no row's Euclidean norm exceeds when it is summed, or squared and summed.
    sigma
        Standard deviation of the noise on each column's sum, or on the diagonal of a matrix.

    Examples
    --------
    >>> SumRelease("mean", 1.0, 10.0).moved(Relation.REPLACE_ONE)
    2.000002
    """

    what: str
    norm: float
    sigma: float

    def __post_init__(self) -> None:
        checks.one_of("what", self.what, (MEAN, SQUARES, MOMENTS))
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
        return _NAMES[self.what]

    @property
    def assumption(self) -> str:
        """What the release rests on."""
        if self.what == MOMENTS:
            where = f"{_NOISY[MOMENTS]}, of the {self._of}"
            return f"N(0, {self.sigma:.6g}^2) on {where}, drawn by the system"
        return f"N(0, {self.sigma:.6g}^2) on each column's {self._of}, drawn by the system"

    def words(self, relation: Relation) -> str:
        """For the certificate."""
        scaled = f"the {self._of}, each scaled down to norm {self.norm:.6g}"
        moves = f"one record moves it by at most {self.moved(relation):.6g}"
        where = _NOISY.get(self.what, "each column")
        return f"{scaled}: {moves}, noise of standard deviation {self.sigma:.6g} on {where}"


def sum_moved(what: str, norm: float, relation: Relation) -> float:
    """How far one record moves a sum of rows within the norm, of their squares, or of x x^T.

    Two rows of norm R are at most 2 R apart. Squares of a row make a vector without negative
    entries of norm at most R^2, and two such are at most sqrt(2) R^2 apart. So are x x^T and
    z z^T in Frobenius norm, whose product (x.z)^2 is never negative: as a vector, a symmetric
    matrix is its diagonal and sqrt(2) times what lies above. A record that is added,
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
    def models(self) -> int:
        """Of the training."""
        return self.training.models

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


@dataclass(frozen=True, kw_only=True)
class SumsEvidence:
    """Sums released for their own sake, as by a transformer that comes before any model.

    Parameters
    ----------
    relation
        What counts as a neighbouring dataset.
    releases
        In the order in which they were made: a later one is of rows around the released mean.
    rows_per_person
        Size of the group protected.
    persons_counted
        Whether rows per person were counted and cut to so many.

    Examples
    --------
    >>> made = SumRelease("second-moments", 1.0, 10.0)
    >>> sums = SumsEvidence(relation=Relation.REPLACE_ONE, releases=(made,))
    >>> round(sums.proof().profile.mu, 4)
    0.1414
    """

    relation: Relation
    releases: tuple[SumRelease, ...]
    rows_per_person: int = 1
    persons_counted: bool = False

    def __post_init__(self) -> None:
        checks.sequence("releases", self.releases)
        if any(not isinstance(each, SumRelease) for each in self.releases):
            checks.fail("releases", "[...]", "to be sums over rows")
        if tuple(each.what for each in self.releases) not in _ORDERS_ALONE:
            wanted = "to be a mean, then squares or second moments, or one of them"
            checks.fail("releases", f"[{len(self.releases)}]", wanted)
        if not isinstance(self.relation, Relation):
            checks.fail("relation", self.relation, "to be a Relation")
        rows = checks.whole("rows_per_person", self.rows_per_person, at_least=1)
        if rows > MOST_ROWS_PER_PERSON:
            checks.fail("rows_per_person", rows, f"<= {MOST_ROWS_PER_PERSON:,}")
        checks.flag("persons_counted", self.persons_counted)

    def proof(self) -> Proof:
        """What all of them prove together: Gaussian DP adds up exactly."""
        each = [made.profile(self.relation, self.rows_per_person) for made in self.releases]
        after = "beside these sums nothing leaves; what is computed from them costs nothing"
        assumes = (
            *(made.assumption for made in self.releases),
            after,
            *about_persons(self.persons_counted, self.rows_per_person, self.relation),
        )
        unit = unit_of(self.rows_per_person)
        return Proof(compose(each), Sampling.FULL, assumes, unit=unit, rests_on="prepared")

    @property
    def words(self) -> str:
        """For whoever reads what was released."""
        return "; then ".join(each.words(self.relation) for each in self.releases)
