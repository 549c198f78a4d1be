"""The last iterate: golden vectors, what each bound says, and its ends."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from sordino.accounting import gaussian
from sordino.accounting.last_iterate import convex, poisson
from sordino.accounting.last_iterate.convex import master_mu
from sordino.accounting.last_iterate.poisson import Iteration
from sordino.accounting.last_iterate.shifted import composition_mu
from sordino.accounting.pld.loss import PoissonLoss
from sordino.accounting.profile import LossProfile
from sordino.errors import InvalidArgument, NotApplicable
from sordino.privacy import Relation

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "accounting_3_4_5.json").read_text())[
    "4_hidden_state"
]
ANY = {"relation": Relation.ZERO_OUT}
EPSILONS = (0.0, 0.1, 0.3, 0.7, 1.5, 3.0)


def cases(name):
    entry = GOLDEN[name]
    return [pytest.param(case, entry["tol"].get("rel"), id=str(case)) for case in entry["cases"]]


def linear_mu(c, a, s):
    """Exact mu of w <- c w + a (or 0) + N(0, s^2), the dynamics of quadratic losses."""
    distance, variance = 0.0, 0.0
    for ck, ak, sk in zip(c, a, s, strict=True):
        distance, variance = ck * distance + ak, ck**2 * variance + sk**2
    return distance / math.sqrt(variance)


class TestGolden:
    @pytest.mark.parametrize(("case", "rel"), cases("full_batch"))
    def test_full_batch(self, case, rel):
        c, a, s, steps = case["c"], case["a"], case["s"], case["T"]
        profile = convex.full_batch(contraction=c, shift=a, noise=s, steps=steps, **ANY)
        assert profile.mu == pytest.approx(case["mu"], rel=rel)
        assert profile.epsilon(1e-5) == pytest.approx(case["eps_1e5"], rel=rel)
        assert master_mu(c, np.full(steps, a), s) == pytest.approx(case["mu"], rel=rel)
        assert composition_mu(np.full(steps, a), s) == pytest.approx(case["mu_composition"])
        if case["mu_ye_shokri_quoted"]:
            assert profile.mu < case["mu_ye_shokri_quoted"]

    @pytest.mark.parametrize(("case", "rel"), cases("single_visit"))
    def test_one_visit(self, case, rel):
        c, a, s, after = case["c"], case["a"], case["s"], case["steps_after"]
        profile = convex.one_visit(contraction=c, shift=a, noise=s, steps_after=after, **ANY)
        assert profile.mu == pytest.approx(case["mu"], rel=rel)
        assert master_mu(c, [a] + [0] * after, s) == pytest.approx(case["mu"], rel=rel)

    @pytest.mark.parametrize(("case", "rel"), cases("cyclic"))
    def test_cyclic(self, case, rel):
        run = {
            **ANY,
            **{"contraction": case["c"], "shift": case["a"], "noise": case["s"]},
            **{"batches": case["l"], "steps": case["l"] * case["E"]},
        }
        mus = [convex.cyclic(**run, position=j).mu for j in range(case["l"])]
        assert mus[0] == pytest.approx(case["mu_first"], rel=rel)
        assert mus[-1] == pytest.approx(case["mu_last"], rel=rel)
        if case["mus"]:
            assert mus == pytest.approx(case["mus"], rel=rel)
        worst, random = convex.cyclic(**run), convex.permuted_once(**run)
        assert worst.epsilon(1e-5) == pytest.approx(case["eps_worst_1e5"], rel=rel)
        assert random.epsilon(1e-5) == pytest.approx(case["eps_random_perm_mixture_1e5"], rel=1e-8)
        assert f"mu = {case['mu_composition']:.6g}" in worst.notes[0]

    @pytest.mark.parametrize(("case", "rel"), cases("cyclic_domain"))
    def test_cyclic_in_a_domain(self, case, rel):
        run = {
            **ANY,
            **{"contraction": case["c"], "shift": case["a"], "noise": case["s"]},
            **{"batches": case["l"], "steps": case["l"] * case["E"]},
        }
        bounded = convex.cyclic(**run, diameter=case["D"])
        assert bounded.mu == pytest.approx(case["mu_gcm_domain"], rel=rel)
        assert convex.cyclic(**run).mu == pytest.approx(case["mu_unconstrained"], rel=rel)

    @pytest.mark.parametrize(("case", "rel"), cases("domain"))
    def test_domain(self, case, rel):
        c, a, s, steps, diameter = (case[name] for name in ("c", "a", "s", "T", "D"))
        closed = convex.full_batch(
            contraction=c, shift=a, noise=s, steps=steps, diameter=diameter, **ANY
        )
        searched = convex.bounded_domain(c, np.full(steps, a), s, diameter=diameter, **ANY)
        assert closed.mu == pytest.approx(case["mu"], rel=rel)
        assert searched.mu == pytest.approx(case["mu"], rel=rel)
        assert master_mu(c, np.full(case["k_star"], a), s, diameter) == pytest.approx(case["mu"])

    @pytest.mark.parametrize(("case", "rel"), cases("time_varying"))
    def test_time_varying(self, case, rel):
        t = np.arange(1, case["T"] + 1)
        eta = 0.5 / np.sqrt(t) if "sqrt" in case["eta"] else 0.05 * t
        c, a, s = 1 - eta * case["lam"], eta * case["grad_diff"] / case["n"], eta * case["sigma"]
        profile = convex.schedule(c, a, s, **ANY)
        assert profile.mu == pytest.approx(case["mu_gcm"], rel=rel)
        assert linear_mu(c, a, s) == pytest.approx(case["mu_linear_exact"], rel=rel)
        assert ("composition" in profile.theorem) == ("sqrt" in case["eta"])

    @pytest.mark.parametrize(("case", "rel"), cases("poisson_composite"))
    def test_poisson_composite(self, case, rel):
        # Half of the variance hides the past: s = sqrt(2) z at a = 1, and D as mu asks.
        z, count = case["z"], case["k"]
        diameter = case["muD"] * z * math.sqrt(count)
        run = Iteration(case["q"], 1.0, 1.0, math.sqrt(2) * z, 10**6, diameter)
        profile = LossProfile(components=run.composite(count, 0.5), theorem="", **ANY)
        for direction, bracket in (("forward", case["rem"]), ("backward", case["add"])):
            assert bracket[0] <= profile.delta(case["eps"], direction) <= bracket[1]

    @pytest.mark.parametrize(("case", "rel"), cases("contraction_coefficient"))
    def test_contraction_coefficient(self, case, rel):
        profile = convex.projected_one_visit(
            shift=case["a"],
            noise=case["s"],
            diameter=case["diam_phi"],
            steps_after=case["steps_after"],
            **ANY,
        )
        assert profile.delta(case["eps"]) == pytest.approx(case["delta_bound"], rel=rel)


class TestCyclic:
    def test_the_last_position_is_worst_and_a_ragged_batch_may_be_worse(self):
        run = {**ANY, "contraction": 0.99, "noise": 1.0, "batches": 3, "steps": 30}
        last = convex.cyclic(shift=0.5, position=2, **run)
        assert convex.cyclic(shift=0.5, **run).mu == last.mu
        ragged = convex.cyclic(shift=[0.9, 0.5, 0.5], **run)
        assert ragged.mu == convex.cyclic(shift=0.9, position=0, **run).mu
        assert ragged.mu > last.mu

    def test_an_unfinished_epoch_visits_its_first_batches_once_more(self):
        run = {**ANY, "contraction": 1.0, "shift": 0.5, "noise": 1.0, "batches": 3}
        mus = [convex.cyclic(**run, steps=4, position=j).mu for j in range(3)]
        expected = [master_mu(1.0, 0.5 * np.array(row), 1.0) for row in np.eye(3, 4)]
        expected[0] = master_mu(1.0, [0.5, 0, 0, 0.5], 1.0)
        assert mus == pytest.approx(expected)
        assert convex.cyclic(**run, steps=2, position=2).mu == 0

    def test_a_permuted_record_is_the_mean_of_its_places(self):
        run = {**ANY, "contraction": 0.95, "shift": [0.4, 0.6], "noise": 0.5}
        run |= {"batches": 2, "steps": 8, "diameter": 2.0}
        weights = [0.7, 0.3]
        profile = convex.permuted_once(**run, weights=weights)
        mus = [convex.cyclic(**run, position=j).mu for j in range(2)]
        for epsilon in EPSILONS:
            mean = sum(w * gaussian.delta(epsilon, mu) for w, mu in zip(weights, mus, strict=True))
            assert profile.delta(epsilon) == pytest.approx(mean, rel=1e-9)
        assert "permutation" in profile.theorem

    def test_many_batches_are_quick(self):
        run = {"contraction": 0.9999, "shift": 0.5, "noise": 1.0, "batches": 2000}
        profile = convex.permuted_once(**run, steps=100_000, diameter=20.0, **ANY)
        assert 0 < profile.epsilon(1e-5) < convex.cyclic(**run, steps=100_000, **ANY).epsilon(1e-5)


POISSON = {**ANY, "sample_rate": 0.05, "shift": 1.0, "noise": 2.0, "steps": 1000, "delta": 1e-5}


class TestPoisson:
    def test_the_better_of_hidden_and_composed_wins_and_is_named(self):
        plain = LossProfile(components=((PoissonLoss(0.05, 2.0), 1000),), theorem="", **ANY)
        hidden = convex.poisson(**POISSON, contraction=0.95)
        assert hidden.epsilon(1e-5) < 0.4 * plain.epsilon(1e-5)
        assert "Bok" in hidden.theorem
        assert "steps count" in hidden.notes[0]
        neither = convex.poisson(**POISSON, contraction=1.0)
        assert neither.epsilon(1e-5) == pytest.approx(plain.epsilon(1e-5))
        assert "composition" in neither.theorem

    def test_a_domain_helps_without_a_contraction(self):
        run = {**POISSON, "contraction": 1.0}
        bounded = convex.poisson(**run, diameter=1.0).epsilon(1e-5)
        wider = convex.poisson(**run, diameter=3.0).epsilon(1e-5)
        assert bounded < wider < convex.poisson(**run).epsilon(1e-5)

    def test_the_search_finds_about_the_best_choice(self):
        run = Iteration(0.05, 0.95, 1.0, 2.0, 1000, math.inf)
        chosen = convex.poisson(**POISSON, contraction=0.95).epsilon(1e-5)
        for count, fraction in itertools.product((40, 70, 100, 150), (0.01, 0.03, 0.06, 0.12)):
            other = LossProfile(components=run.composite(count, fraction), theorem="", **ANY)
            assert chosen <= 1.01 * other.epsilon(1e-5)

    @pytest.mark.parametrize("c", [0.0, 0.7, 1.0, 1.1])
    @pytest.mark.parametrize("diameter", [1.5, math.inf])
    def test_the_past_is_the_master_bound_from_its_distance(self, c, diameter):
        run = Iteration(0.1, c, 0.5, 2.0, 12, diameter)
        for count in (1, 3, 11):
            distance = min(diameter, 0.5 * sum(c**i for i in range(12 - count)))
            expected = master_mu(c, np.zeros(count), 2.0 * math.sqrt(0.3), distance)
            assert run.past(count, 0.3) == pytest.approx(expected)
        assert run.past(12, 0.3) == 0

    def test_plain_composition_wins_over_a_bad_choice(self, monkeypatch):
        best = convex.poisson(**POISSON, contraction=1.0)
        monkeypatch.setattr(poisson, "_search", lambda run, delta: (900, 0.9))
        assert convex.poisson(**POISSON, contraction=1.0) == best
        monkeypatch.setattr(poisson, "_search", lambda run, delta: (90, 0.05))
        assert "Bok" in convex.poisson(**POISSON, contraction=0.95).theorem

    def test_refuses_a_replaced_record(self):
        run = {**POISSON, "contraction": 1.0, "relation": Relation.REPLACE_ONE}
        with pytest.raises(NotApplicable, match="not for a record replaced; ask for"):
            convex.poisson(**run)

    @pytest.mark.parametrize(
        ("changed", "mu"),
        [({"noise": 0}, math.inf), ({"steps": 0}, 0), ({"shift": 0}, 0), ({"sample_rate": 0}, 0)],
    )
    def test_ends(self, changed, mu):
        assert convex.poisson(**{**POISSON, "contraction": 0.9, **changed}).mu == mu


CONSTANT = {"contraction": 0.9, "shift": 0.5, "noise": 1.0, **ANY}
EVERY = [
    (convex.full_batch, {**CONSTANT, "steps": 5}),
    (convex.full_batch, {**CONSTANT, "steps": 5, "diameter": 1.0}),
    (convex.one_visit, {**CONSTANT, "steps_after": 5}),
    (convex.cyclic, {**CONSTANT, "batches": 2, "steps": 5}),
    (convex.cyclic, {**CONSTANT, "batches": 2, "steps": 5, "diameter": 1.0}),
    (convex.permuted_once, {**CONSTANT, "batches": 2, "steps": 5}),
]


@pytest.mark.parametrize(("bound", "run"), EVERY)
class TestEveryConstantBound:
    def test_labels_its_relation_and_source(self, bound, run):
        profile = bound(**{**run, "relation": Relation.REPLACE_ONE})
        assert profile.relation is Relation.REPLACE_ONE
        assert "Bok, Su & Altschuler 2024" in profile.theorem

    def test_without_noise_nothing_is_private(self, bound, run):
        assert bound(**{**run, "noise": 0}).epsilon(1e-5) == math.inf
        assert bound(**{**run, "noise": 0, "shift": 0}).epsilon(1e-5) == 0

    def test_without_a_shift_or_steps_everything_is(self, bound, run):
        assert bound(**{**run, "shift": 0}).delta(0.0) == 0
        if "steps" in run:
            assert bound(**{**run, "steps": 0}).epsilon(0.0) == 0

    def test_a_shift_is_never_hidden_perfectly(self, bound, run):
        key = "steps" if "steps" in run else "steps_after"
        faded = bound(**{**run, "contraction": 1e-3, key: 4001})
        assert faded.epsilon(0.0) == math.inf

    @pytest.mark.parametrize(
        ("name", "value"),
        [("contraction", -1), ("shift", -0.5), ("noise", -1), ("noise", math.nan), ("shift", "x")],
    )
    def test_refuses_what_cannot_be(self, bound, run, name, value):
        with pytest.raises(InvalidArgument, match=rf"^Expected {name}="):
            bound(**{**run, name: value})


def test_counts_are_whole_and_positions_exist():
    run = {**CONSTANT, "batches": 3}
    for steps in (-1, 2.5):
        with pytest.raises(InvalidArgument, match=r"^Expected steps="):
            convex.cyclic(**run, steps=steps)
        with pytest.raises(InvalidArgument, match=r"^Expected steps="):
            convex.full_batch(**CONSTANT, steps=steps)
    with pytest.raises(InvalidArgument, match=r"^Expected position=3 < 3"):
        convex.cyclic(**run, steps=6, position=3)
    with pytest.raises(InvalidArgument, match=r"^Expected shift=\[2\] to be one number or 3"):
        convex.cyclic(**{**run, "shift": [1, 2]}, steps=6)
    with pytest.raises(InvalidArgument, match=r"^Expected diameter=-1"):
        convex.full_batch(**CONSTANT, steps=3, diameter=-1)


def test_projected_ends():
    run = {"shift": 0.5, "noise": 1.0, "diameter": 2.0, "steps_after": 3, **ANY}
    bound = convex.projected_one_visit
    assert bound(**{**run, "noise": 0}).epsilon(1e-5) == math.inf
    assert bound(**{**run, "shift": 0}).delta(0.0) == 0
    assert bound(**{**run, "diameter": 0}).delta(0.0) == 0
    endless = bound(**{**run, "diameter": math.inf})
    assert endless.delta(0.5) == pytest.approx(gaussian.delta(0.5, 0.5))
    assert bound(**{**run, "steps_after": 0}).delta(0.5) == endless.delta(0.5)
    assert bound(**run).epsilon(1e-5) < gaussian.epsilon(0.5, 1e-5)
