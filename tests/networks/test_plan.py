"""The plan: arithmetic on public numbers, noise for a promise, and what is proved of it."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from sordino.accounting import dp_sgd
from sordino.accounting.risk import RiskTarget
from sordino.errors import InvalidArgument
from sordino.networks.clipping import Clipping
from sordino.networks.plan import TrainingPlan
from sordino.privacy import Relation, default_delta

KNOWN = (Relation.ZERO_OUT, Relation.REPLACE_ONE)
PRIVATE = Relation.ADD_OR_REMOVE_ONE
RELATIONS = (*KNOWN, PRIVATE)
NOISE = {"noise_multiplier": 1.5}


def plan(**how: object) -> TrainingPlan:
    if not {"epsilon", "target", "noise_multiplier"} & set(how):
        how = {**NOISE, **how}
    if "epochs" not in how:
        how = {"steps": 10, **how}
    return TrainingPlan.of(**{"rows": 1000, **how})


# Arithmetic


@pytest.mark.parametrize("relation", KNOWN)
@pytest.mark.parametrize(
    ("given", "rate", "per_epoch", "divisor"),
    [
        ({"batch_size": 50}, 0.05, None, 50),
        ({"batch_size": 33.3}, 0.0333, None, 33.3),
        ({"sample_rate": 0.02}, 0.02, None, 20),
        ({"sample_rate": 1.0}, 1.0, None, 1000),
        ({"sampling": "allocation", "batch_size": 50}, 1 / 20, 20, 50),
        ({"sampling": "allocation", "batch_size": 300}, 1 / 3, 3, 300),
        ({"sampling": "allocation", "batch_size": 1000}, 1.0, 1, 1000),
        ({"sampling": "allocation", "steps_per_epoch": 8}, 1 / 8, 8, 125),
        ({"sampling": "allocation", "steps_per_epoch": 8, "batch_size": 100}, 1 / 8, 8, 100),
    ],
)
def test_known_rows(relation, given, rate, per_epoch, divisor):
    made = plan(relation=relation, **given)
    assert made.sample_rate == pytest.approx(rate, rel=1e-15)
    assert made.steps_per_epoch == per_epoch
    assert made.divisor == pytest.approx(divisor, rel=1e-15)
    assert made.delta == default_delta(1000)
    assert (made.steps, made.noise_multiplier) == (10, 1.5)


@pytest.mark.parametrize(
    ("given", "rate", "per_epoch", "divisor", "delta"),
    [
        ({"sample_rate": 0.02, "batch_size": 20}, 0.02, None, 20, 1e-5),
        ({"public_rows": 500, "batch_size": 20}, 0.04, None, 20, 4e-6),
        ({"public_rows": 500, "sample_rate": 0.1}, 0.1, None, 50, 4e-6),
        ({"sampling": "allocation", "steps_per_epoch": 8, "batch_size": 9}, 1 / 8, 8, 9, 1e-5),
        ({"sampling": "allocation", "public_rows": 500, "batch_size": 50}, 0.1, 10, 50, 4e-6),
    ],
)
def test_private_rows(given, rate, per_epoch, divisor, delta):
    made = plan(relation=PRIVATE, **given)
    assert (made.sample_rate, made.steps_per_epoch) == (rate, per_epoch)
    assert made.divisor == pytest.approx(divisor, rel=1e-15)
    assert made.delta == delta


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ({"batch_size": 50, "epochs": 3}, 60),
        ({"batch_size": 300, "epochs": 1}, 4),  # 3.3 steps make an epoch: rounded up
        ({"batch_size": 50, "epochs": 0.5}, 10),
        ({"batch_size": 1000, "epochs": 1e-3}, 1),
        ({"sample_rate": 0.1, "epochs": 0.3}, 3),  # 0.3 / 0.1 is 2.9999999999999996
        ({"sampling": "allocation", "batch_size": 300, "epochs": 2}, 6),
    ],
)
def test_epochs(given, steps):
    assert plan(**given).steps == steps


def _settings(rng: random.Random) -> dict[str, object]:
    given: dict[str, object] = {"relation": rng.choice(RELATIONS)}
    given["sampling"] = rng.choice(["poisson", "allocation"])
    allocated, private = given["sampling"] == "allocation", given["relation"] is PRIVATE
    if private and rng.random() < 0.5:
        given["public_rows"] = rng.randint(200, 2000)
    guessed = not private or "public_rows" in given
    if allocated and (not guessed or rng.random() < 0.5):
        given["steps_per_epoch"] = rng.randint(1, 50)
    elif not allocated and (not guessed or rng.random() < 0.5):
        given["sample_rate"] = rng.uniform(0.001, 1)
    if not guessed or not {"steps_per_epoch", "sample_rate"} & set(given):
        given["batch_size"] = rng.uniform(1, 199)
    if rng.random() < 0.5:
        given["epochs"] = rng.randint(1, 9)
    else:
        given["steps"] = rng.randint(1, 99)
    if rng.random() < 0.3:
        given["delta"] = 10 ** -rng.uniform(3, 9)
    given["max_rows_per_person"] = rng.choice([1, 1, 3])
    given["clipping"] = Clipping(rng.choice(["flat", "per-layer"]), rng.uniform(0.1, 9))
    return given


def test_random_settings_hold_together():
    rng = random.Random(5)
    kinds = set()
    for _ in range(400):
        given, rows = _settings(rng), rng.randint(200, 2000)
        made = plan(rows=rows, **given)
        known = given.get("public_rows", rows)
        kinds.add((made.sampling, made.relation, "public_rows" in given))
        assert 0 < made.sample_rate <= 1
        assert made.delta == given.get(
            "delta",
            default_delta(
                known if "public_rows" in given or made.relation is not PRIVATE else None
            ),
        )
        if made.steps_per_epoch is not None:
            assert made.sample_rate == 1 / made.steps_per_epoch
        if "batch_size" in given:
            assert made.divisor == given["batch_size"]
        else:
            assert made.divisor == pytest.approx(known * made.sample_rate, rel=1e-12)
        if "epochs" in given:  # as many as asked for, and no step more than it takes
            least = given["epochs"] / made.sample_rate
            assert least - 1e-6 <= made.steps < least + 1
        # What is accounted is what is drawn.
        run = made.run().steps
        assert (run.sample_rate, run.steps, run.steps_per_epoch) == (
            *(made.sample_rate, made.steps),
            made.steps_per_epoch,
        )
        assert (run.noise_multiplier, run.relation, run.max_rows_per_person) == (
            *(1.5, given["relation"]),
            given["max_rows_per_person"],
        )
        if made.relation is PRIVATE:
            # Nothing is made of the number of records: a neighbour has the very same plan.
            for other in (rows + 1, rows - 1, 10 * rows):
                assert plan(rows=other, **given) == made
    assert len(kinds) == 8


def test_what_is_proved_names_no_private_number():
    made = plan(rows=731, relation=PRIVATE, sample_rate=0.1, batch_size=8)
    proof = made.proof()
    assert "731" not in f"{made} {proof}"
    assert any("not made from n" in each for each in proof.assumes)


# What is proved


def _accounted(made: TrainingPlan, steps: int) -> float:
    return dp_sgd.pld(
        made.noise_multiplier,
        made.sample_rate,
        steps,
        sampling=made.sampling,
        relation=made.relation,
        steps_per_epoch=made.steps_per_epoch,
        max_rows_per_person=made.max_rows_per_person,
    ).epsilon(made.delta)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sampling", ["poisson", "allocation"])
def test_the_proof_is_that_of_the_accountant_and_grows(sampling, relation):
    given = (
        {"sample_rate": 0.1, "batch_size": 100}
        if sampling == "poisson"
        else {"steps_per_epoch": 10, "batch_size": 100}
    )
    made = plan(sampling=sampling, relation=relation, noise_multiplier=2.0, steps=20, **given)
    found = [made.proof(steps).guarantee(made.delta).epsilon for steps in (0, 1, 10, 11, 20)]
    assert found[0] == 0
    assert found == sorted(found)
    assert 0 < found[1] <= found[2] < found[3] <= found[4]
    # A record may be in any step of a Poisson training; of an allocated epoch all cost as one.
    assert (found[1] == found[2]) == (found[3] == found[4]) == (sampling == "allocation")
    assert made.proof().guarantee(made.delta).epsilon == found[-1]
    for steps, told in ((1, found[1]), (20, found[4])):
        assert told == pytest.approx(_accounted(made, steps), rel=1e-9)


def test_replacing_costs_more_than_zeroing_out_and_more_rows_more_than_one():
    def cost(**how: object) -> float:
        made = plan(batch_size=100, noise_multiplier=2.0, **how)
        return made.proof().guarantee(made.delta).epsilon

    one = cost()
    assert cost(relation=Relation.REPLACE_ONE) > 1.5 * one
    assert cost(max_rows_per_person=2) > 1.5 * one


SETTINGS = [
    pytest.param(
        *(sampling, relation, rows),
        id=f"{sampling}-{relation.value}-{rows}",
        # Seconds each, by the search for noise on the grids of allocation.
        marks=[pytest.mark.slow]
        if sampling == "allocation" and (rows > 1 or relation is Relation.REPLACE_ONE)
        else [],
    )
    for sampling in ("poisson", "allocation")
    for relation in RELATIONS
    for rows in (1, 2)
]


@pytest.mark.parametrize("epsilon", [pytest.param(0.5, marks=pytest.mark.slow), 3.0])
@pytest.mark.parametrize(("sampling", "relation", "rows"), SETTINGS)
def test_noise_for_epsilon_meets_it_from_below(sampling, relation, rows, epsilon):
    rate = {"sample_rate": 0.1} if sampling == "poisson" else {"steps_per_epoch": 10}
    how = {"batch_size": 100, "delta": 1e-5, "max_rows_per_person": rows, **rate}
    made = plan(sampling=sampling, relation=relation, epsilon=epsilon, steps=20, **how)
    told = made.proof().guarantee(1e-5).epsilon
    assert epsilon - 1e-4 <= told <= epsilon
    assert _accounted(made, 20) <= epsilon
    less = replace(made, noise_multiplier=0.999 * made.noise_multiplier)
    assert less.proof().guarantee(1e-5).epsilon > epsilon


@pytest.mark.parametrize(
    "target",
    ["advantage<=0.1", pytest.param("detection<=0.05@0.01", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("sampling", ["poisson", "allocation"])
def test_noise_for_a_risk_meets_it_from_below(sampling, target):
    made = plan(sampling=sampling, batch_size=100, target=target, steps=20)
    wanted = RiskTarget.parse(target)
    assert made.target == wanted
    profile = made.proof().profile
    assert wanted.excess(profile) <= 0
    less = replace(made, noise_multiplier=0.999 * made.noise_multiplier).proof().profile
    assert wanted.excess(less) > 0


def test_no_privacy_asked_for_is_no_noise():
    assert plan(batch_size=50, epsilon=math.inf).noise_multiplier == 0


# Refused in one sentence


@pytest.mark.parametrize(
    ("how", "named"),
    [
        ({}, "batch_size=None"),
        ({"batch_size": 2000}, "batch_size=2000"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": math.nan}, "batch_size=nan"),
        ({"sample_rate": 0}, "sample_rate=0"),
        ({"sample_rate": 1.01}, "sample_rate=1.01"),
        ({"batch_size": 9, "steps_per_epoch": 5}, "steps_per_epoch=5"),
        ({"sampling": "allocation"}, "steps_per_epoch=None"),
        ({"sampling": "allocation", "sample_rate": 0.1}, "sample_rate=0.1"),
        ({"sampling": "allocation", "steps_per_epoch": 0}, "steps_per_epoch=0"),
        ({"sampling": "allocation", "steps_per_epoch": 2.5}, "steps_per_epoch=2.5"),
        ({"sampling": "allocation", "batch_size": 50, "epochs": 1.5}, "epochs=1.5"),
        ({"sampling": "shuffle", "batch_size": 50}, "sampling=shuffle"),
        ({"sampling": "fixed-size", "batch_size": 50}, "sampling=fixed-size"),
        ({"batch_size": 50, "public_rows": 100}, "public_rows=100"),
        ({"relation": PRIVATE, "batch_size": 50}, "sample_rate=None"),
        ({"relation": PRIVATE, "sample_rate": 0.1}, "batch_size=None"),
        ({"relation": PRIVATE, "sampling": "allocation", "steps_per_epoch": 5}, "batch_size=None"),
        (
            {"relation": PRIVATE, "sampling": "allocation", "batch_size": 5},
            "steps_per_epoch=None",
        ),
        ({"relation": PRIVATE, "public_rows": 0, "batch_size": 50}, "public_rows=0"),
        ({"batch_size": 50, "steps": None}, "steps or epochs="),
        ({"batch_size": 50, "steps": 5, "epochs": 5}, "steps or epochs="),
        ({"batch_size": 50, "steps": 0}, "steps=0"),
        ({"batch_size": 50, "steps": True}, "steps=True"),
        ({"batch_size": 50, "epochs": 0}, "epochs=0"),
        ({"batch_size": 50, "epochs": math.inf}, "epochs=inf"),
        ({"batch_size": 50, "noise_multiplier": -1}, "noise_multiplier=-1"),
        ({"batch_size": 50, "noise_multiplier": None}, "noise_multiplier or epsilon or target="),
        (
            {"batch_size": 50, "noise_multiplier": 1, "epsilon": 1},
            "noise_multiplier or epsilon or target=",
        ),
        ({"batch_size": 50, "epsilon": 0}, "epsilon=0"),
        ({"batch_size": 50, "epsilon": 1, "delta": 0}, "delta=0"),
        ({"batch_size": 50, "delta": 1}, "delta=1"),
        ({"batch_size": 50, "max_rows_per_person": 0}, "max_rows_per_person=0"),
        ({"batch_size": 50, "rows": 0}, "rows=0"),
        ({"batch_size": 50, "epsilon": 1e-3, "steps": 10**12}, "epsilon=0.001"),
    ],
)
def test_contradictions_are_one_sentence(how, named):
    with pytest.raises(InvalidArgument) as caught:
        plan(**how)
    told = str(caught.value)
    assert told.startswith(f"Expected {named}")
    assert "\n" not in told
    assert len(told) < 300


@pytest.mark.parametrize(
    ("kind", "norm", "named"),
    [("flat", 0, "max_grad_norm=0"), ("flat", math.inf, "max_grad_norm=inf"), ("no", 1, "clipp")],
)
def test_clipping_is_checked(kind, norm, named):
    with pytest.raises(InvalidArgument, match=f"^Expected {named}"):
        Clipping(kind, norm)
