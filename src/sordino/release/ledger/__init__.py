"""The ledger: a budget per named dataset, and every release written down before the model leaves.

```python
with Ledger("ledger.db", dataset="patients-2026", epsilon=2, delta=1e-6):
    model.fit(X, y)
```

A release is recorded, on the disk, before anybody gets the model, or its directory its name. A
crash in between leaves the budget spent and no model, never the reverse; nothing is ever given
back. Processes on one machine may share a ledger: of two that race for the last of a budget, one
wins.

Beside `FILE` lies `FILE.seal`, with a key and how far the ledger had come: an older copy put in
its place is refused, and so is one that was edited or cut. While a `Ledger` lives it also remembers
what it saw. What nobody can see: an older copy of *both* files, put back while nothing has the
ledger open, unless its head (`sordino ledger head`) was noted elsewhere; and whoever may write both
files can forge both. SQLite's write-ahead log needs a local disk, as the machines of a network file
system do not see each other's locks; `FILE-wal` and `FILE-shm`, where they exist, belong to it.
"""

from sordino.release.ledger.budget import BudgetExceeded, Charge, LedgerError, Line, Status
from sordino.release.ledger.ledger import Entry, Ledger, current, is_open, new_id
from sordino.release.ledger.rows import Head, LedgerWentBack

__all__ = [
    "BudgetExceeded",
    "Charge",
    "Entry",
    "Head",
    "Ledger",
    "LedgerError",
    "LedgerWentBack",
    "Line",
    "Status",
    "current",
    "is_open",
    "new_id",
]
