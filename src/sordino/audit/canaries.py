"""Canaries for a training too expensive to repeat: one run, many records of one's own.

Draw them, train ONCE on the data with the included ones appended, score every canary by the
result, and ask for the bound::

    canaries = make_canaries(1000, columns=784, norm=1.0, classes=10)
    canaries.save("canaries.npz")          # the coins exist nowhere else
    X_in, y_in = canaries.included_rows()  # append to the training data, then train
    canaries = Canaries.load("canaries.npz")
    plain, gaussian = canaries.bound(-losses, delta=1e-5, confidence=0.95)

Formal guarantee
----------------
That of `one_run`, for adding or removing one record: whoever trains must not look at the coins
but through the included rows, scores must come from the released output and the canaries (in and
out alike) alone, and the number of guesses must be fixed before the scores are seen.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from sordino import _check, _files, seeding
from sordino.audit.bounds import checked_scores
from sordino.audit.one_run import f_dp_one_run, steinke
from sordino.privacy import Observation, Refused
from sordino.store.refusal import UNREADABLE
from sordino.types import Floats, Ints

_FORMAT = 1
_GUESSED = 5
"""One canary in so many is guessed, unless asked otherwise: good for weak and strong signals."""
_INWARD = 1 - 2.0**-48
"""So that no rounding takes a canary's norm above the bound."""


class CanaryFileError(Refused):
    """A file of canaries that cannot be written or read as asked."""


@dataclass(frozen=True, eq=False)
class Canaries:
    """Records, and for each the coin that says whether it belongs to the training data.

    Parameters
    ----------
    X, y
        One row a canary and its label, included or not.
    included
        The coins. Secret until the scores are fixed.
    norm
        The bound that every row keeps.
    """

    X: Floats
    y: Ints
    included: npt.NDArray[np.bool_] = field(repr=False)
    norm: float

    def __post_init__(self) -> None:
        X = np.asarray(self.X, dtype=np.float64)
        y, included = np.asarray(self.y), np.array(self.included)
        if X.ndim != 2 or 0 in X.shape:
            _check.fail("X.shape", X.shape, "to be (canaries, columns), both above 0")
        for name, values in (("y", y), ("included", included)):
            if values.shape != (len(X),):
                _check.fail(f"{name}.shape", values.shape, f"to be ({len(X)},), one a canary")
        if included.dtype != np.bool_:
            _check.fail("included.dtype", included.dtype, "to be bool")
        if not np.issubdtype(y.dtype, np.integer):
            _check.fail("y.dtype", y.dtype, "to be whole numbers")
        _check.finite("X", X)
        object.__setattr__(self, "norm", _check.positive("norm", self.norm))
        for name, kept in (("X", X.copy()), ("y", y.astype(np.int64)), ("included", included)):
            object.__setattr__(self, name, kept)

    def __len__(self) -> int:
        return len(self.X)

    def included_rows(self) -> tuple[Floats, Ints]:
        """X and y of the canaries to append to the training data."""
        return self.X[self.included], self.y[self.included]

    def guess(self, scores: npt.ArrayLike, guesses: int | None = None) -> Ints:
        """1 for the highest scores ("in"), -1 for the lowest ("out"), 0 for the rest: no guess.

        Equal scores are told apart by the canaries' order, which knows nothing of the coins.
        """
        scores = checked_scores("scores", scores)
        if len(scores) != len(self):
            hint = "Score included and excluded canaries alike, in the order of X."
            _check.fail("len(scores)", len(scores), f"== {len(self)}, one a canary", hint)
        guesses = self.default_guesses if guesses is None else _check.whole("guesses", guesses)
        if guesses > len(self):
            _check.fail("guesses", guesses, f"<= {len(self)}, the number of canaries")
        order = np.argsort(scores, kind="stable")
        found = np.zeros(len(self), dtype=np.int64)
        found[order[: guesses // 2]] = -1
        found[order[len(self) - (guesses + 1) // 2 :]] = 1
        return found

    @property
    def default_guesses(self) -> int:
        """How many canaries are guessed if nothing else was fixed: a fifth, half each way."""
        return min(len(self), max(2, 2 * (len(self) // (2 * _GUESSED))))

    def bound(
        self,
        scores: npt.ArrayLike,
        *,
        delta: float,
        confidence: float,
        guesses: int | None = None,
        attack: str = "",
    ) -> tuple[Observation, ...]:
        """Lower bounds on epsilon: without a hypothesis, and (at delta > 0) if Gaussian.

        Parameters
        ----------
        scores
            One a canary, in the order of X; higher says "it was in". Minus the loss will do.
        guesses
            How many canaries to guess, half in and half out; to be fixed before the scores are
            seen. More pay off where most canaries are told apart; a fifth of them if None.
        attack
            What gave the scores, for the text.
        """
        told = self.guess(scores, guesses)
        counts = len(self), int(np.count_nonzero(told)), self._right(told)
        relation = f"canaries of norm {self.norm:g} added or left out by a coin (add-or-remove-one)"
        said = f"{attack}; {relation}" if attack else relation
        plain = steinke(*counts, delta=delta, confidence=confidence, attack=said)
        if delta == 0:
            return (plain,)
        return plain, f_dp_one_run(*counts, delta=delta, confidence=confidence, attack=said)

    def _right(self, told: Ints) -> int:
        truth = np.where(self.included, 1, -1)
        return int(np.count_nonzero((told == truth) & (told != 0)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write canaries and coins; an existing file is never overwritten: its coins may be due."""
        target = Path(path)
        made = io.BytesIO()
        np.savez(
            made,
            format=np.int64(_FORMAT),
            X=self.X,
            y=self.y,
            included=self.included,
            norm=np.float64(self.norm),
        )
        try:
            # For its owner alone: who has the coins can score perfectly.
            _files.write(target, made.getvalue(), new=True)
        except FileExistsError:
            hint = "Its coins may belong to a training under way; choose another name."
            raise CanaryFileError(f"Expected path={target} to be a new file. {hint}") from None
        except OSError as error:
            reason = _files.reason(error)
            raise CanaryFileError(f"Expected path={target} to be writable: {reason}.") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote."""
        target = Path(path)
        try:
            with _files.opened(target) as file, np.load(file, allow_pickle=False) as held:
                if int(held["format"]) != _FORMAT:
                    raise ValueError(f"format {int(held['format'])}")
                return cls(held["X"], held["y"], held["included"], float(held["norm"]))
        except OSError as error:
            reason = _files.reason(error)
            raise CanaryFileError(f"Expected path={target} to be readable: {reason}.") from error
        except UNREADABLE as error:
            hint = "Pass a file that Canaries.save wrote."
            message = f"Expected path={target} to hold canaries of format {_FORMAT}. {hint}"
            raise CanaryFileError(message) from error


def make_canaries(
    canaries: int, columns: int, norm: float, classes: int, *, seed: int | None = None
) -> Canaries:
    """Draw extreme records: random directions at the full norm, random labels, one coin each.

    In many columns random directions are all but orthogonal, so one canary does not hide another.

    Parameters
    ----------
    canaries
        How many. The more, the more can be shown, and the more they disturb the model: about half
        join the training data.
    columns, classes
        Width of a row, and labels 0..classes-1.
    norm
        The bound on a record's norm that the mechanism assumes.
    seed
        For experiments that are to be repeated. None, the default, asks the operating system: who
        knows the seed knows the coins.
    """
    canaries = _check.whole("canaries", canaries, "Hundreds are usual.", at_least=2)
    columns = _check.whole("columns", columns, at_least=1)
    classes = _check.whole("classes", classes, at_least=2)
    norm = _check.positive("norm", norm)
    streams = seeding.OsStreams() if seed is None else seeding.SeededStreams()
    name = ("canaries", 0 if seed is None else _check.whole("seed", seed))
    X = streams.stream(*name, "directions").standard_normal((canaries, columns))
    X *= norm * _INWARD / np.linalg.norm(X, axis=1, keepdims=True)
    y = streams.stream(*name, "labels").integers(classes, size=canaries)
    included = streams.stream(*name, "coins").integers(2, size=canaries) == 1
    return Canaries(X, y, included, norm)
