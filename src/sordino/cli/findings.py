"""Findings of the accountants as a table or as JSON."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from sordino.cli.terminal import block, say, screen
from sordino.privacy import Relation, rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from sordino.accounting.finding import Finding
    from sordino.cli.run_options import RunOptions
    from sordino.cli.screen import Screen

WIDE = 130
"""Columns from which on theorems fit into the table; below they are listed after it."""


def check_plot(path: str | None, given: RunOptions) -> None:
    """Refuse a figure that could not be drawn or written, before the work is done."""
    if path is not None:
        from sordino.report import figures

        figures.check_path(path)
        figures.counts(given.total_steps)


def rows(findings: Sequence[Finding], value: str) -> list[dict[str, Any]]:
    """One plain dictionary a method; `value` names what was computed, such as "epsilon"."""
    return [
        {
            "method": finding.method,
            "applies": finding.applies,
            value: finding.value,
            "delta": finding.delta,
            "kind": finding.kind,
            "theorem": finding.theorem,
            "relation": finding.relation.value,
            "released": finding.released,
            "reason": finding.reason,
            "notes": list(finding.notes),
            "milliseconds": round(finding.milliseconds, 3),
        }
        for finding in findings
    ]


def say_assumptions(given: RunOptions) -> None:
    """What the answer takes for granted, and a relation that was not asked for."""
    for said in given.assumes():
        say(f"Assumes {said}.")
    if given.relation is None and given.chosen_relation is Relation.REPLACE_ONE:
        say("Relation not given: replace-one. Compare with Poisson numbers by --relation zero-out.")


def print_json(document: dict[str, Any]) -> None:
    """Print JSON; an infinite number as 1e999, which every reader takes for infinity."""
    block(json.dumps(document, indent=2).replace("Infinity", "1e999") + "\n")


def print_table(findings: Sequence[Finding], value: str, best: Finding | None) -> None:
    """Print what is proved, best marked; then every method that proves nothing, and why."""
    proved = [finding for finding in findings if finding.applies]
    console = screen()
    wide = console.width >= WIDE
    if proved:
        console.print(_table(proved, value, best, theorems=wide))
    for finding in proved:
        if not wide:
            console.print(f"  {finding.method}: {finding.theorem}.", highlight=False)
        for note in finding.notes:
            console.print(f"  {finding.method}: {note}", style="dim", highlight=False)
    _print_others(console, findings, value, best)


def _table(proved: Sequence[Finding], value: str, best: Finding | None, theorems: bool) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("method", value, "relation", "covers", "ms"):
        right = heading in (value, "ms")
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    if theorems:
        table.add_column("theorem", ratio=1)
    for finding in proved:
        cells = [
            ("> " if finding is best else "  ") + finding.method,
            number(finding.value),
            finding.relation.value,
            "final model" if finding.released == "final" else "all iterates",
            f"{finding.milliseconds:.0f}",
        ]
        cells += [finding.theorem] if theorems else []
        table.add_row(*cells, style="bold green" if finding is best else None)
    return table


def _print_others(
    console: Screen, findings: Sequence[Finding], value: str, best: Finding | None
) -> None:
    others = [finding for finding in findings if not finding.applies]
    if others:
        console.print()
        console.print("Not proved here:")
    for finding in others:
        # The text of an estimate has its epsilon, and that of a printed formula its number.
        found = finding.kind == "estimate" and value != "epsilon"
        shown = f"{value} {number(finding.value)}: " if found else ""
        if finding.kind == "estimate" and best and (finding.value or 0) > (best.value or 0):
            shown = f"no use here, it is above what is proved; {shown}"
        text = f"  {finding.method}: {shown}{finding.reason}"
        console.print(text, highlight=False)


def number(value: float | None) -> str:
    """Five digits, rounded up: a rounded-down epsilon would promise too much."""
    if value is None:
        return "-"
    if math.isinf(value):
        return "infinite"
    return f"{value:,}" if isinstance(value, int) else rounded(value, digits=5)
