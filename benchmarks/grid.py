"""How fast the engine trains, against what this machine can do at all, in one run.

    python benchmarks/grid.py [--json FILE] [--smoke] [--data-dir DIR]

Every requirement is a ratio of two things measured in the same run, because machines differ and
are noisy. GFLOPS are counted as 4 x batch x parameters x runs x steps (two products a step, two
operations a multiply-add; padding not counted). A convolution uses a parameter at every pixel, so
for the CNN the multiply-adds of its layers are counted instead (`Cnn.step_operations`; those
with the zeros around an image are among them).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from sordino.data import load
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.models import ObjectiveSpec, build
from sordino.randomness import stream
from sordino.sgd import TrainSpec, train
from sordino.sgd.kernels import full_batch
from sordino.tasks import available_cores

REQUIRED = {
    "wide_fraction_of_peak": (">=", 0.30),
    "wide_over_plain_loop": (">=", 1000.0),
    "deep_fraction_of_gather": (">=", 0.20),
    "full_batch_over_seed_by_seed": (">=", 4.0),
    "mlp_fraction_of_peak": (">=", 0.10),
    "cnn_fraction_of_peak": (">=", 0.05),
    "cnn_shared_over_apart": (">=", 2.0),
    "dpsgd_over_plain_time": ("<=", 1.5),
}


@dataclasses.dataclass(frozen=True)
class Size:
    """How much to run: the papers' sizes, or seconds for CI."""

    binary: str
    images: str
    peak_side: int
    steps: int
    wide: tuple[int, int]
    plain_runs: int
    deep_seeds: int
    full_batch_seeds: int
    mlp: tuple[int, int, int]
    cnn: tuple[int, int, int]
    repeats: int


FULL = Size(
    "mnist-binary", "mnist", 2048, 1850, (40, 100), 20, 2000, 2000, (16, 100, 200), (2, 40, 60), 3
)
SMOKE = Size("digits/binary", "digits", 256, 40, (4, 20), 2, 32, 32, (2, 10, 10), (1, 4, 3), 1)


def best_time(work: Callable[[], object], repeats: int) -> float:
    """Least of several timings, after one run to warm up."""
    work()
    return min(_time(work) for _ in range(repeats))


def _time(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


class Peak:
    """The fastest float32 matrix product seen so far: one on all cores, or one on each.

    Looked for before, between and after the measurements, because other work on the machine may
    slow any one look, and a peak that is too low would flatter every fraction of it.
    """

    def __init__(self, side: int) -> None:
        self.side, self.gflops = side, 0.0
        self.cores = available_cores()
        self.matrices = [torch.randn(side, side) for _ in range(2)]
        self.outs = [torch.empty(side, side) for _ in range(self.cores)]

    def look(self) -> None:
        """Time both kinds once more."""
        operations = 2 * self.side**3
        torch.set_num_threads(self.cores)
        together = best_time(lambda: torch.mm(*self.matrices, out=self.outs[0]), 8)
        with ThreadPoolExecutor(
            self.cores, initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            each = best_time(lambda: list(pool.map(self._product, range(self.cores))), 8)
        self.gflops = max(
            self.gflops, operations / together / 1e9, self.cores * operations / each / 1e9
        )

    def _product(self, core: int) -> None:
        torch.mm(*self.matrices, out=self.outs[core])


def grid_neighbours(dataset: Dataset, many: int) -> Neighbours:
    rows = 1 + stream("benchmark", "neighbours").choice(dataset.rows - 1, many, replace=False)
    return neighbouring.replace_by_first(dataset, rows)


def met_at_once(dataset: Dataset, many: int) -> Neighbours:
    """Neighbours that differ in the first batch of a fixed order: nothing of a run is shared."""
    rows = np.arange(many)
    return neighbouring.replace(dataset, rows % 32, dataset.X[rows + 32], dataset.y[rows + 32])


def grid_time(spec: TrainSpec, dataset: Dataset, seeds: int, neighbours: Neighbours) -> float:
    return _time(lambda: train(spec, dataset, range(seeds), neighbours))


def plain_loop_runs_per_s(spec: TrainSpec, dataset: Dataset, runs: int) -> float:
    """The same training as people write it: nn.Linear, one run after the other."""
    X, y = torch.tensor(dataset.X[1:]), torch.tensor(dataset.y[1:], dtype=torch.float32)
    speeds = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        plain_run(spec, X, y, seed=0, steps=20)
        times = [_time(lambda s=s: plain_run(spec, X, y, s, spec.steps)) for s in range(runs)]
        speeds.append(1 / min(times))  # the best, as for the grid
    return max(speeds)


def plain_run(spec: TrainSpec, X: torch.Tensor, y: torch.Tensor, seed: int, steps: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    model = torch.nn.Linear(X.shape[1], 1)
    torch.nn.init.xavier_uniform_(model.weight, generator=generator)
    torch.nn.init.zeros_(model.bias)
    optimiser = torch.optim.SGD(model.parameters(), lr=spec.schedule.rate)
    loss = torch.nn.BCEWithLogitsLoss()
    order = torch.randperm(len(X), generator=generator)
    start = 0
    for _ in range(steps):
        if start >= len(X):
            order, start = torch.randperm(len(X), generator=generator), 0
        batch = order[start : start + spec.batch_size]
        start += spec.batch_size
        optimiser.zero_grad()
        loss(model(X[batch]).squeeze(1), y[batch]).backward()
        optimiser.step()


def gather_time(dataset: Dataset, parameters: int, seeds: int, batch: int, steps: int) -> float:
    """Time to do nothing but fetch the deep grid's rows, in chunks that stay in cache."""
    torch.set_num_threads(1)
    rows = torch.randn(dataset.rows, parameters)
    chunk, sampled = min(64, seeds), min(steps, 300)
    threads = available_cores()
    index = torch.randint(0, dataset.rows, (threads, sampled, chunk * batch), dtype=torch.int32)
    out = [torch.empty(chunk * batch, parameters) for _ in range(threads)]

    def fetch(worker: int) -> None:
        torch.set_num_threads(1)
        for step in range(sampled):
            torch.index_select(rows, 0, index[worker, step], out=out[worker])

    with ThreadPoolExecutor(threads) as pool:
        once = best_time(lambda: list(pool.map(fetch, range(threads))), 5)
    return once * (seeds / (threads * chunk)) * (steps / sampled)


def wide_and_private(figures: dict[str, float], size: Size, data: Dataset, batch: int) -> None:
    seeds, many = size.wide
    spec = TrainSpec(ObjectiveSpec("logistic"), 0.5, batch, steps=size.steps)
    private = dataclasses.replace(spec, max_grad_norm=0.5, noise_multiplier=1.0)
    neighbours = grid_neighbours(data, many)
    train(private, data, range(1), neighbours)  # compiles what is compiled
    plain_times, private_times = [], []
    for _ in range(size.repeats):  # side by side, so that both see the same weather
        plain_times.append(grid_time(spec, data, seeds, neighbours))
        private_times.append(grid_time(private, data, seeds, neighbours))
    seconds, runs = min(plain_times), seeds * many
    parameters = data.features + 1
    gflops = 4 * batch * parameters * runs * size.steps / seconds / 1e9
    plain = plain_loop_runs_per_s(spec, data, size.plain_runs)
    figures["wide_runs_per_s"] = runs / seconds
    figures["wide_gflops"] = gflops
    figures["plain_loop_runs_per_s"] = plain
    figures["wide_over_plain_loop"] = figures["wide_runs_per_s"] / plain
    figures["dpsgd_runs_per_s"] = runs / min(private_times)
    figures["dpsgd_over_plain_time"] = min(private_times) / seconds


def deep(figures: dict[str, float], size: Size, data: Dataset, batch: int) -> None:
    spec = TrainSpec(ObjectiveSpec("logistic"), 0.5, batch, steps=size.steps)
    pair = neighbouring.replace(data, [1], data.X[:1], data.y[:1])
    train(spec, data, range(2), pair)
    seconds = min(grid_time(spec, data, size.deep_seeds, pair) for _ in range(size.repeats))
    limit = gather_time(data, data.features + 1, size.deep_seeds, batch, size.steps)
    figures["deep_runs_per_s"] = 2 * size.deep_seeds / seconds
    figures["gather_runs_per_s"] = 2 * size.deep_seeds / limit
    figures["deep_fraction_of_gather"] = limit / seconds


def full_batches(figures: dict[str, float], size: Size, data: Dataset) -> None:
    """Noisy gradient descent, as audits run it: against the same runs, taken one by one."""
    spec = TrainSpec(
        ObjectiveSpec("logistic", l2=0.001),
        2.0,
        data.rows,
        steps=38,
        order="fixed",
        max_grad_norm=1.0,
        noise_multiplier=20.0,
        init="fixed",
        dtype="float64",
    )
    pair = neighbouring.replace(data, [1], data.X[:1], data.y[:1])
    times: dict[int, list[float]] = {full_batch.FEWEST: [], sys.maxsize: []}
    for fewest in times:
        full_batch.FEWEST = fewest
        train(spec, data, range(8), pair)  # compiles what is compiled
    for _ in range(size.repeats):
        for fewest, seconds in times.items():
            full_batch.FEWEST = fewest
            seconds.append(grid_time(spec, data, size.full_batch_seeds, pair))
    full_batch.FEWEST, _ = times
    together, alone = (min(seconds) for seconds in times.values())
    figures["full_batch_runs_per_s"] = 2 * size.full_batch_seeds / together
    figures["full_batch_over_seed_by_seed"] = alone / together


def networks(figures: dict[str, float], size: Size, binary: Dataset, images: Dataset) -> None:
    seeds, many, steps = size.mlp
    spec = TrainSpec(ObjectiveSpec("mlp"), 0.5, 32, steps=steps, order="fixed")
    neighbours = met_at_once(binary, many)
    seconds = best_time(lambda: grid_time(spec, binary, seeds, neighbours), size.repeats)
    parameters = build(spec.objective, binary.features).parameters
    figures["mlp_runs_per_s_per_1000_steps"] = seeds * len(neighbours) * steps / seconds / 1000
    operations = 4 * 32 * parameters * seeds * len(neighbours) * steps
    figures["mlp_gflops"] = operations / seconds / 1e9
    seeds, many, steps = size.cnn
    spec = TrainSpec(ObjectiveSpec("cnn"), 0.1, 32, steps=steps, order="fixed")
    neighbours = met_at_once(images, many)
    seconds = best_time(lambda: grid_time(spec, images, seeds, neighbours), size.repeats)
    objective = build(spec.objective, images.features, images.image_shape)
    operations = objective.step_operations(32) * seeds * len(neighbours) * steps
    figures["cnn_runs_per_s_per_1000_steps"] = seeds * len(neighbours) * steps / seconds / 1000
    figures["cnn_gflops"] = operations / seconds / 1e9
    # The paper's 0.59 passes over the data, in fewer steps: most of most runs is shared.
    few = images.take(range(54 * steps))
    shuffled, replaced = dataclasses.replace(spec, order="shuffle"), grid_neighbours(few, many)
    shared = best_time(lambda: grid_time(shuffled, few, seeds, replaced), size.repeats)
    runs = len(neighbours) / len(replaced)
    figures["cnn_shared_over_apart"] = seconds / runs / shared


def measure(size: Size, data_dir: Path | None) -> dict[str, float]:
    binary, images = load(size.binary, data_dir=data_dir), load(size.images, data_dir=data_dir)
    peak, figures = Peak(size.peak_side), {"sgemm_peak_gflops": 0.0}
    peak.look()
    wide_and_private(figures, size, binary.train, 32)
    peak.look()
    deep(figures, size, binary.train, 32)
    full_batches(figures, size, load("digits/binary").train)
    peak.look()
    networks(figures, size, binary.train, images.train)
    peak.look()
    figures["sgemm_peak_gflops"] = peak.gflops
    for name in ("wide", "mlp", "cnn"):
        figures[f"{name}_fraction_of_peak"] = figures[f"{name}_gflops"] / peak.gflops
    figures["load_average"] = os.getloadavg()[0]
    return figures


def show(figures: dict[str, float], smoke: bool) -> None:
    table = Table("figure", "value", "required", title="benchmarks/grid.py")
    for name, value in figures.items():
        sign, bound = REQUIRED.get(name, ("", 0.0))
        met = value >= bound if sign == ">=" else value <= bound
        verdict = f"{sign} {bound:g} {'met' if met else 'NOT MET'}" if sign and not smoke else ""
        table.add_row(name, f"{value:,.4g}", verdict)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--smoke", action="store_true", help="seconds, on embedded data, for CI")
    parser.add_argument("--data-dir", type=Path, help="raw files; default: SORDINO_DATA")
    arguments = parser.parse_args()
    figures = measure(SMOKE if arguments.smoke else FULL, arguments.data_dir)
    show(figures, arguments.smoke)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
