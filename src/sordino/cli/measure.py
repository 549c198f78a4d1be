"""`sordino measure`: train a grid of seeds and neighbouring datasets into a study, and show it."""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino import _cost, checks
from sordino._files import reason
from sordino.cli import options
from sordino.cli.options import OUTPUT, RECORDS, TRAINING, argument, option
from sordino.cli.tables import INTERNAL, NOT_PRIVATE, estimates, model_name, pick, print_summary
from sordino.cli.terminal import add_note, bar, print_json, resumable, say
from sordino.data.source import Source
from sordino.errors import PrivacyLeakWarning
from sordino.intrinsic.training import TrainedModel, Training

if TYPE_CHECKING:
    from sordino.data import Dataset
    from sordino.intrinsic.augment import Utility
    from sordino.intrinsic.grid import Measured
    from sordino.intrinsic.measure import StudyProgress
    from sordino.intrinsic.spread import SubsetCurve
    from sordino.intrinsic.summary import InitSummary, Summary
    from sordino.study import Study

_GRID, _STUDY = "The grid", "The study"
_SCHEMA = 1
_UNTIL = "--until-converged"
_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""At which accuracies with noise are sampled, for models with initial weights that vary."""
_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)

app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False)


class _FigureFormat(StrEnum):
    """What figures are written as."""

    SVG = "svg"
    PNG = "png"


@app.callback(invoke_without_command=True)
def measure(
    context: typer.Context,
    data: Annotated[str | None, options.DATA] = None,
    out: options.StudyDir = None,
    target: options.Target = None,
    columns: options.ColumnsFile = None,
    data_norm: Annotated[float | None, option(RECORDS, "Rows are scaled into it.")] = None,
    data_dir: options.DataDir = None,
    model: Annotated[TrainedModel, option(TRAINING, "What is trained.")] = TrainedModel.LOGISTIC,
    steps: Annotated[int | None, option(TRAINING, "Default: those of the papers.")] = None,
    until_converged: Annotated[bool, option(TRAINING, "By the papers' rule.", _UNTIL)] = False,
    batch_size: Annotated[int | None, option(TRAINING, "Default: the papers', or 32.")] = None,
    learning_rate: Annotated[float | None, option(TRAINING, "The papers', or 0.5.")] = None,
    l2: Annotated[float, option(TRAINING, options.L2_HELP, "--l2")] = 0.0,
    seeds: Annotated[int, option(_GRID, "How many, from 0 on.")] = 98,
    neighbours: Annotated[int, option(_GRID, "Datasets, each without another record.")] = 100,
    init: Annotated[str, option(_GRID, "Weights **vary**, are **fixed**, or both.")] = "vary,fixed",
    checkpoints: Annotated[int, option(_GRID, "How often weights are kept.")] = 10,
    dask: options.Dask = None,
    retry_failed: Annotated[bool, option(_STUDY, "Failed cells again.", "--retry-failed")] = False,
    repair: Annotated[bool, option(_STUDY, "Train damaged cells again.", "--repair")] = False,
) -> None:
    """Measure SGD's own noise: train every seed on every neighbouring dataset, into a study.

    A neighbour has one record replaced by the first one. Settings are the papers' for a dataset
    that they used. A file's rows are scaled into `--data-norm`, a linear model's intercept's 1
    included (default: rows alone within 1), and trained until the accuracy on a held-out tenth,
    checked every 50 steps, has three times not improved.

    Stopped or killed at any moment, the same command resumes and ends with the same bytes;
    `--retry-failed` and `--repair` train failed or damaged cells again. What is estimated from a
    study is **no guarantee**. Exit code 1 if a cell failed; the rest is there.

    `sordino measure --data mnist-binary --out study`

    `sordino measure --data patients.csv --columns columns.toml --out study --seeds 50`
    """
    if context.invoked_subcommand is not None:
        if data is not None or out is not None:
            condition = f"not to go with `{context.invoked_subcommand}`"
            checks.fail("--data" if data else "--out", data or out, condition)
        return
    if data is None:
        checks.fail_missing("--data NAME", "", options.LIST)
    if out is None:
        checks.fail_missing("--out DIR", "", "The study goes there.")
    training = Training(model, steps, until_converged, batch_size, learning_rate, l2)
    source = Source(data, target, columns, None, data_norm, data_dir)
    starts = [word.strip() for word in init.split(",")]
    for word in starts:
        checks.one_of("--init", word, ("vary", "fixed"))
    if len(set(starts)) < len(starts):
        checks.fail("--init", init, "to name each once")
    for name, value in (("seeds", seeds), ("neighbours", neighbours), ("checkpoints", checkpoints)):
        checks.whole(f"--{name}", value, at_least=1)
    training.check_same_norm(source, out)
    material = training.read(source)
    spec, length = training.spec(material)
    say(
        f"{model.value} on {material.train.name}: {spec.steps:,} steps ({length}), batches of "
        f"{spec.batch_size}, learning rate {spec.schedule.rate:g}."
    )
    from sordino import tasks
    from sordino.intrinsic.measure import measure as train_grid
    from sordino.study.files import DamagedCell, StudyError

    watch = _Watch()
    try:
        with (
            resumable(lambda: f"{watch.cells} are done. The same command resumes."),
            tasks.connect(dask) as client,
            bar("") as watch.show,
        ):
            study = train_grid(
                *(spec, material.train, seeds, neighbours),
                init=starts,
                checkpoints=checkpoints,
                store=out,
                client=client,
                progress=watch,
                retry_failed=retry_failed,
                repair=repair,
            )
    except DamagedCell as error:
        raise StudyError(f"{error} Pass --repair.") from error
    with add_note(f"The study is in {study.directory}."):
        _say(study, watch)


class _Watch:
    """Shows how far a study has come, if somebody is watching; remembers it in any case."""

    def __init__(self) -> None:
        self.last: StudyProgress | None = None
        self.show: Callable[..., None] = lambda done, total, words: None

    def __call__(self, progress: StudyProgress) -> None:
        if self.last is None and progress.expected > _cost.LONG:
            about = _cost.duration(progress.expected)
            say(f"About {about} here; Ctrl-C stops it, and it can be resumed.")
        self.last = progress
        speed = f", {progress.runs_per_second:,.2g} runs/s" if progress.runs_now else ""
        done = progress.runs_done + progress.under_way
        self.show(done, progress.runs_total, words=f"{self.cells}{speed}")

    @property
    def cells(self) -> str:
        """Cells that are over, in words."""
        last = self.last
        return "0 cells" if last is None else f"{last.cells_done:,} of {last.cells_total:,} cells"


def _say(study: Study, watch: _Watch) -> None:
    """Where the study is, what it took, and what failed."""
    layout, last = study.layout, watch.last
    assert last is not None
    many = len(layout.neighbours) - 1
    now = "All of them were there already."
    if last.runs_now:
        speed = f"{last.runs_per_second:,.0f} runs/s"
        now = f"{last.runs_now:,} of them now, in {last.seconds:.1f} seconds ({speed})."
    datasets = f"{many + 1} datasets ({many} neighbours, and the data itself)"
    inits = f"{len(layout.inits)} ({', '.join(layout.inits)})"
    say(
        f"{last.runs_total:,} runs: {len(layout.seeds)} seeds x {datasets} x {inits}.",
        now,
        f"Study, INTERNAL: {study.directory}",
        f"Its estimates, which are no guarantee: sordino measure show {study.directory}",
    )
    failures = list(study.failures().items())
    if failures:
        more = len(failures) - 5
        say(
            f"{len(failures)} of {last.cells_total:,} cells FAILED; the rest is whole.",
            *(f"  {layout.name(cell)}: {why}" for cell, why in failures[:5]),
            *[f"  and {more} more"] * (more > 0),
            err=True,
        )
        raise typer.Exit(1)


@app.command()
def show(
    directory: Annotated[Path, argument("DIR", "A study, as `sordino measure` wrote it.")],
    figures: Annotated[Path | None, option(OUTPUT, "Draw into it.", metavar="DIR2")] = None,
    format: Annotated[_FigureFormat, option(OUTPUT, "Of the figures.")] = _FigureFormat.SVG,
    delta: Annotated[float | None, option(OUTPUT, "Default: 1 / n^2.")] = None,
    json: options.Json = False,
    data_dir: options.DataDir = None,
) -> None:
    """Show what a study measured: distances, SGD's own noise, and what it would be worth.

    Every epsilon here is an **estimate, not a guarantee**, and all of it is INTERNAL: numbers and
    figures come from the records themselves. Numbers of the papers (Hyland & Tople) are named as
    theirs. A study that is not finished is shown as far as it is whole.

    Two neighbours differ in two places of the order, so the bound for one record covers half their
    distance; the data itself and a neighbour differ in one. Epsilons take for granted: Gaussian
    noise, alike for every dataset and, but along one direction, in all directions; what was seen is
    of the pairs tried, no more. The worst pair and its direction are chosen on other seeds than
    those that test them. The papers' formula, sqrt(2 ln(1.25/delta)) Delta / sigma, is a theorem
    below epsilon = 1 only. In the experiment on accuracy noise is for the empirical sensitivity, so
    no column is a promise; the second also counts SGD's own noise; p is of a paired t-test by seed,
    the papers' by model.

    `sordino measure show study/`

    `sordino measure show study/ --figures figures/ --format png`
    """
    with _new_directory(figures):
        from sordino.intrinsic.grid import load
        from sordino.intrinsic.summary import summary
        from sordino.study.files import DamagedCell, StudyError

        try:
            found = summary(load(directory), delta=delta)
        except DamagedCell as error:
            text = f"{error} Run the same sordino measure again with --repair."
            raise StudyError(text) from error
        test = _held_out(found.measured, data_dir)
        why = test if isinstance(test, str) else None
        utilities = {} if isinstance(test, str) else _utilities(found, test)
        if json:
            utility = {"estimated_on": "private", "warning": NOT_PRIVATE, "missing": why}
            tables = {name: each.table() for name, each in utilities.items()}
            print_json({**_document(found), "utility": {**utility, **tables}})
        else:
            print_summary(found, utilities.get("empirical"))
            if why:
                say(f"No accuracies with noise: {why}.")
        if figures is not None:
            _draw(found, utilities, figures, format.value, err=json)


@contextmanager
def _new_directory(path: Path | None) -> Iterator[None]:
    """Make the directory of figures before any work; what stays empty is taken away again."""
    made = [each for each in (path, *path.parents) if not os.path.lexists(each)] if path else []
    try:
        try:
            if path:
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            checks.fail("figures", path, f"to be a directory that can be made ({reason(error)})")
        yield
    finally:
        with suppress(OSError):
            for each in made:
                each.rmdir()


def _held_out(measured: Measured, data_dir: str | None) -> Dataset | str:
    """The dataset's test rows, or why there are none, in words."""
    from sordino.data import DataError, load, names

    spec, facts = measured.spec, measured.dataset
    if spec is None or not spec.objective.is_linear or "vary" not in measured.inits:
        return "only for linear models with varying initial weights"
    if facts.name not in names():
        return "no rows are held out for a file of your own"
    try:
        splits = load(facts.name, data_dir=data_dir)
    except DataError as error:
        return str(error)
    if splits.train.fingerprint != facts.sha256 or splits.test is None:
        return f"{facts.name} is not as it was measured, or has no test rows"
    return splits.test


def _utilities(summary: Summary, test: Dataset) -> dict[str, Utility]:
    """By sensitivity: accuracies with all noise, and with what SGD's own leaves of it."""
    from sordino import randomness
    from sordino.intrinsic.augment import Basis, augment_each, evaluate

    one, bound = summary.of("vary"), summary.theory.bound
    sizes = {"empirical": one.sensitivity} | ({"theoretical": bound.worst} if bound else {})
    found = {}
    for name, size in sizes.items():
        with warnings.catch_warnings():  # the table says it
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            basis = Basis(size, name, one.sigma["minimum"], "private")
            noise = augment_each(_EPSILONS, summary.delta, basis)
        stream = randomness.stream("summary", "vary", "utility")  # the same draw for each
        weights = summary.measured.final("vary")
        found[name] = evaluate(weights, test.X, test.y, noise, stream=stream)
    return found


# As JSON ------------------------------------------------------------------------------------------


def _document(summary: Summary) -> dict[str, Any]:
    """All numbers but the sampled pairs, of which there are quantiles."""
    measured, theory = summary.measured, summary.theory
    bound, printed = theory.bound, theory.printed
    document = {
        "schema": _SCHEMA,
        "internal": INTERNAL,
        "epsilons": "every epsilon is an estimate, not a guarantee",
        "study": measured.study.address,
        "dataset": measured.dataset,
        "spec": measured.spec.to_dict() if measured.spec else None,
        "function": measured.function,
        "relation": measured.relation.value,
        "seeds": len(measured.seeds),
        **pick(summary, "steps", "delta"),
        "theory": {
            "bound": bound and bound.worst,
            "theorem": bound and bound.theorem,
            "reason": theory.reason or None,
            "papers_fraction_not_a_bound": printed and printed.value,
        },
        "inits": {one.init: _init(one, summary.delta) for one in summary.inits},
        "notes": summary.notes,
    }
    return dict(_plain(document))


def _init(one: InitSummary, delta: float) -> dict[str, Any]:
    worst, tested = one.worst, one.normality

    def gaps(found: Any) -> Any:
        numbers = found and pick(found, "pairs", "exact", "maximum", "maximum_of_all")
        return found and {
            **numbers,
            "quantiles": {f"{q:g}": found.quantile(q) for q in _QUANTILES},
        }

    def both(found: Any) -> Any:
        return found and {"exact": found.exact, "papers_formula": found.printed}

    return {
        "neighbours": one.neighbours,
        "distances": {
            "delta_S": gaps(one.delta_s),
            "delta_S_from_the_data_itself": gaps(one.from_base),
            "delta_V": gaps(one.delta_v),
            "delta_S+V": gaps(one.delta_sv),
        },
        "against_gaussian_vectors": pick(one.gaussian, "kolmogorov", "sharpness"),
        "sigma": one.sigma,
        "sigma_over_datasets": {**vars(one.across), "relative": one.across.relative},
        "sensitivity_seen": one.sensitivity,
        "epsilon": {
            "bound": both(one.by_bound),
            "papers_fraction": both(one.by_printed),
            "largest_seen": both(one.by_observed),
            "median_pair": one.pairwise and one.pairwise.quantile(0.5),
            "worst_pair_isotropic": worst and worst.isotropic_epsilon(delta),
            "worst_pair_directional": worst and worst.epsilon(delta),
        },
        "worst_pair": worst
        and {
            **pick(worst, "chosen", "distance", "isotropic"),
            "neighbours": [one.neighbours[at] for at in worst.pair],
            "in_sample_inflated": worst.in_sample,
        },
        "normality": tested
        and pick(tested, "tests", "level", "bonferroni", "below_level", "rejected"),
        "joint_normality": one.joint,
        **pick(one, "by_comparisons", "by_seeds", "by_steps"),
    }


def _plain(value: Any) -> Any:
    """As JSON can hold it; NaN is null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = pick(value, *(each.name for each in dataclasses.fields(value)))
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if hasattr(value, "tolist"):  # numpy's
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


# As figures ---------------------------------------------------------------------------------------


def _draw(
    summary: Summary, utilities: dict[str, Utility], directory: Path, suffix: str, *, err: bool
) -> None:
    """Draw every figure there are numbers for, and say which."""
    from sordino.report import canvas

    paths, left = [], []
    for name, figure in sorted(_figures(summary, utilities).items()):
        if figure is None:
            left.append(name)
            continue
        paths.append(directory / f"{name}.{suffix}")
        canvas.save(figure, str(paths[-1]), INTERNAL)
    say(f"INTERNAL figures: {', '.join(map(str, paths))}", err=err)
    if left:
        say(f"Not drawn, for want of numbers: {', '.join(left)}.", err=err)


def _figures(summary: Summary, utilities: dict[str, Utility]) -> dict[str, Any]:
    """Figures by the names of their files; None where there is nothing to draw."""
    from sordino.intrinsic.distances import densities
    from sordino.report import figures as draw

    inits, theory, title = summary.inits, summary.theory, model_name(summary)

    def each(pick: Callable[[InitSummary], Any]) -> dict[str, Any]:
        """By kind of initial weights, where there are numbers."""
        found = {one.init: pick(one) for one in inits}
        return {init: value for init, value in found.items() if value}

    def band(curve: SubsetCurve | None) -> Any:
        return curve and (curve.sizes, curve.middle, curve.low, curve.high)

    def worth(one: InitSummary) -> dict[str, Any]:
        named = estimates(one, summary.delta)
        shown = [name for name in named if not name.startswith(("median", "papers"))]
        return {name: named[name] for name in shown}

    names = [one.init for one in inits]
    chosen = summary.of("fixed" if "fixed" in names else names[0])
    followed = chosen.trajectories
    heading = f"{title}\n{len(followed.values)} seeds, {draw.NAMES.get(chosen.init, chosen.init)}"
    weights = [f"weight {weight}" for weight in followed.weights]
    gaps = densities(each(lambda one: [getattr(one, f"delta_{kind}").values for kind in _GAPS]))
    bound: Any = theory.bound
    printed: Any = theory.printed
    tested = each(lambda one: one.normality)
    p_values = {init: found.p_values.ravel() for init, found in tested.items()}
    pairs, seeds = each(lambda one: one.pairwise), each(lambda one: band(one.by_seeds))
    epsilons, steps = each(worth), inits[0].by_steps.steps
    figures: dict[str, Any] = dict.fromkeys(_FIGURES)
    figures["distances"] = draw.distances(
        gaps, bound=bound and bound.worst, printed=printed and printed.value, title=title
    )
    if len(followed.steps) > 1:
        path = followed.steps, followed.values, weights
        figures["trajectories"] = draw.trajectories(*path, title=heading)
    if any((p >= 0).any() for p in p_values.values()):  # NaN: nothing varied
        figures["normality"] = draw.normality(p_values, title=title)
    if pairs:
        exact = {init: one.exact for init, one in pairs.items()}
        theirs = {init: one.printed for init, one in pairs.items()}
        figures["pairwise-epsilon"] = draw.pairwise(exact, theirs, delta=summary.delta, title=title)
    if len(steps) > 1:
        moved = {one.init: one.by_steps.sensitivity for one in inits}
        sigmas = {one.init: one.by_steps.sigma for one in inits}
        bounds = (theory.steps, theory.bounds) if bound else None
        figures["training-steps"] = draw.over_steps(steps, moved, sigmas, bound=bounds, title=title)
    if seeds:
        compared = each(lambda one: band(one.by_comparisons))
        figures["convergence"] = draw.convergence(compared, seeds, title=title)
    if epsilons:
        figures["epsilons"] = draw.epsilons(epsilons, delta=summary.delta, title=title)
    if utilities:
        targets = next(iter(utilities.values())).target_epsilons.tolist()
        curves = {name: one.curves() for name, one in utilities.items()}
        figures["utility"] = draw.utility(targets, curves, title=title)
    return figures


_FIGURES = (
    *("trajectories", "distances", "normality", "pairwise-epsilon"),
    *("training-steps", "convergence", "epsilons", "utility"),
)
"""By the names of their files."""
_GAPS = ("s", "v", "sv")
