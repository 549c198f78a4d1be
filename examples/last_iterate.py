"""Releasing only the final model: does privacy run out as training goes on?

    python examples/last_iterate.py [--n 10000] [--noise-multiplier 40] [--out FILE.svg]

For regularised logistic regression by noisy full-batch gradient descent, the epsilon of releasing
every iterate grows without end; the epsilon of the last iterate alone converges. For a network
nothing of the kind holds, and the example prints the refusal.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from rich.progress import track

from sordino import Relation
from sordino.models.constants import ObjectiveSpec
from sordino.proofs import Proofs, prove
from sordino.sgd.spec import TrainSpec

DELTA = 1e-6
L2_WEIGHTS = (0.001, 0.01, 0.1)


def training(n: int, noise: float, l2: float, steps: int) -> TrainSpec:
    """Noisy gradient descent on all records, rows of norm at most 1."""
    return TrainSpec(
        ObjectiveSpec("logistic", l2=l2, intercept=False),
        learning_rate=2.0,
        batch_size=n,
        steps=steps,
        order="fixed",
        max_grad_norm=1.0,
        noise_multiplier=noise,
    )


def proofs(spec: TrainSpec, n: int) -> Proofs:
    """What is proved for one record with or without effect, if only the final weights leave."""
    constants = spec.objective.constants(norm_bound=1.0)
    return prove(spec, constants, n, Relation.ZERO_OUT, DELTA)


def epsilon(found: Proofs, method: str) -> float:
    """Epsilon by one method."""
    return next(row.value for row in found.findings if row.method == method and row.applies)


def draw(args: argparse.Namespace) -> None:
    """Epsilon against steps: composition, and the last iterate at three strengths of l2."""
    steps = np.unique(np.geomspace(1, 100_000, 60).round().astype(int))
    figure, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    for l2 in track(L2_WEIGHTS[::-1], "Proving"):
        specs = [training(args.n, args.noise_multiplier, l2, int(count)) for count in steps]
        found = [proofs(spec, args.n) for spec in specs]
        if l2 == L2_WEIGHTS[-1]:
            every = [epsilon(each, "pld") for each in found]
            axes.plot(steps, every, "k--", label="every iterate released (exact composition)")
        last = [epsilon(each, "last-iterate") for each in found]
        axes.plot(steps, last, label=f"only the final model, l2 = {l2:g}")
        print(f"l2 = {l2:g}: final model after 100,000 steps epsilon {last[-1]:.3f}, ", end="")
        print(f"every iterate {every[-1]:.1f}")
    axes.set(
        xscale="log", yscale="log", xlabel="steps", ylabel=f"proved epsilon (delta = {DELTA:g})"
    )
    axes.set_title("Noisy gradient descent, regularised logistic regression")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(args.out, metadata={"Date": None} if args.out.suffix == ".svg" else None)
    print(f"drawn: {args.out}")


def main() -> None:
    """Draw, then ask the same about a network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10_000, help="records")
    parser.add_argument("--noise-multiplier", type=float, default=40.0, help="noise over the clip")
    parser.add_argument("--out", type=Path, default=Path("last_iterate.svg"), help="picture")
    args = parser.parse_args()
    mpl.rcParams["svg.hashsalt"] = "sordino"  # the same bytes for the same picture
    draw(args)
    convex = training(args.n, args.noise_multiplier, 0.01, 1000)
    network = dataclasses.replace(convex, objective=ObjectiveSpec("mlp", l2=0.01))
    refused = next(row for row in proofs(network, args.n).findings if row.method == "last-iterate")
    print(f"A network instead: {refused.reason}")


if __name__ == "__main__":
    main()
