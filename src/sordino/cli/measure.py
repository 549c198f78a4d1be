"""`sordino measure`: train a grid of seeds and neighbouring datasets into a study."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino import _check, _cost
from sordino.assessment.source import Source, not_given
from sordino.assessment.training import Model, Training
from sordino.cli.data import DataDir
from sordino.cli.record_options import RECORDS, OptionalData, Target
from sordino.cli.terminal import errors, kept, say, words_of_bar

if TYPE_CHECKING:
    from sordino.intrinsic.measure import StudyProgress
    from sordino.store import Study

_TRAINING, _GRID, _STUDY = "The training", "The grid", "The study"
_SHOWN = 5

app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False)

Out = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Directory of the study: made, or resumed. INTERNAL, never to be published.",
        rich_help_panel=_STUDY,
    ),
]
ColumnsFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.toml",
        help="A file's columns: bounds, levels, classes. Else they are read off the rows.",
        rich_help_panel=RECORDS,
    ),
]
DataNorm = Annotated[
    float | None,
    typer.Option(
        help="A file's rows longer than this are scaled down to it, the intercept's 1 not counted. "
        "Default: 1.",
        rich_help_panel=RECORDS,
    ),
]
ModelOption = Annotated[
    Model, typer.Option("--model", help="What is trained.", rich_help_panel=_TRAINING)
]
Steps = Annotated[
    int | None,
    typer.Option(help="Default: those of the papers for the dataset.", rich_help_panel=_TRAINING),
]
UntilConverged = Annotated[
    bool,
    typer.Option(
        "--until-converged",
        help="As many steps as the papers' rule says: until accuracy on validation rows, checked "
        "every 50 steps, has three times not improved. The default for a file, of which a tenth is "
        "held out for it.",
        rich_help_panel=_TRAINING,
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(help="Default: that of the papers, or 32.", rich_help_panel=_TRAINING),
]
LearningRate = Annotated[
    float | None,
    typer.Option(help="Default: that of the papers, or 0.5.", rich_help_panel=_TRAINING),
]
L2 = Annotated[
    float, typer.Option("--l2", help="Weight of (l2/2) ||w||^2.", rich_help_panel=_TRAINING)
]
Seeds = Annotated[int, typer.Option(help="How many, from 0 on.", rich_help_panel=_GRID)]
NeighbourCount = Annotated[
    int,
    typer.Option(
        "--neighbours",
        help="How many records are replaced by the first one, each making a dataset.",
        rich_help_panel=_GRID,
    ),
]
Init = Annotated[
    str,
    typer.Option(
        help="Initial weights: **vary** with the seed, **fixed** for all, or both.",
        rich_help_panel=_GRID,
    ),
]
Checkpoints = Annotated[
    int,
    typer.Option(help="Weights are kept so many times, evenly apart.", rich_help_panel=_GRID),
]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Scheduler of a Dask cluster that trains, such as tcp://10.0.0.1:8786.",
        rich_help_panel=_STUDY,
    ),
]
RetryFailed = Annotated[
    bool,
    typer.Option("--retry-failed", help="Train failed cells again.", rich_help_panel=_STUDY),
]
Repair = Annotated[
    bool,
    typer.Option(
        "--repair",
        help="Check every finished cell, and train damaged ones again.",
        rich_help_panel=_STUDY,
    ),
]


@app.callback(invoke_without_command=True)
def measure(
    context: typer.Context,
    data: OptionalData = None,
    out: Out = None,
    target: Target = None,
    columns: ColumnsFile = None,
    data_norm: DataNorm = None,
    data_dir: DataDir = None,
    model: ModelOption = Model.LOGISTIC,
    steps: Steps = None,
    until_converged: UntilConverged = False,
    batch_size: BatchSize = None,
    learning_rate: LearningRate = None,
    l2: L2 = 0.0,
    seeds: Seeds = 98,
    neighbours: NeighbourCount = 100,
    init: Init = "vary,fixed",
    checkpoints: Checkpoints = 10,
    dask: Dask = None,
    retry_failed: RetryFailed = False,
    repair: Repair = False,
) -> None:
    """Measure SGD's own noise: train every seed on every neighbouring dataset, into a study.

    Stopped or killed at any moment, the same command goes on where it was, and ends with the same
    bytes. What is estimated from a study is **no guarantee**. Exit code 1 if a cell failed; the
    rest is there.

    `sordino measure --data mnist-binary --out study`

    `sordino measure --data patients.csv --columns columns.toml --out study --seeds 50`
    """
    if context.invoked_subcommand is not None:
        if data is not None or out is not None:
            hint = f"Options of a training do not go with `{context.invoked_subcommand}`."
            _check.fail("--data" if data else "--out", data or out, "not to be given here", hint)
        return
    if data is None:
        not_given("--data NAME", "", "`sordino data list` shows the names; or pass your file.")
    if out is None:
        not_given("--out DIR", "", "Pass a directory for the study.")
    training = Training(model, steps, until_converged, batch_size, learning_rate, l2)
    source = Source(data, target, columns, None, data_norm, data_dir)
    starts = _starts(init)
    for name, value in (("seeds", seeds), ("neighbours", neighbours), ("checkpoints", checkpoints)):
        _check.whole(f"--{name}", value, at_least=1)
    material = training.read(source)
    spec, length = training.spec(material)
    say(
        f"{model.value} on {material.train.name}: {spec.steps:,} steps ({length}), batches of "
        f"{spec.batch_size}, learning rate {spec.schedule.rate:g}."
    )
    from sordino.intrinsic.measure import measure as intrinsic_measure
    from sordino.store.refusal import DamagedCell, StudyError

    watch = _Watch()
    try:
        with _cluster(dask) as client, watch.shown():
            study = intrinsic_measure(
                spec,
                material.train,
                seeds,
                neighbours,
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
    except KeyboardInterrupt:
        say(f"Stopped after {watch.cells}. The same command goes on from there.", err=True)
        raise typer.Exit(130) from None
    with kept(f"The study is in {study.directory}."):
        _say(study, watch)


def _starts(listed: str) -> list[str]:
    """Kinds of initial weights of a list with commas."""
    words = [word.strip() for word in listed.split(",")]
    for word in words:
        _check.one_of("--init", word, ("vary", "fixed"))
    if len(set(words)) < len(words):
        _check.fail("--init", listed, "to name each once")
    return words


@contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    """A client of the cluster, if there is to be one."""
    if address is None:
        yield None
        return
    from sordino.intrinsic import remote

    with remote.connect(address) as client:
        yield client


class _Watch:
    """Shows how far a study has come, if somebody is watching; remembers it in any case."""

    def __init__(self) -> None:
        self.last: StudyProgress | None = None
        self._show: Callable[[StudyProgress], None] | None = None

    def __call__(self, progress: StudyProgress) -> None:
        if self.last is None and progress.expected > _cost.LONG:
            about = _cost.duration(progress.expected)
            say(f"About {about} of training here; Ctrl-C stops it, and it can go on later.")
        self.last = progress
        if self._show is not None:
            self._show(progress)

    @property
    def cells(self) -> str:
        """Cells that are over, in words."""
        return "0 cells" if self.last is None else _cells(self.last)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Draw a bar on standard error, if that is a terminal."""
        console = errors()
        if not console.is_terminal:
            yield
            return
        from rich.progress import BarColumn
        from rich.progress import Progress as Bar

        with Bar(BarColumn(), words_of_bar(), console=console, transient=True) as bar:
            task = bar.add_task("", total=None)

            def show(progress: StudyProgress) -> None:
                speed = f", {progress.runs_per_second:,.2g} runs/s" if progress.runs_now else ""
                words = f"{_cells(progress)}{speed}{_left(progress)}"
                bar.update(
                    task,
                    total=progress.runs_total,
                    completed=progress.runs_done + progress.under_way,
                    description=words,
                )

            self._show = show
            yield


def _cells(progress: StudyProgress) -> str:
    return f"{progress.cells_done:,} of {progress.cells_total:,} cells"


def _left(progress: StudyProgress) -> str:
    left = progress.seconds_left
    return "" if math.isnan(left) else f", {_cost.duration(left)} left"


def _say(study: Study, watch: _Watch) -> None:
    """Where the study is, what it took, and what failed."""
    layout, last = study.layout, watch.last
    assert last is not None
    many = len(layout.neighbours) - 1
    say(
        f"{last.runs_total:,} runs: {len(layout.seeds)} seeds x {many + 1} datasets ({many} "
        f"neighbours, and the data itself) x {len(layout.inits)} ({', '.join(layout.inits)})."
    )
    if last.runs_now:
        speed = f"{last.runs_per_second:,.0f} runs/s"
        say(f"{last.runs_now:,} of them now, in {last.seconds:.1f} seconds ({speed}).")
    else:
        say("All of them were there already.")
    say(f"Study: {study.directory}")
    say("INTERNAL: its weights are not protected; do not publish or share it.")
    shown = f"sordino measure show {study.directory}"
    say(f"What it says, in estimates that are no guarantee: {shown}")
    failures = study.failures()
    if not failures:
        return
    say(f"{len(failures)} of {last.cells_total:,} cells FAILED; the rest is whole.", err=True)
    for cell, reason in list(failures.items())[:_SHOWN]:
        say(f"  {layout.name(cell)}: {reason}", err=True)
    if len(failures) > _SHOWN:
        say(f"  and {len(failures) - _SHOWN} more", err=True)
    raise typer.Exit(1)
