"""Evidence proves what the plan promised, for everybody, after a trip through JSON."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from sordino import InvalidArgument, Relation
from sordino.errors import NotApplicable
from sordino.estimators import methods
from sordino.estimators.fit import FitPlan, Settings, Task
from sordino.proofs.adaptive import AdaptiveEvidence
from sordino.proofs.evidence import SelectionEvidence, StepsEvidence, from_plain
from sordino.proofs.objective import ObjectiveEvidence
from sordino.proofs.output import OutputEvidence
from sordino.proofs.proof import Evidence
from sordino.proofs.theorems import THEOREMS

PRIVATE = [name for name in methods.METHODS if name not in ("none", "majority")]
REPLACE = Relation.REPLACE_ONE


def planned(
    method: str, relation: Relation = REPLACE, problems: int = 1, person: int = 1, **given: object
) -> FitPlan:
    task = Task(
        kind="logistic",
        l2=0.01,
        rows=800,
        columns=5,
        norm=1.25,
        epsilon=1.5,
        delta=1e-6,
        relation=relation,
        problems=problems,
        rows_per_person=person,
    )
    return methods.plan(method, task, Settings(**given))  # type: ignore[arg-type]


def again(evidence: Evidence) -> Evidence:
    return from_plain(json.loads(json.dumps(evidence.to_plain(), allow_nan=False)))


@pytest.mark.parametrize("method", PRIVATE)
@pytest.mark.parametrize("relation", [REPLACE, Relation.ZERO_OUT])
def test_evidence_proves_exactly_what_the_plan_promised(method: str, relation: Relation) -> None:
    _same_guarantee(planned(method, relation))


@pytest.mark.parametrize("method", [name for name in PRIVATE if name != "objective"])
@pytest.mark.parametrize(("problems", "person"), [(3, 1), (1, 2)])
def test_several_classes_or_records_of_a_person(method: str, problems: int, person: int) -> None:
    _same_guarantee(planned(method, REPLACE, problems, person))


@pytest.mark.slow
@pytest.mark.parametrize(("problems", "person"), [(3, 1), (1, 2)])
def test_the_same_for_noisy_objectives_which_take_seconds(problems: int, person: int) -> None:
    _same_guarantee(planned("objective", REPLACE, problems, person))


@pytest.mark.parametrize("method", ["objective", "dp-sgd"])
def test_private_number_of_records(method: str) -> None:
    plan = planned(method, Relation.ADD_OR_REMOVE_ONE)
    _same_guarantee(plan)


def _same_guarantee(plan: FitPlan) -> None:
    evidence, proof, delta = plan.evidence, plan.proof, plan.task.delta
    assert evidence is not None
    assert proof is not None
    assert again(evidence) == evidence
    assert again(evidence).proof().guarantee(delta) == proof.guarantee(delta)
    assert proof.guarantee(delta).epsilon <= plan.task.epsilon * (1 + 1e-9)
    assert evidence.shape == (plan.task.problems, plan.task.columns)
    assert set(evidence.facts()) == {"schedule", "sensitivity", "noise"}


def test_less_noise_proves_less() -> None:
    """A wrong program that looked the epsilon up, instead of computing it, would fail here."""
    for method in PRIVATE:
        evidence = planned(method).evidence
        assert evidence is not None
        claimed = evidence.proof().guarantee(1e-6).epsilon
        if isinstance(evidence, StepsEvidence):
            spec = evidence.spec
            less = dataclasses.replace(spec, noise_multiplier=spec.noise_multiplier / 2)
            weaker: Evidence = dataclasses.replace(evidence, spec=less)
        elif isinstance(evidence, AdaptiveEvidence):
            weaker = dataclasses.replace(evidence, rho=4 * evidence.rho)
        else:
            assert isinstance(evidence, OutputEvidence | ObjectiveEvidence)
            weaker = dataclasses.replace(evidence, sigma=evidence.sigma / 2)
        assert weaker.proof().guarantee(1e-6).epsilon > 1.5 * claimed, method


def test_facts_say_the_numbers() -> None:
    facts = planned("rsgd-ar", epochs=4, batch_size=100, average_every=2).evidence.facts()  # type: ignore[union-attr]
    assert "32 steps with batches of 100 of 800 records, 4 epochs of 8 batches" in facts["schedule"]
    assert "averaged and restarted every 2 epochs" in facts["schedule"]
    assert "one record moves the released weights by at most 0." in facts["sensitivity"]
    facts = planned("dp-sgd").evidence.facts()  # type: ignore[union-attr]
    assert "each record in each batch with probability" in facts["schedule"]
    assert "gradients are clipped to 1.25" in facts["sensitivity"]
    assert "moves a sum of them by at most 2.5" in facts["sensitivity"]


# Selection ------------------------------------------------------------------------------


def selection(**changed: object) -> SelectionEvidence:
    parts = [planned("noisy-gd", steps=steps).evidence for steps in (5, 20)]
    values: dict[str, object] = {
        "candidates": tuple(parts),
        "selected": 1,
        "mean": 8.0,
        "shape_of_runs": math.inf,
        "relation": REPLACE,
        "columns": 5,
        "persons_counted": False,
        **changed,
    }
    return SelectionEvidence(**values)  # type: ignore[arg-type]


def test_selection_costs_more_than_one_training_and_less_than_all() -> None:
    evidence = selection()
    assert again(evidence) == evidence
    one = evidence.candidates[0].proof().guarantee(1e-6).epsilon
    whole = again(evidence).proof().guarantee(1e-6)
    assert one < whole.epsilon < 8 * one
    assert "Papernot" in whole.theorem
    assert any("public records alone" in line for line in whole.assumes)
    assert "mean 8) over 2 candidates; the released one: 20 steps" in evidence.facts()["schedule"]


def test_a_selection_from_before_there_was_a_choice_is_proved_as_then() -> None:
    before, now = (selection(shape_of_runs=1.0, **by) for by in ({}, {"accountant": "best"}))
    assert "accountant" not in before.to_plain()
    assert again(now) == now != before
    old, new = (each.proof().guarantee(1e-6) for each in (before, now))
    assert new.epsilon < old.epsilon
    assert "by profiles" in new.theorem
    assert "by profiles" not in old.theorem


def test_a_selection_of_strangers_is_refused() -> None:
    other = planned("noisy-gd", Relation.ZERO_OUT).evidence
    for changed in (
        {"candidates": (other,), "selected": 0},
        {"candidates": ()},
        {"selected": 2},
        {"columns": 6},
        {"candidates": (selection(),), "selected": 0},
        {"mean": 0.0},
        {"shape_of_runs": -1.0},
        {"accountant": "pld"},
    ):
        with pytest.raises(InvalidArgument):
            selection(**changed)


# Damage ---------------------------------------------------------------------------------


def _damaged(values: dict[str, object], name: str, value: object) -> dict[str, object]:
    return {**json.loads(json.dumps(values)), name: value}


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [
        ("rsgd-ar", "kind", "trust me"),
        ("rsgd-ar", "sigma", 0.0),
        ("rsgd-ar", "sigma", "0.5"),
        ("rsgd-ar", "sigma", None),
        ("rsgd-ar", "sigma", True),
        ("rsgd-ar", "sigma", "inf"),
        ("rsgd-ar", "rows", 800.5),
        ("rsgd-ar", "rows", 10**30),
        ("rsgd-ar", "columns", 0),
        ("rsgd-ar", "relation", "friends"),
        ("rsgd-ar", "spec", []),
        ("rsgd-ar", "spec", {"objective": "logistic"}),
        ("rsgd-ar", "source", 7),
        ("rsgd-ar", "surprise", 1),
        ("dp-sgd", "accountant", "optimistic"),
        ("dp-sgd", "delta", 0.0),
        ("objective", "loss", "least-squares"),
        ("objective", "regulariser", -1.0),
        ("dp-agd", "rho", -1.0),
    ],
)
def test_damaged_records_are_refused(method: str, name: str, value: object) -> None:
    evidence = planned(method).evidence
    assert evidence is not None
    with pytest.raises(InvalidArgument):
        from_plain(_damaged(evidence.to_plain(), name, value))


@pytest.mark.parametrize("values", [None, [], "kind", {}, {"kind": 1}, {"kind": "adaptive"}])
def test_what_is_no_record_is_refused(values: object) -> None:
    with pytest.raises(InvalidArgument):
        from_plain(values)


def test_a_training_too_long_to_recompute_is_refused() -> None:
    evidence = planned("dp-sgd").evidence
    assert evidence is not None
    values = json.loads(json.dumps(evidence.to_plain()))
    values["spec"]["steps"] = 10**12
    with pytest.raises(InvalidArgument, match="hours"):
        from_plain(values)


def test_a_spec_without_a_theorem_proves_nothing() -> None:
    evidence = planned("rsgd-ar").evidence
    assert isinstance(evidence, OutputEvidence)
    single = dataclasses.replace(evidence.spec, dtype="float32")
    with pytest.raises(NotApplicable, match="float64"):
        dataclasses.replace(evidence, spec=single).proof()


def test_every_kind_is_here() -> None:
    found = {planned(method).evidence.kind for method in PRIVATE}  # type: ignore[union-attr]
    assert found | {"prepared", "selection", "noisy-steps-of-a-network"} == set(THEOREMS)
