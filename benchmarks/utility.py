"""How accurate private linear models are: ours beside what else there is, on many tables.

    python benchmarks/utility.py [--json FILE] [--report FILE] [--out DIR] [--smoke | --quick]
                                 [--only TABLE,...] [--diffprivlib PYTHON] [--workers N]

Ours at its defaults (`auto`) beside ours as it was before softmax, centring and regression,
diffprivlib (`--diffprivlib`: python of an environment that has it), no privacy, and an oracle:
DP-SGD of a linear layer, the best of 12 settings, which looks at the data and is not private.
Which tables chose our rules and which judge them is written in `utility_study/tables.py`, and so is
what is public of each. Every fit is a line of `results.jsonl` in --out, under a digest of all it
depends on: interrupted, the same command goes on from there, and after a change of our rules
(`VERSIONS`) only ours is fitted anew. Noise is seeded here, so that fits can be made again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table as Shown
from utility_study import competitors, figures, page, peer
from utility_study.competitors import FIRST_TRIAL, NONE, OPACUS, ORACLE, TRIAL, TRIALS, Job
from utility_study.figures import Results
from utility_study.store import Row, Store
from utility_study.tables import BY_NAME, TABLES, Table, rows_of

from sordino import _files, data, tasks
from sordino.types import Progress

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
SECONDS_A_LINE = 30.0
TOGETHER = 5
"""Fits of one point that a process does before it hands them over."""
_ALL = tuple(table.name for table in TABLES)
_WHOLE = 10**9


@dataclass(frozen=True)
class Size:
    """How much is run.

    Parameters
    ----------
    name
        As the report says it.
    tables, epsilons, fits, most_rows
        What is fitted, how often, on at most so many rows.
    oracles, oracle_epsilons
        Where an oracle is tuned.
    trials, tunings, judgings
        Settings it chooses from, fits of each to choose, fresh fits of the chosen one.
    opacus
        Where Opacus trains with the oracle's settings, too.
    timed
        Whether one fit of all of mnist is timed.
    """

    name: str
    tables: tuple[str, ...] = _ALL
    epsilons: tuple[float, ...] = EPSILONS
    fits: int = 20
    most_rows: int = _WHOLE
    oracles: tuple[str, ...] = (
        *("digits", "breast-cancer", "adult"),
        *("bank", "synthetic", "mnist"),
    )
    oracle_epsilons: tuple[float, ...] = (0.5, 1.0, 4.0)
    trials: int = TRIALS
    tunings: int = 5
    judgings: int = 20
    opacus: tuple[str, ...] = ("digits", "breast-cancer")
    timed: bool = True


FULL = Size("full")
QUICK = Size(
    "quick: 4 fits, 3 budgets, 5,000 rows of larger tables",
    epsilons=(0.5, 1.0, 2.0),
    fits=4,
    most_rows=5_000,
    oracles=("digits", "breast-cancer"),
    oracle_epsilons=(1.0,),
    tunings=2,
    judgings=4,
    timed=False,
)
SMOKE = Size(
    "smoke: 2 fits",
    tables=("digits", "breast-cancer", "diabetes"),
    epsilons=(1.0, 2.0),
    fits=2,
    most_rows=600,
    oracles=("breast-cancer",),
    oracle_epsilons=(1.0,),
    trials=2,
    tunings=1,
    judgings=2,
    opacus=(),
    timed=False,
)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--report", type=Path, help="write the tables to this file, as markdown")
    parser.add_argument("--out", type=Path, help="where results are kept")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--smoke", action="store_true", help="seconds, on embedded data, for CI")
    size.add_argument("--quick", action="store_true", help="minutes: fewer rows, budgets, fits")
    parser.add_argument("--only", help="tables, separated by commas")
    parser.add_argument("--fits", type=int, help="fits a point; default: 20")
    parser.add_argument("--diffprivlib", type=Path, help="python of an environment that has it")
    parser.add_argument("--workers", type=int, default=tasks.available_cores(), help="processes")
    return parser.parse_args(words)


def chosen(given: argparse.Namespace) -> Size:
    size = SMOKE if given.smoke else QUICK if given.quick else FULL
    if given.fits:
        size = replace(size, fits=given.fits)
    if given.only:
        names = tuple(name.strip() for name in given.only.split(","))
        if unknown := [name for name in names if name not in size.tables]:
            sys.exit(f"--only: no table {', '.join(unknown)}; there are {', '.join(size.tables)}")
        size = replace(size, tables=names, timed=size.timed and "mnist" in names)
    return size


# What is asked ------------------------------------------------------------------------------------


def ours(size: Size) -> Iterator[Job]:
    """Fits of this process, table by table."""
    for table in map(BY_NAME.__getitem__, size.tables):
        for competitor in competitors.competitors(table):
            budgets = (None,) if competitor == NONE else size.epsilons
            yield from _grid(size, table, competitor, budgets)


def peers(size: Size) -> Iterator[Job]:
    """Fits of the side environment."""
    for table in map(BY_NAME.__getitem__, size.tables):
        for competitor in competitors.peers(table):
            yield from _grid(size, table, competitor, size.epsilons)


def _grid(
    size: Size, table: Table, competitor: str, budgets: Iterable[float | None]
) -> Iterator[Job]:
    for epsilon, seed in itertools.product(budgets, range(table.fits_of(competitor, size.fits))):
        yield Job(table.name, size.most_rows, competitor, epsilon, seed)


def trials(size: Size) -> Iterator[Job]:
    """Fits that choose the oracle's settings, on splits that do not judge."""
    for table, epsilon in _oracles(size):
        for number, fit in itertools.product(range(size.trials), range(size.tunings)):
            yield Job(table, size.most_rows, TRIAL, epsilon, FIRST_TRIAL + fit, number)


def judged_oracles(size: Size, store: Store) -> Iterator[Job]:
    """Fresh fits of the settings that did best, ours and those of Opacus."""
    tried = list(trials(size))
    for table, epsilon in _oracles(size):
        here = [job for job in tried if (job.table, job.epsilon) == (table, epsilon)]
        best = _best(store.rows(here))
        if best is None:
            continue
        opacus = table in size.opacus and epsilon == 1.0
        for competitor in (ORACLE, OPACUS) if opacus else (ORACLE,):
            for seed in range(size.judgings):
                yield Job(table, size.most_rows, competitor, epsilon, seed, best)


def _oracles(size: Size) -> Iterator[tuple[str, float]]:
    names = (name for name in size.oracles if name in size.tables)
    return itertools.product(names, size.oracle_epsilons)


def _best(rows: Sequence[Row]) -> int | None:
    """The setting with the highest mean accuracy, of those that all fits survived."""
    found: dict[int, list[float]] = {}
    for row in rows:
        found.setdefault(row["setting"], []).append(row.get("accuracy", math.nan))
    means = {number: sum(values) / len(values) for number, values in found.items()}
    means = {number: value for number, value in means.items() if math.isfinite(value)}
    return max(means, key=means.__getitem__, default=None)


# How it is done -----------------------------------------------------------------------------------


def measured(size: Size, given: argparse.Namespace, store: Store) -> list[Row]:
    """Do what is missing; everything that is known of this size."""
    asked = list(ours(size))
    run(asked, store, given.workers, "fits")
    if given.diffprivlib:
        theirs = list(peers(size))
        run_peers(theirs, store, given.workers, given.diffprivlib)
        asked += theirs
    tried = list(trials(size))
    run(tried, store, given.workers, "oracles' settings")
    best = list(judged_oracles(size, store))
    run(best, store, given.workers, "oracles")
    return store.rows([*asked, *tried, *best])


def run(jobs: Sequence[Job], store: Store, workers: int, name: str) -> None:
    """Fit what is missing, a few at a time: at most so much is lost by Ctrl-C."""
    chunks = _points(store.missing(jobs), TOGETHER)
    found = tasks.run(competitors.results, chunks, workers=workers, progress=told(name))
    for chunk, rows in found:
        for job, row in zip(chunk, rows, strict=True):
            store.add(job, row)


def run_peers(jobs: Sequence[Job], store: Store, workers: int, python: Path) -> None:
    """One launch of the side environment for each point."""

    def results(chunk: tuple[Job, ...]) -> list[tuple[Job, Row]]:
        return list(peer.results(chunk, python))

    chunks = _points(store.missing(jobs))
    found = tasks.run(results, chunks, workers=workers, threads=True, progress=told("diffprivlib"))
    for _, rows in found:
        for job, row in rows:
            store.add(job, row)


def _points(jobs: Sequence[Job], most: int = sys.maxsize) -> list[tuple[Job, ...]]:
    """Jobs that differ in nothing but their seed, at most so many together."""
    found: list[tuple[Job, ...]] = []
    for _, group in itertools.groupby(jobs, lambda job: replace(job, seed=0)):
        point = tuple(group)
        found += [point[at : at + most] for at in range(0, len(point), most)]
    return found


def told(name: str) -> Progress:
    """A line at most every half minute."""
    began = said = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal said
        if (now := time.monotonic()) - said > SECONDS_A_LINE:
            said = now
            Console(stderr=True).print(f"{name}: {done} of {total}, {now - began:.0f} s")

    return tell


def fit_time(runs: int = 2) -> dict[str, float]:
    """Ours on 60,000 x 784 with 10 classes, over 100 iterations of scikit-learn; best of runs."""
    from sklearn.linear_model import LogisticRegression

    job = Job("mnist", _WHOLE, competitors.AUTO, 1.0, 0)
    rows = rows_of(job.of)
    X, y = rows.X[:60_000], rows.y[:60_000]
    taken: dict[str, list[float]] = {"ours": [], "lbfgs": []}
    with warnings.catch_warnings(action="ignore"):
        for _ in range(runs):
            for name, model in (
                ("ours", competitors.auto(job, rows)),
                ("lbfgs", LogisticRegression(max_iter=100)),
            ):
                began = time.perf_counter()
                model.fit(X, y)
                taken[name].append(time.perf_counter() - began)
    ours, theirs = (min(taken[name]) for name in ("ours", "lbfgs"))
    return {
        "fit_seconds": ours,
        "lbfgs_seconds": theirs,
        "fit_time_over_lbfgs": ours / theirs,
    }


def show(found: dict[str, float]) -> None:
    table = Shown("figure", "value", title="benchmarks/utility.py")
    for name, value in found.items():
        if "/" not in name:
            table.add_row(name, f"{value:,.4g}")
    Console().print(table)


def main(words: Sequence[str] | None = None) -> None:
    given = arguments(words)
    with tempfile.TemporaryDirectory() as scratch:
        # CI must fit: what an earlier smoke run kept would hide that nothing works.
        kept = Path(scratch) if given.smoke else _files.cache() / "utility"
        size, store = chosen(given), Store(given.out or kept)
        began = time.perf_counter()
        try:
            results = Results(measured(size, given, store))
        except KeyboardInterrupt:
            sys.exit("Interrupted. The same command goes on from here.")
        except data.DataError as error:
            sys.exit(str(error))
    found = figures.summary(results)
    if size.timed:
        found |= fit_time()
    found["study_seconds"] = time.perf_counter() - began
    show(found)
    if given.report:
        given.report.write_text(page.text(results, found, size.name))
    if given.json:
        given.json.write_text(json.dumps(found | figures.every(results), indent=2) + "\n")
    if failed := results.errors(competitors.AUTO):
        sys.exit(f"Ours failed {len(failed)} times, first on {': '.join(failed[0])}")


if __name__ == "__main__":
    main()
