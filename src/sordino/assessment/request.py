"""`Request`: what is asked of an assessment, and its study file (TOML).

Checked before anything is read. Light to import: the rooms that know methods and columns are
loaded only where a request names some.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

from sordino import _files, checks
from sordino.data.source import IN_MEMORY, Source, listed_classes, names_file
from sordino.errors import InvalidArgument
from sordino.privacy import MOST_ROWS_PER_PERSON, default_delta

if TYPE_CHECKING:
    from sordino.accounting.risk import RiskTarget
    from sordino.data.columns import Columns, Label
    from sordino.data.given import Given
    from sordino.release.ledger import Ledger

GALLERY = "gallery:"
"""Before the name of one of the audit's broken mechanisms."""

_MODELS = ("logistic", "svm", "mlp")
_PROMISELESS = ("none", "majority")
_TEXTS = ("target", "columns", "data_dir", "mechanism", "pair", "ledger", "dataset", "person")
_FILES = ("data", "columns", "data_dir", "ledger")
_CODE = ("mechanism", "pair")
_LEAST = {"seeds": 20, "neighbours": 2, "audit_runs": 64}
"""With fewer, no direction, distance or test can be estimated."""
_OPEN_INTERVALS = {
    "epsilon": (1e-301, 1e301),  # a tenth and ten times of it, on the accuracy's curve, are numbers
    "delta": (0.0, 1.0),
    "data_norm": (1e-30, 1e30),
    "confidence": (0.5, 1.0),
}
RISKS = ("advantage", "detection", "reconstruction")
_PROMISES = ("epsilon", *RISKS)
"""What can be promised: one of these."""
_EXAMINATION = ("effort", *_LEAST, "confidence")
"""Settings of how thoroughly a release is examined: no part of what is released."""


@dataclass(frozen=True)
class _Effort:
    """How much is trained and attacked.

    Parameters
    ----------
    seeds, neighbours
        Size of the grid that measures SGD's own noise.
    audit_runs
        Runs of an attack on each of two datasets, at most.
    repeats
        Releases made to see how much accuracy varies, at each epsilon of the curve.
    points
        Epsilons on the curve of accuracy; odd, so that the target is the middle one.
    measuring, accuracy, attacking
        Seconds, about, on two cores: for the runs of one study of SGD's own noise, for all repeats
        together, and for an attack on a release.
    """

    seeds: int
    neighbours: int
    audit_runs: int
    repeats: int
    points: int
    measuring: float
    accuracy: float
    attacking: float


EFFORTS = {
    "quick": _Effort(32, 16, 1_000, 5, 5, 4.0, 8.0, 25.0),
    "standard": _Effort(98, 50, 40_000, 20, 7, 8.0, 15.0, 60.0),
    "thorough": _Effort(200, 100, 100_000, 50, 9, 120.0, 90.0, 600.0),
}

_TEMPLATE = """\
# A study for `sordino assess study.toml`, with its defaults. Paths are relative to this file.

data = "digits/binary"  # a name of `sordino data list`, or a .csv, .csv.gz or .parquet file
#target = "ill"  # column to predict
#classes = ["no", "yes"]  # public labels
#data_norm = 1.0  # public bound on a row's norm, the intercept's 1 included
#data_dir = "raw"  # raw files of a named dataset

model = "logistic"  # logistic, svm or mlp
method = "auto"
l2 = 0.001  # weight of (l2/2) ||w||^2

epsilon = 1.0  # 1 is strong, 10 is weak; or instead one risk that epsilon follows from:
#advantage = 0.05  # the best guess of membership, above chance
#detection = "0.02@0.01"  # of a record, at a rate of false alarms
#reconstruction = "0.05@0.01"  # of a secret, at its chance without the model
#delta = 1e-6  # default 1 / records^2, rounded down
max_rows_per_person = 1
#person = "patient"  # column that tells persons apart: no more rows of any are used
#ledger = "budgets.db"  # of `sordino ledger init`
#dataset = "patients-2026"  # the budget's name in it

effort = "standard"  # quick, standard or thorough
#seeds = 98  # of the grid that measures SGD's own noise
#neighbours = 50  # datasets of that grid
#audit_runs = 40000  # of an attack on each of two datasets
confidence = 0.99  # of an attack

# Attack only your own function or estimator (it is run, with --run-code).
#mechanism = "mine.py:train"
#pair = "mine.py:pair"  # instead of data: returns two datasets

# Public knowledge of a file's columns, as `sordino data describe` drafts it; below all else.
#columns = "columns.toml"
#read_from_data = true  # the tables below are a draft
#[columns.age]
#bounds = [0, 120]
#[columns.sex]
#levels = ["female", "male"]
#[columns.patient]
#ignore = true
"""


def named_budget(
    path: str | None,
    dataset: str | None,
    *,
    relation: str = "replace-one",
    max_rows_per_person: int = 1,
) -> Ledger | None:
    """The budget `dataset` of the ledger at `path`, opened on use; None if neither is given."""
    _check_budget(path, dataset)
    if path is None or dataset is None:
        return None
    from sordino.release.ledger import Ledger

    rows = max_rows_per_person
    return Ledger(path, dataset=dataset, relation=relation, max_rows_per_person=rows)


def _check_budget(path: str | None, dataset: str | None) -> None:
    if path is None and dataset is not None:
        checks.fail_missing("--ledger FILE", "with --dataset", "`sordino ledger init` makes one.")
    if path is not None and dataset is None:
        hint = f"`sordino ledger show {path}` lists the names."
        checks.fail_missing("--dataset NAME", "with --ledger", hint)


@dataclass(frozen=True)
class Request:
    """Every setting of an assessment.

    Parameters
    ----------
    data, data_dir
        A dataset by name, or a CSV or Parquet file; and where raw files are.
    target, classes, columns, data_norm
        See `Source`: for a file, what to predict, the labels there can be ("no,yes" or a list), a
        TOML file that describes its columns, and a public bound on a row's norm.
    described, read_from_data
        Instead of `columns`, the description itself, as tables: {"age": {"bounds": [0, 120]}}; and
        whether it is a draft that was read off the rows.
    model, method, l2
        What is trained, and how it is released.
    epsilon, delta, max_rows_per_person
        The promise; without delta it follows from the number of records. Epsilon is 1 if nothing
        is given, and None where it follows from a risk.
    advantage, detection, reconstruction
        A risk that is promised instead of epsilon, as `RiskTarget.of_option` reads it. (`target`
        is what a file predicts.)
    person
        The column of a file that tells persons apart, unless the description names it: of everybody
        at most `max_rows_per_person` rows are used, drawn at random.
    ledger, dataset
        The file and the name of the budget that the release is charged to, if any is.
    effort, seeds, neighbours, audit_runs
        How much is trained and attacked; what is None, `effort` decides.
    confidence
        Of what an attack observes.
    mechanism, pair
        "module:name" of a user's mechanism that is attacked, and nothing else, and of the two
        datasets that it is attacked on.

    Raises
    ------
    InvalidArgument
        For whatever cannot be assessed, in one sentence.

    Examples
    --------
    >>> Request(epsilon=2.0, effort="quick").limits.seeds
    32
    """

    data: str = "digits/binary"
    target: str | None = None
    classes: str | Sequence[Label] | None = None
    data_norm: float | None = None
    data_dir: str | None = None
    model: str = "logistic"
    method: str = "auto"
    l2: float = 0.001
    epsilon: float | None = None
    advantage: float | str | None = None
    detection: str | None = None
    reconstruction: str | None = None
    delta: float | None = None
    max_rows_per_person: int = 1
    ledger: str | None = None
    dataset: str | None = None
    effort: str = "standard"
    seeds: int | None = None
    neighbours: int | None = None
    audit_runs: int | None = None
    confidence: float = 0.99
    mechanism: str | None = None
    pair: str | None = None
    columns: str | None = None
    read_from_data: bool = False
    described: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    person: str | None = None

    # Checks ------------------------------------------------------------------------------

    def __post_init__(self) -> None:
        self._set("data", _text("data", self.data))
        for name in _TEXTS:
            if (value := getattr(self, name)) is not None:
                self._set(name, _text(name, value))
        self._check_promise()
        self._check_numbers()
        self._check_model()
        _check_budget(self.ledger, self.dataset)
        self._check_columns()
        if self.mechanism is not None:
            self._check_mechanism()
        elif self.pair is not None:
            checks.fail("pair", self.pair, "to be left out without a mechanism")

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_promise(self) -> None:
        given = [name for name in _PROMISES if getattr(self, name) is not None]
        if len(given) > 1:
            first, name, *_ = given
            checks.fail(name, getattr(self, name), f"not to be given beside {first}", "Choose one.")
        if not given:
            self._set("epsilon", 1.0)
        if (risk := self.risk) is not None:  # however it was spelled
            value = risk.most if risk.kind == "advantage" else str(risk).partition("<=")[2]
            self._set(risk.kind, value)

    def _check_numbers(self) -> None:
        for name, (low, high) in _OPEN_INTERVALS.items():
            value = getattr(self, name)
            if value is None:
                continue
            claims_zero = name == "delta" and value == 0 and self.mechanism is not None
            # positive() also refuses what is no number.
            if not claims_zero and not low < checks.positive(name, value) < high:
                checks.fail(name, value, f"in ({low:g}, {high:g})")
            self._set(name, float(value))
        self._set("l2", checks.non_negative("l2", self.l2))
        for name, least in {**_LEAST, "max_rows_per_person": 1}.items():
            if (value := getattr(self, name)) is not None or name not in _LEAST:
                self._set(name, checks.whole(name, value, at_least=least))
        if (rows := self.max_rows_per_person) > MOST_ROWS_PER_PERSON:
            checks.fail("max_rows_per_person", rows, f"<= {MOST_ROWS_PER_PERSON:,}")

    def _check_model(self) -> None:
        checks.one_of("effort", self.effort, tuple(EFFORTS))
        checks.one_of("model", self.model, _MODELS)
        if self.method in _PROMISELESS:
            checks.fail("method", self.method, "to promise something")
        if self.method != "auto":
            from sordino.estimators import methods

            promising = [each for each in methods.NAMES if each not in _PROMISELESS]
            checks.one_of("method", self.method, promising)
        if self.model == "mlp":
            if self.method not in ("auto", "dp-sgd"):
                checks.fail("method", self.method, "to be dp-sgd for model=mlp")
            if self.ledger is not None:
                checks.fail("ledger", self.ledger, "to be left out for model=mlp")

    def _check_columns(self) -> None:
        """Make the description plain values, and have it checked by whoever uses it."""
        checks.flag("read_from_data", self.read_from_data)
        if not isinstance(self.described, Mapping):
            checks.fail("described", self.described, "to be tables by name")
        if self.columns is not None and (self.described or self.read_from_data):
            checks.fail("columns", self.columns, "to be a file or tables, not both")
        self._set("described", _plain(self.described))
        if isinstance(self.classes, str):
            self._set("classes", listed_classes(self.classes))
        elif self.classes is not None:
            self._set("classes", _plain(checks.sequence("classes", self.classes)))
        if self.classes is not None:
            from sordino.data.columns import Columns

            # As the text of a file, so that it is checked as in one.
            text = f"classes = {_toml('classes', self.classes)}"
            self._set("classes", Columns.from_toml(text).classes)
        if self.described:
            self.public_columns()

    def _check_mechanism(self) -> None:
        """What would be ignored is refused."""
        ignored = ["model", "method", "l2", "max_rows_per_person", "seeds", "neighbours", "ledger"]
        ignored += [*RISKS, "person"]
        if self.pair is not None:
            ignored = ["data", "target", "classes", "data_norm", "columns", "described", *ignored]
        for name in ignored:
            if getattr(self, name) != getattr(Request, name, {}):  # its default
                other = "mechanism" if self.pair is None else "pair"
                checks.fail(name, getattr(self, name), f"to be left out with a {other}")
        for name in _CODE:
            if (value := getattr(self, name)) is not None and ":" not in value:
                checks.fail(name, value, "to be package.module:name or file.py:name")

    @property
    def risk(self) -> RiskTarget | None:
        """What is promised, where that is no epsilon."""
        for name in RISKS:
            if (value := getattr(self, name)) is not None:
                from sordino.accounting.risk import RiskTarget

                return RiskTarget.of_option(name, value)
        return None

    # The records -------------------------------------------------------------------------

    def public_columns(self) -> Columns:
        """What the study itself says about a file's columns."""
        from sordino.data.columns import Column, Columns

        columns = {name: Column.of(name, each) for name, each in self.described.items()}
        classes = None if self.classes is None else tuple(self.classes)
        return Columns(self.target, classes, columns, self.read_from_data)

    def source(self, records: Given | None = None) -> Source:
        """Where the records come from.

        Parameters
        ----------
        records
            What is in memory, where `data` says that the records are.

        Raises
        ------
        InvalidArgument
            If there is no such dataset or file, or it is not fully described.
        """
        if records is None and self.data == IN_MEMORY:
            hint = "Call sordino.assess with the same data and out=, to go on."
            checks.fail("data", "[in memory]", "to be passed again: no file holds them", hint)
        columns: str | Columns | None = self.columns
        classes = None if self.classes is None else tuple(self.classes)
        if self.described or self.read_from_data:
            columns, classes = self.public_columns(), None
        of_rows = (self.data_norm, self.data_dir, self.person)
        return Source(self.data, self.target, columns, classes, *of_rows, records)

    def budget(self) -> Ledger | None:
        """The budget that the release is charged to, if one is named."""
        rows = self.max_rows_per_person
        return named_budget(self.ledger, self.dataset, max_rows_per_person=rows)

    def delta_and_reason(self, rows: int | None) -> tuple[float, str]:
        """Delta for so many records (None if unknown), and where it comes from."""
        if self.delta is None:
            known = "" if rows is None else f"1 / N^2 for N = {rows:,} records, rounded down."
            return default_delta(rows), known or "The number of records is unknown."
        if rows is None or self.delta <= 0.1 / rows:
            return self.delta, "As given."
        return self.delta, f"As given: above 0.1 / N for N = {rows:,} records, it means little."

    # How much ----------------------------------------------------------------------------

    @property
    def limits(self) -> _Effort:
        """How much is trained and attacked: as given, or as the effort says."""
        given = {name: value for name in _LEAST if (value := getattr(self, name)) is not None}
        return replace(EFFORTS[self.effort], **given)

    def epsilons_around(self, epsilon: float) -> tuple[float, ...]:
        """Epsilons of the accuracy's curve: from a tenth of this one to ten times as much."""
        points = self.limits.points
        powers = [2 * place / (points - 1) - 1 for place in range(points)]
        return tuple(
            epsilon if power == 0 else float(f"{epsilon * 10**power:.2g}") for power in powers
        )

    # As a file ---------------------------------------------------------------------------

    @property
    def runs_code(self) -> bool:
        """Whether it names a mechanism of the user's own, which is imported and run."""
        return self.mechanism is not None and not self.mechanism.startswith(GALLERY)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read a study file; files that it names are looked for beside it."""
        with _files.explained("study", path, "read", "Make one: `sordino assess --write-study`."):
            text = _files.read_text(path)
        return cls(**_resolve(_parse(text), os.path.dirname(os.fspath(path))))

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Read the text of such a file."""
        return cls(**_parse(text))

    def to_toml(self) -> str:
        """Write such a file, with files by their full paths: it means the same everywhere."""
        from sordino.serialize import toml_key

        settings = _resolve(self._values(), os.getcwd())
        described = settings.pop("described")
        again = "`sordino assess study.toml` asks it again"
        if self.data == IN_MEMORY:
            again = "sordino.assess, with the same records and out=, goes on"
        lines = [f"# What was asked; {again}."]
        lines += [f"{k} = {_toml(k, value)}" for k, value in settings.items() if value is not None]
        for name, column in described.items():
            lines += ["", f"[columns.{toml_key(name)}]"]
            where = f"column {name}"
            lines += [f"{toml_key(key)} = {_toml(where, each)}" for key, each in column.items()]
        return "\n".join(lines) + "\n"

    @staticmethod
    def template() -> str:
        """A study file to edit, which explains every setting and asks what `Request()` asks."""
        return _TEMPLATE

    def with_options(self, **given: Any) -> Self:
        """The same with other settings; None leaves one as it is."""
        changed = {name: value for name, value in given.items() if value is not None}
        for name in changed:
            checks.one_of("setting", name, _NAMES)
        if not changed.keys().isdisjoint(_PROMISES):
            changed = {**dict.fromkeys(_PROMISES), **changed}
        if "columns" in changed:
            changed = {"described": {}, "read_from_data": False, **changed}
        return replace(self, **changed)

    def default_directory(self) -> str:
        """Where the assessment is written by default: named after what is assessed."""
        if self.mechanism is not None:
            parts = [self.mechanism]
        else:
            data = os.path.basename(self.data).split(".")[0] if "." in self.data else self.data
            promised = f"epsilon-{self.epsilon:g}" if self.risk is None else str(self.risk)
            parts = [data, self.model, promised]
        return re.sub(r"[^A-Za-z0-9_.]+", "-", "-".join(["assessment", *parts])).strip("-.")

    def settings(self) -> dict[str, str | int | float | bool | None]:
        """Every setting as a plain value, for a page; columns as "columns.NAME"."""
        values = self._values()
        del values["described"]
        if self.classes is not None:
            values["classes"] = _toml("classes", self.classes)
        for name, column in self.described.items():
            parts = [f"{key} = {_toml(name, each)}" for key, each in column.items()]
            values[f"columns.{name}"] = ", ".join(parts)
        return values

    def differences(self, other: Request) -> list[str]:
        """What makes another release than that of `other`, a phrase each, with both values.

        Where raw files are does not count, since their content is checked; nor how thoroughly it
        is examined, which may change without another release (`stages_to_repeat`).
        """
        mine, theirs = self._identity(), other._identity()
        return [
            f"{name} is {_or_absent(mine.get(name))} here and {_or_absent(theirs.get(name))} there"
            for name in dict.fromkeys((*mine, *theirs))
            if mine.get(name) != theirs.get(name)
        ]

    def stages_to_repeat(self, other: Request) -> list[str]:
        """Stages that must be done again after those of `other`, examined otherwise."""
        mine, theirs = self._examination(), other._examination()
        return [stage for stage in mine if mine[stage] != theirs[stage]]

    def _examination(self) -> dict[str, tuple[object, ...]]:
        """What each stage depends on beside the release; one that is not named, on nothing."""
        grid = self.effort, self.seeds, self.neighbours
        attack = self.audit_runs or self.effort, self.confidence
        grids = dict.fromkeys(("own_noise", "release_estimate"), grid)
        attacks = dict.fromkeys(("attack_release", "attack_plain", "attack_mechanism"), attack)
        return grids | attacks | {"release": (self.effort,)}

    def _identity(self) -> dict[str, str | int | float | bool | None]:
        resolved = replace(self, **_resolve(self._values(), os.getcwd())).settings()
        for name in ("data_dir", *_EXAMINATION):
            del resolved[name]
        return resolved | {"order of columns": ", ".join(self.described) or None}

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _NAMES}


_NAMES = tuple(each.name for each in fields(Request))


def _or_absent(value: object) -> str:
    return "left out" if value is None else str(value)


def _text(name: str, value: object) -> str:
    """A text or a path as text, if it is not empty and a file can hold it."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text.strip():
        checks.fail(name, f"[{type(value).__name__}]", "to be text")  # it may be a column
    try:
        text.encode()
    except UnicodeEncodeError:
        checks.fail(name, ascii(text), "to be text in UTF-8")
    return text


def _plain(value: Any) -> Any:
    """The same with lists for whatever is listed, so that equal descriptions are equal."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if hasattr(value, "item") and not getattr(value, "shape", ()):  # a number of numpy's
        return value.item()
    listed = not isinstance(value, str) and hasattr(value, "__len__") and hasattr(value, "__iter__")
    return [_plain(each) for each in value] if listed else value


def _parse(text: str) -> dict[str, Any]:
    """What a study file says, by the names of the settings; their values are checked elsewhere."""
    try:
        given = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
        raise InvalidArgument(f"The study is not valid TOML: {error}.", "study") from None
    keys = [name for name in _NAMES if name != "described"]
    for key in given:
        checks.one_of("key of the study", key, keys)
    columns = given.get("columns")
    if isinstance(columns, Mapping):
        for name, described in columns.items():
            for key in described if isinstance(described, Mapping) else ():
                if key in keys:  # TOML gives every line below [columns.NAME] to that column
                    checks.fail(f"key of column {name}", key, "to stand above [columns.NAME]")
        given["described"] = given.pop("columns")
    elif columns is not None and not isinstance(columns, str):
        checks.fail("columns", columns, "to be the name of a file, or tables")
    return given


def _resolve(settings: Mapping[str, Any], directory: str) -> dict[str, Any]:
    """The same settings with files looked for in `directory`."""

    def place(path: str) -> str:
        return os.path.join(directory, os.path.expanduser(path))

    resolved = dict(settings)
    for name, value in settings.items():
        if not isinstance(value, str):
            continue
        if name in _CODE:
            file, _, thing = value.rpartition(":")
            if file.endswith(".py"):
                resolved[name] = f"{place(file)}:{thing}"
        elif name in _FILES and (name != "data" or names_file(value, directory)):
            resolved[name] = place(value)
    return resolved


def _toml(name: str, value: Any) -> str:
    """A value as TOML; what TOML cannot hold is refused by `name`."""
    from sordino.serialize import refusing, toml  # here: the command line's help does without

    with refusing(f"setting {name}", lambda text: InvalidArgument(text, name)):
        return toml(value)
