"""Everything that prints tables: findings of theorems, bounds of attacks, budgets, measurements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sordino.cli.terminal import line, say, screen
from sordino.privacy import Observation, Relation, rounded

if TYPE_CHECKING:
    from sordino.cli.options import RunOptions
    from sordino.cli.terminal import Screen
    from sordino.intrinsic.augment import Utility
    from sordino.intrinsic.interval import Interval
    from sordino.intrinsic.summary import InitSummary, Summary
    from sordino.privacy import Estimate
    from sordino.proofs.theorems import Finding
    from sordino.release.ledger import Line
    from sordino.report.result import Assessment

_COLUMNS: dict[str, dict[str, Any]] = {
    "l": {"no_wrap": True},
    "r": {"no_wrap": True, "justify": "right"},
    "L": {},
    "R": {"justify": "right"},
    "W": {"ratio": 1},
}
"""Columns of a table: left, right, the same with wrapped cells, and one that takes what is left."""


def print_table(
    console: Screen,
    columns: Iterable[tuple[str, str]],
    rows: Iterable[Sequence[str]],
    styles: Iterable[str | None] = (),
) -> None:
    """Print a table: columns by heading and kind (see `_COLUMNS`), rows of cells, their styles."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, kind in columns:
        table.add_column(heading, **_COLUMNS[kind])
    looks = iter(styles)
    for row in rows:
        table.add_row(*row, style=next(looks, None))
    console.print(table)


def pick(value: object, *names: str) -> dict[str, Any]:
    """Some attributes by name, for JSON."""
    return {name: getattr(value, name) for name in names}


def number(value: float | None) -> str:
    """Five digits, rounded up: a rounded-down epsilon would promise too much."""
    if value is None:
        return "-"
    if math.isinf(value):
        return "infinite"
    return f"{value:,}" if isinstance(value, int) else rounded(value, digits=5)


def epsilon(each: Finding) -> str:
    """Its epsilon, rounded up, by those of five digits that the two ends of its bracket share."""
    lower, upper = each.bracket() or (0.0, 0.0)
    if not 0 < lower < upper < math.inf:  # one end only, or both the same
        return number(each.value)
    shared = (d for d in (5, 4, 3) if rounded(lower, digits=d) == rounded(upper, digits=d))
    return rounded(upper, digits=next(shared, 2))


# What theorems say (account, calibrate) -----------------------------------------------------------


def plot_counts(given: RunOptions, plot: str | None, places: int = 15) -> list[int]:
    """Numbers of steps at which a figure is drawn; refused before any work if there are none."""
    if plot is None:
        return []
    from sordino.report import figures

    return figures.counts(given.total_steps, places)


def _asked(findings: Sequence[Finding], everything: bool) -> list[Finding]:
    """With or without the formulas that are quoted from lecture notes."""
    return [each for each in findings if everything or not each.method.startswith("notes-")]


def add_points(
    findings: Sequence[Finding],
    at: float,
    series: dict[str, list[tuple[float, float]]],
    everything: bool,
) -> None:
    """Add a point for every method to the curves of a figure."""
    for each in _asked(findings, everything):
        # Dwork et al.'s is the weaker strong composition, and off the scale of all others.
        if each.value is not None and each.method != "strong-dwork":
            dashed = "" if each.applies else f" ({each.kind}, no guarantee)"
            series.setdefault(each.title + dashed, []).append((at, each.value))


def plain_findings(
    given: RunOptions,
    inputs: dict[str, Any],
    value: str,
    findings: Sequence[Finding],
    best: Finding | None,
) -> dict[str, Any]:
    """The JSON document; `value` names what was computed, such as "epsilon"."""
    partial = value not in ("epsilon", "noise_multiplier", "noise_factor")
    names = ("method", "applies", "delta", "kind", "theorem", "released", "reason")
    rows = [
        pick(each, *names)
        | {value: each.value, "relation": each.relation.value, "notes": list(each.notes)}
        | ({"bracket": each.bracket()} if value == "epsilon" else {})
        | {"milliseconds": round(each.milliseconds, 3)}
        for each in findings
    ]
    return {
        "inputs": {**inputs, **given.inputs(partial=partial)},
        "rows": rows,
        "best": best.method if best else None,
        "assumes": given.assumes(),
    }


def print_findings(
    given: RunOptions,
    result: str,
    findings: Sequence[Finding],
    value: str,
    best: Finding | None,
    *,
    everything: bool,
) -> None:
    """Print what is assumed and proved, best marked; then what proves nothing, and why."""
    lines = [result, *(f"{each}." for each in given.implies())]
    lines += [f"Assumes {each}." for each in given.assumes()]
    if given.relation is None and given.chosen_relation is Relation.REPLACE_ONE:
        lines.append("For the relation of Poisson numbers pass --relation zero-out.")
    say(*lines, hang=True)
    findings = _asked(findings, everything)
    proved = [each for each in findings if each.applies]
    console = screen()
    wide = console.width >= 130  # else theorems are listed below
    if proved:
        columns = [("method", "l"), (value, "r"), ("relation", "l"), ("covers", "l"), ("ms", "r")]
        rows = []
        for each in proved:
            covers = "final model" if each.released == "final" else "all iterates"
            shown = epsilon(each) if value == "epsilon" else number(each.value)
            cells = [shown, each.relation.value, covers, f"{each.milliseconds:.0f}"]
            name = ("> " if each is best else "  ") + each.method
            rows.append([name, *cells, *[each.theorem] * wide])
        styles = ["bold green" if each is best else None for each in proved]
        print_table(console, [*columns, *[("theorem", "W")] * wide], rows, styles)
    for each in proved:
        lines = [*[f"{each.theorem}."] * (not wide), *each.notes]
        say(*(f"  {each.method}: {text}" for text in lines), hang=True)
    others = [each for each in findings if not each.applies]
    if others:
        say("", "Not proved here:")
    for each in others:
        estimate = each.kind == "estimate"
        # The text of an estimate has its epsilon, and that of a printed formula its number.
        text = f"{value} {number(each.value)}: " if estimate and value != "epsilon" else ""
        if estimate and best and (each.value or 0) > (best.value or 0):
            text = f"above what is proved; {text}"
        say(f"  {each.method}: {text}{each.reason}", hang=True)


def say_risk(best: Finding | None) -> None:
    """What the best attacker can do, where something is proved."""
    if best is None or best.profile is None or best.value == math.inf:
        return
    risk = best.profile.risk().plain()

    def percent(value: float) -> str:
        return f"{rounded(100 * value, digits=3)} %"

    def listed(kind: str, at: str) -> str:
        pairs = (f"{percent(each['at_most'])} (of {percent(each[at])})" for each in risk[kind])
        return ", ".join(pairs)

    alarms = ", ".join(percent(each["false_alarms"]) for each in risk["detection"])
    found = ", ".join(percent(each["at_most"]) for each in risk["detection"])
    after = ", ".join(percent(each["at_most"]) for each in risk["posterior"])
    before = percent(risk["posterior"][0]["prior"])
    closest = risk["closest_gaussian"]
    say("", f"At most, for an attacker who knows all other records ({best.method}):", hang=True)
    say(
        f"  right guesses whether somebody is in the data: {percent(risk['guess'])} (a coin: 50 %)",
        f"  detection at {alarms} false alarms: {found}",
        f"  belief after such an alarm, {before} before: {after}",
        f"  right guesses of a secret (without the model): {listed('reconstruction', 'baseline')}",
        f"  closest Gaussian curve: mu = {rounded(closest['mu'], digits=4)}, off by at most "
        f"{rounded(closest['error'], digits=2)}",
        hang=True,
    )


# What attacks show (audit) ------------------------------------------------------------------------


def print_bounds(best: Observation, others: Sequence[Observation]) -> None:
    """The bound that counts, marked, and the others below it."""
    console = screen()
    headings = ("observed epsilon", "delta", "confidence", "runs tested, both datasets")
    if console.width < 110:
        headings = ("epsilon", "delta", "sure", "runs")
    bounds = (best, *others)
    assume = ["if the mechanism is" in b.attack or "within the family" in b.attack for b in bounds]
    rows = []
    for each in bounds:
        least = f"{'> ' if each is best else ''}>= {rounded(each.epsilon, up=False, digits=3)}"
        sure = (f"{each.delta:.3g}", f"{each.confidence:.6g}", f"{each.trials:,}")
        rows.append((least, *sure, each.attack))
    styles = ["bold", *("dim" if one else None for one in assume[1:])]
    print_table(console, [*((name, "r") for name in headings), ("by", "W")], rows, styles)
    if any(assume[1:]):
        say("Rows with 'if' or 'within' hold under that hypothesis only.", hang=True)


# What was spent (ledger) --------------------------------------------------------------------------


def print_entries(lines: Sequence[Line]) -> None:
    """Releases of a budget, and what their states mean."""
    console = screen()
    columns = [("entry", "l"), ("recorded (UTC)", "l"), ("epsilon", "r"), ("delta", "r")]
    rows = []
    for each in lines:
        time, cost = each.recorded.rstrip("Z").replace("T", " "), number(each.epsilon)
        rows.append((each.id[:8], time, cost, f"{each.delta:g}", each.status, each.what))
    print_table(console, [*columns, ("status", "l"), ("what", "W")], rows)
    alike: dict[str, list[str]] = {}
    for each in lines:
        alike.setdefault(each.explanation, []).append(each.id[:8])
    for explanation, names in alike.items():
        console.print(f"  {', '.join(names)}: {explanation}", highlight=False)


# The three numbers (assess) -----------------------------------------------------------------------


def print_assessment(assessment: Assessment) -> None:
    """The verdict, the three kinds of epsilon under what each is of, and what privacy costs."""
    from sordino.report import words

    console = screen(200)
    console.print()
    for sentence in (words.verdict(assessment), *words.notes(assessment)):
        if console.is_terminal:
            console.print(sentence, highlight=False)  # wrapped between words
        else:
            line(console, sentence)
    wide = console.width >= 116  # else meanings are listed below
    rows = words.table(assessment)
    cells: list[list[str]] = []
    for before, row in zip([None, *rows], rows, strict=False):
        if before is None or row.of != before.of:
            cells.append([row.of])
        meaning = [row.meaning] * wide
        cells.append([f"  {row.kind}", row.epsilon, *meaning, row.delta, row.certainty])
    columns = [("", "L"), ("epsilon", "l"), *[("", "L")] * wide, ("at delta", "l")]
    styles = ["bold" if len(each) == 1 else None for each in cells]
    print_table(console, [*columns, ("how sure", "L")], cells, styles)
    if not wide:
        for kind in dict.fromkeys(row.kind for row in rows):
            line(console, f"{kind}: {words.MEANINGS[kind]}")
        console.print()
    if assessment.release is not None and (accuracy := assessment.release.accuracy) is not None:
        line(console, words.cost(accuracy))
        if scores := words.scores(accuracy):
            first, *rest = words.SCORES
            print_table(console, [(first, "L"), *((name, "R") for name in rest)], scores)


# What was measured (measure show) -----------------------------------------------------------------

INTERNAL = "INTERNAL: measured on the records, without protecting noise. Do not publish."
NOT_PRIVATE = "NOT PRIVATE: how much noise was measured on the records."


_Table = tuple[str, Sequence[str], Sequence[Sequence[str]], Sequence[str]]
"""Title, headings, rows, and lines below; the first column names what the others hold."""


def model_name(summary: Summary) -> str:
    """Dataset and model in a few words."""
    measured = summary.measured
    model = measured.spec.objective.kind if measured.spec else (measured.function or {})["name"]
    return f"{measured.dataset.name}, {model}, {summary.steps:,} steps"


def print_summary(summary: Summary, utility: Utility | None) -> None:
    """Print what was measured: every table there are numbers for, and every note."""
    measured, console = summary.measured, screen()
    spec, how = measured.spec, ""
    if spec is not None:
        rate = spec.schedule
        speed = f"rate {rate.rate:g}" if rate.kind == "constant" else f"{rate.kind} rates"
        how = f" in batches of {spec.batch_size}, {speed}"
    itself = "" if measured.base is None else " and the data itself"
    datasets = f"{len(summary.inits[0].neighbours)} neighbouring datasets{itself}"
    weights = f"initial weights {' and '.join(measured.inits)}"
    for text in (
        INTERNAL,
        f"{model_name(summary)}{how}; {measured.dataset.size:,} records a training.",
        f"{len(measured.seeds)} seeds x {datasets}, {weights}.",
        f"Every epsilon is an estimate, not a guarantee, at delta = {summary.delta:.3g}.",
    ):
        console.print(text, highlight=False)
    parts = (_distances, _sigmas, _sensitivities, _epsilons, _gaussian, _settled)
    tables = [make(summary) for make in parts]
    if utility is not None:
        tables.append(_accuracies(utility))
    for title, (first, *rest), rows, below in tables:
        console.print()
        console.print(title, style="bold", highlight=False)
        print_table(console, [(first, "L"), *((name, "R") for name in rest)], rows)
        for text in below:
            console.print(text, style="dim", highlight=False)
    if summary.notes:
        console.print()
    for note in summary.notes:
        console.print(f"Note: {note}", highlight=False)


def _by_init(summary: Summary) -> tuple[str, ...]:
    return ("", *(one.init for one in summary.inits))


def _distances(summary: Summary) -> _Table:
    from sordino.intrinsic.distances import MOST_PAIRS

    rows, sampled = [], False
    for one in summary.inits:
        for name, gaps in (
            ("delta_S, another record", one.delta_s),
            ("  from the data itself", one.from_base),
            ("delta_V, another seed", one.delta_v),
            ("delta_S+V, both", one.delta_sv),
        ):
            if gaps is not None:
                sizes = map(_number, (gaps.quantile(0.5), gaps.quantile(0.95), gaps.maximum))
                rows.append((name, one.init, *sizes, f"{gaps.pairs:,}"))
                sampled |= not gaps.exact
    below = [f"Of more than {MOST_PAIRS:,} pairs: a sample of so many."] * sampled
    headings = ("distance of two models", "init", "median", "95%", "largest", "pairs")
    return "How far apart models are (L2)", headings, rows, below


def _sigmas(summary: Summary) -> _Table:
    names = {
        "minimum": "least of all datasets (v2)",
        "median": "median of datasets (v1)",
        "per-weight": "mean of each weight's (v2)",
        "norm": "of the weights' norm (v2)",
    }
    inits = summary.inits
    rows = [(name, *(_interval(one.sigma[key]) for one in inits)) for key, name in names.items()]
    relative = [f"{one.across.relative:.2g}" for one in summary.inits]
    rows.append(("relative gap of datasets (v2, Table 6)", *relative))
    below = (f"In brackets: {summary.inits[0].sigma['minimum'].level:.0%} intervals.",)
    return "sigma_i: how widely the seed spreads a weight", _by_init(summary), rows, below


def _sensitivities(summary: Summary) -> _Table:
    theory, rows = summary.theory, []
    many = len(summary.inits)
    if theory.bound is not None:
        rows.append(("bound for one record", *[_number(theory.bound.worst)] * many))
    if theory.printed is not None:
        name = "the papers' fraction of it, NOT A BOUND"
        rows.append((name, *[_number(theory.printed.value)] * many))
    seen = [_number(one.sensitivity) for one in summary.inits]
    rows.append(("largest seen, a lower estimate", *seen))
    based = [_number(one.from_base.maximum) for one in summary.inits if one.from_base]
    if len(based) == many:
        rows.append(("largest seen from the data itself", *based))
    below = (f"Bound: {theory.bound.theorem}; in exact arithmetic.",) if theory.bound else ()
    title = "Sensitivity: how far one record moves the weights"
    return title, _by_init(summary), rows, below


def estimates(one: InitSummary, delta: float) -> dict[str, Estimate]:
    """Estimates of epsilon by what they rest on, where there are numbers."""
    found = {}
    if one.by_bound is not None:
        found["bound for one record"] = one.by_bound.exact
    if one.by_observed is not None:
        found["largest distance seen"] = one.by_observed.exact
    if one.pairwise is not None:
        found["median pair"] = one.pairwise.quantile(0.5)
    if one.worst is not None:
        found["worst pair, all directions"] = one.worst.isotropic_epsilon(delta)
        found["worst pair, one direction"] = one.worst.epsilon(delta)
    if one.by_printed is not None:
        found["papers: epsilon_i of their fraction"] = one.by_printed.printed
    if one.by_observed is not None:
        found["papers: epsilon_i* of the largest seen"] = one.by_observed.printed
    return found


def _epsilons(summary: Summary) -> _Table:
    columns = [estimates(one, summary.delta) for one in summary.inits]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [(n, *(_interval(each[n]) if n in each else "-" for each in columns)) for n in names]
    return "epsilon: estimates, not guarantees", _by_init(summary), rows, ()


def _gaussian(summary: Summary) -> _Table:
    columns = []
    for one in summary.inits:
        tested, joint = one.normality, one.joint
        cells = ["-"] * 5
        if tested:
            cells[:3] = f"{tested.tests:,}", f"{tested.below_level:.1%}", f"{tested.rejected:,}"
        if joint:
            cells[3:] = f"{joint.p_value:.3g}", f"{joint.kurtosis:.3g}"
        gap = f"{one.gaussian.kolmogorov:.2g}", f"{one.gaussian.sharpness:.3g}"
        columns.append((*cells, *gap))
    names = (
        *("weights tested (Shapiro-Wilk)", "p below 0.05; 5% if Gaussian"),
        *("below Bonferroni's line", "all weights of one dataset: p", "  kurtosis; 1 if Gaussian"),
        *("delta_V and Gaussian vectors: gap", "  width; 1 if Gaussian"),
    )
    rows = list(zip(names, *columns, strict=True))
    return "Is the noise Gaussian? (no test proves it)", _by_init(summary), rows, ()


def _settled(summary: Summary) -> _Table:
    def times(curve: Any) -> str:
        factor = math.nan if curve is None else curve.last_doubling
        return "-" if math.isnan(factor) else f"x {factor:.3f}"

    pairs = [times(one.by_comparisons) for one in summary.inits]
    seeds = [times(one.by_seeds) for one in summary.inits]
    rows = [("largest delta_S, half the pairs to all", *pairs)]
    rows.append(("sigma_i, half the seeds to all", *seeds))
    return "How settled are the numbers?", _by_init(summary), rows, ()


def _accuracies(utility: Utility) -> _Table:
    """One row an epsilon, for the empirical sensitivity."""
    rows = []
    for row in utility.rows:
        means = (f"{each.value:.4f}" for each in (row.deterministic, row.random))
        gain = (f"{row.gain.value:+.4f}", f"{row.p_value_by_seed:.0e}")
        closed = "-" if row.percent_closed is None else f"{row.percent_closed.value:.0f}%"
        rows.append((f"{row.augmented.target_epsilon:g}", *means, *gain, closed))
    models = f"{utility.models} models on {utility.test_rows:,} held-out rows"
    without = f"without noise {utility.noiseless_mean.value:.4f}"
    below = (f"{models}; {without}; for the empirical sensitivity, no bound.", NOT_PRIVATE)
    headings = ("target epsilon", "all noise", "augmented", "gain", "p", "of gap")
    return "Accuracy, if SGD's own noise counted (an experiment)", headings, rows, below


def _interval(of: Interval | Estimate) -> str:
    """A value with its interval, if it has one."""
    value = of.value if hasattr(of, "value") else of.epsilon
    if of.low is None or of.high is None:
        return _number(value, 3)
    return f"{_number(value, 3)} ({_number(of.low, 3)}-{_number(of.high, 3)})"


def _number(value: float, digits: int = 4) -> str:
    if math.isinf(value):
        return "infinite"
    if math.isnan(value):  # nothing moved
        return "-"
    if 1e-3 <= abs(value) < 1e6 and value != 0:
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return f"{value:,.{places}f}"
    return f"{value:.{digits}g}"
