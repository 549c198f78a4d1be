from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from sordino import Estimate, Guarantee, Observation, Relation
from sordino.errors import InvalidArgument
from sordino.privacy import USUAL_DELTA, Sampling, default_delta

GUARANTEE: dict[str, Any] = {
    "epsilon": 1.25,
    "delta": 1e-5,
    "relation": Relation.REPLACE_ONE,
    "sampling": "permute-once",
    "unit": "one record",
    "theorem": "Theorem 3 of the source",
    "assumes": ("the loss is convex",),
    "released": "final",
}
ESTIMATE: dict[str, Any] = {
    "epsilon": 0.5,
    "delta": 1e-5,
    "low": 0.4,
    "high": 0.7,
    "level": 0.95,
    "method": "pairwise distances",
    "caveat": "takes the weights for Gaussian",
}
OBSERVATION: dict[str, Any] = {
    "epsilon": 0.31,
    "delta": 1e-5,
    "confidence": 0.99,
    "attack": "likelihood ratio",
    "trials": 20_000,
}


def test_a_guarantee_says_everything_its_number_depends_on() -> None:
    assert str(Guarantee(**GUARANTEE)) == (
        "proved: epsilon <= 1.25 at delta = 1e-05 for the final model, replace-one, "
        "unit: one record, sampling: permute-once, by Theorem 3 of the source"
    )
    assert "for all iterates," in str(Guarantee(**{**GUARANTEE, "released": "all"}))


def test_an_estimate_says_that_it_promises_nothing() -> None:
    assert str(Estimate(**ESTIMATE)) == (
        "estimate, not a guarantee: epsilon about 0.5 (95% interval 0.4 to 0.7) "
        "at delta = 1e-05, by pairwise distances; takes the weights for Gaussian"
    )


def test_an_estimate_that_was_computed_has_no_interval() -> None:
    computed = {**ESTIMATE, "low": None, "high": None, "level": None}
    assert str(Estimate(**computed)) == (
        "estimate, not a guarantee: epsilon about 0.5 (no interval: computed, not measured) "
        "at delta = 1e-05, by pairwise distances; takes the weights for Gaussian"
    )
    for name in ("low", "high", "level"):
        with pytest.raises(InvalidArgument, match=r"^Expected interval=.* to be complete\. Pass"):
            Estimate(**{**ESTIMATE, name: None})
        with pytest.raises(InvalidArgument, match=r"^Expected interval="):
            Estimate(**{**computed, name: 0.5})
    with pytest.raises(InvalidArgument, match=r"^Expected epsilon=-1"):
        Estimate(**{**computed, "epsilon": -1})


def test_an_observation_is_a_lower_bound() -> None:
    assert str(Observation(**OBSERVATION)) == (
        "observed: epsilon >= 0.31 at delta = 1e-05 with 0.99 confidence, "
        "by likelihood ratio over 20,000 trials"
    )


def test_the_printed_bound_of_a_guarantee_keeps_infinity() -> None:
    said = str(Guarantee(**{**GUARANTEE, "epsilon": math.inf}))
    assert said.startswith("proved: epsilon <= inf at")


@pytest.mark.parametrize(
    ("kind", "fields"),
    [(Guarantee, GUARANTEE), (Estimate, ESTIMATE), (Observation, OBSERVATION)],
)
class TestEveryKind:
    def test_accepts_the_ends_of_its_ranges(self, kind: Any, fields: dict[str, Any]) -> None:
        around = {"low": 0, "high": math.inf} if kind is Estimate else {}
        assert kind(**{**fields, **around, "epsilon": 0, "delta": 0}).delta == 0
        assert kind(**{**fields, **around, "epsilon": math.inf}).epsilon == math.inf

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("epsilon", -0.1),
            ("epsilon", math.nan),
            ("epsilon", None),
            ("delta", -1e-9),
            ("delta", 1),
            ("delta", math.nan),
        ],
    )
    def test_refuses_an_impossible_budget(
        self, kind: Any, fields: dict[str, Any], name: str, value: object
    ) -> None:
        with pytest.raises(InvalidArgument, match=f"^Expected {name}={value} "):
            kind(**{**fields, name: value})

    def test_never_changes(self, kind: Any, fields: dict[str, Any]) -> None:
        value = kind(**fields)
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.epsilon = 0.0
        assert value == kind(**fields)
        assert hash(value) == hash(kind(**fields))
        assert value != kind(**{**fields, "delta": 1e-6})

    def test_is_not_a_number(self, kind: Any, fields: dict[str, Any]) -> None:
        value = kind(**fields)
        with pytest.raises(TypeError):
            float(value)
        with pytest.raises(TypeError):
            value < 1.0  # noqa: B015
        with pytest.raises(TypeError):
            value < kind(**fields)  # noqa: B015

    def test_has_no_defaults(self, kind: Any, fields: dict[str, Any]) -> None:
        for name in fields:
            with pytest.raises(TypeError, match=name):
                kind(**{key: value for key, value in fields.items() if key != name})


def test_the_three_kinds_are_unrelated_types() -> None:
    kinds = (Guarantee, Estimate, Observation)
    assert [[issubclass(a, b) for b in kinds] for a in kinds] == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]


def test_a_relation_is_never_a_string() -> None:
    for relation in ("replace-one", "REPLACE_ONE", None):
        with pytest.raises(InvalidArgument, match=r"to be a Relation\. Pass Relation\.REPLACE"):
            Guarantee(**{**GUARANTEE, "relation": relation})


def test_relations_have_stable_names_for_files() -> None:
    assert {relation.name: relation.value for relation in Relation} == {
        "REPLACE_ONE": "replace-one",
        "ADD_OR_REMOVE_ONE": "add-or-remove-one",
        "ZERO_OUT": "zero-out",
    }


def test_a_release_is_final_or_all() -> None:
    with pytest.raises(InvalidArgument, match=r"released=last to be one of final, all"):
        Guarantee(**{**GUARANTEE, "released": "last"})


@pytest.mark.parametrize("value", [0, 1, -0.5, 95, math.nan])
def test_a_confidence_lies_strictly_between_0_and_1(value: float) -> None:
    with pytest.raises(InvalidArgument, match=r"^Expected level=.* in \(0, 1\)"):
        Estimate(**{**ESTIMATE, "level": value})
    with pytest.raises(InvalidArgument, match=r"^Expected confidence=.* in \(0, 1\)"):
        Observation(**{**OBSERVATION, "confidence": value})


def test_an_interval_is_in_order_and_holds_its_estimate() -> None:
    assert Estimate(**{**ESTIMATE, "low": 0.5, "high": 0.5, "epsilon": 0.5}).high == 0.5
    assert Estimate(**{**ESTIMATE, "high": math.inf}).high == math.inf
    for outside in ({"high": 0.3}, {"high": math.nan}, {"low": 0.55}):
        with pytest.raises(InvalidArgument, match=r"^Expected epsilon=0.5 in its interval \["):
            Estimate(**{**ESTIMATE, **outside})
    with pytest.raises(InvalidArgument, match=r"^Expected low=-0.1 >= 0"):
        Estimate(**{**ESTIMATE, "low": -0.1})


@pytest.mark.parametrize("value", [0, -5, 10.0, True])
def test_trials_are_counted(value: object) -> None:
    with pytest.raises(InvalidArgument, match=r"^Expected trials="):
        Observation(**{**OBSERVATION, "trials": value})


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        *((each.value, each) for each in Sampling),
        ("fixed", Sampling.CYCLIC),
        ("full-batch", Sampling.FULL),
        ("without-replacement", Sampling.FIXED_SIZE),
        ("reshuffle", Sampling.SHUFFLE),
    ],
)
def test_one_way_of_drawing_batches_whatever_it_is_called(word: str, meant: Sampling) -> None:
    assert Sampling(word) is meant
    assert f"{meant}" == meant == meant.value


def test_another_way_of_drawing_batches_is_unknown() -> None:
    with pytest.raises(ValueError, match="sorted"):
        Sampling("sorted")


def test_the_default_delta_of_unknown_and_of_the_papers_records() -> None:
    assert default_delta(None) == USUAL_DELTA == 1e-5
    assert default_delta(426, exact=True) == 1 / 426**2
    assert default_delta(426) == 5e-6
