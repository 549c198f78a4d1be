"""Programs that the ledger's tests start and kill: `python ledger_worker.py PROGRAM ...`."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from pathlib import Path

from sordino.accounting import gaussian
from sordino.accounting.profile import GaussianProfile
from sordino.privacy import Relation
from sordino.release.ledger import BudgetExceeded, Charge, Ledger, LedgerWentBack

DELTA = 1e-6
MU = 0.1
COST = gaussian.epsilon(MU, DELTA)


def charge() -> Charge:
    """One Gaussian release; as the budgets' whole delta is promised, promises never add up."""
    made = GaussianProfile(parameter=MU, relation=Relation.REPLACE_ONE, theorem="a test")
    return Charge(made, COST, DELTA, what="a model")


def room_for(releases: int) -> float:
    """The epsilon that so many of these releases cost, and one more does not fit."""
    return gaussian.epsilon(MU * releases**0.5, DELTA)


def ledger(path: str, dataset: str, releases: int) -> Ledger:
    """A ledger with room for so many releases, made on first use."""
    return Ledger(path, dataset=dataset, epsilon=room_for(releases), delta=DELTA)


def release(into: Ledger, directory: Path) -> None:
    """Record, write the model, say so: as the estimators do it."""
    entry = into.record(charge())
    draft = directory / f"{entry.id}.draft"
    with draft.open("wb") as file:
        file.write(b"weights" * 1000)
        file.flush()
        os.fsync(file.fileno())
    model = directory / f"{entry.id}.model"
    draft.rename(model)
    entry.written(model)


def race() -> None:
    """For every line "path, dataset, room": try one release, and say who won."""
    print("ready", flush=True)
    for line in sys.stdin:
        path, dataset, room = json.loads(line)
        try:
            print(ledger(path, dataset, room).record(charge()).id, flush=True)
        except BudgetExceeded:
            print("refused", flush=True)


def releases(path: str, dataset: str, room: str, directory: str) -> None:
    """Release until the budget is spent, or somebody kills this."""
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        while True:
            release(ledger(path, dataset, int(room)), Path(directory))
    except BudgetExceeded:
        print("spent", flush=True)


def killed_at_every_step(directory: str) -> None:
    """A first use of a ledger, killed before its first step, before its second, and so on.

    A step is a call that Python audits or a statement of SQL. Prints for each what the next process
    finds.
    """
    found = []
    finished = False
    while not finished:
        place = Path(directory) / str(len(found))
        place.mkdir()
        path = str(place / "ledger.db")
        child = os.fork()
        if child == 0:
            _die_before(len(found))
            release(ledger(path, "a", 2), place)
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert ended in (0, -signal.SIGKILL)
        finished = ended == 0
        status = ledger(path, "a", 2).status()
        ledger(path, "a", 2).record(charge())  # whatever happened, it can go on
        models = [model.stem for model in place.glob("*.model")]
        found.append({"models": models, "entries": {e.id: e.status for e in status.entries}})
    print(json.dumps(found))


def cut_after_every_kill(directory: str) -> None:
    """A later release, killed before each of its steps; then the copy from before is put back.

    Prints for each whether it was recorded, whether its model is out, and what the next process
    says of the copy.
    """
    found = []
    finished = False
    while not finished:
        place = Path(directory) / str(len(found))
        place.mkdir()
        path = place / "ledger.db"
        ledger(str(path), "a", 9).record(charge())
        before = path.read_bytes()
        child = os.fork()
        if child == 0:
            _die_before(len(found))
            release(ledger(str(path), "a", 9), place)
            os._exit(0)
        finished = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        recorded = len(ledger(str(path), "a", 9).status().entries) == 2
        now = path.read_bytes()
        path.write_bytes(before)
        try:
            assert len(ledger(str(path), "a", 9).status().entries) == 1
            answer = "accepted"
        except LedgerWentBack:
            answer = "refused"
        path.write_bytes(now)
        ledger(str(path), "a", 9).record(charge())  # whatever happened, it can go on
        model = any(place.glob("*.model"))
        found.append({"recorded": recorded, "model": model, "old copy": answer})
    print(json.dumps(found))


def _die_before(number: int) -> None:
    """Kill this process before its next step but `number`."""
    left = number

    def step(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == -1:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, _: object) -> None:
        if event.startswith(("open", "os.", "sqlite3.")) and event != "os.kill":
            step()

    def connect(*arguments: object, **named: object) -> sqlite3.Connection:
        connection = _connect(*arguments, **named)
        connection.set_trace_callback(step)
        return connection

    _connect, sqlite3.connect = sqlite3.connect, connect
    sys.addaudithook(hook)


PROGRAMS = {
    "race": race,
    "releases": releases,
    "killed-at-every-step": killed_at_every_step,
    "cut-after-every-kill": cut_after_every_kill,
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
