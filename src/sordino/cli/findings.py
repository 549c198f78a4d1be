"""Findings of the accountants as a table, as JSON or as points of a figure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from sordino.cli.options import OUTPUT, flag
from sordino.cli.terminal import print_table, say, screen
from sordino.privacy import Relation, rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sordino.cli.run_options import RunOptions
    from sordino.proofs.theorems import Finding

WIDE = 130
"""Columns from which on theorems fit into the table; below they are listed after it."""


All = Annotated[
    bool,
    flag(OUTPUT, "--all", "Also formulas as lecture notes print them, which prove nothing."),
]


def counts(given: RunOptions, plot: str | None, places: int = 15) -> list[int]:
    """Numbers of steps at which a figure is drawn; refused before any work if there are none."""
    from sordino.report import figures

    return [] if plot is None else figures.counts(given.total_steps, places)


def drawn(
    findings: Sequence[Finding],
    at: float,
    series: dict[str, list[tuple[float, float]]],
    everything: bool,
) -> None:
    """Add a point for every method to the curves of a figure."""
    for finding in findings if everything else without_notes(findings):
        # Dwork et al.'s is the weaker strong composition, and off the scale of all others.
        if finding.value is not None and finding.method != "strong-dwork":
            dashed = "" if finding.applies else f" ({finding.kind}, no guarantee)"
            series.setdefault(finding.title + dashed, []).append((at, finding.value))


def answer(
    given: RunOptions,
    asked: dict[str, Any],
    value: str,
    findings: Sequence[Finding],
    best: Finding | None,
) -> dict[str, Any]:
    """Everything as plain values; `asked` is what the command asked beside the run."""
    return {
        "inputs": {**asked, **given.inputs(partial=value not in ("epsilon", "noise_multiplier"))},
        "rows": rows(findings, value),
        "best": best.method if best else None,
        "assumes": given.assumes(),
    }


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


def show(
    findings: Sequence[Finding], value: str, best: Finding | None, *, everything: bool
) -> None:
    """Print what is proved, best marked; then every method that proves nothing, and why."""
    findings = findings if everything else without_notes(findings)
    proved = [finding for finding in findings if finding.applies]
    console = screen()
    wide = console.width >= WIDE
    if proved:
        columns = [("method", "l"), (value, "r"), ("relation", "l"), ("covers", "l"), ("ms", "r")]
        cells = [
            [
                ("> " if finding is best else "  ") + finding.method,
                number(finding.value),
                finding.relation.value,
                "final model" if finding.released == "final" else "all iterates",
                f"{finding.milliseconds:.0f}",
                *[finding.theorem] * wide,
            ]
            for finding in proved
        ]
        styles = ["bold green" if finding is best else None for finding in proved]
        print_table(console, [*columns, *[("theorem", "W")] * wide], cells, styles)
    for finding in proved:
        if not wide:
            say(f"  {finding.method}: {finding.theorem}.", hang=True)
        for note in finding.notes:
            say(f"  {finding.method}: {note}", hang=True)
    _say_others(findings, value, best)


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
