from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import networks as benchmark  # noqa: E402
from network_study import peak, steps, timing  # noqa: E402
from network_study.models import MODELS, weights  # noqa: E402
from network_study.timing import Pace  # noqa: E402

TIMES = {  # the second round on a machine twice as slow
    "plain": [1.0, 2.0, 1.0],
    "ours_clip": [1.5, 3.0, 1.5],
    "ours": [2.0, 4.0, 2.0],
    "opacus_hooks_clip": [10.0, 20.0, 10.0],
    "opacus_hooks": [11.0, 22.0, 11.0],
    "opacus_ghost_clip": [3.0, 6.0, 3.0],
    "opacus_ghost": [8.0, 16.0, 8.0],
}


def test_sizes_are_those_of_the_issue() -> None:
    assert weights(MODELS["mlp"].module()) == 269_322
    assert weights(MODELS["cnn"].module()) == 26_010


def test_figures_are_ratios_within_rounds() -> None:
    beside = {"plain": [1.0, 1.0], "opake_clip": [4.0, 4.0], "opake": [5.0, 5.0]}
    assert benchmark.figures_of("mlp", TIMES, beside) == pytest.approx(
        {
            "mlp_plain_ms": 1000.0,
            "mlp_clip_over_plain": 1.5,
            "mlp_over_plain": 2.0,
            "mlp_opacus_hooks_clip_over_plain": 10.0,
            "mlp_opacus_hooks_over_plain": 11.0,
            "mlp_opacus_ghost_clip_over_plain": 3.0,
            "mlp_opacus_ghost_over_plain": 8.0,
            "mlp_clip_over_best_opacus": 0.5,
            "mlp_over_best_opacus": 0.25,
            "mlp_opake_clip_over_plain": 4.0,
            "mlp_opake_over_plain": 5.0,
            "mlp_clip_over_opake": 0.375,
            "mlp_over_opake": 0.4,
        }
    )


def test_every_step_is_warmed_up_and_timed_once_a_round() -> None:
    done: list[str] = []
    times = timing.by_turns({name: lambda n=name: done.append(n) for name in "ab"}, Pace(2, 0.0))
    # Twice to see how long it takes, and in each round once to warm up and once for the clock.
    assert "".join(done) == "aabb" + "aabb" + "bbaa"
    assert {name: len(found) for name, found in times.items()} == {"a": 2, "b": 2}


def test_slow_steps_are_timed_in_the_first_round_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setitem(timing.CLOCKS, "told", lambda: now[0])

    def lasting(seconds: float) -> timing.Step:
        def step() -> None:
            now[0] += seconds

        return step

    made = {"plain": lasting(0.5), "slow": lasting(2 * timing.SLOW_S)}
    times = timing.by_turns(made, Pace(3, 1.0, "told"))
    assert times == {"plain": [0.5] * 3, "slow": [2 * timing.SLOW_S]}
    assert timing.ratio(times, "slow", "plain") == 4 * timing.SLOW_S


@pytest.mark.filterwarnings("ignore")  # of what torch renames, and of Opacus' hooks
@pytest.mark.parametrize("name", [name for name in steps.all_of_them() if name.endswith("_clip")])
def test_steps_without_noise_do_what_a_loop_over_examples_does(name: str) -> None:
    """So that likes are compared: who left out an example's clip would be fast."""
    model = MODELS["mlp"]
    x, y = batch = model.batch(3)
    module = model.module()
    before = nn.utils.parameters_to_vector(module.parameters()).detach().clone()
    summed = torch.zeros_like(before)
    for one in range(len(x)):
        loss = nn.functional.cross_entropy(module(x[one : one + 1]), y[one : one + 1])
        parts = torch.autograd.grad(loss, list(module.parameters()))
        gradient = torch.cat([part.flatten() for part in parts])
        assert gradient.norm() > steps.CLIP  # every example is clipped
        summed += gradient * steps.CLIP / gradient.norm()
    steps.all_of_them()[name](module, batch)()
    after = nn.utils.parameters_to_vector(module.parameters()).detach()
    # A weight of 0.05 keeps 4e-9 of a change in float32, and 269,322 such errors add up like noise.
    rounding = 4e-9 * len(before) ** 0.5
    assert (after - (before - steps.RATE * summed / len(x))).norm() < 2 * rounding
    assert (after - before).norm() > 100 * rounding


def test_peak_of_plain_steps_is_that_of_their_gradients() -> None:
    """Memory of 64 KiB and more is counted to the page, and of smaller blocks there are few."""
    gradients = 4 * weights(MODELS["mlp"].module())
    assert gradients <= peak.measured("mlp", "plain", 4, 1, 1) < 2 * gradients
