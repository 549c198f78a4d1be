"""`sordino measure show`: what a study measured, as tables, figures or JSON."""

from __future__ import annotations

import dataclasses
import enum
import math
import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino import checks
from sordino._files import reason
from sordino.cli.options import OUTPUT, DataDir, Json, option
from sordino.cli.terminal import print_json, say
from sordino.errors import PrivacyLeakWarning

if TYPE_CHECKING:
    from sordino.cli.measure_tables import Shown
    from sordino.data import Dataset
    from sordino.intrinsic.distances import Distances
    from sordino.intrinsic.epsilon import IntrinsicEpsilon
    from sordino.intrinsic.grid import Measured
    from sordino.intrinsic.summary import InitSummary, Summary
    from sordino.intrinsic.utility import Utility

SCHEMA = 1
NOT_PRIVATE = "NOT PRIVATE: how much noise was measured on the records themselves."
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_INIT = "vary"


class FigureFormat(enum.StrEnum):
    """What figures are written as."""

    SVG = "svg"
    PNG = "png"


def show(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A study, as `sordino measure` wrote it.")
    ],
    figures: Annotated[
        Path | None,
        option(OUTPUT, "Draw figures into this directory; it is made.", metavar="DIR2"),
    ] = None,
    format: Annotated[
        FigureFormat, option(OUTPUT, "What figures are written as.")
    ] = FigureFormat.SVG,
    delta: Annotated[
        float | None, option(OUTPUT, "Where epsilons are estimated; 1 / n^2 if not given.")
    ] = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Show what a study measured: distances, SGD's own noise, and what it would be worth.

    Every epsilon here is an **estimate, not a guarantee**, and all of it is INTERNAL: numbers and
    figures come from the records themselves. Numbers of the papers (Hyland & Tople) are named as
    theirs. A study that is not finished is shown as far as it is whole.

    `sordino measure show study/`

    `sordino measure show study/ --figures figures/ --format png`
    """
    if figures is not None:
        _unmake(_make(figures))  # refused before the work is done, if it cannot be made
    from sordino.intrinsic.grid import load
    from sordino.intrinsic.summary import summary
    from sordino.study import StudyError
    from sordino.study.refusal import DamagedCell

    try:
        found = summary(load(directory), delta=delta)
    except DamagedCell as error:
        raise StudyError(f"{error} Run the same sordino measure again with --repair.") from error
    test = _held_out(found.measured, data_dir)
    accuracies = {} if isinstance(test, str) else _utilities(found, test)
    if json:
        utility = {
            "estimated_on": "private",
            "warning": NOT_PRIVATE,
            "missing": test if isinstance(test, str) else None,
            **{name: each.table() for name, each in accuracies.items()},
        }
        print_json({**_document(found), "utility": utility})
    else:
        from sordino.cli.measure_tables import print_all

        print_all(found, [_accuracies(accuracies)] if accuracies else [])
        if isinstance(test, str):
            say(f"No accuracies with noise: {test}.")
    if figures is not None:
        _draw(found, accuracies, figures, format.value, json)


def _make(directory: Path) -> list[Path]:
    """Make the directory of figures; return what was made for it, the innermost first."""
    made = [each for each in (directory, *directory.parents) if not os.path.lexists(each)]
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        _unmake(made)
        checks.fail("figures", directory, f"to be a directory that can be made ({reason(error)})")
    return made


def _unmake(directories: list[Path]) -> None:
    with suppress(OSError):
        for each in directories:
            each.rmdir()


def _draw(
    found: Summary, accuracies: dict[str, Utility], directory: Path, suffix: str, piped: bool
) -> None:
    from sordino.cli.measure_figures import FIGURES, UTILITY, draw

    made = _make(directory)
    try:
        drawn = draw(found, accuracies, directory, suffix)
    except BaseException:
        _unmake(made)  # if nothing is in it
        raise
    say(f"INTERNAL figures: {', '.join(str(path) for path in drawn)}", err=piped)
    left = {*FIGURES, UTILITY} - {path.stem for path in drawn}
    if left:
        names = ", ".join(sorted(left))
        wanted = "checkpoints, seeds, noise or held-out rows"
        say(f"Not drawn, for want of {wanted}: {names}.", err=piped)


def _held_out(measured: Measured, data_dir: str | None) -> Dataset | str:
    """The dataset's test rows, or why there are none, in words."""
    from sordino.data import DataError, load, names

    spec, facts = measured.spec, measured.dataset
    if spec is None or not spec.objective.is_linear or _INIT not in measured.inits:
        return "it is for linear models trained by sordino with varying initial weights"
    if facts.name not in names():
        return "no rows are held out for a file of your own"
    try:
        splits = load(facts.name, data_dir=data_dir)
    except DataError as error:
        return str(error)
    if splits.train.fingerprint != facts.sha256 or splits.test is None:
        return f"{facts.name} is not here as it was measured, or has no test rows"
    return splits.test


def _utilities(summary: Summary, test: Dataset) -> dict[str, Utility]:
    """By sensitivity: accuracies with all noise, and with what SGD's own leaves of it."""
    from sordino import randomness
    from sordino.intrinsic.augment import Basis, augment_each
    from sordino.intrinsic.utility import evaluate

    one, bound = summary.of(_INIT), summary.theory.bound
    sizes = {"empirical": one.sensitivity}
    if bound is not None:
        sizes["theoretical"] = bound.worst
    found = {}
    for name, size in sizes.items():
        with warnings.catch_warnings():  # the table says it
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            basis = Basis(size, name, one.sigma["minimum"], "private")
            noise = augment_each(EPSILONS, summary.delta, basis)
        stream = randomness.stream("summary", _INIT, "utility")  # the same draw for each
        weights = summary.measured.final(_INIT)
        found[name] = evaluate(weights, test.X, test.y, noise, stream=stream)
    return found


def _accuracies(found: dict[str, Utility]) -> Shown:
    """One row an epsilon, for the empirical sensitivity."""
    from sordino.cli.measure_tables import Shown

    chosen = found["empirical"]
    rows = []
    for row in chosen.rows:
        closed = "-" if row.percent_closed is None else f"{row.percent_closed.value:.0f}%"
        rows.append(
            (
                f"{row.augmented.target_epsilon:g}",
                *(f"{each.value:.4f}" for each in (row.deterministic, row.random)),
                f"{row.gain.value:+.4f}",
                f"{row.p_value_by_seed:.0e}",
                closed,
            )
        )
    below = (
        f"Of {chosen.models} sampled models on {chosen.test_rows:,} held-out rows; without noise "
        f"{chosen.noiseless_mean.value:.4f}. Noise for the empirical sensitivity, which is no "
        "bound, so neither column is a promise; the second also counts SGD's own noise.",
        "p: a paired t-test by seed, since models of one seed are alike; the papers' is by model.",
        NOT_PRIVATE,
    )
    headings = ("target epsilon", "all noise", "augmented", "gain", "p", "of gap")
    return Shown("Accuracy, if SGD's own noise counted (an experiment)", headings, rows, below)


def _document(summary: Summary) -> dict[str, Any]:
    """All numbers but the sampled pairs, of which there are quantiles."""
    from sordino.cli.measure_figures import INTERNAL

    measured, theory = summary.measured, summary.theory
    plain: dict[str, Any] = {
        "schema": SCHEMA,
        "internal": INTERNAL,
        "epsilons": "every epsilon is an estimate, not a guarantee",
        "study": measured.study.address,
        "dataset": dataclasses.asdict(measured.dataset),
        "spec": measured.spec.to_dict() if measured.spec else None,
        "function": measured.function,
        "relation": measured.relation.value,
        "seeds": len(measured.seeds),
        "steps": summary.steps,
        "delta": summary.delta,
        "theory": {
            "bound": theory.bound.worst if theory.bound else None,
            "theorem": theory.bound.theorem if theory.bound else None,
            "reason": theory.reason or None,
            "papers_fraction_not_a_bound": theory.printed.value if theory.printed else None,
        },
        "inits": {one.init: _init(one, summary.delta) for one in summary.inits},
        "notes": summary.notes,
    }
    found = _plain(plain)
    assert isinstance(found, dict)
    return found


def _init(one: InitSummary, delta: float) -> dict[str, Any]:
    worst, tested = one.worst, one.normality
    return {
        "neighbours": one.neighbours,
        "distances": {
            "delta_S": _distances(one.delta_s),
            "delta_S_from_the_data_itself": _distances(one.from_base),
            "delta_V": _distances(one.delta_v),
            "delta_S+V": _distances(one.delta_sv),
        },
        "against_gaussian_vectors": {
            "kolmogorov": one.gaussian.kolmogorov,
            "sharpness": one.gaussian.sharpness,
        },
        "sigma": one.sigma,
        "sigma_over_datasets": {**dataclasses.asdict(one.across), "relative": one.across.relative},
        "sensitivity_seen": one.sensitivity,
        "epsilon": {
            "bound": _by_formula(one.by_bound),
            "papers_fraction": _by_formula(one.by_printed),
            "largest_seen": _by_formula(one.by_observed),
            "median_pair": one.pairwise.quantile(0.5) if one.pairwise else None,
            "worst_pair_isotropic": worst.isotropic_epsilon(delta) if worst else None,
            "worst_pair_directional": worst.epsilon(delta) if worst else None,
        },
        "worst_pair": None
        if worst is None
        else {
            **{name: getattr(worst, name) for name in ("chosen", "distance", "isotropic")},
            "neighbours": [one.neighbours[at] for at in worst.pair],
            "in_sample_inflated": worst.in_sample,
        },
        "normality": None
        if tested is None
        else {
            name: getattr(tested, name)
            for name in ("tests", "level", "bonferroni", "below_level", "rejected")
        },
        "joint_normality": one.joint,
        "by_comparisons": one.by_comparisons,
        "by_seeds": one.by_seeds,
        "by_steps": one.by_steps,
    }


def _distances(found: Distances | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "pairs": found.pairs,
        "exact": found.exact,
        "maximum": found.maximum,
        "maximum_of_all": found.maximum_of_all,
        "quantiles": {f"{q:g}": found.quantile(q) for q in _QUANTILES},
    }


def _by_formula(found: IntrinsicEpsilon | None) -> dict[str, Any] | None:
    return None if found is None else {"exact": found.exact, "papers_formula": found.printed}


def _plain(value: Any) -> Any:
    """As JSON can hold it; NaN is null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if hasattr(value, "tolist"):  # numpy's
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value
