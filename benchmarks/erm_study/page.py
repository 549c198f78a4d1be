"""erm.md: what was measured, in words, tables and figures."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from erm_study.design import (
    AUTO,
    GRIDS_IN_WORDS,
    L2,
    METHODS,
    PEER,
    TIMED,
    TUNED,
    Size,
    oracle,
)
from erm_study.statistics import Column, Difference, best_of, papers_order, shortfalls

from sordino_papers.erm.study import ErmSettings

REQUIRED = {
    "adult_eps1_gap_points": (
        "<=",
        0.5,
        "accuracy of `none` minus `auto`, adult, epsilon 1, the worse of the losses",
    ),
    "auto_mean_shortfall_points": (
        "<=",
        0.2,
        "mean over points: best method at its defaults minus `auto` (0 where `auto` is the best)",
    ),
    "auto_worst_shortfall_points": ("", None, "largest of all methods' differences at all points"),
    "auto_violations": ("<=", 0, "differences above max(0.5 points, 3 paired standard errors)"),
    "oracle_mean_shortfall_points": ("aim", 0.5, "the same mean against the oracles"),
    "oracle_worst_shortfall_points": ("", None, "the same largest against the oracles"),
    "rsgd_ar_beaten_default": (
        "",
        None,
        "points where nsgd or output-gd is above rsgd-ar by more "
        "than max(0.5 points, 3 paired standard errors), at defaults",
    ),
    "rsgd_ar_beaten_oracle": ("", None, "the same for oracles"),
    "kdd_fit_time_over_lbfgs": (
        "<=",
        1.0,
        "rsgd-ar over scikit-learn's LogisticRegression (lbfgs), "
        "all 494,021 rows, best of alternating runs",
    ),
    "fits_core_seconds": ("", None, "that made the table, times the cores they could use"),
    "study_seconds": (
        "<=",
        5400,
        "all of it, planning, figures and timing included (of the last "
        "launch, if it was interrupted)",
    ),
}

OPENING = """\
# Private linear models: accuracy and time

Made by `benchmarks/erm.py`; the figures are also in [results.json](erm/results.json).

{scope}

Every method promises (epsilon, delta) under replace-one, delta 1e-8 (1e-12 for kddcup99),
and minimises the mean loss + (0.001 / 2) ||w||^2 over rows of norm 1, a constant 1 among their
columns (the form of Chen, Lee & Kifer 2019, section 5; the SVM's hinge is rounded over 0.5).

- **Five folds, repeated.** The first repeat is for tuning the oracles alone. What is shown are
  means over the {fits} held-out folds of the other repeats; differences are taken fold by fold.
  Standard errors treat folds as independent, which folds of one repeat are not quite.
- **Defaults** are the public rules of the estimators: nothing was looked at but the number of rows
  and columns and the promise. (SGD-MA: batch sqrt(n), the moments accountant, as the paper has it.)
  The constants of the rules were chosen on adult and on data that are not shown here, so adult's
  figures are optimistic; bank and kddcup99 were looked at once, afterwards. Then the first whole
  study had dp-sgd 0.66 points ahead of `auto` at one point of kddcup99 (SVM, epsilon 0.05), and
  the rate of noisy-gd was lowered to that of dp-sgd: for that, kddcup99 was looked at, too.
- **Oracles** take the best of the default and a printed grid, by accuracy on the first repeat.
  Choosing that way looks at the data and **is not private**: they are here for comparison only.
  With five folds to choose by, small budgets also choose by luck: an oracle may score below its
  default.
- Noise is seeded, so that the study can be repeated: these fits protect nobody. Trainings without
  noise are done once for all epsilons, and scored over 8 draws of the noise on their weights; all
  trainings are the estimators' own. `auto` shares the fits of the method that it takes.
- All training folds have the same size: of larger ones one row is left out.
"""

CAPTIONS = {
    "figure1-logistic-default": "Logistic regression at public defaults (the paper's figure 1)",
    "figure2-svm-default": "SVM at public defaults (the paper's figure 2)",
    "figure1-logistic-oracle": "Logistic regression, oracles",
    "figure2-svm-oracle": "SVM, oracles",
    "figure3-times": "Seconds a fit against rows (the paper's figure 3)",
}

RERUN = """\
## Again

```console
SORDINO_DATA=DIR python benchmarks/erm.py --json erm.json --diffprivlib SIDE/bin/python
```

`--quick` takes minutes. It is the study that
`sordino reproduce chen` makes, with other settings: scores are kept as they come, under a hash of
settings and sources, and interrupted it goes on where it was. `--fresh` forgets them.
`SIDE` is a virtual environment with `pip install diffprivlib "scikit-learn<1.6"`.
"""


def write(
    path: Path,
    size: Size,
    columns: Sequence[Column],
    asked: Mapping[tuple[str, str], ErmSettings],
    figures: Mapping[str, float],
    times: Mapping[tuple[str, int], float],
    drawn: Sequence[Path],
    *,
    judged: bool,
) -> None:
    """Write the page.

    Parameters
    ----------
    path, size, columns, figures, times
        Where, how much was asked, and what was found.
    asked
        Settings of the study, by source and loss.
    drawn
        The figures' files.
    judged
        Whether what is required is asked of these figures: of a part of the study it is not.
    """
    shown = [source for source in size.sources if source.shown]
    names = [source.name for source in shown]
    rows = ", ".join(f"{s.name}{f' ({s.rows:,} rows of it)' if s.rows else ''}" for s in shown)
    fits = max((s.repeats for s in shown), default=1) * 5
    scope = f"Data: {rows}; budgets {', '.join(f'{e:g}' for e in size.sources[0].epsilons)}."
    parts = [
        OPENING.format(scope=scope, fits=fits),
        "## Figures of the whole\n\n" + "\n".join(_summary(figures, judged)),
        "\n\n".join(f"![{CAPTIONS[p.stem]}]({os.path.relpath(p, path.parent)})" for p in drawn),
        "## Where `auto` falls short\n\n" + "\n".join(_shortfalls(columns)),
        "## RSGD-AR and the paper\n\n" + "\n".join(_papers_order(columns)),
        *(_tables(column) for column in columns if column.source in names),
        *(_whole(column) for column in columns if column.source not in names),
        *_peer(columns),
        *_times(times, figures),
        "## What the oracles choose from\n\n" + "\n".join(_grids(columns, asked)),
        RERUN,
    ]
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n")


def _summary(figures: Mapping[str, float], judged: bool) -> Iterator[str]:
    yield "| figure | what it is | required | seen |"
    yield "|---|---|---|---|"
    for name, (sign, bound, words) in REQUIRED.items():
        if name in figures:
            asked = f"{sign} {bound:g}" if sign and judged else "-"
            missed = judged and sign == "<=" and not figures[name] <= bound
            met = " **not met**" if missed else ""
            yield f"| `{name}` | {words} | {asked} | {figures[name]:.4g}{met} |"


def _listed(found: Sequence[Difference], heading: str) -> Iterator[str]:
    yield f"| data | loss | epsilon | {heading} | points | standard error |"
    yield "|---|---|---|---|---|---|"
    for each in sorted(found, key=lambda d: -d.points):
        source, loss, epsilon = each.point
        error = f"{each.standard_error:.2f}"
        yield f"| {source} | {loss} | {epsilon:g} | {each.above} | {each.points:.2f} | {error} |"


def _shortfalls(columns: Sequence[Column]) -> Iterator[str]:
    above = [d for d in shortfalls(columns) if d.points > 0.2]
    if above:
        yield "Methods at their defaults more than 0.2 points above `auto`:\n"
        yield from _listed(above, "method")
    else:
        yield "No method at its defaults is more than 0.2 points above `auto` anywhere."
    yield "\nThe best oracle at each point, against `auto`:\n"
    yield from _listed(list(best_of(shortfalls(columns, tuned=True)).values()), "oracle")


def _papers_order(columns: Sequence[Column]) -> Iterator[str]:
    yield "The paper finds RSGD-AR at or above NSGD and output perturbation of gradient descent.\n"
    for tuned, words in ((False, "at public defaults"), (True, "oracle against oracle")):
        order = papers_order(columns, tuned)
        beyond = [d for d in order if d.beyond]
        yield (
            f"Of {len(order)} comparisons {words}, the other is above it by more than "
            f"max(0.5 points, 3 standard errors) in {len(beyond)}{':' if beyond else '.'}\n"
        )
        if beyond:
            yield from _listed(beyond, "above rsgd-ar")
            yield ""


def _tables(column: Column) -> str:
    """Accuracy, default / oracle, and under a fold-out the objective."""
    lines = [f"## {column.source}, {column.loss}: accuracy in %, default / oracle", ""]
    lines += _table(column, "accuracies", 100, 2)
    lines += ["", "<details><summary>Objective, default / oracle</summary>", ""]
    lines += _table(column, "objectives", 1, 4)
    return "\n".join([*lines, "", "</details>"])


def _table(column: Column, of: str, times: float, digits: int) -> Iterator[str]:
    yield "| method | " + " | ".join(f"{e:g}" for e in column.epsilons) + " |"
    yield "|---|" + "---|" * len(column.epsilons)
    for method in (*METHODS, PEER):
        both = [column.values(of, name).mean(axis=-1) for name in (method, oracle(method))]
        values = [
            " / ".join(f"{times * value:.{digits}f}" for value in at if np.isfinite(value)) or "-"
            for at in zip(*both, strict=True)
        ]
        if any(value != "-" for value in values):
            name = f"**{method}**" if method == AUTO else method
            yield f"| {name} | " + " | ".join(values) + " |"


def _whole(column: Column) -> str:
    lines = [f"## {column.source}: accuracy in %", "", "Logistic, all rows, one repeat.", ""]
    return "\n".join([*lines, *_table(column, "accuracies", 100, 3)])


def _peer(columns: Sequence[Column]) -> Iterator[str]:
    peers = [column for column in columns if PEER in column.methods]
    if not peers:
        return
    lines = [
        "## diffprivlib",
        "",
        "Its `LogisticRegression` on the same rows (the 1 among the columns, `data_norm` 1, "
        f"C = 1/({L2:g} n)) and folds, at the same epsilon. It promises more in one way: delta is "
        "0. Its proof (Chaudhuri, Monteleoni & Sarwate 2011) is for data that differ in the value "
        "of one record, as replace-one has it. `auto` is shown on the same folds, with its delta.",
        "",
        "| data | epsilon | diffprivlib | auto | auto minus diffprivlib |",
        "|---|---|---|---|---|",
    ]
    for column in peers:
        means = [100 * column.values("accuracies", m).mean(axis=-1) for m in (PEER, AUTO)]
        for epsilon, theirs, ours in zip(column.epsilons, *means, strict=True):
            values = f"{theirs:.2f} | {ours:.2f} | {ours - theirs:+.2f}"
            lines.append(f"| {column.source} | {epsilon:g} | {values} |")
    yield "\n".join(lines)


def _times(times: Mapping[tuple[str, int], float], figures: Mapping[str, float]) -> Iterator[str]:
    if not times:
        return
    rows = sorted({many for _, many in times})
    lines = [
        "## Seconds a fit",
        "",
        "Single fits of logistic regression through the estimators at their defaults, epsilon 1, "
        "calibration included, all cores.",
        "",
        "| method | " + " | ".join(f"{many:,} rows" for many in rows) + " |",
        "|---|" + "---|" * len(rows),
        *(
            f"| {method} | " + " | ".join(f"{times[method, many]:.2f}" for many in rows) + " |"
            for method in TIMED
        ),
    ]
    if "kdd_fit_seconds" in figures:
        ours, theirs = figures["kdd_fit_seconds"], figures["kdd_lbfgs_seconds"]
        lines += ["", f"All 494,021 rows: rsgd-ar {ours:.2f} s, scikit-learn {theirs:.2f} s."]
    yield "\n".join(lines)


def _grids(
    columns: Sequence[Column], asked: Mapping[tuple[str, str], ErmSettings]
) -> Iterator[str]:
    yield "Beside the method's default, the same for every epsilon; the best is chosen for each "
    yield "point on its own.\n"
    yield "| method | settings |"
    yield "|---|---|"
    for method, words in GRIDS_IN_WORDS.items():
        yield f"| {method} | {words} |"
    yield "\n<details><summary>What they chose</summary>\n"
    yield "| data | loss | method | epsilon | setting |"
    yield "|---|---|---|---|---|"
    for column in columns:
        for method, chosen in zip(column.methods, column.numbers["chosen"], strict=False):
            if method.endswith(TUNED):
                name = method.removesuffix(TUNED)
                tries = asked[column.source, column.loss].tries(name)
                for epsilon, at in zip(column.epsilons, chosen, strict=True):
                    words = _words(tries[at - 1]) if at else "default"
                    at_point = f"{column.source} | {column.loss} | {name} | {epsilon:g}"
                    yield f"| {at_point} | {words} |"
    yield "\n</details>"


def _words(setting: Mapping[str, float]) -> str:
    return ", ".join(
        f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in setting.items()
    )
