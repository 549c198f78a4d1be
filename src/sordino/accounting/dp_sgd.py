"""Noisy gradient sums over random batches: privacy loss distributions and moments accountant.

How batches are drawn decides everything, so `sampling` (`sordino.privacy.Sampling`) has no default.
The rate is a record's chance to be in a batch: of Poisson sampling its probability, of fixed-size
batches size / n. Passes (cyclic, permute-once, shuffle) draw no amplification from sampling
(docs/math.md 2.2): what holds for them is that a record is met once a pass. By allocation it is met
once a pass, too, but in a step of its own: that is amplified (docs/math.md 13).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sordino import checks
from sordino.accounting import renyi
from sordino.accounting.compose import compose, group
from sordino.accounting.pld.allocation import (
    MOST_STEPS,
    NOISES,
    AllocationLoss,
    AllocationReplaceLoss,
)
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
from sordino.accounting.pld.person import PersonLoss, PersonReplaceLoss
from sordino.accounting.pld.truncated import (
    TruncatedLoss,
    TruncatedReplaceLoss,
    TruncatedZeroLoss,
)
from sordino.accounting.profile import GaussianProfile, LossProfile, Profile, RenyiProfile
from sordino.errors import NotApplicable
from sordino.privacy import MOST_ROWS_PER_PERSON, PASSES, Relation, Sampling

_EXACT = "privacy loss distributions"
_GAUSSIAN = "Gaussian DP composition (Dong, Roth & Su 2022)"
LEAST_NOISE = 1e-7
"""Noise below this, times the records of a person, is none: losses near 1e14 are never told."""
_FEW_STEPS, _MUCH_NOISE = 100, 0.75
"""A single epoch of no more steps is computed on a finer grid, and with so much noise, soon."""
_MOST_STEPS = 10**100
"""More are no training, and no number that floats can hold."""


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
        fewest a pass can have. For allocation a public number, not made from a private one.
    max_rows_per_person
        The most records of one person, all protected together: a cap that was enforced before
        training by a rule that looks at no value.
    max_batch_size
        Of Poisson sampling: larger batches are cut to so many records, dropped uniformly at random.
    records
        Needed with it: the number of records, or a public upper bound on it. Under
        add-or-remove-one, where that number is private, it has to be such a bound.
    """

    noise_multiplier: float
    sample_rate: float
    steps: int
    sampling: str
    relation: Relation
    steps_per_epoch: int | None = None
    max_rows_per_person: int = 1
    max_batch_size: int | None = None
    records: int | None = None

    def __post_init__(self) -> None:
        hint = "Pass the noise's standard deviation over the clipping norm, such as 1.1."
        noise = checks.non_negative(
            "noise_multiplier", self.noise_multiplier, hint, allow_infinite=True
        )
        hint = "It is batch size / records."
        rate = checks.fraction("sample_rate", self.sample_rate, hint, allow_zero=True)
        steps = checks.whole("steps", self.steps)
        if steps > _MOST_STEPS:
            checks.fail("steps", f"{len(str(steps))} digits", f"<= {_MOST_STEPS:.0e}")
        hint = "Say how batches are drawn: an accountant for one way is false for another."
        sampling = Sampling(checks.one_of("sampling", self.sampling, list(Sampling), hint))
        if not isinstance(self.relation, Relation):
            hint = "Pass Relation.ADD_OR_REMOVE_ONE, say."
            checks.fail("relation", self.relation, "to be a Relation", hint)
        if self.steps_per_epoch is not None:
            checks.whole("steps_per_epoch", self.steps_per_epoch, at_least=1)
        hint = "Pass the most records of any person; 1 if each has one."
        rows = checks.whole("max_rows_per_person", self.max_rows_per_person, hint, at_least=1)
        if rows > MOST_ROWS_PER_PERSON:
            checks.fail("max_rows_per_person", rows, f"<= {MOST_ROWS_PER_PERSON:,}")
        for name in ("max_batch_size", "records"):
            if (value := getattr(self, name)) is not None:
                checks.whole(name, value, at_least=1)
        if (most := self.max_batch_size) is not None and sampling != Sampling.POISSON:
            checks.fail("max_batch_size", most, "only with poisson", "Others have their size.")
        if self.max_batch_size is not None and self.records is None:
            hint = "How often a batch overflows depends on it; an upper bound will do."
            checks.fail("records", None, "to be given with max_batch_size", hint)
        vars(self).update(noise_multiplier=noise, sample_rate=rate, steps=steps, sampling=sampling)

    @property
    def sensitivity(self) -> float:
        """L2 sensitivity of the sum to one record, in clipping norms."""
        return 2.0 if self.relation is Relation.REPLACE_ONE else 1.0

    @property
    def needs_group_lemma(self) -> bool:
        """Whether no pair is known that dominates all records of a person, where batches are drawn.

        Of Poisson sampling there is one, unless batches are cut.
        """
        unknown = (Sampling.FIXED_SIZE, Sampling.ALLOCATION)
        return self.max_rows_per_person > 1 and (self.sampling in unknown or self.is_cut)

    @property
    def is_cut(self) -> bool:
        """Whether a Poisson batch may be too large, so that records are dropped."""
        most, records = self.max_batch_size, self.records
        return most is not None and records is not None and most < records

    @property
    def notes(self) -> tuple[str, ...]:
        """Whom the profile is about, where that is more than one record."""
        many = self.max_rows_per_person
        return () if many == 1 else (f"for {many} records of one person",)

    @property
    def is_trivial(self) -> bool:
        """Whether nothing of the data can ever be seen."""
        # In passes of a given number of batches every record is met, whatever the rate says.
        drawn = self.sampling in (Sampling.POISSON, Sampling.FIXED_SIZE)
        met = self.sampling == Sampling.FULL or (self.steps_per_epoch is not None and not drawn)
        unread = self.sample_rate == 0 and not met
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
        """How often a person is met, each count with its probability over the secret order.

        Of several records each may be the one that an unfinished pass meets (union bound).
        """
        if self.sampling == Sampling.FULL:
            return ((self.steps, 1.0),)
        passes, rest = divmod(self.steps, self.batches)
        if not rest:
            return ((passes, 1.0),)
        if self.sampling == Sampling.CYCLIC:  # the order is known: the worst record counts
            return ((passes + 1, 1.0),)
        # `rest` batches of at most ceil-rounded size hold at most this share of the records.
        # (With a rate at or below 1 / (batches + 1) one more batch would have fitted into a pass.)
        rate = 1 / self.batches
        if self.sampling != Sampling.ALLOCATION:
            rate = max(self.sample_rate, 1 / (self.batches + 1))
        share = min(1.0, self.max_rows_per_person * rest * rate)
        return ((passes, 1.0 - share), (passes + 1, share))


def pld(
    noise_multiplier: float,
    sample_rate: float,
    steps: int,
    *,
    sampling: str,
    relation: Relation,
    steps_per_epoch: int | None = None,
    max_rows_per_person: int = 1,
    max_batch_size: int | None = None,
    records: int | None = None,
    limit: Limit = Limit(),  # noqa: B008 - frozen
) -> Profile:
    """All iterates released, by privacy loss distributions: the tightest composition known.

    Exact up to the grid (2e-5 of epsilon, on the private side). Poisson sampling: Zhu, Dong & Wang
    2022; fixed-size batches: the symmetrised pair of Dong, Roth & Su 2022; records met once a
    pass: Gaussian DP, averaged over a secret order where there is one; random allocation: an epoch
    is the pair of docs/math.md 13, and epochs compose.

    All records of a person together: mu times their number where the sum has Gaussian noise and no
    batch is drawn; mixtures of Gaussians under Poisson sampling (Ganesh 2024); else, for batches of
    fixed size, allocation and batches that are cut, the general group lemma or, where less, as if
    batches were known, and the notes say so (docs/math.md 12). Poisson batches that are cut to
    `max_batch_size`: `pld/truncated.py`.

    Raises
    ------
    NotApplicable
        Where the sampling has no theorem for the relation.
    """
    numbers = noise_multiplier, sample_rate, steps, sampling, relation, steps_per_epoch
    run = NoisySteps(*numbers, max_rows_per_person, max_batch_size, records)
    theorem = _theorem(run, _EXACT)
    known = _without_sampling(run, theorem)
    if known is not None:
        return known
    if run.needs_group_lemma:
        return _grouped(pld(**_of_one_record(run), limit=limit), run)
    about: dict[str, Any] = {"relation": relation, "theorem": theorem, "notes": run.notes}
    return LossProfile(components=_components(run), limit=limit, **about)


def rdp(
    noise_multiplier: float,
    sample_rate: float,
    steps: int,
    *,
    sampling: str,
    relation: Relation,
    steps_per_epoch: int | None = None,
    max_rows_per_person: int = 1,
    max_batch_size: int | None = None,
    records: int | None = None,
) -> Profile:
    """All iterates released, by the moments accountant (Abadi et al. 2016) as Renyi DP.

    Divergences at integer and fractional orders by quadrature of the same dominating pairs as
    `pld` (Mironov, Talwar & Zhang 2019 for Poisson sampling), converted by the least of three
    theorems. Never tighter than `pld`, never slow.
    """
    numbers = noise_multiplier, sample_rate, steps, sampling, relation, steps_per_epoch
    run = NoisySteps(*numbers, max_rows_per_person, max_batch_size, records)
    theorem = _theorem(run, "moments accountant (Renyi DP)")
    if run.sampling == Sampling.ALLOCATION and run.batches > 1 and not run.is_trivial:
        raise NotApplicable("No closed moments are known for allocation; use loss distributions.")
    orders = renyi.ORDERS
    known = _without_sampling(run, theorem)
    if known is not None:
        divergences = known.renyi(orders)
        assert divergences is not None
        values = np.maximum(divergences, 0.0)  # weights of a secret order add to 1 but for rounding
    elif run.needs_group_lemma:
        return _grouped(rdp(**_of_one_record(run)), run)
    else:
        loss = _loss(run)
        values = np.zeros(len(orders))
        for direction in DIRECTIONS[:1] if loss.symmetric else DIRECTIONS:
            values = np.maximum(values, loss.log_moments(orders - 1, direction) / (orders - 1))
        values = run.steps * values
    about: dict[str, Any] = {"relation": relation, "theorem": theorem, "notes": run.notes}
    return RenyiProfile(orders=tuple(orders), values=tuple(values), **about)


def _without_sampling(run: NoisySteps, theorem: str) -> Profile | None:
    """The profile where no batch is drawn at random, or nothing depends on it; else None."""

    def gaussian(mu: float, at_most: bool = False) -> Profile:
        # Sums of a person's gradients are as many times longer, and in one batch at worst.
        one = GaussianProfile(parameter=mu, relation=run.relation, theorem=theorem, at_most=at_most)
        return group(one, run.max_rows_per_person)

    refuse(run)
    if run.is_trivial:
        return gaussian(0.0)
    if run.noise_multiplier < LEAST_NOISE * run.max_rows_per_person:
        return gaussian(math.inf)
    mu = run.sensitivity / run.noise_multiplier
    if run.sampling == Sampling.ALLOCATION:
        if run.batches > 1 and run.noise_multiplier >= NOISES[0]:
            return None
        theorem = f"{_GAUSSIAN} over epochs, the record's step taken for known"
        known = gaussian(mu * math.sqrt(run.visits[-1][0]), at_most=run.batches > 1)
        if run.batches == 1:
            return known
        return known.noted(f"amplification by allocation is not counted below noise {NOISES[0]}")
    if run.sampling not in PASSES:
        always = run.sampling == Sampling.FULL or run.sample_rate == 1
        if run.is_cut:  # a record may push out another one
            mu *= 2
        return gaussian(mu * math.sqrt(run.steps)) if always else None
    mus = tuple(mu * math.sqrt(count) for count, _ in run.visits)
    if len(mus) == 1:
        return gaussian(mus[0])
    mus = tuple(run.max_rows_per_person * each for each in mus)
    loss = GaussianLoss(mus, tuple(weight for _, weight in run.visits))
    return LossProfile(
        components=((loss, 1),), relation=run.relation, theorem=theorem, notes=run.notes
    )


def schedule(phases: Sequence[NoisySteps], account: Callable[..., Profile] = pld) -> Profile:
    """Phases of different steps, one after another: noise, rate or clip change when it was public.

    The noise of each is over the clip of its own steps, so a clip that changes under noise of fixed
    standard deviation is a noise multiplier that changes. Exact: steps of all phases are composed
    as they are (equal ones together), in any order.

    Parameters
    ----------
    phases
        Each with its `steps`, and decided before training: a phase that follows from what was seen
        is another matter (`accounting.zcdp.Filter`). All of one sampling, relation and number of
        rows a person. Where records are met in passes, whole passes: an order that is broken off
        goes on, or not, in the next phase. By allocation a phase begins with a new epoch.
    account
        `pld` or `rdp`.

    Examples
    --------
    >>> how = {"sampling": "poisson", "relation": Relation.ADD_OR_REMOVE_ONE}
    >>> early, late = NoisySteps(2.0, 0.01, 500, **how), NoisySteps(1.0, 0.02, 500, **how)
    >>> round(schedule([early, late]).epsilon(1e-5), 3)
    2.816
    """
    phases = checks.sequence("phases", phases, "Pass a list of NoisySteps.")
    for phase in phases:
        if not isinstance(phase, NoisySteps):
            checks.fail("phases", type(phase).__name__, "to be NoisySteps")
    for name in ("sampling", "relation", "max_rows_per_person"):
        values = list(dict.fromkeys(str(getattr(phase, name)) for phase in phases))
        if len(values) != 1:
            checks.fail("phases", f"[{len(phases)}]", f"to be of one {name}", f"Not {values}.")
    for number, phase in enumerate(phases, 1):
        if phase.sampling in PASSES and not phase.is_trivial and phase.steps % phase.batches:
            raise NotApplicable(
                f"Phase {number} ends within a pass ({phase.steps:,} steps, {phase.batches:,} a "
                "pass); what the next one meets is not known. Use whole passes."
            )
    if any(phase.needs_group_lemma for phase in phases):
        one = compose([account(**_of_one_record(phase)) for phase in phases])
        return _grouped(one, phases[0])
    return compose([account(**vars(phase)) for phase in phases])


def _of_one_record(run: NoisySteps) -> dict[str, Any]:
    return {**vars(run), "max_rows_per_person": 1}


def _grouped(one: Profile, run: NoisySteps) -> Profile:
    note = "by the general group lemma, or as if batches were known: no more is proved of these"
    return group(one, run.max_rows_per_person).noted(note)


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


def _components(run: NoisySteps) -> tuple[tuple[Loss, int], ...]:
    """Laws of privacy loss with their counts: of steps, or of epochs."""
    if run.sampling != Sampling.ALLOCATION:
        return ((_loss(run), run.steps),)
    # The mean of more ratios is less in convex order, so that more steps hide more.
    noise, batches = min(run.noise_multiplier, NOISES[1]), min(run.batches, MOST_STEPS)
    less = noise < run.noise_multiplier or batches < run.batches
    whole, rest = divmod(run.steps, run.batches)
    # A single epoch of few steps is not smoothed by others.
    replaced, finer = run.relation is Relation.REPLACE_ONE, 1
    if run.steps <= run.batches <= _FEW_STEPS:
        finer = 2 if replaced else 10 if noise >= _MUCH_NOISE else 3
    kind = AllocationReplaceLoss if replaced else AllocationLoss
    epoch = partial(kind, batches, noise, finer)
    found: list[tuple[Loss, int]] = [(epoch(at_most=less), whole)]
    if rest:  # an epoch broken off is post-processing of a whole one
        found.append((epoch(at_most=True), 1))
    return tuple((loss, count) for loss, count in found if count)


def _loss(run: NoisySteps) -> Loss:
    noise, rate = within_range(run.noise_multiplier, run.sample_rate)
    if run.sampling == Sampling.FIXED_SIZE:
        # A zeroed record is a replaced one, and other records may still differ by 2.
        return FixedSizeLoss(rate, noise)
    replaced, many = run.relation is Relation.REPLACE_ONE, run.max_rows_per_person
    if run.is_cut:
        assert run.max_batch_size is not None
        assert run.records is not None
        zeroed = run.relation is Relation.ZERO_OUT
        law = TruncatedZeroLoss if zeroed else TruncatedReplaceLoss if replaced else TruncatedLoss
        return law(rate, noise, run.max_batch_size, run.records)
    if many > 1:
        return (PersonReplaceLoss if replaced else PersonLoss)(rate, noise, many)
    return (PoissonReplaceLoss if replaced else PoissonLoss)(rate, noise)


def _theorem(run: NoisySteps, method: str) -> str:
    exact = method == _EXACT
    if run.sampling == Sampling.FULL:
        if exact:
            return "Gaussian DP composition (Dong, Roth & Su 2022, Corollary 3.3)"
        return f"{method} of the Gaussian mechanism (Mironov 2017)"
    if run.sampling in PASSES:
        means = "" if run.sampling == Sampling.CYCLIC else ", averaged over the secret order"
        rule = _GAUSSIAN if exact else method
        return f"{rule} over passes, each record met once a pass{means}"
    if run.sampling == Sampling.ALLOCATION:
        return f"{method} of the Gaussian mechanism under random allocation (docs/math.md 13)"
    pair = {
        (Sampling.POISSON, True): "Poisson sampling (Zhu, Dong & Wang 2022)",
        (Sampling.POISSON, False): "Poisson sampling (Mironov, Talwar & Zhang 2019)",
        (Sampling.FIXED_SIZE, True): "sampling of fixed size (Dong, Roth & Su 2022, Theorem 4.2)",
        (Sampling.FIXED_SIZE, False): "sampling of fixed size (the pair of Dong, Roth & Su 2022)",
    }[Sampling(run.sampling), exact]
    if run.is_cut:
        source = "accounting/pld/truncated.py; cf. Ganesh 2025"
        pair = f"Poisson sampling, batches cut to {run.max_batch_size:,} ({source})"
    elif run.max_rows_per_person > 1 and run.sampling == Sampling.POISSON:
        replaced = run.relation is Relation.REPLACE_ONE
        source = "Kahane's inequality, docs/math.md 12" if replaced else "Ganesh 2024"
        pair = f"Poisson sampling of a person's {run.max_rows_per_person} records ({source})"
    return f"{method} of the Gaussian mechanism under {pair}"
