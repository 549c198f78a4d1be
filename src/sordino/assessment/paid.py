"""A release that was charged for, and whose model a kill kept from getting its name.

A bundle is written whole, then recorded, then named (`mechanisms/bundle.py`). Stopped between the
last two, it is paid for and lies there: the study that goes on takes it, and is charged once.
"""

from __future__ import annotations

import os
from pathlib import Path

from sordino import _check
from sordino.mechanisms import bundle
from sordino.mechanisms.certificate import CertificateError
from sordino.mechanisms.ledger import Entry, current
from sordino.mechanisms.ledger_open import is_open


def paid(root: Path, model: str = "model") -> tuple[Path, Entry] | None:
    """The bundle without its name that the open ledger was charged for, if there is one."""
    ledger = current() if is_open() else None
    if ledger is None:
        return None
    for half in sorted(root.glob(f".{model}.*.partial")):
        try:
            line = bundle.read(half).certificate.ledger_entry
        except (CertificateError, _check.InvalidArgument):  # not whole: not recorded either
            continue
        if line is not None and (entry := ledger.entry(line)) is not None:
            return half, entry
    return None


def finish(root: Path, model: str) -> None:
    """Give it its name, and tell the ledger; only for whoever has the directory to himself."""
    found = paid(root, model)
    if found is not None and not (root / model).exists():
        half, entry = found
        os.rename(half, root / model)
        entry.written(root / model)
