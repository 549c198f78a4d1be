"""Phases of different steps: against one run, dp-accounting, and in the table of theorems."""

from __future__ import annotations

from dataclasses import replace

import dp_accounting as dp
import pytest
from dp_accounting.pld import PLDAccountant

from sordino.accounting.dp_sgd import NoisySteps, pld, rdp, schedule
from sordino.errors import InvalidArgument, NotApplicable
from sordino.privacy import Relation
from sordino.proofs import theorems
from sordino.proofs.steps import Run

POISSON = {"sampling": "poisson", "relation": Relation.ADD_OR_REMOVE_ONE}
EARLY, LATE = NoisySteps(2.0, 0.01, 300, **POISSON), NoisySteps(1.1, 0.02, 200, **POISSON)


@pytest.mark.parametrize("account", [pld, rdp])
@pytest.mark.parametrize(
    "run",
    [
        EARLY,
        NoisySteps(1.5, 0.1, 40, "fixed-size", Relation.REPLACE_ONE),
        NoisySteps(6.0, 1.0, 40, "full", Relation.ZERO_OUT),
        NoisySteps(3.0, 0.1, 40, "shuffle", Relation.ZERO_OUT),
        NoisySteps(1.5, 0.01, 40, **POISSON, max_rows_per_person=3),
        NoisySteps(1.5, 0.01, 40, **POISSON, max_batch_size=120, records=8_000),
    ],
    ids=lambda run: f"{run.sampling}-{run.max_rows_per_person}",
)
def test_a_phase_cut_in_two_is_the_whole(run, account):
    one = account(**vars(run)).epsilon(1e-6)
    first = run.steps // 4 if run.sampling != "shuffle" else run.batches
    parts = [replace(run, steps=first), replace(run, steps=run.steps - first)]
    # Grids of equal losses are the same; moments are added in another order.
    assert schedule(parts, account).epsilon(1e-6) == pytest.approx(one, rel=1e-9)
    assert schedule([run], account).epsilon(1e-6) == one


def test_epochs_of_allocation_add_up():
    how = {"relation": Relation.ADD_OR_REMOVE_ONE, "steps_per_epoch": 20}
    epochs = [NoisySteps(1.5, 0.05, 20 * count, "allocation", **how) for count in (2, 2, 1)]
    whole = pld(**vars(epochs[0]) | {"steps": 80}).epsilon(1e-6)
    assert schedule(epochs[:2]).epsilon(1e-6) == pytest.approx(whole, rel=1e-9)
    assert schedule(epochs).epsilon(1e-6) > whole


def test_order_does_not_matter_and_both_ends_hold():
    there, back = schedule([EARLY, LATE, EARLY]), schedule([LATE, EARLY, EARLY])
    assert there.epsilon(1e-6) == pytest.approx(back.epsilon(1e-6), rel=1e-9)
    lower, upper = there.bracket(1e-6)
    assert 0 < lower <= upper <= lower * (1 + 1e-4)
    each = [pld(**vars(phase)).epsilon(1e-6) for phase in (EARLY, LATE)]
    assert max(each) < lower < 2 * each[0] + each[1]


def test_against_dp_accounting():
    accountant = PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    for phase in (EARLY, LATE):
        step = dp.PoissonSampledDpEvent(
            phase.sample_rate, dp.GaussianDpEvent(phase.noise_multiplier)
        )
        accountant.compose(step, phase.steps)
    ours = schedule([EARLY, LATE])
    # Their grid of 1e-4 is an upper bound; the lower end here is certified.
    assert ours.bracket(1e-5)[0] <= accountant.get_epsilon(1e-5)
    assert ours.epsilon(1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)


def test_what_is_refused():
    passes = NoisySteps(3.0, 0.1, 15, "permute-once", Relation.ZERO_OUT)
    with pytest.raises(NotApplicable, match="Phase 2"):
        schedule([replace(passes, steps=20), passes])
    many = replace(EARLY, max_rows_per_person=2)
    other = replace(EARLY, relation=Relation.ZERO_OUT)
    for wrong in ([], [EARLY, many], [EARLY, other], [EARLY, 3], [passes, other]):
        with pytest.raises(InvalidArgument) as refused:
            schedule(wrong)
        assert refused.value.argument == "phases"


def test_the_table_knows_schedules_and_finds_one_factor():
    first = replace(EARLY, noise_multiplier=1.0)
    hidden = NotApplicable("nothing is known of the loss")
    run = Run(first, "all", hidden, phases=(EARLY, LATE))
    found = {each.method: each for each in theorems.account(run, 1e-5)}
    assert {name for name, each in found.items() if each.applies} == {"pld", "rdp"}
    assert found["pld"].value == schedule([EARLY, LATE]).epsilon(1e-5)
    assert found["rdp"].value > found["pld"].value
    best = theorems.best(theorems.least_noise(run, 0.8 * found["pld"].value, 1e-5))
    assert best is not None
    assert best.method == "pld"
    scaled = [
        replace(each, noise_multiplier=best.value * each.noise_multiplier) for each in run.phases
    ]
    reached = schedule(scaled).epsilon(1e-5)
    assert 0.8 * found["pld"].value * (1 - 1e-4) <= reached <= 0.8 * found["pld"].value


def test_cut_batches_are_refused_by_what_is_about_whole_ones():
    cut = replace(EARLY, max_batch_size=150, records=10_000)
    run = Run(cut, "all", NotApplicable("nothing is known of the loss"))
    found = [each.method for each in theorems.account(run, 1e-5) if each.applies]
    assert found == ["rdp", "pld"]
