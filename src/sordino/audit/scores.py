"""From outputs to scores: how much a run looks like one on D' rather than on D.

A score may be anything that was fixed before the tested runs were seen. So the first half of the
runs learns one and chooses its threshold, and the second half tests both: `Fitted` is all that
crosses from one half to the other.

What is learned is the best of a few plain attacks, judged inside the first half on runs that the
attack in question did not learn from:

- a direction: the linear discriminant, its covariance shrunk (what tells two Gaussians apart);
- a direction in outputs and their squares, which also sees a difference in spread;
- outputs that repeat exactly, as those of a fixed or short seed do: how often each was seen in
  either world;
- single values that repeat exactly, as those without noise do, column by column.

Two scores need no learning: the `likelihood` ratio where the law is known, and the `loss` of the
record that differs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logsumexp

from sordino import checks
from sordino.audit.pairs import difference
from sordino.audit.runners.functions import error_text, is_estimator, row_hashes
from sordino.audit.runners.minimised import SingleFit
from sordino.audit.runners.outputs import as_dataset, outputs
from sordino.audit.runners.trained import TrainedRelease, is_deterministic
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.errors import InvalidArgument
from sordino.estimators.minimum.linear import Risk
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import VARYING, Sampling
from sordino.proofs.steps import rates_of
from sordino.sgd.spec import TrainSpec
from sordino.types import Array, Floats

_Folds = npt.NDArray[np.int64]
Score = Callable[[Floats], npt.ArrayLike]
_Goal = Callable[[Floats, Floats], float]

_FOLDS = range(4)
LOSSES = "loss of the one record less that of the other"
"""The name of a score."""

_MOST_FEATURES = 1200
_FAR = 1e60  # in standard units
_GLANCE = 500  # runs a world in which a column that repeats shows it
_SAMPLE = 200  # runs a world on which a given score is tried
_MOST_COLUMNS = 400  # up to which the determinant of a Hessian is taken for every run
_BLOCK_NUMBERS = 1 << 23  # runs x records x columns at once: 64 MB


@dataclass(frozen=True, eq=False)
class _Moments:
    """Numbers of runs, sums and sums of products of both worlds: those of folds add up."""

    runs: tuple[int, int]
    sums: Floats
    products: Floats

    @classmethod
    def of(cls, first: Floats, second: Floats) -> Self:
        sums = np.stack([first.sum(axis=0), second.sum(axis=0)])
        return cls((len(first), len(second)), sums, first.T @ first + second.T @ second)

    def plus(self, other: _Moments, sign: int = 1) -> _Moments:
        runs = self.runs[0] + sign * other.runs[0], self.runs[1] + sign * other.runs[1]
        return _Moments(runs, self.sums + sign * other.sums, self.products + sign * other.products)

    def paths(self) -> tuple[Floats, Floats]:
        """Directions [shrinkage, feature], each like a log likelihood ratio, and their offsets."""
        means = self.sums / np.array(self.runs)[:, None]
        worlds = zip(self.runs, means, strict=True)
        within = self.products - sum(many * np.outer(mean, mean) for many, mean in worlds)
        sizes, basis = np.linalg.eigh(within / max(1, sum(self.runs) - 2))
        sizes = np.maximum(sizes, 0.0)
        level = (float(sizes.mean()) if len(sizes) else 0.0) or 1.0
        gap = basis.T @ (means[1] - means[0])
        # Weights of the identity; at 1 the direction is the mean difference itself.
        rho = np.array([1e-12, 1e-8, 1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 1.0])[:, None]
        found = (gap / ((1 - rho) * sizes + rho * level)) @ basis.T
        return found, found @ means.mean(axis=0)


def direction(
    worlds: list[Floats], folds: list[_Folds], many: int
) -> tuple[list[list[Floats]], Callable[[], Callable[[Floats], Floats]]]:
    """Scores of each fold's runs in both worlds along the direction that the other folds learned.

    And what gives the score along the direction learned from all runs.
    """
    pairs = list(zip(worlds, folds, strict=True))
    inside = [[rows[each == fold] for rows, each in pairs] for fold in range(many)]
    parts = [_Moments.of(*rows) for rows in inside]
    total = functools.reduce(_Moments.plus, parts)
    scores = []
    for part, rows in zip(parts, inside, strict=True):
        along, offsets = total.plus(part, -1).paths()
        scores.append([each @ along.T - offsets for each in rows])
    best = int(np.argmax(np.mean([_separation(*each) for each in scores], axis=0)))

    def whole() -> Callable[[Floats], Floats]:
        along, offsets = (found[best] for found in total.paths())
        return lambda rows: np.asarray(rows @ along - offsets)

    return [[each[:, best] for each in both] for both in scores], whole


def _separation(first: Floats, second: Floats) -> Floats:
    """How many standard deviations apart two worlds are, for each column."""
    gap = second.mean(axis=0) - first.mean(axis=0)
    noise = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    still = np.where(gap > 0, 1e300, 0.0)
    return np.asarray(np.divide(gap, noise, out=still, where=noise > 0))


@dataclass(frozen=True, eq=False)
class Fitted:
    """A score, fixed.

    Parameters
    ----------
    name
        What it looks at, for the text of an observation.
    score
        From outputs [run, value] to one number a run; higher says D'.
    negative, positive
        Scores of runs of the first half, each by a score that was learned without it: what fresh
        runs will look like, for choosing a threshold.
    stream
        For somebody's function: it sees the runs of both worlds together, and in no order. Given
        one world at a time, it could tell the world by the batch. That would not be one attack on
        one run, repeated, and the errors would be no independent trials.
    """

    name: str
    score: Score
    negative: Floats
    positive: Floats
    stream: np.random.Generator | None = None

    def __call__(self, negative: Floats, positive: Floats) -> tuple[Floats, Floats]:
        """Scores of other runs, of D and of D'."""
        return _judge(self.score, negative, positive, self.stream)


def known(score: Score, negative: Floats, positive: Floats, name: str) -> Fitted:
    """A score of ours that needs no learning: a likelihood ratio, or a loss."""
    return Fitted(name, score, *_judge(score, negative, positive, None))


def given(score: Score, negative: Floats, positive: Floats, stream: np.random.Generator) -> Fitted:
    """Somebody's function, if it judges each run by itself.

    Raises
    ------
    InvalidArgument
        If the score of a run changes with the runs beside it; if the function raises; or if it does
        not return one number a run.
    """
    sample = np.concatenate([negative[:_SAMPLE], positive[:_SAMPLE]])
    wanted, alone = _call(score, sample)[::2], _call(score, sample[::2])
    largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
    # Sums in another order differ in their last digits.
    slack = math.sqrt(np.finfo(np.result_type(wanted, np.float32)).eps) * largest
    if not np.allclose(alone, wanted, rtol=0.0, atol=slack):
        checks.fail("score", "[one that looks at all runs]", "to judge each run by itself")
    name = f"the score {getattr(score, '__name__', type(score).__name__)}"
    return Fitted(name, score, *_judge(score, negative, positive, stream), stream)


def _judge(
    score: Score, negative: Floats, positive: Floats, stream: np.random.Generator | None
) -> tuple[Floats, Floats]:
    if stream is None:
        return _call(score, negative).astype(float), _call(score, positive).astype(float)
    both = np.concatenate([negative, positive])
    order = stream.permutation(len(both))
    mixed = np.empty(len(both))
    mixed[order] = _call(score, both[order])
    return mixed[: len(negative)], mixed[len(negative) :]


def _call(score: Score, outputs: Floats) -> Array:
    """One real number a run, none of them NaN, as the score returned them."""
    wanted = f"to return {len(outputs)} real numbers, one a run"
    try:
        given = score(outputs.copy())  # it may work in place
    except InvalidArgument:
        raise
    except Exception as error:  # whatever a score raises is told in a sentence
        what = f"[a function that raised {type(error).__name__}]"
        checks.fail("score", what, wanted, error_text(error, 200))
    try:
        array = np.asarray(given)
    except ValueError:
        checks.fail("score", "[a ragged list]", wanted)
    if array.shape != (len(outputs),) or array.dtype.kind not in "fiub":
        checks.fail("score", f"[{array.dtype} of shape {array.shape}]", wanted)
    if np.isnan(array).any():
        checks.fail("score", "[NaN]", wanted)
    return array


# Attacks that learn ---------------------------------------------------------------------

_Attack = Callable[[Floats, Floats, list[_Folds]], tuple[list[Floats], Callable[[], Score]]]
"""From outputs and their folds to scores of each run learned without its fold, and the score."""


def learned(negative: Floats, positive: Floats, goal: _Goal, stream: np.random.Generator) -> Fitted:
    """The best attack of those above, and its scores on runs that it did not learn from.

    Parameters
    ----------
    negative, positive
        Outputs [run, value] of D and D', of the first half of the runs only.
    goal
        What scores are worth: the bound that such scores would give.
    stream
        Parts the runs into folds.
    """
    many = len(_FOLDS)
    folds = [np.asarray(stream.permutation(len(runs)) % many) for runs in (negative, positive)]
    most, best = 0.0, None
    for name, attack in _attacks(negative, positive):
        cross, whole = attack(negative, positive, folds)
        worth = goal(*cross)
        # The bound must grow by 2 % for a less plain attack to be taken.
        if best is None or worth > 1.02 * most:
            most, best = worth, (name, whole, cross)
    assert best is not None
    name, whole, cross = best
    return Fitted(name, whole(), cross[0], cross[1])


def _attacks(negative: Floats, positive: Floats) -> list[tuple[str, _Attack]]:
    """Those that may do something here, the plainest first: it stays if no other is better."""
    name = "a learned direction"
    attacks: list[tuple[str, _Attack]] = [(name, functools.partial(_along, squares=False))]
    if negative.shape[1] <= 200:
        squares = functools.partial(_along, squares=True)
        attacks.append((f"{name} of outputs and their squares", squares))
    both = np.concatenate([negative, positive])
    if len(np.unique(row_hashes(both))) < len(both):
        whole = functools.partial(_repeated, columns=None)
        attacks.append(("outputs that repeat exactly", whole))
    glance = np.sort(np.concatenate([negative[:_GLANCE], positive[:_GLANCE]]), axis=0)
    columns = np.flatnonzero((glance[1:] == glance[:-1]).sum(axis=0) > 1)
    if both.shape[1] > 1 and columns.size:
        some = functools.partial(_repeated, columns=columns)
        attacks.append(("values that repeat exactly", some))
    return attacks


def _cross(folds: list[_Folds], held_out: Callable[[int], list[Floats]]) -> list[Floats]:
    """Scores of all runs, each by what was learned without its fold."""
    cross = [np.empty(len(each)) for each in folds]
    for fold in _FOLDS:
        for scores, each, part in zip(cross, folds, held_out(fold), strict=True):
            scores[each == fold] = part
    return cross


def _along(
    negative: Floats, positive: Floats, folds: list[_Folds], *, squares: bool
) -> tuple[list[Floats], Callable[[], Score]]:
    """A learned direction."""
    features = _features(negative, positive, squares=squares)
    held_out, learn = direction([features(negative), features(positive)], folds, len(_FOLDS))

    def whole() -> Score:
        along = learn()
        return lambda outputs: along(features(outputs))

    return _cross(folds, held_out.__getitem__), whole


def _features(negative: Floats, positive: Floats, *, squares: bool) -> Callable[[Floats], Floats]:
    """Outputs in standard units, and their squares if wanted; without columns that stand still.

    Of very many columns those are kept that differ most between the worlds.
    """
    # First by the largest number of each column, so that no square is too large or small.
    largest = np.maximum(np.abs(negative).max(axis=0), np.abs(positive).max(axis=0))
    largest = np.where(largest > 0, largest, 1.0)
    worlds = negative / largest, positive / largest
    means = worlds[0].mean(axis=0), worlds[1].mean(axis=0)
    spread = np.sqrt((worlds[0].var(axis=0) + worlds[1].var(axis=0)) / 2)
    gap = np.abs(means[0] - means[1])
    # Values that stand still have no spread: then how far apart they are is the unit.
    unit = np.where(spread > 0, spread, gap)
    kept = np.flatnonzero(unit > 0)
    if len(kept) > _MOST_FEATURES:
        kept = np.sort(kept[np.argsort(gap[kept] / unit[kept])[-_MOST_FEATURES:]])
    largest, centre, unit = largest[kept], (means[0] + means[1])[kept] / 2, unit[kept]

    def features(outputs: Floats) -> Floats:
        with np.errstate(over="ignore"):  # a run may be further out than all that were seen
            standard = np.clip((outputs[:, kept] / largest - centre) / unit, -_FAR, _FAR)
        return np.hstack([standard, standard**2]) if squares else standard

    return features


def _repeated(
    negative: Floats, positive: Floats, folds: list[_Folds], *, columns: _Folds | None
) -> tuple[list[Floats], Callable[[], Score]]:
    """How often each output, or each value of some columns, was seen in either world."""

    def keys_of(outputs: Floats) -> npt.NDArray[np.uint64]:
        """[run, key]: one key a run, or the bits of each column; those of -0.0 are those of 0.0."""
        if columns is None:
            return row_hashes(outputs)[:, None]
        return np.ascontiguousarray(outputs[:, columns] + 0.0).view(np.uint64)

    keys = keys_of(negative), keys_of(positive)

    def score(left_out: int) -> Callable[[npt.NDArray[np.uint64]], Floats]:
        """Log ratios of the shares of each key in the two worlds, summed over columns."""
        learn = [each[fold != left_out] for each, fold in zip(keys, folds, strict=True)]
        tables = [_log_ratios(*pair) for pair in zip(learn[0].T, learn[1].T, strict=True)]

        def total(asked: npt.NDArray[np.uint64]) -> Floats:
            found = np.zeros(len(asked))
            for (seen, ratios), column in zip(tables, asked.T, strict=True):
                places = np.minimum(np.searchsorted(seen, column), len(seen) - 1)
                found += np.where(seen[places] == column, ratios[places], 0.0)  # 0 if never seen
            return found

        return total

    def held_out(fold: int) -> list[Floats]:
        total = score(fold)
        return [total(key[each == fold]) for key, each in zip(keys, folds, strict=True)]

    def whole() -> Score:
        total = score(-1)
        return lambda outputs: total(keys_of(outputs))

    return _cross(folds, held_out), whole


def _log_ratios(
    first: npt.NDArray[np.uint64], second: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.uint64], Floats]:
    """Keys, and the log ratio of the shares of each in the two worlds."""
    keys, places = np.unique(np.concatenate([first, second]), return_inverse=True)
    parts = places[: len(first)], places[len(first) :]
    # What was never seen is not impossible.
    seen = [np.bincount(part, minlength=len(keys)) + 0.5 for part in parts]
    return keys, np.log(seen[1] / seen[0]) - math.log(len(second) / len(first))


# Scores that need no learning -----------------------------------------------------------


def likelihood(mechanism: Any, D: Any, D_prime: Any) -> Score:
    """The log likelihood ratio, where the law of what is released is known.

    A training without randomness whose weights get Gaussian noise: N(w, scale^2) on D and
    N(w', scale^2) on D', so the ratio is linear along w' - w. And our objective perturbation: the
    weights tell the random linear term that made them optimal, b = -(gradient + regulariser w), so
    their density is that of b times the determinant of the Hessian (docs/math.md 10.1). And all
    iterates of noisy SGD with Poisson batches or random allocation, where nobody but the record
    that differs has a gradient: the pair that their accounting rests on (docs/accounting.md).

    Raises
    ------
    InvalidArgument
        For every other mechanism: SGD's own law, and what a function draws, are not known.
    """
    fit = mechanism.plan if isinstance(mechanism, SingleFit) else None
    objective = fit is not None and fit.method == "objective" and fit.task.prepared is None
    if fit is not None and objective and fit.task.problems == 1:
        first, second = (_Minimiser.of(mechanism, each) for each in (D, D_prime))
        return lambda released: second.log_density(released) - first.log_density(released)
    trained = isinstance(mechanism, TrainedRelease)
    if trained and (alone := _AllIterates.of(mechanism, D, D_prime)) is not None:
        return alone
    if not trained or not is_deterministic(mechanism.spec) or mechanism.scale == 0:
        wanted = 'to be used for order="fixed" with scale > 0, "objective", or all noisy iterates'
        checks.fail("score", "likelihood", wanted)
    plain = TrainedRelease(mechanism.spec, 0.0, mechanism.initial_weights, mechanism.checkpoints)
    w, other = (found[0] for found in outputs(plain, D, D_prime, 1))
    along = (other - w) / mechanism.scale**2
    middle = (w + other) / 2
    return lambda released: (released - middle) @ along


@dataclass(frozen=True, eq=False)
class _AllIterates:
    """All iterates of noisy SGD, where every record is silent but the one that differs.

    From them follows each step's noisy sum, and from that how much more likely the sum is with the
    record's gradient g than without: exp((<sum, g> - |g|^2 / 2) / noise^2). A record is drawn into
    each step by a coin, or into one step of each epoch.

    Parameters
    ----------
    spec, start
        The training, and its initial weights.
    rows
        Records of D.
    records
        What stands in the slot that differs.
    """

    spec: TrainSpec
    start: Floats
    rows: int
    records: list[_Record]

    @classmethod
    def of(cls, mechanism: TrainedRelease, D: Any, D_prime: Any) -> _AllIterates | None:
        """The law of this mechanism on these data, or None where it is another."""
        spec, steps = mechanism.spec, mechanism.checkpoints
        plain = spec.order in VARYING and spec.noise_multiplier > 0 and mechanism.scale == 0
        plain &= spec.objective.kind in ("logistic", "huber-svm") and not spec.objective.intercept
        plain &= spec.radius is None and spec.average_every is None
        if not plain or steps is None or mechanism.initial_weights is None:
            return None
        data, records = as_dataset("D", D), _records(D, D_prime)
        heard = sum(bool(row.any()) for sign, row, _ in records if sign > 0)
        every = list(range(1, spec.total_steps(data.rows) + 1))
        if list(steps) != every or np.count_nonzero(data.X.any(axis=1)) > heard:
            return None
        start = np.asarray(mechanism.initial_weights, dtype=np.float64)
        return cls(spec, start, data.rows, records)

    def __call__(self, released: Floats) -> Floats:
        """Log likelihood ratio of every run, from its weights after each step in a row."""
        spec, noise = self.spec, self.spec.noise_multiplier * (self.spec.max_grad_norm or 1.0)
        after = released.reshape(len(released), -1, len(self.start))
        start = np.broadcast_to(self.start, (len(after), 1, len(self.start)))
        before = np.concatenate([start, after[:, :-1]], axis=1)
        rates = np.broadcast_to(rates_of(spec, self.rows), after.shape[1])[:, None]
        sums = ((1 - rates * spec.objective.l2) * before - after) * spec.batch_size / rates
        total = np.zeros(len(after))
        for sign, row, label in self.records:
            signed = (2 * label - 1) * row.astype(np.float64)
            slope = _derivatives(spec.objective, before @ signed)[0]
            norm = float(np.linalg.norm(signed))
            most = (spec.max_grad_norm or math.inf) / norm if norm else 0.0
            slope = np.clip(slope, -most, most)
            gain = (slope * (sums @ signed) - (slope * norm) ** 2 / 2) / noise**2
            total -= sign * self._drawn(gain)
        return total

    def _drawn(self, gain: Floats) -> Floats:
        """Sum over coins or epochs of the log of the mixture over what was drawn."""
        spec = self.spec
        if spec.order == Sampling.POISSON:
            rate = spec.batch_size / self.rows if spec.sample_rate is None else spec.sample_rate
            with np.errstate(divide="ignore"):
                mixed = np.logaddexp(np.log1p(-rate), math.log(rate) + gain)
            return np.asarray(mixed.sum(axis=1))
        per_epoch = spec.batches_per_epoch(self.rows)
        total = np.zeros(len(gain))
        for first in range(0, gain.shape[1], per_epoch):
            epoch = gain[:, first : first + per_epoch]
            left = per_epoch - epoch.shape[1]  # steps of an epoch that was broken off
            mixed = logsumexp(epoch, axis=1)
            total += (np.logaddexp(mixed, math.log(left)) if left else mixed) - math.log(per_epoch)
        return total


@dataclass(frozen=True, eq=False)
class _Minimiser:
    """The law of the exact minimiser of a noisy objective; what is added later is all but nothing.

    Parameters
    ----------
    signed
        Rows times their labels -1 and 1.
    objective
        The loss.
    regulariser, sigma
        Of the SUM of losses, and of its random linear term.
    weights
        Factor of each record's loss; None: 1.
    """

    signed: Floats
    objective: ObjectiveSpec
    regulariser: float
    sigma: float
    weights: Floats | None = None

    @classmethod
    def of(cls, mechanism: SingleFit, D: Any) -> _Minimiser:
        data, plan = as_dataset("D", D), mechanism.plan
        if data.features > _MOST_COLUMNS:
            wanted = f"to be used for {_MOST_COLUMNS} columns at most, not {data.features}"
            checks.fail("score", "likelihood", wanted)
        signed = np.where(data.y > 0, 1.0, -1.0)[:, None] * data.X.astype(np.float64)
        task = plan.task
        loss = task.objective_with(plan.l2)
        return cls(signed, loss, plan.l2 * task.rows, plan.sigma, data.weights)

    def log_density(self, released: Floats) -> Floats:
        """Of weights [run, column], up to one constant."""
        at_once = max(1, _BLOCK_NUMBERS // max(1, self.signed.size))
        blocks = range(0, len(released), at_once)
        return np.concatenate([self._block(released[start:][:at_once]) for start in blocks])

    def _block(self, w: Floats) -> Floats:
        margins = w @ self.signed.T
        slope, bend = _derivatives(self.objective, margins)
        if self.weights is not None:
            slope, bend = slope * self.weights, bend * self.weights
        b = -(slope @ self.signed + self.regulariser * w)
        hessian = (bend[:, None, :] * self.signed.T) @ self.signed
        hessian += self.regulariser * np.eye(w.shape[1])
        logarithm = np.linalg.slogdet(hessian)[1]
        return np.asarray(logarithm - np.sum(b**2, axis=1) / (2 * self.sigma**2))


def _derivatives(objective: ObjectiveSpec, margins: Floats) -> tuple[Floats, Floats]:
    """First and second derivative of the loss in the margin."""
    if objective.kind == "logistic":
        slope = expit(-margins)
        return -slope, slope * (1 - slope)
    width = objective.huber_width
    slope = np.clip((1 + width - margins) / (2 * width), 0.0, 1.0)
    return -slope, ((slope > 0) & (slope < 1)) / (2 * width)


def loss(mechanism: Any, D: Any, D_prime: Any) -> Score:
    """How well a linear model fits the record of D' rather than that of D.

    The loss of the record that D has, minus the loss of the one that D' has instead; of weights
    released as one row, the intercept last if there is one. An estimator's loss is taken for the
    logistic one.

    Raises
    ------
    InvalidArgument
        If the model is not linear, or the records cannot be told.
    """
    objective = ObjectiveSpec("logistic")
    if not is_estimator(mechanism):
        linear = isinstance(mechanism, TrainedRelease) and mechanism.spec.objective.is_convex
        if not linear or mechanism.checkpoints is not None:
            checks.fail("score", "loss", "to be used for linear weights")
        objective = mechanism.spec.objective
    scores = objective.scores
    return _fit_of(_records(D, D_prime), scores, objective.kind, objective.huber_width)


def record_losses(
    D: Dataset, D_prime: Dataset, problems: int, kind: str, huber_width: float
) -> Score:
    """A score: how much better all models fit the record of D' than the one that D has instead.

    Of a crafted pair this is nearly the best there is, and it needs no learning: of hundreds of
    weights a direction is learned badly by a thousand runs.

    Parameters
    ----------
    D, D_prime
        Differ in one record that is replaced; labels are class numbers.
    problems
        Whose weights [run, problem * column] are released: one for two classes, else one a class.
    kind, huber_width
        The loss, "logistic", "softmax" or "huber-svm".
    """
    apart = difference(D, D_prime)
    if apart is None or apart.lost is None or apart.gained is None:
        checks.fail("D_prime", "[another size]", "to have one record replaced")
    places = (1, D, apart.lost), (-1, D_prime, apart.gained)
    records = [(sign, data.X[row], float(data.y[row])) for sign, data, row in places]
    score = _fit_of(records, problems, kind, huber_width)
    score.__name__ = LOSSES
    return score


_Record = tuple[int, Array, float]
"""1 for a record of D, -1 for one of D'; its row and label."""


def _fit_of(records: list[_Record], problems: int, kind: str, huber_width: float) -> Score:
    """Losses of the records, each times its sign, summed over them and over problems."""

    def losses(z: Floats, label: float) -> Floats:
        if kind == "least-squares":
            return np.asarray(0.5 * (z - label) ** 2)
        risk = Risk(np.zeros((1, 1)), np.array([label]), kind=kind, huber_width=huber_width)
        return np.asarray(risk.losses(z[None])[0])

    def score(released: Floats) -> Floats:
        weights = released.reshape(len(released), problems, -1)
        total = np.zeros(len(released))
        for sign, row, label in records:
            if len(row) + 1 == weights.shape[2]:
                row = np.append(row, 1.0)
            if len(row) != weights.shape[2]:
                wanted = f"to be {len(row)} weights, or one more"
                checks.fail("score", f"[loss of {released.shape[1]} values]", wanted)
            if kind == "softmax":
                z = weights @ row.astype(np.float64)
                total += sign * (logsumexp(z, axis=1) - z[:, int(label)])
                continue
            for problem in range(problems):
                y = label if problems == 1 else float(label == problem)
                total += sign * losses(weights[:, problem] @ row.astype(np.float64), y)
        return total

    return score


def _records(D: Any, D_prime: Any) -> list[_Record]:
    """The record of D and that of D', as far as there are any; labels 0 and 1 of two classes."""
    first = as_dataset("D", D)
    records: list[tuple[int, Array, Any]] = []
    if isinstance(D_prime, Neighbours):
        second, slot, row = first, int(D_prime.slot[0]), int(D_prime.occupant[0])
        # Rows of D stand in slots, not always in their own: some may have none (EMPTY), or be left
        # out.
        there, extra = int(D_prime.members[slot]), row - first.rows
        if there >= 0:
            records = [(1, first.X[there], first.y[there])]
        if extra >= 0 and D_prime.extra_X is not None and D_prime.extra_y is not None:
            records.append((-1, D_prime.extra_X[extra], D_prime.extra_y[extra]))
        elif row >= 0:
            records.append((-1, first.X[row], first.y[row]))
    else:
        second = as_dataset("D_prime", D_prime)
        apart = difference(first, second)
        assert apart is not None
        places = (1, first, apart.lost), (-1, second, apart.gained)
        records = [
            (sign, each.X[row], each.y[row]) for sign, each, row in places if row is not None
        ]
    labels = np.union1d(first.y, second.y)
    # Two classes, whatever they are called; of 0 and 1 one alone stays what it is.
    if len(labels) <= 2 and not set(labels.tolist()) <= {0, 1}:
        return [(sign, row, float(y == labels[-1])) for sign, row, y in records]
    return [(sign, row, float(y)) for sign, row, y in records]
