"""Noisy gradient sums over random batches: privacy loss distributions and moments accountant.

How batches are drawn decides everything, so `sampling` (`sordino.privacy.Sampling`) has no default.
The rate is a record's chance to be in a batch: of Poisson sampling its probability, of fixed-size
batches size / n. Passes (cyclic, permute-once, shuffle) draw no amplification from sampling
(docs/math.md 2.2): what holds for them is that a record is met once a pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino import checks
from sordino.accounting import renyi
from sordino.accounting.pld.convolution import Limit
from sordino.accounting.pld.loss import (
    DIRECTIONS,
    LEAST_RATE,
    MOST_NOISE,
    FixedSizeLoss,
    GaussianLoss,
    Loss,
    PoissonLoss,
    PoissonReplaceLoss,
)
from sordino.accounting.profile import GaussianProfile, LossProfile, Profile, RenyiProfile
from sordino.errors import NotApplicable
from sordino.privacy import PASSES, Relation, Sampling

_EXACT = "privacy loss distributions"
LEAST_NOISE = 1e-7
"""Noise below this is none: losses near 1e14 are beyond every epsilon that is ever told."""


@dataclass(frozen=True)
class NoisySteps:
    """`steps` releases of a sum of clipped gradients plus noise; checked on creation.

    Parameters
    ----------
    noise_multiplier
        Standard deviation of the noise on the SUM of gradients, over the clipping norm.
    sample_rate
        Expected share of the records in a batch.
    steps
        How many.
    sampling
        How batches are drawn: a `Sampling`, or its word.
    relation
        What counts as a neighbouring dataset. The sum's sensitivity is the clipping norm for
        add-or-remove-one and zero-out, twice that for replace-one.
    steps_per_epoch
        Batches a pass, where records are met in passes; None means floor(1 / sample_rate), the
        fewest a pass can have.
    """

    noise_multiplier: float
    sample_rate: float
    steps: int
    sampling: str
    relation: Relation
    steps_per_epoch: int | None = None

    def __post_init__(self) -> None:
        hint = "Pass the noise's standard deviation over the clipping norm, such as 1.1."
        noise = checks.non_negative(
            "noise_multiplier", self.noise_multiplier, hint, allow_infinite=True
        )
        hint = "It is batch size / records."
        rate = checks.fraction("sample_rate", self.sample_rate, hint, allow_zero=True)
        steps = checks.whole("steps", self.steps)
        hint = "Say how batches are drawn: an accountant for one way is false for another."
        sampling = Sampling(checks.one_of("sampling", self.sampling, list(Sampling), hint))
        if not isinstance(self.relation, Relation):
            hint = "Pass Relation.ADD_OR_REMOVE_ONE, say."
            checks.fail("relation", self.relation, "to be a Relation", hint)
        if self.steps_per_epoch is not None:
            checks.whole("steps_per_epoch", self.steps_per_epoch, at_least=1)
        vars(self).update(noise_multiplier=noise, sample_rate=rate, steps=steps, sampling=sampling)

    @property
    def sensitivity(self) -> float:
        """L2 sensitivity of the sum, in clipping norms."""
        return 2.0 if self.relation is Relation.REPLACE_ONE else 1.0

    @property
    def is_trivial(self) -> bool:
        """Whether nothing of the data can ever be seen."""
        unread = self.sample_rate == 0 and self.sampling != Sampling.FULL
        return self.steps == 0 or math.isinf(self.noise_multiplier) or unread

    @property
    def batches(self) -> int:
        """Batches a pass."""
        if self.steps_per_epoch is not None:
            return self.steps_per_epoch
        # 1/q a little below a whole number is that number, rounded.
        return max(1, math.floor(1 / self.sample_rate + 1e-9))

    @property
    def visits(self) -> tuple[tuple[int, float], ...]:
        """How often a record is met, each count with its probability over the secret order."""
        if self.sampling == Sampling.FULL:
            return ((self.steps, 1.0),)
        passes, rest = divmod(self.steps, self.batches)
        if not rest:
            return ((passes, 1.0),)
        if self.sampling == Sampling.CYCLIC:  # the order is known: the worst record counts
            return ((passes + 1, 1.0),)
        # `rest` batches of at most ceil-rounded size hold at most this share of the records.
        share = min(1.0, rest * self.sample_rate)
        return ((passes, 1.0 - share), (passes + 1, share))


def pld(
    noise_multiplier: float,
    sample_rate: float,
    steps: int,
    *,
    sampling: str,
    relation: Relation,
    steps_per_epoch: int | None = None,
    limit: Limit = Limit(),  # noqa: B008 - frozen
) -> Profile:
    """All iterates released, by privacy loss distributions: the tightest composition known.

    Exact up to the grid (2e-5 of epsilon, on the private side). Poisson sampling: Zhu, Dong & Wang
    2022; fixed-size batches: the symmetrised pair of Dong, Roth & Su 2022; records met once a
    pass: Gaussian DP, averaged over a secret order where there is one.

    Raises
    ------
    NotApplicable
        Where the sampling has no theorem for the relation.
    """
    run = NoisySteps(noise_multiplier, sample_rate, steps, sampling, relation, steps_per_epoch)
    theorem = _theorem(run, _EXACT)
    known = _without_sampling(run, theorem)
    if known is not None:
        return known
    components = ((_loss(run), run.steps),)
    return LossProfile(components=components, relation=relation, theorem=theorem, limit=limit)


def rdp(
    noise_multiplier: float,
    sample_rate: float,
    steps: int,
    *,
    sampling: str,
    relation: Relation,
    steps_per_epoch: int | None = None,
) -> Profile:
    """All iterates released, by the moments accountant (Abadi et al. 2016) as Renyi DP.

    Divergences at integer and fractional orders by quadrature of the same dominating pairs as
    `pld` (Mironov, Talwar & Zhang 2019 for Poisson sampling), converted by the least of three
    theorems. Never tighter than `pld`, never slow.
    """
    run = NoisySteps(noise_multiplier, sample_rate, steps, sampling, relation, steps_per_epoch)
    theorem = _theorem(run, "moments accountant (Renyi DP)")
    orders = renyi.ORDERS
    known = _without_sampling(run, theorem)
    if known is not None:
        divergences = known.renyi(orders)
        assert divergences is not None
        values = np.maximum(divergences, 0.0)  # weights of a secret order add to 1 but for rounding
    else:
        loss = _loss(run)
        values = np.zeros(len(orders))
        for direction in DIRECTIONS[:1] if loss.symmetric else DIRECTIONS:
            values = np.maximum(values, loss.log_moments(orders - 1, direction) / (orders - 1))
        values = run.steps * values
    return RenyiProfile(
        orders=tuple(orders), values=tuple(values), relation=relation, theorem=theorem
    )


def _without_sampling(run: NoisySteps, theorem: str) -> Profile | None:
    """The profile where no batch is drawn at random, or nothing depends on it; else None."""

    def gaussian(mu: float) -> Profile:
        return GaussianProfile(parameter=mu, relation=run.relation, theorem=theorem)

    refuse(run)
    if run.is_trivial:
        return gaussian(0.0)
    if run.noise_multiplier < LEAST_NOISE:
        return gaussian(math.inf)
    mu = run.sensitivity / run.noise_multiplier
    if run.sampling not in PASSES:
        always = run.sampling == Sampling.FULL or run.sample_rate == 1
        return gaussian(mu * math.sqrt(run.steps)) if always else None
    mus = tuple(mu * math.sqrt(count) for count, _ in run.visits)
    if len(mus) == 1:
        return gaussian(mus[0])
    loss = GaussianLoss(mus, tuple(weight for _, weight in run.visits))
    return LossProfile(components=((loss, 1),), relation=run.relation, theorem=theorem)


def refuse(run: NoisySteps) -> None:
    """Raise NotApplicable where the sampling has no theorem for the relation."""
    if run.relation is not Relation.ADD_OR_REMOVE_ONE:
        return
    if run.sampling == Sampling.FIXED_SIZE:
        raise NotApplicable(
            "Batches of fixed size cannot hide the number of records. Use replace-one, or "
            "Poisson sampling."
        )
    if run.sampling in PASSES:
        raise NotApplicable(
            f"In {run.sampling} order adding or removing a record moves all later records to "
            "other batches. Use zero-out, replace-one, or Poisson sampling."
        )


def within_range(noise_multiplier: float, sample_rate: float) -> tuple[float, float]:
    """Noise and rate that floats can compute with, and that dominate these.

    Noise of more than MOST_NOISE is post-processing of less. A mixture that shifts at rate q is one
    of the unshifted law and the mixture at a larger rate, and divergences are jointly convex.
    """
    return min(noise_multiplier, MOST_NOISE), max(sample_rate, LEAST_RATE)


def _loss(run: NoisySteps) -> Loss:
    noise, rate = within_range(run.noise_multiplier, run.sample_rate)
    if run.sampling == Sampling.FIXED_SIZE:
        # A zeroed record is a replaced one, and other records may still differ by 2.
        return FixedSizeLoss(rate, noise)
    if run.relation is Relation.REPLACE_ONE:
        return PoissonReplaceLoss(rate, noise)
    return PoissonLoss(rate, noise)


def _theorem(run: NoisySteps, method: str) -> str:
    exact = method == _EXACT
    if run.sampling == Sampling.FULL:
        if exact:
            return "Gaussian DP composition (Dong, Roth & Su 2022, Corollary 3.3)"
        return f"{method} of the Gaussian mechanism (Mironov 2017)"
    if run.sampling in PASSES:
        means = "" if run.sampling == Sampling.CYCLIC else ", averaged over the secret order"
        rule = "Gaussian DP composition (Dong, Roth & Su 2022)" if exact else method
        return f"{rule} over passes, each record met once a pass{means}"
    pair = {
        (Sampling.POISSON, True): "Poisson sampling (Zhu, Dong & Wang 2022)",
        (Sampling.POISSON, False): "Poisson sampling (Mironov, Talwar & Zhang 2019)",
        (Sampling.FIXED_SIZE, True): "sampling of fixed size (Dong, Roth & Su 2022, Theorem 4.2)",
        (Sampling.FIXED_SIZE, False): "sampling of fixed size (the pair of Dong, Roth & Su 2022)",
    }[Sampling(run.sampling), exact]
    return f"{method} of the Gaussian mechanism under {pair}"
