"""Attack a mechanism: a lower bound on its epsilon that holds with stated confidence.

The mechanism is run thousands of times on two datasets that differ in one record; an attack learned
on one half of the runs guesses, in the other half, which dataset it was. If it guesses better than
the claimed epsilon allows, the claim is false.

`sordino audit --data breast-cancer --method rsgd-ar --epsilon 1 --runs 20000` attacks a method of
sordino's own;

`sordino audit mine.py:train --data breast-cancer --epsilon 1` a function (data, generator) ->
output or a scikit-learn estimator of yours. `sordino audit run --help` lists the options of both.

Exit code 1 if the claim is refuted, 2 for whatever keeps an audit from being made.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from sordino import _cost, _files, checks, tasks
from sordino.cli import options, terminal
from sordino.cli.options import ATTACK, OUTPUT, PROMISE, RECORDS, TRAINING, from_fields, option
from sordino.cli.tables import pick, print_bounds
from sordino.cli.terminal import print_json, say
from sordino.errors import InvalidArgument
from sordino.privacy import USUAL_DELTA, Observation, Relation, rounded

if TYPE_CHECKING:
    from sordino.audit.gallery.entry import Played
    from sordino.audit.game import Audit
    from sordino.audit.pairs import Claim
    from sordino.audit.target import Target
    from sordino.audit.worst_case import WorstCaseAudit
    from sordino.data import Dataset
    from sordino.data.source import Source

_SCORES = ("learned", "likelihood", "loss")
_CONFIDENCE = 0.99
"""With which the gallery's broken mechanisms must be caught."""
_FORM = "Pass package.module:name or file.py:name."
_MECHANISM = options.argument("[MODULE:NAME]", "Your function or estimator; also file.py:NAME.")
_OUTPUTS = option(OUTPUT, "Keep runs here, to resume. INTERNAL.", metavar="FILE")
_JUDGES = "|".join((*_SCORES, "MODULE:NAME"))


class _AuditGroup(TyperGroup):
    """What is no subcommand is an argument or an option of `run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `run` first where the first word is neither a subcommand nor --help."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_AuditGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help=__doc__,
)


class _Neighbour(StrEnum):
    """How the second dataset is made."""

    CANARY = "canary"
    WORST_CASE = "worst-case"


@dataclass(frozen=True, kw_only=True)
class _Attacked(options.RecordOptions):
    """What is attacked and on which pair of datasets; checked before any record is read."""

    mechanism: Annotated[str | None, _MECHANISM] = None
    pair: Annotated[str | None, option(RECORDS, "Makes both data.", metavar="MODULE:NAME")] = None
    neighbour: Annotated[_Neighbour, option(RECORDS, "The second dataset.")] = _Neighbour.CANARY
    study: Annotated[str | None, option(RECORDS, "A study's worst pair.", metavar="DIR")] = None
    rows: Annotated[int | None, option(RECORDS, "Only the first so many: faster.")] = None
    model: Annotated[options.ModelName, options.MODEL] = options.ModelName.LOGISTIC
    method: Annotated[str, options.METHOD] = "auto"
    l2: Annotated[float, options.L2] = 0.001
    epsilon: Annotated[float | None, option(PROMISE, "The claimed one.")] = None
    delta: options.Delta = None
    relation: Annotated[str, options.RELATION] = Relation.REPLACE_ONE.value
    public_rows: options.PublicRows = None

    def __post_init__(self) -> None:
        source = self.source()
        if self.mechanism is not None and ":" not in self.mechanism:
            commands = ("power", "worst-case", "gallery", "run", "MODULE:NAME")
            checks.one_of("command", self.mechanism, commands)
        if self.rows is not None:
            checks.whole("--rows", self.rows, at_least=2)
        if source is None and self.pair is None:
            checks.fail_missing("--data NAME or --pair MODULE:NAME", "", options.LIST)
        if source is not None and self.pair is not None:
            checks.fail("--pair", self.pair, "to be left out where --data is given")
        object.__setattr__(self, "relation", options.relation(self.relation, "--relation").value)
        if self.study is not None and self.relation != "replace-one":
            checks.fail("--relation", self.relation, "to be replace-one with --study")
        if self.mechanism is None:
            if self.epsilon is None:
                checks.fail_missing("--epsilon E", "", "Or name a mechanism (MODULE:NAME).")
            if source is None:
                checks.fail("--pair", self.pair, "to go with a mechanism (MODULE:NAME)")
            self._promise()
            return
        # What would be ignored is refused.
        ignored: dict[str, Any] = {"method": "auto", "public_rows": None, "study": None}
        if self.pair is not None:
            ignored |= {"neighbour": _Neighbour.CANARY, "rows": None}
        for name, default in ignored.items():
            if (value := getattr(self, name)) != default:
                condition = "to be left out with a mechanism or pair of your own"
                checks.fail(f"--{name.replace('_', '-')}", value, condition)

    def _promise(self) -> options.Promise:
        same = ("model", "epsilon", "delta", "relation", "method", "l2", "public_rows")
        return options.Promise(**{name: getattr(self, name) for name in same})

    def make_target(self) -> Target:
        """Read the records, make the pair and load what is the user's own."""
        from sordino.audit import target

        source, relation = self.source(), Relation(self.relation)
        if self.mechanism is not None:
            return target.of_function(
                self.mechanism,
                load_named("MODULE:NAME", self.mechanism),
                None if self.pair is None else load_pair(self.pair),
                epsilon=self.epsilon,
                delta=self.delta,
                relation=relation,
                source=source,
                rows=self.rows,
                craft=self.neighbour.value,
            )
        assert source is not None
        promise = self._promise()
        promise.check_target(source)
        prepared = source.read(numbers=True)
        X, y = prepared.X, prepared.y
        X = X.iloc[: self.rows] if hasattr(X, "iloc") else X[: self.rows]
        prepared = replace(prepared, X=X, y=y[: self.rows])
        return target.of_estimator(
            f"{self.method} at epsilon {self.epsilon:g}, {self.model.value}, {self.data}",
            promise.estimator(prepared),
            prepared,
            relation=relation,
            craft=self.neighbour.value,
            given=None if self.study is None else self._worst(source),
        )

    def _worst(self, source: Source) -> tuple[Dataset, Dataset, str]:
        """The worst pair of a study, which its seeds chose and the audit's do not."""
        from sordino.audit import pairs
        from sordino.data import Dataset
        from sordino.intrinsic.grid import load
        from sordino.intrinsic.training import TrainedModel, Training

        assert self.study is not None
        training = Training(TrainedModel.LOGISTIC, None, False, None, None, 0.0)
        found = pairs.worst_of_grid(load(self.study), training.read(source).train)
        without = f"without records {found.records[0]} and {found.records[1]}"
        first, second = found.pair
        assert isinstance(second, Dataset)
        words = f"the worst of {self.study} ({without}; {len(found.seeds)} other seeds chose it)"
        return first, second, words


# What is the user's own ---------------------------------------------------------------------------


def load_named(option: str, text: str) -> Any:
    """The object that `package.module:name` or `file.py:name` names; loading it runs its code.

    Raises
    ------
    InvalidArgument
        If there is no such module or name, or loading it fails; the sentence says which.
    """
    place, colon, name = text.rpartition(":")
    if not (place and colon and name):
        checks.fail(option, text, "to be MODULE:NAME", _FORM)
    thing: Any = _load_module(option, text, place)
    for part in name.split("."):
        if not hasattr(thing, part):
            names = [each for each in vars(thing) if not each.startswith("_")]
            hint = f"It has: {', '.join(sorted(names)[:12])}." if names else ""
            checks.fail(option, text, f"to name something that {place} has", hint)
        thing = getattr(thing, part)
    return thing


def _load_module(option: str, text: str, place: str) -> ModuleType:
    directory = os.getcwd()
    try:
        if place.endswith(".py"):
            with _files.explained(option, place, "read", _FORM), _files.opened(place):
                pass  # Python would wait for a pipe
            path = os.path.abspath(place)
            # By its plain name and from its own directory, so that a process of a pool finds it.
            directory, place = os.path.dirname(path), os.path.basename(path).removesuffix(".py")
            loaded = sys.modules.get(place)
            if loaded is not None and getattr(loaded, "__file__", None) != path:
                checks.fail(option, path, "to have a name that no other module has")
        if directory not in sys.path:  # as `python -m` does; a process of a pool gets the same path
            sys.path.insert(0, directory)
        return importlib.import_module(place)
    except InvalidArgument:
        raise
    except ModuleNotFoundError as error:
        checks.fail(option, text, f"to name a module in {directory} ({error})", _FORM)
    except (Exception, SystemExit) as error:  # whatever the module does
        hint = f"Loading it raised {type(error).__name__}: {error}"
        checks.fail(option, text, "to name a module that loads", hint)


def load_pair(name: str) -> tuple[Any, Any]:
    """The two datasets that the user's function returns."""
    pair = load_named("--pair", name)
    try:
        pair = pair() if callable(pair) else pair
    except Exception as error:  # whatever the user's function does
        hint = f"Called without arguments it raised {type(error).__name__}: {error}"
        checks.fail("--pair", name, "to give two datasets", hint)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        checks.fail("--pair", name, "to give two datasets", "Return (D, D_prime).")
    return pair[0], pair[1]


def _load_score(text: str) -> Any:
    if text in _SCORES:
        return text
    if ":" not in text:
        checks.one_of("--score", text, (*_SCORES, "MODULE:NAME"))
    score = load_named("--score", text)
    if not callable(score):
        checks.fail("--score", text, "to name a function outputs[run, number] -> scores[run]")
    return score


# Commands -----------------------------------------------------------------------------------------


@app.command("run")
@from_fields
def run(
    attacked: _Attacked,
    runs: Annotated[int, option(ATTACK, "Of each dataset; half learn, half test.")] = 10_000,
    confidence: options.Confidence = 0.99,
    score: Annotated[str, option(ATTACK, "How a run is judged.", metavar=_JUDGES)] = "learned",
    seed: options.Seed = 0,
    workers: Annotated[int | None, option(ATTACK, "Processes. Default: cores.")] = None,
    dask: options.Dask = None,
    outputs: Annotated[str | None, _OUTPUTS] = None,
    plot: options.Plot = None,
    json: options.Json = False,
) -> None:
    """Attack one mechanism (the word `run` may be left out).

    The two datasets differ in a crafted **canary** (extreme within the norm, mislabelled), are a
    synthetic **worst-case** pair, the worst pair of a `--study` that `sordino measure` made of the
    same data, or what the function `--pair` returns: each (X, y), or whatever your mechanism takes.
    A run is judged by a direction **learned** from the first half; by the **likelihood** ratio,
    where the law of the output is known; by the **loss** of the record; or by your function
    outputs[run, number] -> scores[run], high for the second dataset.

    `--plot` draws the errors of the attack on logarithmic axes, and the claimed curve.

    `sordino audit --data breast-cancer --method rsgd-ar --epsilon 1 --runs 20000`

    `sordino audit mine.py:train --pair mine.py:pair --epsilon 1 --delta 1e-5 --plot roc.png`
    """
    from sordino.audit.game import audit, ceiling

    kept = f"Finished runs are in {outputs}; the same command resumes." if outputs else ""
    # Exit code 2 for whatever keeps an audit from being made: 1 is for a refuted claim.
    with (
        terminal.wrong_input(),
        terminal.resumable(lambda: kept),
        terminal.plain_warnings(terminal.errors()),
    ):
        judge = _load_score(score)
        target = attacked.make_target()
        how: dict[str, Any] = {"delta": target.delta, "confidence": confidence}
        if not json:
            tested = runs - runs // 2
            most = rounded(ceiling(tested, **how) if tested > 0 else 0.0, digits=3)
            attack = f"Attacking {target.name}; pair: {target.pair}."
            power = f"{runs:,} runs a dataset, half of them tested, can show at most epsilon {most}"
            power += " without a hypothesis."
            say(attack, _claim_words(target.claim), power, hang=True)
        with tasks.connect(dask) as client, terminal.bar("runs") as progress:
            how |= {"claim": target.claim, "score": judge, "seed": seed, "workers": workers}
            how |= {"client": client, "file": outputs, "progress": progress}
            result = audit(target.mechanism, target.D, target.D_prime, runs, **how)
    if json:
        more = pick(result, "reach", "gaussian_reach", "curve_refuted", "score")
        print_json(_document(result, result.others) | more)
    else:
        print_bounds(result.observed, result.others)
        say(f"Attack: {result.score}.", f"Verdict: {result.verdict}.", hang=True)
    if plot is not None:
        from sordino.audit.bounds import error_rates
        from sordino.report import canvas, figures

        claim = result.claimed
        figure = figures.attack_errors(
            error_rates(result.negative, result.positive),
            max(len(result.negative), len(result.positive)),
            tested=result.tested_point,
            claimed=claim.allowed.beta if claim else None,
            claim=f"epsilon {claim.epsilon:.4g} at delta {claim.delta:.2g}" if claim else "",
            title=target.name,
        )
        canvas.save(figure, plot, target.name)
        say(f"Figure: {plot}", err=json)
    if result.violated or result.curve_refuted:
        raise typer.Exit(1)


def _document(found: Audit | WorstCaseAudit, others: Sequence[Observation]) -> dict[str, Any]:
    return {
        "claimed": _plain_claim(found.claimed),
        "observed": asdict(found.observed),
        **pick(found, "verdict", "violated"),
        "others": [asdict(each) for each in others],
    }


def _plain_claim(claim: Claim | None) -> dict[str, Any] | None:
    if claim is None:
        return None
    numbers = pick(claim, "epsilon", "delta", "relation", "source")
    return {**numbers, "relation": claim.relation.value}


def _claim_words(claim: Claim | None) -> str:
    """What is to be refuted, in one line."""
    if claim is None:
        return "Claimed: nothing; the bound stands for itself."
    # The name of a theorem without its statement, which the JSON has.
    source = f", by {claim.source.split(': ')[0]}" if claim.source else ""
    promise = f"epsilon <= {rounded(claim.epsilon)} at delta = {claim.delta:.3g}"
    return f"Claimed: {promise}, {claim.relation.value}{source}."


@app.command()
def power(
    runs: Annotated[int, option(ATTACK, "Tested runs on each of the two datasets.")] = 10_000,
    confidence: options.Confidence = 0.99,
    delta: Annotated[float, option(ATTACK, "At which epsilon is meant.")] = USUAL_DELTA,
    epsilon: Annotated[float | None, option(ATTACK, "A claim to be refuted.")] = None,
    true_epsilon: Annotated[float | None, option(ATTACK, "What really leaks.")] = None,
    json: options.Json = False,
) -> None:
    """Say what so many runs could show: an attack that never errs, and the best attack on noise.

    The learned attack of `sordino audit` spends half of its runs on learning: ask here for half.

    `sordino audit power --runs 1000`

    `sordino audit power --epsilon 1 --true-epsilon 2` says how many runs refute a false claim of 1.
    """
    from sordino.audit import game as powers

    checks.whole("--runs", runs, at_least=1)
    if true_epsilon is not None and epsilon is None:
        checks.fail_missing("--epsilon E", "with --true-epsilon", "Pass the claim that is false.")
    how = {"delta": delta, "confidence": confidence}
    ceiling = powers.ceiling(runs, **how)
    truths = (0.5, 1.0, 2.0, 4.0, 8.0)
    reaches = {truth: powers.reach(truth, runs=runs, **how) for truth in truths}
    # No Gaussian noise has delta = 0.
    noise = "Gaussian noise" if delta > 0 else "randomised response, the worst at delta = 0,"
    most = f"can show more than epsilon {rounded(ceiling, digits=3)}"
    verdict = f"without a hypothesis, no audit with {runs:,} tested runs a world {most}"
    claimed = None if epsilon is None else {"epsilon": epsilon, "delta": delta}
    document: dict[str, Any] = {"claimed": claimed, "runs": runs, **how, "ceiling": ceiling}
    document["reach"] = {f"{truth:g}": value for truth, value in reaches.items()}
    if epsilon is not None:
        truth = 2 * epsilon if true_epsilon is None else true_epsilon
        needed = powers.runs_needed(epsilon, truth, **how)
        document |= {"true_epsilon": truth, "runs_needed": needed}
        claim, leak = f"a claim of {epsilon:g}", f"where {noise} leaks {truth:g}"
        if needed is None:
            verdict += f"; no number of runs refutes {claim} where the truth is {truth:g}"
        else:
            verdict += f"; to refute {claim} {leak}, test about {needed:,} runs a world"
    if json:
        print_json({**document, "verdict": verdict})
        return
    say(f"{runs:,} tested runs a dataset, {confidence:.6g} confidence, delta = {delta:.3g}:")
    say(f"  an attack that never errs shows epsilon >= {rounded(ceiling, up=False, digits=3)}")
    for truth, value in reaches.items():
        shown = rounded(value, up=False, digits=3)
        say(f"  the best attack on {noise} of epsilon {truth:g} shows >= {shown}")
    say(f"Verdict: {verdict}.")


@app.command("worst-case")
def worst_case(
    sample_rate: Annotated[float, option(TRAINING, "Each record's chance to be in a batch.")],
    steps: Annotated[int, option(TRAINING, "Of DP-SGD.")],
    epsilon: Annotated[float | None, option(TRAINING, "Promised for all iterates.")] = None,
    noise_multiplier: Annotated[float | None, option(TRAINING, "Not --epsilon.")] = None,
    delta: Annotated[float, option(TRAINING, "Of the promise.")] = USUAL_DELTA,
    runs: Annotated[int, option(ATTACK, "With and without the record.")] = 50_000,
    confidence: options.Confidence = 0.99,
    seed: options.Seed = 0,
    plot: options.Plot = None,
    json: options.Json = False,
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
    with terminal.bar("runs") as progress:
        found = audit_worst_case(
            *(sample_rate, steps, epsilon),
            noise_multiplier=noise_multiplier,
            delta=delta,
            runs=runs,
            confidence=confidence,
            seed=seed,
            progress=progress,
        )
    others, noise = (found.within_family, found.all_iterates), found.setting.noise_multiplier
    if json:
        rests = {"verdict_rests_on": found.within_family.attack}
        numbers = {"noise_multiplier": noise, "linear_loss_epsilon": found.linear.epsilon}
        print_json(_document(found, others) | rests | numbers)
    else:
        made = f"DP-SGD, sample rate {sample_rate:g}, {steps:,} steps, noise {rounded(noise)}"
        say(f"{made}; twice {runs:,} runs.", _claim_words(found.claimed), hang=True)
        print_bounds(found.observed, others)
        say(f"Verdict: {found.verdict}.")
    if plot is not None:
        from sordino.report import canvas, figures

        title = f"q {sample_rate:g}, T {steps:,}, noise {noise:.4g}"
        curves = {way: found.curves(way) for way in ("presence", "absence")}
        figure = figures.error_curves([figures.WorstCaseSetting(title, curves)], log=True)
        canvas.save(figure, plot, title)
        say(f"Figure: {plot}", err=json)
    if found.violated:
        raise typer.Exit(1)


@app.command()
def gallery(
    names: Annotated[list[str] | None, options.argument("[NAME]...", "Default: all.")] = None,
    smoke: Annotated[bool, option(ATTACK, "Fewer runs: seconds, for CI.", "--smoke")] = False,
    seed: options.Seed = 0,
    list_only: Annotated[bool, option(OUTPUT, "Play nothing.", "--list")] = False,
    json: options.Json = False,
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

    known = {entry.name: entry for entry in room.ENTRIES}
    entries = [known[checks.one_of("NAME", name, tuple(known))] for name in names or known]
    if list_only:
        say(*(f"{entry.name}: {entry.fault} ({entry.source})" for entry in entries))
        return
    played = []
    for entry in terminal.track(entries, "mechanisms"):
        one = play(entry, confidence=_CONFIDENCE, twins=len(known), seed=seed, smoke=smoke)
        played.append(one)
        if not json:
            _say_played(one)
    many = len(played)
    caught, passed = sum(one.caught for one in played), sum(one.passed for one in played)
    sure = f"at {_CONFIDENCE:.0%} confidence"
    twins = f"{passed} of {many} correct twins pass"
    verdict = f"{caught} of {many} broken mechanisms caught {sure}, {twins}"
    if json:
        print_json({"verdict": verdict, "entries": [_plain_played(one) for one in played]})
    else:
        say(f"Verdict: {verdict}.")
    if caught < many or passed < many:
        raise typer.Exit(1)


def _say_played(one: Played) -> None:
    mark = "caught" if one.caught else "MISSED"
    twin = "passes" if one.passed else "ACCUSED"
    sign = ">=" if one.broken is not None else "exactly"
    broken, correct = (
        f"{sign} {rounded(each, up=False, digits=3)}"
        for each in (one.broken_epsilon, one.correct_epsilon)
    )
    found = f"{one.entry.name}: claimed epsilon {one.case.claim.epsilon:g}, found {broken}: {mark}"
    say(f"{found}; twin {correct}: {twin} ({one.seconds:.0f} s)")
    say(f"  {one.entry.fault} ({one.entry.source})")


def _plain_played(one: Played) -> dict[str, Any]:
    def observed(audit: Audit | None, epsilon: float) -> dict[str, Any]:
        if audit is not None:
            return asdict(audit.observed)
        # A formula settled it: there were no trials, and there is no doubt.
        exact = {"epsilon": epsilon, "delta": one.case.claim.delta, "confidence": 1.0}
        return {**exact, "attack": "computed exactly, not attacked", "trials": 0}

    return {
        **pick(one.entry, "name", "fault"),
        "claimed": _plain_claim(one.case.claim),
        "observed": observed(one.broken, one.broken_epsilon),
        "verdict": "caught" if one.caught else "missed",
        "twin": {
            "observed": observed(one.correct, one.correct_epsilon),
            "verdict": "passes" if one.passed else "accused",
        },
        "seconds": round(one.seconds, 2),
    }
