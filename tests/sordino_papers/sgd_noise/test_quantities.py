"""Quantities on numbers that can be checked by hand."""

import inspect
import math
from importlib import resources

import numpy as np
import pytest

from sordino.errors import InvalidArgument
from sordino_papers.claims import read
from sordino_papers.sgd_noise import quantities
from sordino_papers.sgd_noise.quantities import GridQuantities

N = 1000


@pytest.fixture
def numbers():
    """As kind "grid" leaves them, with values that are easy to see through."""
    found = {
        "n": N,
        "delta_v1": 1 / N,
        "delta_v2": 1 / N**2,
        "parameters": 4,
        "hidden": math.nan,
        "seeds": 5,
        "neighbours": 3,
        "experiments": 30,
        "steps": np.array([100, 200, 300, 400]),
        "batch_size": 10,
        "learning_rate": 0.5,
        "bound_printed": 0.4,
        "bound_whole_batches": 0.44,
        "bound_holds": 0.6,
        "bound_curve/holds": np.array([0, 0.1, 0.1 + 2e-17, 0.2, 0.3, 0.3, 0.4]),
    }
    for init, scale in (("vary", 2.0), ("fixed", 1.0)):
        found |= {
            f"{init}/sigma": scale * np.array([0.1, 0.09, 0.12]),
            f"{init}/sigma_median": scale * np.array([0.11, 0.1, 0.13]),
            f"{init}/sigma_per_weight": scale * np.array([0.099, 0.09, 0.12]),
            f"{init}/sigma_norm": scale * np.array([0.121, 0.1, 0.13]),
            f"{init}/sigma_by_dataset": scale * np.array([0.1, 0.11, 0.12]),
            f"{init}/sensitivity": 0.2,
            f"{init}/delta_s": np.array([0.05, 0.1, 0.15, 0.2]),
            f"{init}/delta_s_pairs_largest": np.array([0.16, 0.18, 0.2]),
            f"{init}/delta_v": scale * np.array([0.12, 0.2, 0.3, 0.5]),
            f"{init}/delta_sv": scale * np.array([0.12, 0.2, 0.31, 0.5]),
            f"{init}/gaussian_distances": scale * np.array([0.2, 0.25, 0.3, 0.35]),
            f"{init}/p_values": np.array([[0.5, 0.04, 1e-9, np.nan], [0.6, 0.7, 0.01, np.nan]]),
            f"{init}/by_steps/sensitivity": np.array([0.05, 0.1, 0.15, 0.2]),
            f"{init}/by_steps/sigma": np.array([0.4, 0.3, 0.2, 0.1]) * scale,
            f"{init}/by_seeds/x": np.array([2, 3, 5]),
            f"{init}/by_seeds/middle": np.array([0.08, 0.096, 0.1]),
            f"{init}/by_seeds/low": np.array([0.06, 0.09, 0.1]),
            f"{init}/by_seeds/high": np.array([0.1, 0.1, 0.1]),
            f"{init}/by_comparisons/low": np.array([0.05, 0.2]),
            f"{init}/by_comparisons/high": np.array([0.15, 0.2]),
            f"{init}/by_comparisons/x": np.array([1, 3]),
            f"{init}/by_comparisons/middle": np.array([0.1, 0.2]),
            f"{init}/trajectories": np.array([[[0, 0], [3, 4.0]], [[0, 0], [3, 1.0]]]),
            f"{init}/accuracy": np.array([0.9, 0.89, 0.91]),
            f"{init}/accuracy_sd": 0.02,
        }
    return {name: np.asarray(value) for name, value in found.items()}


def ask(name, *runs, **arguments):
    return GridQuantities(*runs).ask(name, **arguments)


CASES = [
    ("learning_rate", {}, 0.5),
    ("steps", {}, 400),
    ("experiments", {}, 30),
    ("datasets", {}, 3),
    ("records", {}, N),
    ("delta", {}, 1e-6),
    ("delta", {"version": 1}, 1e-3),
    ("bound", {}, 0.4),
    ("bound", {"whole_batches": True}, 0.44),
    ("bound_of_passes", {}, 0.44),  # 400 steps of 10 are four passes
    ("bound_that_holds", {}, 0.6),
    ("sigma", {}, 0.2),
    ("sigma", {"init": "fixed", "aggregate": "median"}, 0.11),
    ("sigma_of_datasets", {"end": "maximum"}, 0.24),
    ("sigma_spread", {}, 0.2),
    ("sigma_aggregates", {"other": "per-weight"}, 0.9),
    ("sigma_aggregates", {"other": "norm"}, 1.1),
    ("sensitivity", {}, 0.2),
    ("bound_over_sensitivity", {}, 2.0),
    ("sensitivity_over_sigma", {"init": "fixed"}, 2.0),
    ("accuracy", {"percent": True}, 90),
    ("accuracy_sd", {"percent": True}, 2),
    ("share_seed_above_data", {"init": "fixed"}, 13 / 16),  # 2 + 3 (0.2 is no more) + 4 + 4
    ("share_seed_above_data", {"init": "fixed", "of": "largest"}, 0.5),
    ("share_seed_above_data", {"init": "fixed", "of": "largest", "largest": 0.4}, 0.25),
    ("share_seed_above_bound", {}, 0.5),
    ("median_seed_over_data", {"init": "fixed"}, 2.0),
    ("seed_distance", {}, 0.5),
    ("seed_distance", {"init": "fixed", "at": 1.0}, 0.5),
    ("vary_over_fixed", {}, 2.0),
    ("overlap", {}, 0.75),
    ("gaussian_gap", {"init": "fixed"}, 0.25),
    ("relative_width", {}, np.std([0.12, 0.2, 0.3, 0.5]) / 0.28),
    ("share_normal", {}, 3 / 6),
    ("share_normal", {"datasets": 1}, 1 / 3),
    ("share_rejected", {}, 1 / 6),
    ("share_rejected", {"hypotheses": "parameters"}, 2 / 6),  # 0.05 / 4 is above 0.01
    ("share_rejected", {"level": 2e-9, "corrected_for": 1}, 0),  # 5e-10: none below
    ("sensitivity_slope", {}, 0.2 / 0.44),
    ("sensitivity_growth", {}, 4.0),
    ("sigma_growth", {"start": 0.5}, 1 / 3),
    ("sigma_growth", {"end": 0.5}, 3 / 4),
    ("sensitivity_over_sigma_growth", {}, 16.0),
    ("sigma_drift", {"start": 0.0}, 0.35 / 0.15),
    ("sensitivity_drift", {"start": 0.0}, 0.175 / 0.075),
    ("sensitivity_trend", {}, 1.0),
    ("final_spread", {}, 3 / 5),
    ("sigma_settles", {"seeds": 3}, 0.04),
    ("sigma_settles", {"seeds": 5}, 0.0),
    ("sensitivity_settles", {"share": 2 / 3}, 0.2 / 0.15),
    ("less_stable", {"many": 2}, 0.25 / 0.4),  # 0.05 of 0.2 against 0.04 of 0.1
    ("skew_of_pairs", {}, 1.0),
]


@pytest.mark.parametrize(("name", "arguments", "expected"), CASES)
def test_value(numbers, name, arguments, expected):
    assert ask(name, numbers, **arguments).value == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_started_pass_counts_as_a_whole_one(numbers):
    longer = {**numbers, "n": np.array(1009), "steps": np.array([450])}  # 100 whole batches a pass
    assert ask("bound_of_passes", longer).value == pytest.approx(0.44 * 5 / 4.5)


def test_epsilon_grows_as_sigma_falls(numbers):
    factor = math.sqrt(2 * math.log(1.25e6))
    found = ask("epsilon", numbers)
    assert found.value == pytest.approx(factor * 0.44 / 0.2)
    assert (found.low, found.high) == pytest.approx((factor * 0.44 / 0.24, factor * 0.44 / 0.18))
    observed = ask("epsilon", numbers, by="observed", version=1, aggregate="median")
    assert observed.value == pytest.approx(math.sqrt(2 * math.log(1.25e3)) * 0.2 / 0.22)
    with_print = ask("epsilon_of_sigma", numbers, sigma=0.2)
    assert with_print.value == pytest.approx(found.value)


def test_epsilon_without_a_bound_is_not_a_number(numbers):
    numbers["bound_whole_batches"] = np.array(math.nan)
    assert math.isnan(ask("epsilon", numbers).value)


def test_accuracy_over_runs_of_both_starts(numbers):
    numbers["fixed/accuracy"] = np.array([0.8, 0.77, 0.83])
    numbers["fixed/accuracy_sd"] = np.array(0.04)
    found = ask("accuracy", numbers, init="both")
    half = math.hypot(0.01, 0.03) / 2
    assert (found.value, found.low, found.high) == pytest.approx((0.85, 0.85 - half, 0.85 + half))
    runs = np.concatenate([[0.9 - 0.02, 0.9 + 0.02], [0.8 - 0.04, 0.8 + 0.04]])
    assert ask("accuracy_sd", numbers, init="both").value == pytest.approx(runs.std())


@pytest.mark.parametrize("name", ["sensitivity_slope", "sigma_drift", "sensitivity_trend"])
def test_one_checkpoint_has_no_slope(numbers, name):
    numbers["steps"] = numbers["steps"][-1:]
    for of in ("sensitivity", "sigma"):
        numbers[f"vary/by_steps/{of}"] = numbers[f"vary/by_steps/{of}"][-1:]
    assert math.isnan(ask(name, numbers).value)


def test_the_interval_of_a_dataset_is_in_proportion(numbers):
    found = ask("sigma_of_datasets", numbers, init="fixed", end="maximum")
    assert (found.low, found.high) == pytest.approx((0.12 * 0.9, 0.12 * 1.2))


def test_pairwise_epsilon(numbers):
    factor = math.sqrt(2 * math.log(1.25e6)) / 0.2
    asked = {at: ask("pairwise_epsilon", numbers, at=at).value for at in (0.5, 1.0, "maximum")}
    assert asked == pytest.approx({0.5: factor * 0.125, 1.0: factor * 0.2, "maximum": factor * 0.2})
    assert ask("share_pairwise_above", numbers, epsilon=factor * 0.12).value == 0.5
    largest = ask("pairwise_epsilon", numbers, over="largest")
    assert largest.value == pytest.approx(factor * 0.18)
    numbers["vary/delta_s"] = np.concatenate([np.full(90, 0.1), np.linspace(0.01, 0.2, 10)])
    assert ask("pairwise_epsilon", numbers, at="peak").value == pytest.approx(
        factor * 0.1,
        rel=0.02,  # half a bin
    )


def test_quantities_of_several_runs(numbers):
    other = {**numbers, "vary/sensitivity": np.array(0.1)}
    assert ask("ratio", numbers, other, of="sensitivity").value == pytest.approx(2)
    assert ask("least", numbers, other, of="bound_over_sensitivity").value == pytest.approx(2)
    assert ask("largest", numbers, other, of="bound_over_sensitivity").value == pytest.approx(4)
    assert ask("range_over", numbers, other, of="sensitivity", init="fixed").value == 1
    with pytest.raises(InvalidArgument, match="sensitivty"):
        ask("ratio", numbers, other, of="sensitivty")


def test_formulas_of_printed_numbers():
    # docs/math.md, 9: 211 against 4.84 at 1e-5; 87.136 is 171 by the exact formula.
    assert ask("multiplier", delta=1e-5, slip=True).value == pytest.approx(211.255, abs=1e-3)
    assert ask("multiplier", delta=1e-5).value == pytest.approx(4.8448, abs=1e-4)
    assert ask("quotient", over=0.063, under=0.02).value == pytest.approx(3.15)
    printed = {"sensitivity": 3.891, "sigma": 0.288, "delta": 1.1645e-9}
    classical = ask("epsilon_of", **printed).value
    assert classical == pytest.approx(87.1, abs=0.1)
    exact = ask("epsilon_of", **printed, formula="exact").value
    assert exact == pytest.approx(171.1, abs=0.2)
    assert ask("exact_of_printed", epsilon=classical, delta=1.1645e-9).value == pytest.approx(exact)
    assert ask("epsilon_of", sensitivity=1.0, sigma=0.0, delta=1e-5).value == math.inf


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("delta", {"version": 3}),
        ("sigma", {"aggregate": "mean"}),
        ("sigma_of_datasets", {"end": "middle"}),
        ("sigma_aggregates", {"other": "mean"}),
        ("epsilon", {"by": "guess"}),
        ("epsilon", {"formula": "wrong"}),
        ("share_seed_above_data", {"of": "all"}),
        ("share_rejected", {"hypotheses": "weights"}),
        ("pairwise_epsilon", {"formula": "wrong"}),
        ("pairwise_epsilon", {"over": "records"}),
    ],
)
def test_a_wrong_word_is_refused(numbers, name, arguments):
    with pytest.raises(InvalidArgument):
        ask(name, numbers, **arguments)


@pytest.mark.parametrize("paper", ["v1", "v2"])
def test_every_claim_asks_with_arguments_that_exist(paper):
    text = resources.files("sordino_papers").joinpath(f"{paper}.toml").read_text("utf-8")
    known = GridQuantities.names()
    asked = [claim for claim in read(paper, text).claims if claim.quantity in known]
    assert len(asked) > 50
    for claim in asked:
        arguments = dict(claim.arguments)
        name = claim.quantity
        if name in quantities._OF_SEVERAL and "of" in arguments:
            name = arguments.pop("of")
        if name in GridQuantities.held:
            assert not arguments
            continue
        method = inspect.signature(getattr(GridQuantities, name))
        method.bind(None, **arguments)  # TypeError where one is unknown
        more = {"pairwise": GridQuantities._pairwise, "growth": GridQuantities._growth}
        for part, function in more.items():
            if part in name:
                allowed = {*method.parameters, *inspect.signature(function).parameters}
                assert set(arguments) <= allowed, claim.name
