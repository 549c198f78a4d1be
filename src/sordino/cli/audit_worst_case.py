"""`sordino audit worst-case`: DP-SGD on the loss that hides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sordino.cli import audit_words as words
from sordino.cli.findings import print_json
from sordino.cli.terminal import say
from sordino.privacy import rounded

if TYPE_CHECKING:
    from sordino.audit.worst_case import WorstCaseAudit

_TRAINING, _ATTACK, _OUT = "The training", "The attack", "Output"

SampleRate = Annotated[
    float, typer.Option(help="Each record's chance to be in a batch.", rich_help_panel=_TRAINING)
]
Steps = Annotated[int, typer.Option(help="Of DP-SGD.", rich_help_panel=_TRAINING)]
Epsilon = Annotated[
    float | None,
    typer.Option(
        help="Promised for all iterates; the noise is calibrated to it.",
        rich_help_panel=_TRAINING,
    ),
]
NoiseMultiplier = Annotated[
    float | None,
    typer.Option(help="Instead of --epsilon: the noise.", rich_help_panel=_TRAINING),
]
Delta = Annotated[float, typer.Option(help="Of the promise.", rich_help_panel=_TRAINING)]
Runs = Annotated[int, typer.Option(help="With and without the record.", rich_help_panel=_ATTACK)]
Confidence = Annotated[float, typer.Option(help="Of each bound.", rich_help_panel=_ATTACK)]
Seed = Annotated[int, typer.Option(help="Of the experiment.", rich_help_panel=_ATTACK)]
Plot = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Draw the errors of the attack, all iterates' curve and a linear loss's.",
        rich_help_panel=_OUT,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=_OUT)]


def worst_case(
    sample_rate: SampleRate,
    steps: Steps,
    epsilon: Epsilon = None,
    noise_multiplier: NoiseMultiplier = None,
    delta: Delta = 1e-5,
    runs: Runs = 50_000,
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

    if plot is not None:
        from sordino.report import figures

        figures.check_path(plot)
    words.say_time(check_cost(steps, runs))
    with words.bar("runs") as progress:
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
                "claimed": words.claimed(found.claimed),
                "observed": words.observed(found.observed),
                "verdict": found.verdict,
                "violated": found.violated,
                "verdict_rests_on": found.within_family.attack,
                "noise_multiplier": found.setting.noise_multiplier,
                "others": [words.observed(each) for each in others],
                "linear_loss_epsilon": found.linear.epsilon,
            }
        )
    else:
        noise = rounded(found.setting.noise_multiplier)
        say(
            f"DP-SGD, sample rate {sample_rate:g}, {steps:,} steps, noise multiplier {noise}; "
            f"{runs:,} runs with the record and as many without."
        )
        words.say_claim(found.claimed)
        words.print_bounds(found.observed, others)
        say(f"Verdict: {found.verdict}.")
    if plot is not None:
        _draw(found, plot)
        say(f"Figure: {plot}", err=json)
    if found.violated:
        raise typer.Exit(1)


def _draw(found: WorstCaseAudit, path: str) -> None:
    from sordino.report import canvas, worst_case

    how = found.setting
    title = f"q {how.sample_rate:g}, T {how.steps:,}, noise {how.noise_multiplier:.4g}"
    curves = {"presence": found.curves("presence"), "absence": found.curves("absence")}
    figure = worst_case.error_curves([worst_case.Setting(title, curves)], log=True)
    canvas.save(figure, path, title)
