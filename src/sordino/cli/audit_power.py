"""`sordino audit power`: what a number of runs could show, before they are run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sordino import _check
from sordino.cli.findings import print_json
from sordino.cli.terminal import say
from sordino.privacy import rounded

Runs = Annotated[int, typer.Option(help="Tested runs in each of the two worlds.")]
Confidence = Annotated[float, typer.Option(help="Of the lower bound.")]
Delta = Annotated[float, typer.Option(help="At which epsilon is meant.")]
Claimed = Annotated[
    float | None, typer.Option("--epsilon", help="A claimed epsilon that is to be refuted.")
]
Truth = Annotated[
    float | None,
    typer.Option("--true-epsilon", help="What the mechanism would really leak; with --epsilon."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_TRUTHS = (0.5, 1.0, 2.0, 4.0, 8.0)


def power(
    runs: Runs = 10_000,
    confidence: Confidence = 0.99,
    delta: Delta = 1e-5,
    epsilon: Claimed = None,
    true_epsilon: Truth = None,
    json: Json = False,
) -> None:
    """Say what so many runs could show: an attack that never errs, and the best attack on noise.

    The learned attack of `sordino audit` spends half of its runs on learning: ask here for half.

    `sordino audit power --runs 1000`

    `sordino audit power --epsilon 1 --true-epsilon 2` says how many runs refute a false claim of 1.
    """
    from sordino.audit import power as powers

    _check.whole("--runs", runs, at_least=1)
    if true_epsilon is not None and epsilon is None:
        hint = "Pass the claim that is false if the truth is --true-epsilon."
        _check.fail("--epsilon", None, "to be given with --true-epsilon", hint)
    how = {"delta": delta, "confidence": confidence}
    ceiling = powers.ceiling(runs, **how)
    reaches = {truth: powers.reach(truth, runs=runs, **how) for truth in _TRUTHS}
    verdict = (
        f"without a hypothesis, no audit with {runs:,} tested runs a world can show more than "
        f"epsilon {rounded(ceiling, digits=3)}"
    )
    document: dict[str, Any] = {
        "claimed": None if epsilon is None else {"epsilon": epsilon, "delta": delta},
        "runs": runs,
        "delta": delta,
        "confidence": confidence,
        "ceiling": ceiling,
        "reach": {f"{truth:g}": value for truth, value in reaches.items()},
    }
    needed = None
    if epsilon is not None:
        truth = 2 * epsilon if true_epsilon is None else true_epsilon
        needed = powers.runs_needed(epsilon, truth, **how)
        document["true_epsilon"], document["runs_needed"] = truth, needed
        verdict += f"; {_needed(epsilon, truth, needed, _noise(delta))}"
    document["verdict"] = verdict
    if json:
        print_json(document)
        return
    noise = _noise(delta)
    say(
        f"{runs:,} tested runs a world, {confidence:.6g} confidence, delta = {delta:.3g}:",
        f"  an attack that never errs shows epsilon >= {rounded(ceiling, up=False, digits=3)}",
    )
    for truth, value in reaches.items():
        shown = rounded(value, up=False, digits=3)
        say(f"  the best attack on {noise} of epsilon {truth:g} shows >= {shown}")
    say(f"Verdict: {verdict}.")


def _noise(delta: float) -> str:
    """The mechanism that is thought of: no Gaussian noise has delta = 0."""
    return "Gaussian noise" if delta > 0 else "randomised response, the worst at delta = 0,"


def _needed(claimed: float, truth: float, needed: int | None, noise: str) -> str:
    if needed is None:
        return f"no number of runs refutes a claim of {claimed:g} where the truth is {truth:g}"
    return (
        f"to refute a claim of {claimed:g} where {noise} leaks {truth:g}, test about "
        f"{needed:,} runs a world"
    )
