"""Every way to come to an epsilon from the scores of worst-case runs, side by side."""

from __future__ import annotations

from sordino.audit.band import band
from sordino.audit.worst_case_estimates import area_estimate, paper_estimate, restricted_estimate
from sordino.audit.worst_case_family import GRID, Family
from sordino.types import Floats

Worlds = tuple[Floats, Floats]
"""Scores without and with the record."""

STEPS = GRID[(GRID > 0.2) & (GRID < 25)][::2]
"""Epsilons of estimates, a percent apart: of the bound's, so that few curves are computed."""
WAYS = {
    "paper_printed": "estimate, paper's rule as printed (arrow: none up to 20 fits)",
    "paper_restricted": "estimate, paper's rule, FPR and FNR in [0.01, 0.99]",
    "area": "estimate, curve of the observed area",
    "ours": "ours: lower bound within DP-SGD(q, T), 95% confidence",
}
"""What each is called in a figure."""


def estimated(scores: Worlds, family: Family) -> dict[str, float]:
    """Epsilon by the paper's rule, as printed and away from the ends, and by the area; no bounds.

    Infinite where no epsilon fits.
    """
    return {
        "paper_printed": paper_estimate(*scores, family).epsilon,
        "paper_restricted": restricted(scores, family),
        "area": area_estimate(*scores, family, grid=STEPS).epsilon,
    }


def restricted(scores: Worlds, family: Family) -> float:
    """Epsilon by the paper's rule where FPR and FNR lie in [0.01, 0.99]."""
    return restricted_estimate(*scores, family, grid=STEPS).epsilon


def bounded(scores: Worlds, family: Family, confidence: float) -> float:
    """Our lower bound within the family, at the family's delta."""
    return band(
        *scores,
        family,
        delta=family.delta,
        confidence=confidence,
        family_name=family.name,
        parameters=GRID,
        direction="forward",
    ).epsilon
