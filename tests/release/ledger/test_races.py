"""Law 9, and what a kill can do: the ledger shared by processes that race and die."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sordino.release.ledger import BudgetExceeded, Ledger
from sordino.release.mechanism import SLACK

WORKER = Path(__file__).with_name("ledger_worker.py")
_spec = importlib.util.spec_from_file_location("ledger_worker", WORKER)
assert _spec is not None
assert _spec.loader is not None
worker = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(worker)


@contextmanager
def started(*arguments: str, times: int = 1) -> Iterator[list[subprocess.Popen[str]]]:
    """Worker processes that are past their imports; killed at the end."""
    command = [sys.executable, str(WORKER), *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(times)]
    try:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


def run_round(racers: list[subprocess.Popen[str]], path: Path, dataset: str, room: int) -> None:
    """All racers try one release at once: exactly `room` win, and the file knows them."""
    order = json.dumps([str(path), dataset, room]) + "\n"
    for racer in racers:
        racer.stdin.write(order)
    for racer in racers:  # nothing was sent before: they start together
        racer.stdin.flush()
    answers = [racer.stdout.readline().strip() for racer in racers]
    winners = [answer for answer in answers if answer != "refused"]
    assert len(winners) == room
    status = Ledger(path, dataset=dataset).status()
    assert sorted(winners) == sorted(line.id for line in status.entries)
    assert status.spent.epsilon <= status.budget.epsilon * (1 + SLACK)


def test_two_processes_race_for_the_last_of_a_budget_and_one_wins(tmp_path):
    with started("race", times=2) as racers:
        for number in range(25):  # in a new file: they race to make it, too
            run_round(racers, tmp_path / f"{number}.db", "a", 1)


@pytest.mark.slow
def test_eight_processes_race_for_the_last_of_hundreds_of_budgets(tmp_path):
    chance = random.Random(9)
    with started("race", times=8) as racers:
        for number in range(400):
            path = tmp_path / f"{number // 50}.db"
            run_round(racers, path, f"round-{number}", chance.randint(1, 7))


class Kills:
    """Rounds of two fresh processes that release from one budget, each killed at some moment."""

    ROOM = 12

    def __init__(self, directory: Path) -> None:
        self.path = directory / "ledger.db"
        self.models = directory / "models"
        self.models.mkdir()
        self.chance = random.Random(5)
        self.length = self._length_of_a_release()
        self.outcomes: Counter[str] = Counter()

    def _length_of_a_release(self) -> float:
        began = time.monotonic()
        for _ in range(20):
            worker.release(worker.ledger(str(self.path), "measured", 100), self.models)
        return (time.monotonic() - began) / 20

    def round(self, number: int) -> None:
        dataset = f"round-{number}"
        arguments = (str(self.path), dataset, str(self.ROOM), str(self.models))
        with started("releases", *arguments, times=2) as processes:
            for process in processes:
                process.stdin.write("go\n")
                process.stdin.flush()
            for process in processes:
                time.sleep(self.chance.uniform(0, 4 * self.length))
                process.kill()
                process.wait()
        self.check(worker.ledger(str(self.path), dataset, self.ROOM))

    def check(self, ledger: Ledger) -> None:
        status = ledger.status()
        assert len(status.entries) <= self.ROOM
        assert status.spent.epsilon <= status.budget.epsilon * (1 + SLACK)
        for line in status.entries:
            model = self.models / f"{line.id}.model"
            if line.status == "written":
                assert model.exists()
            else:
                assert line.status == "recorded"
                assert "the model may have left, so the budget stays spent" in line.explanation
            self.outcomes[f"{line.status}, {'model' if model.exists() else 'no model'}"] += 1
        self.outcomes["untouched"] += not status.entries
        # Nobody left a lock behind, and what was recorded stays spent.
        for _ in range(self.ROOM - len(status.entries)):
            worker.release(ledger, self.models)
        with pytest.raises(BudgetExceeded):
            ledger.record(worker.charge())

    def check_no_model_without_its_record(self) -> None:
        budgets = Ledger.datasets(self.path)
        known = {
            line.id
            for budget in budgets
            for line in Ledger(self.path, dataset=budget.dataset).status().entries
        }
        models = {model.stem for model in self.models.glob("*.model")}
        assert models <= known


def test_a_kill_never_lets_a_model_out_without_its_record(tmp_path):
    kills = Kills(tmp_path)
    for number in range(3):
        kills.round(number)
    kills.check_no_model_without_its_record()


@pytest.mark.slow
def test_kills_at_fifty_random_moments(tmp_path):
    kills = Kills(tmp_path)
    for number in range(50):
        kills.round(number)
    kills.check_no_model_without_its_record()
    # The kills did land in all places, between recording and writing as well.
    assert kills.outcomes["recorded, no model"] > 0
    assert kills.outcomes["recorded, model"] > 0
    assert kills.outcomes["written, model"] > 0


def test_killed_before_every_step_of_a_first_release(tmp_path):
    command = [sys.executable, str(WORKER), "killed-at-every-step", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    seen = []
    for each in json.loads(done.stdout):
        statuses = list(each["entries"].values())
        assert set(each["models"]) <= set(each["entries"])
        seen.append((statuses, len(each["models"])))
    # In this order and no other: nothing, recorded, the model as well, and marked as written.
    stages = [stage for number, stage in enumerate(seen) if stage not in seen[:number]]
    assert stages == [([], 0), (["recorded"], 0), (["recorded"], 1), (["written"], 1)]
    assert seen == sorted(seen, key=stages.index)
    assert len(seen) > 40
