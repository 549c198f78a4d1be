"""The grids of Hyland & Tople v2, measured again: their Tables 3, 4 and 6 beside ours.

    python benchmarks/intrinsic.py [--json FILE] [--smoke] [--data-dir DIR] [--studies DIR]
                                   [--only NAME,...] [--markdown FILE]

One study a dataset: logistic regression with both kinds of initial weights, and a network of one
hidden layer with varying ones. `--studies` keeps them (INTERNAL: weights without noise) and goes on
with those that are there. Times are of this machine; sizes and statistics are not.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from sordino import randomness
from sordino.data import load as load_data
from sordino.data import neighbours as neighbouring
from sordino.data.catalogue.recipes import Splits
from sordino.intrinsic import directional
from sordino.intrinsic.augment import Basis, augment, evaluate
from sordino.intrinsic.grid import Measured, load
from sordino.intrinsic.measure import measure
from sordino.intrinsic.summary import InitSummary, summary
from sordino.models import ObjectiveSpec
from sordino.sgd import TrainSpec, train
from sordino_papers.claims import papers

FRESH_SEEDS = range(10_000, 12_000)
"""For the worst pair: none of them is among those that chose it."""


@dataclass(frozen=True)
class Paper:
    """What v2 prints: Table 3, and Table 4 at epsilon = 1 with the empirical sensitivity."""

    seeds: int
    neighbours: int
    fractional: float
    empirical: float
    sigma: float
    epsilon: float
    epsilon_observed: float
    gain: float
    network_sigma: float
    network_empirical: float


def printed(name: str) -> Paper:
    """Sizes and numbers as they stand in v2's file, the one place that holds them."""
    v2 = papers()["v2"]
    claims = {claim.name: claim for claim in v2.claims}
    run = v2.runs[f"v2/{name}-logistic"].settings
    rows = (
        *("table-3/bound", "table-3/sensitivity", "table-3/sigma", "table-3/epsilon"),
        *("table-3/epsilon-observed", "table-4/empirical-gain"),
        *("table-3/network-sigma", "table-3/network-sensitivity"),
    )
    numbers = [claims[f"v2/{row}/{name}"].printed.value for row in rows]
    return Paper(run["seeds"], run["neighbours"], *numbers)


PAPERS = {name: printed(name) for name in ("cifar2", "mnist-binary", "adult", "forest")}
SMOKE = {"digits/binary": Paper(30, 8, *[float("nan")] * 8)}


@dataclass
class Figures:
    """Flat figures by name, and the rows of the table in the docs."""

    flat: dict[str, float] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)


def logistic(splits: Splits) -> TrainSpec:
    recipe = splits.recipe
    return TrainSpec(
        ObjectiveSpec("logistic"), recipe.learning_rate, recipe.batch_size, steps=recipe.steps
    )


def network(splits: Splits) -> TrainSpec | None:
    settings = splits.recipe.network
    if settings is None:
        return None
    objective = ObjectiveSpec("mlp", hidden=settings.hidden_size)
    return TrainSpec(objective, settings.learning_rate, settings.batch_size, steps=settings.steps)


def measured(
    spec: TrainSpec, splits: Splits, sizes: tuple[int, int], init: tuple[str, ...], where: Path
) -> tuple[Measured, float]:
    """The study, and the seconds its training took."""
    began = time.perf_counter()
    measure(spec, splits.train, *sizes, init=init, store=where)
    return load(where), time.perf_counter() - began


def megabytes(directory: Path) -> float:
    return sum(each.stat().st_size for each in directory.rglob("*") if each.is_file()) / 1e6


def worst_pair(spec: TrainSpec, splits: Splits, found: InitSummary, seeds: range) -> Any:
    """The pair that the grid found easiest to tell apart, trained again with fresh seeds."""
    assert found.worst is not None
    records = [found.neighbours[place] for place in found.worst.pair]
    pair = neighbouring.replace_by_first(splits.train, records)
    weights = train(spec, splits.train, seeds, pair)[:, :, 0].astype(float)
    stream = randomness.stream("benchmark", "worst pair")
    return directional.between(weights[:, 0], weights[:, 1], stream=stream)


def study_logistic(
    name: str, paper: Paper, splits: Splits, where: Path, fresh_seeds: range, out: Figures
) -> None:
    spec = logistic(splits)
    sizes = paper.seeds, paper.neighbours
    grid, seconds = measured(spec, splits, sizes, ("vary", "fixed"), where)
    whole = summary(grid)
    vary = whole.of("vary")
    assert vary.by_observed is not None
    assert vary.by_printed is not None
    assert whole.theory.bound is not None
    assert whole.theory.printed is not None
    fresh = worst_pair(spec, splits, vary, fresh_seeds)
    sigma = vary.sigma["minimum"].value
    values = {
        "seconds": seconds,
        "megabytes": megabytes(where),
        "sigma": sigma,
        "sigma_fixed": whole.of("fixed").sigma["minimum"].value,
        "sigma_spread": vary.across.relative,
        "fractional": whole.theory.printed.value,
        "bound": whole.theory.bound.worst,
        "empirical": vary.sensitivity,
        "epsilon_i": vary.by_printed.printed.epsilon,
        "epsilon_i_exact": vary.by_printed.exact.epsilon,
        "epsilon_observed": vary.by_observed.printed.epsilon,
        "epsilon_observed_exact": vary.by_observed.exact.epsilon,
        "isotropic_distance": fresh.isotropic.value,
        "directional_distance": fresh.distance.value,
        "directional_epsilon": fresh.epsilon(whole.delta).epsilon,
        **utility(name, splits, grid, vary, whole.delta),
    }
    out.rows.append({"name": name, "paper": paper, **values})
    out.flat.update({f"{name}_{key}": float(value) for key, value in values.items()})
    out.flat[f"{name}_sigma_over_v2"] = sigma / paper.sigma
    out.flat[f"{name}_epsilon_i_over_v2"] = values["epsilon_i"] / paper.epsilon
    out.flat[f"{name}_empirical_over_v2"] = vary.sensitivity / paper.empirical


def study_half(name: str, paper: Paper, splits: Splits, where: Path, out: Figures) -> None:
    """The remark of v1's Table III: is the sensitivity of half the data the same?

    As many passes: with as many steps, every record would be met twice as often.
    """
    whole = splits.train
    kept = np.sort(randomness.stream("benchmark", "half", name).permutation(whole.rows)[::2])
    spec = logistic(splits)
    assert spec.steps is not None
    shorter = replace(spec, steps=round(spec.steps / 2))
    measure(shorter, whole.take(kept), paper.seeds, paper.neighbours, init=("vary",), store=where)
    vary = summary(load(where)).of("vary")
    values = {"half_empirical": vary.sensitivity, "half_sigma": vary.sigma["minimum"].value}
    out.rows[-1].update(values)
    out.flat.update({f"{name}_{key}": float(value) for key, value in values.items()})


def utility(
    name: str, splits: Splits, grid: Measured, found: InitSummary, delta: float
) -> dict[str, float]:
    """Accuracy with all of the noise, and with what SGD's own leaves of it, at epsilon = 1."""
    assert splits.test is not None
    # The benchmark's datasets are public: that is what `estimated_on` asks.
    basis = Basis(found.sensitivity, "empirical", found.sigma["minimum"], "public")
    compared = evaluate(
        grid.final("vary"),
        splits.test.X,
        splits.test.y,
        [augment(1.0, delta, basis, formula="printed")],
        stream=randomness.stream("benchmark", "utility", name),
    )
    (row,) = compared.rows
    return {
        "noiseless_accuracy": compared.noiseless_mean.value,
        "deterministic_accuracy": row.deterministic.value,
        "gain": row.gain.value,
        "gain_p_value": row.p_value,
        "gain_p_value_by_seed": row.p_value_by_seed,
    }


def study_network(
    name: str, paper: Paper, splits: Splits, where: Path, sizes: tuple[int, int], out: Figures
) -> None:
    spec = network(splits)
    if spec is None:
        return
    grid, seconds = measured(spec, splits, sizes, ("vary",), where)
    vary = summary(grid).of("vary")
    values = {
        "network_seconds": seconds,
        "network_sigma": vary.sigma["minimum"].value,
        "network_empirical": vary.sensitivity,
    }
    out.rows[-1].update(values)
    out.flat.update({f"{name}_{key}": float(value) for key, value in values.items()})
    out.flat[f"{name}_network_sigma_over_v2"] = values["network_sigma"] / paper.network_sigma


COLUMNS = {
    "sigma_i": ("sigma", "sigma", "{:.4f}"),
    "bound as printed": ("fractional", "fractional", "{:.3f}"),
    "bound that holds": ("bound", None, "{:.3f}"),
    "empirical sensitivity": ("empirical", "empirical", "{:.3f}"),
    "epsilon_i, their formula": ("epsilon_i", "epsilon", "{:.2f}"),
    "epsilon_i, exact": ("epsilon_i_exact", None, "{:.2f}"),
    "epsilon_i*, their formula": ("epsilon_observed", "epsilon_observed", "{:.2f}"),
    "epsilon_i*, exact": ("epsilon_observed_exact", None, "{:.2f}"),
    "worst pair, isotropic distance": ("isotropic_distance", None, "{:.2f}"),
    "worst pair, directional distance": ("directional_distance", None, "{:.2f}"),
    "its epsilon, exact": ("directional_epsilon", None, "{:.2f}"),
    "spread of sigma over datasets": ("sigma_spread", None, "{:.1e}"),
    "augmented minus deterministic": ("gain", "gain", "{:+.4f}"),
    "its p-value": ("gain_p_value", None, "{:.0e}"),
    "half the data, as many passes: sigma_i": ("half_sigma", None, "{:.4f}"),
    "half the data: empirical sensitivity": ("half_empirical", None, "{:.3f}"),
    "network: sigma_i": ("network_sigma", "network_sigma", "{:.3f}"),
    "network: empirical sensitivity": ("network_empirical", "network_empirical", "{:.2f}"),
    "seconds": ("seconds", None, "{:.0f}"),
    "store, MB": ("megabytes", None, "{:.1f}"),
}


def markdown(rows: list[dict[str, Any]]) -> str:
    """Ours, and v2's in brackets."""
    names = [row["name"] for row in rows]
    lines = [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for title, (key, printed, form) in COLUMNS.items():
        cells = []
        for row in rows:
            cell = form.format(row[key]) if key in row else "-"
            theirs = "" if printed is None else f" ({getattr(row['paper'], printed):g})"
            cells.append(cell + theirs if cell != "-" else cell)
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--smoke", action="store_true", help="seconds, for CI")
    parser.add_argument("--data-dir", help="directory of the raw files; default SORDINO_DATA")
    parser.add_argument("--studies", type=Path, help="keep the studies here, and resume them")
    parser.add_argument("--only", help="datasets, with commas")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    options = parser.parse_args()
    asked = SMOKE if options.smoke else PAPERS
    if options.only:
        asked = {name: asked[name] for name in options.only.split(",")}
    console, out = Console(), Figures()
    fresh = FRESH_SEEDS[:40] if options.smoke else FRESH_SEEDS
    with tempfile.TemporaryDirectory() as scratch:
        kept = options.studies or Path(scratch)
        kept.mkdir(parents=True, exist_ok=True)
        for name, paper in asked.items():
            splits = load_data(name, data_dir=options.data_dir)
            place = kept / name.replace("/", "-")
            study_logistic(name, paper, splits, place, fresh, out)
            study_half(name, paper, splits, Path(f"{place}-half"), out)
            study_network(name, paper, splits, Path(f"{place}-network"), (50, 20), out)
            console.print(f"{name}: {out.rows[-1]['seconds']:.0f} s")
    console.print(markdown(out.rows))
    if options.markdown:
        options.markdown.write_text(markdown(out.rows))
    if options.json:
        options.json.write_text(json.dumps(out.flat, indent=2))


if __name__ == "__main__":
    main()
