"""`sordino account`: epsilon of a run of noisy SGD, by every method side by side."""

from __future__ import annotations

import itertools
from typing import Annotated

from sordino import checks
from sordino.cli import tables
from sordino.cli.options import RUN, All, Json, Plot, RunOptions, from_fields, option
from sordino.cli.terminal import print_json, say, track
from sordino.privacy import PASSES

_NOISE = option(RUN, "Standard deviation on the SUM of clipped gradients, over the clip.")


@from_fields
def account(
    given: RunOptions,
    noise_multiplier: Annotated[float | None, _NOISE] = None,
    plot: Plot = None,
    everything: All = False,
    json: Json = False,
) -> None:
    """Say the epsilon that is proved for noisy SGD (DP-SGD), by every method.

    Batches are drawn by `--sampling`: **poisson**: every record by its own coin; **allocation**:
    every record in one random step of each epoch; **fixed-size**: a random subset; **full**: all
    records; **cyclic**: rows as they come, pass after pass; **permute-once**: one secret random
    order; **shuffle**: a new one each pass (the usual data loader). There is no default: numbers
    for one way are false for another. The relation is by default add-or-remove-one for poisson and
    allocation, zero-out (one record without effect: the same with a public number of records) for
    full, replace-one for the others.

    Each row names its theorem, its relation and what it covers; a method that does not apply says
    why. If only the **final** model is released, and the loss is convex and smooth, less leaks than
    all iterates together: tell `--loss`, `--learning-rate`, `--n`.

    `sordino account --noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --delta 1e-5
    --sampling poisson`

    `sordino account --noise-multiplier 40 --sampling full --n 10000 --steps 2000 --delta 1e-6
    --loss logistic --l2 0.01 --learning-rate 2 --plot epsilon.svg`

    Noise, rate or clip that change on a public schedule: `--schedule FILE.toml`, a `[[phases]]`
    table each, with noise_multiplier (or noise_std and max_grad_norm), sample_rate (or batch_size)
    and steps (or epochs).
    """
    if given.phases:
        if noise_multiplier is not None:
            hint = "Each phase says its own."
            checks.fail("noise_multiplier", noise_multiplier, "not beside a schedule", hint)
        factor = 1.0
    elif noise_multiplier is None:
        checks.fail_missing("--noise-multiplier Z", "", "Or phases with theirs: --schedule FILE.")
    else:
        factor = checks.non_negative("noise_multiplier", noise_multiplier)
    counts = tables.plot_counts(given, plot)
    from sordino.proofs import theorems

    findings = theorems.account(given.run(factor), given.delta)
    best = theorems.best(findings)
    noise = "" if given.phases else f"noise {factor:g} x clip, "
    if json:
        inputs = {"noise_multiplier": noise_multiplier}
        risk = None if best is None or best.profile is None else best.profile.risk().plain()
        document = tables.plain_findings(given, inputs, "epsilon", findings, best)
        print_json(document | {"risk": risk})
    else:
        result = "No method proves anything here."
        if best is not None:
            result = f"Proved: epsilon <= {tables.epsilon(best)} ({best.title})."
            if best.value == float("inf"):
                result = "Nothing is proved: epsilon is infinite."
        run = f"{given.total_steps:,} steps, {given.drawn}, {noise}delta {given.delta:g}"
        say(f"{run}, {given.ends}", hang=True)
        tables.print_findings(given, result, findings, "epsilon", best, everything=everything)
        tables.say_risk(best)
    if plot is None:
        return
    from sordino.report import figures

    if given.phases:
        ends = itertools.accumulate(phase.total_steps for phase, _ in given.phases)
        counts = sorted({*ends, *(counts if given.sampling not in PASSES else ())})
    elif given.sampling in PASSES:  # between whole passes epsilon is a staircase
        counts = sorted({max(1, each // given.batches) * given.batches for each in counts})
    series: dict[str, list[tuple[float, float]]] = {}
    for count in track(counts, "Epsilon against steps"):
        found = theorems.account(given.run(factor, count), given.delta)
        tables.add_points(found, count, series, everything)
    up = f"epsilon at delta = {given.delta:g}"
    title = f"{noise}{given.drawn}, {given.chosen_relation.value}"
    figures.growth(plot, title, (title, "steps", up, series))
    say(*[""] * (not json), f"Figure: {plot}", err=json)
