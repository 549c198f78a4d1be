from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from erm_study import design, statistics  # noqa: E402
from erm_study.statistics import Column  # noqa: E402

from sordino.estimators import rules  # noqa: E402
from sordino_papers.claims import PaperRun  # noqa: E402
from sordino_papers.erm import study  # noqa: E402
from sordino_papers.erm.study import ErmSettings, store_rows  # noqa: E402
from sordino_papers.runs import RunStore  # noqa: E402


def test_every_grid_has_eight_different_settings() -> None:
    for method in design.PRIVATE:
        for loss in design.LOSSES:
            grid = design.grid(method, loss, 40_000)
            assert len({str(each) for each in grid}) == len(grid) >= 8
        assert method in design.GRIDS_IN_WORDS


def column(**accuracies: list[float]) -> Column:
    """One point; `x_tuned` is the oracle of x."""
    names = [n.replace("_tuned", "/tuned").replace("rsgd_ar", "rsgd-ar") for n in accuracies]
    values = np.array(list(accuracies.values()))[:, None]
    numbers = {"methods": np.array(names), "epsilons": np.array([1.0])}
    return Column("adult", "logistic", {**numbers, "accuracies": values, "objectives": values})


def test_shortfalls_are_paired_over_folds() -> None:
    columns = [
        column(
            auto=[0.80, 0.70],
            objective=[0.81, 0.71],
            nsgd=[0.70, 0.70],
            none=[0.90, 0.90],
            rsgd_ar_tuned=[0.83, 0.73],
        )
    ]
    found = {d.above: d for d in statistics.shortfalls(columns)}
    assert set(found) == {"objective", "nsgd"}
    assert found["objective"].points == pytest.approx(1.0)
    assert found["objective"].standard_error == pytest.approx(0.0, abs=1e-9)
    assert found["objective"].beyond
    assert found["nsgd"].points == pytest.approx(-5.0)
    figures = statistics.summary(columns, ["adult"])
    assert figures["auto_mean_shortfall_points"] == pytest.approx(1.0)
    assert figures["auto_worst_shortfall_points"] == pytest.approx(1.0)
    assert figures["auto_violations"] == 1
    assert figures["oracle_mean_shortfall_points"] == pytest.approx(3.0)
    assert figures["adult_eps1_gap_points"] == pytest.approx(15.0)


def test_auto_being_best_is_no_shortfall() -> None:
    figures = statistics.summary([column(auto=[0.9, 0.9], nsgd=[0.8, 0.8])], ["adult"])
    assert figures["auto_mean_shortfall_points"] == 0
    assert figures["auto_violations"] == 0


def test_a_budget_that_cannot_be_met_is_left_out() -> None:
    columns = [column(auto=[0.9, 0.9], nsgd=[np.nan, np.nan])]
    assert statistics.shortfalls(columns) == []
    assert not any("nsgd" in name for name in statistics.table(columns))


@pytest.mark.slow
def test_auto_shares_fits_and_oracles_choose_by_folds_that_are_not_shown(tmp_path: Path) -> None:
    source = dataclasses.replace(design.SMOKE.sources[0], methods=("auto", "noisy-gd", "objective"))
    rows = RunStore(tmp_path, {}).splits(source.data, source.form).train.rows
    asked = design.settings(source, "logistic", rows)
    bench = RunStore(tmp_path, {"erm/small": PaperRun("erm/small", "erm", asked, {})})
    found = Column("small", "logistic", bench.numbers("erm/small"))
    settings = ErmSettings.read(asked)
    kept = store_rows(settings, bench)
    training, held_out = kept.split(7)
    assert len(training) == settings.training_rows(rows)
    assert not set(training) & set(held_out)
    assert set(kept.split(2)[1]) != set(held_out)  # the same fold of another cut
    for at, epsilon in enumerate(source.epsilons):
        taken = rules.best_method(settings.task(len(training), kept.shape[1], epsilon))
        mine, theirs = (found.values("accuracies", m)[at] for m in ("auto", taken))
        np.testing.assert_array_equal(mine, theirs)
    assert found.numbers["accuracies"].shape == (5, 2, 5)
    pieces = study.Pieces(settings, kept, str(bench.folder("erm", settings.identity)))
    tuned = design.oracle("noisy-gd")
    tries = pieces.scores(tuned, range(5))[:, 0].mean(axis=0)
    chosen = found.numbers["chosen"][found.methods.index(tuned)]
    np.testing.assert_array_equal(tries.max(axis=0), tries[chosen, [0, 1]])
    shown = pieces.scores(tuned, range(5, 10))  # the public setting and the chosen one
    assert shown.shape == (5, 3, 2, 2)
    np.testing.assert_array_equal(shown[:, 0, 1].T, found.values("accuracies", tuned))
