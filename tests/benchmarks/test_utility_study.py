"""The study of utility: it goes on where it was, asks nothing twice, and its figures are right."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import utility  # noqa: E402
from utility_study import competitors, figures, judging, peer, tables  # noqa: E402
from utility_study.competitors import AUTO, ORACLE, TRIAL, Job  # noqa: E402
from utility_study.figures import Results  # noqa: E402
from utility_study.store import Store  # noqa: E402

from sordino import data  # noqa: E402

JOB = Job("breast-cancer", 200, AUTO, 1.0, 0)


def row(job: Job, points: float) -> dict[str, Any]:
    measure = figures.measure_of(job.table)
    return {"key": job.key, **dataclasses.asdict(job), measure: points / 100}


def test_the_study_is_as_large_as_was_asked() -> None:
    assert len(tables.TABLES) >= 12
    assert len(utility.FULL.oracles) == 6
    assert utility.FULL.epsilons == (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
    assert set(utility.FULL.tables) == {table.name for table in tables.TABLES}
    assert sum(table.classes == 0 for table in tables.TABLES) == 2
    roles = {tables.TUNING, tables.PARTLY, tables.JUDGING}
    assert {table.role for table in tables.TABLES} == roles
    for epsilon in (0.1, 1.0, 8.0):
        found = {competitors.setting(n, 1000, epsilon) for n in range(competitors.TRIALS)}
        assert len(found) == 12


def test_a_key_is_of_everything_that_a_result_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [
        {"table": "wine"},
        {"most_rows": 201},
        {"competitor": competitors.BEFORE},
        {"epsilon": 2.0},
        {"epsilon": None},
        {"seed": 1},
        {"setting": 0},
    ]
    keys = {JOB.key, *(dataclasses.replace(JOB, **other).key for other in others)}
    assert len(keys) == 1 + len(others)
    assert dataclasses.replace(JOB).key == JOB.key
    # More rows than there are of larger tables, and public bounds, are facts of the table.
    table = tables.BY_NAME[JOB.table]
    for other in ({"bounds": (0.0, 1.0)}, {"held": 0.5}, {"version": 2}, {"target": (0.0, 1.0)}):
        monkeypatch.setitem(tables.BY_NAME, JOB.table, dataclasses.replace(table, **other))
        assert JOB.key not in keys
        keys.add(JOB.key)


def test_new_rules_of_ours_leave_the_results_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(competitors.VERSIONS)
    before = {name: dataclasses.replace(JOB, competitor=name).key for name in names}
    trial = dataclasses.replace(JOB, competitor=TRIAL, setting=1)
    oracle = trial.key
    monkeypatch.setitem(competitors.VERSIONS, AUTO, competitors.VERSIONS[AUTO] + 1)
    after = {name: dataclasses.replace(JOB, competitor=name).key for name in names}
    assert {name for name in names if before[name] != after[name]} == {AUTO}
    monkeypatch.setitem(competitors.VERSIONS, ORACLE, competitors.VERSIONS[ORACLE] + 1)
    assert trial.key != oracle


def test_a_killed_run_goes_on_and_loses_nothing(tmp_path: Path) -> None:
    jobs = [dataclasses.replace(JOB, seed=seed) for seed in range(4)]
    store = Store(tmp_path)
    assert store.missing(jobs) == jobs
    for job in jobs[:2]:
        store.add(job, {"accuracy": 0.5})
    whole = store.path.read_bytes()
    for cut in range(len(whole) + 1):
        store.path.write_bytes(whole[:cut])
        again = Store(tmp_path)
        missing = again.missing(jobs)
        assert set(jobs[2:]) <= set(missing)
        for job in missing:
            again.add(job, {"accuracy": 0.25})
        finished = Store(tmp_path)
        assert finished.missing(jobs) == []
        assert len(finished.rows(jobs)) == 4
    assert [row["accuracy"] for row in finished.rows(jobs)] == [0.5, 0.5, 0.25, 0.25]


def test_a_failure_is_a_result_and_is_tried_again(tmp_path: Path) -> None:
    broken = dataclasses.replace(JOB, epsilon=-1.0)
    found = competitors.result(broken)
    assert set(found) == {"error"}
    store = Store(tmp_path)
    store.add(broken, found)
    assert Store(tmp_path).missing([broken]) == [broken]
    assert len(Results(store.rows([broken])).errors(AUTO)) == 1
    store.add(broken, {"accuracy": 0.5})
    assert Store(tmp_path).missing([broken]) == []


def test_a_table_that_cannot_be_read_is_no_failure_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread() -> Any:
        raise data.DataError("adult.data is not here")

    table = dataclasses.replace(tables.BY_NAME["adult"], read=unread)
    monkeypatch.setitem(tables.BY_NAME, "adult", table)
    words = ["--quick", "--only", "adult", "--workers", "0", "--out", str(tmp_path)]
    with pytest.raises(SystemExit, match=r"adult\.data is not here"):
        utility.main(words)
    assert not (tmp_path / "results.jsonl").exists()


def test_splits_are_fresh_and_cover_all_rows() -> None:
    train, test = judging.split(100, 0.25, 3)
    assert sorted([*train, *test]) == list(range(100))
    assert len(test) == 25
    assert not np.array_equal(test, judging.split(100, 0.25, 4)[1])


def test_scores_are_those_of_their_names() -> None:
    y = np.array([0, 1, 1, 0])
    sure = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]])
    found = judging.of_classes(y, sure, 2)
    assert found["accuracy"] == 0.75
    assert found["auc"] == 1.0
    assert found["log_loss"] == pytest.approx(-np.log([0.9, 0.8, 0.4, 0.7]).mean())
    assert "auc" not in judging.of_classes(y, np.full((4, 3), 1 / 3), 3)
    assert math.isfinite(judging.of_classes(y, np.eye(2)[1 - y], 2)["log_loss"])
    numbers = judging.of_numbers(np.array([1.0, 3.0]), np.array([2.0, 2.0]))
    assert numbers == {"r2": 0.0, "rmse": 1.0}


def test_differences_are_paired_and_the_worst_is_found() -> None:
    rows = []
    for seed, level in enumerate((60.0, 70.0, 80.0)):
        for name, above in (
            *((AUTO, 0.0), ("before", -2.0), ("diffprivlib", 1.0), (ORACLE, 3.0)),
            ("opacus", 3.5),
        ):
            rows.append(row(Job("digits", 9, name, 1.0, seed), level + above))
        rows.append(row(Job("adult", 9, AUTO, 0.5, seed), level))
        rows.append(row(Job("adult", 9, "diffprivlib-nb", 0.5, seed), level + seed - 1))
        rows.append(row(Job("adult", 9, ORACLE, 0.5, seed), level - 10))
        rows.append(row(Job("digits", 9, "none", None, seed), 99.0))
    # A split that only one of both has says nothing.
    rows.append(row(Job("digits", 9, "before", 1.0, 9), 100.0))
    found = figures.summary(Results(rows))
    assert found["digits_eps1"] == pytest.approx(70)
    assert found["worst_against_peers_points"] == pytest.approx(1)
    assert found["worst_against_peers_points_partly"] == pytest.approx(1)
    assert found["worst_against_peers_points_tuning"] == pytest.approx(0)
    assert found["points_against_peers"] == 3
    assert found["violations"] == 1
    assert found["mean_shortfall_points"] == pytest.approx(1.5)
    assert found["mean_difference_to_oracle_points"] == pytest.approx(-3.5)
    assert found["opacus_points_digits_eps1"] == pytest.approx(0.5)
    assert "mnist_eps1" not in found
    noisy = figures.Difference("adult", 1.0, "before", 4.0, 1.5)
    assert not noisy.beyond
    assert dataclasses.replace(noisy, standard_error=1.3).beyond
    assert dataclasses.replace(noisy, standard_error=math.nan).beyond


def test_the_oracle_judges_on_splits_that_did_not_choose(tmp_path: Path) -> None:
    size = dataclasses.replace(utility.SMOKE, trials=3, opacus=("breast-cancer",))
    store, tried = Store(tmp_path), list(utility.trials(size))
    assert list(utility.judged_oracles(size, store)) == []
    for job in tried:
        store.add(job, {"error": "lost"} if job.setting == 2 else {"accuracy": job.setting / 4})
    judged = list(utility.judged_oracles(size, store))
    assert {job.setting for job in judged} == {1}
    assert {job.competitor for job in judged} == {ORACLE, "opacus"}
    assert not {job.seed for job in judged} & {job.seed for job in tried}


def test_bounds_are_public_and_of_every_column() -> None:
    for name in ("digits", "breast-cancer", "wine", "diabetes", "synthetic"):
        rows = tables.rows_of(tables.smaller(tables.BY_NAME[name], 300))
        assert rows.bounds is not None
        low, high = rows.bounds
        assert low.shape == high.shape == (rows.X.shape[1],)
        assert (low < high).all()
        # Round numbers: a bound that was read off the rows would not be.
        for value in {*low.tolist(), *high.tolist()}:
            assert float(f"{value:.2g}") == value
        assert rows.unit.min() >= 0
        assert rows.unit.max() <= 1


def test_a_tiny_study_resumes_to_the_same_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"epsilons": (1.0,), "most_rows": 150, "trials": 1, "judgings": 1}
    monkeypatch.setattr(utility, "SMOKE", dataclasses.replace(utility.SMOKE, **small))
    out, first, second = tmp_path / "out", tmp_path / "1.json", tmp_path / "2.json"
    words = ["--smoke", "--only", "breast-cancer", "--workers", "0", "--out", str(out)]
    report = tmp_path / "report.md"
    utility.main([*words, "--json", str(first), "--report", str(report)])
    lines = (out / "results.jsonl").read_text().splitlines()
    (out / "results.jsonl").write_text("\n".join(lines[::2]) + "\n")
    fitted = []
    result = competitors.result
    monkeypatch.setattr(competitors, "result", lambda job: fitted.append(job) or result(job))
    utility.main([*words, "--json", str(second)])
    assert len(fitted) == len(lines) // 2
    before, after = (json.loads(path.read_text()) for path in (first, second))
    assert before.pop("study_seconds") > 0
    after.pop("study_seconds")
    assert before == after
    assert before["errors_auto"] == 0
    needed = ("breast_eps1", "worst_against_peers_points", "mean_shortfall_points")
    assert all(math.isfinite(before[name]) for name in needed)
    assert "Tables that judge" in report.read_text()


def test_a_failure_of_ours_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(competitors, "auto", lambda job, rows: 1 / 0)
    small = {"epsilons": (1.0,), "most_rows": 150, "oracles": ()}
    monkeypatch.setattr(utility, "SMOKE", dataclasses.replace(utility.SMOKE, **small))
    words = ["--smoke", "--only", "breast-cancer", "--workers", "0", "--out", str(tmp_path)]
    with pytest.raises(SystemExit, match="Ours failed"):
        utility.main(words)


PEER = """
import os
import numpy as np
from sklearn import linear_model, naive_bayes

def model(kind, random_state, **given):
    if random_state == 1:
        raise ValueError("no")
    if random_state == 2:
        os._exit(3)
    return kind(**given)

class Bounded(linear_model.LogisticRegression):
    def fit(self, X, y):
        assert np.linalg.norm(X, axis=1).max() <= 1.0000001
        return super().fit(X, y)

def LogisticRegression(epsilon, data_norm, C, fit_intercept, random_state):
    return model(Bounded, random_state, C=C, fit_intercept=fit_intercept)

def GaussianNB(epsilon, bounds, random_state):
    assert bounds == (0.0, 1.0)
    return model(naive_bayes.GaussianNB, random_state)

def LinearRegression(epsilon, bounds_X, bounds_y, random_state):
    assert (bounds_X, bounds_y) == ((0.0, 1.0), (0.0, 400.0))
    return model(linear_model.LinearRegression, random_state)
"""


def test_a_peer_that_fails_or_dies_costs_its_own_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "diffprivlib").mkdir()
    (tmp_path / "diffprivlib" / "__init__.py").touch()
    (tmp_path / "diffprivlib" / "models.py").write_text(PEER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for table, competitor, seeds in (
        ("breast-cancer", "diffprivlib", (0, 1, 2, 3)),
        ("wine", "diffprivlib-nb", (0, 1)),
        ("diabetes", "diffprivlib-linear", (0, 1)),
    ):
        jobs = [Job(table, 200, competitor, 1.0, seed) for seed in seeds]
        found = dict(peer.results(jobs, Path(sys.executable)))
        assert list(found) == jobs
        for job in jobs:
            assert (figures.measure_of(table) in found[job]) is (job.seed in (0, 3))
        assert found[jobs[1]]["error"].startswith("ValueError")
        if 2 in seeds:
            assert "ended" in found[jobs[2]]["error"]
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "nowhere"))
    with pytest.raises(RuntimeError, match="has it diffprivlib"):
        list(peer.results(jobs, Path(sys.executable)))
