"""A ledger for tests, and its files as somebody else has them in hand."""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from contextlib import closing
from pathlib import Path

from sordino.accounting.profile import GaussianProfile
from sordino.privacy import Relation
from sordino.release.ledger import Charge, Ledger

DELTA = 1e-6


def charge() -> Charge:
    made = GaussianProfile(parameter=0.1, relation=Relation.REPLACE_ONE, theorem="a test")
    return Charge(made, made.epsilon(DELTA), DELTA)


def opened(path: Path, dataset: str = "a", epsilon: float = 2) -> Ledger:
    return Ledger(path, dataset=dataset, epsilon=epsilon, delta=DELTA)


def spent(path: Path, dataset: str = "a") -> int:
    return len(Ledger(path, dataset=dataset).status().entries)


class Files:
    """A ledger's files: kept, put back, edited, as somebody else would."""

    def __init__(self, path: Path) -> None:
        self.path, self.seal = path, path.with_name("ledger.db.seal")

    def kept(self) -> tuple[bytes, bytes]:
        """Both files. The ledger alone, without its log, has all that was committed."""
        return self.path.read_bytes(), self.seal.read_bytes()

    def put(self, ledger: bytes | None = None, seal: bytes | None = None) -> None:
        for log in self.path.parent.glob("ledger.db-*"):
            log.unlink()
        for place, content in ((self.path, ledger), (self.seal, seal)):
            if content is not None:
                place.write_bytes(content)

    def cut(self, rows: int) -> None:
        """Take the last releases away, and make everything fit whose key is in the file."""
        with closing(sqlite3.connect(self.path)) as on, on:
            for table in ("entry", "history", "budget"):
                for (name,) in on.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?",
                    (table,),
                ).fetchall():
                    on.execute(f"DROP TRIGGER {name}")
            for _ in range(rows):
                on.execute("DELETE FROM entry WHERE number = (SELECT MAX(number) FROM entry)")
                on.execute("DELETE FROM history WHERE number = (SELECT MAX(number) FROM history)")
            on.execute("UPDATE header SET entries = (SELECT COUNT(*) FROM entry)")
            on.execute(
                "UPDATE budget SET head = COALESCE((SELECT digest FROM entry WHERE "
                "entry.dataset = budget.dataset ORDER BY number DESC LIMIT 1), digest)"
            )

    def raise_budget(self, *, history: bool) -> None:
        """A hundred times the epsilon, with a right digest: its key lies in the ledger."""
        with closing(sqlite3.connect(self.path)) as on, on:
            secret = on.execute("SELECT secret FROM header").fetchone()[0]
            on.execute("UPDATE budget SET epsilon = 100 * epsilon")
            columns = "dataset, epsilon, delta, relation, rows_per_person, as_you_go, created"
            for row in on.execute(f"SELECT {columns} FROM budget").fetchall():
                text = json.dumps(["budget", *row]).encode()
                digest = hmac.new(secret, text, hashlib.sha256).hexdigest()
                update = "UPDATE budget SET digest = ?, head = ? WHERE dataset = ?"
                on.execute(update, (digest, digest, row[0]))
                if history:
                    where = "WHERE dataset = ? AND kind <> 'released'"
                    on.execute(f"UPDATE history SET digest = ? {where}", (digest, row[0]))
