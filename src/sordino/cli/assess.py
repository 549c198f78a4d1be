"""`sordino assess`: the main job. Train, prove, measure, release, attack; one page."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino import _check
from sordino.assessment.brief import Brief
from sordino.assessment.source import not_given
from sordino.cli.data import DataDir
from sordino.cli.record_options import RECORDS, Classes, OptionalData, Target
from sordino.cli.stage_bars import StageBars
from sordino.cli.warned import line, short_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sordino.report.assessment import Assessment

_PROMISE, _EFFORT, _FOREIGN, _STUDY = (
    "The release",
    "How hard to look",
    "A mechanism of your own",
    "The study",
)

StudyFile = Annotated[
    str | None,
    typer.Argument(
        metavar="[STUDY.toml]",
        help="A study file with these settings; options given here come first. `--write-study` "
        "prints one to edit.",
        show_default=False,
    ),
]
ColumnsFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.toml",
        help="What is publicly known of a file's columns: bounds, levels, classes. Without it they "
        "are read off the rows, a leak that the page names. `sordino data describe` drafts one; "
        "a study file may hold it, too.",
        rich_help_panel=RECORDS,
    ),
]
DataNorm = Annotated[
    float | None,
    typer.Option(
        help="Public bound on a row's norm, the intercept's 1 included; longer rows are scaled "
        "down. Default: 1 for a file, the declared bound for a dataset.",
        rich_help_panel=RECORDS,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="**logistic** (default), **svm**, or **mlp**: a network, which is measured and "
        "attacked; of its final weights nothing is proved beyond DP-SGD's composition.",
        rich_help_panel=_PROMISE,
    ),
]
Epsilon = Annotated[
    float | None,
    typer.Option(
        help="The budget you promise (default 1); with --mechanism, what it claims.",
        rich_help_panel=_PROMISE,
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(
        help="Default: 1 / rows^2, rounded down to one digit: far below the 1 / rows at which "
        "giving one record away would count as private.",
        rich_help_panel=_PROMISE,
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        help="How the release is made; **auto** (default) chooses by public facts. "
        "docs/release.md has the list.",
        rich_help_panel=_PROMISE,
    ),
]
L2 = Annotated[
    float | None,
    typer.Option(
        "--l2", help="Weight of (l2/2) ||w||^2 (default 0.001).", rich_help_panel=_PROMISE
    ),
]
RowsPerPerson = Annotated[
    int | None,
    typer.Option(
        "--max-rows-per-person",
        help="All rows of one person are protected together (default 1).",
        rich_help_panel=_PROMISE,
    ),
]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="A first look: fewer runs.", rich_help_panel=_EFFORT),
]
Thorough = Annotated[
    bool,
    typer.Option("--thorough", help="More runs than by default.", rich_help_panel=_EFFORT),
]
Seeds = Annotated[
    int | None,
    typer.Option(help="Of the grid that measures SGD's own noise.", rich_help_panel=_EFFORT),
]
NeighbourCount = Annotated[
    int | None,
    typer.Option(
        "--neighbours", help="Neighbouring datasets of that grid.", rich_help_panel=_EFFORT
    ),
]
AuditRuns = Annotated[
    int | None,
    typer.Option(
        help="Runs of the attack on each of two datasets; more see further.",
        rich_help_panel=_EFFORT,
    ),
]
Confidence = Annotated[
    float | None,
    typer.Option(help="Of what the attack observes (default 0.99).", rich_help_panel=_EFFORT),
]
Mechanism = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:NAME",
        help="Attack this and nothing else: a function (data, generator) -> numbers or a "
        "scikit-learn estimator, as package.module:name or file.py:name; or gallery:NAME.",
        rich_help_panel=_FOREIGN,
    ),
]
Pair = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:NAME",
        help="With --mechanism, instead of --data: a function that returns the two datasets.",
        rich_help_panel=_FOREIGN,
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Directory of the study: made, or gone on with. INTERNAL. Default: a name made of "
        "what is asked, here.",
        rich_help_panel=_STUDY,
    ),
]
Public = Annotated[
    bool,
    typer.Option(
        "--public",
        help="Also write public.html, which shows only what the certificate may show.",
        rich_help_panel=_STUDY,
    ),
]
Open = Annotated[
    bool, typer.Option("--open", help="Open the page in a browser.", rich_help_panel=_STUDY)
]
WriteStudy = Annotated[
    bool,
    typer.Option(
        "--write-study", help="Print a study file to edit, and stop.", rich_help_panel=_STUDY
    ),
]


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
    quick: Quick = False,
    thorough: Thorough = False,
    seeds: Seeds = None,
    neighbours: NeighbourCount = None,
    audit_runs: AuditRuns = None,
    confidence: Confidence = None,
    mechanism: Mechanism = None,
    pair: Pair = None,
    out: Out = None,
    public: Public = False,
    open_page: Open = False,
    write_study: WriteStudy = False,
) -> None:
    """How private is the model I am about to release? One page that says it.

    Trains, proves, measures, releases and attacks one model of one dataset, and writes a directory:
    the page (report.html), everything on it as data (assessment.json), and the released model with
    its certificate (model/). Three numbers of the same release, never mixed up: **proved** epsilon
    (a theorem), **estimated** (measured, no guarantee), **observed** (won by an attack).

    Without options it assesses handwritten digits that come with scikit-learn, in a minute or two.
    Stopped at any moment, the same command goes on where it was. Exit code 1 if an attack refutes
    what is proved or claimed, 2 for what cannot be assessed.

    `sordino assess`

    `sordino assess --data patients.csv --target ill --epsilon 1 --out study`

    `sordino assess --mechanism mine.py:train --data breast-cancer --epsilon 1`
    """
    if write_study:
        typer.echo(Brief.template(), nl=False)
        return
    given = {
        name: value
        for name, value in (
            *(("data", data), ("target", target), ("columns", columns), ("classes", classes)),
            *(("data_norm", data_norm), ("data_dir", data_dir), ("model", model)),
            *(("epsilon", epsilon), ("delta", delta), ("method", method), ("l2", l2)),
            *(("max_rows_per_person", max_rows_per_person), ("seeds", seeds)),
            *(("neighbours", neighbours), ("audit_runs", audit_runs), ("pair", pair)),
            *(("confidence", confidence), ("mechanism", mechanism)),
            ("effort", _effort(quick=quick, thorough=thorough)),
        )
        if value is not None
    }
    with _wrong_input():
        brief = Brief() if study is None else Brief.from_file(study)
        brief = brief.with_options(**given)
        _check_claim(brief, epsilon, study)
        place = out or brief.default_directory()
        found = _run(brief, place)
    _say(found, place)
    pages = _pages(found, place, public=public)
    if open_page:
        _open(pages[-1])
    if found.broken:
        raise typer.Exit(1)


def _effort(*, quick: bool, thorough: bool) -> str | None:
    if quick and thorough:
        _check.fail("--quick", "", "or --thorough, not both")
    return "quick" if quick else "thorough" if thorough else None


def _check_claim(brief: Brief, epsilon: float | None, study: str | None) -> None:
    """What a foreign mechanism claims must be said; the gallery's say it themselves."""
    if brief.mechanism is None or brief.mechanism.startswith("gallery:"):
        return
    if epsilon is None and study is None:
        not_given("--epsilon E", "with --mechanism", "Pass the epsilon that it claims.")


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
            typer.echo(str(error), err=True)
            raise typer.Exit(2) from None
        raise


def _run(brief: Brief, place: str) -> Assessment:
    from sordino.assessment.run import assess as run
    from sordino.report.figures import errors

    console = errors()
    mechanism, pair = _foreign(brief)
    bars = StageBars(console)
    try:
        with short_warnings(console), bars.shown():
            return run(brief, out=place, watch=bars, mechanism=mechanism, pair=pair)
    except KeyboardInterrupt:
        line(console, f"Stopped. The same command goes on from here: {place}")
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
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from sordino.report import words

    console = Console()
    if not console.is_terminal:
        console = Console(width=200)  # a pipe has no width: leave lines whole
    typer.echo(f"\n{words.verdict(found)}")
    for note in words.notes(found):
        typer.echo(note)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "epsilon", "", "at delta", "how sure"):
        table.add_column(name)
    before = ""
    for row in words.table(found):
        if row.of != before:
            table.add_row(row.of, style="bold")
            before = row.of
        table.add_row(f"  {row.kind}", row.epsilon, row.meaning, row.delta, row.certainty)
    console.print(table)
    typer.echo(f"Study (INTERNAL): {place}")


def _pages(found: Assessment, place: str, *, public: bool) -> list[Path]:
    """Where the pages are; the public one is written if asked for."""
    from pathlib import Path

    from sordino.assessment.directory import MODEL, PAGE

    pages = [Path(place) / PAGE]
    typer.echo(f"  the page: {pages[0]}")
    if found.release is not None and found.release.directory:
        typer.echo(f"  the model that may leave, with its certificate: {Path(place) / MODEL}")
    if public:
        from sordino.assessment.public import write_page

        pages.append(write_page(place, "html", None, public=True))
        typer.echo(f"  the page that may leave: {pages[-1]}")
    return pages


def _open(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.absolute().as_uri()):
        typer.echo("No browser could be opened here.", err=True)
