"""The one way to a terminal: whatever a command prints goes through here, and is cleaned here.

Much of it is somebody else's: texts of a certificate or a study, names of columns and files, what a
foreign mechanism raised. What a terminal would act on (escapes, controls, marks that turn writing
around), what nobody sees, and line breaks inside a sentence come out as visible escapes, and none
of it is markup. `tests/test_architecture.py` holds that no command prints in another way.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import typer

from sordino._files import reason
from sordino.errors import NotApplicable, Refused, filled, printable

if TYPE_CHECKING:
    from sordino.cli.screen import Screen

PIPE = 400
"""A pipe has no width: lines are left whole, for grep and people's logs."""
_STAGE = 38
"""Columns for the words of a stage."""
_COLUMNS: dict[str, dict[str, Any]] = {
    "l": {"no_wrap": True},
    "r": {"no_wrap": True, "justify": "right"},
    "L": {},
    "R": {"justify": "right"},
    "W": {"ratio": 1},
}
"""Columns of a table: left, right, the same with wrapped cells, and one that takes what is left."""


def say(*lines: object, err: bool = False, hang: bool = False) -> None:
    """Print each as one line, whatever it holds.

    With `hang` a terminal gets what is too wide for it indented, so that nothing that follows a
    stranger's long text begins a line as a sentence of ours does.
    """
    with suppress(OSError) if err else nullcontext():  # then there is nobody to tell
        for each in lines:
            text = printable(each)
            stream = sys.stderr if err else sys.stdout
            watched = stream is not None and stream.isatty()  # a shell can close it
            typer.echo(_hanging(text) if hang and watched else text, err=err)


def _hanging(text: str) -> str:
    return filled(text, max(shutil.get_terminal_size().columns, 20), then="    ")


def block(text: str) -> None:
    """Print a text of ours in several lines, such as JSON, TOML or a page; it ends in one.

    Its line breaks are kept: whoever made it has escaped those that were inside a field.
    """
    typer.echo("\n".join(printable(each) for each in text.split("\n")), nl=False)


def print_json(document: Any) -> None:
    """Print JSON; an infinite number as 1e999, which every reader takes for infinity."""
    block(json.dumps(document, indent=2).replace("Infinity", "1e999") + "\n")


def print_table(
    console: Screen,
    columns: Iterable[tuple[str, str]],
    rows: Iterable[Sequence[str]],
    styles: Iterable[str | None] | None = None,
) -> None:
    """Print a table: columns by heading and kind (see `_COLUMNS`), rows of cells, their styles."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, kind in columns:
        table.add_column(heading, **_COLUMNS[kind])
    looks = iter(styles or ())
    for row in rows:
        table.add_row(*row, style=next(looks, None))
    console.print(table)


def ask(what: str, *, twice: bool = False) -> str:
    """Ask for a secret, on standard error."""
    asked = typer.prompt(printable(what), hide_input=True, confirmation_prompt=twice, err=True)
    return str(asked)


def screen(pipe: int = PIPE) -> Screen:
    """Standard output for tables and wrapped text; `pipe` columns wide if it is no terminal."""
    from sordino.cli.screen import Screen

    found = Screen()
    return found if found.is_terminal else Screen(width=pipe)


def errors() -> Screen:
    """Where progress is shown: standard error, so that output can be piped."""
    from sordino.cli.screen import Screen

    return Screen(stderr=True)


def line(console: Screen, text: str) -> None:
    """Print a line whole, as written: a terminal wraps it, and a log wants it in one piece."""
    console.print(text, highlight=False, soft_wrap=True)


@contextmanager
def bar(words: str, console: Screen | None = None) -> Iterator[Callable[..., None]]:
    """A bar with the time left, if standard error is a terminal: call it (done, total).

    It takes `words=`, too: others than those it began with.
    """
    console = errors() if console is None else console
    if not console.is_terminal:
        yield lambda done, total, words="": None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), TaskProgressColumn(), Left())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(words, total=None)

        def show(done: int, total: int, words: str = words) -> None:
            progress.update(task, completed=done, total=total, description=words)

        yield show


class StageBars:
    """A bar for the stage that runs, if somebody watches; a line for each that is over."""

    def __init__(self, console: Screen) -> None:
        self._console = console
        self._bars = ExitStack()
        self._words = ""
        self._total = 0.0

    @contextmanager
    def shown(self) -> Iterator[None]:
        """No bar outlives this."""
        with self._bars:
            yield

    def begin(self, stage: str, words: str) -> Callable[[int, int], None]:
        """A stage begins; call what is returned with (done, total)."""
        self._words = words
        return self._bars.enter_context(bar(words, self._console))

    def end(self, stage: str, seconds: float, *, resumed: bool) -> None:
        """A stage is over."""
        self._bars.close()
        self._total += 0.0 if resumed else seconds
        taken = "done before" if resumed else f"{seconds:.1f} s"
        line(self._console, f"{self._words:{_STAGE}} {taken}")
        if stage == "report":
            line(self._console, f"{'in all':{_STAGE}} {self._total:.1f} s")


@contextmanager
def busy(console: Screen, what: str) -> Iterator[None]:
    """Show that something goes on, if somebody is watching."""
    with console.status(console.render_str(what)) if console.is_terminal else nullcontext():
        yield


@contextmanager
def plain_warnings(console: Screen | None = None) -> Iterator[None]:
    """Show warnings as one line on standard error, without the place in the code.

    With a `console` they stand above what moves there, also those that were shown before.
    """

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, DeprecationWarning):  # libraries tell each other
            return
        if console is None:
            say(f"Warning: {message}", err=True, hang=True)
        else:
            line(console, f"Warning: {message}")

    with warnings.catch_warnings():
        if console is not None:
            warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


@contextmanager
def kept(what: str) -> Iterator[None]:
    """Say `what` is on the disk if what is printed from here on does not arrive."""
    try:
        yield
    except OSError as error:
        error.add_note(what)
        raise


def unprinted(error: OSError) -> str:
    """That standard output takes no more, and what is kept all the same; or nothing."""
    try:
        typer.echo()  # the error may have come from elsewhere
    except OSError as full:
        # Nor will it when Python ends, which would say so in its own words.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        said = f"The output could not be printed: {reason(full)}."
        return " ".join([said, *getattr(error, "__notes__", ())])
    return ""


@contextmanager
def resumable(how: Callable[[], str]) -> Iterator[None]:
    """At Ctrl-C say that it was stopped and `how` to go on: exit code 130."""
    try:
        yield
    except KeyboardInterrupt as stop:
        say(f"{stopped(stop)} {how()}".rstrip(), err=True)
        raise typer.Exit(130) from None


@contextmanager
def wrong_input() -> Iterator[None]:
    """Records that cannot be used, and what is refused, are wrong input here: exit code 2."""
    try:
        yield
    except Exception as error:
        # Loaded only now: help and accounting do without the data room.
        from sordino.data import DataError

        if not isinstance(error, DataError | NotApplicable | Refused):
            raise
        say(str(error), err=True)
        raise typer.Exit(2) from None


def stopped(stop: KeyboardInterrupt) -> str:
    """That it was stopped, and what that cost if a release was recorded."""
    return " ".join(["Stopped.", *getattr(stop, "__notes__", ())])
