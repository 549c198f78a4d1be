"""`sordino reproduce`: the papers' numbers beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sordino.cli.options import DataDir
from sordino.cli.terminal import StageBars, errors, line, plain_warnings, resumable, say, screen

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from sordino.cli.terminal import Screen
    from sordino_papers.claims import Place
    from sordino_papers.results import Reproduction, Result

_WIDE = 160
"""Columns of a pipe."""

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")

Which = Annotated[
    list[str],
    typer.Argument(
        metavar="WHICH...",
        help="**all**; a paper, such as **v2**; a table or figure, such as **v2/table-3**; a row "
        "of one, such as **v2/table-3/sigma**. **list** (or **list v2**) names tables and figures.",
    ),
]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick",
        help="Small sizes: minutes. Claims that need the full size are not judged, and a printed "
        "number also counts as met where our wider interval holds it.",
    ),
]
Out = Annotated[
    str,
    typer.Option(
        metavar="DIR",
        help="Everything is kept here and shared by all claims: the same command, or another, "
        "computes only what is not there. INTERNAL.",
    ),
]
Figures = Annotated[bool, typer.Option("--figures/--no-figures", help="Draw the figures.")]
Markdown = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Write it as Markdown, too; pictures go beside it into a directory."
    ),
]


@app.command()
def reproduce(
    which: Which,
    quick: Quick = False,
    out: Out = "sordino-reproduction",
    data_dir: DataDir = None,
    figures: Figures = True,
    markdown: Markdown = None,
) -> None:
    """Every table and figure of five papers: the paper's number beside ours, with a verdict.

    **v1**, **v2** (Hyland & Tople: SGD's own noise), **chen** (Chen, Lee & Kifer: private linear
    models), **notes** (noise of DP-SGD) and **annamalai** (the final iterate leaks). What they
    print, for which setting, and how far ours may be from it and why is data: one file a paper.

    Verdicts: reproduced; differs (explained, if another claim that holds says why); not runnable
    here (and what is missing). Stopped at any moment, the same command goes on where it was. Exit
    code 1 if something differs and nothing explains it, or if nothing could be judged; 130 if
    stopped by Ctrl-C. Epsilons here
    are the papers' estimates and formulas, no guarantees.

    `sordino reproduce list`

    `sordino reproduce v2/table-3`

    `sordino reproduce all --quick`
    """
    from sordino_papers import words

    if which[0] == "list":
        _list(which[1:])
        return
    if markdown is not None:
        _check_writable(markdown)
    found = _run(which, quick, out, data_dir, figures)
    console = screen(_WIDE)
    for place in found.places:
        console.print(_table(place, found.of(place)))
    _explanations(console, found)
    page = _write(found, out, markdown)
    for sentence in words.summary(found):
        line(console, sentence)
    say(f"The page: {page}")
    if found.unexplained or not found.judged:
        raise typer.Exit(1)


def _check_writable(file: str) -> None:
    """Said before an hour of work."""
    from sordino import _files

    with _files.explained("--markdown", file, "written"):
        _files.check_place(file)


def _list(wanted: list[str]) -> None:
    """Papers, and what each prints where."""
    from rich import box
    from rich.table import Table

    from sordino import checks
    from sordino_papers.reading import papers

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
            own = sum(claim.ours for claim in place.claims)
            printed = sum(claim.printed is not None and not claim.ours for claim in place.claims)
            words = len(place.claims) - printed - own
            counts = {"printed": printed, "in words": words, "of ours": own}
            said = [f"{many} {what}" for what, many in counts.items() if many]
            table.add_row(place.name, place.title, ", ".join(said))
        console.print(table)


def _run(
    which: list[str], quick: bool, out: str, data_dir: str | None, figures: bool
) -> Reproduction:
    from sordino_papers.reproduce import reproduce as run

    console = errors()
    bars = StageBars(console)
    going_on = resumable(lambda: f"The same command goes on from here: {out}")
    with going_on, plain_warnings(console), bars:
        return run(
            which, directory=out, data_dir=data_dir, quick=quick, pictures=figures, watch=bars
        )


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
        claim = result.claim
        verdict = f"{words.verdict(result)}{f' ({result.why})' if result.why else ''}"
        table.add_row(
            words.subject(claim),
            words.asked(claim),
            words.ours(result),
            words.interval(result),
            Styled(verdict, colors.get(str(result.verdict), "yellow")),
        )
    return table


def _explanations(console: Screen, found: Reproduction) -> None:
    """Each once, with what it is about."""
    from sordino_papers.results import ClaimVerdict

    texts: dict[str, list[str]] = {}
    for name, result in found.results.items():
        if result.verdict is ClaimVerdict.EXPLAINED and result.claim.explanation is not None:
            texts.setdefault(result.claim.explanation.text, []).append(name)
    for text, names in texts.items():
        many = f" and {len(names) - 1} more" if len(names) > 1 else ""
        line(console, f"{names[0]}{many}: {text}")


def _write(found: Reproduction, out: str, markdown: str | None) -> Path:
    from pathlib import Path

    from sordino.study.disk import Disk
    from sordino.study.refusal import explained
    from sordino_papers.document import document
    from sordino_papers.page import page

    directory = Path(out)
    with explained(directory, "written"):
        Disk(directory).put("results.json", document(found).encode())
        Disk(directory).put("index.html", page(found, directory).encode())
    if markdown is not None:
        _write_markdown(found, directory, Path(markdown))
    return directory / "index.html"


def _write_markdown(found: Reproduction, directory: Path, file: Path) -> None:
    """The file, and beside it a directory of its name with the pictures it shows."""
    import shutil
    from pathlib import Path

    from sordino import _files
    from sordino_papers.page import markdown

    pictures = file.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    for picture in found.pictures:
        shutil.copyfile(directory / picture.png, pictures / Path(picture.png).name)
    with _files.explained("--markdown", file, "written"):
        _files.write(file, markdown(found, pictures).encode(), mode=0o666)
