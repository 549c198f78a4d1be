"""`sordino assess`: prove, measure, attack and release; one page. And `report`, the page again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino import checks, tasks
from sordino.assessment.request import Request
from sordino.cli import options, terminal
from sordino.cli.options import CONFIDENCE, L2, METHOD, PROMISE, argument, from_fields, option
from sordino.cli.tables import print_assessment
from sordino.cli.terminal import block, say
from sordino.errors import InvalidArgument

if TYPE_CHECKING:
    from sordino.report.result import Assessment

_EFFORT, _MECHANISM, _STUDY = "How hard to look", "A mechanism of your own", "The study"
_NAME = "MODULE:NAME"


class _Format(StrEnum):
    """How a page is written."""

    HTML = "html"
    MARKDOWN = "md"
    JSON = "json"


@dataclass(frozen=True, kw_only=True)
class _Questions(options.Promised, options.RecordOptions):
    """What a study file says as well, by the same names; what is None was not given."""

    model: Annotated[str | None, option(PROMISE, "**logistic**, **svm** or **mlp**.")] = None
    epsilon: Annotated[float | None, option(PROMISE, "Promised, or claimed. Default: 1.")] = None
    delta: options.Delta = None
    method: Annotated[str | None, METHOD] = None
    l2: Annotated[float | None, L2] = None
    max_rows_per_person: Annotated[int | None, options.ROWS_PER_PERSON] = None
    person: Annotated[str | None, options.PERSON] = None
    ledger: options.LedgerFile = None
    dataset: options.DatasetName = None
    seeds: Annotated[int | None, option(_EFFORT, "Of the grid that measures SGD's noise.")] = None
    neighbours: Annotated[int | None, option(_EFFORT, "Datasets of that grid.")] = None
    audit_runs: Annotated[int | None, option(_EFFORT, "Runs attacked, of each of two.")] = None
    confidence: Annotated[float | None, CONFIDENCE] = None
    mechanism: Annotated[str | None, option(_MECHANISM, "Attack only it.", metavar=_NAME)] = None
    pair: Annotated[str | None, option(_MECHANISM, "Returns both datasets.", metavar=_NAME)] = None


@from_fields
def assess(
    questions: _Questions,
    study: Annotated[str | None, argument("STUDY.toml", "As `--write-study` prints one.")] = None,
    quick: Annotated[bool, option(_EFFORT, "A first look: fewer runs.", "--quick")] = False,
    thorough: Annotated[bool, option(_EFFORT, "More runs than by default.", "--thorough")] = False,
    run_code: Annotated[bool, option(_MECHANISM, "Run what a study names.", "--run-code")] = False,
    out: options.StudyDir = None,
    dask: options.Dask = None,
    public: Annotated[bool, option(_STUDY, "Also write public.html.", "--public")] = False,
    open_page: Annotated[bool, option(_STUDY, "Open the page in a browser.", "--open")] = False,
    write_study: Annotated[bool, option(_STUDY, "Print one, and stop.", "--write-study")] = False,
) -> None:
    """How private is the model I am about to release? One page that says it.

    Trains, proves, measures, attacks and releases one model of one dataset, and writes a directory:
    the page (report.html), everything on it as data (assessment.json), and the released model with
    its certificate (model/). Three numbers of the same release, never mixed up: **proved** epsilon
    (a theorem), **estimated** (measured, no guarantee), **observed** (won by an attack).

    Without options it assesses handwritten digits that come with scikit-learn, in a minute or two.
    Stopped at any moment, the same command resumes; asked to look harder, it keeps the model that
    it released. Exit code 1 if an attack refutes what is proved or claimed, 2 for what cannot be
    assessed, 130 if stopped by Ctrl-C.

    `sordino assess`

    `sordino data describe patients.csv --target ill > columns.toml`, edit that, and then
    `sordino assess --data patients.csv --columns columns.toml --epsilon 1 --out study`

    With `--mechanism` nothing else is done than to attack it: a function (data, generator) ->
    numbers or a scikit-learn estimator, as package.module:name, file.py:name or gallery:NAME, on
    the data or on the two datasets that the function `--pair` returns. Code that a study file
    names is run only with `--run-code`.

    `sordino assess --mechanism mine.py:train --data breast-cancer --epsilon 1`
    """
    if write_study:
        block(Request.template())
        return
    with terminal.wrong_input():
        request = Request() if study is None else Request.from_file(study)
        for name in ("mechanism", "pair") if study is not None and not run_code else ():
            # Code that a file names is run only if somebody says so; what is typed says it itself.
            code = getattr(request, name) or "gallery:"
            if getattr(questions, name) is None and not code.startswith("gallery:"):
                text = f"its {name} {code} would be imported and run"
                raise InvalidArgument(f"Expected --run-code with {study}: {text}.", name)
        if quick and thorough:
            raise InvalidArgument("Expected --quick or --thorough, not both.", "--quick")
        effort = "quick" if quick else "thorough" if thorough else None
        # What is None stays as it is.
        request = request.with_options(**vars(questions), effort=effort)
        if request.runs_code and questions.epsilon is None and study is None:
            checks.fail_missing("--epsilon E", "with --mechanism", "Pass what it claims.")
        if public and (request.mechanism is not None or request.model == "mlp"):
            raise InvalidArgument("Expected no --public: nothing is released.", "--public")
        place = out or request.default_directory()
        assessment = _run(request, place, dask)
    with terminal.add_note(f"The assessment is in {place}."):
        print_assessment(assessment)
        page = _say_files(assessment, Path(place), public=public)
    if open_page:
        import webbrowser

        if not webbrowser.open(page.absolute().as_uri()):
            say("No browser could be opened here.", err=True)
    if assessment.broken:
        raise typer.Exit(1)


def _run(request: Request, place: str, dask: str | None) -> Assessment:
    from sordino.assessment.run import assess as run
    from sordino.cli.audit import load_named, load_pair

    mechanism: Any = None
    pair = None
    if request.runs_code:
        assert request.mechanism is not None
        mechanism = load_named("--mechanism", request.mechanism)
        pair = None if request.pair is None else load_pair(request.pair)
    console = terminal.errors()
    with (
        terminal.resumable(lambda: f"The same command resumes from here: {place}"),
        tasks.connect(dask) as client,
        terminal.plain_warnings(console),
        terminal.StageBars(console) as bars,
    ):
        return run(request, out=place, watch=bars, mechanism=mechanism, pair=pair, client=client)


def _say_files(assessment: Assessment, place: Path, *, public: bool) -> Path:
    """Where everything is, and the page to open; the public one is written if asked for."""
    from sordino.assessment.directory import MODEL, PAGE

    page = place / PAGE
    say(f"Study (INTERNAL): {place}", f"  the page: {page}")
    if assessment.broken and not assessment.question.mechanism:
        say("  the model must NOT leave: an attack refuted its certificate")
    elif assessment.release is not None and assessment.release.directory:
        say(f"  the model that may leave, with its certificate: {place / MODEL}")
    if public:
        from sordino.assessment.pages import write_page

        page = write_page(str(place), "html", None, public=True)
        say(f"  the page that may leave: {page}")
    return page


def report(
    directory: Annotated[str, argument("DIR", "The study that `sordino assess` made.")],
    public: Annotated[bool, option(None, "Only what the certificate says.", "--public")] = False,
    format: Annotated[_Format, option(None, "md is Markdown.", "--format")] = _Format.HTML,
    out: Annotated[str | None, option(None, "Default: in DIR. - prints.", metavar="FILE")] = None,
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
    with terminal.add_note(f"The page is in {path}."):
        say(f"{path} ({'may leave' if public else 'INTERNAL'})")
