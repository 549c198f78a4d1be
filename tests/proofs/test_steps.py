"""`prove`: every precondition checked, and every number mapped rightly."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from sordino import InvalidArgument, proofs
from sordino.accounting import dp_sgd, gaussian
from sordino.accounting.dp_sgd import NoisySteps
from sordino.accounting.last_iterate.shifted import master_mu
from sordino.data import dataset as data_room
from sordino.data.dataset import Dataset
from sordino.models.constants import Constants, ObjectiveSpec
from sordino.privacy import Relation
from sordino.proofs import prove
from sordino.proofs.evidence import StepsEvidence
from sordino.proofs.steps import rates_of, run_of
from sordino.proofs.theorems import noise_for_steps
from sordino.sgd import train
from sordino.sgd.spec import Schedule, TrainSpec

DELTA = 1e-5
LOGISTIC = ObjectiveSpec("logistic", l2=0.1, intercept=False)
SLACK = 1 + proofs.NORM_SLACK
ADD, REPLACE, ZERO = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE, Relation.ZERO_OUT


def spec_of(objective=LOGISTIC, **changed):
    how = {"learning_rate": 1.0, "batch_size": 10, "steps": 30, "order": "fixed"}
    how |= {"max_grad_norm": 1.0, "noise_multiplier": 4.0}
    return TrainSpec(objective, **{**how, **changed})


def proved(spec, relation=ZERO, n=100, delta=DELTA, norm=1.0, **more):
    return prove(spec, spec.objective.constants(norm), n, relation, delta, **more)


def row(found, method="last-iterate"):
    (finding,) = (finding for finding in found.findings if finding.method == method)
    return finding


def test_the_norm_slack_is_that_of_the_data():
    assert proofs.NORM_SLACK == data_room.NORM_SLACK


class TestRefusals:
    @pytest.mark.parametrize("kind", ["mlp", "cnn"])
    def test_a_network_is_refused_with_the_counterexample(self, kind):
        spec = spec_of(ObjectiveSpec(kind))
        found = proved(spec)
        assert not row(found).applies
        assert f"({kind}) is not convex" in row(found).reason
        assert "Annamalai 2024" in row(found).reason
        # Constants that somebody claims of it change nothing.
        claimed = prove(spec, Constants(1.0, 0.25, 0.1), 100, ZERO, DELTA)
        assert "not convex" in row(claimed).reason
        assert row(found, "pld").applies
        assert found.best.released == "all"

    @pytest.mark.parametrize(
        ("changed", "condition", "remedy"),
        [
            ({"average_every": 1}, "not averages", "average_every=None"),
            (
                {"noise_multiplier": 0.0, "fixed_divisor": False},
                "each batch's own size",
                "fixed_divisor=True",
            ),
            ({"learning_rate": 6.0}, "is above 2 / smoothness = 5.714", "lower it"),
            ({"learning_rate": Schedule.per_epoch(6.0)}, "rate 6 is above 2 / smooth", "lower it"),
            (
                {"order": "poisson", "learning_rate": 5.5},
                "is above 2 / smoothness = 4.444",
                "lower it",
            ),
            (
                {"order": "poisson", "learning_rate": Schedule.per_epoch(1.0)},
                "a constant learning rate",
                "",
            ),
            (
                {"order": "shuffle", "learning_rate": Schedule.per_epoch(1.0)},
                "a constant learning rate",
                "",
            ),
        ],
    )
    def test_each_condition_is_named_with_its_remedy(self, changed, condition, remedy):
        finding = row(proved(spec_of(**changed)))
        assert not finding.applies
        assert finding.value is None
        assert condition in finding.reason
        assert remedy in finding.reason

    def test_least_squares_needs_a_clip(self):
        loss = ObjectiveSpec("least-squares", l2=0.1, intercept=False)
        how = {"max_grad_norm": None, "noise_multiplier": 0.0, "fixed_divisor": True}
        free = row(proved(spec_of(loss, **how)))
        assert "Gradients are not bounded; set max_grad_norm" in free.reason
        assert row(proved(spec_of(loss))).applies

    def test_a_linear_model_without_constants_is_not_called_non_convex(self):
        reason = row(prove(spec_of(), None, 100, ZERO, DELTA)).reason
        assert "pass objective.constants" in reason
        assert "convex" not in reason

    def test_an_unbounded_or_negative_curvature_is_refused(self):
        for constants in (Constants(1.0, math.inf, 0.1), Constants(1.0, 0.25, -0.1)):
            reason = row(prove(spec_of(), constants, 100, ZERO, DELTA)).reason
            assert "must be convex and smooth" in reason

    @pytest.mark.parametrize("order", ["fixed", "permute-once", "shuffle"])
    def test_passes_cannot_hide_the_number_of_records(self, order):
        found = proved(spec_of(order=order), ADD)
        assert found.guarantees == ()
        assert found.best is None
        for method in ("naive", "strong", "rdp", "pld", "last-iterate"):
            assert "moves all later records to other batches" in " ".join(
                row(found, method).reason.split()
            )
            assert "replace-one" in row(found, method).reason

    def test_poisson_batches_do_not_prove_a_replaced_last_iterate(self):
        found = proved(spec_of(order="poisson"), REPLACE)
        assert "not for a record replaced" in row(found).reason
        assert row(found, "pld").applies

    def test_with_every_iterate_released_the_last_ones_rows_are_refused(self):
        found = proved(spec_of(order="poisson"), released="all")
        for method in ("last-iterate", "linear-loss"):
            assert "Every iterate is released" in row(found, method).reason
            assert row(found, method).value is None
        assert {guarantee.released for guarantee in found.guarantees} == {"all"}

    def test_without_noise_nothing_is_private(self):
        found = proved(spec_of(noise_multiplier=0.0, fixed_divisor=True))
        assert row(found).applies
        assert {guarantee.epsilon for guarantee in found.guarantees} == {math.inf}

    def test_bad_numbers_are_refused(self):
        with pytest.raises(ValueError, match=r"^Expected n=0 >= 1"):
            proved(spec_of(), n=0)
        with pytest.raises(ValueError, match=r"^Expected batch_size=10 <= 9"):
            proved(spec_of(), n=9)
        with pytest.raises(ValueError, match=r"^Expected released=some"):
            proved(spec_of(), released="some")
        with pytest.raises(ValueError, match=r"^Expected delta=1"):
            proved(spec_of(), delta=1.0)


class TestNumbers:
    def test_a_full_batch_is_the_closed_form(self):
        # The golden row c = .95, a = .1, s = 1, T = 160: eta = .5 and l2 = .1 give c; a zeroed
        # record moves a step by a/s = 1/z noises. docs/math.md prints mu and epsilon.
        spec = spec_of(learning_rate=0.5, batch_size=100, steps=160, noise_multiplier=10.0)
        found = proved(spec)
        assert found.run.steps.sampling == "full"
        # The gradients are bounded by the clip here, not by the loss with its slack.
        assert row(found).profile.mu == pytest.approx(0.6243294860028356, rel=1e-12)
        assert found.best.epsilon == pytest.approx(2.5568356958610563, rel=1e-9)
        assert found.best.released == "final"
        assert row(proved(spec, REPLACE)).profile.mu == pytest.approx(2 * 0.6243294860028356)

    @pytest.mark.parametrize(
        ("changed", "complaint"),
        [
            ({"batch_size": 100}, "batch_size=100 not to be n"),
            ({"order": "poisson"}, "sample_rate=None to be given"),
            ({"order": "poisson", "sample_rate": 0.1, "epochs": 2, "steps": None}, "epochs=2 not"),
            (
                {"order": "poisson", "sample_rate": 0.1, "learning_rate": Schedule.per_epoch(0.1)},
                "not to follow epochs",
            ),
            ({"order": "poisson", "sample_rate": 0.1, "restart_every": 2}, "not to follow epochs"),
            ({"order": "poisson", "sample_rate": 0.1, "average_every": 2}, "not to follow epochs"),
            ({"order": "allocation"}, "steps_per_epoch=None to be given"),
        ],
    )
    def test_nothing_is_made_from_a_private_number_of_records(self, changed, complaint):
        spec, public = spec_of(**changed), {"rows": 100, "norm": 1.0, "delta": DELTA, "columns": 4}
        with pytest.raises(InvalidArgument, match=complaint):
            proved(spec, ADD)
        for ask in ("done", "proof"):
            with pytest.raises(InvalidArgument, match=complaint):
                getattr(StepsEvidence(spec=spec, relation=ADD, **public), ask)()
        if spec.order == "poisson":  # who makes a run answers for its numbers: only noise is sought
            run = run_of(replace(spec, noise_multiplier=1.0), None, 100, ADD)
            assert noise_for_steps(run, 1.0, DELTA) > 0
        assert proved(spec, ZERO).best
        assert StepsEvidence(spec=spec, relation=ZERO, **public).proof()

    def test_the_regulariser_is_outside_the_clip(self):
        # However large the weights, l2 w is not counted among what a record moves.
        one = proved(spec_of(ObjectiveSpec("logistic", l2=0.1, intercept=False)))
        more = proved(spec_of(ObjectiveSpec("logistic", l2=0.4, intercept=False)))
        assert one.run.steps == more.run.steps
        assert one.run.hidden.unit == more.run.hidden.unit == pytest.approx(0.1)
        assert one.run.hidden.contraction == pytest.approx(0.9)
        assert more.run.hidden.contraction == pytest.approx(0.6)

    def test_a_loss_less_steep_than_the_clip_makes_the_noise_worth_more(self):
        found = proved(spec_of(max_grad_norm=4.0), norm=0.5)
        assert found.run.steps.noise_multiplier == pytest.approx(4.0 * 4.0 / (0.5 * SLACK))
        unit, noise = found.run.hidden.unit, found.run.steps.noise_multiplier
        assert unit == pytest.approx(1.0 * 0.5 * SLACK / 10)
        assert unit * noise == pytest.approx(1.0 * 4.0 * 4.0 / 10)  # what the engine really adds
        clipped = proved(spec_of(max_grad_norm=0.25), norm=0.5)
        assert clipped.run.steps.noise_multiplier == 4.0
        # An intercept raises the rows' norm.
        with_bias = proved(spec_of(ObjectiveSpec("logistic", l2=0.1), max_grad_norm=4.0))
        assert with_bias.run.hidden.unit == pytest.approx(math.sqrt(2) * SLACK / 10)

    def test_large_steps_contract_by_the_largest_curvature(self):
        found = proved(spec_of(learning_rate=5.0))
        assert found.run.hidden.contraction == pytest.approx(5 * (0.25 * SLACK**2 + 0.1) - 1)
        huber = ObjectiveSpec("huber-svm", l2=0.1, intercept=False, huber_width=0.25)
        found = proved(spec_of(huber, learning_rate=0.94))
        assert found.run.hidden.contraction == pytest.approx(0.94 * (2 * SLACK**2 + 0.1) - 1)

    def test_fixed_batches_are_the_worst_position(self):
        found = proved(spec_of(steps=35), REPLACE)
        mus = []
        for position in range(10):
            met = np.arange(35) % 10 == position
            mus.append(master_mu(0.9, 0.2 * met, 0.4))
        assert row(found).profile.mu == pytest.approx(max(mus), rel=1e-9)

    @pytest.mark.parametrize(
        ("drop_last", "weights"),
        # 23 records in batches of 5: the last holds 3, or is left out. Records in no batch count
        # with the last one.
        [(False, [5, 5, 5, 5, 3]), (True, [5, 5, 5, 8])],
    )
    def test_one_permutation_is_a_mean_over_batches_of_their_sizes(self, drop_last, weights):
        spec = spec_of(order="permute-once", batch_size=5, epochs=4, steps=None)
        spec = TrainSpec.from_dict({**spec.to_dict(), "drop_last": drop_last})
        finding = row(proved(spec, n=23))
        batches, steps = len(weights), 4 * len(weights)
        for epsilon in (0.0, 0.2, 1.0):
            expected = 0.0
            for position, size in enumerate(weights):
                mu = master_mu(0.9, 0.2 * (np.arange(steps) % batches == position), 0.8)
                expected += size / 23 * gaussian.delta(epsilon, mu)
            assert finding.profile.delta(epsilon) == pytest.approx(expected, rel=1e-9)

    def test_a_ball_bounds_the_distance(self):
        spec = spec_of(ObjectiveSpec("logistic", intercept=False), steps=400, batch_size=100)
        within = TrainSpec.from_dict({**spec.to_dict(), "radius": 0.05})
        # docs/math.md 4.2 at c = 1: (D + k a) / (s sqrt k), the best k; D is twice the radius.
        k = np.arange(1, 401)
        expected = np.min((0.1 + k * 0.01) / (0.04 * np.sqrt(k)))
        assert row(proved(within)).profile.mu == pytest.approx(expected, rel=1e-9)
        assert row(proved(spec)).profile.mu == pytest.approx(math.sqrt(400) / 4)

    def test_guarantees_say_what_they_assume(self):
        found = proved(spec_of(order="shuffle"), REPLACE)
        last = found.best
        assert (last.released, last.sampling, last.relation) == ("final", "shuffle", REPLACE)
        text = " ".join(last.assumes)
        for words in ("shuffle sampling", "convex and smooth", "outside the clip", "stays secret"):
            assert words in text
        every = next(g for g in found.guarantees if g.released == "all")
        assert "convex" not in " ".join(every.assumes)
        public = proved(spec_of(order="poisson", sample_rate=0.1), ADD).best
        assert "public numbers, not made from n" in " ".join(public.assumes)


class TestPoisson:
    def overflowing(self, **changed):
        how = {"order": "poisson", "learning_rate": 2.0, "batch_size": 20, "steps": 200}
        return spec_of(**{**how, "sample_rate": 0.1, **changed})

    def test_a_rate_made_from_a_private_number_is_refused(self):
        with pytest.raises(InvalidArgument, match="sample_rate=None to be given"):
            proved(self.overflowing(sample_rate=None), ADD, n=200)
        # Under zero-out the number of records is public.
        assert proved(self.overflowing(sample_rate=None), Relation.ZERO_OUT, n=200).best

    def test_the_chance_of_too_large_a_batch_is_the_binomial_tail(self):
        # 2 (2 l2 + beta |B| / 20) <= 2 holds up to 63 records (beta has the slack on its side).
        found = proved(self.overflowing(), ADD, n=200)
        beta_ = 0.25 * SLACK**2
        most = max(size for size in range(201) if 2 * (0.2 + beta_ * size / 20) <= 2)
        assert most == 63
        # Counted without the record, so one fewer must fit; one of the worlds has 200 others.
        chance = 200 * binom.sf(most - 1, 200, 0.1)
        assert chance == pytest.approx(200 * (1 - binom.cdf(62, 200, 0.1)), rel=1e-3)
        assert found.run.hidden.overflow == pytest.approx(chance, rel=1e-9)
        assert found.run.hidden.contraction == pytest.approx(0.8)
        assert f"delta includes {chance:.3g}" in " ".join(row(found).notes)
        base = row(found).profile.base
        for epsilon in (0.1, 1.0):
            expected = base.delta(epsilon) + chance
            assert row(found).profile.delta(epsilon) == pytest.approx(expected, rel=1e-12)

    def test_a_chance_above_delta_leaves_composition(self):
        found = proved(self.overflowing(learning_rate=3.5), ADD, n=200)
        assert found.run.hidden.overflow > DELTA
        assert row(found).value == pytest.approx(row(found, "pld").value, rel=1e-9)
        assert "too large for the learning rate" in " ".join(row(found).notes)

    def test_no_overflow_where_every_batch_fits(self):
        found = proved(self.overflowing(learning_rate=0.5), ADD, n=200)
        assert found.run.hidden.overflow == 0
        assert found.run.hidden.contraction == pytest.approx(0.95)

    def test_records_in_every_batch_are_too_many_for_the_divisor(self):
        # At rate 1 all 200 records are summed and divided by 20: curvature 2.6, not 0.35, and
        # the step expands. Only composition holds.
        found = proved(self.overflowing(sample_rate=1.0), ADD, n=200)
        composed = gaussian.epsilon(math.sqrt(200) / 4, DELTA)
        assert row(found, "pld").value == pytest.approx(composed)
        assert row(found).value == pytest.approx(composed)

    def test_a_constant_curvature_fits_any_batch(self):
        spec = self.overflowing(learning_rate=10.0)
        found = prove(spec, Constants(1.0, 0.1, 0.1), 200, ADD, DELTA)
        assert found.run.hidden.contraction == pytest.approx(0.0, abs=1e-12)


def literal_rates(spec, n):
    """The loop of TrainSpec's docstring, in words."""
    per_epoch = -(-n // spec.batch_size)
    schedule, rates = spec.schedule, []
    epoch = update = 1
    for step in range(1, spec.total_steps(n) + 1):
        if schedule.kind == "per-epoch":
            rates.append(schedule.rate / epoch)
        else:
            rates.append(min(1 / schedule.smooth, 1 / (schedule.strongly_convex * update)))
        update += 1
        if step % per_epoch == 0:
            epoch += 1
            if spec.restart_every and (step // per_epoch) % spec.restart_every == 0:
                epoch = update = 1
    return rates


class TestSchedules:
    @pytest.mark.parametrize("restart", [None, 1, 2, 3])
    @pytest.mark.parametrize("steps", [1, 4, 5, 23, 24])
    @pytest.mark.parametrize(
        "schedule", [Schedule.per_epoch(0.8), Schedule.strongly_convex_rate(0.35, 0.1)]
    )
    def test_rates_are_those_of_the_loop(self, schedule, steps, restart):
        spec = spec_of(learning_rate=schedule, steps=steps, restart_every=restart)
        assert rates_of(spec, 39).tolist() == pytest.approx(literal_rates(spec, 39))

    def test_rates_are_those_of_the_engine(self):
        # A record with no gradient leaves w <- (1 - rate l2) w, which shows every rate.
        data = Dataset(np.zeros((39, 2)), np.zeros(39, dtype=int), norm_bound=1.0)
        objective = ObjectiveSpec("logistic", l2=0.1, intercept=False)
        for schedule in (Schedule.per_epoch(0.8), Schedule.strongly_convex_rate(0.35, 0.1)):
            spec = TrainSpec(
                objective, schedule, 10, steps=23, restart_every=2, init="given", dtype="float64"
            )
            weights = train(spec, data, [0], checkpoints=range(24), initial_weights=np.ones(2))
            seen = (1 - weights[0, 0, 1:, 0] / weights[0, 0, :-1, 0]) / 0.1
            assert seen.tolist() == pytest.approx(rates_of(spec, 39).tolist())

    @pytest.mark.parametrize("order", ["fixed", "permute-once"])
    def test_a_schedule_in_passes_is_the_master_bound(self, order):
        spec = spec_of(learning_rate=Schedule.per_epoch(1.0), steps=35, order=order)
        finding = row(proved(spec))
        rates = np.array(literal_rates(spec, 100))
        mus = [
            master_mu(1 - 0.1 * rates, 0.1 * rates * (np.arange(35) % 10 == j), 0.4 * rates)
            for j in range(10)
        ]
        deltas = [gaussian.delta(0.3, mu) for mu in mus]
        expected = max(deltas) if order == "fixed" else np.mean(deltas)
        # The master bound is never worse than composition here, so the row is it alone.
        assert finding.profile.delta(0.3) == pytest.approx(expected, rel=1e-9)

    def test_a_schedule_on_full_batches(self):
        spec = spec_of(learning_rate=Schedule.per_epoch(1.0), batch_size=100, steps=6)
        rates = 1 / np.arange(1, 7)
        expected = master_mu(1 - 0.1 * rates, 0.01 * rates, 0.04 * rates)
        assert row(proved(spec)).profile.mu == pytest.approx(expected)


class TestAllocation:
    """Each record in one step of an epoch, drawn at random (docs/accounting.md)."""

    @pytest.mark.parametrize("relation", [ADD, ZERO])
    @pytest.mark.parametrize(
        ("how", "per_epoch", "steps"),
        [
            ({"steps": None, "epochs": 3, "steps_per_epoch": 12}, 12, 36),
            ({"steps": 30, "steps_per_epoch": 12}, 12, 30),  # the last epoch is broken off
            ({"steps": 30}, 10, 30),
            ({"batch_size": 500, "steps": 24, "steps_per_epoch": 12}, 12, 24),
        ],
    )
    def test_the_proof_is_that_of_the_accountant(self, how, per_epoch, steps, relation):
        spec = spec_of(order="allocation", **how)
        if relation is ADD and spec.steps_per_epoch is None:
            with pytest.raises(InvalidArgument, match="steps_per_epoch"):
                proved(spec, relation)
            return
        found = proved(spec, relation)
        numbers = {"sampling": "allocation", "relation": relation, "steps_per_epoch": per_epoch}
        profile = dp_sgd.pld(4.0, 1 / per_epoch, steps, **numbers)
        assert found.run.steps == NoisySteps(4.0, 1 / per_epoch, steps, **numbers)
        assert found.best.epsilon == row(found, "pld").profile.epsilon(DELTA)
        assert found.best.epsilon == profile.epsilon(DELTA)
        assert (found.best.sampling, found.best.released) == ("allocation", "all")
        assert found.best.theorem == profile.theorem
        independent = [line for line in found.best.assumes if "independently of all" in line]
        assert len(independent) == 1

    def test_a_private_number_of_records_changes_nothing(self):
        how = {"order": "allocation", "steps_per_epoch": 12, "steps": None, "epochs": 3}
        how |= {"learning_rate": Schedule.per_epoch(0.1), "average_every": 1, "restart_every": 2}
        one, *others = (proved(spec_of(**how), ADD, n=n) for n in (100, 1, 9, 10**6))
        for other in others:
            assert other.run.steps == one.run.steps
            assert other.best == one.best

    def test_no_theorem_is_taken_for_the_last_iterate(self):
        found = proved(spec_of(order="allocation"))
        for method in ("last-iterate", "linear-loss", "rdp"):
            assert not row(found, method).applies
        assert "allocation" in row(found).reason

    def test_it_promises_more_than_a_shuffled_loader(self):
        shuffled = proved(spec_of(order="shuffle"), released="all").best.epsilon
        assert proved(spec_of(order="allocation")).best.epsilon < shuffled / 2
