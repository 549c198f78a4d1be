"""`sordino account`: epsilon of a run of noisy SGD, by every method side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sordino import _check
from sordino.cli import findings as shown
from sordino.cli import run_options as options
from sordino.cli.run_options import RunOptions
from sordino.cli.terminal import errors, say

if TYPE_CHECKING:
    from sordino.proofs.theorems import Finding

NoiseMultiplier = Annotated[
    float,
    typer.Option(
        help="Standard deviation of the noise on the SUM of gradients, over the clip.",
        rich_help_panel="The run",
    ),
]


def account(
    noise_multiplier: NoiseMultiplier,
    delta: options.Delta,
    sampling: options.Sampling,
    sample_rate: options.SampleRate = None,
    batch_size: options.BatchSize = None,
    n: options.Records = None,
    steps: options.Steps = None,
    epochs: options.Epochs = None,
    keep_last: options.KeepLast = False,
    relation: options.RelationOption = None,
    release: options.Release = options.ReleaseName.FINAL,
    loss: options.Loss = None,
    l2: options.L2 = 0.0,
    learning_rate: options.LearningRate = None,
    max_grad_norm: options.MaxGradNorm = 1.0,
    data_norm: options.DataNorm = 1.0,
    radius: options.Radius = None,
    plot: options.Plot = None,
    everything: options.All = False,
    json: options.Json = False,
) -> None:
    """Say the epsilon that is proved for noisy SGD (DP-SGD), by every method.

    Each row names its theorem, its relation and what it covers; a method that does not apply says
    why. If only the **final** model is released, and the loss is convex and smooth, less leaks than
    all iterates together: tell `--loss`, `--learning-rate`, `--n`.

    `sordino account --noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --delta 1e-5
    --sampling poisson`

    `sordino account --noise-multiplier 40 --sampling full --n 10000 --steps 2000 --delta 1e-6
    --loss logistic --l2 0.01 --learning-rate 2 --plot epsilon.svg`
    """
    given = RunOptions(
        *(sampling, delta, sample_rate, batch_size, n, steps, epochs),
        *(relation, release.value, loss.value if loss else None),
        l2=l2,
        learning_rate=learning_rate,
        max_grad_norm=max_grad_norm,
        data_norm=data_norm,
        radius=radius,
        keep_last=keep_last,
    )
    hint = "Pass the noise's standard deviation over the clip, such as 1.1."
    _check.non_negative("noise_multiplier", noise_multiplier, hint)
    shown.check_plot(plot, given)
    from sordino.proofs import theorems

    found = theorems.account(given.run(noise_multiplier), delta)
    best = theorems.best(found)
    if json:
        inputs = {"noise_multiplier": noise_multiplier, **given.inputs()}
        rows = shown.rows(found, "epsilon")
        best_name = best.method if best else None
        document = {"inputs": inputs, "rows": rows, "best": best_name, "assumes": given.assumes()}
        shown.print_json(document)
    else:
        _say(given, noise_multiplier, best)
        shown.print_table(found if everything else shown.without_notes(found), "epsilon", best)
    if plot is not None:
        _plot(given, noise_multiplier, plot, everything)
        say(*[""] * (not json), f"Epsilon against steps: {plot}", err=json)


def _say(given: RunOptions, noise_multiplier: float, best: Finding | None) -> None:
    said = (
        f"{given.total_steps:,} steps, {given.sampling} batches at rate {given.rate:.6g}, noise "
        f"{noise_multiplier:g} x clip, delta {given.delta:g}, {given.chosen_relation.value}; "
        f"released: {'only the final model' if given.release == 'final' else 'all iterates'}."
    )
    say(said, hang=True)
    if best is None:
        say("No method proves anything here; the reasons are below.")
    elif best.value == float("inf"):
        say("Nothing is proved: epsilon is infinite.")
    else:
        say(f"Proved: epsilon <= {shown.number(best.value)} ({best.title}).")
    shown.say_assumptions(given)


def _plot(given: RunOptions, noise_multiplier: float, path: str, everything: bool) -> None:
    """Epsilon of every method as steps grow to the run's number."""
    from rich.progress import track

    from sordino.proofs import theorems
    from sordino.report import figures

    counts = figures.counts(given.total_steps)
    if given.sampling in options.PASSES:  # between whole passes epsilon is a staircase
        batches = given.batches
        counts = sorted({max(1, count // batches) * batches for count in counts})
    series: dict[str, list[tuple[int, float]]] = {}
    for count in track(counts, "Epsilon against steps", console=errors(), transient=True):
        found = theorems.account(given.run(noise_multiplier, count), given.delta)
        for finding in found if everything else shown.without_notes(found):
            # Dwork et al.'s is the weaker strong composition, and off the scale of all others.
            if finding.value is not None and finding.method != "strong-dwork":
                dashed = "" if finding.applies else f" ({finding.kind}, no guarantee)"
                series.setdefault(finding.title + dashed, []).append((count, finding.value))
    title = (
        f"noise {noise_multiplier:g} x clip, {given.sampling} batches at rate {given.rate:.4g}, "
        f"{given.chosen_relation.value}"
    )
    figures.growth(
        series, path, across="steps", up=f"epsilon at delta = {given.delta:g}", title=title
    )
