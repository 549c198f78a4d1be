"""The laws that the entries rest on, and that each changes one thing."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from sordino.accounting import dp_sgd, gaussian
from sordino.audit.gallery import steps
from sordino.audit.runners.outputs import outputs

RUNS = 2000


def changed(one, other):
    names = [field.name for field in dataclasses.fields(one)]
    return {name for name in names if getattr(one, name) != getattr(other, name)}


def without_noise(release):
    return dataclasses.replace(release, spec=dataclasses.replace(release.spec, noise_multiplier=0))


def test_one_field_of_the_training_is_changed():
    case = steps.noise_on_mean.case()
    assert changed(case.broken.spec, case.correct.spec) == {"noise_multiplier"}
    size = case.correct.spec.batch_size
    assert case.correct.spec.noise_multiplier == size * case.broken.spec.noise_multiplier
    case = steps.shuffled_as_poisson.case()
    assert changed(case.broken.spec, case.correct.spec) == {"order"}
    case = steps.private_divisor.case()
    assert case.broken.spec == case.correct.spec


@pytest.mark.parametrize(
    ("make", "sampling", "rows"),
    [
        (steps.noise_on_mean.case, "poisson", 16),
        (steps.shuffled_as_poisson.case, "poisson", 60),
        (steps.private_divisor.case, "full", 3),
    ],
)
def test_the_twin_is_calibrated_to_its_claim(make, sampling, rows):
    case = make()
    spec = case.correct.spec
    proved = dp_sgd.pld(
        *(spec.noise_multiplier, spec.batch_size / rows, spec.steps),
        sampling=sampling,
        relation=case.claim.relation,
    )
    assert 0.999 * case.claim.epsilon < proved.epsilon(case.claim.delta) <= case.claim.epsilon
    assert case.true_epsilon > 4 * case.claim.epsilon


def test_in_a_shuffled_pass_one_batch_stands_out():
    case = steps.shuffled_as_poisson.case()
    worlds = outputs(without_noise(case.broken), case.D, case.D_prime, 50)
    for iterates, target in zip(worlds, (0, 1), strict=True):
        # Weights are sums of numbers like 0.001, told to 16 digits.
        sums = np.sort(steps.noisy_sums(iterates, 1), axis=1)
        assert sums[:, :-1] == pytest.approx(-1, abs=1e-9)
        assert sums[:, -1] == pytest.approx(target, abs=1e-9)


def test_among_silent_records_a_sum_is_the_record_or_nothing():
    case = steps.noise_on_mean.case()
    without, with_it = outputs(without_noise(case.correct), case.D, case.D_prime, RUNS)
    size, rows = case.correct.spec.batch_size, case.D.rows
    assert not without.any()
    sums = steps.noisy_sums(with_it, size)
    met = sums > 0.5
    assert sums == pytest.approx(met.astype(float), abs=1e-9)
    # 8,000 draws of chance 1/4 have a mean within 0.02 of it but for 4 standard deviations.
    assert met.mean() == pytest.approx(size / rows, abs=0.02)


@pytest.mark.parametrize(
    ("make", "which", "score"),
    [
        (steps.noise_on_mean.case, "correct", "score"),
        (steps.shuffled_as_poisson.case, "broken", "score"),
        (steps.shuffled_as_poisson.case, "correct", "correct_score"),
    ],
)
def test_scores_are_log_likelihood_ratios(make, which, score):
    case = make()
    release, ratio = getattr(case, which), getattr(case, score)
    worlds = outputs(release, case.D, case.D_prime, RUNS)
    assert all(np.abs(iterates).max() < 0.4 for iterates in worlds)  # where the slope is 1
    # The mean of dP'/dP over P is 1, and of dP/dP' over P', for no other function of this size.
    for iterates, sign in zip(worlds, (1, -1), strict=True):
        ratios = np.exp(sign * ratio(iterates))
        assert ratios.std() > 0.15  # of a score that says nothing it would be 0
        assert ratios.mean() == pytest.approx(1, abs=4 * ratios.std() / math.sqrt(RUNS))


def test_a_private_divisor_moves_the_mean_and_the_noise():
    case = steps.private_divisor.case()
    noise = case.correct.spec.noise_multiplier
    laws = {
        "broken": [(1, noise / 2), (1 / 3, noise / 3)],
        "correct": [(2 / 3, noise / 3), (1 / 3, noise / 3)],
    }
    for which, (first, second) in laws.items():
        worlds = outputs(getattr(case, which), case.D, case.D_prime, RUNS)
        for weights, (mean, sd) in zip(worlds, (first, second), strict=True):
            sums = steps.noisy_sums(weights, 1)
            # Within 4 standard errors.
            assert sums.mean() == pytest.approx(mean, abs=4 * sd / math.sqrt(RUNS))
            assert sums.std() == pytest.approx(sd, rel=4 / math.sqrt(2 * RUNS))
        if which == "correct":
            gap = (first[0] - second[0]) / first[1]
            assert gaussian.epsilon(gap, case.claim.delta) == pytest.approx(case.claim.epsilon)


def test_epsilon_of_normals():
    # Equal standard deviations: the Gaussian mechanism.
    for mu in (0.3, 1.0, 3.0):
        found = steps.epsilon_of_normals((2.0, 0.5), (2.0 - 0.5 * mu, 0.5), 1e-4)
        assert found == pytest.approx(gaussian.epsilon(mu, 1e-4), rel=1e-4)
    # N(0, 1) against N(0, 1/4), whose tails are far thinner; the other direction has ln 2 at most.
    found = steps.epsilon_of_normals((0.0, 1.0), (0.0, 0.5), 0.01)
    assert found == pytest.approx(steps.epsilon_of_normals((0.0, 0.5), (0.0, 1.0), 0.01))
    x = math.sqrt((found + math.log(2)) / 1.5)  # where ln p - ln q is epsilon
    tail, thin = math.erfc(x / math.sqrt(2)), math.erfc(2 * x / math.sqrt(2))
    assert tail - math.exp(found) * thin == pytest.approx(0.01, rel=1e-3)


@pytest.mark.slow
def test_epsilon_of_the_shuffled_pass_is_near_what_is_proved():
    case = steps.shuffled_as_poisson.case()
    noise, rows, many = case.score.noise, case.D.rows, 20_000
    generator = np.random.default_rng(0)
    losses = []
    for _ in range(20):
        sums = generator.normal(-1, noise, (many, rows))
        sums[:, 0] += 2  # which batch it is in does not matter to the score
        losses.append(case.score(-steps._RATE * np.cumsum(sums, axis=1)))
    gains = np.maximum(-np.expm1(4.2 - np.concatenate(losses)), 0)
    # 400,000 draws know it to 4 %; delta falls by a tenth in 0.05 of epsilon.
    assert gains.mean() == pytest.approx(case.claim.delta, rel=0.15)
    assert 4.2 < case.true_epsilon < 4.35
