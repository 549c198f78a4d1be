from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from erm_study import design, full_batch, statistics  # noqa: E402
from erm_study.plans import fingerprint, plan_method  # noqa: E402
from erm_study.results import Results  # noqa: E402
from erm_study.study import Cell  # noqa: E402

from sordino.estimators import methods  # noqa: E402
from sordino.estimators.randomness import Randomness  # noqa: E402
from sordino.estimators.records import Records  # noqa: E402
from sordino.estimators.task import Settings  # noqa: E402


def records(rows: int = 300, seed: int = 0) -> Records:
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 6)).astype(np.float32) / 3
    y = (X @ np.arange(6) + 0.3 * random.normal(size=rows) > 0).astype(np.int64)
    return Records.of(X, y, 2, 1.0, True)


@pytest.mark.parametrize("loss", ["logistic", "svm"])
def test_descents_side_by_side_are_those_of_the_engine(loss: str) -> None:
    rows = records()
    asked = design.task(design.SMOKE.sources[0], loss, 300, 7, 1.0)
    plans = [
        methods.plan("output-gd", asked, Settings(steps=steps, learning_rate=rate))
        for steps, rate in ((3, 0.5), (40, 0.9), (17, 0.2))
    ]
    found = full_batch.descend(plans, rows, [Randomness.seeded(0)] * 3)
    for plan, weights in zip(plans, found, strict=True):
        alone = methods.named("output-gd").train(plan, rows, Randomness.seeded(1), np.zeros((1, 7)))
        np.testing.assert_allclose(weights, alone[0], rtol=1e-4, atol=1e-5)


def test_noise_side_by_side_is_of_the_planned_size() -> None:
    rows = records()
    asked = design.task(design.SMOKE.sources[0], "logistic", 300, 7, 1.0)
    plan = methods.plan("noisy-gd", asked, Settings(steps=1, learning_rate=0.5))
    many = [Randomness.seeded(seed) for seed in range(400)]
    spread = full_batch.descend([plan] * 400, rows, many).std(axis=0)
    np.testing.assert_allclose(spread, 0.5 * plan.sigma / 300, rtol=0.2)


def test_only_plain_full_batch_descent_is_done_side_by_side() -> None:
    asked = design.task(design.SMOKE.sources[0], "logistic", 300, 7, 1.0)
    assert full_batch.fits(methods.plan("noisy-gd", asked, Settings()))
    clipped = methods.plan("noisy-gd", asked, Settings(max_grad_norm=0.1))
    assert not full_batch.fits(clipped)
    assert not full_batch.fits(methods.plan("dp-sgd", asked, Settings()))


def test_every_grid_has_eight_different_settings() -> None:
    for method in design.PRIVATE:
        for loss in design.KINDS:
            grid = design.grid(method, loss, 40_000)
            assert len(set(grid)) == len(grid) >= 8
        assert method in design.GRIDS_IN_WORDS


def cell(method: str, accuracies: list[float], kind: str = "default") -> Cell:
    values = np.array(accuracies)
    return Cell("adult", "logistic", 1.0, method, kind, values, values)


def test_shortfalls_are_paired_over_folds() -> None:
    cells = [
        cell("auto", [0.80, 0.70]),
        cell("objective", [0.81, 0.71]),
        cell("nsgd", [0.70, 0.70]),
        cell("none", [0.90, 0.90]),
        cell("rsgd-ar", [0.83, 0.73], "oracle"),
    ]
    found = {d.above: d for d in statistics.shortfalls(cells)}
    assert set(found) == {"objective", "nsgd"}
    assert found["objective"].points == pytest.approx(1.0)
    assert found["objective"].standard_error == pytest.approx(0.0, abs=1e-9)
    assert found["objective"].beyond
    assert found["nsgd"].points == pytest.approx(-5.0)
    figures = statistics.summary(cells, ["adult"])
    assert figures["auto_mean_shortfall_points"] == pytest.approx(1.0)
    assert figures["auto_worst_shortfall_points"] == pytest.approx(1.0)
    assert figures["auto_violations"] == 1
    assert figures["oracle_mean_shortfall_points"] == pytest.approx(3.0)
    assert statistics.gap_to_none(cells, "adult", 1.0) == pytest.approx(15.0)


def test_auto_being_best_is_no_shortfall() -> None:
    cells = [cell("auto", [0.9, 0.9]), cell("nsgd", [0.8, 0.8])]
    figures = statistics.summary(cells, ["adult"])
    assert figures["auto_mean_shortfall_points"] == 0
    assert figures["auto_violations"] == 0


def test_a_cut_off_line_of_results_is_left_out(tmp_path: Path) -> None:
    results = Results(tmp_path)
    whole = '{"unit": "a/logistic/1/0", "scores": {"x": [0.5, 0.6], "y": null}, "seconds": {}}'
    results.path.write_text(f'{whole}\n{{"unit": "b/log')
    again = Results(tmp_path)
    assert again.scores == {("a/logistic/1/0", "x"): (0.5, 0.6), ("a/logistic/1/0", "y"): None}
    assert Results(tmp_path, fresh=True).scores == {}


def test_auto_shares_the_fit_of_the_method_it_takes(tmp_path: Path) -> None:
    from erm_study.folds import store

    source = dataclasses.replace(design.SMOKE.sources[0], epsilons=(1.0,), tuned=False)
    stored = store(source, tmp_path, None)
    automatic = plan_method(stored, "logistic", "auto").defaults[1.0]
    assert not isinstance(automatic, str)
    taken = automatic[1].method
    named = plan_method(stored, "logistic", taken).defaults[1.0]
    assert named[0] == automatic[0] == fingerprint(automatic[1])
    training, held_out = stored.split(1, 2)
    assert len(training) == stored.training_rows
    assert not set(training) & set(held_out)
