"""`Numbers`, `Answer` and `Quantities`: what a run left, and what claims ask of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sordino.types import Array

Numbers = Mapping[str, Array]
"""What a run left, by name: plain arrays of numbers or strings, kept as one .npz file."""


@dataclass(frozen=True)
class Answer:
    """Our number.

    Parameters
    ----------
    value
        It.
    low, high
        Its 95 % interval, where our own runs give one; None where it is exact or, as a maximum,
        has none.
    words
        Anything a reader must know to read it, such as a count: "3 of 72".
    """

    value: float
    low: float | None = None
    high: float | None = None
    words: str = ""

    @classmethod
    def share(cls, cases: Array) -> Answer:
        """How many of these cases are so."""
        many = int(cases.sum())
        return cls(many / cases.size, words=f"{many:,} of {cases.size:,}")


class Quantities:
    """What claims may ask of the runs of one kind: every public method of a subclass, by its name.

    Parameters
    ----------
    runs
        The numbers of the claim's runs, in order.

    Examples
    --------
    >>> import numpy as np
    >>> class Sums(Quantities):
    ...     held = {"first": "b"}
    ...     def total(self, times=1.0):
    ...         return times * self["a"].sum()
    >>> sums = Sums({"a": np.array([1.0, 2.0, 3.0]), "b": np.array(1.0)})
    >>> sums.ask("total", times=2).value, sums.ask("first").value
    (12.0, 1.0)
    """

    held: ClassVar[Mapping[str, str]] = {}
    """Quantities that are a number of the run itself: its name there."""

    def __init__(self, *runs: Numbers) -> None:
        self.runs = runs

    def __getitem__(self, name: str) -> Array:
        """A number of the first run."""
        return self.runs[0][name]

    @classmethod
    def names(cls) -> list[str]:
        """Every quantity of this kind."""
        own = (name for name in vars(cls) if not name.startswith("_") and name != "held")
        return [*cls.held, *own]

    def ask(self, name: str, **arguments: Any) -> Answer:
        """The answer to one quantity."""
        if name in self.held:
            return Answer(float(self[self.held[name]]))
        answer = getattr(self, name)(**arguments)
        return answer if isinstance(answer, Answer) else Answer(float(answer))


def registry() -> dict[str, type[Quantities]]:
    """The class that answers each quantity."""
    from sordino_papers import datasets
    from sordino_papers.erm.quantities import ErmQuantities
    from sordino_papers.sgd_noise.quantities import GridQuantities, NoiseQuantities
    from sordino_papers.theory.formulas import FormulaQuantities
    from sordino_papers.theory.hidden_state import HiddenStateQuantities

    known: dict[str, type[Quantities]] = {}
    kinds = (datasets.DatasetQuantities, GridQuantities, NoiseQuantities, ErmQuantities)
    for kind in (*kinds, FormulaQuantities, HiddenStateQuantities):
        for name in kind.names():
            assert name not in known, f"two quantities called {name}"
            known[name] = kind
    return known


def drawings() -> dict[str, Callable[..., Any]]:
    """Every drawing by name: from the `Numbers` of its runs and arguments to a figure."""
    from sordino_papers.erm import figures as erm
    from sordino_papers.sgd_noise import figures as sgd_noise
    from sordino_papers.theory import figures as theory

    return {**sgd_noise.DRAWINGS, **erm.DRAWINGS, **theory.DRAWINGS}
