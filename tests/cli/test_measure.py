"""`sordino measure`, stopped and killed and run again."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sordino import tasks
from sordino.intrinsic.grid import load
from sordino.models.constants import ObjectiveSpec
from sordino.sgd.spec import TrainSpec
from sordino.study import Study

SMALL = ("--data", "breast-cancer", "--seeds", 4, "--neighbours", 3)


def test_settings_are_those_of_the_dataset_unless_given(program, tmp_path: Path) -> None:
    out = tmp_path / "study"
    code, text, err = program("measure", *SMALL, "--out", out)
    assert (code, err) == (0, "")
    assert "logistic on breast-cancer: 400 steps" in text
    assert "32 runs: 4 seeds x 4 datasets (3 neighbours, and the data itself) x 2" in text
    assert "32 of them now, in" in text
    assert f"sordino measure show {out}" in text
    assert "INTERNAL" in text
    assert "no guarantee" in text
    found = load(out)
    assert found.spec == TrainSpec(ObjectiveSpec("logistic"), 0.5, 32, steps=400)
    assert found.dataset.name == "breast-cancer"
    assert found.inits == ("vary", "fixed")
    assert found.steps == tuple(range(40, 401, 40))

    code, text, _ = program("measure", *SMALL, "--out", out)
    assert code == 0
    assert "All of them were there already." in text


def test_every_setting_can_be_given(program, tmp_path: Path) -> None:
    out = tmp_path / "study"
    given = ("--model", "svm", "--steps", 60, "--batch-size", 16, "--learning-rate", 0.25)
    more = ("--l2", 0.01, "--init", "fixed", "--checkpoints", 3)
    code, text, _ = program("measure", *SMALL, *given, *more, "--out", out)
    assert code == 0
    assert "60 steps (as given), batches of 16, learning rate 0.25" in text
    found = load(out)
    assert found.spec == TrainSpec(ObjectiveSpec("huber-svm", l2=0.01), 0.25, 16, steps=60)
    assert found.inits == ("fixed",)
    assert found.steps == (20, 40, 60)


def test_until_converged_asks_the_papers_rule(program, tmp_path: Path) -> None:
    out = tmp_path / "study"
    code, text, _ = program("measure", *SMALL, "--model", "mlp", "--until-converged", "--out", out)
    assert code == 0
    assert "steps (converged, by 45 validation rows every 50 steps)" in text
    found = load(out)
    assert found.spec is not None
    assert found.spec.objective.kind == "mlp"
    assert found.spec.steps is not None
    assert found.spec.steps % 50 == 0


def test_a_file_of_ones_own(program, tmp_path: Path) -> None:
    draws = np.random.default_rng(3)
    ages = draws.integers(20, 90, size=200)
    lines = [f"{age},{draws.normal():.3f},{'yes' if age > 55 else 'no'}" for age in ages]
    table = tmp_path / "people.csv"
    table.write_text("\n".join(["age,weight,ill", *lines]) + "\n")
    common = ("--data", table, "--target", "ill", "--seeds", 2, "--neighbours", 2)
    code, text, err = program("measure", *common, "--steps", 20, "--out", tmp_path / "given")
    assert (code, err) == (0, "")
    assert load(tmp_path / "given").dataset.rows == 200
    assert load(tmp_path / "given").dataset.norm_bound == 1.0

    code, text, _ = program("measure", *common, "--data-norm", 2, "--out", tmp_path / "found")
    assert code == 0
    assert "converged, by 20 validation rows" in text
    assert load(tmp_path / "found").dataset.rows == 180
    assert load(tmp_path / "found").dataset.norm_bound == pytest.approx(math.sqrt(3))  # and the 1

    again = ("measure", *common, "--steps", 20, "--out", tmp_path / "given")
    code, text, _ = program(*again, "--data-norm", math.sqrt(2))
    assert code == 0
    assert "All of them were there already." in text
    code, _, err = program(*again, "--data-norm", 1)
    assert code == 2
    assert "Expected --data-norm=1.0 > 1. The intercept's 1 counts" in err


def test_a_study_of_the_old_meaning_says_how_to_go_on(program, tmp_path: Path) -> None:
    """Before, the intercept's 1 was left out of --data-norm: rows alone lay within it."""
    table = tmp_path / "people.csv"
    table.write_text("age,ill\n" + "".join(f"{age},{int(age > 55)}\n" for age in range(20, 90)))
    common = ("measure", "--data", table, "--target", "ill", "--seeds", 2, "--neighbours", 2)
    common += ("--steps", 10, "--out", tmp_path / "study")
    code, _, _ = program(*common, "--data-norm", math.hypot(2, 1))
    assert code == 0
    assert load(tmp_path / "study").dataset.norm_bound == 2.0  # as --data-norm 2 made it before
    code, _, err = program(*common, "--data-norm", 2)
    assert code == 2
    assert "Expected --data-norm=2.0 to be 2.23606797749979 for" in err
    assert "the intercept's 1 counts" in err.lower()
    code, text, _ = program(*common, "--data-norm", 2.23606797749979)
    assert code == 0
    assert "All of them were there already." in text


def test_a_network_has_no_intercept_in_its_norm(program, tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("age,ill\n" + "".join(f"{age},{int(age > 55)}\n" for age in range(20, 90)))
    common = ("measure", "--data", table, "--target", "ill", "--seeds", 2, "--neighbours", 2)
    common += ("--steps", 10, "--model", "mlp", "--data-norm", 1)
    assert program(*common, "--out", tmp_path / "study")[0] == 0
    assert load(tmp_path / "study").dataset.norm_bound == 1.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Expected --data NAME."),
        (("--data", "breast-cancer"), "Expected --out DIR."),
        ((*SMALL, "--out", "x", "--steps", 5, "--until-converged"), "or --until-converged, not"),
        ((*SMALL, "--out", "x", "--init", "vary,given"), "Expected --init=given"),
        ((*SMALL, "--out", "x", "--checkpoints", 0), "Expected --checkpoints=0 >= 1"),
        ((*SMALL, "--out", "x", "--learning-rate", -1), "Expected --learning-rate=-1.0 > 0"),
        ((*SMALL, "--out", "x", "--data-norm", 1), "Expected --data-norm=1.0 to be left out"),
        (("--data", "breast-cancr", "--out", "x"), "Did you mean breast-cancer"),
        (("--data", "digits", "--out", "x"), "to be 0 and 1"),
        ((*SMALL[:2], "--out", "x", "--neighbours", 500), "neighbours=500 <= 409"),
    ],
)
def test_usage_errors_are_one_sentence(program, tmp_path, monkeypatch, arguments, sentence) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = program("measure", *arguments)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_another_study_is_refused_with_the_difference(program, tmp_path: Path) -> None:
    out = tmp_path / "study"
    program("measure", *SMALL, "--out", out)
    code, _, err = program("measure", *SMALL, "--learning-rate", 0.1, "--out", out)
    assert code == 1
    assert "learning_rate.rate is 0.5 there and 0.1 here" in err
    assert err.count("\n") == 1


def test_failed_cells_are_said_and_tried_again_only_if_asked_for(program, tmp_path: Path) -> None:
    out = tmp_path / "study"
    # Weights are multiplied by -99 in every step.
    wild = (*SMALL, "--l2", 100, "--learning-rate", 1, "--out", out)
    code, text, err = program("measure", *wild)
    assert code == 1
    assert "8 of 8 cells FAILED" in err
    assert "runs diverged" in err
    assert "32 of them now" in text
    _, text, _ = program("measure", *wild)
    assert "All of them were there already." in text
    code, text, _ = program("measure", *wild, "--retry-failed")
    assert code == 1
    assert "32 of them now" in text


def test_ctrl_c_leaves_a_study_that_goes_on(program, tmp_path: Path, monkeypatch) -> None:
    out, write, cells = tmp_path / "study", Study.write, []

    def stop(self: Study, cell: object, weights: object) -> None:
        if len(cells) == 2:
            raise KeyboardInterrupt
        write(self, cell, weights)
        cells.append(cell)

    with monkeypatch.context() as patch:
        patch.setattr(Study, "write", stop)
        code, _, err = program("measure", *SMALL, "--out", out)
    assert code == 130
    assert err.startswith("Stopped. 2 of 8 cells are done.")
    assert err.count("\n") == 1
    assert (Study.open(out).status() == "done").sum() == 2
    code, text, _ = program("measure", *SMALL, "--out", out)
    assert code == 0
    assert "24 of them now" in text


def test_a_damaged_cell_is_repaired(program, tmp_path: Path) -> None:
    out = tmp_path / "study"
    program("measure", *SMALL, "--out", out)
    record = out / "cells" / "000001.json"
    record.write_bytes(record.read_bytes()[:-3])
    code, _, err = program("measure", *SMALL, "--out", out)
    assert code == 1
    assert "Pass --repair." in err
    code, text, _ = program("measure", *SMALL, "--out", out, "--repair")
    assert code == 0
    assert "\n4 of them now" in text


@pytest.mark.parametrize(
    "command",
    [
        ("measure", *SMALL, "--out", "study"),
        ("audit", "--data", "breast-cancer", "--method", "output-gd", "--epsilon", "1"),
        ("assess", "--quick", "--out", "study"),
        ("reproduce", "v1", "--quick", "--out", "study"),
    ],
    ids=lambda command: command[0],
)
def test_a_cluster_that_does_not_answer(command, program, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tasks, "_PATIENCE", 0.3)
    monkeypatch.chdir(tmp_path)
    code, _, err = program(*command, "--dask", "tcp://127.0.0.1:1")
    assert code == 2
    assert "dask=tcp://127.0.0.1:1" in err
    assert not list((tmp_path / "study").glob("*"))


LONGER = ("--data", "breast-cancer", "--seeds", "16", "--neighbours", "20", "--steps", "10000")
"""Sixteen cells of about a tenth of a second each."""


def _killed(out: Path, cells: int, delay: float) -> None:
    """Run the command, and kill it a moment after it has so many cells, or when it ends."""
    program = "from sordino.cli.main import main; main()"
    command = [sys.executable, "-c", program, "measure", *LONGER, "--out", str(out)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while running.poll() is None and len(list(out.glob("cells/*.json"))) < cells:
        time.sleep(0.005)
    time.sleep(delay)
    if running.poll() is None:
        running.send_signal(signal.SIGKILL)
    assert running.wait() in (0, -signal.SIGKILL)


def _content(out: Path) -> dict[str, bytes]:
    files = sorted(path for path in out.rglob("*") if path.is_file())
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in files}


@pytest.mark.slow
@pytest.mark.parametrize("kills", [12])
def test_killed_at_random_moments_it_ends_with_the_same_bytes(
    program, tmp_path: Path, kills: int
) -> None:
    whole = tmp_path / "whole"
    assert program("measure", *LONGER, "--out", whole)[0] == 0
    moments, left = random.Random(kills), 0
    out = tmp_path / "0"
    for kill in range(kills):
        status = Study.open(out).status() if (out / "study.json").exists() else np.array([])
        done = int((status == "done").sum())
        if done == 16:  # begin another one
            assert _content(out) == _content(whole)
            out, done = tmp_path / str(kill), 0
        # Sometimes before anything is there, else in the middle of the cells to come.
        soon = done + moments.randrange(0, 6)
        _killed(out, soon, moments.uniform(0.0, 0.3))
        left += not out.exists() or len(list(out.glob("cells/*.json"))) < 16
    assert left >= kills // 2  # it was killed on the way, not after it had ended
    code, _, _ = program("measure", *LONGER, "--out", out)
    assert code == 0
    assert _content(out) == _content(whole)
