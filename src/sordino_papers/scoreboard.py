"""`Score`: how many claims came out how, and what it took: the first lines of every account."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sordino.report.numbers import percent_down
from sordino_papers.claims import Paper, Place
from sordino_papers.judging import NEEDS_FULL
from sordino_papers.layout import CHECKS, SLIPS, missing, papers, places
from sordino_papers.reading import KEYS
from sordino_papers.results import ClaimVerdict, Reproduction, Result

NO_GUARANTEE = (
    "Every epsilon here is an estimate or a formula of the papers, computed again, unless it is "
    "named otherwise. None of them is a guarantee."
)
QUICK = (
    "Sizes were small, so nothing here is evidence for or against a paper: intervals are wide, a "
    "printed number also counts as met if our interval holds it, and some claims were not judged. "
    "Leave out `--quick` for the real thing."
)
HOW_TO_RUN = (
    "Put the raw files into one directory (`sordino data list` says which are known and which are "
    "here), then run `{command}` again with `SORDINO_DATA` set to that directory. Only what is "
    "missing is computed."
)


@dataclass(frozen=True)
class Score:
    """Counts of verdicts."""

    reproduced: int
    explained: int
    differs: int
    not_runnable: int

    @classmethod
    def of(cls, results: Iterable[Result]) -> Score:
        """Of these."""
        verdicts = [result.verdict for result in results]
        return cls(*(verdicts.count(each) for each in ClaimVerdict))

    @property
    def judged(self) -> int:
        """Those that could be computed here."""
        return self.reproduced + self.explained + self.differs

    @property
    def asked(self) -> int:
        """All."""
        return self.judged + self.not_runnable

    @property
    def share(self) -> str:
        """Reproduced of those judged, rounded down, so that only all of them are 100 %."""
        return percent_down(self.reproduced / self.judged) if self.judged else ""

    def __str__(self) -> str:
        if not self.judged:
            return "none" if not self.asked else f"none of {self.asked:,} could be computed"
        return f"{self.reproduced:,} of {self.judged:,} ({self.share})"


@dataclass(frozen=True)
class Tally:
    """Scores of a paper, of a place, or of everything."""

    printed: Score
    words: Score
    seconds: float
    """Of the runs that it asks; others may ask the same ones."""


def printed(results: Iterable[Result]) -> list[Result]:
    """Of the papers' claims, the printed numbers that a run could have missed: not its settings."""
    return [r for r in results if _is_printed(r) and not r.claim.setting]


def settings(results: Iterable[Result]) -> list[Result]:
    """Printed numbers that are settings of the runs, used as printed."""
    return [r for r in results if _is_printed(r) and r.claim.setting]


def repeated(results: Iterable[Result]) -> list[Result]:
    """Of the printed numbers that are counted, those that ask for the same as one before."""
    seen: set[str] = set()
    found = []
    for result in printed(results):
        claim = result.claim
        asked = repr((claim.quantity, claim.runs, sorted(claim.arguments.items(), key=str)))
        if asked in seen:
            found.append(result)
        seen.add(asked)
    return found


def _is_printed(result: Result) -> bool:
    return not result.claim.ours and result.claim.printed is not None


def worded(results: Iterable[Result]) -> list[Result]:
    """Of the papers' claims, those in words."""
    return [r for r in results if not r.claim.ours and r.claim.printed is None]


def checks(results: Iterable[Result]) -> list[Result]:
    """Checks of ours."""
    return [r for r in results if r.claim.ours]


def tally(reproduction: Reproduction, results: Iterable[Result]) -> Tally:
    """Scores of some results."""
    held = list(results)
    runs = {run for result in held for run in result.claim.runs}
    seconds = sum(reproduction.seconds.get(run, 0.0) for run in runs)
    return Tally(Score.of(printed(held)), Score.of(worded(held)), seconds)


def total(reproduction: Reproduction) -> Tally:
    """Scores of everything."""
    whole = tally(reproduction, reproduction.results.values())
    return replace(whole, seconds=sum(reproduction.seconds.values()))


def of_paper(reproduction: Reproduction, paper: Paper) -> Tally:
    """Scores of a paper."""
    return tally(reproduction, [each for place in paper.places for each in reproduction.of(place)])


def of_place(reproduction: Reproduction, place: Place) -> Tally:
    """Scores of a table or figure."""
    return tally(reproduction, reproduction.of(place))


def counted(many: int, one: str) -> str:
    """So many of something: "1 run", "2 runs"."""
    return f"{many:,} {one}{'' if many == 1 else 's'}"


def headline(reproduction: Reproduction) -> str:
    """Did they really reproduce it? In two sentences."""
    whole = total(reproduction)
    parts = []
    if whole.printed.judged:
        numbers = f"{whole.printed.reproduced:,} of {whole.printed.judged:,} printed numbers"
        parts.append(f"{numbers} are within tolerance ({whole.printed.share})")
    if whole.words.judged:
        parts.append(f"{whole.words.reproduced:,} of {whole.words.judged:,} claims in words hold")
    if not parts:
        only = all(result.claim.ours for result in reproduction.results.values())
        return "Only checks of ours were asked." if only else "Nothing could be judged here."
    return f"{', and '.join(parts)}. {_others(reproduction)}."


def counted_how(reproduction: Reproduction) -> str:
    """What is counted among the printed numbers, and how much that says; empty if nothing is."""
    results = list(reproduction.results.values())
    if not Score.of(printed(results)).judged:
        return ""
    twice = {result.claim.name for result in repeated(results)}
    once = Score.of(r for r in printed(results) if r.claim.name not in twice)
    weak = sum(result.weak for result in printed(results))
    said = []
    if many := len(settings(results)):
        both = Score.of(r for r in results if _is_printed(r))
        what = f"{counted(many, 'printed setting')} of the runs are shown and not counted"
        said.append(
            f"{what} (with them it is {both}; in the papers' tables alone {_cells(results)})"
        )
    if twice:
        said.append(f"without {counted(len(twice), 'number')} that are printed twice it is {once}")
    if weak:
        said.append(
            f"{counted(weak, 'number')} within tolerance only by an interval of ours as wide as "
            "the number itself, which says little"
        )
    return f"Of these: {'; '.join(said)}." if said else ""


def _cells(results: Iterable[Result]) -> Score:
    """Of the cells of tables: neither of figures nor of the running text."""
    return Score.of(r for r in results if _is_printed(r) and "/table-" in r.claim.place)


def how_to_run(reproduction: Reproduction) -> str:
    """What to do about claims that are not runnable here; empty if only the size was too small."""
    lacking = [why for why in missing(reproduction) if NEEDS_FULL not in why]
    return HOW_TO_RUN.format(command=command(reproduction)) if lacking else ""


def command(reproduction: Reproduction) -> str:
    """What makes this again."""
    asked = papers(reproduction)
    whole = [paper for paper in asked if _whole(reproduction, paper)]
    if whole == asked and {paper.key for paper in asked} == set(KEYS):
        names = ["all"]
    else:
        names = [name for paper in asked for name in _names(reproduction, paper, paper in whole)]
    return " ".join(["sordino reproduce", *names, *(["--quick"] if reproduction.quick else [])])


def _others(reproduction: Reproduction) -> str:
    """What became of those that differ, and of those that could not be computed."""
    results = [r for r in reproduction.results.values() if not r.claim.ours]
    score = Score.of(results)
    failed = sum(r.claim.ours for r in reproduction.unexplained)
    said = []
    if score.differs:
        verb = "differs" if score.differs == 1 else "differ"
        said.append(f"{score.differs:,} {verb}, and nobody knows why")
    if score.explained:
        verb = "differs" if score.explained == 1 else "differ"
        said.append(f"{score.explained:,} {verb} for a reason that a run of ours supports")
    if not said:
        said.append("None differs")
    if failed:
        said.append(f"{counted(failed, 'check')} of ours {'fails' if failed == 1 else 'fail'}")
    if score.not_runnable:
        said.append(f"{score.not_runnable:,} could not be judged here")
    return "; ".join(said)


def _whole(reproduction: Reproduction, paper: Paper) -> bool:
    return all(claim.name in reproduction.results for claim in paper.claims)


def _names(reproduction: Reproduction, paper: Paper, whole: bool) -> list[str]:
    if whole:
        return [paper.key]
    own = [place.name for place in places(reproduction, paper)]
    rest = [p.name for p in paper.places if p.key in (CHECKS, SLIPS) and reproduction.of(p)]
    return own + rest


@dataclass(frozen=True)
class RunGroup:
    """Runs of one paper's file that are alike.

    Parameters
    ----------
    paper
        Whose file holds the runs; other papers may ask them too.
    kind
        Of the runs, with the model they train if the kind trains one.
    runs
        Names, the longest first.
    seconds
        Of all of them, when they were made.
    """

    paper: str
    kind: str
    runs: tuple[str, ...]
    seconds: float


def run_groups(reproduction: Reproduction) -> list[RunGroup]:
    """Groups of runs: papers in the order of their runs, within one the longest group first."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for name, run in reproduction.runs.items():
        kind = ", ".join(filter(None, [run.kind, run.settings.get("model", "")]))
        grouped.setdefault((name.partition("/")[0], kind), []).append(name)
    order = {paper.key: at for at, paper in enumerate(reproduction.papers)}
    found = [
        RunGroup(
            paper,
            kind,
            tuple(longest_first(reproduction, names)),
            sum(reproduction.seconds.get(name, 0.0) for name in names),
        )
        for (paper, kind), names in grouped.items()
    ]
    return sorted(found, key=lambda each: (order.get(each.paper, len(order)), -each.seconds))


def longest_first(reproduction: Reproduction, names: list[str]) -> list[str]:
    """Runs by what they took."""
    return sorted(names, key=lambda name: -reproduction.seconds.get(name, 0.0))
