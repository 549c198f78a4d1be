"""Noise in the objective: c R where c R^2 is needed.

One record multiplies the density of the minimiser by up to 1 + c R^2 / Lambda, c the loss' largest
curvature and R the rows' norm (docs/math.md 10.1). Half the budget pays for that here, which fixes
the regulariser Lambda, and the other half for the noise; both by the library's own
`accounting.objective`. With c R in place of c R^2 all of it follows, and the larger R, the more is
missing. The loss is the Huber hinge, for which the price is paid in full.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sordino.accounting import objective
from sordino.accounting.objective import Problem
from sordino.audit.gallery.entry import Case, entry
from sordino.audit.pairs import Claim
from sordino.data.dataset import Dataset
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import Relation
from sordino.types import Floats

_NORM = 100.0
_HUBER = ObjectiveSpec("huber-svm", intercept=False)
_HALVINGS = 80
"""More than enough for the last bit of a float64 between two numbers of this size."""


@dataclass(frozen=True)
class NoisyMinimiser:
    """The minimiser of sum of losses + (regulariser / 2) w^2 + b w, b from exp(-|b| / scale).

    In one dimension, where the slope rises with w, so that many runs are solved at once.
    """

    regulariser: float
    scale: float
    batched: ClassVar[bool] = True

    def __call__(self, data: Dataset, generator: np.random.Generator, runs: int) -> Floats:
        """Minimisers of `runs` noisy objectives, [run, 1]."""
        return self.minimisers(data, generator.laplace(0.0, self.scale, runs))[:, None]

    def minimisers(self, data: Dataset, linear: Floats) -> Floats:
        """One for each linear term b, by halving where the slope of the objective changes sign."""
        from sordino.estimators.minimum.linear import Risk

        risk = Risk(data.X, data.y, kind=_HUBER.kind, huber_width=_HUBER.huber_width)
        x = data.X[:, 0]
        high = (np.abs(x).sum() + np.abs(linear)) / self.regulariser
        low = -high
        for _ in range(_HALVINGS):
            w = (low + high) / 2
            slope = x @ risk.derivatives(np.outer(x, w)) + self.regulariser * w + linear
            low, high = np.where(slope < 0, w, low), np.where(slope < 0, high, w)
        return np.asarray((low + high) / 2)


@entry(
    "A noisy objective pays for c R where one record costs c R^2, at data_norm 100.",
    "diffprivlib 0.6.6, LogisticRegression",
    (20_000, 2_000),
)
def curvature_times_norm() -> Case:
    """Rows of norm 100 and pure epsilon-DP. True epsilon 4.68 where 1 is claimed.

    The other record pulls the opposite way with full slope wherever the target's loss is curved,
    so that noise and curvature both speak for the target.
    """
    claim = Claim(1.0, 0.0, Relation.ADD_OR_REMOVE_ONE)
    D = Dataset(np.full((1, 1), _NORM), np.zeros(1, np.int64), _NORM, "gallery")
    D_prime = Dataset(np.full((2, 1), _NORM), np.array([0, 1]), _NORM, "gallery neighbour")
    broken = _calibrated(claim, _HUBER.curvature / _NORM)
    return Case(
        D,
        D_prime,
        broken=broken,
        correct=_calibrated(claim, _HUBER.curvature),
        claim=claim,
        score=near_the_hinge,
        true_epsilon=objective.pure_epsilon(
            scale=broken.scale, **_problem(claim, _HUBER.curvature, broken.regulariser)
        ),
    )


def near_the_hinge(outputs: Floats) -> Floats:
    """The target's slope where its loss is curved, 0 to 1; below that, minus the distance.

    There the density of the minimiser is raised most, and the more so the larger the slope.
    """
    margin, width = _NORM * outputs[:, 0], _HUBER.huber_width
    apart = np.abs(margin - 1)
    return np.where(apart <= width, (1 + width - margin) / (2 * width), width - apart)


def _calibrated(claim: Claim, curvature: float) -> NoisyMinimiser:
    """Regulariser and noise for the claim, if this were the loss' largest curvature."""
    regulariser = curvature * _NORM**2 / math.expm1(claim.epsilon / 2)
    problem = _problem(claim, curvature, regulariser)
    return NoisyMinimiser(regulariser, objective.pure_scale(epsilon=claim.epsilon, **problem))


def _problem(claim: Claim, curvature: float, regulariser: float) -> Problem:
    return Problem(
        regulariser=regulariser,
        norm=_NORM,
        curvature=curvature,
        kind="huber-svm",
        relation=claim.relation,
    )
