"""`Score`: how many claims came out how, and what it took: the first lines of every account."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sordino.report.numbers import percent_down, seconds
from sordino_papers.claims import KEYS, Paper, Place
from sordino_papers.reproduction import NEEDS_FULL, ClaimVerdict, Reproduction, Result

NO_GUARANTEE = "Epsilons here are the papers' estimates and formulas; none is a guarantee."
QUICK = "Sizes were small: nothing here is evidence for or against a paper. Leave out `--quick`."
CHECKS, SLIPS = "checks", "slips"
"""Places of a file that are ours: what explanations lean on, and what the paper gets wrong."""


@dataclass(frozen=True)
class Score:
    """Counts of verdicts."""

    reproduced: int
    explained: int
    differs: int
    not_runnable: int

    @classmethod
    def of(cls, results: Iterable[Result]) -> Score:
        """Of these results."""
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

    @classmethod
    def of(cls, reproduction: Reproduction, results: list[Result] | None = None) -> Tally:
        """Of some results; or of everything, with the time of every run."""
        held = list(reproduction.results.values()) if results is None else results
        runs: Iterable[str] = {run for result in held for run in result.claim.runs}
        runs = reproduction.seconds if results is None else runs
        took = sum(reproduction.seconds.get(run, 0.0) for run in runs)
        return cls(score_of(held, "printed"), score_of(held, "words"), took)


def score_of(results: Iterable[Result], *categories: str) -> Score:
    """The score of the claims of these categories."""
    return Score.of(r for r in results if r.claim.category in categories)


def repeated(results: Iterable[Result]) -> list[Result]:
    """Of the printed numbers that are counted, those that ask for the same as one before."""
    seen: set[str] = set()
    again = []
    for result in results:
        claim = result.claim
        question = repr((claim.quantity, claim.runs, sorted(claim.arguments.items(), key=str)))
        if claim.category == "printed":
            again += [result] if question in seen else []
            seen.add(question)
    return again


def counted(many: int, one: str) -> str:
    """So many of something: "1 run", "2 runs"."""
    return f"{many:,} {one}{'' if many == 1 else 's'}"


def headline(reproduction: Reproduction) -> str:
    """Did they really reproduce it? In two sentences."""
    whole = Tally.of(reproduction)
    parts = []
    if whole.printed.judged:
        numbers = f"{whole.printed.reproduced:,} of {whole.printed.judged:,} printed numbers"
        parts.append(f"{numbers} are within tolerance ({whole.printed.share})")
    if whole.words.judged:
        parts.append(f"{whole.words.reproduced:,} of {whole.words.judged:,} claims in words hold")
    if not parts:
        only = all(result.claim.ours for result in reproduction.results.values())
        return "Only checks of ours were asked." if only else "Nothing could be judged here."
    score = score_of(reproduction.results.values(), "printed", "setting", "words")
    whys = {", and nobody knows why": score.differs}
    whys[" for a reason that a run of ours supports"] = score.explained
    rest = [f"{n:,} differ{'s' if n == 1 else ''}{why}" for why, n in whys.items() if n]
    rest = rest or ["None differs"]
    if failed := sum(r.claim.ours for r in reproduction.unexplained):
        rest.append(f"{counted(failed, 'check')} of ours {'fails' if failed == 1 else 'fail'}")
    if score.not_runnable:
        rest.append(f"{score.not_runnable:,} could not be judged here")
    return f"{', and '.join(parts)}. {'; '.join(rest)}."


def how_counted(reproduction: Reproduction) -> str:
    """What is counted among the printed numbers, and how much that says; empty if nothing is."""
    results = list(reproduction.results.values())
    printed = [r for r in results if r.claim.category == "printed"]
    if not Score.of(printed).judged:
        return ""
    twice = {result.claim.name for result in repeated(results)}
    weak = sum(result.weak for result in printed)
    parts = []
    if many := sum(r.claim.category == "setting" for r in results):
        both = score_of(results, "printed", "setting")
        tables = [r for r in results if "/table-" in r.claim.place]
        cells = score_of(tables, "printed", "setting")
        what = f"{counted(many, 'printed setting')} of the runs are shown and not counted"
        parts.append(f"{what} (with them it is {both}; in the papers' tables alone {cells})")
    if twice:
        once = Score.of(r for r in printed if r.claim.name not in twice)
        parts.append(f"without {counted(len(twice), 'number')} that are printed twice it is {once}")
    if weak:
        only = "within tolerance only by an interval of ours as wide as the number itself"
        parts.append(f"{counted(weak, 'number')} {only}")
    return f"Of these: {'; '.join(parts)}." if parts else ""


def how_to_run(reproduction: Reproduction) -> str:
    """What to do about claims that are not runnable here; empty if only the size was too small."""
    lacking = any(NEEDS_FULL not in why for why in reproduction.missing)
    how = f"Run `{command(reproduction)}` again with `SORDINO_DATA` set to"
    return f"{how} a directory of the raw files (`sordino data list`)." if lacking else ""


def command(reproduction: Reproduction) -> str:
    """The command that makes this again."""
    names: list[str] = []
    asked = reproduction.asked_papers
    for paper in asked:
        whole = all(claim.name in reproduction.results for claim in paper.claims)
        ours = [p for p in paper.places if p.key in (CHECKS, SLIPS) and reproduction.of(p)]
        parts = [place.name for place in (*own_places(reproduction, paper), *ours)]
        names += [paper.key] if whole else parts
    if set(names) == set(KEYS):
        names = ["all"]
    return " ".join(["sordino reproduce", *names, *(["--quick"] if reproduction.quick else [])])


def own_places(reproduction: Reproduction, paper: Paper) -> list[Place]:
    """The paper's own tables, figures and passages that were asked."""
    return [p for p in paper.places if p.key not in (CHECKS, SLIPS) and reproduction.of(p)]


def summary(reproduction: Reproduction) -> list[str]:
    """A few sentences for the end of a terminal's output."""
    checks = score_of(reproduction.results.values(), "check")
    lines = [headline(reproduction)]
    lines += filter(None, [how_counted(reproduction)])
    if checks.asked:
        holds = f"{checks.reproduced:,} of {counted(checks.asked, 'check')} of ours"
        lines.append(f"{holds} (what explanations lean on, and slips in print) hold.")
    for why, results in reproduction.missing.items():
        lines.append(f"{counted(len(results), 'claim')} not judged: {why.rstrip('.')}.")
    runs, took = counted(len(reproduction.runs), "run"), sum(reproduction.seconds.values())
    now = seconds(reproduction.wall_seconds)
    lines.append(f"This took {now}; its {runs} took {seconds(took)} when made.")
    return lines
