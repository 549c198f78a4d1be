"""Privacy of the last iterate alone: noisy gradient descent whose earlier iterates stay hidden.

Every function takes the numbers of the iteration w <- Pi(phi(w) + N(0, s^2 I)):

contraction c
    Lipschitz constant of each step's map phi, in both worlds.
shift a
    Bound on how far the two worlds' maps differ at any one point.
noise s
    Standard deviation of the noise on each weight of the iterate (learning rate included).

For w <- w - eta (mean gradient + N(0, sigma^2 I)) over batches divided by a fixed b:
c = max(|1 - eta lambda|, |1 - eta beta|), a = eta G / b with G = 2 L for REPLACE_ONE and L for
ZERO_OUT and ADD_OR_REMOVE_ONE, s = eta sigma.

Conditions that the caller must check: the loss is convex (lambda-strongly, if c < 1 is used) and
beta-smooth, and stays so under clipping; a record's gradient of the data term is bounded by L; the
step size gives the c that is passed, for every batch that can occur; both worlds start from the
same public point; divisor, steps and step sizes do not depend on the data; the projection, if
any, is onto a convex set. Only the last iterate is released: no average, no best iterate, no
momentum, no early stopping on private data. For non-convex losses nothing here holds but
`projected_one_visit`.

One visit to a record in a projected iteration, for any loss: contraction coefficients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino import checks
from sordino.accounting import gaussian
from sordino.accounting.last_iterate import shifted
from sordino.accounting.last_iterate.linear_loss import linear_heuristic, linear_loss
from sordino.accounting.last_iterate.permuted import hockey_mixture
from sordino.accounting.last_iterate.poisson import poisson
from sordino.accounting.last_iterate.shifted import Numbers, master_mu, ratio
from sordino.accounting.pld.loss import Direction
from sordino.accounting.profile import GaussianProfile, Profile
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


__all__ = [
    "bounded_domain",
    "cyclic",
    "full_batch",
    "linear_heuristic",
    "linear_loss",
    "master_mu",
    "one_visit",
    "permuted_once",
    "poisson",
    "projected_one_visit",
    "schedule",
]


HIDDEN = "shifted interpolation of the hidden iterates (Bok, Su & Altschuler 2024)"
_COMPOSITION = "Gaussian composition over the steps (Dong, Roth & Su 2022, Corollary 3.3)"
_IN_DOMAIN = ", in a domain of bounded diameter"


def schedule(
    contractions: Numbers,
    shifts: Numbers,
    noises: Numbers,
    *,
    relation: Relation,
    initial_distance: float = 0.0,
) -> GaussianProfile:
    """Any schedule of steps: one number for all steps or one a step, as in `master_mu`.

    Conditions: see the head of this module; `initial_distance` may replace the common start. Step
    sizes that decrease, with noise that decreases alike, gain little or nothing over composition.
    """
    mu = shifted.master_mu(contractions, shifts, noises, initial_distance)
    composed = shifted.composition_mu(shifts, noises) if initial_distance == 0 else math.inf
    return _least(mu, composed, relation, HIDDEN)


def bounded_domain(
    contractions: Numbers,
    shifts: Numbers,
    noises: Numbers,
    *,
    diameter: float,
    relation: Relation,
    initial_distance: float = 0.0,
) -> GaussianProfile:
    """Any schedule, every iterate projected onto one convex set of this diameter.

    The two runs are never farther apart than the diameter, so only the last steps count: the least
    over the start of the master bound from that distance (for c = 1: about 2 sqrt(a D) / s,
    however many steps). Conditions: see the head of this module.
    """
    diameter = checks.non_negative("diameter", diameter, allow_infinite=True)
    mu = shifted.domain_mu(contractions, shifts, noises, diameter, initial_distance)
    composed = shifted.composition_mu(shifts, noises) if initial_distance == 0 else math.inf
    return _least(mu, composed, relation, HIDDEN + _IN_DOMAIN)


def full_batch(
    *,
    contraction: float,
    shift: float,
    noise: float,
    steps: int,
    relation: Relation,
    diameter: float = math.inf,
) -> GaussianProfile:
    """Noisy gradient descent on all records at every step, constant numbers.

    mu = (a/s) sqrt((1 - c^T)/(1 + c^T) (1 + c)/(1 - c)), exact for quadratic losses; (a/s) sqrt(T),
    which is composition, at c >= 1. With a `diameter`, every iterate is projected onto a convex
    set of that diameter. Conditions: see the head of this module.
    """
    contraction, shift, noise = _numbers(contraction, shift, noise)
    steps = checks.whole("steps", steps)
    mu = composed = _composed(shift, noise, steps)
    if contraction < 1 and steps > 0:
        decay = -math.log(contraction) if contraction > 0 else math.inf
        gain = math.tanh(steps * decay / 2) / math.tanh(decay / 2)
        mu = shifted.ratio(shift, noise) * math.sqrt(gain)
    theorem = HIDDEN
    if not math.isinf(checks.non_negative("diameter", diameter, allow_infinite=True)):
        bounded = shifted.cyclic_mus(contraction, np.array([shift]), noise, steps, diameter)
        mu, theorem = min(mu, float(bounded[0])), HIDDEN + _IN_DOMAIN
    return _least(mu, composed, relation, theorem)


def one_visit(
    *, contraction: float, shift: float, noise: float, steps_after: int, relation: Relation
) -> GaussianProfile:
    """One step uses the record, and `steps_after` noisy steps follow that do not.

    mu = a c^k / (s sqrt(1 + c^2 + ... + c^2k)); at c = 1 a / (s sqrt(k + 1)), privacy amplification
    by iteration (Feldman, Mironov, Talwar & Thakurta 2018). Conditions: see the head of this
    module.
    """
    contraction, shift, noise = _numbers(contraction, shift, noise)
    after = checks.whole("steps_after", steps_after)
    mu = shifted.one_visit_mu(contraction, shift, noise, after)
    return _least(mu, _composed(shift, noise, 1), relation, HIDDEN)


def cyclic(
    *,
    contraction: float,
    shift: Numbers,
    noise: float,
    batches: int,
    steps: int,
    relation: Relation,
    position: int | None = None,
    diameter: float = math.inf,
) -> GaussianProfile:
    """Fixed disjoint batches, taken in the same order again and again.

    Parameters
    ----------
    contraction, noise, relation
        See the head of this module.
    shift
        One number, or one a position where batches differ: a smaller last batch that is divided by
        its own size shifts more; divided by the common size, not.
    batches, steps
        Batches in an epoch, and steps in all; the last epoch may be unfinished.
    position
        Place (from 0) of the batch that holds the record; the worst place if not given.
    diameter
        Diameter of the convex set onto which every iterate is projected; infinite if none is.
    """
    mus, shifts = _positions(contraction, shift, noise, batches, steps, diameter)
    if position is None:
        position = int(np.argmax(mus))
    place = checks.index("position", position, len(mus), "Pass a batch's place, from 0.")
    visits = int(shifted.visit_counts(len(mus), steps)[place])
    theorem = HIDDEN if math.isinf(diameter) else HIDDEN + _IN_DOMAIN
    composed = _composed(float(shifts[place]), noise, visits)
    return _least(float(mus[place]), composed, relation, theorem)


def permuted_once(
    *,
    contraction: float,
    shift: Numbers,
    noise: float,
    batches: int,
    steps: int,
    relation: Relation,
    weights: Numbers | None = None,
    diameter: float = math.inf,
) -> Profile:
    """One secret uniform permutation of the records, then `cyclic` batches.

    The record's place is random with the known `weights` (batch sizes over n; equal if not given),
    so delta is at most the mean over places of the cyclic ones: joint convexity of the
    hockey-stick divergence. The permutation must be independent of the data and never leave the
    building. Other parameters and conditions: see `cyclic`.
    """
    mus, _ = _positions(contraction, shift, noise, batches, steps, diameter)
    profile: Profile
    if np.isinf(mus).any():
        profile = GaussianProfile(parameter=math.inf, relation=relation, theorem=HIDDEN)
    else:
        profile = hockey_mixture(sensitivities=mus, weights=weights, sigma=1.0, relation=relation)
    bounded = "" if math.isinf(diameter) else _IN_DOMAIN
    return profile.noted(
        theorem=f"{HIDDEN}{bounded}, averaged over the record's batch under one secret uniform "
        "permutation (joint convexity of the hockey-stick divergence)"
    )


def _positions(
    contraction: float, shift: Numbers, noise: float, batches: int, steps: int, diameter: float
) -> tuple[Floats, Floats]:
    """Mu and shift of every position."""
    batches = checks.whole("batches", batches, at_least=1)
    shifts = shifted.non_negatives("shift", shift)
    if len(shifts) not in (1, batches):
        checks.fail("shift", f"[{len(shifts)}]", f"to be one number or {batches}, one a batch")
    contraction = checks.non_negative("contraction", contraction)
    noise = checks.non_negative("noise", noise)
    diameter = checks.non_negative("diameter", diameter, allow_infinite=True)
    shifts = np.broadcast_to(shifts, (batches,))
    mus = shifted.cyclic_mus(contraction, shifts, noise, checks.whole("steps", steps), diameter)
    return mus, shifts


def _numbers(contraction: float, shift: float, noise: float) -> tuple[float, float, float]:
    return (
        checks.non_negative("contraction", contraction),
        checks.non_negative("shift", shift),
        checks.non_negative("noise", noise),
    )


def _composed(shift: float, noise: float, visits: int) -> float:
    return shifted.ratio(shift, noise) * math.sqrt(visits) if visits else 0.0


def _least(mu: float, composed: float, relation: Relation, theorem: str) -> GaussianProfile:
    """The better of the hidden-state bound and composition, and which it was."""
    if mu < composed * (1 - 1e-12):
        note = f"the hidden state pays: composition of all steps gives mu = {composed:.6g}"
        notes = (note,) if math.isfinite(composed) else ()
    else:
        mu, theorem = min(mu, composed), _COMPOSITION
        notes = (
            "the hidden state gains nothing here; this bound also covers releasing every iterate",
        )
    return GaussianProfile(parameter=mu, relation=relation, theorem=theorem, notes=notes)
