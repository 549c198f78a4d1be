"""`sordino measure show`: what a study measured, as tables, figures or JSON."""

from __future__ import annotations

import enum
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sordino import _check
from sordino._files import reason
from sordino.cli.data import DataDir
from sordino.cli.terminal import say

if TYPE_CHECKING:
    from sordino.intrinsic.summary import Summary
    from sordino.intrinsic.utility import Utility


class Format(enum.Enum):
    """What figures are written as."""

    SVG = "svg"
    PNG = "png"


def show(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A study, as `sordino measure` wrote it.")
    ],
    figures: Annotated[
        Path | None,
        typer.Option(metavar="DIR2", help="Draw figures into this directory; it is made."),
    ] = None,
    format: Annotated[Format, typer.Option(help="What figures are written as.")] = Format.SVG,
    delta: Annotated[
        float | None,
        typer.Option(help="Where epsilons are estimated; 1 / n^2 if not given."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON instead of tables.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Show what a study measured: distances, SGD's own noise, and what it would be worth.

    Every epsilon here is an **estimate, not a guarantee**, and all of it is INTERNAL: numbers and
    figures come from the records themselves. Numbers of the papers (Hyland & Tople) are named as
    theirs. A study that is not finished is shown as far as it is whole.

    `sordino measure show study/`

    `sordino measure show study/ --figures figures/ --format png`
    """
    if figures is not None:
        _check_place(figures)
    from sordino.cli.measure_utility import NOT_PRIVATE, held_out, utilities
    from sordino.intrinsic.measured import load
    from sordino.intrinsic.summary import summary
    from sordino.store import StudyError
    from sordino.store.refusal import DamagedCell

    try:
        found = summary(load(directory), delta=delta)
    except DamagedCell as error:
        raise StudyError(f"{error} Run the same sordino measure again with --repair.") from error
    test = held_out(found.measured, data_dir)
    accuracies = {} if isinstance(test, str) else utilities(found, test)
    if json:
        from sordino.cli.findings import print_json
        from sordino.cli.measure_json import document

        utility = {
            "estimated_on": "private",
            "warning": NOT_PRIVATE,
            "missing": test if isinstance(test, str) else None,
            **{name: each.table() for name, each in accuracies.items()},
        }
        print_json({**document(found), "utility": utility})
    else:
        from sordino.cli.measure_tables import print_all
        from sordino.cli.measure_utility import table

        print_all(found, [table(accuracies)] if accuracies else [])
        if isinstance(test, str):
            say(f"No accuracies with noise: {test}.")
    if figures is not None:
        _draw(found, accuracies, figures, format.value, json)


def _check_place(directory: Path) -> None:
    """Refuse, before the work is done, a directory of figures that cannot be made."""
    made = _make(directory)
    _unmake(made)


def _make(directory: Path) -> list[Path]:
    """Make the directory of figures; return what was made for it, the innermost first."""
    made = [each for each in (directory, *directory.parents) if not os.path.lexists(each)]
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        _unmake(made)
        _check.fail("figures", directory, f"to be a directory that can be made ({reason(error)})")
    return made


def _unmake(directories: list[Path]) -> None:
    with suppress(OSError):
        for each in directories:
            each.rmdir()


def _draw(
    found: Summary, accuracies: dict[str, Utility], directory: Path, suffix: str, piped: bool
) -> None:
    from sordino.cli.measure_figures import FIGURES, UTILITY, draw

    made = _make(directory)
    try:
        drawn = draw(found, accuracies, directory, suffix)
    except BaseException:
        _unmake(made)  # if nothing is in it
        raise
    say(f"INTERNAL figures: {', '.join(str(path) for path in drawn)}", err=piped)
    left = {*FIGURES, UTILITY} - {path.stem for path in drawn}
    if left:
        names = ", ".join(sorted(left))
        wanted = "checkpoints, seeds, noise or held-out rows"
        say(f"Not drawn, for want of {wanted}: {names}.", err=piped)
