"""What an audit found, as a table, as a verdict in words, or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sordino import _cost
from sordino.cli.terminal import errors, say, screen, words_of_bar
from sordino.privacy import Observation, rounded

if TYPE_CHECKING:
    from sordino.audit.claim import Claim


_WIDE = 110
"""Columns below which headings of several words stand in as many lines."""


def claimed(claim: Claim | None) -> dict[str, Any] | None:
    """A claim as plain values."""
    if claim is None:
        return None
    return {
        "epsilon": claim.epsilon,
        "delta": claim.delta,
        "relation": claim.relation.value,
        "source": claim.source,
    }


def observed(found: Observation) -> dict[str, Any]:
    """An observation as plain values."""
    return {
        "epsilon": found.epsilon,
        "delta": found.delta,
        "confidence": found.confidence,
        "attack": found.attack,
        "trials": found.trials,
    }


def print_bounds(found: Observation, others: Sequence[Observation]) -> None:
    """The bound that counts, marked, and the others below it."""
    from rich import box
    from rich.table import Table

    console = screen()
    wide = console.width >= _WIDE
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, short in (
        *(("observed epsilon", "epsilon"), ("delta", "delta"), ("confidence", "sure")),
        ("runs tested, both worlds", "runs"),
    ):
        table.add_column(heading if wide else short, justify="right", no_wrap=True)
    table.add_column("by", ratio=1)
    for each in (found, *others):
        head = each is found
        table.add_row(
            f"{'> ' if head else ''}>= {rounded(each.epsilon, up=False, digits=3)}",
            f"{each.delta:.3g}",
            f"{each.confidence:.6g}",
            f"{each.trials:,}",
            each.attack,
            style="bold" if head else "dim" if _assumes(each) else None,
        )
    console.print(table)
    if any(_assumes(each) for each in others):
        say("Rows that say 'if' or 'within' hold under that hypothesis only.", hang=True)


def _assumes(found: Observation) -> bool:
    """Whether a bound holds under a hypothesis only."""
    return "if the mechanism is" in found.attack or "within the family" in found.attack


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error with the time left, if that is a terminal: call it (done, total)."""
    console = errors()
    if not console.is_terminal:
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress
    from rich.progress import TimeRemainingColumn as Left

    columns = (words_of_bar(), BarColumn(), MofNCompleteColumn(), Left())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def say_time(seconds: float) -> None:
    """How long it should take, if that is long; on standard error, where progress is shown."""
    if seconds > _cost.LONG:
        say(f"About {_cost.duration(seconds)} here; Ctrl-C stops it.", err=True)


def say_claim(claim: Claim | None) -> None:
    """What is to be refuted, in one line."""
    if claim is None:
        say("Claimed: nothing; the bound stands for itself.")
        return
    # The name of a theorem without its statement, which the JSON has.
    source = f", by {claim.source.split(': ')[0]}" if claim.source else ""
    say(
        f"Claimed: epsilon <= {rounded(claim.epsilon)} at delta = {claim.delta:.3g}, "
        f"{claim.relation.value}{source}.",
        hang=True,
    )


def say_ceiling(runs: int, delta: float, confidence: float) -> None:
    """Before the runs are made: what the best attack could show by them, noise or not."""
    from sordino.audit.power import ceiling

    tested = runs - runs // 2
    most = ceiling(tested, delta=delta, confidence=confidence) if tested > 0 else 0.0
    say(
        f"{runs:,} runs a dataset, half of them tested, can show at most epsilon "
        f"{rounded(most, digits=3)} without a hypothesis, even of a mechanism without any noise.",
        hang=True,
    )
