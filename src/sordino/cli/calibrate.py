"""`sordino calibrate`: the least noise for a budget, or the most steps, by every method."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from sordino import checks
from sordino.cli import findings as shown
from sordino.cli.options import Json, Plot, from_fields, option
from sordino.cli.run_options import RUN, RunOptions
from sordino.cli.terminal import errors, print_json, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sordino.proofs.steps import Run
    from sordino.proofs.theorems import Finding


MOST_STEPS = 10**7
"""Where the search for steps or epochs stops."""


class Unknown(StrEnum):
    """What is to be found."""

    NOISE = "noise"
    STEPS = "steps"
    EPOCHS = "epochs"
    BATCH_SIZE = "batch-size"


@from_fields
def calibrate(
    epsilon: Annotated[float, option(RUN, "The budget that is promised.")],
    given: RunOptions,
    find: Annotated[
        Unknown,
        option(
            RUN,
            "What to find: the least **noise**, or with --noise-multiplier given the most "
            "**steps**, **epochs** or records a batch (**batch-size**; needs --n). The budget is "
            "proved for that many; fewer usually leak less, but check them with `account`.",
        ),
    ] = Unknown.NOISE,
    noise_multiplier: Annotated[
        float | None, option(RUN, "The noise, where it is not sought.")
    ] = None,
    plot: Plot = None,
    everything: shown.All = False,
    json: Json = False,
) -> None:
    """Find the least noise that proves a budget, by every method side by side.

    What is found, accounted again with `sordino account`, is never above the budget.

    `sordino calibrate --epsilon 1 --delta 1e-5 --sample-rate 0.01 --steps 1000 --sampling poisson`

    `sordino calibrate --epsilon 2 --delta 1e-6 --batch-size 256 --n 60000 --sampling poisson
    --noise-multiplier 1.1 --find epochs`
    """
    if find is Unknown.NOISE:
        _for_noise(given, epsilon, noise_multiplier, plot, everything, json)
    else:
        _for_most(given, epsilon, noise_multiplier, find, plot, everything, json)


def _for_noise(
    given: RunOptions,
    epsilon: float,
    noise: float | None,
    plot: str | None,
    everything: bool,
    json: bool,
) -> None:
    if noise is not None:
        hint = "Leave --noise-multiplier away, or say --find steps."
        checks.fail("noise_multiplier", noise, "not to be given where noise is sought", hint)
    counts = shown.counts(given, plot, places=9)
    found, best = _noises(given, epsilon, given.run(1.0))
    ratio = _strong_over_naive(found)
    if json:
        answer = shown.answer(given, {"epsilon": epsilon}, "noise_multiplier", found, best)
        print_json({**answer, "strong_over_naive": ratio})
    else:
        enough = f"noise multiplier >= {shown.number(best.value)}" if best else ""
        _say(given, epsilon, enough, best)
        shown.show(found, "noise multiplier", best, everything=everything)
        if everything and ratio is not None:
            said = (
                f"Strong composition needs {ratio:.3g} times the noise of naive composition; the "
                f"notes' rate 1/sqrt(steps) is {given.total_steps**-0.5:.3g}, without its "
                "constants."
            )
            say("", said, hang=True)
    if plot is not None:
        _plot(given, epsilon, counts, plot, everything)
        what = "Noise against epochs, and strong over naive against steps"
        say(*[""] * (not json), f"{what}: {plot}", err=json)


def _noises(given: RunOptions, epsilon: float, run: Run) -> tuple[list[Finding], Finding | None]:
    """Noise by every method, in clipping norms; and the least."""
    from dataclasses import replace

    from sordino.proofs import theorems

    # Where the loss bounds gradients below the clip, noise of 1 clip counts as more than 1.
    worth = run.steps.noise_multiplier
    found = [
        finding
        if finding.value is None or finding.kind == "as printed"
        else replace(finding, value=_over(finding.value, worth))
        for finding in theorems.least_noise(run, epsilon, given.delta)
    ]
    return found, theorems.best(found)


def _over(noise: float, worth: float) -> float:
    """The quotient, so much more that no rounding on the way back takes it above the budget."""
    return noise if worth == 1 else noise / worth * (1 + 1e-12)


def _for_most(
    given: RunOptions,
    epsilon: float,
    noise: float | None,
    find: Unknown,
    plot: str | None,
    everything: bool,
    json: bool,
) -> None:
    from sordino.proofs import theorems

    if plot is not None:
        checks.fail("plot", plot, "to go with --find noise", "The figure is about noise.")
    if noise is None:
        hint = "Say how much noise there is, such as 1.1."
        checks.fail("noise_multiplier", None, f"to be given where --find {find.value} is", hint)
    checks.non_negative("noise_multiplier", noise)
    run_at, most = _runs(given, find, noise)
    found = theorems.largest_count(run_at, epsilon, given.delta, at_most=most)
    best = theorems.best(found, largest=True)
    value = find.value.replace("-", "_")
    if json:
        asked = {"epsilon": epsilon, "noise_multiplier": noise}
        print_json(shown.answer(given, asked, value, found, best))
        return
    _say(given, epsilon, f"{find.value} = {shown.number(best.value)}" if best else "", best)
    shown.show(found, find.value, best, everything=everything)


def _runs(given: RunOptions, find: Unknown, noise: float) -> tuple[Any, int]:
    """The run at a count of what is sought, and the largest count to try."""
    from dataclasses import replace

    if find is not Unknown.BATCH_SIZE:
        if given.steps is not None or given.epochs is not None:
            hint = "They are what is sought."
            checks.fail(find.value, given.steps or given.epochs, "not to be given", hint)
        a_count = 1 if find is Unknown.STEPS else given.batches
        return lambda count: given.run(noise, count * a_count), max(1, MOST_STEPS // a_count)
    if given.n is None:
        checks.fail("n", None, "to be given where batch-size is sought")
    if given.batch_size is not None or given.sample_rate is not None:
        name = "sample_rate" if given.batch_size is None else "batch_size"
        checks.fail(name, getattr(given, name), "not to be given", "It is what is sought.")
    return lambda count: replace(given, batch_size=count).run(noise), given.n


def _say(given: RunOptions, epsilon: float, result: str, best: Finding | None) -> None:
    said = (
        f"Budget: epsilon {epsilon:g} at delta {given.delta:g}, {given.chosen_relation.value}, "
        f"{given.sampling} batches; "
        f"released: {'only the final model' if given.release == 'final' else 'all iterates'}."
    )
    say(said, hang=True)
    if best is None:
        say("No method meets it here; the reasons are below.")
    else:
        say(f"Enough: {result} ({best.title}).")
    shown.say_assumptions(given)


def _strong_over_naive(found: Sequence[Finding]) -> float | None:
    noises = {finding.method: finding.value for finding in found if finding.applies}
    strong, naive = noises.get("strong"), noises.get("naive")
    return strong / naive if strong and naive else None


def _plot(
    given: RunOptions, epsilon: float, counts: list[int], path: str, everything: bool
) -> None:
    """Noise of every method as epochs grow, and strong over naive as steps grow."""
    from rich.progress import track

    from sordino.report import figures

    series: dict[str, list[tuple[float, float]]] = {}
    ratios: list[tuple[float, float]] = []
    for count in track(counts, "Noise against epochs", console=errors(), transient=True):
        found, _ = _noises(given, epsilon, given.run(1.0, count))
        shown.drawn(found, count / given.batches, series, everything)
        if (ratio := _strong_over_naive(found)) is not None:
            ratios.append((count, ratio))
    title = f"noise for epsilon {epsilon:g}, delta {given.delta:g}, {given.sampling} batches"
    figures.noise_growth(series, ratios, path, title=title)
