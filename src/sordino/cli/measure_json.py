"""`sordino measure show --json`: every number of a summary, as plain values."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from sordino.cli.measure_figures import INTERNAL

if TYPE_CHECKING:
    from sordino.intrinsic.distances import Distances
    from sordino.intrinsic.epsilon import IntrinsicEpsilon
    from sordino.intrinsic.summary import InitSummary, Summary

SCHEMA = 1
_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def document(summary: Summary) -> dict[str, Any]:
    """All numbers but the sampled pairs, of which there are quantiles."""
    measured, theory = summary.measured, summary.theory
    plain: dict[str, Any] = {
        "schema": SCHEMA,
        "internal": INTERNAL,
        "epsilons": "every epsilon is an estimate, not a guarantee",
        "study": measured.study.address,
        "dataset": dataclasses.asdict(measured.dataset),
        "spec": measured.spec.to_dict() if measured.spec else None,
        "function": measured.function,
        "relation": measured.relation.value,
        "seeds": len(measured.seeds),
        "steps": summary.steps,
        "delta": summary.delta,
        "theory": {
            "bound": theory.bound.worst if theory.bound else None,
            "theorem": theory.bound.theorem if theory.bound else None,
            "reason": theory.reason or None,
            "papers_fraction_not_a_bound": theory.printed.value if theory.printed else None,
        },
        "inits": {one.init: _init(one, summary.delta) for one in summary.inits},
        "notes": summary.notes,
    }
    found = _plain(plain)
    assert isinstance(found, dict)
    return found


def _init(one: InitSummary, delta: float) -> dict[str, Any]:
    worst, tested = one.worst, one.normality
    return {
        "neighbours": one.neighbours,
        "distances": {
            "delta_S": _distances(one.delta_s),
            "delta_S_from_the_data_itself": _distances(one.from_base),
            "delta_V": _distances(one.delta_v),
            "delta_S+V": _distances(one.delta_sv),
        },
        "against_gaussian_vectors": {
            "kolmogorov": one.gaussian.kolmogorov,
            "sharpness": one.gaussian.sharpness,
        },
        "sigma": one.sigma,
        "sigma_over_datasets": {**dataclasses.asdict(one.across), "relative": one.across.relative},
        "sensitivity_seen": one.sensitivity,
        "epsilon": {
            "bound": _by_formula(one.by_bound),
            "papers_fraction": _by_formula(one.by_printed),
            "largest_seen": _by_formula(one.by_observed),
            "median_pair": one.pairwise.quantile(0.5) if one.pairwise else None,
            "worst_pair_isotropic": worst.isotropic_epsilon(delta) if worst else None,
            "worst_pair_directional": worst.epsilon(delta) if worst else None,
        },
        "worst_pair": None
        if worst is None
        else {
            **{name: getattr(worst, name) for name in ("chosen", "distance", "isotropic")},
            "neighbours": [one.neighbours[at] for at in worst.pair],
            "in_sample_inflated": worst.in_sample,
        },
        "normality": None
        if tested is None
        else {
            name: getattr(tested, name)
            for name in ("tests", "level", "bonferroni", "below_level", "rejected")
        },
        "joint_normality": one.joint,
        "by_comparisons": one.by_comparisons,
        "by_seeds": one.by_seeds,
        "by_steps": one.by_steps,
    }


def _distances(found: Distances | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "pairs": found.pairs,
        "exact": found.exact,
        "maximum": found.maximum,
        "maximum_of_all": found.maximum_of_all,
        "quantiles": {f"{q:g}": found.quantile(q) for q in _QUANTILES},
    }


def _by_formula(found: IntrinsicEpsilon | None) -> dict[str, Any] | None:
    return None if found is None else {"exact": found.exact, "papers_formula": found.printed}


def _plain(value: Any) -> Any:
    """As JSON can hold it; NaN is null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if hasattr(value, "tolist"):  # numpy's
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value
