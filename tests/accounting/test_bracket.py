"""Two-sided answers: lower <= truth <= upper against every referee there is, and close.

The referees: an exact delta by Mellin's inversion, merged outcomes by direct convolution, the
optimistic and pessimistic pair of dp-accounting, exact formulas. None shares code with the bounds.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
from conftest import HOW
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from lower_bound import worst
from referee.accounting_exact import exact_allocation_delta, exact_delta

from sordino.accounting import gaussian
from sordino.accounting.compose import compose, group
from sordino.accounting.dp_sgd import LEAST_RATE, MOST_NOISE, pld, rdp
from sordino.accounting.pld import convolution
from sordino.accounting.pld.aim import Rough
from sordino.accounting.pld.convolution import Composed, LossGrid, discretise, merge
from sordino.accounting.pld.loss import (
    DIRECTIONS,
    ApproximateLoss,
    FixedSizeLoss,
    GaussianLoss,
    PoissonLoss,
    PoissonReplaceLoss,
)
from sordino.accounting.profile import ApproximateProfile, GaussianProfile, LossProfile
from sordino.errors import InvalidArgument
from sordino.privacy import Relation

ADD, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
FILE = Path(__file__).parents[2] / "benchmarks" / "accounting_configurations.json"
CONFIGURATIONS = [tuple(each.values()) for each in json.loads(FILE.read_text())["epsilon"]]
LAWS = [
    PoissonLoss(0.01, 1.1),
    PoissonLoss(1e-4, 0.7),
    PoissonLoss(0.7, 0.5),
    PoissonReplaceLoss(0.01, 1.0),
    FixedSizeLoss(0.05, 2.0),
    GaussianLoss((0.0, 1.0), (0.3, 0.7)),
]


def is_narrow(lower, upper):
    return upper - lower <= max(1e-4 * upper, 1e-6)


def curve(grid, epsilon):
    above = grid.losses > epsilon
    return float(grid.mass[above] @ -np.expm1(epsilon - grid.losses[above]))


def spacing_of(law, direction, share=0.1):
    return share * Rough.of([(law, 1)], direction, -60.0).untilted.deviation


# ------------------------------------------------------------- one step


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("share", [0.05, 0.1, 0.45])
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_merged_law_is_below_the_true_one_and_near(law, share, direction):
    spacing = spacing_of(law, direction, share)
    grid = merge(law, spacing, -60.0, direction, 10**6)
    top = law.reach(-23.0, direction)[1]
    for epsilon in np.linspace(0.0, 0.98 * top, 15).tolist():
        assert curve(grid, epsilon) <= math.exp(law.log_delta(epsilon, direction)) * (1 + 1e-9)
    assert 1 - 1e-12 <= grid.mass.sum() <= 1 + 1e-12
    # By how much the mean loss is too small: an eighth of the spacing squared between the two.
    upper = discretise(law, spacing, -60.0, direction, 10**6)
    gap = float(upper.mass @ upper.losses - grid.mass @ grid.losses) - upper.infinite
    assert gap <= 0.5 * spacing**2


def test_what_cannot_be_merged_goes_down():
    """Two atoms that no lattice has both of, none lifted; a disclosure is left out."""
    law = ApproximateLoss(0.3, 0.01)
    grid = merge(law, 0.007, -60.0, "forward", 10**6)
    assert grid.mass.sum() == pytest.approx(0.99, abs=1e-12)
    for epsilon in (0.0, 0.2, 0.29):
        assert curve(grid, epsilon) <= math.exp(law.log_delta(epsilon, "forward"))


def nearest(loss, spacing, log_tail, direction, most):
    """A broken twin of `merge`: every bucket at its nearest place, as if that were its loss."""
    first, places = convolution._places(loss, spacing, log_tail, direction, most)
    drawn, _ = loss.masses((places[:-1] + places[1:]) / 2 - 0.1 * spacing, direction)
    return LossGrid(spacing, first, drawn, 0.0)


def test_a_twin_that_rounds_to_the_nearest_is_caught():
    law = PoissonLoss(0.01, 1.1)
    spacing = spacing_of(law, "forward")
    grids = {make: make(law, spacing, -60.0, "forward", 10**6) for make in (merge, nearest)}
    epsilons = np.linspace(0.0, 1.0, 40).tolist()
    truth = [math.exp(law.log_delta(e, "forward")) for e in epsilons]
    for make, grid in grids.items():
        wrong = any(curve(grid, e) > t * (1 + 1e-9) for e, t in zip(epsilons, truth, strict=True))
        assert wrong == (make is nearest)


# ------------------------------------------------------------- rounding and aliasing


def test_rounding_is_taken_off():
    """In the valley below rare large losses a transform shows rounding, which is no lower bound.

    The twin that does not subtract it claims deltas that are false.
    """
    law, steps, tail, spacing = PoissonLoss(2e-4, 1.3), 2000, -70.0, 2e-4
    rough = Rough.of([(law, steps)], "forward", tail)
    grid = merge(law, spacing, tail, "forward", 10**8)
    made = Composed([(grid, steps)], rough, rough.saddle(50.0), 0.0, 10**8)
    truth = pld(1.3, 2e-4, steps, **HOW["add-remove"])
    false = []
    for epsilon in (0.35, 0.38, 0.41):
        proved = truth.log_delta(epsilon, "forward")
        assert made.log_least(epsilon) <= proved
        false.append(made.log_delta(epsilon) > proved)
    assert any(false)


def test_what_folds_over_is_taken_off():
    """A window so short that much of the law comes back at its other end."""
    mu, steps = 0.5, 4
    pairs = [(merge(GaussianLoss((mu,)), 0.01, -60.0, "forward", 10**6), steps)]
    rough = Rough.of([(GaussianLoss((mu,)), steps)], "forward", -60.0)
    saddle = rough.saddle_for(2.0)
    claims = []
    for log_outside in (-1.0, -3.0, -25.0):
        made = Composed(pairs, rough, saddle, 2.0, 10**6, log_outside)
        exact = gaussian.log_delta(2.0, mu * math.sqrt(steps))
        assert made.log_least(2.0) <= exact
        claims.append(made.log_least(2.0))
    assert claims == sorted(claims)
    assert claims[-1] == pytest.approx(exact, abs=1e-3)


# ------------------------------------------------------------- referees


@pytest.mark.parametrize("at", [1, 11, 16, 18, 36, 45])
def test_between_exact_deltas(at):
    noise, rate, steps, delta = CONFIGURATIONS[at]
    profile = pld(noise, rate, int(steps), **HOW["add-remove"])
    lower, upper = profile.bracket(delta)
    assert lower <= upper <= profile.epsilon(delta)
    assert is_narrow(lower, upper)
    below, above = (exact_delta(noise, rate, int(steps), e) / delta for e in (lower, upper))
    assert above <= 1 + 1e-6
    assert below >= 1 - 1e-6


def check_exact(profile, delta, direction, exact):
    """The ends of the bracket against exact deltas, which have at least six digits."""
    lower, upper = profile.bracket(delta, direction)
    assert 0 < lower <= upper <= profile.epsilon(delta, direction)
    assert exact(upper) <= delta * (1 + 1e-6)
    assert exact(lower) >= delta * (1 - 1e-6)
    return lower, upper


PERSONS = [
    (2.0, 0.05, 400, 3, False, 1e-6),
    pytest.param(1.0, 0.01, 1000, 2, True, 1e-9, marks=pytest.mark.slow),
    pytest.param(1.0, 0.01, 1000, 4, False, 1e-5, marks=pytest.mark.slow),
    pytest.param(1.3, 0.2, 30, 5, True, 1e-7, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("noise", "rate", "steps", "records", "replaced", "delta"), PERSONS)
def test_persons_between_exact_deltas(noise, rate, steps, records, replaced, delta, direction):
    how = HOW["replace" if replaced else "add-remove"]
    profile = pld(noise, rate, steps, **how, max_rows_per_person=records)

    def exact(epsilon):
        how = {"records": records, "replaced": replaced, "backward": direction == "backward"}
        return exact_delta(noise, rate, steps, epsilon, **how)

    assert is_narrow(*check_exact(profile, delta, direction, exact))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("noise", "epochs", "replaced", "delta"),
    [
        (1.5, 50, False, 1e-5),
        (4.0, 10, False, 1e-8),
        (2.0, 10, True, 1e-6),
    ],
)
def test_epochs_of_two_steps_between_exact_deltas(noise, epochs, replaced, delta, direction):
    """By quadrature in the plane: no lognormals, no sums on a grid."""
    how = {"relation": REPLACE if replaced else ADD, "steps_per_epoch": 2}
    profile = pld(noise, 1 / 2, 2 * epochs, sampling="allocation", **how)

    def exact(epsilon):
        how = {"replaced": replaced, "backward": direction == "backward"}
        return exact_allocation_delta(noise, 2, epochs, epsilon, **how)

    check_exact(profile, delta, direction, exact)
    # The upper end is what is promised: 1e-3 of delta is some 1e-4 of epsilon.
    assert exact(profile.epsilon(delta, direction)) >= delta * (1 - 1e-2)


@pytest.mark.slow
def test_narrow_on_every_configuration_of_the_file():
    for noise, rate, steps, delta in CONFIGURATIONS:
        lower, upper = pld(noise, rate, int(steps), **HOW["add-remove"]).bracket(delta)
        assert is_narrow(lower, upper), (noise, rate, steps, delta, lower, upper)


RATES = st.floats(-4, -0.05).map(lambda power: 10.0**power)
NOISES = st.floats(-0.3, 1.0).map(lambda power: 10.0**power)
STEPS = st.floats(0.4, 3.0).map(lambda power: int(10.0**power))


@pytest.mark.parametrize("kind", HOW)
@given(q=RATES, z=NOISES, steps=STEPS)
@settings(max_examples=2, deadline=None, derandomize=True)
def test_a_lower_bound_by_direct_convolution_agrees(kind, q, z, steps):
    """Two lower bounds of one truth: neither is above the other's upper one, and both are near."""
    profile = pld(z, q, steps, **HOW[kind])
    deltas = [1e-2, 1e-5, 1e-9]
    brackets = [profile.bracket(delta) for delta in deltas]
    top = 1.5 * brackets[-1][1] + 1e-9
    referee = worst(kind, q, z, steps, deltas, top / 800, top)
    for (lower, upper), least in zip(brackets, referee, strict=True):
        assert least <= upper
        # The referee's lattice is coarse: what it proves, the bracket proves nearly, too.
        assert lower >= least * (1 - 1e-3) - 1e-6


@pytest.mark.parametrize(
    ("q", "z", "steps", "delta"),
    [(0.01, 1.0, 300, 1e-5), (0.5, 2.0, 20, 1e-4)],
)
def test_between_the_estimates_of_dp_accounting(q, z, steps, delta):
    def theirs(pessimistic):
        law = privacy_loss_distribution.from_gaussian_mechanism(
            z,
            sampling_prob=q,
            value_discretization_interval=4e-4,
            pessimistic_estimate=pessimistic,
        )
        return law.self_compose(steps).get_epsilon_for_delta(delta)

    lower, upper = pld(z, q, steps, **HOW["add-remove"]).bracket(delta)
    assert lower <= theirs(pessimistic=True)
    assert theirs(pessimistic=False) <= upper


def random_brackets(many, seed):
    """Settings of DP-SGD of every kind, their profiles and brackets."""
    draw = random.Random(seed)
    for _ in range(many):
        kind = draw.choice(["add-remove", *HOW])
        q, z = 10 ** draw.uniform(-5, -0.01), 10 ** draw.uniform(-0.5, 1.3)
        steps, delta = int(10 ** draw.uniform(0, 6)), 10 ** draw.uniform(-12, -3)
        profile = pld(z, q, steps, **HOW[kind])
        yield (kind, q, z, steps, delta), profile, profile.bracket(delta)


def check_random(many, seed):
    """A share of 0.95 is narrow; benchmarks/accounting.py --random 2000 asks for many more."""
    narrow = 0
    for at, (setting, profile, (lower, upper)) in enumerate(random_brackets(many, seed)):
        assert 0 <= lower <= upper <= profile.epsilon(setting[-1]), setting
        narrow += is_narrow(lower, upper)
        # Nothing that is proved otherwise is below the lower end.
        kind, q, z, steps, delta = setting
        assert at % 4 or rdp(z, q, steps, **HOW[kind]).epsilon(delta) >= lower, setting
    assert narrow >= 0.95 * many - 1


def test_random_settings():
    check_random(12, seed=3)


@pytest.mark.slow
def test_many_random_settings():
    check_random(120, seed=4)


# ------------------------------------------------------------- every kind of profile


@pytest.mark.parametrize("mu", [1e-3, 0.5, 30.0])
def test_a_gaussian_is_exact(mu):
    profile = GaussianProfile(parameter=mu, relation=ADD, theorem="a test")
    for delta in (0.3, 1e-5, 1e-12, 1e-100):
        lower, upper = profile.bracket(delta)
        assert upper == profile.epsilon(delta)
        assert 0 <= upper - lower <= 1e-9 * upper
        if lower:
            assert profile.delta(lower) > delta


def test_convolved_gaussians_have_the_exact_one_in_between():
    profile = LossProfile(
        components=((PoissonLoss(1.0, 4.0), 9), (GaussianLoss((0.5,)), 1)),
        relation=ADD,
        theorem="a test",
    )
    for delta in (1e-2, 1e-6, 1e-12):
        lower, upper = profile.bracket(delta)
        assert lower <= gaussian.epsilon(math.sqrt(9 / 16 + 0.25), delta) <= upper
        assert is_narrow(lower, upper)


def test_what_is_known_from_above_only():
    promise = ApproximateProfile(budget=(1.0, 1e-6), relation=ADD, theorem="a promise")
    run = pld(2.0, 0.1, 20, **HOW["add-remove"])
    for profile in (promise, rdp(2.0, 0.1, 20, **HOW["add-remove"]), group(run, 2)):
        assert profile.bracket(1e-5) == (0.0, profile.epsilon(1e-5))
    # Composed with such a one, what is certain is what the rest leaks.
    both = compose([promise, run]).bracket(1e-5)
    assert both[0] == pytest.approx(run.bracket(1e-5)[0], rel=1e-4)
    assert both[1] > both[0] + 0.5
    hopeless = GaussianProfile(parameter=math.inf, relation=ADD, theorem="no noise")
    assert hopeless.bracket(1e-5) == (0.0, math.inf)


@pytest.mark.parametrize(
    ("settings", "close"),
    [((0.02, 0.5, 100), 1e-2), ((2.0, 0.01, 10**13), 1.0)],
)
def test_losses_and_steps_beyond_the_digits_of_floats(settings, close):
    """Masses that underflow, and more steps than a transform has digits for: wide, not false."""
    profile = pld(*settings, **HOW["add-remove"])
    lower, upper = profile.bracket(1e-5)
    assert 0 <= lower <= upper <= profile.epsilon(1e-5)
    assert upper - lower <= close * upper


@pytest.mark.parametrize("settings", [(10 * MOST_NOISE, 0.5), (1.0, LEAST_RATE / 10)])
def test_laws_that_stand_for_others_are_no_lower_bounds(settings):
    assert pld(*settings, 10, **HOW["add-remove"]).bracket(1e-20)[0] == 0
    assert pld(*settings, 10, **HOW["fixed-size"]).bracket(1e-20)[0] == 0


def test_directions():
    profile = pld(1.0, 0.2, 20, **HOW["add-remove"])
    ways = [profile.bracket(1e-5, way) for way in DIRECTIONS]
    assert profile.bracket(1e-5) == tuple(max(ends) for ends in zip(*ways, strict=True))
    assert ways[0][0] > ways[1][1]


def test_without_delta_a_bounded_loss_is_the_largest():
    lower, upper = pld(1.0, 0.2, 20, **HOW["add-remove"]).bracket(0.0, "backward")
    assert lower == pytest.approx(-20 * math.log1p(-0.2), rel=1e-12)
    assert lower <= -20 * math.log1p(-0.2) <= upper


def test_answers_do_not_depend_on_what_was_asked_before():
    asked = [1e-3, 1e-9, 1e-5, 1e-12, 0.1]
    fresh = [pld(1.0, 0.01, 500, **HOW["add-remove"]).bracket(delta) for delta in asked]
    one = pld(1.0, 0.01, 500, **HOW["add-remove"])
    one.delta(0.3)
    assert [one.bracket(delta) for delta in asked[::-1]] == fresh[::-1]
    # Nor does a bracket change what epsilon answers.
    plain = pld(1.0, 0.01, 500, **HOW["add-remove"])
    assert [plain.epsilon(delta) for delta in asked] == [one.epsilon(delta) for delta in asked]


@pytest.mark.parametrize(("delta", "direction"), [(1.0, "both"), (-0.1, "both"), (0.1, "up")])
def test_bad_questions(delta, direction):
    with pytest.raises(InvalidArgument) as refused:
        pld(1.0, 0.01, 5, **HOW["add-remove"]).bracket(delta, direction)
    assert refused.value.argument == ("direction" if direction == "up" else "delta")
