"""`StageBars`: how far an assessment has come, one bar a stage, with the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sordino.cli.terminal import line, words_of_bar

if TYPE_CHECKING:
    from sordino.cli.screen import Screen

_WIDTH = 38


class StageBars:
    """A bar for the stage that runs, if somebody watches; a line for each that is over."""

    def __init__(self, console: Screen) -> None:
        self._console = console
        self._bar: Any = None
        self._task: Any = None
        self._words = ""
        self._total = 0.0

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Draw bars on a terminal."""
        if not self._console.is_terminal:
            yield
            return
        from rich.progress import BarColumn, Progress, TaskProgressColumn
        from rich.progress import TimeRemainingColumn as Left

        columns = (words_of_bar(), BarColumn(), TaskProgressColumn(), Left())
        with Progress(*columns, console=self._console, transient=True) as self._bar:
            yield
        self._bar = None

    def begin(self, stage: str, words: str) -> Callable[[int, int], None]:
        """A stage begins; call what is returned with (done, total)."""
        self._words = words
        if self._bar is None:
            return lambda done, total: None
        task = self._task = self._bar.add_task(words, total=None)
        return lambda done, total: self._bar.update(task, completed=done, total=total)

    def end(self, stage: str, seconds: float, *, resumed: bool) -> None:
        """A stage is over."""
        if self._bar is not None:
            self._bar.remove_task(self._task)
        self._total += 0.0 if resumed else seconds
        taken = "done before" if resumed else f"{seconds:.1f} s"
        line(self._console, f"{self._words:{_WIDTH}} {taken}")
        if stage == "report":
            line(self._console, f"{'in all':{_WIDTH}} {self._total:.1f} s")
