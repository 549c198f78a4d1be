"""`Effort`: what runs took, by paper and kind."""

from __future__ import annotations

from dataclasses import dataclass

from sordino_papers.claims import Run
from sordino_papers.results import Reproduction


@dataclass(frozen=True)
class Effort:
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


def efforts(reproduction: Reproduction) -> list[Effort]:
    """Groups of runs: papers in the order of their runs, within one the longest group first."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for name, run in reproduction.runs.items():
        grouped.setdefault((name.partition("/")[0], _kind(run)), []).append(name)
    order = {paper.key: at for at, paper in enumerate(reproduction.papers)}
    found = [
        Effort(
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


def _kind(run: Run) -> str:
    model = run.settings.get("model", "")
    return f"{run.kind}, {model}" if model else run.kind
