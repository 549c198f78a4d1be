"""Poisson batches that are cut to a maximum: against enumeration, dp-accounting and plain ones."""

from __future__ import annotations

import itertools
import math

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from sordino.accounting import calibrate
from sordino.accounting.dp_sgd import NoisySteps, pld, rdp
from sordino.accounting.pld import truncated
from sordino.accounting.pld.loss import DIRECTIONS, PoissonLoss
from sordino.errors import InvalidArgument
from sordino.privacy import Relation

RELATIONS = list(Relation)
CUT = {"sampling": "poisson", "max_batch_size": 130, "records": 10_000}


def batch_law(rate, most, gradients):
    """Sums of the batch with their chances, by going through all draws and all cuts."""
    found = {}
    size = len(gradients)
    for drawn in itertools.product((False, True), repeat=size):
        chance = math.prod(rate if each else 1 - rate for each in drawn)
        kept = [gradients[i] for i in range(size) if drawn[i]]
        cuts = list(itertools.combinations(kept, min(most, len(kept))))
        for cut in cuts:
            found[sum(cut)] = found.get(sum(cut), 0.0) + chance / len(cuts)
    return found


def exact_delta(first, second, noise, epsilon):
    """Of two mixtures of Gaussians on a line, by the trapezoidal rule."""
    x = np.linspace(-12 * noise - 4, 12 * noise + 4, 20_001)

    def density(law):
        return sum(c * np.exp(-((x - m) ** 2) / (2 * noise**2)) for m, c in law.items())

    gap = np.maximum(density(first) - math.exp(epsilon) * density(second), 0.0)
    return float(np.trapezoid(gap, x)) / (noise * math.sqrt(2 * math.pi))


def neighbours(relation, others, x, other):
    """Gradients of both datasets."""
    if relation is Relation.ADD_OR_REMOVE_ONE:
        return [*others, x], others
    return [*others, x], [*others, 0.0 if relation is Relation.ZERO_OUT else other]


def shortfalls(relation, loss_of, seed=5):
    """True delta of a step over the bound: every others' gradients at the corners, both ways."""
    random = np.random.default_rng(seed)
    settings = itertools.product(((2, 1), (3, 2), (8, 7)), (0.3, 0.9), (0.5, 1.0))
    for (size, most), rate, noise in settings:
        for others in ([-1.0] * (size - 1), random.choice([-1.0, 1.0], size - 1).tolist()):
            laws = [
                batch_law(rate, most, each)
                for each in neighbours(relation, others, 1.0, random.choice([-1.0, 0.5]))
            ]
            loss = loss_of(rate, noise, most, size)
            for epsilon in (0.0, 0.3, 1.0, 3.0, 6.0):
                for way, pair in zip(DIRECTIONS, (laws, laws[::-1]), strict=True):
                    true = exact_delta(*pair, noise, epsilon)
                    if true > 1e-7:  # the rule's own error is far below 1e-9
                        yield true / max(math.exp(loss.log_delta(epsilon, way)), 1e-300)


LAWS = {
    Relation.ADD_OR_REMOVE_ONE: truncated.TruncatedLoss,
    Relation.ZERO_OUT: truncated.TruncatedZeroLoss,
    Relation.REPLACE_ONE: truncated.TruncatedReplaceLoss,
}


class TestOneStep:
    @pytest.mark.parametrize("relation", RELATIONS)
    def test_never_below_enumeration(self, relation):
        found = list(shortfalls(relation, LAWS[relation]))
        assert max(found) <= 1 + 1e-6
        assert max(found) > 0.7  # near it, though these sums do not tell how many were drawn

    @pytest.mark.parametrize("relation", RELATIONS)
    def test_the_pair_of_plain_poisson_batches_is_false(self, relation):
        """The twin that a program has which forgets the cut."""

        def plain(rate, noise, most, size):
            return LAWS[relation](rate, noise, most, size).parts[0]

        assert max(shortfalls(relation, plain)) > 1.05

    def test_the_chance_of_an_overflow_to_its_last_digits(self):
        for records, most, rate in ((3, 1, 0.3), (50, 20, 0.1), (200, 150, 0.05)):
            terms = (
                math.comb(records - 1, k) * rate**k * (1 - rate) ** (records - 1 - k)
                for k in range(most, records)
            )
            loss = truncated.TruncatedLoss(rate, 1.0, most, records)
            assert loss.overflow == pytest.approx(math.fsum(terms), rel=1e-8)
        # Too small for a float, and never none: 1e8 expected records, 2e8 allowed.
        assert truncated.TruncatedLoss(1e-2, 1.0, 2 * 10**8, 10**10).overflow == 1e-300


class TestRuns:
    @pytest.mark.parametrize("relation", RELATIONS)
    def test_between_plain_batches_and_twice_the_sensitivity(self, relation):
        epsilons = [
            pld(1.0, 0.01, 300, relation=relation, **{**CUT, "max_batch_size": most}).epsilon(1e-6)
            for most in (10_000, 180, 150, 130, 110, 80)
        ]
        assert epsilons == sorted(epsilons)
        plain = pld(1.0, 0.01, 300, sampling="poisson", relation=relation).epsilon(1e-6)
        assert epsilons[0] == plain  # nothing is ever cut
        assert epsilons[1] == pytest.approx(plain, rel=1e-4)
        worst = pld(0.5, 0.01, 300, sampling="poisson", relation=Relation.REPLACE_ONE)
        assert epsilons[-1] <= worst.epsilon(1e-6) * (1 + 1e-3)

    def test_an_upper_bound_on_the_records_will_do(self):
        how = {"sampling": "poisson", "relation": Relation.ADD_OR_REMOVE_ONE, "max_batch_size": 130}
        values = [pld(1.0, 0.01, 300, records=n, **how).epsilon(1e-6) for n in (9000, 9500, 10**4)]
        assert values == sorted(values)
        assert values[0] < values[-1]

    def test_less_than_by_total_variation(self):
        """delta + (1 + e^epsilon) steps psi, which holds too (Chua et al. 2024)."""
        how = {"relation": Relation.ADD_OR_REMOVE_ONE, **CUT, "max_batch_size": 150}
        whole = pld(1.0, 0.01, 1000, **how)
        plain = pld(1.0, 0.01, 1000, sampling="poisson", relation=whole.relation)
        psi = whole.losses[0][0].overflow
        for epsilon in (0.5, 1.5, 2.5):
            summed = plain.delta(epsilon) + (1 + math.exp(epsilon)) * 1000 * psi
            assert plain.delta(epsilon) < whole.delta(epsilon) < summed

    @pytest.mark.parametrize("relation", RELATIONS)
    def test_one_sure_record_a_batch(self, relation):
        """At rate 1 every batch is cut, and the step is a Gaussian one at twice the distance."""
        whole = pld(
            4.0, 1.0, 10, sampling="poisson", relation=relation, max_batch_size=5, records=9
        )
        moved = 4.0 if relation is Relation.REPLACE_ONE else 2.0
        assert whole.mu == pytest.approx(moved * math.sqrt(10) / 4.0)

    def test_moments_are_no_tighter(self):
        for relation in RELATIONS:
            how = {"relation": relation, **CUT}
            exact, moments = (rule(1.0, 0.01, 300, **how).epsilon(1e-6) for rule in (pld, rdp))
            assert exact < moments < 2 * exact

    def test_persons_by_the_group_lemma(self):
        how = {"relation": Relation.ZERO_OUT, **CUT, "max_rows_per_person": 2}
        both = pld(2.0, 0.01, 100, **how)
        assert any("group lemma" in note for note in both.notes)
        one = pld(2.0, 0.01, 100, relation=Relation.ZERO_OUT, **CUT)
        assert both.epsilon(1e-6) > 2 * one.epsilon(1e-6)

    def test_calibrated_noise_meets_its_budget(self):
        how = {"relation": Relation.ADD_OR_REMOVE_ONE, **CUT}
        noise = calibrate.noise_multiplier(2.0, 1e-6, 0.01, 200, **how)
        found = pld(noise, 0.01, 200, **how).epsilon(1e-6)
        assert 2.0 * (1 - 1e-4) <= found <= 2.0
        assert noise > calibrate.noise_multiplier(
            2.0, 1e-6, 0.01, 200, sampling="poisson", relation=Relation.ADD_OR_REMOVE_ONE
        )

    def test_what_is_refused(self):
        numbers = 1.0, 0.01, 10
        for wrong, argument in (
            ({"max_batch_size": 0, "records": 9}, "max_batch_size"),
            ({"max_batch_size": 9}, "records"),
            ({"max_batch_size": 9, "records": 0}, "records"),
            ({"max_batch_size": 9, "records": 99, "sampling": "fixed-size"}, "max_batch_size"),
        ):
            how = {"sampling": "poisson", "relation": Relation.REPLACE_ONE, **wrong}
            with pytest.raises(InvalidArgument) as refused:
                NoisySteps(*numbers, **how)
            assert refused.value.argument == argument


NAMES = {
    Relation.ADD_OR_REMOVE_ONE: dp.NeighboringRelation.ADD_OR_REMOVE_ONE,
    Relation.REPLACE_ONE: dp.NeighboringRelation.REPLACE_ONE,
    Relation.ZERO_OUT: dp.NeighboringRelation.REPLACE_SPECIAL,
}


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
def test_against_dp_accounting(relation):
    """They average the rate of a cut batch, which needs the number of records to the last one."""
    accountant = PLDAccountant(NAMES[relation])
    accountant.compose(dp.TruncatedSubsampledGaussianDpEvent(10_000, 0.01, 140, 1.0), 200)
    ours = pld(1.0, 0.01, 200, relation=relation, **{**CUT, "max_batch_size": 140}).epsilon(1e-6)
    assert accountant.get_epsilon(1e-6) == pytest.approx(ours, rel=0.02)


def test_a_law_of_plain_batches_is_what_it_mixes():
    loss = truncated.TruncatedLoss(0.1, 1.0, 3, 10)
    assert loss.parts == (PoissonLoss(0.1, 1.0), PoissonLoss(0.1, 0.5))
    edges = np.linspace(-3, 3, 7)
    for way in DIRECTIONS:
        for law in loss.masses(edges, way):
            assert law.sum() == pytest.approx(1.0, rel=1e-12)
        below, above = loss.reach(-12.0, way)
        drawn, _ = loss.masses(np.array([below, above]), way)
        assert drawn[0] <= math.exp(-12)
        assert drawn[2] <= math.exp(-12)


@pytest.mark.parametrize("relation", RELATIONS)
def test_moments_where_every_batch_may_be_cut(relation: Relation) -> None:
    """The usual pair then has no share, also where its moments are infinite: epsilon was 0."""
    how = {"sampling": "poisson", "relation": relation}
    cut = {"max_batch_size": 1, "records": 1_000}
    for noise in (1e-6, 0.01, 1.0):
        for account in (pld, rdp):
            assert account(noise, 0.5, 1_000, **how, **cut).epsilon(1e-5) >= (
                account(noise, 0.5, 1_000, **how).epsilon(1e-5)
            )
    # Far below 1e-16 moments are still above 1.
    assert rdp(1e12, 0.01, 10, **how, **cut).epsilon(0.0) == math.inf


def test_no_bracket_ends_above_what_is_answered():
    """Both directions end at one epsilon here, each by a search of its own."""
    how = {"sampling": "poisson", "relation": Relation.ZERO_OUT}
    cut = {"records": 1603, "max_batch_size": 99}
    profile = pld(0.8952084491009222, 0.05214180433201258, 1, **how, **cut)
    for delta in (1.4089718298110517e-09, 1e-3, 1e-6):
        assert profile.bracket(delta)[1] <= profile.epsilon(delta)
