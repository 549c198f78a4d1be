"""`sordino assess`: the main job. Prove, measure, attack, release; one page. And `report`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino import checks
from sordino.assessment.request import Request
from sordino.cli import options
from sordino.cli.options import PROMISE, flag, from_fields, option
from sordino.cli.terminal import (
    StageBars,
    block,
    errors,
    kept,
    line,
    plain_warnings,
    print_table,
    resumable,
    say,
    screen,
    wrong_input,
)
from sordino.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

    from sordino.cli.screen import Screen
    from sordino.report.assessment import Assessment
    from sordino.report.stages import Accuracy
    from sordino.report.words import Row

_EFFORT, _FOREIGN, _STUDY = "How hard to look", "A mechanism of your own", "The study"
_WIDE, _FOR_MEANINGS = 200, 116
"""Columns of a pipe, and those that a line of the table with its meaning takes."""


class Format(StrEnum):
    """How a page is written."""

    HTML = "html"
    MARKDOWN = "md"
    JSON = "json"


@dataclass(frozen=True, kw_only=True)
class Questions(options.RecordOptions):
    """What a study file says as well, by the same names; what is None was not given."""

    model: Annotated[
        str | None,
        option(
            PROMISE,
            "**logistic** (default), **svm**, or **mlp**: a network, which is measured and "
            "attacked; of its final weights nothing is proved beyond DP-SGD's composition.",
        ),
    ] = None
    epsilon: Annotated[
        float | None,
        option(PROMISE, "The budget you promise (default 1); with --mechanism, what it claims."),
    ] = None
    delta: options.Delta = None
    method: options.OptionalMethod = None
    l2: options.OptionalL2 = None
    max_rows_per_person: options.OptionalRowsPerPerson = None
    ledger: options.LedgerFile = None
    dataset: options.DatasetName = None
    seeds: Annotated[
        int | None, option(_EFFORT, "Seeds of the grid of trainings that measures SGD's own noise.")
    ] = None
    neighbours: Annotated[
        int | None, option(_EFFORT, "Datasets of that grid, each with one record exchanged.")
    ] = None
    audit_runs: Annotated[
        int | None,
        option(
            _EFFORT,
            "Trainings the attack sees of each of two datasets; the more, the larger the epsilon "
            "that it can refute.",
        ),
    ] = None
    confidence: options.OptionalConfidence = None
    mechanism: Annotated[
        str | None,
        option(
            _FOREIGN,
            "Attack this and nothing else: a function (data, generator) -> numbers or a "
            "scikit-learn estimator, as package.module:name or file.py:name; or gallery:NAME.",
            metavar="MODULE:NAME",
        ),
    ] = None
    pair: Annotated[
        str | None,
        option(
            _FOREIGN,
            "With --mechanism, instead of --data: a function that returns the two datasets.",
            metavar="MODULE:NAME",
        ),
    ] = None


@from_fields
def assess(
    asked: Questions,
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="STUDY.toml",
            help="A study file with these settings; options given here come first. "
            "`--write-study` prints one to edit.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[bool, flag(_EFFORT, "--quick", "A first look: fewer runs.")] = False,
    thorough: Annotated[bool, flag(_EFFORT, "--thorough", "More runs than by default.")] = False,
    run_code: Annotated[
        bool,
        flag(
            _FOREIGN,
            "--run-code",
            "Import and run the mechanism that a study file names. Whoever wrote the file chose "
            "that code: read it first.",
        ),
    ] = False,
    out: Annotated[
        str | None,
        option(
            _STUDY,
            "Directory of the study: made, or gone on with. INTERNAL. Default: a name made of "
            "what is asked, here.",
            metavar="DIR",
        ),
    ] = None,
    public: Annotated[
        bool,
        flag(
            _STUDY,
            "--public",
            "Also write public.html, which shows only what the certificate of the released model "
            "may show.",
        ),
    ] = False,
    open_page: Annotated[bool, flag(_STUDY, "--open", "Open the page in a browser.")] = False,
    write_study: Annotated[
        bool, flag(_STUDY, "--write-study", "Print a study file to edit, and stop.")
    ] = False,
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
        block(Request.template())
        return
    with wrong_input():
        request = Request() if study is None else Request.from_file(study)
        if study is not None and not run_code:
            _check_code(study, request, {"mechanism": asked.mechanism, "pair": asked.pair})
        if quick and thorough:
            raise InvalidArgument("Expected --quick or --thorough, not both.")
        effort = "quick" if quick else "thorough" if thorough else None
        request = request.with_options(**vars(asked), effort=effort)  # what is None stays as it is
        _check_claim(request, asked.epsilon, study)
        if public:
            _check_released(request)
        place = out or request.default_directory()
        found = _run(request, place)
    with kept(f"The assessment is finished, and everything is in {place}."):
        _say(found, place)
        pages = _pages(found, place, public=public)
    if open_page:
        _open(pages[-1])
    if found.broken:
        raise typer.Exit(1)


def _check_claim(request: Request, epsilon: float | None, study: str | None) -> None:
    """What a foreign mechanism claims must be said; the gallery's say it themselves."""
    if request.mechanism is None or request.mechanism.startswith("gallery:"):
        return
    if epsilon is None and study is None:
        checks.fail_missing("--epsilon E", "with --mechanism", "Pass the epsilon that it claims.")


def _check_code(study: str, request: Request, typed: dict[str, str | None]) -> None:
    """Code that a file names is run only if somebody says so; what was typed says it itself."""
    for name, instead in typed.items():
        named = getattr(request, name)
        if named is None or instead is not None or named.startswith("gallery:"):
            continue
        place = named.rpartition(":")[0]
        raise InvalidArgument(
            f"Expected --run-code with {study}: its {name} is {named}, so {place} would be "
            "imported and run, which can do whatever you can. Read it, and pass --run-code if you "
            "trust it."
        )


def _check_released(request: Request) -> None:
    """Said before an assessment that would take minutes: a public page shows a certificate."""
    other = "without --mechanism" if request.mechanism else "with --model logistic or svm"
    if request.mechanism is not None or request.model == "mlp":
        what = "a mechanism that is only attacked" if request.mechanism else "a network"
        raise InvalidArgument(
            f"Expected --public {other}: nothing is released of {what}, so it has no certificate."
        )


def _run(request: Request, place: str) -> Assessment:
    from sordino.assessment.run import assess as run

    console = errors()
    mechanism, pair = _foreign(request)
    bars = StageBars(console)
    going_on = resumable(lambda: f"The same command goes on from here: {place}")
    with going_on, plain_warnings(console), bars.shown():
        return run(request, out=place, watch=bars, mechanism=mechanism, pair=pair)


def _foreign(request: Request) -> tuple[Any, Any]:
    """The user's own mechanism and pair, loaded; both None if there are none."""
    if request.mechanism is None or request.mechanism.startswith("gallery:"):
        return None, None
    from sordino.cli.audit_attacked import given_pair
    from sordino.cli.audit_thing import named

    thing = named("--mechanism", request.mechanism)
    return thing, None if request.pair is None else given_pair(request.pair)


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
    _print_rows(console, rows, meanings=not narrow)
    if narrow:
        for kind in dict.fromkeys(row.kind for row in rows):
            line(console, f"{kind}: {words.MEANINGS[kind]}")
        console.print()
    if found.release is not None and found.release.accuracy is not None:
        _say_cost(console, found.release.accuracy)
    say(f"Study (INTERNAL): {place}")


def _say_cost(console: Screen, found: Accuracy) -> None:
    """What privacy costs on the held-out rows: accuracy and other scores."""
    from sordino.report import words_cost

    line(console, words_cost.cost(found))
    if rows := words_cost.table(found):
        first, *rest = words_cost.HEAD
        print_table(console, [(first, "L"), *((name, "R") for name in rest)], rows)


def _print_rows(console: Screen, rows: list[Row], *, meanings: bool) -> None:
    """The three kinds of epsilon, under a heading for what each is of."""
    columns = [("", "L"), ("epsilon", "l"), *[("", "L")] * meanings]
    cells: list[list[str]] = []
    before = ""
    for row in rows:
        if row.of != before:
            cells.append([row.of])
            before = row.of
        meaning = [row.meaning] * meanings
        cells.append([f"  {row.kind}", row.epsilon, *meaning, row.delta, row.certainty])
    styles = ["bold" if len(each) == 1 else None for each in cells]
    print_table(console, [*columns, ("at delta", "l"), ("how sure", "L")], cells, styles)


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
        from sordino.assessment.pages import write_page

        pages.append(write_page(place, "html", None, public=True))
        say(f"  the page that may leave: {pages[-1]}")
    return pages


def _open(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.absolute().as_uri()):
        say("No browser could be opened here.", err=True)


def report(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="The study that `sordino assess` made.")
    ],
    public: Annotated[
        bool, flag(None, "--public", "Show only what the model's certificate may show.")
    ] = False,
    format: Annotated[
        Format, option(None, "**html**, **md** (Markdown) or **json**.", "--format")
    ] = Format.HTML,
    out: Annotated[
        str | None,
        option(
            None,
            "Default: report.html (or public.html, ...) in DIR; - prints it.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Write the page of an assessment again, from its study; nothing is trained or released.

    The page is **INTERNAL**: exact accuracies, estimates and what attacks achieved are not
    private. `--public` makes the version that may leave, from the certificate alone.

    `sordino report study --format md --out -`

    `sordino report study --public`
    """
    from sordino.assessment.pages import page_text, write_page

    if out == "-":
        block(page_text(directory, format.value, public=public))
        return
    path = write_page(directory, format.value, out, public=public)
    said = "may leave: it shows only what the certificate may show" if public else "INTERNAL"
    with kept(f"The page is in {path}."):
        say(f"{path} ({said})")
