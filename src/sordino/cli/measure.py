"""`sordino measure`: train a grid of seeds and neighbouring datasets into a study."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from sordino import _cost, checks, tasks
from sordino.cli.options import (
    L2_HELP,
    RECORDS,
    TRAINING,
    ColumnsFile,
    DataDir,
    OptionalData,
    Target,
    flag,
    option,
)
from sordino.cli.terminal import bar, kept, resumable, say
from sordino.data.source import Source
from sordino.intrinsic.training import TrainedModel, Training

if TYPE_CHECKING:
    from sordino.intrinsic.measure import StudyProgress
    from sordino.study import Study

_GRID, _STUDY = "The grid", "The study"
_SHOWN = 5

app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def measure(
    context: typer.Context,
    data: OptionalData = None,
    out: Annotated[
        str | None,
        option(
            _STUDY,
            "Directory of the study: made, or resumed. INTERNAL, never to be published.",
            metavar="DIR",
        ),
    ] = None,
    target: Target = None,
    columns: ColumnsFile = None,
    data_norm: Annotated[
        float | None,
        option(
            RECORDS,
            "A file's rows longer than this are scaled down to it, a linear model's intercept's 1 "
            "included. Default: sqrt(2), rows alone within 1.",
        ),
    ] = None,
    data_dir: DataDir = None,
    model: Annotated[TrainedModel, option(TRAINING, "What is trained.")] = TrainedModel.LOGISTIC,
    steps: Annotated[
        int | None, option(TRAINING, "Default: those of the papers for the dataset.")
    ] = None,
    until_converged: Annotated[
        bool,
        flag(
            TRAINING,
            "--until-converged",
            "As many steps as the papers' rule says: until accuracy on validation rows, checked "
            "every 50 steps, has three times not improved. The default for a file, of which a "
            "tenth is held out for it.",
        ),
    ] = False,
    batch_size: Annotated[
        int | None, option(TRAINING, "Default: that of the papers, or 32.")
    ] = None,
    learning_rate: Annotated[
        float | None, option(TRAINING, "Default: that of the papers, or 0.5.")
    ] = None,
    l2: Annotated[float, option(TRAINING, L2_HELP, "--l2")] = 0.0,
    seeds: Annotated[int, option(_GRID, "How many, from 0 on.")] = 98,
    neighbours: Annotated[
        int,
        option(_GRID, "How many records are replaced by the first one, each making a dataset."),
    ] = 100,
    init: Annotated[
        str, option(_GRID, "Initial weights: **vary** with the seed, **fixed** for all, or both.")
    ] = "vary,fixed",
    checkpoints: Annotated[
        int, option(_GRID, "Weights are kept so many times, evenly apart.")
    ] = 10,
    dask: Annotated[
        str | None,
        option(
            _STUDY,
            "Scheduler of a Dask cluster that trains, such as tcp://10.0.0.1:8786.",
            metavar="ADDRESS",
        ),
    ] = None,
    retry_failed: Annotated[
        bool, flag(_STUDY, "--retry-failed", "Train failed cells again.")
    ] = False,
    repair: Annotated[
        bool,
        flag(_STUDY, "--repair", "Check every finished cell, and train damaged ones again."),
    ] = False,
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
            checks.fail("--data" if data else "--out", data or out, "not to be given here", hint)
        return
    if data is None:
        checks.fail_missing("--data NAME", "", "See `sordino data list`, or pass your file.")
    if out is None:
        checks.fail_missing("--out DIR", "", "Pass a directory for the study.")
    training = Training(model, steps, until_converged, batch_size, learning_rate, l2)
    source = Source(data, target, columns, None, data_norm, data_dir)
    starts = _starts(init)
    for name, value in (("seeds", seeds), ("neighbours", neighbours), ("checkpoints", checkpoints)):
        checks.whole(f"--{name}", value, at_least=1)
    training.check_same_norm(source, out)
    material = training.read(source)
    spec, length = training.spec(material)
    say(
        f"{model.value} on {material.train.name}: {spec.steps:,} steps ({length}), batches of "
        f"{spec.batch_size}, learning rate {spec.schedule.rate:g}."
    )
    from sordino.intrinsic.measure import measure as intrinsic_measure
    from sordino.study.refusal import DamagedCell, StudyError

    watch = _Watch()
    going_on = resumable(lambda: f"{watch.cells} are done. The same command goes on from there.")
    try:
        with going_on, tasks.connect(dask) as client, bar("") as watch.show:
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
    with kept(f"The study is in {study.directory}."):
        _say(study, watch)


def _starts(listed: str) -> list[str]:
    """Kinds of initial weights of a list with commas."""
    words = [word.strip() for word in listed.split(",")]
    for word in words:
        checks.one_of("--init", word, ("vary", "fixed"))
    if len(set(words)) < len(words):
        checks.fail("--init", listed, "to name each once")
    return words


class _Watch:
    """Shows how far a study has come, if somebody is watching; remembers it in any case."""

    def __init__(self) -> None:
        self.last: StudyProgress | None = None
        self.show: Callable[..., None] = lambda done, total, words: None

    def __call__(self, progress: StudyProgress) -> None:
        if self.last is None and progress.expected > _cost.LONG:
            about = _cost.duration(progress.expected)
            say(f"About {about} of training here; Ctrl-C stops it, and it can go on later.")
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
