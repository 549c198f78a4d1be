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
from sordino_papers.found import Found, Numbers

if TYPE_CHECKING:
    from sordino_papers.bench import Bench
    from sordino_papers.quantities import Quantity

ORDERS = ("presence", "absence")
LINES = ("observed", "composed", "linear")
RATES = np.round(np.arange(0.01, 0.995, 0.01), 10)
"""False-positive rates at which curves are compared."""


def make(settings: Mapping[str, Any], bench: Bench) -> dict[str, Array]:
    """The table that `of` names."""
    tables: dict[str, Callable[..., dict[str, Any]]] = {
        "curves": _curves,
        "epsilons": _epsilons,
        "loss": _loss,
    }
    checks.one_of("of", settings["of"], sorted(tables))
    rest = {name: value for name, value in settings.items() if name != "of"}
    found = tables[settings["of"]](bench.tell, **rest)
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
    audited = audit_worst_case(
        *(sample_rate, steps),
        noise_multiplier=noise_multiplier,
        delta=delta,
        runs=runs,
        confidence=confidence,
        seed=seed,
        progress=lambda done, _: tell(done, 4 * runs),
    )
    (without, _), (with_it, _) = play(
        audited.setting,
        runs,
        ("reproduce", "exchanged", seed),
        progress=lambda done, _: tell(2 * runs + done, 4 * runs),
    )
    return {
        "noise_multiplier": noise_multiplier,
        "sample_rate": sample_rate,
        "steps": steps,
        "runs": runs,
        "claimed": audited.claimed.epsilon,
        "linear": audited.linear.epsilon,
        "bound": audited.within_family.epsilon,
        "bound_all_iterates": audited.all_iterates.epsilon,
        "linear_refuted": float(audited.hides_less_than_linear),
        **_compared(audited, without, with_it),
        **_drawn(audited),
    }


def _compared(audited: WorstCaseAudit, without: Array, with_it: Array) -> dict[str, Array]:
    """False-negative rates at `RATES`, observed and predicted; exchanged ones are of new runs."""
    profile, run = audited.claimed.profile, audited.setting
    assert profile is not None
    observed = error_rates(audited.negative, audited.positive)
    exchanged = error_rates(-with_it, -without)
    inverse = observed[1][::-1], observed[0][::-1]
    return {
        "at/rates": RATES,
        "at/observed": _at_rates(*observed),
        "at/composed": tradeoff(profile, RATES, "forward"),
        "at/symmetric": tradeoff(profile, RATES, "both"),
        "at/linear": linear_curve(run.sample_rate, run.steps, run.noise_multiplier, RATES),
        "at/exchanged": _at_rates(*exchanged),
        "at/inverse": _at_rates(*inverse),
        "at/composed_exchanged": tradeoff(profile, RATES, "backward"),
    }


def _at_rates(alphas: Array, betas: Array) -> Array:
    """The false-negative rate of the last threshold whose false-positive rate is within each."""
    places = np.searchsorted(alphas, RATES, side="right") - 1
    return np.where(places >= 0, betas[np.maximum(places, 0)], 1.0)


def _drawn(audited: WorstCaseAudit) -> dict[str, Array]:
    found = {}
    for order in ORDERS:
        for line, (alphas, betas) in audited.curves(order).items():  # type: ignore[arg-type]
            found[f"{order}/{line}/fpr"], found[f"{order}/{line}/fnr"] = alphas, betas
    return found


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
    `runs`. Beside them the paper's rule as it does on the exact likelihood ratio of all iterates
    of the same runs ("exact"), and on all runs of a bounded repeat ("many").
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
        for done, (cell, (final, every)) in enumerate(
            zip(cells, ahead.map(played, cells), strict=True)
        ):
            place, number = cell
            values = _found(final, every, family, runs)
            if number < bounds:
                values["ours"] = bounded(final, family, confidence).epsilon
                values["many"] = restricted(final, family)
            for way, value in values.items():
                found.setdefault(way, [[] for _ in epsilons])[place].append(value)
            tell(done + 1, len(cells))
    training = {"sample_rate": sample_rate, "steps": steps, "delta": delta}
    return {**training, "epsilons": epsilons, "noise": noise, **found}


def _found(final: Worlds, every: Worlds, family: Family, runs: int) -> dict[str, float]:
    """What estimates say of the first `runs` runs, and whether D' has the largest score."""
    few = _first(final, runs)
    return {
        **estimated(few, family),
        "exact": restricted(_first(every, runs), family),
        "largest_with_record": float(few[1].max() > few[0].max()),
    }


def _first(scores: Worlds, runs: int) -> Worlds:
    return scores[0][:runs], scores[1][:runs]


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
        losses = (
            WorstCase.choose(*training),
            WorstCase.literal(*training),
            WorstCase.literal(*training, minus_sign=True),
        )
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


def curve_gap(
    numbers: Numbers, *, of: str, against: str, since: float = 0.0, until: float = 1.0
) -> Found:
    """The largest difference of two curves' false-negative rates, either way."""
    return Found(float(np.abs(_difference(numbers, of, against, since, until)).max()))


def curve_excess(
    numbers: Numbers, *, of: str, against: str, since: float = 0.0, until: float = 1.0
) -> Found:
    """By how much at most one curve's false-negative rates lie above the other's."""
    return Found(float(_difference(numbers, of, against, since, until).max()))


def _difference(numbers: Numbers, of: str, against: str, since: float, until: float) -> Array:
    rates = numbers["at/rates"]
    kept = (rates >= since) & (rates <= until)
    return np.asarray(numbers[f"at/{of}"] - numbers[f"at/{against}"])[kept]


def audited(numbers: Numbers, *, of: str, over: str | None = None) -> Found:
    """A number of an audit, or its share of another one."""
    value = float(numbers[of])
    return Found(value if over is None else value / float(numbers[over]))


def epsilon_found(numbers: Numbers, *, way: str, at: float) -> Found:
    """Mean of the repeats, and two standard deviations of one repeat either way."""
    values = _repeats(numbers, way, at)
    fits = int(np.isfinite(values).sum())
    words = f"none fits in {len(values) - fits} of {len(values)}" if fits < len(values) else ""
    if words or len(values) < 2:
        return Found(float(values.mean()), words=words)
    mean, far = float(values.mean()), 2 * float(values.std(ddof=1))
    return Found(mean, mean - far, mean + far)


def epsilon_off(numbers: Numbers, *, way: str, at: float) -> Found:
    """How far the mean of the repeats is from theory, relatively, either way."""
    found = epsilon_found(numbers, way=way, at=at)
    return Found(abs(found.value / float(at) - 1), words=found.words)


def epsilon_apart(numbers: Numbers, *, way: str, other: str) -> Found:
    """How far two ways' means are apart at most, relatively, over all epsilons."""
    ratios = numbers[way].mean(axis=1) / numbers[other].mean(axis=1)
    return Found(float(np.abs(ratios - 1).max()))


def epsilon_largest(numbers: Numbers, *, way: str) -> Found:
    """The largest share of theory that any repeat found, at any epsilon."""
    return Found(float((numbers[way] / numbers["epsilons"][:, None]).max()))


def epsilon_smallest(numbers: Numbers, *, way: str) -> Found:
    """The least share of theory that any repeat found, at any epsilon."""
    return Found(float((numbers[way] / numbers["epsilons"][:, None]).min()))


def repeats_without(numbers: Numbers, *, way: str) -> Found:
    """The share of all repeats in which no epsilon fitted."""
    return _share(np.isinf(numbers[way]))


def repeats_with(numbers: Numbers, *, what: str) -> Found:
    """The share of all repeats in which something was so."""
    return _share(numbers[what] == 1)


def _share(cases: Array) -> Found:
    many = int(cases.sum())
    return Found(many / cases.size, words=f"{many} of {cases.size}")


def _repeats(numbers: Numbers, way: str, at: float) -> Array:
    return np.asarray(numbers[way][_place(numbers["epsilons"], at)])


def _place(among: Array, at: float) -> int:
    (places,) = np.nonzero(among == float(at))
    if len(places) != 1:
        checks.fail("at", at, f"to be one of {among.tolist()}")
    return int(places[0])


def loss_number(numbers: Numbers, *, of: str, by: str, at: float) -> Found:
    """A number of the loss, of "epsilons" or of "deviations"."""
    return Found(float(numbers[of][_place(numbers[by], at)]))


QUANTITIES: dict[str, Quantity] = {
    "curve_gap": curve_gap,
    "curve_excess": curve_excess,
    "audited": audited,
    "epsilon_found": epsilon_found,
    "epsilon_off": epsilon_off,
    "epsilon_apart": epsilon_apart,
    "epsilon_largest": epsilon_largest,
    "epsilon_smallest": epsilon_smallest,
    "repeats_without": repeats_without,
    "repeats_with": repeats_with,
    "loss_number": loss_number,
}
