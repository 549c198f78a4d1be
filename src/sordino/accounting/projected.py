"""One visit to a record in a projected iteration, for any loss: contraction coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino import checks
from sordino.accounting import gaussian
from sordino.accounting.loss import Direction
from sordino.accounting.profile import Profile
from sordino.accounting.shifted import ratio
from sordino.privacy import Relation
from sordino.types import Floats


@dataclass(frozen=True, kw_only=True)
class ProjectedProfile(Profile):
    """delta(epsilon) = dG(epsilon; visit) dG(epsilon; later)^count, for epsilon >= 0."""

    visit: float
    later: float
    count: int

    def renyi(self, orders: Floats) -> Floats:
        """Of the visit alone, of which the rest is post-processing."""
        return np.asarray(orders * self.visit**2 / 2)

    def log_delta_one_way(self, epsilon: float, direction: Direction) -> float:
        """Ln of the product, the same in both directions."""
        fade = self.count * gaussian.log_delta(epsilon, self.later) if self.count else 0.0
        return gaussian.log_delta(epsilon, self.visit) + fade


def projected_one_visit(
    *, shift: float, noise: float, diameter: float, steps_after: int, relation: Relation
) -> ProjectedProfile:
    """One step uses the record; `steps_after` projected noisy steps follow that do not.

    delta(eps) <= dG(eps; a/s) dG(eps; D/s)^k: each later step contracts the hockey-stick divergence
    by the largest one between two of its starting points (Asoodeh, Diaz & Calmon 2020). No
    convexity or smoothness is needed. Worth anything only if the noise is of the size of D.

    Parameters
    ----------
    shift
        Bound a on how far the two worlds' maps differ at the visit, at any point.
    noise
        Standard deviation s of the noise of each step on each weight.
    diameter
        Bound D on how far apart a later step's map phi puts two points of the domain; for
        phi(w) = w - eta g(w) with |g| <= L on a domain of diameter d: d + 2 eta L.
    steps_after
        Steps after the visit, alike in both worlds.
    relation
        What counts as a neighbouring dataset.

    Notes
    -----
    Conditions: only the last iterate is released, iterates are projected onto the domain, the order
    of the batches is independent of the data, and the record is met once.
    """
    shift = checks.non_negative("shift", shift)
    noise = checks.non_negative("noise", noise)
    diameter = checks.non_negative("diameter", diameter, allow_infinite=True)
    after = checks.whole("steps_after", steps_after)
    return ProjectedProfile(
        visit=ratio(shift, noise),
        later=math.inf if math.isinf(diameter) else ratio(diameter, noise),
        count=after,
        relation=relation,
        theorem="contraction of the hockey-stick divergence by later steps of a projected "
        "iteration (Asoodeh, Diaz & Calmon 2020)",
    )
