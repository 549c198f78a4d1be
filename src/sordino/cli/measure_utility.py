"""Accuracy against epsilon for `sordino measure show`: the papers' augmented release, tried out.

It needs rows that no training saw, which a study does not hold: they come with datasets by name.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from sordino.cli.measure_tables import Shown
from sordino.privacy import PrivacyLeakWarning

if TYPE_CHECKING:
    from sordino.data import Dataset
    from sordino.intrinsic.measured import Measured
    from sordino.intrinsic.summary import Summary
    from sordino.intrinsic.utility import Utility

NOT_PRIVATE = "NOT PRIVATE: how much noise was measured on the records themselves."
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_INIT = "vary"


def held_out(measured: Measured, data_dir: str | None) -> Dataset | str:
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


def utilities(summary: Summary, test: Dataset) -> dict[str, Utility]:
    """By sensitivity: accuracies with all noise, and with what SGD's own leaves of it."""
    from sordino import seeding
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
        stream = seeding.stream("summary", _INIT, "utility")  # the same draw for each
        weights = summary.measured.final(_INIT)
        found[name] = evaluate(weights, test.X, test.y, noise, stream=stream)
    return found


def table(found: dict[str, Utility]) -> Shown:
    """One row an epsilon, for the empirical sensitivity."""
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
