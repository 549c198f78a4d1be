"""Laws of every profile, over random settings: pure, monotone, and of one piece.

A profile answers the same whatever was asked before; delta falls with epsilon, epsilon rises as
delta falls and as steps grow; beta and advantage are what its own (epsilon, delta) points say.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.accounting import calibrate
from sordino.accounting.compose import compose
from sordino.accounting.dp_sgd import pld
from sordino.accounting.profile import ApproximateProfile
from sordino.privacy import PASSES, Relation, Sampling

HOWS = [
    {"sampling": sampling, "relation": relation}
    for sampling, relation in itertools.product(list(Sampling), Relation)
    if relation is not Relation.ADD_OR_REMOVE_ONE
    or (sampling != "fixed-size" and sampling not in PASSES)
]


def settings_with(most_steps):
    """Noise, rate, steps and sampling; powers of ten for the first three."""
    return st.tuples(
        st.floats(-0.5, 1.5).map(lambda power: 10.0**power),
        st.floats(-6, 0).map(lambda power: 10.0**power),
        st.floats(0.3, most_steps).map(lambda power: int(10.0**power)),
        st.sampled_from(HOWS),
    )


FEW = settings_with(3.5)
# The same settings each time: what a new one finds is for somebody to look at.
DELTAS = [10.0**-power for power in (1, 2, 4, 6, 9, 12, 15, 18, 22, 27)]
# Where two stretches of epsilon meet, each on a grid of its own (docs/accounting.md).
GRID = 2e-4


def ladder(profile):
    """Epsilons around where the profile has something to say."""
    scale = max(profile.epsilon(1e-9), 1e-7)
    return np.concatenate([[0.0], np.geomspace(1e-3 * scale, 30 * scale, 16)]).tolist()


def questions(profile):
    """Things to ask, by name."""
    some = ladder(profile)[::5]
    asked = {f"epsilon {d}": lambda p, d=d: p.epsilon(d) for d in DELTAS[1::3]}
    asked |= {f"delta {e}": lambda p, e=e: p.delta(e) for e in some}
    asked |= {f"delta of {-e}": lambda p, e=e: p.delta(-e, "forward") for e in some[:2]}
    asked |= {"advantage": lambda p: p.advantage(), "beta": lambda p: p.beta(0.01)}
    return asked


def pure(setting, order):
    noise, rate, steps, how = setting
    asked = questions(pld(noise, rate, steps, **how))
    fresh = {name: ask(pld(noise, rate, steps, **how)) for name, ask in asked.items()}
    used = pld(noise, rate, steps, **how)
    names = list(asked)
    order.shuffle(names)
    for name in names:
        assert asked[name](used) == fresh[name], (setting, name)


def monotone(setting):
    noise, rate, steps, how = setting
    profile = pld(noise, rate, steps, **how)
    deltas = [profile.delta(epsilon) for epsilon in ladder(profile)]
    assert all(a >= b for a, b in itertools.pairwise(deltas)), (setting, deltas)
    epsilons = [profile.epsilon(delta) for delta in DELTAS]
    assert epsilons == sorted(epsilons), (setting, epsilons)
    more = pld(noise, rate, 2 * steps, **how)
    for delta, epsilon in zip(DELTAS, epsilons, strict=True):
        # Each on its own grid: the stated accuracy.
        assert epsilon <= more.epsilon(delta) * (1 + 4e-4) + 4e-6, (setting, delta)


def consistent(setting):
    noise, rate, steps, how = setting
    profile = pld(noise, rate, steps, **how)
    points = [(e, profile.delta(e)) for e in ladder(profile)[::2]]
    points += [(profile.epsilon(d), d) for d in DELTAS[:5]]
    advantage = profile.advantage()
    scale = max(profile.epsilon(1e-9), 1e-7)
    for epsilon, delta in points:
        if epsilon > 600:
            continue
        # (epsilon, delta) bounds every test's TPR - FPR (Kairouz, Oh & Viswanath 2015).
        best = (math.expm1(epsilon) + 2 * delta) / (math.exp(epsilon) + 1)
        assert advantage <= best * (1 + 1e-6) + GRID * scale, (setting, epsilon, delta)
        for alpha in (1e-6, 0.01, 0.3):
            lines = 1 - delta - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - delta - alpha)
            assert profile.beta(alpha) >= max(lines) - GRID * scale - 1e-9, (setting, epsilon)
            assert profile.beta(alpha) <= 1 - alpha
    for delta in DELTAS:
        epsilon = profile.epsilon(delta)
        if epsilon < math.inf:
            assert profile.delta(epsilon) <= delta * (1 + 1e-9), (setting, delta)


@given(setting=FEW, order=st.randoms(use_true_random=False))
@settings(max_examples=5, derandomize=True)
def test_answers_do_not_depend_on_what_was_asked(setting, order):
    pure(setting, order)


@given(setting=FEW)
@settings(max_examples=6, derandomize=True)
def test_monotone(setting):
    monotone(setting)


@given(setting=FEW)
@settings(max_examples=4, derandomize=True)
def test_one_piece(setting):
    consistent(setting)


# What a referee found.
ADD = {"sampling": "poisson", "relation": Relation.ADD_OR_REMOVE_ONE}
FIXED = {"sampling": "fixed-size", "relation": Relation.REPLACE_ONE}
FOUND = [(2.0, 1e-4, 1000, ADD), (4.75, 1.26e-4, 166, FIXED)]


@pytest.mark.parametrize("setting", FOUND, ids=["poisson", "fixed-size"])
def test_settings_that_had_vacuous_answers(setting):
    noise, rate, steps, how = setting
    profile = pld(noise, rate, steps, **how)
    profile.epsilon(1e-6)
    assert profile.beta(0.01) > 0.98
    assert profile.delta(0.001) < 1e-3
    assert profile.delta(1.0) <= profile.delta(0.5) <= 1e-24
    monotone(setting)
    consistent(setting)


REPLACE = {"sampling": "poisson", "relation": Relation.REPLACE_ONE}
FEW_STEPS = [
    (1.0818, 1e-5, 3, ADD),
    (0.44798028412629903, 4.104987462981674e-06, 2, ADD),
    (0.6863840328613457, 4.4589664427550604e-06, 3, ADD),
    (26.806187561707432, 1.316643920762797e-4, 5, ADD),
    (45.72136188898936, 9.252953085930672e-05, 2, ADD),
    (41.06873028768062, 2.9540637023198215e-06, 10, REPLACE),
]


@pytest.mark.parametrize("setting", FEW_STEPS, ids=str)
def test_few_steps_at_tiny_rates(setting):
    """Losses below the window came back at its top, and nobody noticed."""
    monotone(setting)


def test_calibration_finds_its_target_at_a_small_rate():
    setting = (0.0001, 257)
    noise = calibrate.noise_multiplier(0.0155, 1e-7, *setting, **FIXED)
    found = pld(noise, *setting, **FIXED).epsilon(1e-7)
    assert 0.0155 * (1 - 1e-3) <= found <= 0.0155


def test_the_largest_loss_is_not_rounded_down():
    """At 10 times 0.8157, as a float, ten releases of it still differ with this probability."""
    step = 0.8156698705169639
    release = ApproximateProfile(budget=(step, 0.0), relation=Relation.REPLACE_ONE, theorem="one")
    assert compose([release] * 10).log_delta(10 * step) >= -38.7


def test_outright_disclosures_add_up_exactly():
    both = compose(
        [
            ApproximateProfile(budget=budget, relation=Relation.REPLACE_ONE, theorem="a test")
            for budget in ((1.0, 0.1), (2.0, 0.2))
        ]
    )
    # 1 - 0.9 * 0.8, not 0.3.
    assert both.delta(3.0) == pytest.approx(0.28, rel=1e-12)
