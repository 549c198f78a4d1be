"""Objective perturbation: the minimiser of a sum of losses plus a random linear term.

J(w) = sum l(y x.w) + (Lambda / 2) ||w||^2 + b.w for a linear model whose l' has one sign and
|l'| <= 1, ||x|| <= X: logistic regression and the Huber SVM. A mean of n losses with
(l2 / 2) ||w||^2 has Lambda = n l2, and its noise is b / n.

The density of the minimiser is that of b = -(gradient of the rest) times det(H + Lambda I). One
record moves b by psi x, psi = |l'|, and multiplies the determinant by at most 1 + beta0 X^2 /
Lambda = e^kappa. Given psi the privacy loss is at most N_v = N(|v|^2 / 2s^2, |v|^2 / s^2), v = psi
x, plus ln(1 + l'' k), k = X^2 / Lambda; it is bounded here by its maximum M over psi in [0, 1]
(over the psi of both records where one is replaced). With mu = X / s:

* any l: M <= kappa + max(0, N_mu), without kappa where the record leaves. Replaced: the maximum is
  over the _corners 0, x, -x', x - x' of a parallelogram (M is convex in psi), once kappa.
* logistic, l'' = psi (1 - psi): M <= max(f, N_mu) for every f >= max(0, k - mu^2/2). For if
  M(psi) > M(1), the slope of N in psi is less than psi k - (1 + psi) mu^2/2, so that M(psi) <=
  psi (k - mu^2/2). Replaced: M <= max(N_{x-x'}, N_x, N_{x'} + f, f), in the same way.
* A bound for less noise holds for more: b = b1 + b2, and b2 is one more public linear term. So f
  may be chosen, and mu raised to what f needs.

Conditions that no code here can see: the intercept, if any, is part of x and of ||w||; Lambda, the
norm bound and all settings are chosen without the data; b is drawn once and kept secret.

The law of the privacy loss of objective perturbation, and the sums that bound its delta.

The proof is in the head of `sordino.accounting.objective`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri_exp

from sordino import checks
from sordino.accounting import gaussian
from sordino.accounting.calibrate import least_noise, proved
from sordino.accounting.compose import times
from sordino.accounting.last_iterate.shifted import ratio
from sordino.accounting.pld.loss import DIRECTIONS, Direction, GaussianLoss, Loss, from_tails
from sordino.accounting.profile import Components, GaussianProfile, Profile
from sordino.errors import NotApplicable
from sordino.privacy import Relation
from sordino.types import Floats

_Terms = tuple[tuple[float, float], ...]
"""Offsets and mus: by the union bound delta(epsilon) <= sum dG(epsilon - offset; mu)."""


def _corners(replace: bool, mu: float, floor: float) -> _Terms:
    """The normals whose maximum, and that of `floor`, bounds the loss."""
    return ((0.0, 2 * mu), (0.0, mu), (floor, mu)) if replace else ((0.0, mu),)


def _log_sum(epsilon: float, terms: _Terms) -> float:
    """Ln of the sum of the Gaussian deltas of these terms, at most 0."""
    logs = [gaussian.log_delta(epsilon - offset, mu) for offset, mu in terms]
    return min(0.0, float(np.logaddexp.reduce(logs)))


def _continued(log_delta_at: Callable[[float], float], start: float, epsilon: float) -> float:
    """Ln delta also below `start`: 1 - e^(epsilon - start) (1 - delta(start)).

    Of any two laws: 1 - e^(epsilon - loss) is at most 1 - e^(epsilon - start) where the loss is
    below `start`, and above it exceeds that by e^(epsilon - start) (1 - e^(start - loss)).
    """
    if epsilon >= start:
        return log_delta_at(epsilon)
    there = math.exp(epsilon - start + log_delta_at(start))
    return math.log(min(1.0, -math.expm1(epsilon - start) + there))


@dataclass(frozen=True)
class ObjectiveLoss(Loss):
    """A law above the privacy loss of objective perturbation, for every pair of neighbours.

    Its tail beyond the lowest loss is a sum of normal tails: in each direction the bound M, or a
    law stochastically above it. The other world has density e^-M of it, and what that lacks of 1
    where the first world never comes (a loss of -infinity).

    Parameters
    ----------
    mu
        X / sigma.
    jacobian, floor
        What is added to the loss, and what it is at least: kappa and 0, or 0 and f. Not where the
        record leaves, which has neither.
    replace
        Whether a record is replaced, not added or removed.
    """

    symmetric = False
    mu: float
    jacobian: float
    floor: float
    replace: bool

    def _law(self, direction: Direction) -> tuple[float, float, _Terms]:
        """Constant part, lowest value of the rest, and the normals of its tail."""
        charged = self.replace or direction == "forward"
        jacobian, start = (self.jacobian, self.floor) if charged else (0.0, 0.0)
        terms = _corners(self.replace, self.mu, start)
        if _tail(start, terms) > 1:
            high = start + 4 * self.mu + 2 * self.mu**2  # 2, 4 and 4 deviations
            start = gaussian.least(lambda at: _tail(at, terms) <= 1, start, high)
        return jacobian, start, terms

    def masses(self, edges: Floats, direction: Direction) -> tuple[Floats, Floats]:
        shift, start, terms = self._law(direction)
        at = np.maximum(edges - shift, start)
        above, other = _tails(at, terms), math.exp(-shift) * _tails(at, terms, tilt=-1.0)
        lowest = 1 - _tail(start, terms)  # all at `start`
        before = edges - shift < start
        above = above + np.where(before, lowest, 0.0)
        other = other + np.where(before, lowest * math.exp(-shift - start), 0.0)
        below = np.where(before, 0.0, 1 - above)
        return from_tails(below, above), from_tails(1 - other, other)

    def log_delta(self, epsilon: float, direction: Direction) -> float:
        shift, start, terms = self._law(direction)
        return _continued(lambda e: _log_sum(e - shift, terms), shift + start, epsilon)

    def log_moments(self, thetas: Floats, direction: Direction) -> Floats:
        shift, start, terms = self._law(direction)
        logs = [thetas * start + math.log(max(1 - _tail(start, terms), 1e-300))]
        for offset, mu in terms:
            centre = offset + (thetas + 0.5) * mu * mu
            growth = thetas * (offset + (thetas + 1) * mu * mu / 2)
            logs.append(growth + log_ndtr((centre - start) / mu))
        return np.asarray(thetas * shift + logsumexp(logs, axis=0), dtype=np.float64)

    def reach(self, log_tail: float, direction: Direction) -> tuple[float, float]:
        shift, start, terms = self._law(direction)
        quantile = float(ndtri_exp(log_tail - math.log(len(terms))))
        ends = [offset + mu * mu / 2 - mu * quantile for offset, mu in terms]
        return shift + start, shift + max(start, *ends)


def _tails(at: Floats, terms: _Terms, tilt: float = 0.0) -> Floats:
    """Sum of normal tails beyond these points, each times e^(tilt loss) for a tilt of 0 or -1."""
    total = np.zeros(len(at))
    for offset, mu in terms:
        centre = offset + (0.5 + tilt) * mu * mu
        total += math.exp(tilt * offset) * ndtr((centre - at) / mu)
    return total


def _tail(at: float, terms: _Terms) -> float:
    return float(_tails(np.array([at]), terms)[0])


_Kind = Literal["logistic", "huber-svm"]
KINDS = ("logistic", "huber-svm")


class Problem(TypedDict):
    """What every function here must know of the objective; all keyword arguments.

    Parameters
    ----------
    regulariser
        Lambda, on the scale of the SUM of losses: strong convexity in every direction, the
        intercept's included. Under add-or-remove a public number, not the private size times one.
    norm
        X: bound on ||x||, the constant column of an intercept included.
    curvature
        beta0 = sup l'': 1/4 for logistic, 1/(2h) for the Huber hinge of width h.
    kind
        "logistic" or "huber-svm": |l'| <= 1 of one sign; logistic also has l'' = psi (1 - psi).
    relation
        "forward" is the world with the record. Zero-out is accounted as add-or-remove.
    """

    regulariser: float
    norm: float
    curvature: float
    kind: _Kind
    relation: Relation


_OUTPUT_SHARE = 0.01
"""The mu of the noise that hides the solver's error, as a share of the mu of the objective's."""
_MOST_NOISE = 1e12
_FLOORS = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Values of f tried, as shares of min(k, epsilon): fixed, so that more noise is never worse."""


@dataclass(frozen=True, kw_only=True)
class ObjectiveProfile(Profile):
    """What the minimiser of a perturbed objective tells; made by `objective_perturbation`.

    Not Gaussian DP. Each epsilon has the least of the bounds in the module's head; releases compose
    by `ObjectiveLoss`, which is proved at every epsilon at once.
    """

    gradient_mu: float
    """X / sigma."""
    output_mu: float
    """Of the noise on the released point: 2 gamma / (Lambda sigma_out)."""
    kappa: float
    """Ln(1 + beta0 X^2 / Lambda)."""
    leverage: float | None
    """X^2 / Lambda if the loss is logistic."""

    @property
    def _replaces(self) -> bool:
        return self.relation is Relation.REPLACE_ONE

    def log_delta_one_way(self, epsilon: float, direction: Direction) -> float:
        charged = direction == "forward" or self._replaces
        kappa = self.kappa if charged else 0.0
        terms = self._terms(self.gradient_mu, 0.0)
        best = _continued(lambda e: _log_sum(e - kappa, terms), kappa, epsilon)
        if self.leverage is None or not charged:
            return best
        for share in _FLOORS:
            floor = share * min(self.leverage, epsilon)
            mu = max(self.gradient_mu, math.sqrt(2 * (self.leverage - floor)))
            best = min(best, _log_sum(epsilon, self._terms(mu, floor)))
        return best

    def _terms(self, mu: float, floor: float) -> _Terms:
        """The same normals plus the one that hides the solver's error."""
        alone = (*_corners(self._replaces, mu, floor), (floor, 0.0))
        return tuple((offset, math.hypot(size, self.output_mu)) for offset, size in alone)

    @property
    def losses(self) -> Components:
        """A law above the loss of the minimiser, and the Gaussian that hides the solver's error."""
        jacobian, floor = self.kappa, 0.0
        if self.leverage is not None:
            least = max(0.0, self.leverage - self.gradient_mu**2 / 2)
            if least <= jacobian:  # then max(f, N) is below kappa + max(0, N)
                jacobian, floor = 0.0, least
        loss = ObjectiveLoss(self.gradient_mu, jacobian, floor, self._replaces)
        hiding = GaussianLoss((self.output_mu,))
        return ((loss, 1), (hiding, 1)) if self.output_mu else ((loss, 1),)

    def renyi(self, orders: Floats) -> Floats:
        """Of the laws in `losses`, the worse direction."""
        orders = np.asarray(orders, dtype=np.float64)
        totals = [
            np.sum([law.log_moments(orders - 1, way) for law, _ in self.losses], axis=0)
            for way in DIRECTIONS
        ]
        return np.asarray(np.maximum(*totals) / (orders - 1), dtype=np.float64)


def objective_perturbation(
    *, sigma: float, minimum_error: float = 0.0, sigma_out: float = 0.0, **problem: Unpack[Problem]
) -> Profile:
    """The profile of objective perturbation with b ~ N(0, sigma^2 I), in any dimension.

    Parameters
    ----------
    sigma
        Standard deviation of each coordinate of b, on the scale of the SUM of losses.
    minimum_error
        gamma: the Euclidean norm of the gradient of J, b included, at the point found is at most
        this; fixed in advance, and b not drawn again if the solver fails.
    sigma_out
        Standard deviation of noise added to each weight of the point found before its release.
    **problem
        `regulariser`, `norm`, `curvature`, `kind` and `relation`: see `Problem`.

    Notes
    -----
    Bounds: see the head of this module. With an error gamma the point found is within gamma /
    Lambda of the minimiser, so the two worlds' points differ by 2 gamma / Lambda for the same
    minimiser: that and the minimiser compose. Without `sigma_out` an error tells everything.
    """
    leverage, kappa = _costs(problem)
    mu = ratio(problem["norm"], checks.non_negative("sigma", sigma))
    gamma = checks.non_negative("minimum_error", minimum_error)
    sigma_out = checks.non_negative("sigma_out", sigma_out)
    hiding = ratio(2 * gamma / problem["regulariser"], sigma_out)
    kind, relation = problem["kind"], problem["relation"]
    theorem = f"objective perturbation of a linear model, {kind} (docs/math.md 10.1)"
    if gamma > 0:
        theorem += ", composed with Gaussian noise on an approximate minimiser"
    if mu == 0 or math.isinf(mu) or math.isinf(hiding):
        whole = math.hypot(mu, hiding)
        return GaussianProfile(parameter=whole, relation=relation, theorem=theorem)
    return ObjectiveProfile(
        gradient_mu=mu,
        output_mu=hiding,
        kappa=kappa,
        leverage=leverage if kind == "logistic" else None,
        relation=relation,
        theorem=theorem,
    )


def noise(
    *,
    epsilon: float,
    delta: float,
    minimum_error: float = 0.0,
    problems: int = 1,
    **problem: Unpack[Problem],
) -> float:
    """The least sigma for which `objective_perturbation` proves (epsilon, delta), rounded up.

    With a `minimum_error` the released point must get `output_noise` at this sigma. With several
    `problems` (one-vs-rest) each has noise of its own, of this sigma, and they are composed.

    Raises
    ------
    NotApplicable
        If epsilon does not exceed the cost of the determinant, which no noise lowers.
    """
    epsilon = checks.positive("epsilon", epsilon, allow_infinite=True)
    delta = gaussian.positive_delta(delta, "For delta = 0 draw b as `pure_scale` says.")
    _, kappa = _costs(problem)
    lam, norm = problem["regulariser"], problem["norm"]
    gamma = checks.non_negative("minimum_error", minimum_error)
    problems = checks.whole("problems", problems, at_least=1)
    if norm == 0 or math.isinf(epsilon):
        return 0.0

    def profile_at(sigma: float) -> Profile:
        out = output_noise(sigma=sigma, regulariser=lam, norm=norm, minimum_error=gamma)
        one = objective_perturbation(sigma=sigma, minimum_error=gamma, sigma_out=out, **problem)
        return times(one, problems)

    def holds(sigma: float) -> bool:
        return profile_at(sigma).log_delta(epsilon) <= math.log(delta)

    if epsilon <= problems * kappa and (problems > 1 or not holds(_MOST_NOISE * norm)):
        raise NotApplicable(_too_costly(epsilon, kappa, lam, problems))
    if problems > 1:
        found = least_noise(lambda multiplier: profile_at(multiplier * norm), epsilon, delta)
        return proved(profile_at, found * norm, epsilon, delta)
    return proved(profile_at, gaussian.least_above_zero(holds, norm), epsilon, delta)


def output_noise(*, sigma: float, regulariser: float, norm: float, minimum_error: float) -> float:
    """Noise on each released weight that makes an approximate minimum all but free.

    Its mu is a hundredth of the objective's: 2 gamma / (Lambda sigma_out) = 0.01 X / sigma.
    """
    sigma = checks.non_negative("sigma", sigma)
    regulariser = checks.positive("regulariser", regulariser)
    norm = checks.positive("norm", norm)
    gamma = checks.non_negative("minimum_error", minimum_error)
    return 2 * gamma / regulariser * sigma / (_OUTPUT_SHARE * norm)


def pure_epsilon(*, scale: float, **problem: Unpack[Problem]) -> float:
    """Epsilon at delta = 0 of b with density proportional to exp(-||b|| / scale).

    The norm of b is then Gamma(dimension, scale), its direction uniform. By the triangle
    inequality epsilon is X / scale + kappa, 2X where a record is replaced (Chaudhuri, Monteleoni &
    Sarwate 2011 have two factors e^kappa; one is enough). Logistic: the largest psi X / scale +
    ln(1 + psi (1 - psi) X^2 / Lambda), which is X / scale alone if Lambda >= X scale.
    """
    scale = checks.positive("scale", scale)
    leverage, kappa = _costs(problem)
    rate = problem["norm"] / scale
    other = rate if problem["relation"] is Relation.REPLACE_ONE else 0.0
    if problem["kind"] != "logistic" or rate == 0:
        return other + rate + kappa
    # Where the derivative is 0: rate k psi^2 - (rate - 2) k psi - (rate + k) = 0.
    half = (rate - 2) * leverage / 2
    root = math.sqrt(half * half + rate * leverage * (rate + leverage))
    psi = (half + root) / (rate * leverage) if half > 0 else (rate + leverage) / (root - half)
    psi = min(psi, 1.0)
    return other + psi * rate + math.log1p(psi * (1 - psi) * leverage)


def pure_scale(*, epsilon: float, **problem: Unpack[Problem]) -> float:
    """The least scale of b for epsilon at delta = 0, rounded up: see `pure_epsilon`.

    Raises
    ------
    NotApplicable
        If epsilon does not exceed the cost of the determinant, which no noise lowers.
    """
    epsilon = checks.positive("epsilon", epsilon)
    _, kappa = _costs(problem)
    moved = problem["norm"] * (2 if problem["relation"] is Relation.REPLACE_ONE else 1)
    if moved == 0:
        return 0.0
    if epsilon <= kappa:
        raise NotApplicable(_too_costly(epsilon, kappa, problem["regulariser"]))

    def holds(scale: float) -> bool:
        return pure_epsilon(scale=scale, **problem) <= epsilon

    high = moved / (epsilon - kappa)
    while not holds(high):  # what division rounded off
        high = math.nextafter(high, math.inf)
    low = moved / epsilon
    return low if holds(low) else gaussian.least(holds, low, high)


def joint_norm(norm: float, problems: int, relation: Relation, *, softmax: bool = False) -> float:
    """How far one record moves the sum of the gradients of all K problems together.

    One-vs-rest: sqrt(K) X. Softmax: sqrt(2) X whatever K, since (p - e_y) has norm at most sqrt(2).
    Twice that where a record is replaced. For methods that add noise to gradients or weights: the
    determinant of objective perturbation is another matter.

    >>> round(joint_norm(1.0, 10, Relation.REPLACE_ONE, softmax=True), 4)
    2.8284
    """
    norm = checks.non_negative("norm", norm)
    problems = checks.whole("problems", problems, at_least=1)
    moved = math.sqrt(2 if softmax else problems) * norm
    return 2 * moved if relation is Relation.REPLACE_ONE else moved


def _costs(problem: Problem) -> tuple[float, float]:
    """Both X^2 / Lambda and kappa = ln(1 + beta0 X^2 / Lambda), with every argument checked."""
    if set(problem) != set(Problem.__annotations__):
        expected = ", ".join(Problem.__annotations__)
        raise TypeError(f"the objective's arguments are {expected}, not {', '.join(problem)}")
    hint = "Scale or clip the rows, the constant included."
    norm = checks.non_negative("norm", problem["norm"], hint)
    hint = "The minimiser of an objective that is not strongly convex has no density to bound."
    regulariser = checks.positive("regulariser", problem["regulariser"], hint)
    curvature = checks.positive("curvature", problem["curvature"])
    hint = "The proof needs a linear model whose l' has one sign."
    kind = checks.one_of("kind", problem["kind"], KINDS, hint)
    if kind == "logistic" and curvature < 0.25:
        checks.fail("curvature", curvature, ">= 0.25", "That is sup l'' of the logistic loss.")
    leverage = norm * norm / regulariser
    return leverage, math.log1p(curvature * leverage)


def _too_costly(epsilon: float, kappa: float, regulariser: float, problems: int = 1) -> str:
    needed = regulariser * math.expm1(kappa) / math.expm1(epsilon / problems)
    each = "" if problems == 1 else f" for each of {problems} problems"
    return (
        f"Objective perturbation needs epsilon > kappa = {kappa:.6g}{each}, not {epsilon:.6g}. "
        f"Raise epsilon, or take a regulariser (Lambda, of the sum of losses) above {needed:.6g} "
        f"instead of {regulariser:.6g}."
    )
