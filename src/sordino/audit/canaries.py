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
m canaries are included independently with probability 1/2 each. From the output alone r of them
are guessed in or out, v rightly; how many are guessed was fixed beforehand. If the mechanism is
(epsilon, delta)-DP for adding or removing one record, a bound here exceeds epsilon with
probability at most 1 - confidence. `f_dp_one_run` adds the hypothesis that it is mu-GDP.

| case | what happens |
|---|---|
| no guess, or no more right than wrong | epsilon >= 0 |
| every guess right | finite: r right guesses show about ln(r / ln(1/level)) at most |
| 2 m delta above the level | epsilon >= 0: delta counts once for every canary, guessed or not |
| delta = 0 | pure DP; refused under the Gaussian hypothesis |

Whoever trains must not look at the coins but through the included rows, scores must come from the
released output and the canaries (in and out alike) alone, and the number of guesses must be fixed
before the scores are seen.
"""

from __future__ import annotations

import io
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, gammaln, ndtr, ndtri

from sordino import _files, checks, randomness
from sordino.accounting import gaussian
from sordino.audit.bounds import GAUSSIAN_HYPOTHESIS, by, checked_scores, level_of, positive_delta
from sordino.errors import Refused
from sordino.privacy import Observation
from sordino.study.files import UNREADABLE
from sordino.types import Floats, Ints

_FORMAT = 1


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
            checks.fail("X.shape", X.shape, "to be (canaries, columns), both above 0")
        for name, values in (("y", y), ("included", included)):
            if values.shape != (len(X),):
                checks.fail(f"{name}.shape", values.shape, f"to be ({len(X)},), one a canary")
        if included.dtype != np.bool_:
            checks.fail("included.dtype", included.dtype, "to be bool")
        if not np.issubdtype(y.dtype, np.integer):
            checks.fail("y.dtype", y.dtype, "to be whole numbers")
        checks.finite("X", X)
        object.__setattr__(self, "norm", checks.positive("norm", self.norm))
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
            checks.fail("len(scores)", len(scores), f"== {len(self)}, one a canary")
        guesses = self.default_guesses if guesses is None else checks.whole("guesses", guesses)
        if guesses > len(self):
            checks.fail("guesses", guesses, f"<= {len(self)}")
        order = np.argsort(scores, kind="stable")
        found = np.zeros(len(self), dtype=np.int64)
        found[order[: guesses // 2]] = -1
        found[order[len(self) - (guesses + 1) // 2 :]] = 1
        return found

    @property
    def default_guesses(self) -> int:
        """How many canaries are guessed if nothing else was fixed: a fifth, half each way."""
        # A fifth is good for weak and strong signals.
        return min(len(self), max(2, 2 * (len(self) // 10)))

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
        right = int(np.count_nonzero(told == np.where(self.included, 1, -1)))
        counts = len(self), int(np.count_nonzero(told)), right
        said = by(attack, f"{len(self)} canaries of norm {self.norm:g} (add-or-remove-one)")
        plain = steinke(*counts, delta=delta, confidence=confidence, attack=said)
        if delta == 0:
            return (plain,)
        return plain, f_dp_one_run(*counts, delta=delta, confidence=confidence, attack=said)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write canaries and coins; an existing file is never overwritten: its coins may be due."""
        target = Path(path)
        made = io.BytesIO()
        parts: dict[str, Any] = {"X": self.X, "y": self.y, "included": self.included}
        np.savez(made, format=np.int64(_FORMAT), norm=np.float64(self.norm), **parts)
        try:
            # For its owner alone: who has the coins can score perfectly.
            _files.write(target, made.getvalue(), new=True)
        except FileExistsError:
            raise CanaryFileError(f"Expected path={target} to be a new file.") from None
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
            message = f"Expected path={target} to hold canaries of format {_FORMAT}."
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
    canaries = checks.whole("canaries", canaries, "Hundreds are usual.", at_least=2)
    columns = checks.whole("columns", columns, at_least=1)
    classes = checks.whole("classes", classes, at_least=2)
    norm = checks.positive("norm", norm)
    streams = randomness.OsStreams() if seed is None else randomness.SeededStreams()
    name = ("canaries", 0 if seed is None else checks.whole("seed", seed))
    X = streams.stream(*name, "directions").standard_normal((canaries, columns))
    # So that no rounding takes a canary's norm above the bound.
    X *= norm * (1 - 2.0**-48) / np.linalg.norm(X, axis=1, keepdims=True)
    y = streams.stream(*name, "labels").integers(classes, size=canaries)
    included = streams.stream(*name, "coins").integers(2, size=canaries) == 1
    return Canaries(X, y, included, norm)


# The bounds ------------------------------------------------------------------------------


def steinke(
    canaries: int, guesses: int, correct: int, *, delta: float, confidence: float, attack: str = ""
) -> Observation:
    """The one-run bound of Steinke, Nasr & Jagielski (2023): no hypothesis but (epsilon, delta)-DP.

    Parameters
    ----------
    canaries
        m: all whose inclusion was random.
    guesses, correct
        r of them were guessed, v rightly.
    """
    _check_counts(canaries, guesses, correct)
    delta = checks.probability_below_one("delta", delta)
    level = level_of(confidence)

    def rejected(epsilon: float) -> bool:
        return steinke_p_value(canaries, guesses, correct, epsilon, delta) < level

    low, high = 0.0, 1.0 if rejected(0.0) else 0.0
    while high > 0 and rejected(high):
        low, high = high, 2 * high
    while high - low > 1e-13 * high and (middle := low + (high - low) / 2) not in (low, high):
        low, high = (middle, high) if rejected(middle) else (low, middle)
    text = f"one run, {correct} of {guesses} guesses right (Steinke, Nasr & Jagielski 2023)"
    return Observation(low, delta, confidence, by(attack, text), canaries)


def steinke_p_value(
    canaries: int, guesses: int, correct: int, epsilon: float, delta: float
) -> float:
    """At most this probable are so many right guesses if the mechanism is (epsilon, delta)-DP.

    P[W >= v] + 2 m delta max over i = 1..v of P[v - i <= W < v] / i, with
    W ~ Binomial(r, e^epsilon / (1 + e^epsilon)); at most 1 (docs/math.md 7.3). It grows with
    epsilon wherever it is below 1/2.
    """
    _check_counts(canaries, guesses, correct)
    epsilon = checks.non_negative("epsilon", epsilon, allow_infinite=True)
    delta = checks.probability_below_one("delta", delta)
    if correct == 0 or math.isinf(epsilon):
        return 1.0
    right = 1 / (1 + math.exp(-epsilon))
    tail = float(betainc(correct, guesses - correct + 1.0, right))
    if delta == 0:
        return min(1.0, tail)
    wrong_log = -epsilon - math.log1p(math.exp(-epsilon))  # ln(1 - right), also where it is 0
    counts = np.arange(correct - 1, -1, -1)
    logs = gammaln(guesses + 1.0) - gammaln(counts + 1.0) - gammaln(guesses - counts + 1.0)
    logs += counts * math.log(right) + (guesses - counts) * wrong_log
    below = np.cumsum(np.exp(logs)) / np.arange(1, correct + 1)
    return min(1.0, tail + 2 * canaries * delta * float(np.max(below)))


def f_dp_one_run(
    canaries: int, guesses: int, correct: int, *, delta: float, confidence: float, attack: str = ""
) -> Observation:
    """The epsilon of `f_dp_mu`: larger than `steinke`, and only as true as its hypothesis."""
    delta = positive_delta(delta)
    mu = f_dp_mu(canaries, guesses, correct, confidence=confidence)
    text = f"{correct} of {guesses} right (Mahloujifar, Melis & Chaudhuri 2024)"
    text = by(attack, f"{text}, {GAUSSIAN_HYPOTHESIS}")
    return Observation(gaussian.epsilon(mu, delta), delta, confidence, text, canaries)


def f_dp_mu(canaries: int, guesses: int, correct: int, *, confidence: float) -> float:
    """Largest mu that so many right guesses refute, if the mechanism is mu-GDP.

    The one-run bound of Mahloujifar, Melis & Chaudhuri (2024) with two answers a canary, for the
    trade-off function G_mu, which serves both for adding and for removing.
    """
    _check_counts(canaries, guesses, correct)
    level = level_of(confidence)
    # No count of canaries shows more; normal tails have no digits beyond.
    low, high = 0.0, 40.0
    while high - low > 1e-9 * high and high > 1e-9:
        # 64 candidates go through the recursion of docs/math.md 7.4 together; the letters r and h
        # are the paper's: right and wrong guesses over canaries.
        mus = np.linspace(low, high, 66)[1:-1]
        r = np.full(len(mus), level * correct / canaries)
        h = np.full(len(mus), level * (guesses - correct) / canaries)
        for i in range(correct - 1, -1, -1):
            # The inverse of 1 - f: Phi(Phi^-1(x) - mu).
            raised = np.maximum(h, ndtr(ndtri(np.minimum(r, 1.0)) - mus))
            r += i / (guesses - i) * (raised - h)
            h = raised
        refuted = r + h > guesses / canaries
        last = int(np.count_nonzero(np.logical_and.accumulate(refuted)))  # larger mu, less refuted
        low, high = (float(np.r_[low, mus, high][i]) for i in (last, last + 1))
    return low


def _check_counts(canaries: int, guesses: int, correct: int) -> None:
    canaries = checks.whole("canaries", canaries, at_least=1)
    guesses = checks.whole("guesses", guesses)
    correct = checks.whole("correct", correct)
    if guesses > canaries:
        checks.fail("guesses", guesses, f"<= canaries={canaries}")
    if correct > guesses:
        checks.fail("correct", correct, f"<= guesses={guesses}")
