"""Which way to draw batches: epsilon against noise for shuffled, Poisson and allocated ones.

python examples/sampling.py [--n 60000] [--batch-size 256] [--epochs 20] [--out FILE.svg]
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.progress import track

from sordino import Relation
from sordino.accounting.dp_sgd import pld
from sordino.report import figures

DELTA = 1e-5
RELATIONS = {
    "shuffle": Relation.ZERO_OUT,
    "poisson": Relation.ADD_OR_REMOVE_ONE,
    "allocation": Relation.ADD_OR_REMOVE_ONE,
}


def main() -> None:
    """Draw the figure of docs/accounting.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=60_000)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--out", default="sampling.svg")
    given = parser.parse_args()
    batches = given.n // given.batch_size
    run = given.batch_size / given.n, given.epochs * batches
    series: dict[str, list[tuple[float, float]]] = {}
    for noise in track(np.geomspace(0.6, 4, 14).tolist(), "Accounting"):
        for sampling, relation in RELATIONS.items():
            how = {"sampling": sampling, "relation": relation, "steps_per_epoch": batches}
            epsilon = pld(noise, *run, **how).epsilon(DELTA)
            series.setdefault(f"{sampling} ({relation.value})", []).append((noise, epsilon))
    title = f"{given.n:,} records, batches of {given.batch_size}, {given.epochs} epochs"
    panel = "", "noise multiplier", f"epsilon at delta = {DELTA:g}", series
    figures.growth(given.out, title, panel)
    print(f"The figure: {given.out}")


if __name__ == "__main__":
    main()
