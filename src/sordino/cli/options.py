"""Options that several commands have: each is declared, explained and checked once."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from sordino import checks
from sordino.assessment.request import named_budget
from sordino.data.source import Prepared, Source
from sordino.errors import InvalidArgument, NotApplicable
from sordino.privacy import MOST_ROWS_PER_PERSON, PASSES, SYNONYMS, Relation, Sampling

if TYPE_CHECKING:
    from sordino.accounting.dp_sgd import NoisySteps
    from sordino.accounting.risk import RiskTarget
    from sordino.proofs.proof import Released
    from sordino.proofs.steps import Run
    from sordino.release.ledger import Ledger

RECORDS, PROMISE, TRAINING = "The records", "The promise", "The training"
ATTACK, OUTPUT = "The attack", "Output"
"""Panels of the help that several commands have."""
LIST = "`sordino data list` shows names."


class ModelName(StrEnum):
    """What is trained, where it is released."""

    LOGISTIC = "logistic"
    SVM = "svm"
    RIDGE = "ridge"


def option(panel: str | None, help: str, *names: str, **more: Any) -> Any:
    """What the help says of an option, and in which panel; a flag is one with its name given."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


def argument(metavar: str | None, help: str) -> Any:
    """What the help says of a word that is no option."""
    return typer.Argument(metavar=metavar, help=help)


def _check_plot(path: str | None) -> str | None:
    """Refuse a figure that could not be drawn or written, before the work is done."""
    if path is not None:
        from sordino.report import figures

        figures.check_path(path)
    return path


DATA = option(RECORDS, "A name of `data list`, or your .csv or .parquet.", metavar="NAME|FILE")
Target = Annotated[str | None, option(RECORDS, "A file's column to predict.", metavar="COLUMN")]
_COLUMNS = option(RECORDS, "Describes them; `data describe` drafts one.", metavar="FILE.toml")
ColumnsFile = Annotated[str | None, _COLUMNS]
_NORM = option(RECORDS, "Public bound on a row's norm, the intercept's 1 included.")
_RAW = option(RECORDS, "Raw files. Default: SORDINO_DATA.", "--data-dir", metavar="DIR")
DataDir = Annotated[str | None, _RAW]
_STUDY = option("The study", "Made, or resumed. INTERNAL.", metavar="DIR")
StudyDir = Annotated[str | None, _STUDY]
_DASK = option("Where it runs", "A Dask scheduler, as tcp://10.0.0.1:8786.", metavar="ADDRESS")
Dask = Annotated[str | None, _DASK]


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """Where records come from, where they need not be named."""

    data: Annotated[str | None, DATA] = None
    target: Target = None
    columns: ColumnsFile = None
    classes: Annotated[str | None, option(RECORDS, "Possible labels.", metavar="A,B,...")] = None
    data_norm: Annotated[float | None, _NORM] = None
    data_dir: DataDir = None

    def source(self, person: str | None = None, target_bounds: str | None = None) -> Source | None:
        """The records, checked but not read; options about them mean nothing without --data."""
        about = (self.target, self.columns, self.classes, self.data_norm)
        if self.data is not None:
            return Source(self.data, *about, self.data_dir, person, target_bounds=target_bounds)
        if any(
            each is not None for each in (*about, person, target_bounds)
        ):  # a directory of raw files does no harm
            checks.fail_missing("--data NAME|FILE", "with options about it", LIST)
        return None


PERSON = option(RECORDS, "Tells a file's persons apart, to count their rows.", metavar="COLUMN")
_BOUNDS = "Public, of a target that is a number; --model ridge."
TARGET_BOUNDS = option(RECORDS, _BOUNDS, metavar="LOW,HIGH")
MODEL = option(PROMISE, "What is trained.")
METHOD = option(PROMISE, "How; docs/release.md lists them. Default: auto.", show_default=False)
L2_HELP = "Weight of (l2/2) ||w||^2."
L2 = option(PROMISE, f"{L2_HELP} Default: 0.001.", "--l2", show_default=False)
Delta = Annotated[float | None, option(PROMISE, "Default: 1 / rows^2, or 1e-5.")]
_RELATIONS = "replace-one, zero-out or add-or-remove-one."
RELATION = option(PROMISE, _RELATIONS, "--relation", metavar="RELATION")
PublicRows = Annotated[int | None, option(PROMISE, "Public, near the rows; add-or-remove-one.")]
_TOGETHER = "The most rows of one person, protected together."
ROWS_PER_PERSON = option(PROMISE, _TOGETHER, metavar="K")
LedgerFile = Annotated[str | None, option(PROMISE, "Has the budget to charge.", metavar="FILE")]
DatasetName = Annotated[str | None, option(PROMISE, "Whose budget; with --ledger.", metavar="NAME")]
CONFIDENCE = option(ATTACK, "With which the lower bound holds. Default: 0.99.", show_default=False)
Confidence = Annotated[float, CONFIDENCE]
Seed = Annotated[int, option(ATTACK, "Of the experiment; your estimator draws its own noise.")]
Json = Annotated[bool, option(OUTPUT, "Print JSON instead of words.", "--json")]
_PLOT = option(OUTPUT, "A .png, .svg or .pdf to draw.", metavar="FILE", callback=_check_plot)
Plot = Annotated[str | None, _PLOT]
All = Annotated[bool, option(OUTPUT, "Also formulas that prove nothing.", "--all")]


def relation(name: str, option: str = "relation") -> Relation:
    """The relation that was typed, also by another's name for it."""
    word = {"add-remove": "add-or-remove-one", "replace": "replace-one"}.get(name.lower(), name)
    return Relation(checks.one_of(option, word.lower(), [each.value for each in Relation]))


def from_fields(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command have the fields of each parameter that is a dataclass as options of its own.

    So what several commands ask together, or one command hands on as a whole, is listed once: as
    the fields of that class.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            how = {"kind": Parameter.KEYWORD_ONLY, "annotation": hints[name]}
            parameters.append(parameter.replace(**how))
            continue
        kinds = get_type_hints(groups[name], include_extras=True)
        for field in fields(groups[name]):
            default = Parameter.empty if field.default is MISSING else field.default
            how = {"default": default, "annotation": kinds[field.name]}
            parameters.append(Parameter(field.name, Parameter.KEYWORD_ONLY, **how))

    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        command(**values)

    functools.update_wrapper(run, command)
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


_ADVANTAGE = "The best guess of membership: at most so much above chance."
_DETECTION = "Detection at a rate of false alarms, as 0.02@0.01."
_SUCCESS = "Success in guessing a secret, at its chance without the model, as 0.05@0.01."


@dataclass(frozen=True, kw_only=True)
class Promised:
    """What is promised: an epsilon, or one risk that epsilon follows from."""

    epsilon: Annotated[float | None, option(PROMISE, "At most this, at --delta.")] = None
    advantage: Annotated[str | None, option(PROMISE, _ADVANTAGE, metavar="A")] = None
    detection: Annotated[str | None, option(PROMISE, _DETECTION, metavar="D@RATE")] = None
    reconstruction: Annotated[str | None, option(PROMISE, _SUCCESS, metavar="S@CHANCE")] = None

    @property
    def given(self) -> dict[str, Any]:
        """The one thing that is promised, by its name, as it was given; checked."""
        each = {field.name: getattr(self, field.name) for field in fields(Promised)}
        chosen = {name: value for name, value in each.items() if value is not None}
        names = ", ".join(f"--{name}" for name in each)
        if not chosen:
            checks.fail_missing("--epsilon E", "or another target", f"One of {names}.")
        if len(chosen) > 1:
            first, name, *_ = chosen
            hint = "Promise one of them, and look at the other with `sordino account`."
            checks.fail(name, chosen[name], f"not to be given beside --{first}", hint)
        return chosen

    @property
    def promised(self) -> float | RiskTarget:
        """What `given` says."""
        ((name, value),) = self.given.items()
        if name == "epsilon":
            return float(value)
        from sordino.accounting.risk import RiskTarget

        return RiskTarget.of_option(name, value)


@dataclass(frozen=True, kw_only=True)
class Promise(Promised):
    """What is trained and promised; checked before any record is read."""

    model: Annotated[ModelName, MODEL] = ModelName.LOGISTIC
    delta: Delta = None
    relation: Annotated[str, RELATION] = Relation.REPLACE_ONE.value
    method: Annotated[str, METHOD] = "auto"
    l2: Annotated[float, L2] = 0.001
    max_rows_per_person: Annotated[int, ROWS_PER_PERSON] = 1
    public_rows: PublicRows = None

    def __post_init__(self) -> None:
        if isinstance(promised := self.promised, float):
            checks.positive("epsilon", promised, "Pass the budget you promise, such as 1.0.")
        if self.delta is not None and not 0 < self.delta < 1:
            checks.fail("delta", self.delta, "in (0, 1)", "1e-6 is usual.")
        object.__setattr__(self, "relation", relation(self.relation).value)
        checks.non_negative("l2", self.l2)
        rows = checks.whole("--max-rows-per-person", self.max_rows_per_person, at_least=1)
        if rows > MOST_ROWS_PER_PERSON:
            checks.fail("--max-rows-per-person", rows, f"<= {MOST_ROWS_PER_PERSON:,}")
        if self.public_rows is not None:
            checks.whole("--public-rows", self.public_rows, at_least=1)
        private = self.relation == "add-or-remove-one"
        if private and self.public_rows is None:
            hint = "Pass a public number near that of the records."
            checks.fail_missing("--public-rows N", f"for {self.relation}", hint)
        if not private and self.public_rows is not None:
            checks.fail("--public-rows", self.public_rows, f"to be left out for {self.relation}")
        from sordino.estimators import methods

        known = methods.NAMES
        if self.model == ModelName.RIDGE:
            known = ("auto", *methods.REGRESSION)
        promising = [name for name in known if name not in methods.REFERENCES]
        checks.one_of("method", self.method, promising)

    def estimator(self, prepared: Prepared) -> Any:
        """The model to fit."""
        from sordino.estimators import PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge

        names = {each.name for each in fields(Promised)}
        settings = {name: value for name, value in asdict(self).items() if name not in names}
        promised = self.promised
        asked = "epsilon" if isinstance(promised, float) else "target"
        settings[asked] = promised if asked == "epsilon" else str(promised)
        model = settings.pop("model")
        if prepared.unit:
            settings["bounds"] = (0, 1)
        else:
            settings["data_norm"] = prepared.data_norm
        if model == ModelName.RIDGE:
            return PrivateRidge(**settings, target_bounds=prepared.target_bounds)
        settings["classes"] = prepared.classes
        svm = model == ModelName.SVM
        return (PrivateLinearSVC if svm else PrivateLogisticRegression)(**settings)

    def check_target(self, source: Source) -> None:
        """Refuse a model of numbers for classes, and the other way round, before anything is read.

        Raises
        ------
        InvalidArgument
            With what to pass.
        """
        bounds = source.bounds
        if self.model == ModelName.RIDGE and bounds is None:
            if not source.is_file:
                checks.fail(
                    "--model", "ridge", f"not to be given for {source.data}: it has classes"
                )
            hint = "Or write bounds = [LOW, HIGH] beside the target in --columns."
            checks.fail_missing("--target-bounds LOW,HIGH", "for --model ridge", hint)
        if self.model != ModelName.RIDGE and bounds is not None:
            hint = "Its target is a number between bounds."
            checks.fail("--model", self.model.value, f"to be ridge for {source.data}", hint)

    def ledger(self, path: str | None, dataset: str | None) -> Ledger | None:
        """The budget that is charged, if one is named."""
        rows = self.max_rows_per_person
        return named_budget(path, dataset, relation=self.relation, max_rows_per_person=rows)


class _ReleaseName(StrEnum):
    """What leaves the building."""

    FINAL = "final"
    ALL = "all"


class _LossName(StrEnum):
    """What was minimised."""

    LOGISTIC = "logistic"
    HUBER_SVM = "huber-svm"
    LEAST_SQUARES = "least-squares"
    LINEAR = "linear"
    MLP = "mlp"
    CNN = "cnn"


_NETWORKS = (_LossName.MLP, _LossName.CNN)
RUN = "The run"
_LAST = "For theorems on the last iterate"


@dataclass(frozen=True, kw_only=True)
class _Phase:
    """A phase of a schedule, as its table says; what is left out is as on the command line."""

    noise_multiplier: float | None = None
    noise_std: float | None = None
    max_grad_norm: float | None = None
    sample_rate: float | None = None
    batch_size: int | None = None
    steps: int | None = None
    epochs: float | None = None
    steps_per_epoch: int | None = None

    def run(self, given: RunOptions) -> tuple[RunOptions, float]:
        """As a run alone, and its noise multiplier."""
        names = ("sample_rate", "batch_size", "steps", "epochs", "steps_per_epoch")
        alone = replace(given, schedule=None, **{name: getattr(self, name) for name in names})
        if (noise := self.noise_multiplier) is not None:
            for name in ("noise_std", "max_grad_norm"):
                if (value := getattr(self, name)) is not None:
                    checks.fail(name, value, "not to be given beside noise_multiplier")
            return alone, checks.non_negative("noise_multiplier", noise)
        if self.noise_std is None or self.max_grad_norm is None:
            hint = "Or noise_std, on the sum of gradients, with max_grad_norm."
            checks.fail("noise_multiplier", None, "to be given", hint)
        clip = checks.positive("max_grad_norm", self.max_grad_norm)
        return alone, checks.non_negative("noise_std", self.noise_std) / clip


@dataclass(frozen=True)
class _Schedule:
    """The file of a schedule."""

    phases: tuple[_Phase, ...]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """A run of noisy SGD as `account` and `calibrate` ask for it; its options checked together."""

    sampling: Annotated[str, option(RUN, "How batches are drawn: account --help.", metavar="HOW")]
    delta: Annotated[float, option(RUN, "Well below 1 / records.")]
    sample_rate: Annotated[float | None, option(RUN, "Batch size / records.")] = None
    batch_size: Annotated[int | None, option(RUN, "Records a batch.")] = None
    n: Annotated[int | None, option(RUN, "Records in the dataset.", "--n")] = None
    steps: Annotated[int | None, option(RUN, "Updates; or give epochs.")] = None
    steps_per_epoch: Annotated[int | None, option(RUN, "Of allocation: batches an epoch.")] = None
    epochs: Annotated[float | None, option(RUN, "Passes over the data, as steps.")] = None
    relation: Annotated[str | None, option(RUN, "Who is a neighbour.", metavar="RELATION")] = None
    release: Annotated[_ReleaseName, option(RUN, "Which iterates leave.")] = _ReleaseName.FINAL
    loss: Annotated[_LossName | None, option(_LAST, "What is minimised.")] = None
    l2: Annotated[float, option(_LAST, L2_HELP, "--l2")] = 0.0
    learning_rate: Annotated[float | None, option(_LAST, "Constant step size.")] = None
    max_grad_norm: Annotated[float, option(_LAST, "Clip of each record's gradient.")] = 1.0
    data_norm: Annotated[float, option(_LAST, "Of rows with their constant feature.")] = 1.0
    radius: Annotated[float | None, option(_LAST, "Of a ball to project weights onto.")] = None
    keep_last: Annotated[bool, option(RUN, "Smaller batches end passes.", "--keep-last")] = False
    max_rows_per_person: Annotated[int, option(RUN, _TOGETHER, metavar="K")] = 1
    max_batch_size: Annotated[
        int | None, option(RUN, "Of poisson: larger batches are cut at random.", metavar="B")
    ] = None
    schedule: Annotated[
        str | None, option(RUN, "Phases of different steps, as TOML.", metavar="FILE.toml")
    ] = None

    def __post_init__(self) -> None:
        sampling = self.sampling.lower()
        if sampling not in SYNONYMS:  # the names of the house are offered, not all that are known
            checks.one_of("sampling", sampling, list(Sampling))
        object.__setattr__(self, "sampling", Sampling(sampling))
        if self.relation is not None:  # an empty one is none either
            object.__setattr__(self, "relation", relation(self.relation).value)
        checks.probability_below_one("delta", self.delta, "Pass a small chance, such as 1e-5.")
        checks.non_negative("l2", self.l2)
        for name in ("learning_rate", "max_grad_norm", "data_norm", "radius"):
            if (value := getattr(self, name)) is not None:
                checks.positive(name, value)
        if self.steps_per_epoch is not None and self.sampling != Sampling.ALLOCATION:
            hint = "Pass --batch-size and --n, or --sample-rate."
            checks.fail("steps_per_epoch", self.steps_per_epoch, "only with allocation", hint)
        if self.max_batch_size is not None:
            if self.sampling != Sampling.POISSON:
                checks.fail("max_batch_size", self.max_batch_size, "only with poisson")
            if self.n is None:
                hint = "How often a batch overflows depends on it; an upper bound will do."
                checks.fail("n", None, "to be given with max_batch_size", hint)
        for name in ("sample_rate", "batch_size", "steps", "epochs", "steps_per_epoch", "loss"):
            if self.schedule is not None and (value := getattr(self, name)) is not None:
                hint = "A phase says it." * (name != "loss")
                checks.fail(name, value, "not to be given beside a schedule", hint)
        for name in ("batch_size", "n", "steps_per_epoch", "max_batch_size"):
            if (value := getattr(self, name)) is not None:
                checks.whole(name, value, at_least=1)
        if self.batch_size is not None and self.n is not None:
            if self.batch_size > self.n:
                checks.fail("batch_size", self.batch_size, f"<= n = {self.n}")
            rate, given = self.batch_size / self.n, self.sample_rate
            if given is not None and not math.isclose(given, rate, rel_tol=1e-6):
                checks.fail("sample_rate", given, f"to be batch_size / n = {rate:.6g}")

    @functools.cached_property
    def phases(self) -> tuple[tuple[RunOptions, float], ...]:
        """Of a schedule, each as a run with its noise multiplier; empty without one."""
        if self.schedule is None:
            return ()
        import tomllib

        from sordino import _files, serialize

        text = _files.read_text(self.schedule)
        try:
            given = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidArgument(f"The schedule is not valid TOML: {error}.", "schedule") from None
        with serialize.refusing("schedule", lambda says: InvalidArgument(says, "schedule")):
            read: _Schedule = serialize.Forms(by_hand=True).of(_Schedule).read(given)
        if not read.phases:
            checks.fail("phases", "[]", "to hold at least one", "Write [[phases]] tables.")
        found = []
        for number, phase in enumerate(read.phases, 1):
            try:
                one = phase.run(self)
                _ = one[0].rate, one[0].total_steps  # or why not
            except InvalidArgument as error:
                says = f"Phase {number} of the schedule: {error}"
                raise InvalidArgument(says, error.argument) from None
            found.append(one)
        return tuple(found)

    @property
    def chosen_relation(self) -> Relation:
        """The relation given, or the usual one for this sampling."""
        if self.relation is not None:
            return Relation(self.relation)
        usual = {Sampling.POISSON: Relation.ADD_OR_REMOVE_ONE, Sampling.FULL: Relation.ZERO_OUT}
        usual[Sampling.ALLOCATION] = Relation.ADD_OR_REMOVE_ONE
        return usual.get(Sampling(self.sampling), Relation.REPLACE_ONE)

    @property
    def rate(self) -> float:
        """The sample rate, given or from batch size and records."""
        if self.steps_per_epoch is not None:
            for name in ("sample_rate", "batch_size"):
                if (value := getattr(self, name)) is not None:
                    checks.fail(name, value, "not to be given with steps_per_epoch")
            rate = 1 / self.steps_per_epoch
        elif self.sample_rate is not None:
            rate = checks.fraction("sample_rate", self.sample_rate, allow_zero=True)
        elif self.batch_size is not None and self.n is not None:
            rate = self.batch_size / self.n
        elif self.sampling == Sampling.FULL:
            rate = 1.0
        else:
            hint = "Pass --sample-rate 0.01, or --batch-size 100 and --n 10000."
            if self.sampling == Sampling.ALLOCATION:
                hint = "Pass --steps-per-epoch 100, or --batch-size 100 and --n 10000."
            checks.fail("sample_rate", None, "or batch_size and n to be given", hint)
        if self.sampling == Sampling.FULL and rate != 1:
            checks.fail("sample_rate", rate, "to be 1 where batches are full")
        return rate

    @property
    def batches(self) -> int:
        """Steps an epoch: in passes, of whole batches unless the last one is kept; else rounded up.

        Each the private side: shorter passes meet a record more often, and more steps leak more.
        By allocation a record is met once an epoch of any length: fewer batches hide less.
        """
        if self.steps_per_epoch is not None:
            return self.steps_per_epoch
        whole = self.sampling in (*PASSES, Sampling.ALLOCATION) and not self.keep_last
        if self.batch_size is not None and self.n is not None:
            return self.n // self.batch_size if whole else -(-self.n // self.batch_size)
        rate = self.rate
        if rate == 0:
            checks.fail("sample_rate", 0, "> 0 where epochs are counted")
        return max(1, math.floor(1 / rate + 1e-9) if whole else math.ceil(1 / rate - 1e-9))

    @property
    def total_steps(self) -> int:
        """Steps, given or from epochs; of all phases."""
        if self.phases:
            return sum(phase.total_steps for phase, _ in self.phases)
        if (self.steps is None) == (self.epochs is None):
            both = "" if self.steps is None else ", not both"
            hint = "Pass --steps 1000 or --epochs 10."
            checks.fail("steps", self.steps, f"or epochs to be given{both}", hint)
        if self.steps is not None:
            return checks.whole("steps", self.steps)
        epochs = checks.non_negative("epochs", self.epochs or 0.0)
        return math.ceil(epochs * self.batches - 1e-9)

    @property
    def ends(self) -> str:
        """The relation and what leaves, in words."""
        released = "only the final model" if self.release == "final" else "all iterates"
        return f"{self.chosen_relation.value}; released: {released}."

    def implies(self) -> list[str]:
        """The rate and the steps that other options imply, and Opacus's rate, in words."""
        words = []
        if self.batch_size is not None and self.n is not None and self.sample_rate is None:
            rate = f"--batch-size {self.batch_size} / --n {self.n} is rate {self.rate:.6g}"
            theirs = 1 / self.batches
            if self.sampling == Sampling.POISSON and math.isclose(theirs, self.rate):
                rate += ", as Opacus has it"
            elif self.sampling == Sampling.POISSON:
                rate += f"; of Opacus (1/{self.batches}): --sample-rate {theirs:.8g}"
            words.append(rate)
        if self.epochs is not None:
            passes = f"{self.total_steps:,} steps, {self.batches:,} a pass"
            words.append(f"--epochs {self.epochs:g} is {passes}")
        return words

    def assumes(self) -> list[str]:
        """What the answer takes for granted about the training, in words."""
        drawn = f"batches really drawn as {self.sampling}"
        words = [f"noise on every sum of clipped gradients, {drawn}, settings chosen without data"]
        if self.max_rows_per_person > 1:
            cap = f"nobody has more than {self.max_rows_per_person} rows"
            words.append(f"{cap}: a cap enforced before training, blind to values")
        if self.chosen_relation is Relation.ADD_OR_REMOVE_ONE:
            public = "steps, sample rate and the gradients' divisor do not depend on the records"
            words.append(f"{public} (else: --relation zero-out)")
        if self.max_batch_size is not None:
            cut = f"batches above {self.max_batch_size:,} are cut to so many records, uniformly"
            words.append(f"{cut}; there are at most {self.n:,} records, a public bound")
        if self.schedule is not None:
            words.append("the schedule was fixed before training")
        if self.loss not in (None, *_NETWORKS) and self.release == "final":
            rows = f"rows of norm <= {self.data_norm:g}, the constant feature included"
            sgd = "plain SGD at a constant rate, sums divided by a constant, l2 outside the clip"
            words.append(f"for the last iterate: {rows}; {sgd}")
        return words

    def inputs(self, *, partial: bool = False) -> dict[str, Any]:
        """Everything that was given or concluded, for JSON; `partial`: some is sought."""
        inputs = {**asdict(self), "relation": self.chosen_relation.value}
        whole: dict[str, Any] = {} if partial else {"steps": self.total_steps}
        if self.phases:
            whole["phases"] = [
                {"noise_multiplier": noise, "sample_rate": phase.rate, "steps": phase.total_steps}
                for phase, noise in self.phases
            ]
        elif not partial:
            whole["sample_rate"] = self.rate
            if self.sampling == Sampling.ALLOCATION:
                whole["steps_per_epoch"] = self.batches
        return inputs | whole

    @property
    def drawn(self) -> str:
        """The batches in a few words."""
        if self.phases:
            many = len(self.phases)
            return f"{self.sampling} batches in {many} phase{'s' * (many > 1)}"
        return f"{self.sampling} batches at rate {self.rate:.6g}"

    def run(self, noise_multiplier: float, steps: int | None = None) -> Run:
        """The run as the table of theorems takes it, or with the reason why less is proved."""
        from sordino.accounting.dp_sgd import NoisySteps
        from sordino.proofs.steps import Run

        if self.phases:
            return self._in_phases(noise_multiplier, steps)
        noisy = NoisySteps(
            noise_multiplier=noise_multiplier,
            sample_rate=self.rate,
            steps=self.total_steps if steps is None else steps,
            sampling=self.sampling,
            relation=self.chosen_relation,
            steps_per_epoch=self.batches
            if self.sampling in (*PASSES, Sampling.ALLOCATION) and self.rate
            else None,
            max_rows_per_person=self.max_rows_per_person,
            max_batch_size=self.max_batch_size,
            records=None if self.max_batch_size is None else self.n,
        )
        released: Released = "all" if self.release is _ReleaseName.ALL else "final"
        if self.loss == "linear":
            from sordino.accounting.last_iterate.hidden_state import HiddenState

            if self.l2:
                checks.fail("l2", self.l2, "to be 0 for a linear loss")
            size = (self.batch_size or 1) / (self.learning_rate or 1.0)
            diameter = math.inf if self.radius is None else 2 * self.radius
            state = HiddenState(1.0, self.max_grad_norm / size, diameter)
            # The last iterate is a sum of gradients only if nothing is projected on the way.
            return Run(noisy, released, state, linear=self.radius is None)
        if why := self._missing():
            return Run(noisy, released, NotApplicable(why))
        return self._trained(noisy, released)

    def _in_phases(self, factor: float, steps: int | None) -> Run:
        """The run of a schedule, its noises times a factor; the first steps of it where so many."""
        from sordino.proofs.steps import Run

        left = self.total_steps if steps is None else steps
        phases: list[NoisySteps] = []
        for phase, noise in self.phases:
            many = min(phase.total_steps, left)
            if many or not phases:
                phases.append(phase.run(noise, many).steps)
            left -= many
        released: Released = "all" if self.release is _ReleaseName.ALL else "final"
        refused = NotApplicable("It is about equal steps, and this schedule has others.")
        first = replace(phases[0], noise_multiplier=factor)
        return Run(first, released, refused, phases=tuple(phases))

    def _missing(self) -> str:
        """What theorems on the last iterate need to know and are not told; empty if nothing."""
        needed = {"--learning-rate 0.5": self.learning_rate, "--n 10000": self.n}
        flags = [flag for flag, value in needed.items() if value is None]
        if self.loss is None:
            more = " ".join(["--loss logistic --l2 0.001", *flags])
            return f"For a linear model say what is minimised: {more}."
        if self.sampling == Sampling.FIXED_SIZE:
            return "No usable bound is proved with batches of fixed size."
        if self.sampling == Sampling.ALLOCATION:
            return "No bound is proved with allocation."
        if self.loss in _NETWORKS:
            return ""
        whole = self.n is not None and abs(self.rate * self.n % 1 - 0.5) > 0.5 - 1e-6
        if not flags and self.sampling in PASSES and self.batch_size is None and not whole:
            flags = ["--batch-size 32"]
        names = " and ".join(flag.split()[0] for flag in flags)
        return f"Its theorems also need {names}." if flags else ""

    def _trained(self, noisy: NoisySteps, released: Released) -> Run:
        """The run of the training that these options describe."""
        from sordino import proofs
        from sordino.models.constants import ObjectiveSpec
        from sordino.sgd.spec import TrainSpec

        assert self.loss is not None
        records = 1_000_000 if self.n is None else self.n
        full, poisson = (self.sampling == each for each in (Sampling.FULL, Sampling.POISSON))
        batch = records if full else self.batch_size
        spec = TrainSpec(
            # The bound given counts the constant feature, so none is added to it.
            ObjectiveSpec(self.loss, l2=self.l2, intercept=self.loss in _NETWORKS),
            learning_rate=1.0 if self.learning_rate is None else self.learning_rate,
            batch_size=batch or max(1, round(noisy.sample_rate * records)),
            steps=max(noisy.steps, 1),
            order=Sampling.CYCLIC if full else self.sampling,
            sample_rate=noisy.sample_rate or 1.0 if poisson else None,
            max_grad_norm=self.max_grad_norm,
            noise_multiplier=noisy.noise_multiplier,
            radius=self.radius,
            drop_last=self.sampling in PASSES and not self.keep_last,
        )
        constants = spec.objective.constants(self.data_norm)
        run = proofs.run_of(spec, constants, records, self.chosen_relation, released)
        # Of the training only what the loss adds is taken: the worth of the noise, the last
        # iterate. The rest is as given (a training has a step and whole records, these may not).
        worth = run.steps.noise_multiplier
        return replace(run, steps=replace(noisy, noise_multiplier=worth))
