"""`TrainSpec`: all that determines a run but its data and its seed. Free of torch."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import VARYING, Sampling

ORDERS = {
    "shuffle": Sampling.SHUFFLE,
    "permute-once": Sampling.PERMUTE_ONCE,
    "fixed": Sampling.CYCLIC,
    "poisson": Sampling.POISSON,
    "allocation": Sampling.ALLOCATION,
}
"""By the words that studies and certificates hold."""
_SCHEDULES = ("constant", "per-epoch", "strongly-convex")
INITS = ("vary", "fixed", "given")
# What a training costs, by counting: the same on all machines. The constants were measured on two
# cores of an ordinary machine of 2024; of another one they tell a minute from a year.
OF_NUMBER = 8.0e-10
"""Core seconds of a row's entry, in a step of SGD."""
OF_NORMAL = 2.0e-8
"""Of a random number."""
_THIN, _OF_WIDE = 4, 1.2e-10  # more datasets at once are products of matrices
_OF_SHARED = 2.0e-10  # a row's entry where all runs see all rows, as products of matrices
_OF_HIDDEN = 8.0e-10  # a row's entry of a network, for each hidden unit
_OF_SCORE, _OF_GATHERED = 4.0e-10, 1.5e-9  # of a softmax, for each class; and if rows are gathered
_OF_STEP, _OF_HIDDEN_STEP, _OF_SCORES_STEP = 3.0e-7, 1.2e-5, 3.0e-5
_MOST = 2**63 - 1
"""Of steps and the like: what arrays can count."""


@dataclass(frozen=True)
class Schedule:
    """Learning rate of each step. Use the three class methods.

    kind "constant": `rate`. "per-epoch": `rate` / h in the h-th epoch since the last restart.
    "strongly-convex": min(1 / `smooth`, 1 / (`strongly_convex` t)) at the t-th update since the
    last restart.

    >>> Schedule.per_epoch(0.5).at(update=7, epoch=2)
    0.25
    """

    kind: str
    rate: float = 0.0
    smooth: float = 0.0
    strongly_convex: float = 0.0

    def __post_init__(self) -> None:
        checks.one_of("schedule", self.kind, _SCHEDULES)
        falls = self.kind == "strongly-convex"
        needed = ("smooth", "strongly_convex") if falls else ("rate",)
        for name in ("rate", "smooth", "strongly_convex"):
            check = checks.positive if name in needed else checks.non_negative
            shown = "learning_rate" if name == "rate" else name
            _keep(self, name, check(shown, getattr(self, name)))

    @classmethod
    def constant(cls, rate: float) -> Schedule:
        """The same rate at every step."""
        return cls("constant", rate=rate)

    @classmethod
    def per_epoch(cls, rate: float) -> Schedule:
        """Rate / h in the h-th epoch, h counted from 1 after each restart (Chen et al.)."""
        return cls("per-epoch", rate=rate)

    @classmethod
    def strongly_convex_rate(cls, smooth: float, strongly_convex: float) -> Schedule:
        """min(1/beta, 1/(gamma t)) at the t-th update (Wu et al.)."""
        return cls("strongly-convex", smooth=smooth, strongly_convex=strongly_convex)

    def at(self, update: int, epoch: int) -> float:
        """Rate of the `update`-th step, in the `epoch`-th epoch; both count from 1."""
        return float(self.over(update, 1, epoch)[0])

    def over(self, update: int, many: int, epoch: int) -> npt.NDArray[np.float64]:
        """Rates of `many` steps of one epoch, from the `update`-th on."""
        if self.kind == "constant":
            return np.full(many, self.rate)
        if self.kind == "per-epoch":
            return np.full(many, self.rate / epoch)
        updates = np.arange(update, update + many)
        return np.minimum(1 / self.smooth, 1 / (self.strongly_convex * updates))


@dataclass(frozen=True)
class TrainSpec:
    """How to train: frozen, serialisable, complete.

    The loop it stands for, over slots 0..n-1 of a dataset::

        w = initial weights
        for each step t, with its batch B from the order:
            g = sum over i in B of clip(gradient_i(w), max_grad_norm)
            g = g + noise_multiplier * max_grad_norm * N(0, I)
            w = w - rate_t * (g / divisor + l2 * w)
            w = w scaled back to Euclidean norm `radius` where above it
            at the end of every `average_every`-th epoch: w = mean of the w's since the last time
            at the end of every `restart_every`-th epoch: the schedule starts again

    Parameters
    ----------
    objective
        The loss; its l2 term stays outside the clip, where it keeps its strong convexity.
    learning_rate
        A number (constant) or a `Schedule`.
    batch_size
        Examples a batch; for "poisson" and "allocation" the fixed divisor, and over n the default
        sampling rate.
    steps, epochs
        Exactly one: how long. An epoch is ceil(n / batch_size) steps (floor if the last, smaller
        batch is dropped), or `steps_per_epoch`.
    order
        "shuffle": a new permutation each epoch; "permute-once": one permutation, cycled;
        "fixed" (kept as `Sampling.CYCLIC`): rows as they come, cycled; "poisson": each record in
        each batch independently; "allocation": each record in one batch of every epoch, drawn anew
        and independently of the others (docs/accounting.md).
    sample_rate
        Only for "poisson": the probability; None means batch_size / n. Give it where n is private.
    drop_last
        Leave out the last batch of an epoch if it is smaller than the others.
    max_grad_norm
        Clip each example's gradient to this norm; None or infinity: no clipping.
    noise_multiplier
        Standard deviation of the noise on the SUM of clipped gradients, over max_grad_norm.
    fixed_divisor
        Divide the sum by `batch_size` always (True) or by the number of examples in the batch
        (False). None means True for "poisson", "allocation" or with noise, where the count is
        private.
    radius
        Project onto the ball of this radius after each step.
    average_every, restart_every
        In epochs; Chen et al.'s RSGD-AR has both equal. See the loop above.
    init
        "vary": drawn from the run's seed; "fixed": the same for every run, drawn from
        `init_seed`; "given": passed to `train`, such as a public model to fine-tune.
    dtype
        "float32" or "float64".
    steps_per_epoch
        Only for "allocation": the batches of an epoch; None means ceil(n / batch_size). Give it
        where n is private.

    Examples
    --------
    >>> TrainSpec(ObjectiveSpec("logistic"), 0.5, batch_size=32, epochs=2).total_steps(rows=100)
    8
    """

    objective: ObjectiveSpec
    learning_rate: float | Schedule
    batch_size: int
    steps: int | None = None
    epochs: int | None = None
    order: str = Sampling.SHUFFLE
    sample_rate: float | None = None
    drop_last: bool = False
    max_grad_norm: float | None = None
    noise_multiplier: float = 0.0
    fixed_divisor: bool | None = None
    radius: float | None = None
    average_every: int | None = None
    restart_every: int | None = None
    init: str = "vary"
    init_seed: int = 0
    dtype: str = "float32"
    steps_per_epoch: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.objective, ObjectiveSpec):
            checks.fail("objective", self.objective, "to be an ObjectiveSpec")
        if not isinstance(self.learning_rate, Schedule):
            rate = checks.positive("learning_rate", self.learning_rate, "Pass 0.5, say.")
            _keep(self, "learning_rate", Schedule.constant(rate))
        if self.steps is None and self.epochs is None:
            checks.fail("steps", None, "or epochs to be given", "Pass steps=1000, say.")
        if self.steps is not None and self.epochs is not None:
            checks.fail("steps", self.steps, "or epochs to be given, not both")
        counts = ("batch_size", "steps", "epochs", "average_every", "restart_every")
        for name in (*counts, "steps_per_epoch"):
            if getattr(self, name) is not None:
                count = checks.whole(name, getattr(self, name), at_least=1)
                if count > _MOST:
                    checks.fail(name, count, f"<= {_MOST}")
                _keep(self, name, count)
        _keep(self, "init_seed", checks.whole("init_seed", self.init_seed))
        _keep(self, "drop_last", checks.flag("drop_last", self.drop_last))
        if self.order not in ORDERS.values():
            checks.one_of("order", self.order, ORDERS)
        _keep(self, "order", Sampling(self.order))
        checks.one_of("init", self.init, INITS)
        checks.one_of("dtype", self.dtype, ("float32", "float64"))
        if self.radius is not None:
            _keep(self, "radius", checks.positive("radius", self.radius))
        if self.sample_rate is not None:
            _keep(self, "sample_rate", checks.fraction("sample_rate", self.sample_rate))
            if self.order != Sampling.POISSON:
                checks.fail("order", self.written_order, "to be poisson where sample_rate is given")
        if self.steps_per_epoch is not None and self.order != Sampling.ALLOCATION:
            condition = "to be allocation where steps_per_epoch is given"
            checks.fail("order", self.written_order, condition)
        if self.max_grad_norm is not None:
            clip = checks.positive("max_grad_norm", self.max_grad_norm, allow_infinite=True)
            # One spelling of "no clipping", which is also valid JSON.
            _keep(self, "max_grad_norm", None if math.isinf(clip) else clip)
        noise = checks.non_negative("noise_multiplier", self.noise_multiplier)
        _keep(self, "noise_multiplier", noise)
        if noise and self.max_grad_norm is None:
            checks.fail("max_grad_norm", None, "to be finite where there is noise")
        if self.fixed_divisor is None:
            return
        _keep(self, "fixed_divisor", checks.flag("fixed_divisor", self.fixed_divisor))
        if not self.fixed_divisor and self._counts_are_private:
            drawn = self.written_order if self.order in VARYING else "poisson"
            checks.fail("fixed_divisor", False, f"to be True with {drawn} sampling or noise")

    @property
    def _counts_are_private(self) -> bool:
        return self.order in VARYING or self.noise_multiplier > 0

    @property
    def draws_by_public_numbers(self) -> bool:
        """Whether batches are drawn by given numbers alone, and not by how many records there are.

        Of the other orders none is: adding a record moves others to other batches.
        """
        return self.sample_rate is not None or self.steps_per_epoch is not None

    @property
    def divides_by_batch_size(self) -> bool:
        """Whether sums are divided by `batch_size`, whatever the batch really holds."""
        return self._counts_are_private if self.fixed_divisor is None else self.fixed_divisor

    @property
    def schedule(self) -> Schedule:
        """The learning rate as a schedule."""
        assert isinstance(self.learning_rate, Schedule)
        return self.learning_rate

    @property
    def written_order(self) -> str:
        """`order` by the word that studies and certificates hold."""
        return next(word for word, order in ORDERS.items() if order == self.order)

    def batches_per_epoch(self, rows: int) -> int:
        """Batches in one pass over this many records."""
        if self.steps_per_epoch is not None:
            return self.steps_per_epoch
        # Where the rate is given, the number of records may be private: nothing is refused for it.
        if self.batch_size > rows and not self.draws_by_public_numbers:
            checks.fail("batch_size", self.batch_size, f"<= {rows}, the number of records")
        batches = rows // self.batch_size if self.drop_last else -(-rows // self.batch_size)
        return max(1, batches)

    def total_steps(self, rows: int) -> int:
        """Steps of the whole training on this many records."""
        per_epoch = self.batches_per_epoch(rows)
        return self.steps if self.steps is not None else (self.epochs or 0) * per_epoch

    def core_seconds(self, rows: int, columns: int, datasets: int = 1) -> float:
        """Core seconds of one run on so many records, of `datasets` that share their batches."""
        steps = self.total_steps(rows)
        entries = steps * min(self.batch_size, rows) * columns
        full = self.order == Sampling.CYCLIC and self.batch_size >= rows
        if self.objective.is_linear:
            each = _OF_SHARED if full else OF_NUMBER if datasets <= _THIN else _OF_WIDE
            parameters, work = columns, each * entries + _OF_STEP * steps / datasets
        elif self.objective.is_convex:
            parameters = self.objective.scores * columns
            each = _OF_SCORE * self.objective.scores + (0.0 if full else _OF_GATHERED)
            work = each * entries + _OF_SCORES_STEP * steps
        else:
            hidden = self.objective.hidden
            parameters = hidden * columns
            work = _OF_HIDDEN * hidden * entries + _OF_HIDDEN_STEP * steps
        return work + OF_NORMAL * parameters * (steps if self.noise_multiplier else 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; `from_dict` gives an equal spec back."""
        values = dataclasses.asdict(self) | {"order": self.written_order}
        if self.steps_per_epoch is None:  # texts of specs from before it are still equal
            del values["steps_per_epoch"]
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainSpec:
        """Rebuild a spec from `to_dict`; an unknown key is refused with the nearest valid one."""
        values = dict(values)
        _check_keys(cls, values)
        if "order" in values:  # by the one word that `to_dict` writes
            checks.one_of("order", values["order"], ORDERS)
        parts: dict[str, type] = {"objective": ObjectiveSpec, "learning_rate": Schedule}
        for name, part in parts.items():
            if isinstance(values[name], dict):
                _check_keys(part, values[name])
                values[name] = part(**values[name])
        return cls(**values)

    def to_json(self) -> str:
        """Canonical JSON: equal specs give equal text."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))


def _keep(spec: object, name: str, value: object) -> None:
    """Store a checked value as the plain Python number it is: equal specs are then equal text."""
    object.__setattr__(spec, name, value)


def _check_keys(part: type, values: dict[str, Any]) -> None:
    fields = dataclasses.fields(part)
    for key in values:
        checks.one_of("key", key, [field.name for field in fields])
    for field in fields:
        if field.default is dataclasses.MISSING and field.name not in values:
            checks.fail("keys", sorted(values), f"to contain {field.name}")
