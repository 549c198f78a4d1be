"""`reproduce`: from the papers' files, over the ordinary API, to a verdict on every claim."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino import checks
from sordino.study.files import Disk, unknown_file
from sordino_papers import claims, quantities
from sordino_papers.claims import Paper, PaperClaim, PaperRun, Place, Tolerance
from sordino_papers.quantities import Answer, Quantities
from sordino_papers.runs import NotHere, RunStore

if TYPE_CHECKING:
    from sordino.assessment.run import Watch

_README = """\
INTERNAL: weights without noise, of thousands of trainings. Made by `sordino reproduce`;
index.html is the page, runs/ and studies/ let the same command go on where it was.
"""
_README_NAME = "README.txt"
_TELLS = 30
"""Letters of it that tell a directory of ours; later versions may say more."""
_ALL = "all"
NEEDS_FULL = "only judged at full size: leave out --quick"


class ClaimVerdict(StrEnum):
    """What became of a claim."""

    REPRODUCED = "reproduced"
    EXPLAINED = "differs, explained"
    DIFFERS = "differs"
    NOT_RUNNABLE = "not runnable here"


@dataclass(frozen=True)
class Result:
    """One claim's verdict.

    Parameters
    ----------
    claim
        What was asked.
    answer
        Our number; None if it could not be computed here.
    verdict
        What became of it.
    why
        Of one that is not runnable: what is missing. Of an explanation that does not hold: which
        claim it leans on that fails.
    """

    claim: PaperClaim
    answer: Answer | None
    verdict: ClaimVerdict
    why: str = ""

    @property
    def weak(self) -> bool:
        """Whether it is met only in an interval of ours that is as wide as the number itself."""
        printed, ours = self.claim.printed, self.answer
        if self.claim.tolerance.kind != "interval" or self.verdict is not ClaimVerdict.REPRODUCED:
            return False
        if printed is None or ours is None or ours.low is None or ours.high is None:
            return False
        return ours.high - ours.low > abs(printed.value)

    @property
    def off(self) -> str:
        """By how much ours differs from the printed number: "1.35 times", "+0.4 points" or "".

        Differences around 0 (gains, printed with a sign) have no sensible ratio.
        """
        printed = self.claim.printed
        if self.answer is None or printed is None:
            return ""
        ours = self.answer.value
        if printed.percent:
            return f"{ours - printed.value:+.3g} points"
        if printed.value == 0 or printed.text[0] in "+-":
            return f"{ours - printed.value:+.3g}"
        return f"{ours / printed.value:.3g} times"


@dataclass(frozen=True)
class Picture:
    """A drawn figure: files relative to the directory, and what it shows."""

    place: str
    svg: str
    png: str
    says: str


@dataclass(frozen=True)
class Reproduction:
    """Everything that one call of `reproduce` computed.

    Parameters
    ----------
    papers
        That were asked, whole.
    results
        By the claim's name, of what was asked and of what its explanations lean on.
    pictures
        In order.
    seconds
        By run: what it took when it was made (also where that was an earlier call).
    runs
        Those that were needed, by name.
    wall_seconds
        Of this call.
    quick
        Whether sizes were small.
    """

    papers: tuple[Paper, ...]
    results: Mapping[str, Result]
    pictures: tuple[Picture, ...]
    seconds: Mapping[str, float]
    runs: Mapping[str, PaperRun]
    wall_seconds: float
    quick: bool

    def of(self, place: Place) -> list[Result]:
        """Results of one place, in order."""
        return [self.results[c.name] for c in place.claims if c.name in self.results]

    @property
    def places(self) -> list[Place]:
        """Those that were asked."""
        return [place for paper in self.papers for place in paper.places if self.of(place)]

    @property
    def judged(self) -> bool:
        """Whether anything of the papers could be judged here; of our checks, if only they are."""
        asked = [r for r in self.results.values() if not r.claim.ours] or self.results.values()
        return any(r.verdict is not ClaimVerdict.NOT_RUNNABLE for r in asked)

    @property
    def unexplained(self) -> list[Result]:
        """Claims that differ, and nobody knows why; of our own checks, those that fail."""
        return [r for r in self.results.values() if r.verdict is ClaimVerdict.DIFFERS]

    @property
    def asked_papers(self) -> list[Paper]:
        """Those that something was asked of."""
        return [paper for paper in self.papers if any(map(self.of, paper.places))]

    @property
    def missing(self) -> dict[str, list[Result]]:
        """What is not runnable here, by what is missing."""
        grouped: dict[str, list[Result]] = {}
        for result in self.results.values():
            if result.verdict is ClaimVerdict.NOT_RUNNABLE:
                grouped.setdefault(result.why, []).append(result)
        return grouped


def reproduce(
    which: str | Sequence[str] = _ALL,
    *,
    directory: str | os.PathLike[str],
    data_dir: str | os.PathLike[str] | None = None,
    quick: bool = False,
    pictures: bool = True,
    watch: Watch | None = None,
    client: Any = None,
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
    client
        A Dask `Client` whose workers train grids and ERM studies (they read `directory`, too);
        None is this machine. The numbers are the same.

    Returns
    -------
    Reproduction
        Every claim that was asked, with our number and its verdict.

    Raises
    ------
    InvalidArgument
        If `which` names nothing, or the directory holds what is not ours.

    Examples
    --------
    >>> import tempfile
    >>> place = tempfile.TemporaryDirectory()
    >>> ours = reproduce("v1/slips/constant", directory=place.name, pictures=False)
    >>> {str(result.verdict) for result in ours.results.values()}
    {'reproduced'}
    >>> place.cleanup()
    """
    began = time.perf_counter()
    papers = claims.papers()
    asked = _chosen(papers, [which] if isinstance(which, str) else which)
    runs = {name: run for paper in papers.values() for name, run in paper.runs.items()}
    store = RunStore(_prepare(Path(directory)), runs, data_dir, quick, client)
    if watch is not None:
        store.begin = lambda name: watch.begin(name, name)
        store.end = lambda name, seconds: watch.end(name, seconds, resumed=False)
    known = quantities.registry()
    needed = _with_support(papers, asked)
    for run in dict.fromkeys(run for c in needed if not (c.full and quick) for run in c.runs):
        try:
            store.numbers(run)
        except NotHere:
            continue  # raised again when its claim is asked
    results = explain({c.name: judge(c, store, known) for c in needed})
    return Reproduction(
        papers=tuple(papers.values()),
        results=results,
        pictures=_draw(store, papers, {claim.place for claim in asked}) if pictures else (),
        seconds=dict(store.seconds),
        runs={name: runs[name] for name in store.seconds},
        wall_seconds=time.perf_counter() - began,
        quick=quick,
    )


def _chosen(papers: Mapping[str, Paper], which: Iterable[str]) -> list[PaperClaim]:
    """The claims that are meant, in the papers' order."""
    everything = [claim for paper in papers.values() for claim in paper.claims]
    wanted: set[str] = set()
    for name in which:
        fits = {c.name for c in everything if name == _ALL or f"{c.name}/".startswith(f"{name}/")}
        if not fits:
            hint = "`sordino reproduce list` names tables and figures."
            checks.fail("WHICH", name, f"to be {_ALL}, a paper of {list(papers)} or in one", hint)
        wanted |= fits
    return [claim for claim in everything if claim.name in wanted]


def _with_support(papers: Mapping[str, Paper], asked: Sequence[PaperClaim]) -> list[PaperClaim]:
    """The claims, and those their explanations lean on."""
    everything = {claim.name: claim for paper in papers.values() for claim in paper.claims}
    wanted, new = set[str](), {claim.name for claim in asked}
    while new:
        wanted |= new
        reasons = (everything[name].explanation for name in new)
        new = {name for each in reasons if each for name in each.shown_by} - wanted
    return [claim for name, claim in everything.items() if name in wanted]


def _prepare(directory: Path) -> Path:
    """Make the directory, or resume one of ours; refuse one that holds what is not ours."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        readme = directory / _README_NAME
        ours = readme.is_file() and readme.read_bytes().startswith(_README.encode()[:_TELLS])
        other = None if ours else unknown_file(directory, ())
        if other is None:
            os.chmod(directory, 0o700)
            Disk(directory).put(_README_NAME, _README.encode())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        checks.fail("--out", directory, f"to be a directory that can be written ({why})")
    if other is not None:
        checks.fail("--out", directory, f"to be empty or a reproduction, not with {other!r}")
    return directory


def judge(claim: PaperClaim, store: RunStore, known: Mapping[str, type[Quantities]]) -> Result:
    """Our number beside the paper's, before explanations are asked.

    With small sizes a printed number also counts as met if our wider interval holds it.
    """
    if claim.full and store.quick:
        return Result(claim, None, ClaimVerdict.NOT_RUNNABLE, NEEDS_FULL)
    try:
        numbers = [store.numbers(run) for run in claim.runs]
    except NotHere as missing:
        return Result(claim, None, ClaimVerdict.NOT_RUNNABLE, str(missing))
    answer = known[claim.quantity](*numbers).ask(claim.quantity, **claim.arguments)
    holds = claim.tolerance.holds(answer, claim.printed)
    if store.quick and claim.printed is not None and answer.low is not None:
        holds = holds or Tolerance("interval", 0.0).holds(answer, claim.printed)
    return Result(claim, answer, ClaimVerdict.REPRODUCED if holds else ClaimVerdict.DIFFERS)


def explain(results: Mapping[str, Result]) -> dict[str, Result]:
    """The same results, where an explanation counts if every claim it leans on holds.

    A check that only needs the full size leaves it open with --quick; others must hold.
    """

    def explained(result: Result) -> Result:
        if result.verdict is not ClaimVerdict.DIFFERS or result.claim.explanation is None:
            return result
        for other in (results[name] for name in result.claim.explanation.shown_by):
            if other.why == NEEDS_FULL:
                why = f"differs, and what would explain it is {NEEDS_FULL}"
                return replace(result, verdict=ClaimVerdict.NOT_RUNNABLE, why=why)
            if other.verdict is not ClaimVerdict.REPRODUCED:
                return replace(result, why=f"it leans on {other.claim.name}, which does not hold")
        return replace(result, verdict=ClaimVerdict.EXPLAINED)

    return {name: explained(result) for name, result in results.items()}


def _draw(store: RunStore, papers: Mapping[str, Paper], wanted: set[str]) -> tuple[Picture, ...]:
    """Figures in the papers' layout; one whose runs cannot be made here is left out."""
    from sordino.report import canvas

    known, drawn = quantities.drawings(), []
    (store.directory / "figures").mkdir(exist_ok=True)
    places = [place for paper in papers.values() for place in paper.places if place.name in wanted]
    for place, at, drawing in ((p, at, d) for p in places for at, d in enumerate(p.drawings)):
        try:
            numbers = [store.numbers(run) for run in drawing.runs]
        except NotHere:
            continue
        figure = known[drawing.draw](*numbers, **drawing.arguments)
        name = place.name.replace("/", "-") + (f"-{at + 1}" if len(place.drawings) > 1 else "")
        says = f"{place.title} (ours)"
        picture = Picture(place.name, f"figures/{name}.svg", f"figures/{name}.png", says)
        for file in (picture.svg, picture.png):
            canvas.save(figure, str(store.directory / file), says)
            os.chmod(store.directory / file, 0o600)
        drawn.append(picture)
    return tuple(drawn)
