"""`sordino assess`: the main job. Prove, measure, attack, release; one page."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from sordino import _check
from sordino.assessment.brief import Brief
from sordino.assessment.source import not_given
from sordino.cli.assess_options import (
    L2,
    AuditRuns,
    ColumnsFile,
    Confidence,
    DataDir,
    DatasetName,
    Delta,
    Epsilon,
    LedgerFile,
    Mechanism,
    Method,
    Model,
    NeighbourCount,
    Open,
    Out,
    Pair,
    Public,
    Quick,
    RowsPerPerson,
    RunCode,
    Seeds,
    StudyFile,
    Thorough,
    WriteStudy,
)
from sordino.cli.record_options import Classes, DataNorm, OptionalData, Target
from sordino.cli.stage_bars import StageBars
from sordino.cli.terminal import block, errors, kept, line, say, screen, short_warnings, stopped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.table import Table

    from sordino.cli.screen import Screen
    from sordino.report.assessment import Assessment
    from sordino.report.stages import Accuracy
    from sordino.report.words import Row

_WIDE, _FOR_MEANINGS = 200, 116
"""Columns of a pipe, and those that a line of the table with its meaning takes."""


def assess(
    study: StudyFile = None,
    data: OptionalData = None,
    target: Target = None,
    columns: ColumnsFile = None,
    classes: Classes = None,
    data_norm: DataNorm = None,
    data_dir: DataDir = None,
    model: Model = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    method: Method = None,
    l2: L2 = None,
    max_rows_per_person: RowsPerPerson = None,
    ledger: LedgerFile = None,
    dataset: DatasetName = None,
    quick: Quick = False,
    thorough: Thorough = False,
    seeds: Seeds = None,
    neighbours: NeighbourCount = None,
    audit_runs: AuditRuns = None,
    confidence: Confidence = None,
    mechanism: Mechanism = None,
    pair: Pair = None,
    run_code: RunCode = False,
    out: Out = None,
    public: Public = False,
    open_page: Open = False,
    write_study: WriteStudy = False,
) -> None:
    """How private is the model I am about to release? One page that says it.

    Trains, proves, measures, attacks and releases one model of one dataset, and writes a directory:
    the page (report.html), everything on it as data (assessment.json), and the released model with
    its certificate (model/). Three numbers of the same release, never mixed up: **proved** epsilon
    (a theorem), **estimated** (measured, no guarantee), **observed** (won by an attack).

    Without options it assesses handwritten digits that come with scikit-learn, in a minute or two.
    Stopped at any moment, the same command goes on where it was; asked to look harder, it keeps the
    model that it released. Exit code 1 if an attack refutes what is proved or claimed, 2 for what
    cannot be assessed, 130 if stopped by Ctrl-C.

    `sordino assess`

    `sordino data describe patients.csv --target ill > columns.toml`, edit that, and then
    `sordino assess --data patients.csv --columns columns.toml --epsilon 1 --out study`

    `sordino assess --mechanism mine.py:train --data breast-cancer --epsilon 1`
    """
    if write_study:
        block(Brief.template())
        return
    with _wrong_input():
        brief = Brief() if study is None else Brief.from_file(study)
        if study is not None and not run_code:
            _check_code(study, brief, {"mechanism": mechanism, "pair": pair})
        brief = brief.with_options(  # what is None stays as it is
            data=data,
            target=target,
            columns=columns,
            classes=classes,
            data_norm=data_norm,
            data_dir=data_dir,
            model=model,
            epsilon=epsilon,
            delta=delta,
            method=method,
            l2=l2,
            max_rows_per_person=max_rows_per_person,
            ledger=ledger,
            dataset=dataset,
            effort=_effort(quick=quick, thorough=thorough),
            seeds=seeds,
            neighbours=neighbours,
            audit_runs=audit_runs,
            confidence=confidence,
            mechanism=mechanism,
            pair=pair,
        )
        _check_claim(brief, epsilon, study)
        if public:
            _check_released(brief)
        place = out or brief.default_directory()
        found = _run(brief, place)
    with kept(f"The assessment is finished, and everything is in {place}."):
        _say(found, place)
        pages = _pages(found, place, public=public)
    if open_page:
        _open(pages[-1])
    if found.broken:
        raise typer.Exit(1)


def _effort(*, quick: bool, thorough: bool) -> str | None:
    if quick and thorough:
        raise _check.InvalidArgument("Expected --quick or --thorough, not both.")
    return "quick" if quick else "thorough" if thorough else None


def _check_claim(brief: Brief, epsilon: float | None, study: str | None) -> None:
    """What a foreign mechanism claims must be said; the gallery's say it themselves."""
    if brief.mechanism is None or brief.mechanism.startswith("gallery:"):
        return
    if epsilon is None and study is None:
        not_given("--epsilon E", "with --mechanism", "Pass the epsilon that it claims.")


def _check_code(study: str, brief: Brief, typed: dict[str, str | None]) -> None:
    """Code that a file names is run only if somebody says so; what was typed says it itself."""
    for name, instead in typed.items():
        named = getattr(brief, name)
        if named is None or instead is not None or named.startswith("gallery:"):
            continue
        place = named.rpartition(":")[0]
        raise _check.InvalidArgument(
            f"Expected --run-code with {study}: its {name} is {named}, so {place} would be "
            "imported and run, which can do whatever you can. Read it, and pass --run-code if you "
            "trust it."
        )


def _check_released(brief: Brief) -> None:
    """Said before an assessment that would take minutes: a public page shows a certificate."""
    other = "without --mechanism" if brief.mechanism else "with --model logistic or svm"
    if brief.mechanism is not None or brief.model == "mlp":
        what = "a mechanism that is only attacked" if brief.mechanism else "a network"
        raise _check.InvalidArgument(
            f"Expected --public {other}: nothing is released of {what}, so it has no certificate."
        )


@contextmanager
def _wrong_input() -> Iterator[None]:
    """Records that cannot be used are wrong input, too: one sentence, exit code 2."""
    try:
        yield
    except (_check.InvalidArgument, KeyboardInterrupt):
        raise
    except Exception as error:
        from sordino.data import DataError
        from sordino.privacy import NotApplicable, Refused

        if isinstance(error, DataError | NotApplicable | Refused):
            say(str(error), err=True)
            raise typer.Exit(2) from None
        raise


def _run(brief: Brief, place: str) -> Assessment:
    from sordino.assessment.run import assess as run

    console = errors()
    mechanism, pair = _foreign(brief)
    bars = StageBars(console)
    try:
        with short_warnings(console), bars.shown():
            return run(brief, out=place, watch=bars, mechanism=mechanism, pair=pair)
    except KeyboardInterrupt as stop:
        line(console, f"{stopped(stop)} The same command goes on from here: {place}")
        raise typer.Exit(130) from None


def _foreign(brief: Brief) -> tuple[Any, Any]:
    """The user's own mechanism and pair, loaded; both None if there are none."""
    if brief.mechanism is None or brief.mechanism.startswith("gallery:"):
        return None, None
    from sordino.cli.audit_attacked import given_pair
    from sordino.cli.audit_thing import named

    thing = named("--mechanism", brief.mechanism)
    return thing, None if brief.pair is None else given_pair(brief.pair)


def _say(found: Assessment, place: str) -> None:
    """The verdict, the numbers, and where everything is."""
    from sordino.report import words

    console = screen(_WIDE)
    console.print()
    for sentence in (words.verdict(found), *words.notes(found)):
        if console.is_terminal:
            console.print(sentence, highlight=False)  # wrapped between words
        else:
            line(console, sentence)
    rows = words.table(found)
    narrow = console.width < _FOR_MEANINGS
    console.print(_table(rows, meanings=not narrow))
    if narrow:
        for kind in dict.fromkeys(row.kind for row in rows):
            line(console, f"{kind}: {words.MEANINGS[kind]}")
        console.print()
    if found.release is not None and found.release.accuracy is not None:
        _say_cost(console, found.release.accuracy)
    say(f"Study (INTERNAL): {place}")


def _say_cost(console: Screen, found: Accuracy) -> None:
    """What privacy costs on the held-out rows: accuracy and other scores."""
    from rich import box
    from rich.table import Table

    from sordino.report import words_cost

    line(console, words_cost.cost(found))
    rows = words_cost.table(found)
    if not rows:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in words_cost.HEAD:
        table.add_column(name, justify="left" if name == words_cost.HEAD[0] else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _table(rows: list[Row], *, meanings: bool) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "epsilon", *[""] * meanings, "at delta", "how sure"):
        table.add_column(name, no_wrap=name in ("epsilon", "at delta"))
    before = ""
    for row in rows:
        if row.of != before:
            table.add_row(row.of, style="bold")
            before = row.of
        meaning = [row.meaning] * meanings
        table.add_row(f"  {row.kind}", row.epsilon, *meaning, row.delta, row.certainty)
    return table


def _pages(found: Assessment, place: str, *, public: bool) -> list[Path]:
    """Where the pages are; the public one is written if asked for."""
    from pathlib import Path

    from sordino.assessment.directory import MODEL, PAGE

    pages = [Path(place) / PAGE]
    say(f"  the page: {pages[0]}")
    if found.broken and not found.question.mechanism:
        say("  the model must NOT leave: an attack refuted what its certificate says")
    elif found.release is not None and found.release.directory:
        say(f"  the model that may leave, with its certificate: {Path(place) / MODEL}")
    if public:
        from sordino.assessment.public import write_page

        pages.append(write_page(place, "html", None, public=True))
        say(f"  the page that may leave: {pages[-1]}")
    return pages


def _open(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.absolute().as_uri()):
        say("No browser could be opened here.", err=True)
