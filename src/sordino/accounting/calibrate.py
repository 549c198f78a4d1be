"""The least noise, or the most steps, epochs or records a batch, for a budget or a risk.

Every search ends on the side that is proved: what it returns, accounted again, is never above the
target.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import cache

from sordino import checks
from sordino.accounting import dp_sgd, gaussian
from sordino.accounting.pld.aim import Rough
from sordino.accounting.pld.loss import DIRECTIONS
from sordino.accounting.pld.numerics import first_below
from sordino.accounting.profile import Profile, Which
from sordino.accounting.risk import RiskTarget
from sordino.errors import NotApplicable
from sordino.privacy import Relation

TOLERANCE = 3e-6
"""Relative, of the noise multiplier; epsilon then is within 1e-4 of its target (law 6)."""
RISK_TOLERANCE, _AIM = 2e-4, 3e-4
"""Of a risk: epsilon is sought so near where it jumps, and what it adds to twice the second."""
MOST_NOISE = 1e9
LEAST_NOISE = 1e-6
MOST_STEPS = 10**9


class NoNoise(NotApplicable):
    """A target that not even the most noise meets."""


def least_noise(
    profile_at: Callable[[float], Profile],
    epsilon: float,
    delta: float,
    guess: float | None = None,
) -> float:
    """The least noise at which `profile_at(noise)` proves (epsilon, delta), rounded up.

    Any accountant whose delta falls as the noise grows. `guess` is where to look first.

    Raises
    ------
    NotApplicable
        If not even a noise multiplier of 1e9 meets the target.
    """
    epsilon, _ = _budget(epsilon, delta)
    if math.isinf(epsilon):
        return 0.0
    noise = guess
    # One direction usually decides, so the other is only checked where the search has ended.
    for direction in ("forward", "both"):

        def excess(profile: Profile, direction: Which = direction) -> float:
            value = profile.epsilon(delta, direction)
            return math.log(value / epsilon) if value else -math.inf

        noise = _search(profile_at, excess, noise)
        if profile_at(noise).epsilon(delta) <= epsilon:
            break
    assert noise is not None
    return noise


def noise_for_risk(profile_at: Callable[[float], Profile], target: RiskTarget) -> float:
    """The least noise at which `profile_at(noise)` has no more than that risk, rounded up.

    Every risk falls as the noise grows (docs/math.md 12); what is found meets the target.

    Raises
    ------
    NotApplicable
        If not even a noise multiplier of 1e9 meets the target.

    >>> from sordino.accounting.profile import GaussianProfile
    >>> def profile_at(noise: float) -> GaussianProfile:
    ...     how = {"relation": Relation.ZERO_OUT, "theorem": "GDP"}
    ...     return GaussianProfile(parameter=1 / noise, **how)
    >>> round(noise_for_risk(profile_at, RiskTarget.parse("advantage<=0.05")), 3)
    7.974
    """
    if profile_at(1.0).mu == 0:  # nothing is told at any noise
        return 0.0
    return _search(profile_at, target.excess, None)


def epsilon_for_risk(
    profile_at: Callable[[float], Profile],
    target: RiskTarget,
    delta: float,
    guess: float | None = None,
) -> float:
    """The largest epsilon whose mechanism has no more than that risk, rounded down.

    `profile_at(epsilon)` is of a mechanism that was calibrated to (epsilon, delta). What is found
    meets the target, and where the risk is continuous it adds within 1e-3 of what it may.
    `guess` is where to look first, by default where Gaussian noise has that risk.

    Raises
    ------
    NotApplicable
        If not even epsilon = 1e-9 meets the target: at delta alone the risk may be larger.

    >>> from sordino.accounting.profile import GaussianProfile
    >>> def profile_at(epsilon: float) -> GaussianProfile:
    ...     mu = 1 / gaussian.sigma(epsilon, 1e-5)
    ...     return GaussianProfile(parameter=mu, relation=Relation.ZERO_OUT, theorem="GDP")
    >>> round(epsilon_for_risk(profile_at, RiskTarget.parse("advantage<=0.05"), 1e-5), 3)
    0.436
    """
    delta, smaller = gaussian.positive_delta(delta), "Pass a smaller delta, or allow more."
    guess = gaussian.epsilon(target.mu, delta) if guess is None else guess
    if not guess > 0:  # then delta alone allows as much
        raise NotApplicable(f"At delta = {delta:g} no epsilon > 0 keeps {target}. {smaller}")

    @cache
    def excess(log_noise: float) -> float:
        """As if the inverse of epsilon were the noise; 0 for any excess from -2 `_AIM` to 0."""
        aimed = target.excess(profile_at(1 / math.exp(log_noise))) + _AIM
        return 0.0 if abs(aimed) <= _AIM else aimed

    try:
        low, high = _bracket(excess, -math.log(guess), None)
    except NoNoise:
        raise NotApplicable(f"At delta = {delta:g} no epsilon keeps {target}. {smaller}") from None
    if low == high or not excess(high):
        return 1 / math.exp(high)
    return 1 / _crossing(excess, low, high, RISK_TOLERANCE / (high - (low - 1.0)))


def _search(
    profile_at: Callable[[float], Profile],
    excess_of: Callable[[Profile], float],
    guess: float | None,
) -> float:
    """The least noise where `excess_of` its profile, which falls with the noise, is at most 0."""

    @cache
    def excess(log_noise: float) -> float:
        return excess_of(profile_at(math.exp(log_noise)))

    start = math.log(guess) if guess else 0.0
    # ln epsilon falls at least as fast as ln noise rises: the noise is not farther off than this.
    width = min(max(1.05 * abs(excess(start)), 1e-4), 1.0) if guess else 1.0
    low, high = _bracket(excess, start, width)
    if low == high:
        return math.exp(high)
    return _crossing(excess, low, high, TOLERANCE / (high - (low - 1.0)))


def _crossing(excess: Callable[[float], float], low: float, high: float, relative: float) -> float:
    """The noise where `excess` of its logarithm falls to 0, between two logarithms."""
    # `first_below` is relative to where it searches: count from a point that keeps it near 1.
    base = low - 1.0
    step = first_below(lambda part: excess(base + part), low - base, high - base, relative)
    return math.exp(base + step)


def _bracket(
    excess: Callable[[float], float], start: float, width: float | None
) -> tuple[float, float]:
    """Logs of two noises, the first too small and the second enough; equal at either limit.

    Without a width each step is as long as the excess there, which is right where a risk is in
    proportion to the noise; then also the first that needs no more search ends it.
    """
    least, most = math.log(LEAST_NOISE), math.log(MOST_NOISE)
    enough = excess(start) <= 0
    point, factor = start, 1.02
    while True:
        if width is None and not excess(point):
            return point, point
        if enough and point <= least:
            return point, point
        if not enough and point >= most:
            raise NoNoise(
                f"No noise multiplier up to {MOST_NOISE:.0e} meets this target; allow more, or "
                "take fewer steps."
            )
        step = width if width else factor * min(max(abs(excess(point)), 1e-3), 3.0)
        following = max(point - step, least) if enough else min(point + step, most)
        if (excess(following) <= 0) != enough:
            return (following, point) if enough else (point, following)
        point, width, factor = following, width and 2 * width, 1.5 * factor


def proved(
    profile_at: Callable[[float], Profile], noise: float, epsilon: float, delta: float
) -> float:
    """A noise that rounding left short of its target, raised by the last digits it lacks."""
    last_digit = 2.0**-52
    while profile_at(noise).epsilon(delta) > epsilon:
        noise, last_digit = noise * (1 + last_digit), 2 * last_digit
    return noise


def noise_multiplier(
    epsilon: float,
    delta: float,
    sample_rate: float,
    steps: int,
    *,
    sampling: str,
    relation: Relation,
    steps_per_epoch: int | None = None,
    max_rows_per_person: int = 1,
    max_batch_size: int | None = None,
    records: int | None = None,
    method: str = "pld",
) -> float:
    """The least noise multiplier for noisy steps, by "pld" (tightest) or "rdp".

    For other methods pass their accountant to `least_noise`.
    """
    checks.one_of("method", method, ("pld", "rdp"))
    epsilon, log_delta = _budget(epsilon, delta)
    account = dp_sgd.pld if method == "pld" else dp_sgd.rdp

    def profile_at(noise: float, account: Callable[..., Profile] = account) -> Profile:
        numbers = noise, sample_rate, steps, sampling, relation, steps_per_epoch
        run = dp_sgd.NoisySteps(*numbers, max_rows_per_person, max_batch_size, records)
        return account(**vars(run))

    trivial = profile_at(1.0)  # also checks every argument
    if trivial.epsilon(0.0) == 0 or math.isinf(epsilon):
        return 0.0
    if trivial.mu is not None:  # Gaussian at every noise, and mu goes like 1 / noise
        return proved(profile_at, gaussian.sigma(epsilon, delta, trivial.mu), epsilon, delta)
    guess = None
    if profile_at(1.0, dp_sgd.pld).losses is not None:

        def excess(log_noise: float) -> float:
            """How far Renyi DP is above epsilon, roughly: a convolution needs a little less."""
            losses = profile_at(math.exp(log_noise), dp_sgd.pld).losses
            assert losses is not None
            means = (Rough.of(losses, way).saddle_at(log_delta).mean for way in DIRECTIONS)
            return max(means) - epsilon

        with contextlib.suppress(NotApplicable):
            low, high = _bracket(excess, 0.0, 1.0)
            guess = _crossing(excess, low, high, relative=3e-3) if low < high else None
    return least_noise(profile_at, epsilon, delta, guess)


def most_steps(
    profile_at: Callable[[int], Profile], epsilon: float, delta: float, *, at_most: int = MOST_STEPS
) -> int:
    """The most steps (or epochs, or records a batch) `profile_at` proves (epsilon, delta) for.

    `profile_at(count)` must leak more as the count grows. 0 if not even one meets the target.

    >>> from sordino import Relation
    >>> from sordino.accounting.profile import GaussianProfile
    >>> def profile_at(steps: int) -> GaussianProfile:
    ...     mu = 0.1 * steps**0.5
    ...     return GaussianProfile(parameter=mu, relation=Relation.ZERO_OUT, theorem="GDP")
    >>> most_steps(profile_at, epsilon=1.0, delta=1e-6)
    5
    """
    epsilon, target = _budget(epsilon, delta)
    return largest(lambda count: profile_at(count).log_delta(epsilon) <= target, at_most)


def largest(holds: Callable[[int], bool], at_most: int) -> int:
    """The largest count up to `at_most` where `holds`, which is true up to some count; else 0."""
    at_most = checks.whole("at_most", at_most, at_least=1)
    good, bad = 0, 1
    while bad <= at_most and holds(bad):
        good, bad = bad, 2 * bad
    bad = min(bad, at_most + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good


def _budget(epsilon: float, delta: float) -> tuple[float, float]:
    hint = "Pass the budget you promise, such as 1.0."
    epsilon = checks.positive("epsilon", epsilon, hint, allow_infinite=True)
    return epsilon, math.log(gaussian.positive_delta(delta))
