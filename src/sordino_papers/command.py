"""`sordino reproduce`: the papers' numbers beside ours."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.options import Dask, DataDir
from sordino.cli.terminal import StageBars, errors, line, plain_warnings, resumable, say, screen

if TYPE_CHECKING:
    from rich.table import Table

    from sordino_papers.claims import Place
    from sordino_papers.reproduction import Result

_WIDE = 160
"""Columns of a pipe."""

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")

_WHICH = "**all**, a paper (**v2**), a table (**v2/table-3**) or a row; **list** names them."
_Which = Annotated[list[str], typer.Argument(metavar="WHICH...", help=_WHICH)]
_Quick = Annotated[bool, typer.Option("--quick", help="Small sizes: minutes.")]
_Out = Annotated[str, typer.Option(metavar="DIR", help="All is kept here, to resume. INTERNAL.")]
_Figures = Annotated[bool, typer.Option("--figures/--no-figures", help="Draw the figures.")]
_SUMMARY = "Write the score, and what differs and why, as Markdown, too."
_Summary = Annotated[str | None, typer.Option(metavar="FILE", help=_SUMMARY)]


@app.command()
def reproduce(
    which: _Which,
    quick: _Quick = False,
    out: _Out = "sordino-reproduction",
    data_dir: DataDir = None,
    figures: _Figures = True,
    summary: _Summary = None,
    dask: Dask = None,
) -> None:
    """Every table and figure of five papers: the paper's number beside ours, with a verdict.

    **v1**, **v2** (Hyland & Tople: SGD's own noise), **chen** (Chen, Lee & Kifer: private linear
    models), **notes** (noise of DP-SGD) and **annamalai** (the final iterate leaks). What they
    print, for which setting, and how far ours may be from it and why is data: one file a paper.

    Verdicts: reproduced; differs (explained, if another claim that holds says why); not runnable
    here (and what is missing). DIR gets the page as index.html and as Markdown, and
    results.json. Stopped at any moment, the same command resumes. Exit code 1 if something differs
    and nothing explains it, or if nothing could be judged; 130 if stopped by Ctrl-C. Epsilons here
    are the papers' estimates and formulas, no guarantees.

    `sordino reproduce list`

    `sordino reproduce v2/table-3`

    `sordino reproduce all --quick`
    """
    from pathlib import Path

    from sordino import _files, tasks
    from sordino.study.files import Disk, explained
    from sordino_papers import page, reproduction, score

    if which[0] == "list":
        _list(which[1:])
        return
    if summary is not None:  # before an hour of work
        with _files.explained("--summary", summary, "written"):
            _files.check_place(summary)
    console = errors()
    bars = StageBars(console)
    with (
        resumable(lambda: f"The same command goes on from here: {out}"),
        plain_warnings(console),
        bars,
        tasks.connect(dask) as client,
    ):
        how: dict[str, Any] = {"pictures": figures, "watch": bars, "client": client}
        how |= {"data_dir": data_dir, "quick": quick}
        ours = reproduction.reproduce(which, directory=out, **how)
    console = screen(_WIDE)
    for place in ours.places:
        console.print(_table(place, ours.of(place)))
    texts: dict[str, list[str]] = {}
    for name, result in ours.results.items():
        if str(result.verdict) == "differs, explained" and result.claim.explanation is not None:
            texts.setdefault(result.claim.explanation.text, []).append(name)
    for text, names in texts.items():
        many = f" and {len(names) - 1} more" if len(names) > 1 else ""
        line(console, f"{names[0]}{many}: {text}")
    directory = Path(out)
    with explained(directory, "written"):
        Disk(directory).put("results.json", page.document(ours).encode())
        Disk(directory).put("index.html", page.html(ours, directory).encode())
        (directory / "markdown").mkdir(exist_ok=True)
        whole = page.markdown(ours, "../figures").encode()
        Disk(directory).put("markdown/reproduction.md", whole)
    if summary is not None:
        with _files.explained("--summary", summary, "written"):
            _files.write(summary, page.summary(ours).encode(), mode=0o666)
    for sentence in score.summary(ours):
        line(console, sentence)
    say(f"The page: {directory / 'index.html'}")
    if ours.unexplained or not ours.judged:
        raise typer.Exit(1)


def _list(wanted: list[str]) -> None:
    """Papers, and what each prints where."""
    from rich import box
    from rich.table import Table

    from sordino import checks
    from sordino_papers.claims import papers

    for key in wanted:
        checks.one_of("PAPER", key, list(papers()))
    console = screen(_WIDE)
    for paper in papers().values():
        if wanted and paper.key not in wanted:
            continue
        title = f"{paper.key}: {paper.authors} ({paper.year}), {paper.title}"
        table = Table("name", "what", "claims", box=box.SIMPLE_HEAD, title=title)
        table.title_justify = "left"
        for place in paper.places:
            kinds = {"printed": "printed", "setting": "printed", "words": "in words"}
            counts = Counter(kinds.get(claim.category, "of ours") for claim in place.claims)
            order = ("printed", "in words", "of ours")
            texts = [f"{counts[what]} {what}" for what in order if counts[what]]
            table.add_row(place.name, place.title, ", ".join(texts))
        console.print(table)


def _table(place: Place, results: list[Result]) -> Table:
    """Paper | ours | interval | verdict."""
    from rich import box
    from rich.styled import Styled
    from rich.table import Table

    from sordino_papers import words

    table = Table(box=box.SIMPLE_HEAD, title=f"{place.name}  {place.title}", title_justify="left")
    for name in ("", "paper", "ours", "interval", "verdict"):
        table.add_column(name, no_wrap=name in ("paper", "ours"))
    colors = {"reproduced": "green", "differs": "bold red"}
    for result in results:
        verdict = f"{words.verdict(result)}{f' ({result.why})' if result.why else ''}"
        table.add_row(
            words.title(result.claim),
            words.wanted(result.claim),
            words.ours(result),
            words.interval(result),
            Styled(verdict, colors.get(str(result.verdict), "yellow")),
        )
    return table
