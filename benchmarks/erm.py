"""How accurate private linear models are, and how long they take: Chen, Lee & Kifer's figures.

    python benchmarks/erm.py [--json FILE] [--smoke | --quick] [--only NAME,...] [--repeats N]
                             [--diffprivlib PYTHON] [--work DIR] [--docs DIR] [--fresh]

Every method of the estimators, at its public defaults and as an oracle (the best of a grid, tuned
on a repeat of the folds that is not scored), on adult, bank and kddcup99; then seconds a fit. It is
the study of `sordino_papers.erm` with the settings of `erm_study/design.py`; the page that it
writes, erm.md in its directory, says what is measured and how. Interrupted, it resumes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from erm_study import design, page, statistics
from erm_study.design import FULL, QUICK, SMOKE, Size
from erm_study.peer import with_peer
from erm_study.statistics import Column
from rich.console import Console
from rich.table import Table

from sordino import _files
from sordino.tasks import available_cores
from sordino.types import Progress
from sordino_papers.claims import PaperRun
from sordino_papers.erm import figures, timing
from sordino_papers.erm.study import ErmSettings
from sordino_papers.quantities import Numbers
from sordino_papers.runs import RunStore

TIMES = "erm/times"
RUNS = 5
SECONDS_A_LINE = 30.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--smoke", action="store_true", help="seconds, on embedded data, for CI")
    size.add_argument("--quick", action="store_true", help="minutes: fewer rows, budgets, repeats")
    parser.add_argument("--only", help="datasets, separated by commas")
    parser.add_argument("--repeats", type=int, help="repeats of the folds that are scored")
    parser.add_argument("--diffprivlib", type=Path, help="python of an environment that has it")
    parser.add_argument("--skip-timing", action="store_true", help="leave out seconds a fit")
    parser.add_argument("--work", type=Path, help="where rows and scores are kept")
    parser.add_argument(
        "--docs", type=Path, help="where the page and its figures go; default: --work"
    )
    parser.add_argument("--fresh", action="store_true", help="forget scores of earlier runs")
    parser.add_argument("--data-dir", type=Path, help="raw files; default: SORDINO_DATA")
    return parser.parse_args()


def chosen_size(given: argparse.Namespace) -> Size:
    size = SMOKE if given.smoke else QUICK if given.quick else FULL
    sources = size.sources
    if given.only:
        names = [name.strip() for name in given.only.split(",")]
        sources = tuple(s for s in sources if s.name in names)
        if len(sources) < len(names):
            sys.exit(f"--only {given.only}: there are {', '.join(s.name for s in size.sources)}")
    if given.repeats:
        sources = tuple(
            dataclasses.replace(s, repeats=given.repeats) if s.shown else s for s in sources
        )
    if given.skip_timing:
        size = dataclasses.replace(size, timing=(), ratio=False)
    return dataclasses.replace(size, sources=sources)


def measured(
    size: Size, given: argparse.Namespace, work: Path
) -> tuple[list[Column], dict[tuple[str, str], ErmSettings], Numbers | None, dict[str, float]]:
    """Columns, what was asked of them, times and figures."""
    began = time.perf_counter()
    bench = RunStore(work, {}, given.data_dir, begin=told)
    runs, columns, asked = {}, [], {}
    for source in size.sources:
        rows = bench.splits(source.data, source.form).train.rows
        for loss in source.losses:
            settings = design.settings(source, loss, min(rows, source.rows or rows))
            name = f"erm/{source.name}-{loss}"
            runs[name] = PaperRun(name, "erm", settings, {})
            asked[source.name, loss] = ErmSettings.read(settings)
    if size.timing:
        runs[TIMES] = PaperRun(TIMES, "erm-timing", design.times(size), {})
    bench.runs = runs
    shown = [source.name for source in size.sources if source.shown]
    for (source, loss), settings in asked.items():
        numbers = bench.numbers(f"erm/{source}-{loss}")
        if given.diffprivlib and size.peer and source in shown and loss == "logistic":
            numbers = with_peer(numbers, settings, bench, given.diffprivlib)
        columns.append(Column(source, loss, numbers))
    found = statistics.summary(columns, shown)
    found["fits_core_seconds"] = available_cores() * sum(bench.seconds.values())
    times = bench.numbers(TIMES) if size.timing else None
    if size.ratio:
        found |= kdd_over_lbfgs(bench, size)
    found["study_seconds"] = time.perf_counter() - began
    return columns, asked, times, found


def told(name: str) -> Progress:
    """A line at most every half minute."""
    began = said = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal said
        if (now := time.monotonic()) - said > SECONDS_A_LINE:
            said = now
            Console(stderr=True).print(f"{name}: {done} of {total}, {now - began:.0f} s")

    return tell


def kdd_over_lbfgs(bench: RunStore, size: Size) -> dict[str, float]:
    """RSGD-AR's time on all of kddcup99 over that of scikit-learn, the best of alternating runs."""
    train = bench.splits("kddcup99", "erm").train
    X, y = train.X, train.y
    assert X.dtype == np.float32
    asked = timing.TimingSettings.read(design.times(size))
    taken: dict[str, list[float]] = {"rsgd-ar": [], timing.SCIKIT_LEARN: []}
    for method in taken:
        timing.fit_seconds(asked, method, X[::200], y[::200])
    for _ in range(RUNS):
        for method, seconds in taken.items():
            seconds.append(timing.fit_seconds(asked, method, X, y))
    ours, theirs = (min(seconds) for seconds in taken.values())
    return {
        "kdd_fit_seconds": ours,
        "kdd_lbfgs_seconds": theirs,
        "kdd_fit_time_over_lbfgs": ours / theirs,
    }


def draw_all(
    columns: list[Column], shown: list[str], times: Numbers | None, directory: Path
) -> list[Path]:
    """The paper's figures 1 and 2, at defaults and for oracles, and its figure 3; their files."""
    directory.mkdir(parents=True, exist_ok=True)
    drawn = {}
    for kind, named in (("default", str), ("oracle", design.oracle)):
        for number, loss in enumerate(design.LOSSES, start=1):
            here = [c for c in columns if c.loss == loss and c.source in shown]
            if here:
                drawn[f"figure{number}-{loss}-{kind}"] = figures.accuracy_and_objective(
                    *(column.numbers for column in here),
                    titles=[column.source for column in here],
                    lines=lines(here[0], named),
                )
    if times is not None:
        methods = {method: method for method in design.TIMED}
        drawn["figure3-times"] = figures.processing_times(times, lines=methods, seconds="Seconds")
    for name, figure in drawn.items():
        figure.savefig(directory / f"{name}.png", dpi=200)
    return [directory / f"{name}.png" for name in drawn]


def lines(column: Column, named: Callable[[str], str]) -> dict[str, str]:
    """What is drawn: references, `auto`, and the private methods or their oracles."""
    private = (named(method) for method in (*design.PRIVATE, design.PEER))
    drawn = (design.AUTO, *private, *design.REFERENCES)
    return {each: each.partition("/")[0] for each in drawn if each in column.methods}


def seconds_of(times: Numbers) -> dict[tuple[str, int], float]:
    """By method and number of rows."""
    return {
        (method, int(rows)): float(taken)
        for method, line in zip(design.TIMED, times["seconds"], strict=True)
        for rows, taken in zip(times["rows"], line, strict=True)
    }


def show(found: dict[str, float], judged: bool) -> None:
    table = Table("figure", "value", "required", title="benchmarks/erm.py")
    for name, value in found.items():
        if "/" not in name:
            sign, bound, _ = page.REQUIRED.get(name, ("", None, ""))
            verdict = ""
            if sign == "<=" and judged:
                verdict = f"<= {bound:g} {'met' if value <= bound else 'NOT MET'}"
            table.add_row(name, f"{value:,.4g}", verdict)
    Console().print(table)


def main() -> None:
    given = arguments()
    with tempfile.TemporaryDirectory() as scratch:
        name = "quick" if given.quick else "full"
        # CI must train: what an earlier smoke run kept would hide that nothing works.
        kept = Path(scratch) if given.smoke else _files.cache() / "erm" / name
        run(given, given.work or kept)


def run(given: argparse.Namespace, work: Path) -> None:
    """Measure, draw, write and show."""
    size = chosen_size(given)
    partial = given.smoke or given.quick or given.only
    docs = given.docs or work
    if given.fresh:
        shutil.rmtree(work, ignore_errors=True)
    try:
        columns, asked, times, found = measured(size, given, work)
    except KeyboardInterrupt:
        sys.exit("Interrupted. The same command goes on from here.")
    sources = [source.name for source in size.sources if source.shown]
    drawn = draw_all(columns, sources, times, docs / "erm")
    seconds = {} if times is None else seconds_of(times)
    found |= {f"seconds/{method}/{rows}": taken for (method, rows), taken in seconds.items()}
    everything = found | statistics.table(columns)
    text = json.dumps(everything, indent=2) + "\n"
    (docs / "erm" / "results.json").write_text(text)
    page.write(docs / "erm.md", size, columns, asked, found, seconds, drawn, judged=not partial)
    show(found, judged=not partial)
    Console(stderr=True).print(f"{docs / 'erm.md'}")
    if given.json:
        given.json.write_text(text)


if __name__ == "__main__":
    main()
