"""Numbers far beyond every real run: answered soundly or refused, never a crash nor a long walk."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sordino.accounting.dp_sgd import LEAST_RATE, MOST_NOISE, NoisySteps, pld
from sordino.accounting.last_iterate.linear_loss import linear_loss
from sordino.accounting.pld.curve import Workshop
from sordino.errors import NotApplicable
from sordino.privacy import Relation
from sordino.proofs import theorems
from sordino.proofs.steps import Run
from sordino.proofs.theorems import Finding

MOST_STRETCHES = 120
"""Halving to a width of 1e-12 takes 40 of them in each direction; straight lines took thousands."""


def _extreme(rng: np.random.Generator) -> tuple[NoisySteps, float]:
    """Noisy steps and a delta, each number drawn over all its powers of ten or from its ends."""

    def over(low: float, high: float, *ends: float) -> float:
        at_an_end = ends and rng.random() < 0.3
        return float(rng.choice(ends)) if at_an_end else 10 ** rng.uniform(low, high)

    noise = over(-3, 6) if rng.random() < 0.4 else over(-320, 308, 0.0, 5e-324, 1e300, 1.7e308)
    rate = over(-18, 0, 1.0, 1e-300, 5e-324, 1 - 1e-16, 0.01)
    count = int(over(0, 18, 1, 2, 10**6, 10**9, 10**18))
    delta = over(-320, -0.001, 0.0, 1e-300, 1 - 1e-16, 1e-5)
    sampling = str(rng.choice(["poisson", "fixed-size", "full", "shuffle", "permute-once"]))
    relation = list(Relation)[rng.integers(len(Relation))]
    batches = min(count, int(over(0, 18))) if sampling in ("shuffle", "permute-once") else None
    return NoisySteps(noise, rate, count, sampling, relation, batches), delta


def _never_hangs(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The stretches that convolutions are made for."""
    made: list[float] = []
    make = Workshop.make

    def counted(self: Workshop, low: float, high: float) -> object:
        made.append(low)
        assert len(made) <= MOST_STRETCHES, "one question walks through stretch after stretch"
        return make(self, low, high)

    monkeypatch.setattr(Workshop, "make", counted)
    return made


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 16))]
)
def test_extremes_are_answered_or_refused(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng([8, seed])
    made = _never_hangs(monkeypatch)
    for _ in range(10):
        steps, delta = _extreme(rng)
        run = Run(steps, "final", NotApplicable("no loss is named"))
        for theorem in theorems.STEPS:
            made.clear()
            try:
                title = theorem.name, theorem.title, theorem.released
                blank = Finding(*title, steps.relation, delta)
                value = blank.filled(theorem.answer(run, delta)).value
            except NotApplicable:
                continue
            assert value is not None
            assert value >= 0, (steps, delta, theorem.name)


@pytest.mark.parametrize(
    ("noise", "rate", "count", "sampling", "relation", "delta"),
    [
        (32.36, 5.95e-14, 2, "poisson", Relation.REPLACE_ONE, 8.8e-28),
        pytest.param(
            *(1.0, 2.13e-16, 9017, "poisson", Relation.REPLACE_ONE, 5.9e-146),
            marks=pytest.mark.slow,
        ),
        (0.0174, 0.01546, 10**6, "fixed-size", Relation.REPLACE_ONE, 1 - 1e-16),
    ],
)
def test_no_question_walks_along_the_line(
    noise: float,
    rate: float,
    count: int,
    sampling: str,
    relation: Relation,
    delta: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _never_hangs(monkeypatch)
    profile = pld(noise, rate, count, sampling=sampling, relation=relation)
    epsilon = profile.epsilon(delta)
    assert epsilon == math.inf or profile.delta(epsilon) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size"])
@pytest.mark.parametrize("count", [1, 10**6, 10**18])
def test_beyond_the_range_nothing_is_more_private_than_at_its_end(
    sampling: str, count: int
) -> None:
    def epsilon(noise: float, rate: float) -> float:
        how = {"sampling": sampling, "relation": Relation.REPLACE_ONE}
        return pld(noise, rate, count, **how).epsilon(1e-9)  # type: ignore[arg-type]

    assert epsilon(1e300, 0.5) == epsilon(MOST_NOISE, 0.5) <= epsilon(MOST_NOISE / 10, 0.5)
    assert epsilon(1.0, 1e-300) == epsilon(1.0, LEAST_RATE) <= epsilon(1.0, LEAST_RATE * 10)


def test_a_linear_loss_over_too_many_counts_is_refused() -> None:
    with pytest.raises(NotApplicable, match=r"would sum over 7e\+09 counts"):
        linear_loss(noise_multiplier=1.0, sample_rate=0.01, steps=10**18)


def test_a_linear_loss_with_far_too_much_noise_is_counted_with_less() -> None:
    epsilons = [
        linear_loss(noise_multiplier=noise, sample_rate=0.01, steps=10**4).epsilon(1e-6)
        for noise in (1e6, 1e10, 1e300)
    ]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[-1] < 1e-7
