"""A person with several records: golden vectors, referees, and every kind of batch."""

from __future__ import annotations

import itertools
import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lower_bound import worst
from scipy.stats import binom, norm

from sordino.accounting import calibrate, gaussian
from sordino.accounting.compose import GroupProfile, group
from sordino.accounting.dp_sgd import NoisySteps, pld, rdp
from sordino.accounting.pld.allocation import AllocationLoss, AllocationReplaceLoss
from sordino.accounting.pld.loss import (
    DIRECTIONS,
    FixedSizeLoss,
    GaussianLoss,
    PoissonLoss,
    PoissonReplaceLoss,
)
from sordino.accounting.pld.person import MixtureLoss, PersonLoss, PersonReplaceLoss
from sordino.accounting.pld.truncated import (
    TruncatedLoss,
    TruncatedReplaceLoss,
    TruncatedZeroLoss,
)
from sordino.accounting.profile import LossProfile
from sordino.errors import InvalidArgument
from sordino.privacy import Relation, Sampling

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "person_12.json").read_text())
CASES = GOLDEN["12_person_with_k_records"]["poisson_add_remove_all_k"]
ADD, REPLACE, ZERO = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE, Relation.ZERO_OUT
LAWS = {False: PersonLoss, True: PersonReplaceLoss}
WAYS = ("forward", "backward")
RATES = st.floats(-3, -0.1).map(lambda power: 10.0**power)
NOISES = st.floats(-0.3, 0.8).map(lambda power: 10.0**power)


def poisson(noise, rate, steps, k, relation=ADD, account=pld):
    how = {"sampling": "poisson", "relation": relation, "max_rows_per_person": k}
    return account(noise, rate, steps, **how)


def binomial(k, q):
    return [math.comb(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]


@pytest.mark.parametrize("case", CASES["cases"], ids=str)
def test_golden(case):
    numbers = case["noise_multiplier"], case["sample_rate"], case["steps"], case["k"]
    for relation in (ADD, ZERO):  # a record without effect is none
        profile = poisson(*numbers, relation)
        found = profile.epsilon(case["delta"])
        low, high = 1 - CASES["tol"]["below"], 1 + CASES["tol"]["rel"]
        assert low * case["epsilon"] <= found <= high * case["epsilon"]
        assert profile.fallbacks(case["delta"]) == ()
        assert profile.notes == (f"for {case['k']} records of one person",)
        assert "Ganesh 2024" in profile.theorem


@pytest.mark.parametrize("account", [pld, rdp])
@pytest.mark.parametrize("relation", [ADD, REPLACE, ZERO])
@pytest.mark.parametrize("sampling", list(Sampling))
def test_one_record_is_what_it_was_to_the_bit(account, relation, sampling):
    if relation is ADD and sampling not in ("poisson", "full"):
        return
    if sampling == "allocation":  # the moments accountant does not know it
        account = pld
    rate = 1.0 if sampling == "full" else 0.1
    plain, one = (
        account(1.3, rate, 25, sampling=sampling, relation=relation, **more)
        for more in ({}, {"max_rows_per_person": 1})
    )
    assert (one.epsilon(1e-5), one.theorem, one.notes) == (plain.epsilon(1e-5), plain.theorem, ())


@given(rate=RATES, noise=NOISES, replaced=st.booleans())
@settings(max_examples=20)
def test_the_law_of_one_record_is_the_usual_one(rate, noise, replaced):
    one = LAWS[replaced](rate, noise, 1)
    usual = (PoissonReplaceLoss if replaced else PoissonLoss)(rate, noise)
    losses = np.array([-40.0, -1.0, -1e-3, -1e-9, 0.0, 1e-12, 1e-4, 0.7, 5.0, 300.0])
    ours, theirs = one.position(losses), usual.position(losses)
    near = np.isfinite(theirs) & (np.abs(losses - math.log1p(-rate)) > 1e-6)
    assert (np.isfinite(ours) == np.isfinite(theirs))[near].all()
    assert ours[near] == pytest.approx(theirs[near], rel=1e-9, abs=1e-9 * noise**2)
    places = np.linspace(-20 * noise, 20 * noise + 2, 41)
    assert one.at(places) == pytest.approx(usual.at(places), rel=1e-11, abs=1e-15)
    for way in WAYS:
        for epsilon in (0.0, 1e-3, 0.5, 4.0):
            found, wanted = (law.log_delta(epsilon, way) for law in (one, usual))
            assert found == pytest.approx(wanted, rel=1e-9) or wanted < -600
        thetas = np.array([0.5, 1.0, 7.0])
        assert one.log_moments(thetas, way) == pytest.approx(usual.log_moments(thetas, way))


def integrated(rows, others, noise, rate, epsilon):
    """E (p - e^epsilon q)_+ of two persons' gradients in the plane, by a sum over a fine grid."""
    axis = np.linspace(-len(rows) - 9 * noise, len(rows) + 9 * noise, 161)
    x, y = np.meshgrid(axis, axis)

    def density(gradients):
        total = np.zeros(x.shape)
        for drawn in itertools.product((0, 1), repeat=len(gradients)):
            mean = np.array(drawn) @ gradients
            weight = rate ** sum(drawn) * (1 - rate) ** (len(drawn) - sum(drawn))
            total += weight * np.exp(-((x - mean[0]) ** 2 + (y - mean[1]) ** 2) / (2 * noise**2))
        return total / (2 * math.pi * noise**2)

    p, q = density(rows), density(others)
    cell = (axis[1] - axis[0]) ** 2
    forward = np.maximum(p - math.exp(epsilon) * q, 0).sum() * cell
    return forward, np.maximum(q - math.exp(epsilon) * p, 0).sum() * cell


@given(
    k=st.integers(2, 3),
    rate=st.floats(0.05, 0.7),
    noise=st.floats(0.6, 2),
    epsilon=st.floats(0, 2),
    replaced=st.booleans(),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=10, derandomize=True)
def test_no_gradients_tell_more_than_those_along_one_line(k, rate, noise, epsilon, replaced, seed):
    """Kahane's inequality at work, and attained: the law is exactly that of the worst gradients."""
    draw, law = np.random.default_rng(seed), LAWS[replaced](rate, noise, k)
    bounds = [math.exp(law.log_delta(epsilon, way)) for way in WAYS]

    def found(angles, sizes, others, shrunk):
        first = sizes[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        last = shrunk[:, None] * np.stack([np.cos(others), np.sin(others)], axis=1)
        last = last if replaced else np.zeros((k, 2))
        return integrated(first, last, noise, rate, epsilon)

    angles, others = draw.uniform(0, 2 * math.pi, (2, k))
    some = found(angles, draw.uniform(0, 1, k), others, np.ones(k))
    for delta, bound in zip(some, bounds, strict=True):
        assert delta <= bound + 1e-3  # what the grid may err by
    line = found(np.zeros(k), np.ones(k), np.full(k, math.pi), np.ones(k))
    assert line == pytest.approx(bounds, abs=1e-3)


@given(rate=RATES, noise=NOISES, k=st.integers(2, 6))
@settings(max_examples=20)
def test_moments_are_sums_over_pairs_and_triples_of_counts(rate, noise, k):
    weights, law = binomial(k, rate), PersonLoss(rate, noise, k)
    moments = []
    for order in (2, 3):
        terms = []
        for counts in itertools.product(range(k + 1), repeat=order):
            pairs = sum(a * b for a, b in itertools.combinations(counts, 2))
            terms.append(math.log(math.prod(weights[j] for j in counts)) + pairs / noise**2)
        moments.append(float(np.logaddexp.reduce(terms)))
    found = law.log_moments(np.array([1.0, 2.0]), "forward")
    assert found == pytest.approx(moments, rel=1e-9, abs=1e-14)


def never_below(kind, k, q, z, steps, deltas):
    profile = poisson(z, q, steps, k, REPLACE if kind == "replace" else ADD)
    proved = [profile.epsilon(delta) for delta in deltas]
    top = 1.5 * max(proved) + 1e-9
    least = worst((kind, k), q, z, steps, deltas, top / 2000, top)
    for delta, ours, theirs in zip(deltas, proved, least, strict=True):
        assert ours >= theirs, (delta, ours, theirs)
    assert proved == sorted(proved)
    return proved, least


DECADES = [10.0**-power for power in (1, 3, 5, 8, 12, 20)]
STEPS = st.floats(0.4, 3).map(lambda power: int(10.0**power))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["add-remove", "replace"])
@given(k=st.integers(2, 9), q=st.floats(-5, -0.05).map(lambda p: 10.0**p), z=NOISES, steps=STEPS)
@settings(max_examples=3, derandomize=True)
def test_never_below_a_certified_lower_bound(kind, k, q, z, steps):
    never_below(kind, k, q, z, steps, DECADES)


@pytest.mark.parametrize("kind", ["add-remove", "replace"])
def test_close_to_the_lower_bound_which_catches_a_twin(kind):
    """Three records that are never drawn together, or two of them, would be a false promise."""
    proved, least = never_below(kind, 3, 0.02, 1.5, 200, [1e-3, 1e-6])
    assert proved == pytest.approx(least, rel=2e-3)
    relation = REPLACE if kind == "replace" else ADD
    for twin in (
        poisson(1.5, 0.06, 200, 1, relation),  # one at a time
        poisson(1.5, 0.02, 200, 2, relation),
    ):
        below = [twin.epsilon(d) < at for d, at in zip([1e-3, 1e-6], least, strict=True)]
        assert any(below)


@given(
    rate=RATES, noise=NOISES, steps=st.integers(1, 300), relation=st.sampled_from([ADD, REPLACE])
)
@settings(max_examples=3)
def test_more_records_leak_more_and_less_than_the_group_lemma(rate, noise, steps, relation):
    profiles = [poisson(noise, rate, steps, k, relation) for k in (1, 2, 4)]
    found = [profile.epsilon(1e-5) for profile in profiles]
    assert found == sorted(found)
    curve = rdp(noise, rate, steps, sampling="poisson", relation=relation)
    assert found[-1] <= group(curve, 4).epsilon(1e-5) * (1 + 1e-3) + 1e-6
    moments = poisson(noise, rate, steps, 4, relation, account=rdp).epsilon(1e-5)
    assert found[-1] <= moments * (1 + 1e-3) + 1e-6


@pytest.mark.parametrize("replaced", [False, True])
def test_very_many_records_are_counted_in_steps_upwards(replaced):
    """All 90 shifts by hand against the few that are kept: above, and not by much."""
    k, q, z = 90, 0.03, 6.0
    law = LAWS[replaced](q, z, k)
    means, weights = law.worlds[0]
    assert len(means) < k
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    x = np.linspace(-120, 220, 200_001)
    exact = binomial(k, q)

    def density(sign):
        rows = (w * np.exp(-((x - sign * j) ** 2) / (2 * z * z)) for j, w in enumerate(exact))
        return sum(rows) / (z * math.sqrt(2 * math.pi))

    p, other = (
        density(1),
        density(-1) if replaced else np.exp(-(x**2) / (2 * z * z)) / (z * math.sqrt(2 * math.pi)),
    )
    for epsilon in (0.0, 0.5, 1.5, 3.0):
        gaps = p - math.exp(epsilon) * other, other - math.exp(epsilon) * p
        for way, gap in zip(WAYS, gaps, strict=True):
            truth = np.maximum(gap, 0).sum() * (x[1] - x[0])
            bound = math.exp(law.log_delta(epsilon, way))
            assert truth * (1 - 1e-6) - 1e-12 <= bound <= truth * 1.05 + 1e-9


def test_the_lower_end_is_below_the_law_of_every_count():
    """Counts taken together upwards are no lower bound: theirs was 0.6 % above the truth."""
    k, rate, noise = 5_000, 0.1, 200.0
    drawn = np.arange(300, 721)  # others are left out of the referee: 1e-18 of probability
    chances = binom.pmf(drawn, k, rate)
    every = MixtureLoss(noise / 720, tuple(drawn / 720), tuple(chances / chances.sum()))
    for steps in (1, 3):
        referee = LossProfile(components=((every, steps),), relation=ADD, theorem="every count")
        exact = referee.epsilon(1e-5)
        lower, upper = poisson(noise, rate, steps, k).bracket(1e-5)
        assert 0.98 * exact < lower < exact * (1 + 1e-9) < upper < 1.02 * exact
    assert poisson(noise, rate, 3, k, REPLACE).bracket(1e-5)[0] == 0


@given(
    shifts=st.lists(st.floats(-4, 0).map(lambda power: 10.0**power), min_size=1, max_size=6),
    noise=NOISES,
    nothing=st.sampled_from([0.0, 0.3, 0.99]),
    epsilon=st.floats(0, 4),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=40)
def test_any_mixture_is_what_quadrature_says(shifts, noise, nothing, epsilon, seed):
    shifts = sorted({*shifts, 1.0})
    chances = (1 - nothing) * np.random.default_rng(seed).dirichlet(np.ones(len(shifts)))
    if nothing:
        shifts, chances = [0.0, *shifts], np.append(nothing, chances)
    law = MixtureLoss(noise, tuple(shifts), tuple(chances))
    x = np.linspace(-14 * noise, 1 + 14 * noise, 200_001)
    p = sum(w * norm.pdf(x, c, noise) for c, w in zip(shifts, chances, strict=True))
    q = norm.pdf(x, 0, noise)
    # The rule of the middle, 2e5 points over 30 deviations: relative to the larger mass 1e-8.
    for way, drawn, other in (("forward", p, q), ("backward", q, p)):
        exact = np.maximum(drawn - math.exp(epsilon) * other, 0).sum() * (x[1] - x[0])
        assert math.exp(law.log_delta(epsilon, way)) == pytest.approx(exact, rel=1e-5, abs=1e-9)
        moment = (drawn * np.exp(0.5 * np.log(drawn / other))).sum() * (x[1] - x[0])
        assert law.log_moments(np.array([0.5]), way)[0] == pytest.approx(math.log(moment), abs=1e-9)
    here = np.linspace(-6 * noise, 1 + 6 * noise, 50)
    back = law.position(law.at(here))
    # A loss near its bound is flat: there the place is lost, and the loss is compared instead.
    assert law.at(back) == pytest.approx(law.at(here), rel=1e-9, abs=1e-12)


@given(k=st.integers(1, 6), noise=st.floats(0.5, 30), steps=st.integers(1, 50))
def test_gaussian_sums_have_k_times_the_mu(k, noise, steps):
    for relation, size in ((ADD, 1), (ZERO, 1), (REPLACE, 2)):
        how = {"sampling": "full", "relation": relation, "max_rows_per_person": k}
        assert pld(noise, 1.0, steps, **how).mu == pytest.approx(
            k * size * math.sqrt(steps) / noise, rel=1e-14
        )
    cyclic = pld(noise, 0.1, steps, sampling="cyclic", relation=ZERO, max_rows_per_person=k)
    assert cyclic.mu == pytest.approx(k * math.sqrt(math.ceil(steps / 10)) / noise, rel=1e-14)


@pytest.mark.parametrize("steps", [2, 5, 7])
@pytest.mark.parametrize("k", [2, 3])
def test_permuted_batches_cover_every_order_of_the_records(steps, k):
    """Six records in three batches of two, a person's k among them: the mean over all orders."""
    how = {"sampling": "permute-once", "relation": ZERO, "steps_per_epoch": 3}
    profile = pld(2.0, 1 / 3, steps, max_rows_per_person=k, **how)
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        deltas = []
        for places in itertools.combinations(range(6), k):
            drawn = np.bincount(np.array(places) // 2, minlength=3)
            square = sum(drawn[step % 3] ** 2 for step in range(steps))
            deltas.append(math.exp(gaussian.log_delta(epsilon, math.sqrt(square) / 2.0)))
        assert np.mean(deltas) <= profile.delta(epsilon) * (1 + 1e-9)
    # Never above the largest: everybody in the batch that is met most.
    worst_mu = k * math.sqrt(-(-steps // 3)) / 2.0
    assert profile.epsilon(1e-5) <= gaussian.epsilon(worst_mu, 1e-5) * (1 + 1e-8)


@pytest.mark.parametrize("account", [pld, rdp])
def test_batches_of_fixed_size_have_the_general_lemma_only_and_say_so(account):
    how = {"sampling": "fixed-size", "relation": REPLACE}
    profile = account(6.0, 0.05, 100, max_rows_per_person=2, **how)
    assert isinstance(profile, GroupProfile)
    lemma = group(account(6.0, 0.05, 100, **how), 2)
    assert profile.epsilon(1e-5) == lemma.epsilon(1e-5)
    assert any("group lemma" in note for note in profile.notes)
    assert "Vadhan 2017" in profile.theorem


ALONE = {"sampling": "fixed-size", "relation": REPLACE}
CUT = {"sampling": "poisson", "relation": ADD, "max_batch_size": 25, "records": 100}


@pytest.mark.parametrize(
    ("how", "most_mu"),
    [
        ({"sampling": "allocation", "relation": ADD, "steps_per_epoch": 5}, 2.0),
        ({"sampling": "allocation", "relation": REPLACE, "steps_per_epoch": 5}, 4.0),
        (ALONE, 2 * math.sqrt(20)),
        (CUT, 2 * math.sqrt(20)),
        (CUT | {"relation": REPLACE}, 4 * math.sqrt(20)),
        (CUT | {"relation": ZERO}, 4 * math.sqrt(20)),
    ],
)
def test_many_records_cost_no_more_than_if_their_batches_were_known(how, most_mu):
    """Where the lemma ends at delta = 1; 20 steps, of allocation 4 epochs."""
    profile = pld(0.8, 0.2, 20, max_rows_per_person=30, **how)
    known = gaussian.epsilon(30 * most_mu / 0.8, 1e-5)
    assert 0 < profile.epsilon(1e-5) <= known * (1 + 1e-9)
    # With much noise the lemma keeps the amplification.
    few = pld(8.0, 0.2, 20, max_rows_per_person=2, **how).epsilon(1e-5)
    assert few < 0.95 * gaussian.epsilon(2 * most_mu / 8.0, 1e-5)


@pytest.mark.parametrize(
    ("law", "most_mu"),
    [
        (PoissonLoss(0.3, 0.7), 1 / 0.7),
        (PoissonReplaceLoss(0.3, 0.7), 2 / 0.7),
        (FixedSizeLoss(0.3, 0.7), 2 / 0.7),
        (PersonLoss(0.3, 0.7, 3), 3 / 0.7),
        (PersonReplaceLoss(0.3, 0.7, 3), 6 / 0.7),
        (AllocationLoss(3, 0.7), 1 / 0.7),
        (AllocationReplaceLoss(3, 0.7), 2 / 0.7),
        (TruncatedLoss(0.3, 0.7, 3, 10), 2 / 0.7),
        (TruncatedZeroLoss(0.3, 0.7, 3, 10), 4 / 0.7),
        (TruncatedReplaceLoss(0.3, 0.7, 3, 10), 4 / 0.7),
        (GaussianLoss((0.5, 2.0), (0.9, 0.1)), 2.0),
    ],
    ids=lambda law: type(law).__name__,
)
def test_a_law_is_no_worse_than_gaussian_noise_alone(law, most_mu):
    assert law.most_mu == pytest.approx(most_mu, rel=1e-12)
    for epsilon in (0.0, 0.1, 1.0, 5.0):  # farther out grids of epochs end
        for way in DIRECTIONS:
            assert law.log_delta(epsilon, way) <= gaussian.log_delta(epsilon, law.most_mu) + 1e-4


@pytest.mark.parametrize("method", ["pld", "rdp"])
@pytest.mark.parametrize(
    ("sampling", "relation", "rate"),
    [
        ("poisson", ADD, 0.05),
        ("poisson", REPLACE, 0.05),
        ("full", ZERO, 1.0),
        ("shuffle", ZERO, 0.1),
    ],
)
def test_noise_for_several_records(method, sampling, relation, rate):
    how = {"sampling": sampling, "relation": relation, "max_rows_per_person": 3}
    noise = calibrate.noise_multiplier(2.0, 1e-5, rate, 25, method=method, **how)
    again = partial({"pld": pld, "rdp": rdp}[method], sample_rate=rate, steps=25, **how)
    assert 2 * (1 - 1e-4) <= again(noise).epsilon(1e-5) <= 2
    alone = calibrate.noise_multiplier(
        2.0, 1e-5, rate, 25, method=method, sampling=sampling, relation=relation
    )
    assert noise > 1.5 * alone


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "k", "relation"),
    [
        (9.7, 1 - 1e-12, 25, 2, ADD),  # somebody is drawn for sure: the ratio is far below 1
        (4.1, 1 - 1e-12, 17, 64, REPLACE),
        (0.5, 0.77, 5, 100, ADD),
        (0.1, 0.08, 2, 6, REPLACE),  # so little noise that shifted parts never meet
        (1e6, 1e-12, 1000, 5, ADD),
        (2.0, 1e-5, 10**5, 10, REPLACE),
    ],
)
def test_extremes_have_an_answer_between_one_record_and_the_moments(
    noise, rate, steps, k, relation
):
    found = poisson(noise, rate, steps, k, relation).epsilon(1e-6)
    assert found >= poisson(noise, rate, steps, 1, relation).epsilon(1e-6) * (1 - 1e-4)
    moments = poisson(noise, rate, steps, k, relation, account=rdp).epsilon(1e-6)
    assert found <= moments * (1 + 3e-3) + 1e-6
    assert not math.isnan(found)


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "k", "delta"),
    [  # delta hardly falls for long, and beyond a factor in epsilon moments say nothing
        (0.41, 0.966, 125, 100, 0.01),
        (0.0066, 0.000824, 2, 3, 1e-5),
        (0.000662062, 0.000824274, 2, 3, 1e-5),
    ],
)
def test_epsilon_is_not_lost_beyond_what_convolutions_reach(noise, rate, steps, k, delta):
    profile = poisson(noise, rate, steps, k, ZERO)
    epsilon = profile.epsilon(delta)
    assert epsilon <= profile.epsilon(delta / 100)
    assert epsilon <= gaussian.epsilon(k * math.sqrt(steps) / noise, delta)
    assert profile.delta(epsilon) <= delta * (1 + 1e-9)


def test_a_loss_that_hardly_ever_is_near_epsilon_is_no_overflow():
    """The grid's spacing follows density over slope, a quotient without bound."""
    found = poisson(0.42662911991087676, 3.342571975515905e-07, 2, 4).epsilon(10**-8.9)
    assert 0 < found < poisson(0.42662911991087676, 3.342571975515905e-07, 2, 4).epsilon(1e-9)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "2", None, 10_001, math.nan])
def test_what_is_no_number_of_records_is_refused(bad):
    how = {"sampling": "poisson", "relation": ADD, "max_rows_per_person": bad}
    for ask in (
        lambda: NoisySteps(1.0, 0.1, 10, **how),
        lambda: pld(1.0, 0.1, 10, **how),
        lambda: rdp(1.0, 0.1, 10, **how),
        lambda: calibrate.noise_multiplier(1.0, 1e-5, 0.1, 10, **how),
    ):
        with pytest.raises(InvalidArgument) as refused:
            ask()
        assert refused.value.argument == "max_rows_per_person"
        assert "\n" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "rate", "noise", "steps"), [(4, 0.01, 1.0, 20), (3, 0.3, 2.0, 15)])
def test_inside_the_bracket_of_dp_accounting(k, rate, noise, steps):
    from dp_accounting.pld import privacy_loss_distribution as theirs

    sampled = noise, list(range(k + 1)), binomial(k, rate)
    ours = poisson(noise, rate, steps, k)
    for pessimistic in (False, True):
        law = theirs.from_mixture_gaussian_mechanism(
            *sampled, pessimistic_estimate=pessimistic, value_discretization_interval=4e-3
        )
        composed = law.self_compose(steps)
        for delta in (1e-3, 1e-6):
            bound, found = composed.get_epsilon_for_delta(delta), ours.epsilon(delta)
            # On their usual grid of 1e-4 they take minutes.
            assert found <= bound * (1 + 1e-4) + 1e-9 if pessimistic else found >= bound - 1e-9
            assert bound == pytest.approx(found, rel=0.1)


def test_masses_add_up():
    """The law's masses are those of its mixtures, whatever the cuts."""
    for replaced, k in itertools.product((False, True), (2, 7)):
        law = LAWS[replaced](0.1, 1.2, k)
        edges = np.linspace(-3, 12, 61)
        for way in WAYS:
            drawn, other = law.masses(edges, way)
            assert drawn.sum() == pytest.approx(1, abs=1e-12)
            assert other.sum() == pytest.approx(1, abs=1e-12)
            # Every bucket's ratio lies between its ends.
            inside = (drawn[1:-1] > 1e-12) & (other[1:-1] > 1e-12)
            ratios = np.log(drawn[1:-1][inside] / other[1:-1][inside])
            assert (ratios >= edges[:-1][inside] - 1e-6).all()
            assert (ratios <= edges[1:][inside] + 1e-6).all()
            low, high = law.reach(-20.0, way)
            assert float(law.masses(np.array([low, high]), way)[0][[0, 2]].max()) <= math.exp(-20)


@pytest.mark.parametrize(("noise", "k"), [(1e-6, 30), (1e-6, 10_000), (1e-3, 10_000), (1e-8, 1)])
def test_noise_that_is_nothing_beside_so_many_records_is_none(noise, k):
    run = pld(noise, 1e-12, 1000, sampling="poisson", relation=ZERO, max_rows_per_person=k)
    # Somebody is drawn with chance 1e-9 k at most; that is all that hides.
    assert run.epsilon(1e-12) > 1e5
