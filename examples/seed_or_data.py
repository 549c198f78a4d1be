"""Does one record move a model more than the seed does? Hyland & Tople's first figure.

    python examples/seed_or_data.py [--data NAME] [--seeds 98] [--neighbours 100] [--out FILE.svg]

Trains logistic regression on every (seed, neighbouring dataset), then compares final weights that
differ in one record, in the seed, or in the seed alone with the same start. `digits/binary`, the
default, needs no files; the picture in the README is `--data mnist-binary`.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from rich.progress import Progress as Bar

from sordino.data import load, names
from sordino.data import neighbours as neighbouring
from sordino.objectives import ObjectiveSpec
from sordino.seeding import stream
from sordino.sgd import TrainSpec, train

PAIRS = 20_000


def pair_distances(weights: np.ndarray, vary: str) -> np.ndarray:
    """Distances of random pairs of runs [seed, neighbour, parameter] that differ in one axis."""
    rng = stream("example", vary)
    seeds, many = weights.shape[:2]
    s, t = rng.integers(0, seeds, (2, PAIRS))
    k, l = rng.integers(0, many, (2, PAIRS))  # noqa: E741
    if vary == "record":
        differ = k != l
        return np.linalg.norm(weights[s, k] - weights[s, l], axis=1)[differ]
    differ = s != t
    return np.linalg.norm(weights[s, k] - weights[t, k], axis=1)[differ]


def main() -> None:
    """Train, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="digits/binary", help=f"one of {', '.join(names())}")
    parser.add_argument("--seeds", type=int, default=98)
    parser.add_argument("--neighbours", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("seed_or_data.svg"))
    options = parser.parse_args()

    splits = load(options.data)
    data, recipe = splits.train, splits.recipe
    rows = 1 + stream("neighbours", options.data).choice(
        data.rows - 1, options.neighbours, replace=False
    )
    neighbours = neighbouring.replace_by_first(data, rows)
    spec = TrainSpec(
        ObjectiveSpec("logistic"), recipe.learning_rate, recipe.batch_size, steps=recipe.steps
    )
    started, weights = time.perf_counter(), {}
    for init in ("vary", "fixed"):
        with Bar() as bar:
            task = bar.add_task(f"{init} initial weights", total=options.seeds * len(neighbours))
            weights[init] = train(
                dataclasses.replace(spec, init=init),
                data,
                range(options.seeds),
                neighbours,
                progress=lambda p, bar=bar, task=task: bar.update(task, completed=p.runs_done),
            )[:, :, 0]
    runs = 2 * options.seeds * len(neighbours)
    print(f"{runs:,} runs in {time.perf_counter() - started:.1f} s")

    mpl.rcParams["svg.hashsalt"] = "sordino"
    figure, axes = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
    curves = [
        ("another record", pair_distances(weights["vary"], "record"), "#b5482a"),
        ("another seed, same start", pair_distances(weights["fixed"], "seed"), "#2a6fb5"),
        ("another seed", pair_distances(weights["vary"], "seed"), "#3d3d3d"),
    ]
    top = max(distances.max() for _, distances, _ in curves)
    for label, distances, colour in curves:
        axes.hist(
            distances,
            np.linspace(0, top, 160),
            density=True,
            color=colour,
            label=label,
            histtype="stepfilled",
        )
        print(f"{label}: median {np.median(distances):.4f}, largest {distances.max():.4f}")
    axes.set(
        xlabel="distance between final weights", ylabel="density",
        title=f"{options.data}, logistic regression, {runs:,} runs",
    )  # fmt: skip
    axes.set_yscale("log")
    axes.legend(frameon=False, loc="upper right")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(options.out, metadata={"Date": None})
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
