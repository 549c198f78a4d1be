"""`sordino audit`: attack a mechanism, and say what its epsilon is at least."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.assessment.source import Source, not_given
from sordino.cli import audit_gallery, audit_power, audit_worst_case
from sordino.cli import audit_words as words
from sordino.cli.audit_attacked import Attacked, Game, Neighbour
from sordino.cli.audit_default import RUN, AuditGroup
from sordino.cli.data import DataDir
from sordino.cli.findings import print_json
from sordino.cli.promise import ModelName
from sordino.cli.promise_options import PROMISE, PublicRows, RelationOption
from sordino.cli.record_options import RECORDS, Classes, OptionalData, Target
from sordino.cli.terminal import errors, say, short_warnings
from sordino.privacy import Refused

if TYPE_CHECKING:
    from sordino.audit.game import Audit

_WHAT, _ATTACK, _OUT = "What is attacked", "The attack", "Output"

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
app.command("power")(audit_power.power)
app.command("worst-case")(audit_worst_case.worst_case)
app.command("gallery")(audit_gallery.gallery)

Mechanism = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODULE:NAME]",
        help="Your own: a function (data, generator) -> numbers, or a scikit-learn estimator, as "
        "package.module:name or file.py:name. Else a method of sordino's is attacked.",
    ),
]
Pair = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:NAME",
        help="Instead of --data: a function that returns the two datasets, each (X, y), or "
        "whatever your mechanism takes.",
        rich_help_panel=RECORDS,
    ),
]
NeighbourOption = Annotated[
    Neighbour,
    typer.Option(
        "--neighbour",
        help="The record that differs: a crafted **canary** (extreme within the norm, "
        "mislabelled), or a synthetic **worst-case** pair of the data's shape.",
        rich_help_panel=RECORDS,
    ),
]
StudyOption = Annotated[
    str | None,
    typer.Option(
        "--study",
        metavar="DIR",
        help="Instead: the worst pair of a study that `sordino measure` made of the same data. Its "
        "seeds chose the pair; the audit draws others.",
        rich_help_panel=RECORDS,
    ),
]
ColumnsFile = Annotated[
    str | None,
    typer.Option(metavar="FILE.toml", help="A file's columns.", rich_help_panel=RECORDS),
]
DataNorm = Annotated[
    float | None,
    typer.Option(
        help="Bound on a row's norm, the intercept's 1 included. Default: 1 for a file.",
        rich_help_panel=RECORDS,
    ),
]
Rows = Annotated[
    int | None,
    typer.Option(help="Use the first so many records only: faster.", rich_help_panel=RECORDS),
]
Model = Annotated[ModelName, typer.Option(help="What is trained.", rich_help_panel=_WHAT)]
Method = Annotated[
    str, typer.Option(help="How; docs/release.md has the list.", rich_help_panel=_WHAT)
]
L2 = Annotated[float, typer.Option("--l2", help="Weight of (l2/2) ||w||^2.", rich_help_panel=_WHAT)]
Epsilon = Annotated[
    float | None,
    typer.Option(
        help="The claimed epsilon. A method of sordino's is calibrated to it; of your own "
        "mechanism nothing is claimed without it.",
        rich_help_panel=PROMISE,
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(
        help="Default: 1 / rows^2, rounded down; 1e-5 for a mechanism of your own.",
        rich_help_panel=PROMISE,
    ),
]
Runs = Annotated[
    int,
    typer.Option(
        help="Runs on each of the two datasets; half of them learn the attack, half test it.",
        rich_help_panel=_ATTACK,
    ),
]
Confidence = Annotated[float, typer.Option(help="Of the lower bound.", rich_help_panel=_ATTACK)]
Score = Annotated[
    str,
    typer.Option(
        metavar="learned|likelihood|loss|MODULE:NAME",
        help="How a run is judged: by a direction **learned** from the first half; by the "
        "**likelihood** ratio, where the law of the output is known; by the **loss** of the "
        "record; or by your function (outputs[run, number]) -> scores[run], high for the second "
        "dataset.",
        rich_help_panel=_ATTACK,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        help="Of the experiment; your estimator draws its own noise.", rich_help_panel=_ATTACK
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(help="Processes for your own mechanism. Default: cores.", rich_help_panel=_ATTACK),
]
OutputsFile = Annotated[
    str | None,
    typer.Option(
        "--outputs",
        metavar="FILE",
        help="Keep the outputs of finished runs here: stopped at any moment, the same command goes "
        "on. INTERNAL.",
        rich_help_panel=_OUT,
    ),
]
Plot = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Draw the errors of the attack on logarithmic axes, and the claimed curve.",
        rich_help_panel=_OUT,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=_OUT)]


@app.command(RUN)
def run(
    mechanism: Mechanism = None,
    data: OptionalData = None,
    pair: Pair = None,
    neighbour: NeighbourOption = Neighbour.CANARY,
    study: StudyOption = None,
    target: Target = None,
    columns: ColumnsFile = None,
    classes: Classes = None,
    data_norm: DataNorm = None,
    data_dir: DataDir = None,
    rows: Rows = None,
    model: Model = ModelName.LOGISTIC,
    method: Method = "auto",
    l2: L2 = 0.001,
    epsilon: Epsilon = None,
    delta: Delta = None,
    relation: RelationOption = "replace-one",
    public_rows: PublicRows = None,
    runs: Runs = 10_000,
    confidence: Confidence = 0.99,
    score: Score = "learned",
    seed: Seed = 0,
    workers: Workers = None,
    outputs: OutputsFile = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Attack one mechanism (the word `run` may be left out).

    `sordino audit --data breast-cancer --method rsgd-ar --epsilon 1 --runs 20000`

    `sordino audit mine.py:train --pair mine.py:pair --epsilon 1 --delta 1e-5 --plot roc.png`
    """
    if plot is not None:
        from sordino.report import figures

        figures.check_path(plot)
    attacked = Attacked(
        mechanism=mechanism,
        source=_source(data, target, columns, classes, data_norm, data_dir),
        pair=pair,
        study=study,
        neighbour=neighbour,
        rows=rows,
        model=model,
        method=method,
        l2=l2,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        public_rows=public_rows,
    )
    how = {"confidence": confidence, "seed": seed, "workers": workers, "file": outputs}
    with _stops(outputs):
        found = attacked.read(score)
        if not json:
            say(found.said, hang=True)
            words.say_claim(found.claim)
            words.say_ceiling(runs, found.delta, confidence)
        result = _play(found, runs, how)
    show(result, as_json=json)
    if plot is not None:
        draw(result, plot, found.title)
        say(f"Figure: {plot}", err=json)
    if result.violated or result.curve_refuted:
        raise typer.Exit(1)


def _source(data: str | None, *records: Any) -> Source | None:
    """Where records come from; options about them mean nothing without --data."""
    if data is not None:
        return Source(data, *records)
    if any(each is not None for each in records[:-1]):  # a directory of raw files does no harm
        hint = "--target, --columns, --classes and --data-norm are about it."
        not_given("--data NAME|FILE", "with these options", hint)
    return None


@contextmanager
def _stops(outputs: str | None) -> Iterator[None]:
    """Whatever keeps an audit from being made: exit code 2, since 1 is for a refuted claim."""
    from sordino.data import DataError

    try:
        with short_warnings(errors()):
            yield
    except (Refused, DataError) as error:
        say(str(error), err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        kept = f" Finished runs are in {outputs}; the same command goes on." if outputs else ""
        say(f"Stopped.{kept}", err=True)
        raise typer.Exit(130) from None


def _play(found: Game, runs: int, how: dict[str, Any]) -> Audit:
    from sordino.audit.game import audit

    game = {"score": found.score, "claim": found.claim, "delta": found.delta, **how}
    with words.bar("runs") as progress:
        return audit(found.mechanism, found.D, found.D_prime, runs, progress=progress, **game)


def show(result: Audit, *, as_json: bool) -> None:
    """The table and the verdict, or JSON."""
    if as_json:
        print_json(document(result))
        return
    words.print_bounds(result.observed, result.others)
    say(f"Attack: {result.score}.", f"Verdict: {result.verdict}.", hang=True)


def document(result: Audit) -> dict[str, Any]:
    """An audit as plain values."""
    return {
        "claimed": words.claimed(result.claimed),
        "observed": words.observed(result.observed),
        "verdict": result.verdict,
        "violated": result.violated,
        "reach": result.reach,
        "gaussian_reach": result.gaussian_reach,
        "curve_refuted": result.curve_refuted,
        "score": result.score,
        "others": [words.observed(each) for each in result.others],
    }


def draw(result: Audit, path: str, title: str) -> None:
    """The errors of the attack, and what the claim allows."""
    from sordino.report import audit as picture

    claim, profile, text = result.claimed, None, ""
    if claim is not None:
        profile = claim.allowed
        text = f"epsilon {claim.epsilon:.4g} at delta {claim.delta:.2g}"
    roc = picture.Roc(result.negative, result.positive, result.tested_point, profile, text, title)
    picture.plot(roc, path)
