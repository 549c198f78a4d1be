"""Where sordino keeps what it can make or fetch again."""

from __future__ import annotations

import os
from pathlib import Path


def directory() -> Path:
    """`SORDINO_CACHE`, else `$XDG_CACHE_HOME/sordino`, else `~/.cache/sordino`; may not exist."""
    if given := os.environ.get("SORDINO_CACHE"):
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sordino"
