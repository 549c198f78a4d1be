"""`Reproduction`: what was asked, what was found, and the verdict on each claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sordino_papers.claims import Paper, PaperClaim, PaperRun, Place
from sordino_papers.found import Found


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
    found
        Our number; None if it could not be computed here.
    verdict
        What became of it.
    why
        Of one that is not runnable: what is missing. Of an explanation that does not hold: which
        claim it leans on that fails.
    """

    claim: PaperClaim
    found: Found | None
    verdict: ClaimVerdict
    why: str = ""

    @property
    def weak(self) -> bool:
        """Whether it is met only in an interval of ours that is as wide as the number itself."""
        printed, found = self.claim.printed, self.found
        if self.claim.tolerance.kind != "interval" or self.verdict is not ClaimVerdict.REPRODUCED:
            return False
        if printed is None or found is None or found.low is None or found.high is None:
            return False
        return found.high - found.low > abs(printed.value)

    @property
    def off(self) -> str:
        """By how much ours differs from the printed number: "1.35 times", "+0.4 points" or "".

        Differences around 0 (gains, printed with a sign) have no sensible ratio.
        """
        printed = self.claim.printed
        if self.found is None or printed is None:
            return ""
        if printed.percent:
            return f"{self.found.value - printed.value:+.3g} points"
        if printed.value == 0 or printed.text[0] in "+-":
            return f"{self.found.value - printed.value:+.3g}"
        return f"{self.found.value / printed.value:.3g} times"


@dataclass(frozen=True)
class Picture:
    """A drawn figure: files relative to the directory, and what it shows."""

    place: str
    svg: str
    png: str
    says: str


@dataclass(frozen=True)
class Reproduction:
    """Everything that one call found.

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
        found = [place for paper in self.papers for place in paper.places]
        return [place for place in found if self.of(place)]

    @property
    def judged(self) -> bool:
        """Whether anything of the papers could be judged here; of our checks, if only they are."""
        asked = [r for r in self.results.values() if not r.claim.ours] or self.results.values()
        return any(r.verdict is not ClaimVerdict.NOT_RUNNABLE for r in asked)

    @property
    def unexplained(self) -> list[Result]:
        """Claims that differ, and nobody knows why; of our own checks, those that fail."""
        return [r for r in self.results.values() if r.verdict is ClaimVerdict.DIFFERS]
