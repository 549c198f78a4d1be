"""Kind "hidden-state": DP-SGD on Annamalai's loss, and what claims ask of it.

Three tables: "curves" (Figure 1: error rates of one training), "epsilons" (Figure 2: epsilon found,
by every way, over repeats) and "loss" (what the paper's own encoding loses).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from sordino import checks
from sordino.audit.worst_case import (
    Family,
    Worlds,
    WorstCase,
    WorstCaseAudit,
    audit_worst_case,
    bounded,
    error_rates,
    estimated,
    linear_curve,
    play,
    restricted,
    tradeoff,
)
from sordino.randomness import stream
from sordino.types import Array, Progress
from sordino_papers.quantities import Answer, Quantities

if TYPE_CHECKING:
    from sordino_papers.runs import RunStore

_ORDERS = ("presence", "absence")
_RATES = np.round(np.arange(0.01, 0.995, 0.01), 10)
"""False-positive rates at which curves are compared."""


def make(settings: Mapping[str, Any], store: RunStore) -> dict[str, Array]:
    """The table that `of` names."""
    tables: dict[str, Callable[..., dict[str, Any]]]
    tables = {"curves": _curves, "epsilons": _epsilons, "loss": _loss}
    rest = dict(settings)
    found = tables[checks.one_of("of", rest.pop("of"), [*tables])](store.tell, **rest)
    return {name: np.asarray(value) for name, value in found.items()}


def _curves(
    tell: Progress,
    *,
    noise_multiplier: float,
    sample_rate: float,
    steps: int,
    delta: float,
    runs: int,
    confidence: float,
    seed: int,
) -> dict[str, Any]:
    """One training, and fresh runs with D and D' exchanged."""
    how: dict[str, Any] = {"delta": delta, "runs": runs, "confidence": confidence, "seed": seed}
    how["progress"] = lambda done, _: tell(done, 4 * runs)
    audited = audit_worst_case(sample_rate, steps, noise_multiplier=noise_multiplier, **how)
    name = ("reproduce", "exchanged", seed)
    (without, _), (with_it, _) = play(
        audited.setting, runs, name, progress=lambda done, _: tell(2 * runs + done, 4 * runs)
    )
    return {
        **{"noise_multiplier": noise_multiplier, "sample_rate": sample_rate},
        **{"steps": steps, "runs": runs},
        "claimed": audited.claimed.epsilon,
        "linear": audited.linear.epsilon,
        "bound": audited.within_family.epsilon,
        "bound_all_iterates": audited.all_iterates.epsilon,
        "linear_refuted": float(audited.hides_less_than_linear),
        **_compared(audited, without, with_it),
        **{
            f"{order}/{line}/{rate}": values
            for order in _ORDERS
            for line, curve in audited.curves(order).items()  # type: ignore[arg-type]
            for rate, values in zip(("fpr", "fnr"), curve, strict=True)
        },
    }


def _compared(audited: WorstCaseAudit, without: Array, with_it: Array) -> dict[str, Array]:
    """False-negative rates at `RATES`, observed and predicted; exchanged ones are of new runs."""
    profile, run = audited.claimed.profile, audited.setting
    assert profile is not None
    observed = error_rates(audited.negative, audited.positive)
    exchanged = error_rates(-with_it, -without)
    inverse = observed[1][::-1], observed[0][::-1]
    return {
        "at/rates": _RATES,
        "at/observed": _at_rates(*observed),
        "at/composed": tradeoff(profile, _RATES, "forward"),
        "at/symmetric": tradeoff(profile, _RATES, "both"),
        "at/linear": linear_curve(run.sample_rate, run.steps, run.noise_multiplier, _RATES),
        "at/exchanged": _at_rates(*exchanged),
        "at/inverse": _at_rates(*inverse),
        "at/composed_exchanged": tradeoff(profile, _RATES, "backward"),
    }


def _at_rates(alphas: Array, betas: Array) -> Array:
    """The false-negative rate of the last threshold whose false-positive rate is within each."""
    places = np.searchsorted(alphas, _RATES, side="right") - 1
    return np.where(places >= 0, betas[np.maximum(places, 0)], 1.0)


def _epsilons(
    tell: Progress,
    *,
    sample_rate: float,
    steps: int,
    delta: float,
    epsilons: list[float],
    repeats: int,
    runs: int,
    bounds: int,
    bound_runs: int,
    confidence: float,
) -> dict[str, Any]:
    """Epsilon found at each epsilon: estimates of every repeat, bounds of the first `bounds`.

    Repeats that are bounded have `bound_runs` runs a world, of which estimates see the first
    `runs`; "largest_with_record" is whether D' has the largest score. Beside them the paper's rule
    as it does on the exact likelihood ratio of all iterates of the same runs ("exact"), and on all
    runs of a bounded repeat ("many").
    """
    family = Family(sample_rate, steps, delta)
    noise = [family.noise(epsilon) for epsilon in epsilons]
    cells = [(place, number) for place in range(len(epsilons)) for number in range(repeats)]

    def played(cell: tuple[int, int]) -> tuple[Worlds, Worlds]:
        place, number = cell
        name = ("reproduce", "figure-2", repr(epsilons[place]), number)
        size = bound_runs if number < bounds else runs
        worlds = play(WorstCase.choose(sample_rate, steps, noise[place]), size, name)
        final, every = zip(*worlds, strict=True)
        return final, every

    found: dict[str, list[list[float]]] = {}
    with ThreadPoolExecutor(1) as ahead:  # the next runs are made while these are looked at
        for done, (final, every) in enumerate(ahead.map(played, cells)):
            place, number = cells[done]
            few = final[0][:runs], final[1][:runs]
            values = {
                **estimated(few, family),
                "exact": restricted((every[0][:runs], every[1][:runs]), family),
                "largest_with_record": float(few[1].max() > few[0].max()),
            }
            if number < bounds:
                values["ours"] = bounded(final, family, confidence).epsilon
                values["many"] = restricted(final, family)
            for way, value in values.items():
                found.setdefault(way, [[] for _ in epsilons])[place].append(value)
            tell(done + 1, len(cells))
    training = {"sample_rate": sample_rate, "steps": steps, "delta": delta}
    return {**training, "epsilons": epsilons, "noise": noise, **found}


def _loss(
    tell: Progress,
    *,
    sample_rate: float,
    steps: int,
    delta: float,
    epsilons: list[float],
    runs: int,
    deviations: list[float],
) -> dict[str, Any]:
    """What the final iterate keeps of the likelihood ratio of all iterates, by way of encoding."""
    family = Family(sample_rate, steps, delta)
    names = ("ours", "printed", "minus_sign")
    found: dict[str, list[float]] = {}
    for done, epsilon in enumerate(epsilons):
        training = sample_rate, steps, family.noise(epsilon)
        literal = (WorstCase.literal(*training, minus_sign=sign) for sign in (False, True))
        losses = (WorstCase.choose(*training), *literal)
        for name, loss in zip(names, losses, strict=True):
            generator = stream("reproduce", "loss", name, repr(epsilon), steps)
            without, with_it = (loss.trace(runs, there, generator) for there in (False, True))
            final, every = np.concatenate([without, with_it], axis=1)
            found.setdefault(f"{name}/kept", []).append(float(np.corrcoef(final, every)[0, 1]))
            found.setdefault(f"{name}/area", []).append(_area(without[0], with_it[0]))
        base = losses[1].base
        assert base is not None
        decoded = 2 * ndtr(base / 2 / family.noise(epsilon)) - 1
        found.setdefault("printed/decoded", []).append(float(decoded))
        tell(done + 1, len(epsilons))
    within = 100 * (2 * ndtr(np.array(deviations)) - 1)
    return {"epsilons": epsilons, "deviations": deviations, "within": within, **found}


def _area(negative: Array, positive: Array) -> float:
    """Under the ROC curve: the chance that a run with the record scores above one without it."""
    order = np.sort(negative)
    below = np.searchsorted(order, positive, side="left")
    upto = np.searchsorted(order, positive, side="right")
    return float(np.mean(below + upto) / (2 * len(negative)))


class HiddenStateQuantities(Quantities):
    """What claims ask of the three tables."""

    def curve_gap(self, *, of: str, against: str, since: float = 0.0, until: float = 1.0) -> float:
        """The largest difference of two curves' false-negative rates, either way."""
        return float(np.abs(self._difference(of, against, since, until)).max())

    def curve_excess(
        self, *, of: str, against: str, since: float = 0.0, until: float = 1.0
    ) -> float:
        """By how much at most one curve's false-negative rates lie above the other's."""
        return float(self._difference(of, against, since, until).max())

    def _difference(self, of: str, against: str, since: float, until: float) -> Array:
        rates = self["at/rates"]
        kept = (rates >= since) & (rates <= until)
        return np.asarray(self[f"at/{of}"] - self[f"at/{against}"])[kept]

    def audited(self, *, of: str, over: str | None = None) -> float:
        """A number of an audit, or its share of another one."""
        value = float(self[of])
        return value if over is None else value / float(self[over])

    def epsilon_found(self, *, way: str, at: float) -> Answer:
        """Mean of the repeats, and two standard deviations of one repeat either way."""
        values = np.asarray(self[way][self._place("epsilons", at)])
        fits = int(np.isfinite(values).sum())
        words = f"none fits in {len(values) - fits} of {len(values)}" if fits < len(values) else ""
        if words or len(values) < 2:
            return Answer(float(values.mean()), words=words)
        mean, far = float(values.mean()), 2 * float(values.std(ddof=1))
        return Answer(mean, mean - far, mean + far)

    def epsilon_off(self, *, way: str, at: float) -> Answer:
        """How far the mean of the repeats is from theory, relatively, either way."""
        found = self.epsilon_found(way=way, at=at)
        return Answer(abs(found.value / float(at) - 1), words=found.words)

    def epsilon_apart(self, *, way: str, other: str) -> float:
        """How far two ways' means are apart at most, relatively, over all epsilons."""
        ratios = self[way].mean(axis=1) / self[other].mean(axis=1)
        return float(np.abs(ratios - 1).max())

    def epsilon_largest(self, *, way: str) -> float:
        """The largest share of theory that any repeat found, at any epsilon."""
        return float((self[way] / self["epsilons"][:, None]).max())

    def epsilon_smallest(self, *, way: str) -> float:
        """The least share of theory that any repeat found, at any epsilon."""
        return float((self[way] / self["epsilons"][:, None]).min())

    def repeats_without(self, *, way: str) -> Answer:
        """The share of all repeats in which no epsilon fitted."""
        return Answer.share(np.isinf(self[way]))

    def repeats_with(self, *, what: str) -> Answer:
        """The share of all repeats in which something was so."""
        return Answer.share(self[what] == 1)

    def loss_number(self, *, of: str, by: str, at: float) -> float:
        """A number of the loss, of "epsilons" or of "deviations"."""
        return float(self[of][self._place(by, at)])

    def _place(self, among: str, at: float) -> int:
        (places,) = np.nonzero(self[among] == float(at))
        if len(places) != 1:
            checks.fail("at", at, f"to be one of {self[among].tolist()}")
        return int(places[0])
