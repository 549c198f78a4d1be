"""DP-AGD: gradient descent that decides how much privacy each step is worth.

Lee and Kifer, "Concentrated differentially private gradient descent with adaptive per-iteration
privacy budget" (KDD 2018), with the corrections of docs/math.md 10.4. Each round releases

1. a noisy sum of clipped gradients (Gaussian mechanism, rho = sensitivity^2 / (2 sigma^2)), and
2. the index of a step length, by the exponential mechanism on the objective (a log-ratio that
   ranges over r costs rho = r^2 / 8: Cesar and Rogers 2021, by Dong, Durfee and Rogers 2020).

Step length 0 is always a candidate; where it wins, the noise was too large: a second, independent
measurement of the same gradient is bought and averaged in. Everything else (directions, ranges,
shares) is computed from what was released, so all privacy lost is in the two draws, and a zCDP
filter (`Filter`) is asked BEFORE each of them. n is public: neighbours have equal size.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sordino import checks
from sordino.accounting.zcdp import Filter, exponential_temperature, gaussian_scale
from sordino.data.dataset import NORM_SLACK
from sordino.estimators.fit import FitPlan, FitRecords, Randomness, Settings, Task
from sordino.estimators.methods.training import Method
from sordino.estimators.minimum.linear import Risk
from sordino.proofs.adaptive import AdaptiveEvidence, concentrated_budget
from sordino.types import Floats

_Draw = Callable[[int], Floats]

# Every so many steps the longest candidate becomes this times the longest step among them.
_ADAPT_EVERY, _ADAPT_BY = 10, 1.1
# Ours, not the paper's: a lost choice may mean that every candidate is too long, and ranges
# that follow from steps taken alone would then never shrink. Neutral at the budgets simulated.
_SHRINK = 0.8
_FEWEST_ROUNDS, _MANY_ROUNDS = 5.0, 60.0


@dataclass(frozen=True)
class Shares:
    """What a round pays, and where it looks; public, and fixed before the data are seen.

    Parameters
    ----------
    gradient
        Cost of the first noisy gradient, in zCDP; it only grows.
    selection
        Cost of one choice of a step length.
    increase
        A gradient whose best step is 0 is measured again for this fraction of its share.
    largest_step
        The longest candidate, in Euclidean length, until it is adapted.
    candidates
        How many step lengths are compared, 0 included.
    """

    gradient: float
    selection: float
    increase: float = 0.1
    largest_step: float = 2.0
    candidates: int = 12

    def __post_init__(self) -> None:
        for name in ("gradient", "selection", "increase", "largest_step"):
            checks.positive(name, getattr(self, name))
        checks.whole("candidates", self.candidates, at_least=2)

    @staticmethod
    def by_rule(
        rho: float, rows: int, dimension: int, norm: float, clip: float, sensitivity_factor: float
    ) -> Shares:
        """Shares of a total `rho`, from public numbers only; a fifth goes to the choices.

        As many rounds as keep the first gradient's noise below 0.2 norm, growing slowly beyond
        60. A heuristic: its constants and the defaults above were chosen by simulation on Adult
        (one random split, epsilon 0.1 to 2 at delta 1e-8, both losses) and one synthetic set,
        so that results on Adult are optimistic.
        """
        noise = (sensitivity_factor * min(clip, norm) / rows) ** 2 * dimension / (2 * rho)
        rounds = (0.2 * norm) ** 2 / noise
        if rounds > _MANY_ROUNDS:
            rounds = _MANY_ROUNDS * (rounds / _MANY_ROUNDS) ** 0.25
        per_round = rho / max(rounds, _FEWEST_ROUNDS)
        return Shares(0.8 * per_round, 0.2 * per_round, largest_step=2.0 / norm)


@dataclass(frozen=True, eq=False)
class Releases:
    """The only two draws by which anything about the data leaves; both ask the budget first.

    Parameters
    ----------
    clip
        Per-record bound on the gradient of the data loss; above `norm` it changes nothing.
    norm
        A PUBLIC bound on the rows' norms; rows above it are refused.
    sensitivity_factor
        2 if a neighbour replaces a record by any other, 1 if by one without gradient.
    normals, gumbels
        Draw that many independent standard normal, or standard Gumbel, numbers.
    """

    risk: Risk
    budget: Filter
    clip: float
    norm: float
    sensitivity_factor: float
    normals: _Draw
    gumbels: _Draw

    def __post_init__(self) -> None:
        for name in ("clip", "norm", "sensitivity_factor"):
            checks.positive(name, getattr(self, name))
        if float(self.risk.row_norms.max()) > self.norm * (1 + NORM_SLACK):
            checks.fail("norm", self.norm, ">= every row's norm; one is longer")

    def gradient(self, w: Floats, rho: float) -> Floats:
        """Sum of clipped gradients plus N(0, (factor clip)^2 / (2 rho)) on each coordinate."""
        self.budget.spend(rho)
        most = min(self.clip, self.norm * (1 + NORM_SLACK))
        noise = gaussian_scale(self.sensitivity_factor * most, rho)
        return clipped_sum(self.risk, w, most) + noise * _draw(self.normals, len(w))

    def choice(self, w: Floats, v: Floats, lengths: Floats, rho: float) -> int:
        """Index i of a small objective at w - lengths[i] v, v a unit vector.

        p(i) is proportional to exp(-score_i / t). A loss is 1-Lipschitz in x.w, so one record's
        loss ranges over the candidates by at most norm (max length - min length), and the
        log-ratio of two neighbours' p by that times factor / t. Losses need no clipping.
        """
        self.budget.spend(rho)
        span = self.norm * (1 + NORM_SLACK) * float(np.ptp(lengths))
        t = exponential_temperature(self.sensitivity_factor * span, rho)
        scores = step_scores(self.risk, w, v, lengths)
        return int(np.argmax(_draw(self.gumbels, len(lengths)) - scores / t))


def _draw(draw: _Draw, size: int) -> Floats:
    """Draw, and refuse anything but `size` numbers: one number for all would be no noise.

    (numpy's own `Generator.gumbel(16)` is such a number: its first argument is the location.)
    """
    noise = np.asarray(draw(size), np.float64)
    if noise.shape != (size,):
        checks.fail("noise.shape", noise.shape, f"to be ({size},), one number for each")
    return noise


def clipped_sum(risk: Risk, w: Floats, clip: float) -> Floats:
    """Sum of the data gradients psi_i x_i, each scaled down to norm `clip` at most.

    The sum is in float64: float32 rounding of it would depend on all records together, and
    the sensitivity with it. A record's own psi may be rounded, for it is clipped afterwards.
    """
    psi = risk.derivatives(risk.scores(w).astype(np.float64))
    most = clip / np.maximum(risk.row_norms, np.finfo(np.float64).tiny)
    return risk.weighted_sum(np.clip(psi, -most, most))


def step_scores(risk: Risk, w: Floats, v: Floats, lengths: Floats) -> Floats:
    """Differences n (F(w - a v) - F(w)) for every length a, by two products with X."""
    here, along = risk.scores(w).astype(np.float64), risk.scores(v).astype(np.float64)
    # Rounding in float32 must not carry a record beyond its norm: the range bound rests on it.
    most = risk.row_norms * float(np.linalg.norm(v))
    along = np.clip(along, -most, most)
    sums = np.array([risk.losses(here - a * along).sum() for a in lengths])
    # The regulariser is free of data: exact, and no part of the range.
    bend = risk.l2 / 2 * (lengths**2 * float(v @ v) - 2 * lengths * float(w @ v))
    return sums - float(risk.losses(here).sum()) + risk.rows * bend


def descend(release: Releases, shares: Shares | None = None, start: Floats | None = None) -> Floats:
    """Return weights whose release costs at most what the budget had left, in zCDP.

    Theorem: a zCDP filter (Feldman and Zrnic 2021) over the Gaussian and exponential mechanisms of
    `Releases`; all iterates may be released. What is left at the end is spent on the last gradient:
    how much that is follows from what was released before, and the filter counts it.
    """
    risk, budget = release.risk, release.budget
    if shares is None:
        public = release.norm, release.clip, release.sensitivity_factor
        shares = Shares.by_rule(budget.left, risk.rows, risk.dimension, *public)
    w = np.zeros(risk.dimension) if start is None else start.copy()
    longest, share = shares.largest_step, shares.gradient
    taken: list[float] = []
    while (rho := _next_share(budget, share, shares.selection)) > 0:
        gradient = release.gradient(w, rho)
        while True:
            # The unit vector along the noisy gradient of F, its regulariser included.
            v = gradient / risk.rows + risk.l2 * w
            v = v / max(float(np.linalg.norm(v)), float(np.finfo(np.float64).tiny))
            lengths = np.linspace(0.0, longest, shares.candidates)
            if (i := release.choice(w, v, lengths, shares.selection)) > 0:
                break
            extra = _next_share(budget, shares.increase * rho, shares.selection)
            if extra == 0:
                return w
            # Independent measurements of one sum, weighted by inverse variance.
            again = release.gradient(w, extra)
            gradient, rho = (rho * gradient + extra * again) / (rho + extra), rho + extra
            share = max(share, rho)
            longest *= _SHRINK
        w = w - lengths[i] * v
        taken.append(float(lengths[i]))
        if len(taken) % _ADAPT_EVERY == 0:
            longest = _ADAPT_BY * max(taken[-_ADAPT_EVERY:])
    return w


def _next_share(budget: Filter, wanted: float, selection: float) -> float:
    """What to pay for the next gradient, so that a choice can still be paid; 0 to stop.

    What would not pay for another such round is spent now.
    """
    most = (budget.left - selection) * (1 - 1e-9)  # rounding must not cost us the choice
    rho = most if most < 1.5 * wanted + 0.5 * selection else wanted
    return rho if rho >= wanted / 2 and budget.can_spend(rho + selection) else 0.0


class AdaptiveDescent(Method):
    """Lee & Kifer 2018, corrected (docs/math.md 10.4), under zero-concentrated DP.

    Several classes are trained one after the other, each with its share of the budget. Without a
    promise there is nothing to decide, and the exact minimiser is released.
    """

    name = "dp-agd"

    def _plan(self, task: Task, given: Settings, start_norm: float) -> FitPlan:
        settings = given.filled(clip=task.norm)
        clip = settings.max_grad_norm
        assert clip is not None
        evidence, rho = None, math.inf
        if task.private:
            rho = _budget(task)
            evidence = AdaptiveEvidence(rho=rho, clip=clip, **task.shape)
        proof = None if evidence is None else evidence.proof()
        # The noise of the whole budget spent on one sum: later sums get more.
        sigma = task.moved * clip / math.sqrt(2 * rho)
        where = "at least, on sums of clipped gradients, and Gumbel noise on step lengths"
        done = self.name, task, settings, proof, sigma, 0.0, where
        return FitPlan(*done, l2=task.l2, evidence=evidence)

    def train(self, plan: FitPlan, records: FitRecords, draws: Randomness, start: Floats) -> Floats:
        """Weights that already carry their noise."""
        task, weights = plan.task, []
        for problem in range(records.problems):
            risk = records.risk(problem, task, task.l2)
            if not task.private:
                weights.append(risk.minimise(None, 1e-7 * task.norm))
                continue
            rho = _budget(task) / task.problems * (1 - 1e-12)
            noise, clip = draws.steps.stream("dp-agd", problem), plan.settings.max_grad_norm
            assert clip is not None
            release = Releases(
                *(risk, Filter(rho), clip, task.norm, task.moved),
                *(_counted(noise.standard_normal), _counted(noise.gumbel)),
            )
            weights.append(descend(release, _shares(task, plan.settings, rho), start[problem]))
        return np.stack(weights)


@functools.lru_cache(maxsize=512)
def _budget(task: Task) -> float:
    return concentrated_budget(
        task.epsilon, task.delta, task.relation, rows_per_person=task.rows_per_person
    )


def _counted(draw: Callable[[tuple[int, ...]], Floats]) -> _Draw:
    return lambda many: draw((many,))


def _shares(task: Task, settings: Settings, rho: float) -> Shares:
    """What DP-AGD pays for its first gradient and for each choice of a step length.

    `steps` are the rounds the budget would last if no gradient had to be measured again, and
    `learning_rate` is the length of the longest step at first.
    """
    assert settings.max_grad_norm is not None
    public = task.rows, task.columns, task.norm, settings.max_grad_norm, task.moved
    shares = Shares.by_rule(rho, *public)
    if settings.steps is not None:
        a_round = rho / settings.steps
        shares = replace(shares, gradient=0.9 * a_round, selection=0.1 * a_round)
    longest = settings.learning_rate
    return shares if longest is None else replace(shares, largest_step=longest)
