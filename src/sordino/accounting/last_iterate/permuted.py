"""Noise on a final model whose batches were permuted at random: the sensitivity is random too.

How far one record can move the final weights depends on the batch it fell into. If the batches
come from a secret uniform permutation, record by record that place is random, and what an attacker
gains is at most the mean over places of what he would gain knowing the place.

All functions here need, and their callers must check: the permutation is uniform, independent of
the data and secret; nothing else computed from the data or the order is released (no order, no
intermediate model, no un-noised metric); each sensitivity bounds the L2 distance of the final
weights for a record in that place, whatever the rest of the order; noise N(0, sigma^2 I) is added
to all weights.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from sordino import checks
from sordino.accounting import renyi
from sordino.accounting.last_iterate.shifted import Numbers, non_negatives, ratio
from sordino.accounting.pld.loss import GaussianLoss
from sordino.accounting.profile import GaussianProfile, LossProfile, Profile, RenyiProfile
from sordino.privacy import Relation
from sordino.types import Floats

_MOST_PLACES = 1024
"""More distinct sensitivities than this are rounded up to this many."""
MOST_SEQUENCES = 1024
"""Up to this many sequences of positions are enumerated; beyond, sums are rounded up to a grid."""
_GRID_COST = 2e8
"""Additions that the grid of sums may take: its spacing follows."""

_NEEDS = "the permutation uniform, secret and independent of the data, and nothing else released"
_SECRET = "Gaussian noise on the final weights of permuted batches"


def hockey_mixture(
    *, sensitivities: Numbers, sigma: float, relation: Relation, weights: Numbers | None = None
) -> Profile:
    """Mean over the batches of the exact Gaussian profile: delta <= sum q_j dG(eps; D_j / sigma).

    By joint convexity of the hockey-stick divergence. Exact if the batch index leaks; never worse
    than any conversion of `renyi_mixture`, nor than `worst_position`.

    Parameters
    ----------
    sensitivities
        L2 sensitivity of the final weights to a record in batch j.
    sigma
        Standard deviation of the noise on each weight.
    relation
        What counts as a neighbouring dataset, as the sensitivities take it.
    weights
        Probability that a record falls into batch j: its size over n. Equal if not given.

    Notes
    -----
    Conditions: see the head of this module.
    """
    sizes, shares = _mixture(sensitivities, weights)
    sigma = checks.non_negative("sigma", sigma)
    theorem = (
        f"{_SECRET}: mean of the Gaussian profiles over the record's batch, by joint convexity of "
        f"the hockey-stick divergence; {_NEEDS}"
    )
    largest = ratio(float(sizes.max()), sigma)
    if largest == 0 or math.isinf(largest) or len(sizes) == 1:
        return GaussianProfile(parameter=largest, relation=relation, theorem=theorem)
    mus, known = _fewer(sizes / sigma, shares)
    notes = () if len(mus) == len(sizes) else (f"sensitivities rounded up to {len(mus)} values",)
    loss = GaussianLoss(tuple(mus.tolist()), tuple(known.tolist()))
    return LossProfile(components=((loss, 1),), relation=relation, theorem=theorem, notes=notes)


def renyi_mixture(
    *,
    sensitivities: Numbers,
    sigma: float,
    relation: Relation,
    weights: Numbers | None = None,
    orders: Numbers = renyi.ORDERS,
) -> RenyiProfile:
    """Renyi-DP of the same mixture: ln(sum q_j e^(a(a-1) D_j^2 / 2 sigma^2)) / (a - 1).

    Chen, Lee & Kifer 2019, Proposition 3 (joint convexity of the moments). For comparison with the
    paper: `hockey_mixture` is never worse.

    Notes
    -----
    Conditions: see the head of this module.
    """
    sizes, shares = _mixture(sensitivities, weights)
    sigma = checks.non_negative("sigma", sigma)
    at = non_negatives("orders", orders)
    mus = np.array([ratio(float(size), sigma) for size in sizes])
    if np.isinf(mus).any():
        values = np.full(len(at), math.inf)
    else:
        exponents = np.outer(at * (at - 1) / 2, mus**2)
        values = np.asarray(logsumexp(exponents, b=shares, axis=1)) / (at - 1)
    return RenyiProfile(
        orders=tuple(at.tolist()),
        values=tuple(np.maximum(values, 0.0).tolist()),
        relation=relation,
        theorem=f"{_SECRET}: Chen, Lee & Kifer 2019, Proposition 3; {_NEEDS}",
    )


def worst_position(*, sensitivities: Numbers, sigma: float, relation: Relation) -> GaussianProfile:
    """The exact Gaussian mechanism at the largest sensitivity: no secret order is needed."""
    sizes = non_negatives("sensitivities", sensitivities)
    sigma = checks.non_negative("sigma", sigma)
    return GaussianProfile(
        parameter=ratio(float(sizes.max(initial=0.0)), sigma),
        relation=relation,
        theorem="Gaussian mechanism at the largest sensitivity of any batch (Balle & Wang 2018)",
    )


def reshuffled(
    *,
    contributions: Sequence[Numbers],
    sigma: float,
    relation: Relation,
    weights: Numbers | None = None,
) -> Profile:
    """Mixture over all sequences of batches, for a new permutation in every epoch.

    Parameters
    ----------
    contributions
        For each epoch what a record in batch j of that epoch adds to the final sensitivity, later
        contractions included; a record's total is the sum over epochs.
    sigma, relation, weights
        As in `hockey_mixture`; the permutations are independent of each other.

    Notes
    -----
    Conditions: see the head of this module. Few sequences are enumerated; otherwise sums are put
    on a grid, each epoch's part rounded up, which can only raise epsilon.
    """
    epochs = [non_negatives("contributions", epoch) for epoch in contributions]
    if not epochs:
        return hockey_mixture(sensitivities=[0.0], sigma=sigma, relation=relation)
    if len({len(epoch) for epoch in epochs}) > 1:
        checks.fail("contributions", sorted({len(epoch) for epoch in epochs}), "of equal lengths")
    shares = _mixture(epochs[0], weights, keep_zero=True)[1]
    if len(shares) ** len(epochs) <= MOST_SEQUENCES:
        sums, odds = _enumerated(epochs, shares)
    else:
        sums, odds = _on_grid(epochs, shares)
    return hockey_mixture(sensitivities=sums, weights=odds, sigma=sigma, relation=relation).noted(
        "a new permutation each epoch: mixture over all sequences of batches"
    )


def _enumerated(epochs: list[Floats], shares: Floats) -> tuple[Floats, Floats]:
    sums = [math.fsum(choice) for choice in itertools.product(*epochs)]
    odds = [math.prod(choice) for choice in itertools.product(shares, repeat=len(epochs))]
    return np.array(sums), np.array(odds)


def _on_grid(epochs: list[Floats], shares: Floats) -> tuple[Floats, Floats]:
    """Law of the sum of independent parts, every part rounded up to a multiple of the spacing."""
    floors = [float(epoch.min()) for epoch in epochs]
    span = math.fsum(float(np.ptp(epoch)) for epoch in epochs)
    if span == 0:
        return np.array([math.fsum(floors)]), np.ones(1)
    points = int(np.clip(_GRID_COST / (len(epochs) * len(shares)), 2**10, 2**15))
    spacing = span / points
    law = np.ones(1)
    for epoch, floor in zip(epochs, floors, strict=True):
        places = np.ceil((epoch - floor) / spacing * (1 - 1e-12)).astype(np.int64)
        part = np.bincount(places, weights=shares)
        # Term by term: no Fourier rounding, which would drown the rare large sums.
        wider = np.zeros(len(law) + len(part) - 1)
        for place in np.flatnonzero(part):
            wider[place : place + len(law)] += part[place] * law
        law = wider
    kept = np.flatnonzero(law)
    sums = math.fsum(floors) + spacing * kept * (1 + 1e-12)
    return np.asarray(sums, dtype=np.float64), law[kept]


def _fewer(mus: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Equal values merged; if still too many, values rounded up to a grid. Sorted."""
    values, where = np.unique(mus, return_inverse=True)
    odds = np.asarray(np.bincount(where, weights=weights), dtype=np.float64)
    if len(values) <= _MOST_PLACES:
        return values, odds
    grid: Floats = np.linspace(values[0], values[-1], _MOST_PLACES)
    places = np.minimum(np.searchsorted(grid, values), _MOST_PLACES - 1)
    counted = np.bincount(places, weights=odds, minlength=_MOST_PLACES)
    gathered = np.asarray(counted, dtype=np.float64)
    return grid[gathered > 0], gathered[gathered > 0]


def _mixture(
    sensitivities: Numbers, weights: Numbers | None, keep_zero: bool = False
) -> tuple[Floats, Floats]:
    """Both checked, the weights made to sum to 1."""
    sizes = non_negatives("sensitivities", sensitivities)
    if len(sizes) == 0:
        checks.fail("sensitivities", "[]", "to hold at least one number")
    if weights is None:
        return sizes, np.full(len(sizes), 1 / len(sizes))
    shares = non_negatives("weights", weights)
    if len(shares) != len(sizes):
        checks.fail("weights", f"[{len(shares)}]", f"to have {len(sizes)} numbers, one a batch")
    if abs(math.fsum(shares) - 1) > 1e-9:
        hint = "Pass each batch's share of the records."
        checks.fail("weights", f"[sum {math.fsum(shares):.6g}]", "to sum to 1", hint)
    shares = shares / math.fsum(shares)
    kept = shares >= 0 if keep_zero else shares > 0
    return sizes[kept], shares[kept]
