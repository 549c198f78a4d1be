"""`Request`: what is asked of an assessment, checked before anything is read.

Light to import: names of methods and descriptions of columns are checked by the rooms that know
them, and those are loaded only if there are some.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from sordino import checks
from sordino.assessment import brief_file
from sordino.assessment.effort import EFFORTS, Effort
from sordino.data.source import Source, listed_classes
from sordino.privacy import default_delta

if TYPE_CHECKING:
    from sordino.data.columns import Columns, Label
    from sordino.release.ledger import Ledger


_PROMISELESS = ("none", "majority")


def check_method(name: str) -> str:
    """Return the name of a method that promises something."""
    from sordino.estimators import methods

    if name in _PROMISELESS:
        hint = "It adds no noise; what it would reach is on the page in any case."
        checks.fail("method", name, "to promise something", hint)
    promising = [each for each in methods.NAMES if each not in _PROMISELESS]
    return one_of("method", name, promising)


def one_of(name: str, value: object, allowed: Sequence[str]) -> str:
    """Return `value` if it is one of the names allowed."""
    if not isinstance(value, str):
        checks.fail(name, value, f"to be one of {', '.join(allowed)}")
    return checks.one_of(name, value, allowed)


def text(name: str, value: object, hint: str = "") -> str:
    """Return a text or a path as text, if it is not empty and a file can hold it."""
    found = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(found, str) or not found.strip():
        checks.fail(name, repr(value), "to be text", hint)
    try:
        found.encode()
    except UnicodeEncodeError:
        checks.fail(name, ascii(found), "to be text in UTF-8", hint)
    return found


def inside(name: str, value: float, ends: tuple[float, float], hint: str) -> float:
    """Return `value` as a float if it lies between the two ends, which are at least 0."""
    low, high = ends
    # positive() also refuses what is no number.
    if not low < checks.positive(name, value, hint) < high:
        checks.fail(name, value, f"in ({low:g}, {high:g})", hint)
    return float(value)


def plain(value: Any) -> Any:
    """The same with lists for whatever is listed, so that equal descriptions are equal."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if hasattr(value, "item") and not getattr(value, "shape", ()):  # a number of numpy's
        return value.item()
    listed = not isinstance(value, str) and hasattr(value, "__len__") and hasattr(value, "__iter__")
    return [plain(each) for each in value] if listed else value


def check_budget(path: str | None, dataset: str | None) -> None:
    """Refuse one of the two without the other."""
    if path is None and dataset is not None:
        hint = "Pass the file that `sordino ledger init` made, or leave --dataset out."
        checks.fail_missing("--ledger FILE", "with --dataset", hint)
    if path is not None and dataset is None:
        hint = f"Pass the name of the budget, as `sordino ledger show {path}` lists it."
        checks.fail_missing("--dataset NAME", "with --ledger", hint)


def named_budget(
    path: str | None,
    dataset: str | None,
    *,
    relation: str = "replace-one",
    max_rows_per_person: int = 1,
) -> Ledger | None:
    """The budget of this name, if one is named; it is looked for when it is used."""
    check_budget(path, dataset)
    if path is None or dataset is None:
        return None
    from sordino.release.ledger import Ledger

    rows = max_rows_per_person
    return Ledger(path, dataset=dataset, relation=relation, max_rows_per_person=rows)


MODELS = ("logistic", "svm", "mlp")
NETWORK_METHODS = ("auto", "dp-sgd")
"""How a network is released: no other method is proved for it."""
LEAST_SEEDS, LEAST_NEIGHBOURS, LEAST_RUNS = 20, 2, 64
"""Below these an estimate along one direction, a distance or a test cannot be made."""

_TEXTS = ("target", "columns", "data_dir", "mechanism", "pair", "ledger", "dataset")
_EPSILONS = (1e-301, 1e301)
"""A tenth and ten times of it, on the accuracy's curve, are numbers, too."""
_MOST_ROWS = 10**15
"""Of one person: no proof goes further."""
_LOOKS = ("effort", "seeds", "neighbours", "audit_runs", "confidence")
"""How hard it is looked at: no part of what is released."""
_HEADING = "What was asked; `sordino assess study.toml` asks it again."


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
        The promise; without delta it follows from the number of records.
    ledger, dataset
        The file and the name of the budget that the release is charged to, if any is.
    effort, seeds, neighbours, audit_runs
        How much is trained and attacked; what is None, `effort` decides.
    confidence
        Of what an attack observes.
    mechanism, pair
        "module:name" of a foreign mechanism that is attacked, and nothing else, and of the two
        datasets that it is attacked on.

    Raises
    ------
    InvalidArgument
        For whatever cannot be assessed, in one sentence.
    """

    data: str = "digits/binary"
    target: str | None = None
    classes: str | Sequence[Label] | None = None
    data_norm: float | None = None
    data_dir: str | None = None
    model: str = "logistic"
    method: str = "auto"
    l2: float = 0.001
    epsilon: float = 1.0
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

    # Checks ------------------------------------------------------------------------------

    def __post_init__(self) -> None:
        self._set("data", text("data", self.data, "Pass a dataset's name or a file."))
        for name in _TEXTS:
            if (value := getattr(self, name)) is not None:
                self._set(name, text(name, value))
        self._check_promise()
        check_budget(self.ledger, self.dataset)
        self._check_effort()
        self._check_columns()
        if self.model == "mlp" and self.ledger is not None:
            hint = "Nothing is released of a network."
            checks.fail("ledger", self.ledger, "to be left out for model=mlp", hint)
        if self.mechanism is not None:
            self._check_foreign()
        elif self.pair is not None:
            hint = "Two datasets of your own go with a mechanism of your own."
            checks.fail("pair", self.pair, "to be left out without a mechanism", hint)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_promise(self) -> None:
        one_of("model", self.model, MODELS)
        if self.method != "auto":
            check_method(self.method)
        if self.model == "mlp" and self.method not in NETWORK_METHODS:
            hint = "No other method is proved for a network; leave it out."
            checks.fail("method", self.method, "to be dp-sgd for model=mlp", hint)
        hint = "Pass the budget you promise, such as 1.0."
        self._set("epsilon", inside("epsilon", self.epsilon, _EPSILONS, hint))
        if self.delta is not None:
            hint = "1e-6 is usual; left out, it follows from the number of records."
            pure = self.mechanism is not None and self.delta == 0  # a claim of its own
            delta = 0.0 if pure else inside("delta", self.delta, (0.0, 1.0), hint)
            self._set("delta", delta)
        hint = "Pass the regulariser's weight, such as 0.001."
        self._set("l2", checks.non_negative("l2", self.l2, hint))
        hint = "Pass how many rows one person may have."
        rows = checks.whole("max_rows_per_person", self.max_rows_per_person, hint, at_least=1)
        if rows > _MOST_ROWS:
            checks.fail("max_rows_per_person", rows, f"<= {_MOST_ROWS}", hint)
        self._set("max_rows_per_person", rows)
        if self.data_norm is not None:
            hint = "Pass a norm that you know without looking at the data, such as 1.0."
            self._set("data_norm", inside("data_norm", self.data_norm, (1e-30, 1e30), hint))

    def _check_effort(self) -> None:
        one_of("effort", self.effort, tuple(EFFORTS))
        self._whole("seeds", LEAST_SEEDS, "Fewer do not show how one direction varies.")
        self._whole("neighbours", LEAST_NEIGHBOURS, "A distance needs two datasets.")
        self._whole("audit_runs", LEAST_RUNS, "Half of them learn the attack, half test it.")
        hint = "0.99 is usual."
        self._set("confidence", inside("confidence", self.confidence, (0.5, 1.0), hint))

    def _whole(self, name: str, at_least: int, hint: str) -> None:
        if (value := getattr(self, name)) is not None:
            self._set(name, checks.whole(name, value, hint, at_least=at_least))

    def _check_columns(self) -> None:
        """Make the description plain values, and have it checked by whoever uses it."""
        checks.flag("read_from_data", self.read_from_data)
        if not isinstance(self.described, Mapping):
            hint = 'Pass {"age": {"bounds": [0, 120]}}, say.'
            checks.fail("described", self.described, "to be tables by name", hint)
        if self.columns is not None and (self.described or self.read_from_data):
            hint = "Describe the columns in that file, or in the study, not in both."
            checks.fail("columns", self.columns, "to be left out", hint)
        self._set("described", {str(name): plain(each) for name, each in self.described.items()})
        if isinstance(self.classes, str):
            self._set("classes", listed_classes(self.classes))
        elif self.classes is not None:
            self._set("classes", plain(checks.sequence("classes", self.classes)))
        if self.classes is not None:
            from sordino.data.columns import Columns

            # By the text of a file, so that it is checked, and said what is wrong, as in one.
            text = brief_file.written("", {"classes": self.classes})
            self._set("classes", Columns.from_toml(text).classes)
        if self.described:
            self.public_columns()

    def _check_foreign(self) -> None:
        """What would be ignored is refused."""
        hint = "A mechanism of your own is attacked, and nothing else."
        ignored = ["model", "method", "l2", "max_rows_per_person", "seeds", "neighbours", "ledger"]
        if self.pair is not None:
            hint = "The two datasets come from the pair."
            ignored = ["data", "target", "classes", "data_norm", "columns", "described", *ignored]
        for name in ignored:
            if getattr(self, name) != getattr(_DEFAULT, name):
                with_ = "mechanism" if self.pair is None else "pair"
                checks.fail(name, getattr(self, name), f"to be left out with a {with_}", hint)
        for name in ("mechanism", "pair"):
            if (value := getattr(self, name)) is not None and ":" not in value:
                hint = "Pass package.module:name or file.py:name."
                checks.fail(name, value, "to have a colon between the module and the name", hint)

    # The records -------------------------------------------------------------------------

    def public_columns(self) -> Columns:
        """What the study itself says about a file's columns."""
        from sordino.data.columns import Column, Columns

        columns = {name: Column.of(name, each) for name, each in self.described.items()}
        classes = None if self.classes is None else tuple(self.classes)
        return Columns(self.target, classes, columns, self.read_from_data)

    def source(self) -> Source:
        """Where the records come from.

        Raises
        ------
        InvalidArgument
            If there is no such dataset or file, or not all is said about it.
        """
        columns: str | Columns | None = self.columns
        classes = None
        if self.described or self.read_from_data:
            columns = self.public_columns()
        elif self.classes is not None:
            classes = tuple(self.classes)
        return Source(self.data, self.target, columns, classes, self.data_norm, self.data_dir)

    def book(self) -> Ledger | None:
        """The budget that the release is charged to, if one is named."""
        rows = self.max_rows_per_person
        return named_budget(self.ledger, self.dataset, max_rows_per_person=rows)

    def delta_and_reason(self, rows: int | None) -> tuple[float, str]:
        """Delta for so many records, and where it comes from: a sentence or two.

        Parameters
        ----------
        rows
            Records trained on; None if nobody knows, as of a foreign pair.
        """
        if self.delta is not None:
            if rows is None or self.delta <= 0.1 / rows:
                return self.delta, "As given."
            return self.delta, (
                f"As given, and too large to mean much: it is above 0.1 / N for N = {rows:,} "
                "records, and publishing one record at random has delta = 1 / N."
            )
        if rows is None:
            return default_delta(rows), "A usual value, since the number of records is not known."
        return default_delta(rows), (
            f"1 / N^2 for N = {rows:,} records, rounded down to one digit: far below 1 / N, the "
            "chance of each person to be laid bare if one record at random were published."
        )

    # How much ----------------------------------------------------------------------------

    @property
    def _effort(self) -> Effort:
        return EFFORTS[self.effort]

    @property
    def grid_seeds(self) -> int:
        """Seeds of the grid that measures SGD's own noise."""
        return self.seeds or self._effort.seeds

    @property
    def grid_neighbours(self) -> int:
        """Neighbouring datasets of that grid."""
        return self.neighbours or self._effort.neighbours

    @property
    def most_audit_runs(self) -> int:
        """Runs of an attack in each world, at most."""
        return self.audit_runs or self._effort.audit_runs

    @property
    def repeats(self) -> int:
        """Releases that show how much accuracy varies."""
        return self._effort.repeats

    @property
    def curve_epsilons(self) -> tuple[float, ...]:
        """Epsilons of the accuracy's curve: from a tenth of the target to ten times as much."""
        points = self._effort.points
        powers = [2 * place / (points - 1) - 1 for place in range(points)]
        return tuple(
            self.epsilon if power == 0 else float(f"{self.epsilon * 10**power:.2g}")
            for power in powers
        )

    # As a file ---------------------------------------------------------------------------

    @property
    def runs_code(self) -> bool:
        """Whether it names a mechanism of the user's own, which is imported and run."""
        return self.mechanism is not None and not self.mechanism.startswith("gallery:")

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read a study file; files that it names are looked for beside it."""
        given = brief_file.parsed(brief_file.text_of(path), _NAMES)
        return cls(**brief_file.beside(path, given))

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Read the text of such a file."""
        return cls(**brief_file.parsed(text, _NAMES))

    def to_toml(self) -> str:
        """Write such a file, with files by their full paths: it means the same everywhere."""
        return brief_file.written(_HEADING, brief_file.in_full(self._values()))

    @staticmethod
    def template() -> str:
        """A study file to edit, which explains every setting and asks what `Request()` asks."""
        return brief_file.TEMPLATE

    def with_options(self, **given: Any) -> Self:
        """The same with other settings; None leaves one as it is."""
        changed = {name: value for name, value in given.items() if value is not None}
        for name in changed:
            checks.one_of("setting", name, _NAMES)
        if "columns" in changed:
            changed = {"described": {}, "read_from_data": False, **changed}
        return dataclasses.replace(self, **changed)

    def default_directory(self) -> str:
        """Where the study goes if nobody says: named after what is assessed."""
        if self.mechanism is not None:
            parts = [self.mechanism]
        else:
            data = os.path.basename(self.data).split(".")[0] if "." in self.data else self.data
            parts = [data, self.model, f"epsilon-{self.epsilon:g}"]
        return re.sub(r"[^A-Za-z0-9_.]+", "-", "-".join(["assessment", *parts])).strip("-.")

    def settings(self) -> dict[str, str | int | float | bool | None]:
        """Every setting as a plain value, for a page; columns as "columns.NAME"."""
        found = {name: _shown(value) for name, value in self._values().items()}
        del found["described"]
        for name, column in self.described.items():
            said = [f"{key} = {brief_file.toml_value(name, each)}" for key, each in column.items()]
            found[f"columns.{name}"] = ", ".join(said)
        return found

    def differences(self, other: Request) -> list[str]:
        """What makes another release than that of `other`, a phrase each, with both values.

        Where raw files are does not count, since their content is checked; nor how hard it is
        looked at, which may change without another release (`redone`).
        """
        mine, theirs = self._compared(), other._compared()
        names = dict.fromkeys((*mine, *theirs))
        return [
            f"{name} is {_said(mine.get(name))} here and {_said(theirs.get(name))} there"
            for name in names
            if mine.get(name) != theirs.get(name)
        ]

    def redone(self, other: Request) -> list[str]:
        """Stages that must be done again after those of `other`, as they look harder or less so."""
        mine, theirs = self._looks(), other._looks()
        return [stage for stage in mine if mine[stage] != theirs[stage]]

    def _looks(self) -> dict[str, tuple[object, ...]]:
        """What each stage depends on beside the release; one that is not named, on nothing."""
        grid = self.effort, self.seeds, self.neighbours
        attack = self.audit_runs or self.effort, self.confidence
        measured = dict.fromkeys(("own_noise", "release_estimate"), grid)
        attacked = dict.fromkeys(("attack_release", "attack_plain", "attack_mechanism"), attack)
        return measured | attacked | {"release": (self.effort,)}

    def _compared(self) -> dict[str, str | int | float | bool | None]:
        resolved = dataclasses.replace(self, **brief_file.in_full(self._values())).settings()
        for name in ("data_dir", *_LOOKS):
            del resolved[name]
        return resolved | {"order of columns": ", ".join(self.described) or None}

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _NAMES}


def _shown(value: Any) -> Any:
    return brief_file.toml_value("", value) if isinstance(value, tuple) else value


def _said(value: object) -> str:
    return "left out" if value is None else str(value)


_NAMES = tuple(each.name for each in dataclasses.fields(Request))
_DEFAULT = Request()
