"""`sordino account`: epsilon of a run of noisy SGD, by every method side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sordino import checks
from sordino.cli import findings as shown
from sordino.cli.options import Json, Plot, from_fields, option
from sordino.cli.run_options import RUN, RunOptions
from sordino.cli.terminal import errors, print_json, say
from sordino.privacy import PASSES

if TYPE_CHECKING:
    from sordino.proofs.theorems import Finding


@from_fields
def account(
    noise_multiplier: Annotated[
        float,
        option(RUN, "Standard deviation of the noise on the SUM of gradients, over the clip."),
    ],
    given: RunOptions,
    plot: Plot = None,
    everything: shown.All = False,
    json: Json = False,
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
    hint = "Pass the noise's standard deviation over the clip, such as 1.1."
    checks.non_negative("noise_multiplier", noise_multiplier, hint)
    counts = shown.counts(given, plot)
    from sordino.proofs import theorems

    found = theorems.account(given.run(noise_multiplier), given.delta)
    best = theorems.best(found)
    if json:
        asked = {"noise_multiplier": noise_multiplier}
        print_json(shown.answer(given, asked, "epsilon", found, best))
    else:
        _say(given, noise_multiplier, best)
        shown.show(found, "epsilon", best, everything=everything)
    if plot is not None:
        _plot(given, noise_multiplier, counts, plot, everything)
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


def _plot(
    given: RunOptions, noise_multiplier: float, counts: list[int], path: str, everything: bool
) -> None:
    """Epsilon of every method as steps grow to the run's number."""
    from rich.progress import track

    from sordino.proofs import theorems
    from sordino.report import figures

    if given.sampling in PASSES:  # between whole passes epsilon is a staircase
        batches = given.batches
        counts = sorted({max(1, count // batches) * batches for count in counts})
    series: dict[str, list[tuple[float, float]]] = {}
    for count in track(counts, "Epsilon against steps", console=errors(), transient=True):
        found = theorems.account(given.run(noise_multiplier, count), given.delta)
        shown.drawn(found, count, series, everything)
    title = (
        f"noise {noise_multiplier:g} x clip, {given.sampling} batches at rate {given.rate:.4g}, "
        f"{given.chosen_relation.value}"
    )
    figures.growth(
        series, path, across="steps", up=f"epsilon at delta = {given.delta:g}", title=title
    )
