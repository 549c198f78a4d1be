"""`reproduce`: from the papers' files, over the ordinary API, to a verdict on every claim."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sordino import checks
from sordino.study.files import Disk, unknown_file
from sordino_papers.bench import Bench, NotHere
from sordino_papers.claims import Drawing, PaperClaim, Place
from sordino_papers.judging import explained, measured
from sordino_papers.reading import papers
from sordino_papers.results import Picture, Reproduction, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sordino.assessment.run import Watch

README = (
    "INTERNAL: weights without noise, of thousands of trainings. Made by `sordino reproduce`;\n"
    "index.html is the page, runs/ and studies/ let the same command go on where it was.\n"
)
README_NAME = "README.txt"
_TELLS = 30
"""Letters of it that tell a directory of ours; later versions may say more."""
ALL = "all"


def reproduce(
    which: str | Sequence[str] = ALL,
    *,
    directory: str | os.PathLike[str],
    data_dir: str | os.PathLike[str] | None = None,
    quick: bool = False,
    pictures: bool = True,
    watch: Watch | None = None,
) -> Reproduction:
    """Compute what the papers print, and compare.

    Parameters
    ----------
    which
        "all", papers ("v2"), places ("v2/table-3") or claims ("v2/table-3/sigma").
    directory
        Where runs are kept, shared by all claims: called again, only what changed is computed.
        INTERNAL: weights without noise.
    data_dir
        Directory of the raw files; None is SORDINO_DATA. Claims whose files are missing are "not
        runnable here".
    quick
        Small sizes, minutes instead of most of an hour; claims that need the full size are not
        judged, and a printed number counts as met if our (wider) interval holds it.
    pictures
        Whether figures are drawn.
    watch
        Told of every run that begins and ends.
    """
    began = time.perf_counter()
    chosen = selected([which] if isinstance(which, str) else which)
    place = _prepared(Path(directory))
    bench = _bench(place, data_dir, quick, watch)
    needed = with_support(chosen)
    _make(bench, needed)
    results = _results(bench, needed)
    drawn = _pictures(bench, _places(chosen)) if pictures else ()
    return Reproduction(
        papers=tuple(papers().values()),
        results=results,
        pictures=drawn,
        seconds=dict(bench.seconds),
        runs={name: bench.runs[name] for name in bench.seconds},
        wall_seconds=time.perf_counter() - began,
        quick=quick,
    )


def selected(which: Iterable[str]) -> list[PaperClaim]:
    """The claims that are meant, in the papers' order."""
    everything = [claim for paper in papers().values() for claim in paper.claims]
    wanted: set[str] = set()
    for name in which:
        fits = {c.name for c in everything if name == ALL or f"{c.name}/".startswith(f"{name}/")}
        if not fits:
            hint = "`sordino reproduce list` names tables and figures, such as v2/table-3."
            checks.fail("WHICH", name, f"to be {ALL}, a paper of {list(papers())} or in one", hint)
        wanted |= fits
    return [claim for claim in everything if claim.name in wanted]


def with_support(claims: Sequence[PaperClaim]) -> list[PaperClaim]:
    """The claims, and those their explanations lean on."""
    everything = {claim.name: claim for paper in papers().values() for claim in paper.claims}
    found: dict[str, PaperClaim] = {}
    waiting = list(claims)
    while waiting:
        claim = waiting.pop(0)
        if claim.name not in found:
            found[claim.name] = claim
            if claim.explanation is not None:
                waiting += [everything[name] for name in claim.explanation.shown_by]
    return [claim for name, claim in everything.items() if name in found]


def _prepared(directory: Path) -> Path:
    """The directory, made or gone on with; refused if it holds what is not ours."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        readme = directory / README_NAME
        ours = readme.is_file() and readme.read_bytes().startswith(README.encode()[:_TELLS])
        foreign = None if ours else unknown_file(directory, ())
        if foreign is None:
            os.chmod(directory, 0o700)
            Disk(directory).put(README_NAME, README.encode())
    except (OSError, ValueError) as error:
        hint = "Pass a directory that can be written."
        why = getattr(error, "strerror", None) or error
        checks.fail("--out", directory, f"to be a directory for it ({why})", hint)
    if foreign is not None:
        hint = "Pass another --out; this one was not changed."
        what = f"to be empty or a reproduction, and it holds {foreign!r}"
        checks.fail("--out", directory, what, hint)
    return directory


def _bench(
    directory: Path,
    data_dir: str | os.PathLike[str] | None,
    quick: bool,
    watch: Watch | None,
) -> Bench:
    runs = {name: run for paper in papers().values() for name, run in paper.runs.items()}
    bench = Bench(directory, runs, data_dir, quick)
    if watch is not None:
        bench.begin = lambda name: watch.begin(name, name)
        bench.end = lambda name, seconds: watch.end(name, seconds, resumed=False)
    return bench


def _make(bench: Bench, claims: Sequence[PaperClaim]) -> None:
    """Every run that is needed; one that cannot be made is found again when its claim is asked."""
    asked = [c for c in claims if not (c.full and bench.quick)]
    for name in dict.fromkeys(run for claim in asked for run in claim.runs):
        try:
            bench.numbers(name)
        except NotHere:
            continue


def _results(bench: Bench, claims: Sequence[PaperClaim]) -> Mapping[str, Result]:
    from sordino_papers.quantities import registry

    quantities = registry()
    return explained({claim.name: measured(claim, bench, quantities) for claim in claims})


def _places(claims: Sequence[PaperClaim]) -> list[Place]:
    wanted = {claim.place for claim in claims}
    return [place for paper in papers().values() for place in paper.places if place.name in wanted]


def _pictures(bench: Bench, places: Sequence[Place]) -> tuple[Picture, ...]:
    """Figures in the papers' layout; one whose runs cannot be made here is left out."""
    from sordino_papers.quantities import drawings

    known, found = drawings(), []
    (bench.directory / "figures").mkdir(exist_ok=True)
    for place in places:
        for at, drawing in enumerate(place.drawings):
            try:
                figure = _drawn(bench, drawing, known)
            except NotHere:
                continue
            name = place.name.replace("/", "-") + (f"-{at + 1}" if len(place.drawings) > 1 else "")
            found.append(_saved(bench.directory, place, name, figure))
    return tuple(found)


def _drawn(bench: Bench, drawing: Drawing, known: Mapping[str, Callable[..., Figure]]) -> Figure:
    numbers = [bench.numbers(run) for run in drawing.runs]
    return known[drawing.draw](*numbers, **drawing.arguments)


def _saved(directory: Path, place: Place, name: str, figure: Figure) -> Picture:
    from sordino.report import canvas

    says = f"{place.title} (ours)"
    svg, png = f"figures/{name}.svg", f"figures/{name}.png"
    for file in (svg, png):
        canvas.save(figure, str(directory / file), says)
        os.chmod(directory / file, 0o600)
    return Picture(place.name, svg, png, says)
