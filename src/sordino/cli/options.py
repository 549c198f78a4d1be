"""Options that several commands have: each is declared, and explained, once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from inspect import Parameter
from typing import Annotated, Any, get_type_hints

import typer

from sordino import checks
from sordino.privacy import Relation

RECORDS, PROMISE, TRAINING, ATTACK, OUTPUT = (
    "The records",
    "The promise",
    "The training",
    "The attack",
    "Output",
)
"""Panels of the help that several commands have."""


class ModelName(StrEnum):
    """What is trained, where it is released."""

    LOGISTIC = "logistic"
    SVM = "svm"


def option(panel: str | None, help: str, *names: str, **more: Any) -> Any:
    """What the help says of an option, and in which panel."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


def flag(panel: str | None, name: str, help: str) -> Any:
    """An option that is there or not: without its opposite, which Typer would add."""
    return option(panel, help, name)


def _check_plot(path: str | None) -> str | None:
    """Refuse a figure that could not be drawn or written, before the work is done."""
    if path is not None:
        from sordino.report import figures

        figures.check_path(path)
    return path


_DATA = option(
    RECORDS,
    "A dataset of `sordino data list`, or your own file: .csv, .csv.gz or .parquet.",
    metavar="NAME|FILE",
)
Data = Annotated[str, _DATA]
OptionalData = Annotated[str | None, _DATA]
Target = Annotated[str | None, option(RECORDS, "A file's column to predict.", metavar="COLUMN")]
Classes = Annotated[str | None, option(RECORDS, "The labels there can be.", metavar="A,B,...")]
ColumnsFile = Annotated[
    str | None,
    option(
        RECORDS,
        "What is publicly known of a file's columns: bounds, levels, classes. Without it they are "
        "read off the rows, a leak that a certificate and a page name. `sordino data describe` "
        "drafts one to edit.",
        metavar="FILE.toml",
    ),
]
DataNorm = Annotated[
    float | None,
    option(
        RECORDS,
        "Public bound on a row's norm, the intercept's 1 included; longer rows are scaled down. "
        "Default: 1 for a file, the declared bound for a dataset.",
    ),
]
DataDir = Annotated[
    str | None,
    option(
        RECORDS,
        "Directory with the raw files of a dataset; only read. Default: SORDINO_DATA, if set.",
        "--data-dir",
        metavar="DIR",
    ),
]


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """Where records come from, where they need not be named."""

    data: OptionalData = None
    target: Target = None
    columns: ColumnsFile = None
    classes: Classes = None
    data_norm: DataNorm = None
    data_dir: DataDir = None


_MODEL = "What is trained."
_METHOD = "How; **auto** chooses by public facts. docs/release.md has the list."
L2_HELP = "Weight of (l2/2) ||w||^2."
Model = Annotated[ModelName, option(PROMISE, _MODEL)]
Method = Annotated[str, option(PROMISE, _METHOD)]
OptionalMethod = Annotated[str | None, option(PROMISE, f"{_METHOD} Default: auto.")]
L2 = Annotated[float, option(PROMISE, L2_HELP, "--l2")]
OptionalL2 = Annotated[float | None, option(PROMISE, f"{L2_HELP} Default: 0.001.", "--l2")]
Delta = Annotated[
    float | None,
    option(
        PROMISE,
        "Default: 1 / rows^2, rounded down to one digit, far below the 1 / rows at which giving "
        "one record away would count as private; 1e-5 where the rows are not known.",
    ),
]
RelationOption = Annotated[
    str,
    option(
        PROMISE,
        "Who is a neighbour: **replace-one**, **zero-out** or **add-or-remove-one**.",
        "--relation",
        metavar="RELATION",
    ),
]
PublicRows = Annotated[
    int | None,
    option(PROMISE, "A public number near that of the rows, for add-or-remove-one."),
]
_ROWS_PER_PERSON = option(
    PROMISE, "All rows of one person are protected together: the most there are.", metavar="K"
)
RowsPerPerson = Annotated[int, _ROWS_PER_PERSON]
OptionalRowsPerPerson = Annotated[int | None, _ROWS_PER_PERSON]
LedgerFile = Annotated[
    str | None,
    option(
        PROMISE,
        "Charge the release to a budget in this file; `sordino ledger init` makes it. Asked before "
        "any work, charged once.",
        metavar="FILE",
    ),
]
DatasetName = Annotated[str | None, option(PROMISE, "Whose budget; with --ledger.", metavar="NAME")]

_CONFIDENCE = "With which the lower bound holds."
Confidence = Annotated[float, option(ATTACK, _CONFIDENCE)]
OptionalConfidence = Annotated[float | None, option(ATTACK, f"{_CONFIDENCE} Default: 0.99.")]
Seed = Annotated[int, option(ATTACK, "Of the experiment; your estimator draws its own noise.")]
Json = Annotated[bool, flag(OUTPUT, "--json", "Print JSON instead of words.")]
Plot = Annotated[
    str | None,
    option(OUTPUT, "Draw to this file (.png, .svg, .pdf).", metavar="FILE", callback=_check_plot),
]

_SYNONYMS = {"add-remove": "add-or-remove-one", "replace": "replace-one"}
"""What others call a relation."""


def relation(name: str, option: str = "relation") -> Relation:
    """The relation that was typed."""
    word = _SYNONYMS.get(name.lower(), name.lower())
    return Relation(checks.one_of(option, word, [each.value for each in Relation]))


def from_fields(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command have the fields of each parameter that is a dataclass as options of its own.

    So what several commands ask together, or one command hands on as a whole, is listed once: as
    the fields of that class.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[Parameter] = []
    for name, own in inspect.signature(command).parameters.items():
        if name not in groups:
            parameters.append(own.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name]))
            continue
        kinds = get_type_hints(groups[name], include_extras=True)
        for field in fields(groups[name]):
            default = Parameter.empty if field.default is MISSING else field.default
            how = {"default": default, "annotation": kinds[field.name]}
            parameters.append(Parameter(field.name, Parameter.KEYWORD_ONLY, **how))

    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    functools.update_wrapper(run, command)
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
