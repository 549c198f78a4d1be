"""`sordino calibrate`: the least noise for a budget, or the most steps, by every method."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from sordino import checks
from sordino.cli import tables
from sordino.cli.options import RUN, All, Json, Plot, Promised, RunOptions, from_fields, option
from sordino.cli.terminal import print_json, say, track
from sordino.privacy import default_delta

if TYPE_CHECKING:
    from sordino.accounting.risk import RiskTarget
    from sordino.proofs.steps import Run
    from sordino.proofs.theorems import Finding

_MOST_STEPS = 10**7
"""Where the search for steps or epochs stops."""


class _Unknown(StrEnum):
    """What is to be found."""

    NOISE = "noise"
    STEPS = "steps"
    EPOCHS = "epochs"
    BATCH_SIZE = "batch-size"


_DELTA = "Well below 1 / records. A risk needs none; its epsilon is told at 1 / n^2, or 1e-5."


@dataclass(frozen=True, kw_only=True)
class _SoughtOptions(RunOptions):
    """The same, where delta may be left out: a risk follows from the whole curve."""

    delta: Annotated[float, option(RUN, _DELTA, show_default=False)] = math.nan

    def __post_init__(self) -> None:
        vars(self)["names_delta"] = not math.isnan(self.delta)
        if not self.names_delta:
            vars(self)["delta"] = default_delta(self.n)
        super().__post_init__()

    @property
    def names_delta(self) -> bool:
        """Whether it was given."""
        return bool(vars(self)["names_delta"])


@from_fields
def calibrate(
    given: _SoughtOptions,
    promise: Promised,
    find: Annotated[_Unknown, option(RUN, "The least noise; the most of others.")] = _Unknown.NOISE,
    noise_multiplier: Annotated[float | None, option(RUN, "Where it is not sought.")] = None,
    plot: Plot = None,
    everything: All = False,
    json: Json = False,
) -> None:
    """Find the least noise that proves a budget or bounds a risk, by every method side by side.

    `sordino account --help` explains the ways of sampling and the relations.

    What is found, accounted again with `sordino account`, is never above the budget. The most steps
    or records are proved for that many; fewer usually leak less, but check them with `account`.

    `sordino calibrate --epsilon 1 --delta 1e-5 --sample-rate 0.01 --steps 1000 --sampling poisson`

    `sordino calibrate --epsilon 2 --delta 1e-6 --batch-size 256 --n 60000 --sampling poisson
    --noise-multiplier 1.1 --find epochs`

    `sordino calibrate --detection 0.02@0.01 --sample-rate 0.01 --steps 1000 --sampling poisson`
    """
    target, inputs = promise.promised, promise.given
    if promise.epsilon is not None and not given.names_delta:
        checks.fail("delta", None, "to be given with epsilon", "Well below 1 / records, as 1e-6.")
    ratio, counts = None, []
    if given.phases and (plot is not None or find is not _Unknown.NOISE):
        name, value = ("find", find.value) if plot is None else ("plot", plot)
        hint = "One factor on the noise of all phases is found."
        checks.fail(name, value, "not to be given with a schedule", hint)
    if find is _Unknown.NOISE:
        if noise_multiplier is not None:
            checks.fail("noise_multiplier", noise_multiplier, "only with another --find")
        counts = tables.plot_counts(given, plot, places=9)
        findings, best = _least_noise(given, target, given.run(1.0))
        ratio, key, name = _strong_over_naive(findings), "noise_multiplier", "noise multiplier"
        if given.phases:
            key, name = "noise_factor", "factor on all noises"
    else:
        if plot is not None:
            checks.fail("plot", plot, "to go with --find noise")
        inputs["noise_multiplier"] = noise_multiplier
        findings, best = _most(given, target, noise_multiplier, find)
        key, name = find.value.replace("-", "_"), find.value
    if json:
        document = tables.plain_findings(given, inputs, key, findings, best)
        print_json(document | ({"strong_over_naive": ratio} if find is _Unknown.NOISE else {}))
    else:
        result = "No method meets it here."
        if best is not None:
            found = f"Enough: {name} >=" if find is _Unknown.NOISE else f"The most: {name} ="
            result = f"{found} {tables.number(best.value)} ({best.title})."
            if promise.epsilon is None and best.profile is not None:
                proved = tables.number(best.profile.epsilon(given.delta))
                result += f" That is epsilon <= {proved} at delta {given.delta:g}."
        budget = f"Budget: {_in_words(target, given)}"
        say(f"{budget}, {given.sampling} batches, {given.ends}", hang=True)
        known = given
        if find is _Unknown.BATCH_SIZE:  # what epochs imply follows from what was found
            sought = replace(given, steps=given.steps or 1, epochs=None)
            known = sought if best is None else replace(given, batch_size=int(best.value or 1))
        tables.print_findings(known, result, findings, name, best, everything=everything)
        if everything and ratio is not None:
            rate = f"1/sqrt(steps) is {given.total_steps**-0.5:.3g}"
            say("", f"Strong over naive composition: {ratio:.3g} of the noise; {rate}.", hang=True)
    if plot is not None:
        _plot(given, target, counts, plot, everything)
        say(*[""] * (not json), f"Figure: {plot}", err=json)


def _in_words(target: float | RiskTarget, given: RunOptions) -> str:
    if isinstance(target, int | float):
        return f"epsilon {target:g} at delta {given.delta:g}"
    return target.words


def _least_noise(
    given: RunOptions, target: float | RiskTarget, run: Run
) -> tuple[list[Finding], Finding | None]:
    """Noise by every method, in clipping norms; and the least."""
    from sordino.proofs import theorems

    # Where the loss bounds gradients below the clip, noise of 1 clip counts as more than 1. The
    # quotient is so much larger that no rounding on the way back takes it above the budget.
    worth = run.steps.noise_multiplier
    findings = [
        each
        if each.value is None or each.kind == "as printed" or worth == 1
        else replace(each, value=each.value / worth * (1 + 1e-12))
        for each in theorems.least_noise(run, target, given.delta)
    ]
    return findings, theorems.best(findings)


def _most(
    given: RunOptions, target: float | RiskTarget, noise: float | None, find: _Unknown
) -> tuple[list[Finding], Finding | None]:
    """The most steps, epochs or records a batch by every method, and the most of all."""
    from sordino.proofs import theorems

    if noise is None:
        checks.fail("noise_multiplier", None, f"to be given with --find {find.value}")
    checks.non_negative("noise_multiplier", noise)
    sought = ("batch_size", "sample_rate") if find is _Unknown.BATCH_SIZE else ("steps", "epochs")
    for name in sought:
        if (value := getattr(given, name)) is not None:
            checks.fail(name, value, "not to be given, but found")
    run_at: Callable[[int], Run]
    if find is _Unknown.BATCH_SIZE:
        if given.n is None:
            checks.fail("n", None, "to be given where batch-size is sought")
        run_at, most = lambda count: replace(given, batch_size=count).run(noise), given.n
    else:
        many = 1 if find is _Unknown.STEPS else given.batches
        run_at, most = lambda count: given.run(noise, count * many), max(1, _MOST_STEPS // many)
    findings = theorems.largest_count(run_at, target, given.delta, at_most=most)
    return findings, theorems.best(findings, largest=True)


def _strong_over_naive(findings: Sequence[Finding]) -> float | None:
    noises = {each.method: each.value for each in findings if each.applies}
    strong, naive = noises.get("strong"), noises.get("naive")
    return strong / naive if strong and naive else None


def _plot(
    given: RunOptions,
    target: float | RiskTarget,
    counts: list[int],
    path: str,
    everything: bool,
) -> None:
    """Noise of every method as epochs grow, and strong over naive as steps grow."""
    from sordino.report import figures

    series: dict[str, list[tuple[float, float]]] = {}
    ratios: list[tuple[float, float]] = []
    for count in track(counts, "Noise against epochs"):
        findings, _ = _least_noise(given, target, given.run(1.0, count))
        tables.add_points(findings, count / given.batches, series, everything)
        if (ratio := _strong_over_naive(findings)) is not None:
            ratios.append((count, ratio))
    told = _in_words(target, given).replace(" at delta", ", delta")
    title = f"noise for {told}, {given.sampling} batches"
    figures.noise_growth(series, ratios, path, title=title)
