"""Noise on the sufficient statistics of least squares: how much, and what it proves.

All that least squares asks of the records are two sums, that of x x^T and that of y x. One Gaussian
mechanism releases both; whatever is solved from them afterwards costs nothing. x x^T is symmetric:
as a vector it is its diagonal and, sqrt(2) times, what lies above, so that lengths of vectors are
Frobenius norms. Divided by sqrt(2) again, entries off the diagonal carry sigma / sqrt(2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sordino import checks
from sordino.accounting import calibrate, gaussian
from sordino.accounting.compose import group
from sordino.accounting.profile import GaussianProfile, Profile
from sordino.privacy import Relation, Sampling
from sordino.proofs.proof import NORM_SLACK, Evidence, Proof, unit_of

THEOREM = "Gaussian mechanism on the sums that least squares asks for, exact sensitivity"


def sensitivity(norm: float, target_norm: float, relation: Relation) -> float:
    """How far one record moves (x x^T, y x), for ||x|| <= R and |y| <= Y; attained.

    One record alone has length ||x|| sqrt(||x||^2 + y^2). Between two with s = x.x' the square is

        ||x||^4 + ||x'||^4 - 2 s^2 + y^2 ||x||^2 + y'^2 ||x'||^2 - 2 y y' s,

    largest for opposite targets of size Y and rows of norm R: 2 R^4 + 2 Y^2 R^2 - 2 s^2 + 2 Y^2 s.
    That peaks at s = Y^2 / 2, where it is 2 (R^2 + Y^2 / 2)^2, if a row can reach so far; else at
    the same row twice, s = R^2, where it is (2 R Y)^2. Zero-out replaces by a row of zeros.

    Examples
    --------
    >>> round(sensitivity(1.0, 1.0, Relation.REPLACE_ONE), 4)
    2.1213
    """
    R, Y = checks.positive("norm", norm), checks.positive("target_norm", target_norm)
    if relation is not Relation.REPLACE_ONE:
        return R * math.hypot(R, Y)
    return math.sqrt(2) * (R * R + Y * Y / 2) if Y * Y <= 2 * R * R else 2 * R * Y


@dataclass(frozen=True, kw_only=True)
class StatisticsEvidence(Evidence):
    """Weights solved from noisy sums of x x^T and y x.

    Parameters
    ----------
    norm, target_norm
        What no row's norm exceeds, and no target's size.
    sigma
        Standard deviation of the noise on y x and on the diagonal of x x^T; off it, sqrt(2) less.
    regulariser
        What was added to the diagonal of the sum before solving: a public number.
    """

    kind = "sufficient-statistics"
    _positive = ("norm", "target_norm", "sigma")

    norm: float
    target_norm: float
    sigma: float
    regulariser: float

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.non_negative("regulariser", self.regulariser)
        if self.problems != 1:
            checks.fail("problems", self.problems, "to be 1: one target")

    @property
    def moved(self) -> float:
        """How far one record moves the statistics, the slack in the bounds counted."""
        slack = 1 + NORM_SLACK
        return sensitivity(self.norm * slack, self.target_norm * slack, self.relation)

    def profile(self) -> Profile:
        """The exact Gaussian mechanism, for the whole group."""
        parameter = self.moved / self.sigma * (1 + 1e-15)
        one = GaussianProfile(parameter=parameter, relation=self.relation, theorem=THEOREM)
        return group(one, self.rows_per_person).noted(theorem=THEOREM)

    def proof(self) -> Proof:
        """What these numbers prove."""
        assumes = (
            f"N(0, {self.sigma:.6g}^2) on every entry of the sums of y x and x x^T (symmetric; off "
            "the diagonal, its variance is half of that)",
            "rows within their norm, targets within their size, both cut to multiples of a public "
            "power of two, toward 0, so that their sums are exact",
            "weights are computed from the noisy sums and public numbers alone",
            "all settings chosen without looking at these data, and nothing else released",
            *self.about_persons,
        )
        unit = unit_of(self.rows_per_person)
        return Proof(self.profile(), Sampling.FULL, assumes, unit=unit, rests_on="statistics")

    def facts(self) -> dict[str, str]:
        """Schedule, sensitivity and noise."""
        solved = f"least squares with a regulariser of {self.regulariser:.6g} on the sum"
        return {
            "schedule": f"{solved}, solved from noisy sums of x x^T and y x",
            "sensitivity": f"one record moves the sums by at most {self.moved:.6g} (L2 norm)",
            "noise": f"standard deviation {self.sigma:.6g} on every entry, sqrt(2) less off the "
            "diagonal of x x^T",
        }


def statistics_noise(
    unit: StatisticsEvidence, epsilon: float, delta: float
) -> tuple[float, StatisticsEvidence]:
    """The least noise for a budget, rounded up, and the evidence with it.

    The `sigma` of `unit` is ignored.
    """

    def profile_at(sigma: float) -> Profile:
        return replace(unit, sigma=sigma).profile()

    enough = gaussian.sigma(epsilon, delta, unit.moved * unit.rows_per_person)
    sigma = calibrate.proved(profile_at, enough, epsilon, delta)
    return sigma, replace(unit, sigma=sigma)
