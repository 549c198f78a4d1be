"""Sensitivities: golden numbers, the recurrence written out, and every refusal.

Real twin runs are in test_sensitivity_twins.py.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino import sensitivity
from sordino.accounting.last_iterate import permuted
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument, NotApplicable
from sordino.models.constants import Constants, ObjectiveSpec
from sordino.privacy import Relation
from sordino.sgd import TrainSpec, train

GOLDEN = json.loads((Path(__file__).parent / "golden" / "output_3.json").read_text())
REPLACE, ZERO, ADD = Relation.REPLACE_ONE, Relation.ZERO_OUT, Relation.ADD_OR_REMOVE_ONE
LOGISTIC = Constants(1.0, 0.251, 0.001)


def golden(name, section="3_output_perturbation"):
    part = GOLDEN[section][name]
    return [(case, part["tol"]["rel"]) for case in part["cases"]]


def recurrence(
    constants, n, batch_size, rates, drop_last=False, every=None, divisor=None, exact=False
):
    """docs/math.md 3.3, word by word; in fractions if `exact`."""
    number = Fraction if exact else float
    R, L, mu = (
        number(c) for c in (constants.lipschitz, constants.smooth, constants.strongly_convex)
    )
    sizes = sensitivity.batch_sizes(n, batch_size, drop_last)
    if divisor is not None and batch_size > divisor:
        L = mu + (L - mu) * batch_size / number(divisor)
    distance = [number(0)] * len(sizes)
    total = [number(0)] * len(sizes)
    for t, rate in enumerate(number(rate) for rate in rates):
        rho = max(abs(1 - rate * mu), abs(1 - rate * L))
        distance = [rho * d for d in distance]
        i = t % len(sizes)
        distance[i] += 2 * rate * R / number(divisor or sizes[i])
        total = [a + d for a, d in zip(total, distance, strict=True)]
        if every and (t + 1) % (every * len(sizes)) == 0:
            distance = [a / (every * len(sizes)) for a in total]
            total = [number(0)] * len(sizes)
    return distance


class TestGolden:
    @pytest.mark.parametrize(("case", "tol"), golden("rsgd_deltas"))
    def test_chen(self, case, tol):
        sizes = case["nu"]
        how = {
            "constants": Constants(case["R"], case["L"], case["mu"]),
            "n": sum(sizes),
            "batch_size": sizes[0],
            "epochs": case["T"],
            "eta0": case["eta0"],
            "relation": REPLACE,
        }
        if "tau" in case:
            found = sensitivity.rsgd_ar(tau=case["tau"], **how)
        else:
            found = sensitivity.nsgd(**how)
        assert found.shares == pytest.approx([size / sum(sizes) for size in sizes])
        if case.get("reset") is False:
            # Averaging without the restart: too small, everywhere.
            assert (np.array(found.positions) > 1.3 * np.array(case["Delta"])).all()
            return
        assert found.positions == pytest.approx(case["Delta"], rel=tol)
        assert (np.array(found.positions) >= np.array(case["Delta"]) * (1 - 1e-15)).all()
        assert found.worst == pytest.approx(case["max"], rel=tol)
        assert int(np.argmax(found.positions)) == case["argmax"]

    @pytest.mark.parametrize(("case", "tol"), golden("prop2"))
    def test_fixed_step(self, case, tol):
        constants = Constants(case["R"], case["L"], case["mu"])
        how = {"constants": constants, "n": case["n"], "batch_size": case["n"], "relation": REPLACE}
        limit = sensitivity.fixed_step_limit(rate=case["eta"], **how).worst
        assert limit == pytest.approx(case["bound"], rel=tol)
        long = sensitivity.contraction(rates=np.full(5000, case["eta"]), **how).worst
        assert long == pytest.approx(case["recurrence_T5000"], rel=tol)

    @pytest.mark.parametrize(("case", "tol"), golden("bolt_on"))
    def test_bolt_on(self, case, tol):
        constants = Constants(math.sqrt(2), 0.5, 0.0)
        size, n, steps, eta = case["B"], case["N"], case["T"], case["eta"]
        how = {"constants": constants, "n": n, "batch_size": size}
        fraction = sensitivity.bolt_on_fractional(rate=eta, steps=steps, **how)
        assert fraction == pytest.approx(case["delta_frac"], rel=tol)
        how |= {"rates": np.full(steps, eta), "relation": REPLACE}
        fixed = sensitivity.bolt_on_convex(divisor=size, **how)
        assert fixed.worst == pytest.approx(case["delta_ceil"], rel=tol)
        any_order = sensitivity.bolt_on_convex(same_order=False, **how)
        assert any_order.worst == pytest.approx(case["delta_ragged_worst"], rel=tol)
        # In one order no record is in the small batch and in the started pass.
        cyclic = sensitivity.bolt_on_convex(**how)
        most = max(case["full_epochs"] / case["last_batch"], (case["full_epochs"] + 1) / size)
        assert cyclic.worst == pytest.approx(2 * math.sqrt(2) * eta * most, rel=tol)
        assert fraction < cyclic.worst <= any_order.worst
        assert len(cyclic.positions) == -(-n // size)

    @pytest.mark.parametrize(("case", "tol"), golden("bolt_on_strongly_convex"))
    def test_bolt_on_strongly_convex(self, case, tol):
        constants = Constants(case["L"], case["beta"], case["gamma"])
        n, size = case["n"], case["b"]
        how = {"constants": constants, "n": n, "batch_size": size, "relation": REPLACE}
        steps = case["k"] * n // size
        found = sensitivity.bolt_on_strongly_convex(steps=steps, **how)
        assert found.worst == pytest.approx(case["bound_2L_over_gamma_n"], rel=tol)
        rates = np.minimum(1 / case["beta"], 1 / (case["gamma"] * np.arange(1, steps + 1)))
        by_steps = sensitivity.contraction(rates=rates, **how)
        assert by_steps.worst == pytest.approx(case["recurrence_max"], rel=tol)
        assert (np.array(by_steps.positions) <= np.array(found.positions) * (1 + 1e-12)).all()

    @pytest.mark.parametrize(("case", "tol"), golden("outpert_gd_delta", "10_erm_baselines"))
    def test_gradient_descent(self, case, tol):
        how = {
            "constants": Constants(case["R"], case["L"], case["lam"]),
            "n": case["n"],
            "relation": REPLACE,
        }
        rate = case["eta"]
        found = sensitivity.gradient_descent(rate=rate, steps=case["T"], **how)
        assert found.worst == pytest.approx(case["Delta"], rel=tol)
        zhang = sensitivity.zhang_gradient_descent(rate=rate, **how).worst
        assert zhang == pytest.approx(5 * 0.252 / (case["n"] * 0.001 * 0.251))
        assert zhang > 2.5 * found.worst

    @pytest.mark.parametrize(("case", "tol"), golden("reshuffle_each_epoch"))
    def test_reshuffled(self, case, tol):
        how = {
            "constants": Constants(case["R"], case["L"], case["mu"]),
            "n": case["m"] * case["nu"],
            "batch_size": case["nu"],
            "rates": np.repeat(case["eta0"] / np.arange(1, case["T"] + 1), case["m"]),
            "relation": REPLACE,
        }
        found = sensitivity.reshuffled_contributions(**how)
        sums = [sum(choice) for choice in itertools.product(*found.epochs)]
        assert sums == pytest.approx(case["Deltas"], rel=tol)
        assert found.worst == pytest.approx(max(case["Deltas"]), rel=tol)
        profile = permuted.reshuffled(
            contributions=found.epochs,
            weights=found.shares,
            sigma=case["sigma"],
            relation=found.relation,
        )
        assert profile.delta(1.0) == pytest.approx(case["delta_at_eps1"], rel=1e-6)
        single = sensitivity.contraction(**how)
        assert single.positions == pytest.approx(case["Delta_single_permutation"], rel=tol)


configurations = st.fixed_dictionaries(
    {
        "n": st.integers(1, 30),
        "batch": st.floats(0.01, 1),
        "steps": st.integers(0, 40),
        "l2": st.sampled_from([0.0, 1e-3, 0.3]),
        "eta": st.floats(0.0, 9.0),
        "drop_last": st.booleans(),
        "every": st.sampled_from([None, 1, 2, 3]),
        "divisor": st.sampled_from([None, 2.5, 40.0]),
        "seed": st.integers(0, 2**16),
    }
)


def arguments(c):
    size = max(1, round(c["batch"] * c["n"]))
    rates = c["eta"] * np.random.default_rng(c["seed"]).uniform(0, 1, c["steps"])
    return {
        "constants": Constants(1.0, 0.25 + c["l2"], c["l2"]),
        "n": c["n"],
        "batch_size": size,
        "rates": rates,
        "drop_last": c["drop_last"],
        "divisor": c["divisor"],
    }


class TestRecurrence:
    @given(configurations)
    @settings(max_examples=70, deadline=None)
    def test_it_is_the_recurrence_rounded_up(self, c):
        how = arguments(c)
        found = sensitivity.contraction(relation=REPLACE, average_every=c["every"], **how)
        exact = recurrence(**how, every=c["every"], exact=True)
        for got, expected in zip(found.positions, exact, strict=False):
            assert Fraction(got) >= expected
            assert got <= float(expected) * (1 + 1e-12) + 1e-290
        half = sensitivity.contraction(relation=ZERO, average_every=c["every"], **how)
        assert np.array(half.positions) * 2 == pytest.approx(found.positions, rel=1e-15)

    @given(configurations)
    @settings(max_examples=50, deadline=None)
    def test_parts_of_epochs_add_up(self, c):
        how = arguments(c) | {"relation": REPLACE, "average_every": c["every"]}
        single, parts = sensitivity.contraction(**how), sensitivity.reshuffled_contributions(**how)
        sums = np.sum(parts.epochs, axis=0) if parts.epochs else np.zeros(len(parts.shares))
        assert single.positions == pytest.approx(sums.tolist(), rel=1e-12, abs=1e-290)
        assert single.shares == parts.shares
        assert single.worst <= parts.worst * (1 + 1e-12)

    @given(configurations)
    @settings(max_examples=40, deadline=None)
    def test_without_curvature_from_below_it_is_bolt_on(self, c):
        how = arguments(c | {"l2": 0.0}) | {"relation": REPLACE}
        if c["divisor"] == 2.5 or c["eta"] > 8:
            return
        wu = sensitivity.bolt_on_convex(**how)
        assert wu.positions == pytest.approx(sensitivity.contraction(**how).positions, rel=1e-12)
        assert wu.worst <= sensitivity.bolt_on_convex(same_order=False, **how).worst * (1 + 1e-12)

    def test_shares_count_the_records_left_out(self):
        how = {"constants": LOGISTIC, "n": 23, "batch_size": 5, "rates": np.ones(9)}
        found = sensitivity.contraction(relation=REPLACE, drop_last=True, **how)
        assert found.positions[-1] == 0.0
        assert found.shares == pytest.approx([5 / 23] * 4 + [3 / 23])
        parts = sensitivity.reshuffled_contributions(relation=REPLACE, drop_last=True, **how)
        assert [len(epoch) for epoch in parts.epochs] == [5] * 3
        assert {epoch[-1] for epoch in parts.epochs} == {0.0}
        # Only the first batch of the third epoch was taken.
        assert parts.epochs[2][0] > 0 == parts.epochs[2][1]
        assert sensitivity.batch_sizes(23, 5) == (5, 5, 5, 5, 3)
        assert sensitivity.batch_sizes(20, 5, drop_last=True) == (5,) * 4
        profile = permuted.hockey_mixture(
            sensitivities=found.positions, weights=found.shares, sigma=1.0, relation=REPLACE
        )
        assert 0 < profile.delta(0.1) < 1

    def test_a_mean_lets_the_first_batch_be_the_worst(self):
        how = {"constants": LOGISTIC, "n": 400, "batch_size": 100, "relation": REPLACE}
        plain = sensitivity.nsgd(epochs=2, eta0=1.0, **how).positions
        means = sensitivity.rsgd_ar(epochs=2, eta0=1.0, tau=2, **how).positions
        assert int(np.argmax(plain)) == 3
        assert int(np.argmax(means)) == 0

    def test_the_limit_holds_at_every_step(self):
        how = {"constants": Constants(1.0, 0.35, 0.1), "n": 23, "batch_size": 5}
        limit = np.array(sensitivity.fixed_step_limit(rate=1.0, relation=REPLACE, **how).positions)
        seen = [
            sensitivity.contraction(rates=np.ones(t), relation=REPLACE, **how).positions
            for t in range(1, 300)
        ]
        assert (np.max(seen, axis=0) <= limit).all()
        assert (np.max(seen, axis=0) >= limit * (1 - 1e-9)).all()

    def test_strongly_convex_holds_for_every_batch_size_and_stop(self):
        constants = Constants(1.0, 1.1, 0.1)
        for n, size, steps in itertools.product([24, 25], [1, 4, 7, 24], [1, 5, 24, 100]):
            how = {"constants": constants, "n": n, "batch_size": size, "relation": REPLACE}
            found = sensitivity.bolt_on_strongly_convex(steps=steps, **how)
            rates = np.minimum(1 / 1.1, 1 / (0.1 * np.arange(1, steps + 1)))
            tight = np.array(sensitivity.contraction(rates=rates, **how).positions)
            assert (tight <= np.array(found.positions) * (1 + 1e-12)).all()
            worst = sensitivity.bolt_on_strongly_convex(steps=steps, same_order=False, **how).worst
            assert sensitivity.reshuffled_contributions(rates=rates, **how).worst <= worst * (
                1 + 1e-12
            )
        # A started pass costs more than 2R / (gamma n): the theorem is about whole ones.
        how |= {"n": 24, "batch_size": 4}
        assert sensitivity.bolt_on_strongly_convex(steps=7, **how).worst > 1.7 * 2 / (0.1 * 24)

    def test_a_weaker_schedule_is_covered(self):
        constants = Constants(1.0, 1.1, 0.1)
        how = {"constants": constants, "n": 24, "batch_size": 4, "relation": REPLACE}
        found = sensitivity.bolt_on_strongly_convex(
            steps=60, schedule_smooth=2.0, schedule_strongly_convex=0.05, **how
        )
        rates = np.minimum(1 / 2.0, 1 / (0.05 * np.arange(1, 61)))
        tight = sensitivity.contraction(rates=rates, **how).worst
        assert 0.5 * found.worst < tight <= found.worst * (1 + 1e-12)
        assert found.worst == pytest.approx(2 / (0.05 * 24))

    def test_long_runs_are_fast(self):
        for batches, every in [(10_000, None), (10_000, 3), (1, 5), (10, None)]:
            before = time.perf_counter()
            sensitivity.contraction(
                constants=LOGISTIC,
                n=10 * batches,
                batch_size=10,
                rates=np.full(100_000, 0.1),
                relation=REPLACE,
                average_every=every,
            )
            assert time.perf_counter() - before < 2


class TestConditions:
    HOW = {"constants": LOGISTIC, "n": 40, "batch_size": 10}  # noqa: RUF012

    def test_expansion_is_said_and_counted(self):
        found = sensitivity.contraction(rates=[9.0, 9.0, 1.0], relation=REPLACE, **self.HOW)
        assert "2 steps can EXPAND" in " ".join(found.conditions)
        assert found.positions[0] == pytest.approx(1.8 * (9 * 0.251 - 1) * 0.999)
        calm = sensitivity.contraction(rates=[7.0], relation=REPLACE, **self.HOW)
        assert "contracts" in " ".join(calm.conditions)

    def test_theorems_are_named(self):
        by_epoch = {"epochs": 2, "eta0": 1.0, "relation": REPLACE, **self.HOW}
        assert "Lemma 2" in sensitivity.nsgd(**by_epoch).theorem
        text = sensitivity.rsgd_ar(tau=1, **by_epoch).theorem
        assert "averaging" in text
        assert "restart" in text
        wu = sensitivity.bolt_on_convex(rates=np.ones(5), relation=REPLACE, **self.HOW)
        assert "Wu et al. 2017" in wu.theorem
        assert "1 whole passes and 1 steps" in " ".join(wu.conditions)

    def test_helpers(self):
        found = sensitivity.contraction(rates=np.ones(5), relation=REPLACE, **self.HOW)
        ovr = found.scaled(math.sqrt(10)).plus(1e-3)
        assert ovr.positions == pytest.approx([math.sqrt(10) * p + 1e-3 for p in found.positions])
        assert ovr.worst == max(ovr.positions)
        assert ovr.shares == found.shares
        assert len(ovr.conditions) == len(found.conditions) + 2

    def test_a_divisor_below_the_batch_raises_the_curvature(self):
        found = sensitivity.contraction(rates=[4.0] * 5, relation=REPLACE, divisor=2, **self.HOW)
        rho = 4 * (0.25 * 5 + 0.001) - 1
        assert found.positions[0] == pytest.approx(2 * 4 / 2 * (rho**4 + 1))

    @pytest.mark.parametrize(
        ("changed", "words"),
        [
            ({"relation": ADD}, "number of records is private"),
            ({"constants": Constants(math.inf, 1.0, 0.1)}, "must be bounded"),
            ({"constants": Constants(1.0, math.inf, 0.1)}, "convex and smooth"),
            ({"constants": Constants(1.0, 0.1, 0.2)}, "convex and smooth"),
            ({"constants": Constants(1.0, 0.1, -0.2)}, "convex and smooth"),
            ({"constants": Constants(1.0, math.nan, 0.0)}, "convex and smooth"),
            ({"rates": np.full(4000, 99.0)}, "grow beyond"),
            ({"rates": [1e308] * 3}, "grow beyond"),
        ],
    )
    def test_refusals(self, changed, words):
        how = {"rates": np.ones(4), "relation": REPLACE, **self.HOW, **changed}
        for bound in (sensitivity.contraction, sensitivity.reshuffled_contributions):
            with pytest.raises(NotApplicable, match=words):
                bound(**how)

    def test_refusals_of_theorems(self):
        how = {"relation": REPLACE, **self.HOW}
        with pytest.raises(NotApplicable, match="above 2 / smoothness"):
            sensitivity.bolt_on_convex(rates=[1.0, 7.97], **how)
        assert sensitivity.bolt_on_convex(rates=[1.0, 7.96], **how)
        with pytest.raises(NotApplicable, match="does not contract"):
            sensitivity.fixed_step_limit(rate=8.0, **how)
        flat = how | {"constants": Constants(1.0, 0.25, 0.0)}
        with pytest.raises(NotApplicable, match="does not contract"):
            sensitivity.fixed_step_limit(rate=1.0, **flat)
        with pytest.raises(NotApplicable, match="strong convexity"):
            sensitivity.bolt_on_strongly_convex(steps=4, **flat)
        for changed in ({"schedule_smooth": 0.2}, {"schedule_strongly_convex": 0.002}):
            with pytest.raises(NotApplicable, match="The schedule"):
                sensitivity.bolt_on_strongly_convex(steps=4, **how, **changed)
        full = {"constants": LOGISTIC, "n": 40, "relation": REPLACE}
        with pytest.raises(NotApplicable, match="2 / \\(L \\+ mu\\)"):
            sensitivity.zhang_gradient_descent(rate=7.95, **full)
        with pytest.raises(NotApplicable, match="grow beyond"):
            sensitivity.gradient_descent(rate=80.0, steps=1000, **full)

    @pytest.mark.parametrize(
        "changed",
        [
            {"n": 0},
            {"batch_size": 41},
            {"batch_size": 2.5},
            {"rates": [-1.0]},
            {"rates": [math.nan]},
            {"rates": np.ones((2, 2))},
            {"divisor": 0.0},
            {"average_every": 0},
            {"drop_last": "no"},
            {"relation": "replace"},
            {"constants": None},
        ],
    )
    def test_nonsense(self, changed):
        how = {"rates": np.ones(4), "relation": REPLACE, **self.HOW, **changed}
        with pytest.raises(InvalidArgument):
            sensitivity.contraction(**how)

    def test_no_steps_move_nothing(self):
        how = {"relation": REPLACE, **self.HOW}
        assert sensitivity.contraction(rates=[], **how).worst == 0
        assert sensitivity.bolt_on_convex(rates=[], **how).worst == 0
        assert sensitivity.bolt_on_convex(rates=[], same_order=False, **how).worst == 0
        assert sensitivity.bolt_on_strongly_convex(steps=0, **how).worst == 0
        assert (
            sensitivity.gradient_descent(
                constants=LOGISTIC, n=4, rate=1.0, steps=0, relation=REPLACE
            ).worst
            == 0
        )
        assert sensitivity.reshuffled_contributions(rates=[], **how).worst == 0


def exact_sgd(spec, X, y, rates, start):
    """The engine's loop in 60 digits, rows as they come."""
    mp = mpmath.mp.mpf
    size, l2 = spec.batch_size, mp(spec.objective.l2)
    h = mp(spec.objective.huber_width)
    rows = [[mp(v) for v in row] for row in X.tolist()]
    w, total = [mp(v) for v in start.tolist()], [mp(0)] * len(start)
    columns = X.shape[1]
    batches = [range(a, min(a + size, len(X))) for a in range(0, len(X), size)]
    for t, rate in enumerate(rates):
        batch = batches[t % len(batches)]
        gradient = [mp(0)] * len(w)
        for b in batch:
            if spec.objective.kind == "softmax":
                scores = [w[k : k + columns] for k in range(0, len(w), columns)]
                powers = [mpmath.exp(mpmath.fdot(rows[b], part)) for part in scores]
                psi = [p / sum(powers) - (k == int(y[b])) for k, p in enumerate(powers)]
                flat = [p * v for p in psi for v in rows[b]]
                gradient = [g + v for g, v in zip(gradient, flat, strict=True)]
                continue
            z = mpmath.fdot(rows[b], w)
            if spec.objective.kind == "logistic":
                psi = 1 / (1 + mpmath.exp(-z)) - int(y[b])
            else:
                sign = 2 * int(y[b]) - 1
                psi = -sign * min(max((1 + h - sign * z) / (2 * h), mp(0)), mp(1))
            gradient = [g + psi * v for g, v in zip(gradient, rows[b], strict=True)]
        rate = mp(float(rate))
        w = [(1 - rate * l2) * v - rate / len(batch) * g for v, g in zip(w, gradient, strict=True)]
        total = [a + v for a, v in zip(total, w, strict=True)]
        every = (spec.average_every or 0) * len(batches)
        if every and (t + 1) % every == 0:
            w, total = [a / every for a in total], [mp(0)] * len(w)
    return w


class TestRounding:
    @pytest.mark.parametrize("batch", [8, 37])
    @pytest.mark.parametrize("kind", ["logistic", "huber-svm", "softmax"])
    @pytest.mark.parametrize(("rate", "every"), [(0.7, None), (0.7, 2), (2.3, None)])
    def test_float64_stays_within(self, kind, rate, every, batch):
        # 2.3 is beyond 2 / smoothness for the Huber loss: rounding errors grow there as well.
        rng = np.random.default_rng(3)
        X = rng.standard_normal((37, 6))
        X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.0000001
        objective = ObjectiveSpec(kind, l2=0.01, intercept=False, classes=5)
        y = rng.integers(0, max(2, objective.scores), 37)
        # Also far from 0, where most scores lie a long way below the largest.
        start = rng.standard_normal(6 * objective.scores) * (30 if kind == "softmax" else 1)
        spec = TrainSpec(
            *(objective, rate, batch),
            steps=43,
            order="fixed",
            average_every=every,
            init="given",
            dtype="float64",
        )
        got = train(spec, Dataset(X, y, norm_bound=1.0), [0], initial_weights=start)[0, 0, 0]
        with mpmath.workdps(60):
            exact = exact_sgd(spec, X, y, np.full(43, rate), start)
            pairs = zip(exact, got.tolist(), strict=True)
            error = float(mpmath.norm([a - mpmath.mpf(b) for a, b in pairs]))
        bound = sensitivity.rounding(
            constants=objective.constants(1.0),
            n=37,
            batch_size=batch,
            features=6,
            scores=objective.scores,
            rates=np.full(43, rate),
            norm=1.0,
            start_norm=float(np.linalg.norm(start)),
            average_every=every,
        )
        assert 0 < error <= bound
        stable = 1e-8 if kind == "softmax" else 1e-9
        assert bound < (stable if rate * objective.constants(1.0).smooth < 2 else 1.0)

    def test_it_costs_next_to_nothing(self):
        # docs/math.md's Adult: the bound on rounding is a millionth of the sensitivity, even if
        # 4000 gradients are added to the weights one by one; summed apart, a hundred-millionth.
        how = {
            "constants": LOGISTIC,
            "n": 40_000,
            "batch_size": 4000,
            "rates": np.tile(np.repeat(4 / np.arange(1, 11), 10), 2),
            "average_every": 10,
        }
        moved = sensitivity.contraction(relation=REPLACE, **how).worst
        slack = sensitivity.rounding(features=100, norm=1.0, **how)
        apart = sensitivity.rounding(features=100, norm=1.0, summed_apart=True, **how)
        assert 0 < apart < 1e-7 * moved
        assert apart < slack < 1e-6 * moved

    def test_it_grows_with_what_causes_it(self):
        how = {"constants": LOGISTIC, "n": 400, "batch_size": 40, "rates": np.ones(30)}
        base = sensitivity.rounding(features=10, norm=1.0, **how)
        assert sensitivity.rounding(features=100, norm=1.0, **how) > base
        assert sensitivity.rounding(features=10, norm=1.0, start_norm=100.0, **how) > 2 * base
        assert sensitivity.rounding(features=10, norm=1.0, **how | {"batch_size": 400}) > base
        assert sensitivity.rounding(features=10, norm=1.0, divisor=10, **how) > base
        assert sensitivity.rounding(features=10, norm=1.0, scores=100, **how) > base
        assert sensitivity.rounding(features=10, norm=1.0, **how | {"rates": []}) < 1e-270

    def test_refusals(self):
        how = {"constants": LOGISTIC, "n": 400, "batch_size": 40, "norm": 1.0, "features": 3}
        with pytest.raises(NotApplicable, match="grow beyond"):
            sensitivity.rounding(rates=np.full(400, 1e6), **how)
        with pytest.raises(InvalidArgument, match="features"):
            sensitivity.rounding(rates=[1.0], **how | {"features": 0})
        with pytest.raises(InvalidArgument, match="norm"):
            sensitivity.rounding(rates=[1.0], **how | {"norm": 0.0})
