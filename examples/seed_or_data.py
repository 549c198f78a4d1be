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
from sordino.models import ObjectiveSpec
from sordino.randomness import stream
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


def at_least_two(text: str) -> int:
    """Read a number of seeds or neighbours; a pair needs two."""
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 1")
    return int(text)


def parse() -> argparse.Namespace:
    """Read the command line; refuse what cannot work before anything is trained."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    binary = [name for name in names() if name not in ("digits", "mnist")]
    parser.add_argument("--data", default="digits/binary", choices=binary, metavar="NAME",
                        help="a dataset with two classes; see `sordino data list`")  # fmt: skip
    parser.add_argument("--seeds", type=at_least_two, default=98, help="runs of each dataset")
    parser.add_argument("--neighbours", type=at_least_two, default=100, help="datasets")
    parser.add_argument("--out", type=Path, default=Path("seed_or_data.svg"),
                        help="picture to write; its ending says which kind")  # fmt: skip
    options = parser.parse_args()
    if not options.out.absolute().parent.is_dir():
        parser.error(f"there is no directory {options.out.absolute().parent}")
    return options


def main() -> None:
    """Train, compare, draw."""
    options = parse()
    splits = load(options.data)
    data, recipe = splits.train, splits.recipe
    rows = 1 + stream("neighbours", options.data).choice(
        data.rows - 1, min(options.neighbours, data.rows - 1), replace=False
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
            distances, np.linspace(0, top, 160), density=True, color=colour, alpha=0.8,
            label=label, histtype="stepfilled",
        )  # fmt: skip
        print(f"{label}: median {np.median(distances):.4f}, largest {distances.max():.4f}")
    axes.set(
        xlabel="distance between final weights", ylabel="density",
        title=f"{options.data}, logistic regression, {runs:,} runs",
    )  # fmt: skip
    axes.set_yscale("log")
    figure.legend(frameon=False, loc="outside lower center", ncols=3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(options.out, metadata={"Date": None})
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
