"""Does hiding the iterates hide anything? DP-SGD on its worst loss, audited end to end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sordino import _check, _cost
from sordino.accounting.linear_loss import linear_heuristic, linear_loss
from sordino.audit import bounds
from sordino.audit.band import band, refutes
from sordino.audit.claim import Claim
from sordino.audit.worst_case import WorstCase, linear_curve
from sordino.audit.worst_case_family import GRID, Family, error_rates, tradeoff
from sordino.privacy import USUAL_DELTA, Estimate, Observation, Relation, rounded
from sordino.seeding import Name, SeededStreams
from sordino.types import Floats

Curve = tuple[Floats, Floats]
"""False-positive rates and the false-negative rates that go with them."""
Order = Literal["presence", "absence"]

_OF_STEP = 8.0e-8
"""Seconds of one step of a run in each of the two worlds, on two cores of a machine of 2024."""
_OF_RUN = 200
"""Bytes of the scores of a run in each world, and of what is sorted."""
_POINTS = 400
_AS_MUCH = 0.97
"""Share of what all iterates show, from which on the final one is said to show as much."""
_RATES = np.concatenate([np.geomspace(1e-5, 0.02, 40)[:-1], np.linspace(0.02, 1.0, 60)])
_FINAL = "likelihood ratio that the worst-case loss wrote into the final iterate"
_ALL = "likelihood ratio of all iterates of the same runs"


@dataclass(frozen=True, eq=False)
class WorstCaseAudit:
    """What the final iterate of DP-SGD told about one record, on the loss that hides nothing.

    Parameters
    ----------
    claimed
        What accounting promises for all iterates, with its whole curve.
    setting
        The training and its loss.
    observed
        Lower bound from the final iterate, without any hypothesis.
    within_family
        Lower bound from the final iterate within the family DP-SGD(sample_rate, steps). Each of
        the two holds with its confidence, not both at once.
    all_iterates
        As `within_family`, by an attacker who sees every iterate of the same runs.
    linear
        What the last iterate would leak if the loss were linear.
    hides_less_than_linear
        Whether a last iterate that leaks no more than a linear loss's is refuted, by the band
        against that curve; no family is assumed.
    negative, positive
        Scores of the final iterates without and with the record.
    """

    claimed: Claim
    setting: WorstCase
    observed: Observation
    within_family: Observation
    all_iterates: Observation
    linear: Estimate
    hides_less_than_linear: bool
    negative: Floats
    positive: Floats

    @property
    def violated(self) -> bool:
        """Whether an epsilon above the claimed one was observed, within the family.

        One test decides, so that it is wrong at most as often as its confidence says.
        """
        return self.within_family.epsilon > self.claimed.epsilon

    @property
    def verdict(self) -> str:
        """What was found, in words."""
        found, confidence = self.within_family.epsilon, self.within_family.confidence
        said = (
            f"epsilon >= {rounded(found, up=False, digits=3)} at delta = {self.claimed.delta:.3g} "
            f"with {confidence:.4g} confidence, within DP-SGD of this sample rate and these steps"
        )
        claimed = rounded(self.claimed.epsilon)
        if self.violated:
            plain = f"{rounded(self.observed.epsilon, up=False, digits=3)} without that hypothesis"
            return f"violation: observed {said} ({plain}), above the claimed {claimed}"
        everything = rounded(self.all_iterates.epsilon, up=False, digits=3)
        linear = f"a linear loss's last iterate (epsilon {rounded(self.linear.epsilon, digits=3)})"
        shown = (
            f"it shows {said}; all iterates of the same runs show {everything}, and {claimed} is "
            "claimed for them"
        )
        if not self.hides_less_than_linear:
            return (
                f"no violation found by the final iterate; {shown}; it may leak no more than "
                f"{linear}"
            )
        refuted = f"that it leaks no more than {linear} is refuted"
        if found < _AS_MUCH * self.all_iterates.epsilon:
            return f"no violation found by the final iterate; {shown}; {refuted}"
        return (
            "no violation found, and no amplification: the final iterate shows as much as all "
            f"iterates; {shown}; {refuted}"
        )

    def curves(self, order: Order = "presence") -> Mapping[str, Curve]:
        """Error rates for a figure: "observed", "composed" (all iterates) and "linear".

        Of the test for the record's presence (D without it, D' with it), or for its absence, where
        D and D' change places.
        """
        _check.one_of("order", order, ("presence", "absence"))
        assert self.claimed.profile is not None
        way: Literal["forward", "backward"] = "forward" if order == "presence" else "backward"
        training = self.setting.sample_rate, self.setting.steps, self.setting.noise_multiplier
        observed = _thinned(*error_rates(self.negative, self.positive))
        linear = _RATES, linear_curve(*training, _RATES)
        if order == "absence":
            observed, linear = _exchanged(observed), _exchanged(linear)
        composed = _RATES, tradeoff(self.claimed.profile, _RATES, way)
        return {"observed": observed, "composed": composed, "linear": linear}


def audit_worst_case(
    sample_rate: float,
    steps: int,
    epsilon: float | None = None,
    *,
    noise_multiplier: float | None = None,
    delta: float = USUAL_DELTA,
    runs: int = 50_000,
    confidence: float = 0.99,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    family: Family | None = None,
) -> WorstCaseAudit:
    """Train on the worst loss, many times with and without one record; look at the last model.

    Parameters
    ----------
    sample_rate, steps
        Of DP-SGD with Poisson batches.
    epsilon, noise_multiplier
        One of them: the promise for all iterates, from which the noise is calibrated, or the noise.
    delta
        Of the promise and of what is observed.
    runs
        A world. Half of those of each world choose the threshold of the bound without hypothesis.
    confidence
        Of each observation by itself.
    seed
        Of the experiment's streams.
    progress
        Told how many runs are done, of how many.
    family
        To share calibrations between audits of one sample rate, steps and delta.
    """
    family = family or Family(sample_rate, steps, delta)
    if (family.sample_rate, family.steps, family.delta) != (sample_rate, steps, delta):
        _check.fail("family", family.name, "to be that of this training and delta")
    runs = _check.whole("runs", runs, at_least=2)
    each = "tested runs a world, half of all,"
    bounds.check_runs(runs - runs // 2, delta=delta, confidence=confidence, each=each)
    check_cost(steps, runs)  # before anything is calibrated, which takes time for many steps
    claimed, noise = _claim(family, epsilon, noise_multiplier)
    setting = WorstCase.choose(sample_rate, steps, noise)
    (negative, all_negative), (positive, all_positive) = play(
        setting, runs, ("audit", seed), progress=progress
    )

    def shown(attack: str, negative: Floats, positive: Floats) -> Observation:
        return band(
            negative,
            positive,
            family,
            delta=delta,
            confidence=confidence,
            family_name=family.name,
            parameters=GRID,
            direction="forward",
            attack=attack,
        )

    return WorstCaseAudit(
        claimed=claimed,
        setting=setting,
        observed=bounds.split(
            negative, positive, delta=delta, confidence=confidence, attack=_FINAL
        ),
        within_family=shown(_FINAL, negative, positive),
        all_iterates=shown(_ALL, all_negative, all_positive),
        linear=linear_heuristic(
            noise_multiplier=noise, sample_rate=sample_rate, steps=steps, delta=delta
        ),
        hides_less_than_linear=refutes(
            negative,
            positive,
            linear_loss(noise_multiplier=noise, sample_rate=sample_rate, steps=steps),
            confidence=confidence,
            direction="forward",
        ),
        negative=negative,
        positive=positive,
    )


def play(
    setting: WorstCase,
    runs: int,
    name: tuple[Name, ...],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """`WorstCase.trace` without and with the record, side by side, each from a stream of its own.

    `name` is that of the experiment: the same name gives the same runs.
    """
    done, lock, stop = 0.0, threading.Lock(), threading.Event()

    def told(more: float) -> None:
        nonlocal done
        if stop.is_set():
            raise _Stopped
        with lock:
            done += more
            if progress is not None:
                progress(round(done), 2 * runs)

    def world(with_record: bool) -> tuple[Floats, Floats]:
        numbers = (setting.sample_rate, setting.noise_multiplier)
        full = (*name, setting.steps, *map(repr, numbers), "with" if with_record else "without")
        stream = SeededStreams("worst case").stream(*full)
        return setting.trace(runs, with_record, stream, told)

    with ThreadPoolExecutor(2) as pool:
        try:
            without, with_it = pool.map(world, (False, True))
        finally:  # by Ctrl-C, say: the pool waits for what is under way
            stop.set()
    return without, with_it


def check_cost(steps: int, runs: int) -> float:
    """Seconds that `play` takes, about; refused if it could never end or be held.

    Raises
    ------
    InvalidArgument
        In a sentence that says what is needed and what to lower.
    """
    _cost.check_memory("runs", runs, _OF_RUN * runs, "Lower runs; 50,000 are usual.")
    seconds = _cost.total(_OF_STEP, steps, runs)
    _cost.check_time("steps", steps, seconds, "Lower steps or runs.")
    return seconds


class _Stopped(Exception):
    """The other world, or whoever waited, is gone."""


def _claim(
    family: Family, epsilon: float | None, noise_multiplier: float | None
) -> tuple[Claim, float]:
    if (epsilon is None) == (noise_multiplier is None):
        hint = "Pass one of the two."
        _check.fail("epsilon, noise_multiplier", (epsilon, noise_multiplier), "to be one", hint)
    if epsilon is not None:
        epsilon = _check.positive("epsilon", epsilon, "Pass the budget you promise, such as 1.0.")
        noise_multiplier, profile = family.noise(epsilon), family(epsilon)
    else:
        assert noise_multiplier is not None
        noise_multiplier = _check.positive("noise_multiplier", noise_multiplier)
        profile = family.profile(noise_multiplier)
        epsilon = profile.epsilon(family.delta)
    source = f"{profile.theorem}, all iterates"
    relation = Relation.ADD_OR_REMOVE_ONE
    return Claim(epsilon, family.delta, relation, profile, source), noise_multiplier


def _exchanged(curve: Curve) -> Curve:
    """The same test with its two worlds exchanged, from the lowest rate on."""
    return curve[1][::-1], curve[0][::-1]


def _thinned(alphas: Floats, betas: Floats) -> Curve:
    """Some hundred points, dense at both ends, where logarithmic axes look."""
    last = len(alphas) - 1
    if last < _POINTS:
        return alphas, betas
    ends = np.geomspace(1, last + 1, _POINTS // 4) - 1
    places = np.concatenate([ends, last - ends, np.linspace(0, last, _POINTS // 2)])
    kept = np.unique(places.round().astype(np.intp))
    return alphas[kept], betas[kept]
