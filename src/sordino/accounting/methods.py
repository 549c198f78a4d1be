"""Every method side by side: what each proves of a run, or the reason why it proves nothing."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

from sordino import _check
from sordino.accounting import calibrate, composition, printed, subsampled
from sordino.accounting.finding import Finding, Released, Run
from sordino.accounting.last_iterate import linear_heuristic, linear_loss
from sordino.accounting.profile import Profile
from sordino.accounting.subsampled import NoisySteps
from sordino.privacy import PASSES, Estimate, NotApplicable, Sampling


class Method(ABC):
    """A way to account for a run: `epsilon` at a delta, or the least `noise` for a budget."""

    name: str
    title: str
    released: Released

    @abstractmethod
    def epsilon(self, run: Run, blank: Finding) -> Finding:
        """`blank` with an epsilon; raises NotApplicable where there is none."""

    @abstractmethod
    def noise(self, run: Run, epsilon: float, blank: Finding) -> Finding:
        """`blank` with the least noise multiplier that meets epsilon at its delta."""


def account(run: Run, delta: float) -> list[Finding]:
    """What every method says of the run at `delta`."""
    delta = _check.probability_below_one("delta", delta)
    return [_found(method, run, delta, method.epsilon) for method in METHODS]


def calibrated(run: Run, epsilon: float, delta: float) -> list[Finding]:
    """The least noise multiplier for (epsilon, delta) by every method; the run's own is ignored."""
    hint = "Pass the budget you promise, such as 1.0."
    target = _check.positive("epsilon", epsilon, hint, allow_infinite=True)
    if _check.probability_below_one("delta", delta) == 0:
        _check.fail("delta", delta, "> 0", "Gaussian noise has no guarantee at delta = 0.")

    def noise_of(method: Method) -> Callable[[Run, Finding], Finding]:
        return lambda run, blank: method.noise(run, target, blank)

    return [_found(method, run, delta, noise_of(method)) for method in METHODS]


def most(
    run_at: Callable[[int], Run], epsilon: float, delta: float, *, at_most: int
) -> list[Finding]:
    """The largest count (of steps, epochs, ...) whose run every method proves the budget for."""
    hint = "Pass the budget you promise, such as 1.0."
    target = _check.positive("epsilon", epsilon, hint, allow_infinite=True)
    _check.probability_below_one("delta", delta)

    def count_of(method: Method) -> Callable[[Run, Finding], Finding]:
        def compute(run: Run, blank: Finding) -> Finding:
            if isinstance(method, _LinearLoss) and not run.linear:
                raise NotApplicable("It is an estimate for this loss, and no budget rests on one.")

            def holds(count: int) -> bool:
                try:
                    value = method.epsilon(run_at(count), blank).value
                except NotApplicable:
                    return False
                return value is not None and value <= target

            # Hidden states forget: their epsilon may stay below the budget for ever.
            count = at_most if holds(at_most) else calibrate.largest(holds, at_most)
            finding = method.epsilon(run_at(max(count, 1)), blank)
            if count == 0:
                raise NotApplicable(
                    f"Not even 1 meets this budget: its epsilon is {finding.value:.4g}."
                )
            if count == at_most:
                finding = replace(finding, notes=(*finding.notes, "no more than this were tried"))
            return replace(finding, value=count)

        return compute

    return [_found(method, run_at(1), delta, count_of(method)) for method in METHODS]


def best(findings: Sequence[Finding], *, largest: bool = False) -> Finding | None:
    """The guarantee with the least value (or the largest); None if there is none.

    All must have one relation: guarantees for different ones cannot be ranked.
    """
    applicable = [finding for finding in findings if finding.applies]
    if len({finding.relation for finding in applicable}) > 1:
        hint = "Guarantees for different relations cannot be ranked."
        _check.fail("relations", "several", "to be one and the same", hint)
    sign = -1.0 if largest else 1.0

    def rank(finding: Finding) -> tuple[float, bool]:
        # Of equal ones that which covers more.
        return sign * (finding.value or 0.0), finding.released == "final"

    return min(applicable[::-1], key=rank, default=None)


def _found(
    method: Method, run: Run, delta: float, compute: Callable[[Run, Finding], Finding]
) -> Finding:
    start = time.perf_counter()
    blank = Finding(method.name, method.title, method.released, run.steps.relation, delta)
    try:
        if run.released == "all" and method.released == "final":
            raise NotApplicable(
                "Every iterate is released, and this is a bound on the last one alone: release "
                "only the final model."
            )
        finding = compute(run, blank)
    except NotApplicable as refusal:
        finding = replace(blank, reason=str(refusal))
    return replace(finding, milliseconds=1000 * (time.perf_counter() - start))


class _Composition(Method):
    """Basic or strong composition of sampled steps; met once a pass, of passes without sampling."""

    released: Released = "all"

    def __init__(
        self, name: str, title: str, profile: Callable[..., Profile], noise: Callable[..., float]
    ) -> None:
        self.name, self.title, self._profile, self._noise = name, title, profile, noise

    @staticmethod
    def _rate_and_count(steps: NoisySteps) -> tuple[float, int]:
        subsampled.refuse(steps)
        if steps.is_trivial:
            return 0.0, 0
        if steps.sampling in (*PASSES, Sampling.FULL):
            return 1.0, max(count for count, _ in steps.visits)
        return steps.sample_rate, steps.steps

    def epsilon(self, run: Run, blank: Finding) -> Finding:
        rate, count = self._rate_and_count(run.steps)
        return blank.proved(
            self._profile(
                *(run.steps.noise_multiplier, rate, count, blank.delta),
                sensitivity=_base_sensitivity(run.steps),
                relation=run.steps.relation,
            )
        )

    def noise(self, run: Run, epsilon: float, blank: Finding) -> Finding:
        rate, count = self._rate_and_count(run.steps)
        size = _base_sensitivity(run.steps)

        def profile_at(noise: float) -> Profile:
            return self._profile(
                *(noise, rate, count, blank.delta), sensitivity=size, relation=run.steps.relation
            )

        noise = self._noise(epsilon, blank.delta, rate, count, sensitivity=size)
        noise = calibrate.proved(profile_at, noise, epsilon, blank.delta)
        return blank.proved(profile_at(noise), noise)


def _base_sensitivity(steps: NoisySteps) -> float:
    """Of one step before sampling. A fixed-size batch swaps records even where one is zeroed."""
    return 2.0 if steps.sampling == Sampling.FIXED_SIZE else steps.sensitivity


class _Notes(Method):
    """The lecture notes' naive formula, for comparison."""

    released: Released = "all"

    def __init__(self, name: str, title: str, noise: Callable[..., printed.AsPrinted]) -> None:
        self.name, self.title, self._formula = name, title, noise

    @staticmethod
    def _refuse(steps: NoisySteps) -> None:
        if steps.sampling in (*PASSES, Sampling.FULL):
            raise NotApplicable("The notes' formula is about sampled batches.")
        if steps.is_trivial or steps.noise_multiplier in (0.0, math.inf):
            raise NotApplicable("The notes' formula needs noise, records and steps.")

    def epsilon(self, run: Run, blank: Finding) -> Finding:
        self._refuse(run.steps)
        steps = run.steps
        numbers = steps.noise_multiplier, steps.sample_rate, steps.steps, blank.delta
        if blank.delta == 0:
            raise NotApplicable("The notes' formula needs delta > 0.")
        return blank.printed(printed.notes_naive_epsilon(*numbers))

    def noise(self, run: Run, epsilon: float, blank: Finding) -> Finding:
        self._refuse(replace(run.steps, noise_multiplier=1.0))
        if math.isinf(epsilon):
            raise NotApplicable("The notes' formula needs a finite epsilon.")
        numbers = epsilon, blank.delta, run.steps.sample_rate, run.steps.steps
        return blank.printed(self._formula(*numbers))


class _NotesNoise(_Notes):
    """A formula that the notes print for noise only, and without its constant."""

    def epsilon(self, run: Run, blank: Finding) -> Finding:
        raise NotApplicable("The notes print it for noise, without a constant; see calibrate.")


class _Accountant(Method):
    """The moments accountant or privacy loss distributions."""

    released: Released = "all"

    def __init__(self, name: str, title: str, profile: Callable[..., Profile]) -> None:
        self.name, self.title, self._of = name, title, profile

    def _profile(self, steps: NoisySteps) -> Profile:
        return self._of(
            *(steps.noise_multiplier, steps.sample_rate, steps.steps),
            sampling=steps.sampling,
            relation=steps.relation,
            steps_per_epoch=steps.steps_per_epoch,
        )

    def epsilon(self, run: Run, blank: Finding) -> Finding:
        return blank.proved(self._profile(run.steps))

    def noise(self, run: Run, epsilon: float, blank: Finding) -> Finding:
        steps = run.steps
        noise = calibrate.noise_multiplier(
            *(epsilon, blank.delta, steps.sample_rate, steps.steps),
            sampling=steps.sampling,
            relation=steps.relation,
            steps_per_epoch=steps.steps_per_epoch,
            method=self.name,
        )
        return blank.proved(self._profile(replace(steps, noise_multiplier=noise)), noise)


class _LastIterate(Method):
    """The hidden-state bounds."""

    name, title = "last-iterate", "last iterate (hidden state)"
    released: Released = "final"

    @staticmethod
    def _profile(run: Run, delta: float) -> Profile:
        if isinstance(run.hidden, NotApplicable):
            raise run.hidden
        if run.steps.is_trivial:
            return subsampled.pld(
                *(math.inf, run.steps.sample_rate, run.steps.steps),
                sampling=run.steps.sampling,
                relation=run.steps.relation,
            )
        return run.hidden.profile(run.steps, delta)

    def epsilon(self, run: Run, blank: Finding) -> Finding:
        if blank.delta == 0 and not run.steps.is_trivial:
            raise NotApplicable("Gaussian noise has no guarantee at delta = 0.")
        return blank.proved(self._profile(run, blank.delta))

    def noise(self, run: Run, epsilon: float, blank: Finding) -> Finding:
        def profile_at(noise: float) -> Profile:
            return self._profile(run.with_noise(noise), blank.delta)

        if profile_at(1.0).mu == 0:
            return blank.proved(profile_at(1.0), 0.0)
        noise = calibrate.least_noise(profile_at, epsilon, blank.delta)
        return blank.proved(profile_at(noise), noise)


class _LinearLoss(Method):
    """Annamalai's last iterate of a linear loss: proved for those, a heuristic for all others."""

    name, title = "linear-loss", "last iterate, linear loss"
    released: Released = "final"

    def epsilon(self, run: Run, blank: Finding) -> Finding:
        profile = self._profile(run)
        return blank.proved(profile) if run.linear else blank.estimated(self._heuristic(run, blank))

    def noise(self, run: Run, epsilon: float, blank: Finding) -> Finding:
        def profile_at(noise: float) -> Profile:
            return self._profile(run.with_noise(noise))

        trivial = profile_at(1.0).mu == 0
        noise = 0.0 if trivial else calibrate.least_noise(profile_at, epsilon, blank.delta)
        if run.linear:
            return blank.proved(profile_at(noise), noise)
        return blank.estimated(self._heuristic(run.with_noise(noise), blank), noise)

    @staticmethod
    def _profile(run: Run) -> Profile:
        if run.steps.sampling != "poisson":
            raise NotApplicable("The exact law for linear losses is known for Poisson sampling.")
        return linear_loss(
            noise_multiplier=run.steps.noise_multiplier,
            sample_rate=run.steps.sample_rate,
            steps=run.steps.steps,
            relation=run.steps.relation,
        )

    @staticmethod
    def _heuristic(run: Run, blank: Finding) -> Estimate:
        return linear_heuristic(
            noise_multiplier=run.steps.noise_multiplier,
            sample_rate=run.steps.sample_rate,
            steps=run.steps.steps,
            delta=blank.delta,
        )


METHODS: tuple[Method, ...] = (
    _Notes("notes-naive", "the notes' naive formula", printed.notes_naive_noise),
    _NotesNoise("notes-strong", "the notes' strong formula", printed.notes_strong_noise),
    _NotesNoise("notes-moments", "the notes' moments formula", printed.notes_moments_noise),
    _Composition("naive", "naive composition", composition.naive, composition.naive.noise),
    _Composition(
        *("strong-dwork", "strong composition (Dwork et al.)"),
        *(composition.strong_dwork, composition.strong_dwork.noise),
    ),
    _Composition(
        *("strong", "strong composition (Kairouz et al.)"),
        *(composition.strong_kairouz, composition.strong_kairouz.noise),
    ),
    _Accountant("rdp", "moments accountant (Renyi DP)", subsampled.rdp),
    _Accountant("pld", "privacy loss distributions", subsampled.pld),
    _LastIterate(),
    _LinearLoss(),
)
"""From the oldest to the tightest."""
