"""The accuracy that docs/accounting.md states, against exact deltas by Mellin's inversion."""

from __future__ import annotations

import itertools
import math
import random
from functools import partial

import pytest
from referee.accounting_exact import exact_delta

from sordino.accounting.dp_sgd import pld
from sordino.privacy import Relation

RELATIVE, SMALLEST, USUAL = 4e-4, 0.01, 2e-5
"""Epsilon is above the truth by this share of itself, or of the smallest; half are within this."""


def settings(seed):
    """Random settings whose exact delta the referee knows, with epsilon."""
    draw = random.Random(seed)
    while True:
        rate, noise = 10 ** draw.uniform(-4, -0.3), 10 ** draw.uniform(-0.2, 1)
        steps, delta = int(10 ** draw.uniform(1, 4)), 10 ** draw.uniform(-12, -2)
        relation = Relation.ADD_OR_REMOVE_ONE
        profile = pld(noise, rate, steps, sampling="poisson", relation=relation)
        epsilon = profile.epsilon(delta, "forward")
        if not 1e-4 < epsilon < 200:
            continue
        exact = partial(exact_delta, noise, rate, steps)
        try:
            if math.isnan(exact(epsilon)):
                continue
        except ValueError:  # of the referee: a contour that it cannot lay
            continue
        yield epsilon, delta, exact


def share_within(precision, seed, many):
    """Share of settings where an epsilon smaller by `precision` is already too small."""
    close = 0
    for epsilon, delta, exact in itertools.islice(settings(seed), many):
        # A millionth for the inversion.
        assert exact(epsilon) <= delta * (1 + 1e-6)
        close += exact(epsilon - precision * max(epsilon, SMALLEST)) >= delta
    return close / many


def test_epsilon_is_as_accurate_as_documented():
    assert share_within(RELATIVE, 1, 2) == 1


@pytest.mark.slow
def test_epsilon_is_as_accurate_as_documented_at_many_settings():
    assert share_within(RELATIVE, 2, 8) == 1
    assert share_within(USUAL, 2, 8) >= 0.5
