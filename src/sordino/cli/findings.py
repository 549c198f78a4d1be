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

    from sordino.cli.run_options import RunOptions
    from sordino.proofs.theorems import Finding

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
    """What was concluded from the options, what is taken for granted, and the usual relation."""
    for said in given.implied():
        say(f"{said}.", hang=True)
    for said in given.assumes():
        say(f"Assumes {said}.", hang=True)
    if given.relation is None and given.chosen_relation is Relation.REPLACE_ONE:
        said = (
            "Relation not given: replace-one. Compare with Poisson numbers by --relation zero-out."
        )
        say(said, hang=True)


def without_notes(findings: Sequence[Finding]) -> list[Finding]:
    """Without the formulas that are quoted from lecture notes."""
    return [finding for finding in findings if not finding.method.startswith("notes-")]


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
            say(f"  {finding.method}: {finding.theorem}.", hang=True)
        for note in finding.notes:
            say(f"  {finding.method}: {note}", hang=True)
    _say_others(findings, value, best)


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


def _say_others(findings: Sequence[Finding], value: str, best: Finding | None) -> None:
    others = [finding for finding in findings if not finding.applies]
    if others:
        say("", "Not proved here:")
    for finding in others:
        # The text of an estimate has its epsilon, and that of a printed formula its number.
        found = finding.kind == "estimate" and value != "epsilon"
        shown = f"{value} {number(finding.value)}: " if found else ""
        if finding.kind == "estimate" and best and (finding.value or 0) > (best.value or 0):
            shown = f"no use here, it is above what is proved; {shown}"
        say(f"  {finding.method}: {shown}{finding.reason}", hang=True)


def number(value: float | None) -> str:
    """Five digits, rounded up: a rounded-down epsilon would promise too much."""
    if value is None:
        return "-"
    if math.isinf(value):
        return "infinite"
    return f"{value:,}" if isinstance(value, int) else rounded(value, digits=5)
