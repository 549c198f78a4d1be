"""`sordino audit`: attack a mechanism, and say what its epsilon is at least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from sordino import _cost, checks
from sordino.cli.audit_attacked import SCORES, Attacked, Game
from sordino.cli.options import (
    ATTACK,
    OUTPUT,
    TRAINING,
    Confidence,
    Json,
    Plot,
    Seed,
    flag,
    from_fields,
    option,
)
from sordino.cli.terminal import (
    bar,
    errors,
    plain_warnings,
    print_json,
    print_table,
    resumable,
    say,
    screen,
    wrong_input,
)
from sordino.privacy import USUAL_DELTA, Observation, rounded

if TYPE_CHECKING:
    from sordino.audit.gallery.entry import GalleryEntry, Played
    from sordino.audit.game import Audit
    from sordino.audit.pairs import Claim
    from sordino.audit.worst_case import WorstCaseAudit

RUN = "run"
"""The command that is meant where none is named."""
CONFIDENCE = 0.99
"""With which the gallery's broken mechanisms must be caught."""
_TRUTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
_WIDE = 110
"""Columns below which headings of several words stand in as many lines."""


class AuditGroup(TyperGroup):
    """What is no subcommand is an argument or an option of `run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `run` first where the first word is neither a subcommand nor --help."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = [RUN, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=AuditGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help=(
        "Attack a mechanism: a lower bound on its epsilon that holds with stated confidence.\n\n"
        "The mechanism is run thousands of times on two datasets that differ in one record; an "
        "attack learned on one half of the runs guesses, in the other half, which dataset it was. "
        "If it guesses better than the claimed epsilon allows, the claim is false.\n\n"
        "`sordino audit --data breast-cancer --method rsgd-ar --epsilon 1 --runs 20000` attacks "
        "a method of sordino's own;\n\n"
        "`sordino audit mine.py:train --data breast-cancer --epsilon 1` a function "
        "(data, generator) -> output or a scikit-learn estimator of yours. "
        "`sordino audit run --help` lists the options of both.\n\n"
        "Exit code 1 if the claim is refuted, 2 for whatever keeps an audit from being made."
    ),
)


@app.command(RUN)
@from_fields
def run(
    attacked: Attacked,
    runs: Annotated[
        int,
        option(
            ATTACK,
            "Runs on each of the two datasets; half of them learn the attack, half test it.",
        ),
    ] = 10_000,
    confidence: Confidence = 0.99,
    score: Annotated[
        str,
        option(
            ATTACK,
            "How a run is judged: by a direction **learned** from the first half; by the "
            "**likelihood** ratio, where the law of the output is known; by the **loss** of the "
            "record; or by your function (outputs[run, number]) -> scores[run], high for the "
            "second dataset.",
            metavar=f"{'|'.join(SCORES)}|MODULE:NAME",
        ),
    ] = "learned",
    seed: Seed = 0,
    workers: Annotated[
        int | None, option(ATTACK, "Processes for your own mechanism. Default: cores.")
    ] = None,
    outputs: Annotated[
        str | None,
        option(
            OUTPUT,
            "Keep the outputs of finished runs here: stopped at any moment, the same command goes "
            "on. INTERNAL.",
            metavar="FILE",
        ),
    ] = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Attack one mechanism (the word `run` may be left out).

    `--plot` draws the errors of the attack on logarithmic axes, and the claimed curve.

    `sordino audit --data breast-cancer --method rsgd-ar --epsilon 1 --runs 20000`

    `sordino audit mine.py:train --pair mine.py:pair --epsilon 1 --delta 1e-5 --plot roc.png`
    """
    kept = f"Finished runs are in {outputs}; the same command goes on." if outputs else ""
    # Exit code 2 for whatever keeps an audit from being made: 1 is for a refuted claim.
    with wrong_input(), resumable(lambda: kept), plain_warnings(errors()):
        found = attacked.read(score)
        if not json:
            say(found.said, hang=True)
            _say_claim(found.claim)
            _say_ceiling(runs, found.delta, confidence)
        result = _play(found, runs, confidence=confidence, seed=seed, workers=workers, file=outputs)
    if json:
        print_json(_document(result))
    else:
        print_bounds(result.observed, result.others)
        say(f"Attack: {result.score}.", f"Verdict: {result.verdict}.", hang=True)
    if plot is not None:
        draw(result, plot, found.title)
        say(f"Figure: {plot}", err=json)
    if result.violated or result.curve_refuted:
        raise typer.Exit(1)


def _play(found: Game, runs: int, **how: Any) -> Audit:
    from sordino.audit.game import audit

    game = {"score": found.score, "claim": found.claim, "delta": found.delta, **how}
    with bar("runs") as progress:
        return audit(found.mechanism, found.D, found.D_prime, runs, progress=progress, **game)


def _document(result: Audit) -> dict[str, Any]:
    """An audit as plain values."""
    return {
        "claimed": _claimed(result.claimed),
        "observed": asdict(result.observed),
        "verdict": result.verdict,
        "violated": result.violated,
        "reach": result.reach,
        "gaussian_reach": result.gaussian_reach,
        "curve_refuted": result.curve_refuted,
        "score": result.score,
        "others": [asdict(each) for each in result.others],
    }


def draw(result: Audit, path: str, title: str) -> None:
    """The errors of the attack, and what the claim allows."""
    from sordino.report.drawing.roc import Roc, plot

    claim, profile, text = result.claimed, None, ""
    if claim is not None:
        profile = claim.allowed
        text = f"epsilon {claim.epsilon:.4g} at delta {claim.delta:.2g}"
    roc = Roc(result.negative, result.positive, result.tested_point, profile, text, title)
    plot(roc, path)


def _claimed(claim: Claim | None) -> dict[str, Any] | None:
    """A claim as plain values."""
    if claim is None:
        return None
    return {
        "epsilon": claim.epsilon,
        "delta": claim.delta,
        "relation": claim.relation.value,
        "source": claim.source,
    }


def print_bounds(found: Observation, others: Sequence[Observation]) -> None:
    """The bound that counts, marked, and the others below it."""
    console = screen()
    headings = ("observed epsilon", "delta", "confidence", "runs tested, both worlds")
    if console.width < _WIDE:
        headings = ("epsilon", "delta", "sure", "runs")
    bounds = (found, *others)
    rows = [
        (
            f"{'> ' if each is found else ''}>= {rounded(each.epsilon, up=False, digits=3)}",
            f"{each.delta:.3g}",
            f"{each.confidence:.6g}",
            f"{each.trials:,}",
            each.attack,
        )
        for each in bounds
    ]
    styles = ["bold" if each is found else "dim" if _assumes(each) else None for each in bounds]
    print_table(console, [*((name, "r") for name in headings), ("by", "W")], rows, styles)
    if any(_assumes(each) for each in others):
        say("Rows that say 'if' or 'within' hold under that hypothesis only.", hang=True)


def _assumes(found: Observation) -> bool:
    """Whether a bound holds under a hypothesis only."""
    return "if the mechanism is" in found.attack or "within the family" in found.attack


def _say_claim(claim: Claim | None) -> None:
    """What is to be refuted, in one line."""
    if claim is None:
        say("Claimed: nothing; the bound stands for itself.")
        return
    # The name of a theorem without its statement, which the JSON has.
    source = f", by {claim.source.split(': ')[0]}" if claim.source else ""
    say(
        f"Claimed: epsilon <= {rounded(claim.epsilon)} at delta = {claim.delta:.3g}, "
        f"{claim.relation.value}{source}.",
        hang=True,
    )


def _say_ceiling(runs: int, delta: float, confidence: float) -> None:
    """Before the runs are made: what the best attack could show by them, noise or not."""
    from sordino.audit.power import ceiling

    tested = runs - runs // 2
    most = ceiling(tested, delta=delta, confidence=confidence) if tested > 0 else 0.0
    say(
        f"{runs:,} runs a dataset, half of them tested, can show at most epsilon "
        f"{rounded(most, digits=3)} without a hypothesis, even of a mechanism without any noise.",
        hang=True,
    )


@app.command()
def power(
    runs: Annotated[int, option(ATTACK, "Tested runs in each of the two worlds.")] = 10_000,
    confidence: Confidence = 0.99,
    delta: Annotated[float, option(ATTACK, "At which epsilon is meant.")] = USUAL_DELTA,
    epsilon: Annotated[
        float | None, option(ATTACK, "A claimed epsilon that is to be refuted.")
    ] = None,
    true_epsilon: Annotated[
        float | None, option(ATTACK, "What the mechanism would really leak; with --epsilon.")
    ] = None,
    json: Json = False,
) -> None:
    """Say what so many runs could show: an attack that never errs, and the best attack on noise.

    The learned attack of `sordino audit` spends half of its runs on learning: ask here for half.

    `sordino audit power --runs 1000`

    `sordino audit power --epsilon 1 --true-epsilon 2` says how many runs refute a false claim of 1.
    """
    from sordino.audit import power as powers

    checks.whole("--runs", runs, at_least=1)
    if true_epsilon is not None and epsilon is None:
        hint = "Pass the claim that is false if the truth is --true-epsilon."
        checks.fail("--epsilon", None, "to be given with --true-epsilon", hint)
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


@app.command("worst-case")
def worst_case(
    sample_rate: Annotated[float, option(TRAINING, "Each record's chance to be in a batch.")],
    steps: Annotated[int, option(TRAINING, "Of DP-SGD.")],
    epsilon: Annotated[
        float | None,
        option(TRAINING, "Promised for all iterates; the noise is calibrated to it."),
    ] = None,
    noise_multiplier: Annotated[
        float | None, option(TRAINING, "Instead of --epsilon: the noise.")
    ] = None,
    delta: Annotated[float, option(TRAINING, "Of the promise.")] = USUAL_DELTA,
    runs: Annotated[int, option(ATTACK, "With and without the record.")] = 50_000,
    confidence: Confidence = 0.99,
    seed: Seed = 0,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Audit the final iterate of DP-SGD on a loss that writes all iterates into it.

    Annamalai 2024: without conditions on the loss, hiding the iterates hides nothing. The final
    number is read as that loss wrote it, and told apart with and without one record. Exit code 1
    if more than the promise is observed.

    `sordino audit worst-case --sample-rate 0.01 --steps 1024 --epsilon 4`
    """
    from sordino.audit.worst_case import audit_worst_case, check_cost

    seconds = check_cost(steps, runs)
    if seconds > _cost.LONG:
        say(f"About {_cost.duration(seconds)} here; Ctrl-C stops it.", err=True)
    with bar("runs") as progress:
        found = audit_worst_case(
            sample_rate,
            steps,
            epsilon,
            noise_multiplier=noise_multiplier,
            delta=delta,
            runs=runs,
            confidence=confidence,
            seed=seed,
            progress=progress,
        )
    others = (found.within_family, found.all_iterates)
    if json:
        print_json(
            {
                "claimed": _claimed(found.claimed),
                "observed": asdict(found.observed),
                "verdict": found.verdict,
                "violated": found.violated,
                "verdict_rests_on": found.within_family.attack,
                "noise_multiplier": found.setting.noise_multiplier,
                "others": [asdict(each) for each in others],
                "linear_loss_epsilon": found.linear.epsilon,
            }
        )
    else:
        noise = rounded(found.setting.noise_multiplier)
        say(
            f"DP-SGD, sample rate {sample_rate:g}, {steps:,} steps, noise multiplier {noise}; "
            f"{runs:,} runs with the record and as many without."
        )
        _say_claim(found.claimed)
        print_bounds(found.observed, others)
        say(f"Verdict: {found.verdict}.")
    if plot is not None:
        _draw_worst_case(found, plot)
        say(f"Figure: {plot}", err=json)
    if found.violated:
        raise typer.Exit(1)


def _draw_worst_case(found: WorstCaseAudit, path: str) -> None:
    from sordino.report import canvas, worst_case

    how = found.setting
    title = f"q {how.sample_rate:g}, T {how.steps:,}, noise {how.noise_multiplier:.4g}"
    curves = {"presence": found.curves("presence"), "absence": found.curves("absence")}
    figure = worst_case.error_curves([worst_case.WorstCaseSetting(title, curves)], log=True)
    canvas.save(figure, path, title)


@app.command()
def gallery(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Entries to play. Default: all.")
    ] = None,
    smoke: Annotated[bool, flag(ATTACK, "--smoke", "Fewer runs: seconds, for CI.")] = False,
    seed: Seed = 0,
    list_only: Annotated[
        bool, flag(OUTPUT, "--list", "Say what there is, and play nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Attack mechanisms that are known to be broken, and their correct twins.

    Each is sordino's own code with one thing changed: a fault that somebody shipped, or easily
    could. Each must be **caught** at 99% confidence; its twin, the code as it should be, must pass
    (a level of 1% is shared over all twins). Exit code 1 if one is missed or a twin is accused.

    `sordino audit gallery`

    `sordino audit gallery one-byte-seed --json`
    """
    from sordino.audit import gallery as room
    from sordino.audit.gallery.entry import play

    entries = _chosen(room.ENTRIES, names)
    if list_only:
        for entry in entries:
            say(f"{entry.name}: {entry.fault} ({entry.source})")
        return
    played = []
    with bar("mechanisms") as progress:
        for number, entry in enumerate(entries):
            progress(number, len(entries))
            one = play(
                entry, confidence=CONFIDENCE, twins=len(room.ENTRIES), seed=seed, smoke=smoke
            )
            played.append(one)
            if not json:
                _say_played(one)
        progress(len(entries), len(entries))
    caught, passed = sum(one.caught for one in played), sum(one.passed for one in played)
    many = len(played)
    verdict = (
        f"{caught} of {many} broken mechanisms caught at {CONFIDENCE:.0%} confidence, "
        f"{passed} of {many} correct twins pass"
    )
    if json:
        print_json({"verdict": verdict, "entries": [_plain(one) for one in played]})
    else:
        say(f"Verdict: {verdict}.")
    if caught < many or passed < many:
        raise typer.Exit(1)


def _chosen(entries: tuple[GalleryEntry, ...], names: list[str] | None) -> tuple[GalleryEntry, ...]:
    known = {entry.name: entry for entry in entries}
    for name in names or ():
        checks.one_of("NAME", name, tuple(known))
    return tuple(known[name] for name in names) if names else entries


def _say_played(one: Played) -> None:
    mark = "caught" if one.caught else "MISSED"
    twin = "passes" if one.passed else "ACCUSED"
    shown = [
        rounded(each, up=False, digits=3) for each in (one.broken_epsilon, one.correct_epsilon)
    ]
    sign = ">= " if one.broken is not None else "exactly "
    say(
        f"{one.entry.name}: claimed epsilon {one.case.claim.epsilon:g}, found {sign}{shown[0]}: "
        f"{mark}; twin {sign}{shown[1]}: {twin} ({one.seconds:.0f} s)"
    )
    say(f"  {one.entry.fault} ({one.entry.source})")


def _plain(one: Played) -> dict[str, Any]:
    return {
        "name": one.entry.name,
        "fault": one.entry.fault,
        "claimed": _claimed(one.case.claim),
        "observed": _observed(one, one.broken, one.broken_epsilon),
        "verdict": "caught" if one.caught else "missed",
        "twin": {
            "observed": _observed(one, one.correct, one.correct_epsilon),
            "verdict": "passes" if one.passed else "accused",
        },
        "seconds": round(one.seconds, 2),
    }


def _observed(one: Played, audit: Audit | None, epsilon: float) -> dict[str, Any]:
    """What was observed; where a formula settled it there were no trials, and no doubt."""
    if audit is not None:
        return asdict(audit.observed)
    return {
        "epsilon": epsilon,
        "delta": one.case.claim.delta,
        "confidence": 1.0,
        "attack": "computed exactly, not attacked",
        "trials": 0,
    }
