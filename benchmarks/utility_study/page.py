"""The report: accuracy and what else was measured, tuning and judging apart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from utility_study.competitors import AUTO, ORACLE, TRIAL
from utility_study.figures import Results, against_peers, differences, mean, measure_of
from utility_study.tables import BY_NAME, JUDGING, PARTLY, TUNING

_HEADINGS = {
    JUDGING: "Tables that judge: no rule was chosen on them",
    PARTLY: "Tables that judge all rules but one: they chose what a centre is worth",
    TUNING: "Tables that chose the rules: figures here are optimistic",
}
_MEASURES = {
    "accuracy": ("Accuracy, percent", 1),
    "auc": ("Area under the ROC curve", 3),
    "log_loss": ("Log-loss", 3),
    "r2": ("R2, percent", 1),
    "rmse": ("Root mean squared error, in units of the target", 1),
}


def text(results: Results, figures: dict[str, float], size: str) -> str:
    """All of it as markdown."""
    lines = [
        "# How accurate private linear models are",
        "",
        f"Size: {size}. Means over fits, each on a split and with noise of its own, and the "
        "standard error of the mean. Budgets hold for replacing one record, delta 1/rows^2 "
        "(diffprivlib: delta 0, its own relations).",
        "",
        "| figure | value |",
        "|---|---|",
        *(f"| `{name}` | {value:,.4g} |" for name, value in figures.items() if "/" not in name),
    ]
    for role, heading in _HEADINGS.items():
        lines += ["", f"## {heading}"]
        for measure, (title, digits) in _MEASURES.items():
            lines += _of_measure(results, role, measure, title, digits)
    lines += ["", "## Rivals above `auto`, beyond max(0.5 points, 3 standard errors)", ""]
    beyond = [each for each in against_peers(results) if each.beyond]
    beyond += [each for each in differences(results, ORACLE) if each.beyond]
    lines += [
        f"- {d.table}, epsilon {d.epsilon:g}: {d.rival} by {d.points:.2f} points "
        f"(standard error {d.standard_error:.2f})"
        for d in beyond
    ] or ["None."]
    if failed := Counter(
        (name, *each) for name in results.competitors for each in results.errors(name)
    ):
        lines += ["", "## Fits that failed", ""]
        lines += [f"- {name}, {table}: {n} x {why}" for (name, table, why), n in failed.items()]
    lines += ["", "## What is public of each table", ""]
    lines += ["| table | bounds | classes |", "|---|---|---|"]
    shown = dict.fromkeys(table for table, _ in results.points)
    lines += [
        f"| {name} | {BY_NAME[name].known} | {BY_NAME[name].classes or 'a number'} |"
        for name in shown
    ]
    return "\n".join(lines) + "\n"


def _of_measure(
    results: Results, role: str, measure: str, title: str, digits: int
) -> Iterator[str]:
    shown = [point for point in results.points if BY_NAME[point[0]].role == role]
    budgets = sorted({epsilon for _, epsilon in shown})
    lines = []
    for table in dict.fromkeys(table for table, _ in shown):
        if measure in ("auc", "log_loss") and BY_NAME[table].classes != 2:
            continue
        if measure == "rmse" and measure_of(table) != "r2":
            continue
        for competitor in results.competitors:
            values = [results.values(table, e, competitor, measure).values() for e in budgets]
            if competitor != TRIAL and any(values):
                cells = " | ".join(_cell(*mean(each), digits) for each in values)
                name = f"**{competitor}**" if competitor == AUTO else competitor
                lines.append(f"| {table} | {name} | {cells} |")
    if lines:
        yield from ("", f"### {title}", "")
        yield "| table | | " + " | ".join(f"{e:g}" for e in budgets) + " |"
        yield "|---|---|" + "---|" * len(budgets)
        yield from lines


def _cell(value: float, error: float, digits: int) -> str:
    if math.isnan(value):
        return ""
    if abs(value) >= 1e5:  # of a peer that is lost
        return f"{value:.0e}"
    shown = f"{value:,.{digits}f}"
    return shown if math.isnan(error) else f"{shown} ± {error:.{digits}f}"
