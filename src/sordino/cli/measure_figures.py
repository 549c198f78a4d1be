"""The figures of `sordino measure show`, each from its part of the summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sordino.report import canvas
from sordino.report import intrinsic as figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sordino.intrinsic.augment import Utility
    from sordino.intrinsic.spread import SubsetCurve
    from sordino.intrinsic.summary import InitSummary, Summary
    from sordino.privacy import Estimate


INTERNAL = (
    "INTERNAL: measured on the records themselves, and nothing is hidden by noise. Not to be "
    "published."
)
UTILITY = "utility"
"""Accuracy against epsilon: drawn where there are held-out rows."""


def draw(
    summary: Summary, accuracies: Mapping[str, Utility], directory: Path, suffix: str
) -> list[Path]:
    """Draw every figure there are numbers for; return the files."""
    title = name_of(summary)
    drawn = []
    everything = {name: figure(summary, title) for name, figure in FIGURES.items()}
    if accuracies:
        epsilons = next(iter(accuracies.values())).target_epsilons.tolist()
        curves = {name: each.curves() for name, each in accuracies.items()}
        everything[UTILITY] = figures.utility(epsilons, curves, title=title)
    for name, made in everything.items():
        if made is not None:
            path = directory / f"{name}.{suffix}"
            canvas.save(made, str(path), INTERNAL)
            drawn.append(path)
    return drawn


def name_of(summary: Summary) -> str:
    """Dataset and model in a few words."""
    measured = summary.measured
    model = measured.spec.objective.kind if measured.spec else (measured.function or {})["name"]
    return f"{measured.dataset.name}, {model}, {summary.steps:,} steps"


def _trajectories(summary: Summary, title: str) -> Figure | None:
    labels = [one.init for one in summary.inits]
    chosen = summary.of("fixed" if "fixed" in labels else labels[0])
    followed = chosen.trajectories
    if len(followed.steps) < 2:
        return None
    names = [f"weight {weight}" for weight in followed.weights]
    said = f"{title}\n{len(followed.values)} seeds, {figures.NAMES.get(chosen.init, chosen.init)}"
    return figures.trajectories(followed.steps, followed.values, names, title=said)


def _distances(summary: Summary, title: str) -> Figure | None:
    sets = {
        one.init: figures.DistanceSet(one.delta_s.values, one.delta_v.values, one.delta_sv.values)
        for one in summary.inits
    }
    theory = summary.theory
    return figures.distances(
        sets,
        bound=theory.bound.worst if theory.bound else None,
        printed=theory.printed.value if theory.printed else None,
        title=title,
    )


def _normality(summary: Summary, title: str) -> Figure | None:
    tested = {one.init: one.normality for one in summary.inits}
    p_values = {init: found.p_values.ravel() for init, found in tested.items() if found}
    if not any((p >= 0).any() for p in p_values.values()):  # NaN: nothing varied
        return None
    return figures.normality(p_values, title=title)


def _pairwise(summary: Summary, title: str) -> Figure | None:
    found = {one.init: one.pairwise for one in summary.inits if one.pairwise}
    if not found:
        return None
    return figures.pairwise(
        {init: one.exact for init, one in found.items()},
        {init: one.printed for init, one in found.items()},
        delta=summary.delta,
        title=title,
    )


def _over_steps(summary: Summary, title: str) -> Figure | None:
    first, theory = summary.inits[0].by_steps, summary.theory
    if len(first.steps) < 2:
        return None
    return figures.over_steps(
        first.steps,
        {one.init: one.by_steps.sensitivity for one in summary.inits},
        {one.init: one.by_steps.sigma for one in summary.inits},
        bound=(theory.steps, theory.bounds) if theory.bound else None,
        title=title,
    )


def _convergence(summary: Summary, title: str) -> Figure | None:
    seeds = {one.init: _band(one.by_seeds) for one in summary.inits if one.by_seeds}
    if not seeds:
        return None
    pairs = {one.init: _band(one.by_comparisons) for one in summary.inits}
    return figures.convergence(pairs, seeds, title=title)


def _epsilons(summary: Summary, title: str) -> Figure | None:
    found = {one.init: _estimates(one, summary.delta) for one in summary.inits}
    found = {init: named for init, named in found.items() if named}
    return figures.epsilons(found, delta=summary.delta, title=title) if found else None


def _estimates(one: InitSummary, delta: float) -> dict[str, Estimate]:
    found = {}
    if one.by_bound is not None:
        found["bound for one record"] = one.by_bound.exact
    if one.by_observed is not None:
        found["largest distance seen"] = one.by_observed.exact
    if one.worst is not None:
        found["worst pair, all directions"] = one.worst.isotropic_epsilon(delta)
        found["worst pair, one direction"] = one.worst.epsilon(delta)
    return found


def _band(curve: SubsetCurve) -> figures.Band:
    return figures.Band(curve.sizes, curve.middle, curve.low, curve.high)


FIGURES: dict[str, Callable[[Summary, str], Figure | None]] = {
    "trajectories": _trajectories,
    "distances": _distances,
    "normality": _normality,
    "pairwise-epsilon": _pairwise,
    "training-steps": _over_steps,
    "convergence": _convergence,
    "epsilons": _epsilons,
}
"""By the names of their files."""
