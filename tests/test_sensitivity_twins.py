"""Law 3: no two real trainings on neighbouring data end further apart than the bound says.

The trainings are adversarial (replaced records antipodal, mislabelled, of maximal norm; all data
chosen by a small search), and judged by the bound of the record's own batch. Constructions come
within a thousandth of the bounds, and false bounds that have been in use are exceeded.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino import sensitivity
from sordino.data import neighbours as nb
from sordino.data.dataset import Dataset
from sordino.models.constants import Constants, ObjectiveSpec
from sordino.privacy import Relation
from sordino.sgd import Schedule, TrainSpec, prepare, train
from sordino.sgd.batches import epochs as epochs_of

REPLACE, ZERO = Relation.REPLACE_ONE, Relation.ZERO_OUT
H = 0.5
CURVATURE = {"logistic": 0.25, "huber-svm": 1 / (2 * H)}


@dataclass(frozen=True)
class Plan:
    """One training, as this file's own SGD takes it."""

    kind: str
    l2: float
    n: int
    size: int
    rates: np.ndarray
    drop_last: bool = False
    every: int | None = None
    divisor: float | None = None

    @property
    def constants(self):
        return Constants(1.0, CURVATURE[self.kind] + self.l2, self.l2)

    @property
    def batches(self):
        stop = self.n // self.size * self.size if self.drop_last else self.n
        return [slice(a, min(a + self.size, stop)) for a in range(0, stop, self.size)]

    @property
    def epochs(self):
        return -(-len(self.rates) // len(self.batches))

    def bound(self, relation, of=sensitivity.contraction):
        return of(**self.arguments, average_every=self.every, relation=relation)

    @property
    def arguments(self):
        return {
            "constants": self.constants,
            "n": self.n,
            "batch_size": self.size,
            "rates": self.rates,
            "drop_last": self.drop_last,
            "divisor": self.divisor,
        }

    def slack(self, d, start_norm):
        """What float64 may add, for both worlds; our sums are numpy's, added to nothing."""
        how = {"features": d, "norm": 1.0, "start_norm": start_norm, "average_every": self.every}
        return 2 * sensitivity.rounding(**self.arguments, **how)


def psi_of(kind, z, sign):
    """Derivative of the loss by the score."""
    if kind == "logistic":
        return -sign / (1 + np.exp(np.clip(sign * z, -700, 700)))
    return -sign * np.clip((1 - sign * z + H) / (2 * H), 0, 1)


def sgd(plan, X, sign, alive, start, orders=None):
    """Train worlds X [world, record, feature] at once; `orders` [epoch, record] or as they come."""
    w, total = start.copy(), np.zeros_like(start)
    batches = plan.batches
    for t, rate in enumerate(plan.rates):
        part = batches[t % len(batches)]
        rows = np.arange(plan.n) if orders is None else orders[t // len(batches)]
        rows = rows[part]
        z = np.einsum("pbd,pd->pb", X[:, rows], w)
        psi = psi_of(plan.kind, z, sign[:, rows]) * alive[:, rows]
        gradient = np.einsum("pb,pbd->pd", psi, X[:, rows]) / (plan.divisor or len(rows))
        w = w - rate * (gradient + plan.l2 * w)
        total += w
        if plan.every and (t + 1) % (plan.every * len(batches)) == 0:
            w, total = total / (plan.every * len(batches)), np.zeros_like(w)
    return w


@dataclass
class Worlds:
    """Pairs of neighbours: shared records, and for each pair one slot that differs."""

    X: np.ndarray
    sign: np.ndarray
    start: np.ndarray
    slot: np.ndarray
    other: np.ndarray
    other_sign: np.ndarray

    def distances(self, plan, relation, orders=None):
        pairs = np.arange(len(self.X))
        X, sign, alive = self.X.copy(), self.sign.copy(), np.ones_like(self.sign)
        X[pairs, self.slot], sign[pairs, self.slot] = self.other, self.other_sign
        if relation is ZERO:
            alive[pairs, self.slot] = 0.0
        one = sgd(plan, self.X, self.sign, np.ones_like(alive), self.start, orders)
        two = sgd(plan, X, sign, alive, self.start, orders)
        return np.linalg.norm(one - two, axis=1)

    def chosen(self, which):
        return Worlds(*(getattr(self, field.name)[which] for field in dataclasses.fields(self)))


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


def first_worlds(plan, d, pairs, rng):
    """Problems that are likely to be hard: some aligned, some empty, antipodal replacements."""
    X = unit(rng.standard_normal((pairs, plan.n, d)))
    direction = unit(rng.standard_normal((pairs, 1, d)))
    aligned = rng.random((pairs, 1, 1))
    X = np.where(aligned < 0.4, direction * np.sign(rng.standard_normal((pairs, plan.n, 1))), X)
    X = np.where((aligned > 0.7) | (rng.random((pairs, plan.n, 1)) < 0.1), 0.0, X)
    sign = rng.choice([-1.0, 1.0], (pairs, plan.n))
    slot = rng.integers(0, plan.n, pairs)
    X[np.arange(pairs), slot] = unit(rng.standard_normal((pairs, d)))
    own = X[np.arange(pairs), slot]
    kinds = rng.integers(0, 3, (pairs, 1))
    other = np.where(kinds == 0, -own, np.where(kinds == 1, own, unit(own + X[:, 0])))
    flip = np.where(kinds[:, 0] == 1, -1, 1)
    start = rng.standard_normal((pairs, d)) * rng.choice([0, 0.3, 3, 20], (pairs, 1))
    # In some, all other records pull back with their full curvature, around w = direction.
    pulled = aligned[..., 0] < 0.2
    X = np.where(pulled[..., None], direction, X)
    sign, start = np.where(pulled, 1.0, sign), np.where(pulled, direction[:, 0], start)
    X[np.arange(pairs), slot] = np.where(pulled, -direction[:, 0], own)
    return Worlds(X, sign, start, slot, other, flip * sign[np.arange(pairs), slot])


def mutated(worlds, rng):
    """The same, a little different: rows stay within the unit ball."""
    step = rng.choice([0.02, 0.2, 1.0], (len(worlds.X), 1))
    noise = rng.standard_normal(worlds.X.shape) * step[..., None]
    keep = np.abs(worlds.X).sum(axis=-1, keepdims=True) == 0
    X = np.where(keep, 0.0, unit(worlds.X + noise))
    flips = np.where(rng.random(worlds.sign.shape) < 0.05, -1, 1)
    other = unit(worlds.other + rng.standard_normal(worlds.other.shape) * step)
    start = worlds.start + rng.standard_normal(worlds.start.shape) * step
    return Worlds(X, worlds.sign * flips, start, worlds.slot, other, worlds.other_sign)


def hardest(plan, relation, allowed, rng, orders=None, pairs=40, generations=4):
    """Search for the largest distance / allowed; fail where it is above 1. Return it."""
    d = int(rng.integers(1, 5))
    worlds, best = first_worlds(plan, d, pairs, rng), 0.0
    for _ in range(generations):
        slack = plan.slack(d, float(np.linalg.norm(worlds.start, axis=1).max()))
        limits = np.array([allowed[slot] for slot in worlds.slot]) + slack
        ratios = worlds.distances(plan, relation, orders) / limits
        assert (ratios <= 1).all(), (plan, ratios.max())
        best = max(best, float(ratios.max()))
        worlds = mutated(worlds.chosen(np.argsort(-ratios)[np.arange(pairs) % (pairs // 4)]), rng)
    return best


def by_record(plan, positions):
    """The bound of the batch that each record is in; the last is that of records left out."""
    return [positions[min(i // plan.size, len(positions) - 1)] for i in range(plan.n)]


@st.composite
def plans(draw, kinds=("logistic", "huber-svm"), most_rate=2.2):
    n = draw(st.integers(2, 14))
    size = draw(st.integers(1, n))
    drop_last = draw(st.booleans())
    batches = n // size if drop_last else -(-n // size)
    steps = draw(st.integers(1, min(4 * batches, 24)))
    kind = draw(st.sampled_from(kinds))
    l2 = draw(st.sampled_from([0.0, 1e-3, 0.05, 0.5]))
    eta = draw(st.floats(0.05, most_rate)) / (CURVATURE[kind] + l2)
    epoch = np.arange(steps) // batches
    every = draw(st.sampled_from([None, None, 1, 2, 3]))
    since = {"constant": np.ones(steps), "per epoch": epoch + 1.0, "restart": epoch % 2 + 1.0}
    rates = eta / since[draw(st.sampled_from(sorted(since)))]
    divisor = draw(st.sampled_from([None, None, float(size), 1.5 * size, 0.6 * size]))
    return Plan(kind, l2, n, size, rates, drop_last, every, divisor)


class TestNoTwinsExceedTheBound:
    @given(plans(), st.sampled_from([REPLACE, ZERO]), st.integers(0, 2**20))
    @settings(max_examples=30, deadline=None)
    def test_cyclic(self, plan, relation, seed):
        allowed = by_record(plan, plan.bound(relation).positions)
        assert hardest(plan, relation, allowed, np.random.default_rng(seed)) <= 1

    @given(plans(), st.sampled_from([REPLACE, ZERO]), st.integers(0, 2**20))
    @settings(max_examples=25, deadline=None)
    def test_a_new_order_in_every_epoch(self, plan, relation, seed):
        rng = np.random.default_rng(seed)
        parts = plan.bound(relation, sensitivity.reshuffled_contributions).epochs
        orders = np.array([rng.permutation(plan.n) for _ in range(plan.epochs)])
        places = np.minimum(np.argsort(orders, axis=1) // plan.size, len(parts[0]) - 1)
        allowed = [sum(part[at] for part, at in zip(parts, places[:, i], strict=True))
                   for i in range(plan.n)]  # fmt: skip
        assert hardest(plan, relation, allowed, rng, orders) <= 1

    @given(plans(most_rate=1.99), st.integers(0, 2**20))
    @settings(max_examples=25, deadline=None)
    def test_bolt_on(self, plan, seed):
        plan = dataclasses.replace(plan, l2=0.0, every=None, divisor=None)
        found = sensitivity.bolt_on_convex(relation=REPLACE, **plan.arguments)
        allowed = by_record(plan, found.positions)
        assert hardest(plan, REPLACE, allowed, np.random.default_rng(seed)) <= 1

    @given(plans(), st.integers(0, 2**20))
    @settings(max_examples=25, deadline=None)
    def test_bolt_on_strongly_convex(self, plan, seed):
        rates = strongly_convex_rates(plan.kind, 0.1, len(plan.rates))
        plan = dataclasses.replace(plan, l2=0.1, rates=rates, every=None, divisor=None)
        how = {**plan.arguments, "steps": len(rates), "relation": REPLACE}
        del how["rates"]
        found = sensitivity.bolt_on_strongly_convex(**how)
        allowed = by_record(plan, found.positions)
        assert hardest(plan, REPLACE, allowed, np.random.default_rng(seed)) <= 1

    @pytest.mark.slow
    @given(plans(), st.sampled_from([REPLACE, ZERO]), st.integers(0, 2**20))
    @settings(max_examples=300, deadline=None)
    def test_cyclic_at_length(self, plan, relation, seed):
        allowed = by_record(plan, plan.bound(relation).positions)
        rng = np.random.default_rng(seed)
        assert hardest(plan, relation, allowed, rng, generations=30) <= 1


def strongly_convex_rates(kind, l2, steps):
    return np.minimum(1 / (CURVATURE[kind] + l2), 1 / (l2 * np.arange(1, steps + 1)))


def antipodal(plan, slot=0, relation=REPLACE, orders=None):
    """Distance where only one record has features, x against -x, and the Huber loss is linear."""
    X, start = np.zeros((1, plan.n, 1)), np.zeros((1, 1))
    X[0, slot] = 1.0
    worlds = Worlds(X, np.ones((1, plan.n)), start, np.array([slot]), -X[:, slot], np.ones(1))
    return float(worlds.distances(plan, relation, orders)[0])


def small_steps(n=40, size=7, epochs=4, eta=0.04, **more):
    """Steps so small that |w| stays below 1 - h, where the Huber loss has slope 1."""
    batches = n // size if more.get("drop_last") else -(-n // size)
    epoch = np.arange(epochs * batches) // batches
    since = epoch % more["every"] if more.get("every") else epoch
    return Plan("huber-svm", 2.0, n, size, eta / (since + 1), **more)


CASES = {
    "plain": {},
    "partial epoch": {"epochs": 3.5},
    "drop last": {"drop_last": True},
    "averaging and restart": {"every": 2},
    "averaging, a tail": {"every": 3},
    "fixed divisor": {"divisor": 7.0},
    "full batch": {"size": 40, "epochs": 30},
    "one by one": {"n": 6, "size": 1, "eta": 0.02},
}


class TestCloseness:
    @pytest.mark.parametrize("relation", [REPLACE, ZERO])
    @pytest.mark.parametrize("case", CASES)
    def test_the_bound_is_reached_in_every_position(self, case, relation):
        plan = small_steps(**{k: v for k, v in CASES[case].items() if k != "epochs"})
        if "epochs" in CASES[case]:
            steps = int(CASES[case]["epochs"] * len(plan.batches))
            per_epoch = np.arange(steps) // len(plan.batches) + 1
            plan = dataclasses.replace(plan, rates=0.04 / per_epoch)
        allowed = by_record(plan, plan.bound(relation).positions)
        for slot in range(plan.n):
            moved = antipodal(plan, slot, relation)
            assert 0.999 * allowed[slot] <= moved <= allowed[slot] * (1 + 1e-12)

    def test_reshuffled_parts_are_reached(self):
        plan = small_steps(every=2)
        rng = np.random.default_rng(0)
        parts = plan.bound(REPLACE, sensitivity.reshuffled_contributions).epochs
        orders = np.array([rng.permutation(plan.n) for _ in range(plan.epochs)])
        places = np.argsort(orders, axis=1) // plan.size
        for slot in range(plan.n):
            allowed = sum(part[at] for part, at in zip(parts, places[:, slot], strict=True))
            assert antipodal(plan, slot, orders=orders) == pytest.approx(allowed, rel=1e-9)

    def test_gradient_descent_is_reached(self):
        plan = small_steps(size=40)
        plan = dataclasses.replace(plan, rates=np.full(60, 0.3))
        found = sensitivity.gradient_descent(
            constants=plan.constants, n=40, rate=0.3, steps=60, relation=REPLACE
        )
        assert antipodal(plan) == pytest.approx(found.worst, rel=1e-9)
        # After many steps the minimiser's 2 R / (n mu), and Prop. 2 at eta = 2 / (L + mu).
        eta = 2 / (plan.constants.smooth + plan.l2)
        limit = sensitivity.fixed_step_limit(
            constants=plan.constants, n=40, batch_size=40, rate=eta, relation=REPLACE
        )
        long = dataclasses.replace(plan, rates=np.full(300, eta))
        assert limit.worst == pytest.approx(2 / (40 * plan.l2))
        assert antipodal(long) == pytest.approx(limit.worst, rel=1e-9)

    def test_the_schedule_of_wu_is_reached(self):
        plan = Plan("huber-svm", 4.0, 40, 4, strongly_convex_rates("huber-svm", 4.0, 30))
        found = sensitivity.bolt_on_strongly_convex(
            constants=plan.constants, n=40, batch_size=4, steps=30, relation=REPLACE
        )
        moved = [antipodal(plan, slot) for slot in range(40)]
        assert found.worst == pytest.approx(2 / (4.0 * 40))
        assert 0.99 * found.worst <= max(moved) <= found.worst

    @pytest.mark.parametrize("every", [None, 2])
    def test_saturated_logistic_is_close(self, every):
        # Far out along one axis both records are mislabelled by a wide margin, x and x' nearly
        # opposite: slope 1, no curvature.
        n, size, steps = 30, 10, 12
        epoch = np.arange(steps) // 3
        rates = 2.0 / ((epoch % every if every else epoch) + 1)
        plan = Plan("logistic", 0.001, n, size, rates, every=every)
        allowed = by_record(plan, plan.bound(REPLACE).positions)
        tilt, X, start = 0.1, np.zeros((1, n, 2)), np.array([[200.0, 0.0]])
        for slot in range(n):
            X[:] = 0.0
            X[0, slot] = [-tilt, np.sqrt(1 - tilt**2)]
            other = X[:, slot] * [1, -1]
            worlds = Worlds(X, np.ones((1, n)), start, np.array([slot]), other, np.ones(1))
            moved = worlds.distances(plan, REPLACE)[0]
            assert 0.95 * allowed[slot] <= moved <= allowed[slot]

    @pytest.mark.parametrize("eta_smooth", [1.9, 2.3])
    def test_the_largest_curvature_is_reached(self, eta_smooth):
        # All other records pull back with the Huber loss' full curvature, around w = 1; beyond
        # eta L = 2 the distance GROWS, and so does the bound.
        plan, moved = restoring(eta_smooth)
        found = plan.bound(ZERO)
        assert moved == pytest.approx(found.positions[0], rel=1e-9)
        assert ("EXPAND" in " ".join(found.conditions)) == (eta_smooth > 2)


def restoring(eta_smooth):
    n, size, l2 = 100, 20, 0.5
    plan = Plan("huber-svm", l2, n, size, np.full(5, eta_smooth / 1.5))
    X = np.ones((1, n, 1))
    X[0, 0] = -1.0
    start, sign = np.ones((1, 1)), np.ones((1, n))
    worlds = Worlds(X, sign, start, np.array([0]), X[:, 0], np.ones(1))
    return plan, float(worlds.distances(plan, ZERO)[0])


class TestFalseBoundsAreExceeded:
    """Each of these was printed or coded somewhere; twins refute it."""

    def test_divided_by_the_batch_size_again(self):
        plan = Plan("huber-svm", 4.0, 40, 4, strongly_convex_rates("huber-svm", 4.0, 30))
        false = 2 / (4.0 * 40) / 4
        assert max(antipodal(plan, slot) for slot in range(40)) > 3.9 * false

    def test_averaging_without_the_restart(self):
        # docs/math.md 3.3: the step sizes restart in the program, not in the formula.
        n, size, eta0, every = 400, 100, 1.0, 2
        epoch = np.repeat(np.arange(4), 4)
        plan = Plan("huber-svm", 0.001, n, size, eta0 / (epoch % 2 + 1), every=every)
        file = Path(__file__).parent / "golden" / "output_3.json"
        cases = json.loads(file.read_text())["3_output_perturbation"]["rsgd_deltas"]["cases"]
        false = next(case["Delta"] for case in cases if case.get("reset") is False)
        for position in range(4):
            assert antipodal(plan, position * size) > 1.4 * false[position]

    def test_averaging_left_out(self):
        # Without the averaging the last batch looks worst, and the first is understated.
        plan = small_steps(n=20, size=2, every=2, epochs=2, eta=0.1)
        plain = dataclasses.replace(plan, every=None).bound(REPLACE).positions
        assert antipodal(plan, 0) > 1.5 * plain[0]

    def test_a_fraction_of_a_pass(self):
        plan = Plan("huber-svm", 0.0, 40, 4, np.full(11, 0.4))
        false = sensitivity.bolt_on_fractional(
            constants=plan.constants, n=40, batch_size=4, rate=0.4, steps=11
        )
        assert antipodal(plan, 0) > 1.8 * false

    def test_a_small_last_batch_divided_as_if_it_were_whole(self):
        plan = small_steps(n=40, size=7)
        as_if = dataclasses.replace(plan, divisor=7.0).bound(REPLACE)
        assert antipodal(plan, 39) > 1.3 * as_if.worst

    def test_one_gradient_for_two(self):
        plan = small_steps()
        assert antipodal(plan, 0) > 1.99 * plan.bound(ZERO).positions[0]

    def test_contraction_by_the_least_curvature_alone(self):
        plan, moved = restoring(1.9)
        false = plan.rates[0] / plan.size * (1 - plan.rates[0] * plan.l2) ** 4
        assert moved > 30 * false

    def test_records_as_heavy_as_their_mean(self):
        # Sums of 20 divided by 10 have twice the curvature.
        plan = Plan("huber-svm", 0.5, 100, 20, np.full(5, 1.2), divisor=10.0)
        X, start = np.ones((1, 100, 1)), np.full((1, 1), 1.2)
        X[0, 0] = -1.0
        worlds = Worlds(X, np.ones((1, 100)), start, np.array([0]), X[:, 0], np.ones(1))
        moved = worlds.distances(plan, ZERO)[0]
        found = plan.bound(ZERO).positions[0]
        false = 1.2 / 10 * max(abs(1 - 1.2 * 0.5), abs(1 - 1.2 * 1.5)) ** 4
        assert false < moved <= found * (1 + 1e-9)


ENGINE = {
    "plain": {"order": "fixed"},
    "rsgd-ar": {
        "order": "permute-once",
        "learning_rate": Schedule.per_epoch(1.5),
        "average_every": 2,
        "restart_every": 2,
    },
    "reshuffled": {"order": "shuffle", "learning_rate": Schedule.per_epoch(1.5)},
    "drop last": {"order": "permute-once", "drop_last": True},
    "strongly convex": {
        "order": "fixed",
        "learning_rate": Schedule.strongly_convex_rate(1.2, 0.2),
    },
    "fixed divisor": {"order": "permute-once", "fixed_divisor": True},
}


def rates_of(spec, n):
    per_epoch, rates, update, epoch = spec.batches_per_epoch(n), [], 1, 1
    while len(rates) < spec.total_steps(n):
        rates += spec.schedule.over(update, per_epoch, epoch).tolist()
        update, epoch = update + per_epoch, epoch + 1
        if spec.restart_every and (epoch - 1) % spec.restart_every == 0:
            update, epoch = 1, 1
    return np.array(rates[: spec.total_steps(n)])


@pytest.mark.parametrize("kind", ["logistic", "huber-svm", "softmax"])
@pytest.mark.parametrize("case", ENGINE)
@pytest.mark.parametrize("relation", [REPLACE, ZERO])
def test_the_engine_stays_within_the_bound(case, kind, relation):
    n, size, d, seeds = 26, 6, 3, [0, 1, 2]
    rng = np.random.default_rng(5)
    X = unit(rng.standard_normal((n, d))) * 0.9999999
    X[10:] *= 1e-3  # most say little, so that the others are not held back
    y = rng.integers(0, 2, n)
    values = {"learning_rate": 0.6, "init": "given", "dtype": "float64", "steps": 23}
    objective = ObjectiveSpec(kind, l2=0.2, intercept=False, classes=4)
    spec = TrainSpec(objective, batch_size=size, **(values | ENGINE[case]))
    dataset = Dataset(X, y, norm_bound=1.0)
    slots = np.arange(n)
    pairs = nb.zero_out(dataset, slots)
    if relation is REPLACE:
        pairs = nb.replace(dataset, slots, -unit(X) * 0.9999999, y)
    start = rng.standard_normal(d * objective.scores) * 0.1
    weights = train(spec, dataset, seeds, pairs, initial_weights=start)[:, :, 0]
    how = {
        "constants": spec.objective.constants(1.0),
        "n": n,
        "batch_size": size,
        "rates": rates_of(spec, n),
        "drop_last": spec.drop_last,
        "average_every": spec.average_every,
        "divisor": size if spec.divides_by_batch_size else None,
    }
    scores = objective.scores
    slack = 2 * sensitivity.rounding(features=d, scores=scores, norm=1.0, start_norm=1.0, **how)
    parts = sensitivity.reshuffled_contributions(relation=relation, **how).epochs
    grid = prepare(spec, dataset, seeds, pairs, initial_weights=start)
    stream = epochs_of(spec, n, seeds, grid.streams, n)
    orders = [next(stream).index for _ in parts]
    closest = 0.0
    for s in range(len(seeds)):
        for i in slots:
            bound = slack
            for part, index in zip(parts, orders, strict=True):
                found = np.flatnonzero((index[s] == i).any(axis=1))
                bound += part[found[0]] if len(found) else 0.0
            moved = np.linalg.norm(weights[s, i + 1] - weights[s, 0])
            assert moved <= bound
            closest = max(closest, moved / bound)
    if spec.order != "shuffle":  # the same, from the bound for one order
        single = sensitivity.contraction(relation=relation, **how).plus(slack)
        assert np.linalg.norm(weights[:, 1:] - weights[:, :1], axis=2).max() <= single.worst
    assert closest > 0.4


@pytest.mark.parametrize("kind", ["zero out", "remove", "add"])
def test_by_allocation_one_record_moves_one_sum_of_every_epoch_by_the_clip(kind):
    """What the accounting of random allocation rests on, of the engine's own twins."""
    n, clip, rate, divisor, per_epoch, epochs = 12, 0.3, 1e-6, 5, 7, 40
    rng = np.random.default_rng(3)
    X = unit(rng.normal(size=(n, 3))) * 0.999
    data = Dataset(X, rng.integers(2, size=n), norm_bound=1.0)
    pairs = {
        "zero out": nb.zero_out(data, [4]),
        "remove": nb.remove(data, [4]),
        "add": nb.add(data, X[:1], [1]),
    }
    spec = TrainSpec(
        *(ObjectiveSpec("logistic", intercept=False), rate, divisor),
        epochs=epochs,
        order="allocation",
        steps_per_epoch=per_epoch,
        max_grad_norm=clip,
        init="fixed",
        dtype="float64",
    )
    steps = range(spec.total_steps(n) + 1)
    one, two = train(spec, data, range(6), pairs[kind], steps).transpose(1, 0, 2, 3)
    moved = np.linalg.norm(np.diff(one - two, axis=1), axis=2) * divisor / rate
    # The weights hardly move, so that all other gradients are nearly the same.
    moved = moved.reshape(6, epochs, per_epoch)
    assert ((moved > clip / 2).sum(axis=2) == 1).all()
    assert moved.max() == pytest.approx(clip, rel=1e-3)
    assert np.sort(moved, axis=2)[..., :-1].max() < 1e-3 * clip
    places = np.bincount(moved.argmax(axis=2).ravel(), minlength=per_epoch)
    assert places.min() > 0
