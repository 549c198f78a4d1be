"""The small paper in place of the real ones."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import small_paper
from small_paper import Sums

from sordino.data.sources import DataError
from sordino_papers import claims, quantities, reproduction, runs


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Reads, runs and judges the small paper; counts how often each kind is made."""
    made = []

    def arithmetic(settings, bench):
        made.append(settings)
        bench.tell(1, 1)
        if "grids" in settings:
            parts = [bench.numbers(f"small/{name}")["values"] for name in settings["grids"]]
            return {"values": np.concatenate(parts)}
        return small_paper.values(settings)

    def absent(settings, bench):
        raise DataError("The file somewhere.csv is missing.")

    for name, make in (("arithmetic", arithmetic), ("absent", absent)):
        monkeypatch.setitem(runs.makers(), name, make)
        monkeypatch.setitem(runs.SOURCES, name, ())
    texts = {"text": small_paper.TEXT}

    def papers():
        return {"small": claims.read("small", texts["text"])}

    monkeypatch.setattr(quantities, "registry", lambda: dict.fromkeys(Sums.names(), Sums))
    monkeypatch.setattr(claims, "papers", papers)

    def run(which="all", **named):
        named.setdefault("directory", tmp_path / "kept")
        return reproduction.reproduce(which, pictures=False, **named)

    return SimpleNamespace(
        run=run,
        made=made,
        texts=texts,
        kinds=runs.makers(),
        arithmetic=arithmetic,
    )
