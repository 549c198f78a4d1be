"""Everything of sordino's inside that the harness asks: a name that moves is changed here alone.

Plain values go in and come out, so that the harness does not know how sordino keeps them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Plain = dict[str, Any]


def _or_refused(ask: Callable[[], Any]) -> Any:
    """An answer, or the class of the refusal; its reason is prose."""
    from sordino import InvalidArgument, NotApplicable

    try:
        return ask()
    except (InvalidArgument, NotApplicable) as refusal:
        return {"refused": type(refusal).__name__, "reason": bool(str(refusal))}


def prove(spec: Plain, norm: float, n: int, relation: str, delta: float, released: str) -> Any:
    """Noise in every step: each theorem's epsilon, or that it refuses."""
    from sordino import Relation
    from sordino.proofs import prove as ask
    from sordino.sgd.spec import TrainSpec

    def answer() -> Plain:
        made = TrainSpec.from_dict(spec)
        constants = made.objective.constants(norm)
        found = ask(made, constants, n, Relation(relation), delta, released=released)
        theorems = {
            each.method: [
                each.value,
                "applies" if each.applies else "reason" if each.reason else "silent",
                *(each.kind, each.relation.value, each.released, len(each.notes)),
            ]
            for each in found.findings
        }
        best = found.best
        return {
            "theorems": theorems,
            "best": None if best is None else [best.epsilon, best.sampling, len(best.assumes)],
            "guarantees": [[each.epsilon, each.delta, each.released] for each in found.guarantees],
        }

    return _or_refused(answer)


def bounds(evidence: Plain, delta: float, *, curve: bool = False) -> Any:
    """What a certificate carries: each theorem's bound on the release, perhaps the whole curve."""
    from sordino.assessment.proving import best_guess, bounds_of_evidence, curve_of
    from sordino.proofs.evidence import from_plain

    def answer() -> Plain:
        made = from_plain(evidence)
        found, profile = bounds_of_evidence(made, delta)
        proof = made.proof()
        drawn: Plain = {}
        if curve:
            drawn = {"curve": list(curve_of(profile).y[5:120:23]), "guess": best_guess(profile)}
        return {
            **drawn,
            "bounds": [
                [
                    *(each.name, each.epsilon, each.kind, each.used),
                    *(bool(each.reason), bool(each.theorem), len(each.checked)),
                ]
                for each in found
            ],
            "epsilon": profile.epsilon(1e-8),
            "delta": profile.delta(1.0),
            "guarantee": [proof.guarantee(delta).epsilon, proof.released, proof.sampling],
            "unit": proof.unit,
            "assumes": len(proof.assumes),
            "facts": sorted(made.facts()),
            "again": made.to_plain() == evidence,
        }

    return _or_refused(answer)


def least_noise(evidence: Plain, epsilon: float, delta: float) -> Any:
    """The least noise of such a release for a budget."""
    from sordino.proofs.adaptive import concentrated_budget
    from sordino.proofs.evidence import from_plain
    from sordino.proofs.objective import objective_perturbation
    from sordino.proofs.steps import noise_for_steps

    def answer() -> Any:
        made: Any = from_plain(evidence)
        group = {"rows_per_person": made.rows_per_person}
        if evidence["kind"] == "output-perturbation":
            return made.perturbation().sigma(epsilon, delta)
        if evidence["kind"] == "adaptive":
            return concentrated_budget(epsilon, delta, made.relation, **group)
        if evidence["kind"] == "objective-perturbation":
            problem = made.perturbation().problem
            found = objective_perturbation(
                kind=made.loss,
                curvature=problem["curvature"],
                norm=made.norm,
                regulariser=made.regulariser,
                epsilon=epsilon,
                delta=delta,
                relation=made.relation,
                gradient_left=made.gradient_left,
                problems=made.problems,
                **group,
            )
            return [found.sigma, found.sigma_out]
        return noise_for_steps(
            *(made.spec, made.constants, made.rows, made.relation, epsilon, delta),
            accountant=made.accountant,
            problems=made.problems,
            **group,
        )

    return _or_refused(answer)
