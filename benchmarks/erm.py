"""How accurate private linear models are, and how long they take: Chen, Lee & Kifer's figures.

    python benchmarks/erm.py [--json FILE] [--smoke | --quick] [--only NAME,...] [--repeats N]
                             [--diffprivlib PYTHON] [--work DIR] [--docs DIR] [--fresh]

Every method of the estimators, at its public defaults and as an oracle (the best of a grid, tuned
on a repeat of the folds that is not scored), on adult, bank and kddcup99; then seconds a fit. The
pieces are in `erm_study/`; the page that it writes, docs/erm.md, says what is measured and how.
Interrupted, it goes on where it was.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
import time
from pathlib import Path

from erm_study import figures, page, peer, statistics, study, timing
from erm_study.design import FULL, QUICK, SMOKE, Size
from erm_study.results import Results
from rich.console import Console
from rich.table import Table

from sordino import _cache

DOCS = Path(__file__).parent.parent / "docs"


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
    parser.add_argument("--docs", type=Path, help="where the page and its figures go")
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
        repeats = tuple(range(1, 1 + given.repeats))
        sources = tuple(dataclasses.replace(s, repeats=repeats) if s.shown else s for s in sources)
    if given.skip_timing:
        size = dataclasses.replace(size, timing=(), ratio=False)
    return dataclasses.replace(size, sources=sources)


def measured(
    size: Size, given: argparse.Namespace, work: Path
) -> tuple[list[study.Cell], dict[tuple[str, int], float], dict[str, float]]:
    """Cells, times and figures."""
    began = time.perf_counter()
    results = Results(work, given.fresh)
    cells = study.run(size, work, given.data_dir, results)
    if given.diffprivlib and size.peer_repeats:
        cells += peer.run(size, given.diffprivlib, work, given.data_dir)
    found = statistics.summary(cells, [s.name for s in size.sources if s.shown])
    gap = statistics.gap_to_none(cells, "adult", 1.0)
    if gap == gap:
        found["adult_eps1_gap_points"] = gap
    times = timing.against_rows(size, given.data_dir)
    if size.ratio:
        found |= timing.kdd_over_lbfgs(given.data_dir)
    found["fits_core_seconds"] = results.core_seconds
    found["study_seconds"] = time.perf_counter() - began
    found |= {f"seconds/{method}/{rows}": taken for (method, rows), taken in times.items()}
    return cells, times, found


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
        kept = Path(scratch) if given.smoke else _cache.directory() / "erm" / name
        run(given, given.work or kept)


def run(given: argparse.Namespace, work: Path) -> None:
    """Measure, draw, write and show."""
    size = chosen_size(given)
    partial = given.smoke or given.quick or given.only
    docs = given.docs or (work if partial else DOCS)
    try:
        cells, times, found = measured(size, given, work)
    except KeyboardInterrupt:
        sys.exit("Interrupted. The same command goes on from here.")
    sources = [source.name for source in size.sources if source.shown]
    drawn = figures.draw_all(cells, sources, times, docs / "erm")
    everything = found | statistics.table(cells)
    text = json.dumps(everything, indent=2) + "\n"
    (docs / "erm" / "results.json").write_text(text)
    page.write(docs / "erm.md", size, cells, found, times, drawn, judged=not partial)
    show(found, judged=not partial)
    Console(stderr=True).print(f"{docs / 'erm.md'}")
    if given.json:
        given.json.write_text(text)


if __name__ == "__main__":
    main()
