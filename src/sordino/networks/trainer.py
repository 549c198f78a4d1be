"""`PrivateTrainer`: DP-SGD of any module, as a loop; batches, clipping, noise and proof are one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, default_collate

from sordino import _cost, checks
from sordino.errors import PrivacyLeakWarning, Refused, without_cells
from sordino.models.frozen import made_up
from sordino.networks.calls import NotCaptured
from sordino.networks.checkpoint import Checkpoint
from sordino.networks.clipping import Clipping
from sordino.networks.gradients import (
    Batch,
    Changed,
    Clipped,
    Losses,
    ModuleTask,
    NotOneEach,
    parts_of,
)
from sordino.networks.plan import TrainingPlan
from sordino.networks.sampler import StepSampler
from sordino.networks.trial import choose
from sordino.networks.uses import widened
from sordino.privacy import Guarantee, Relation, large_delta
from sordino.release.noise import CryptoNormals, Noise, SeededNoise

_SHARE = 4
"""Of the memory that is free, a piece of a batch may take one part in so many."""
_SUMS = (torch.float32, torch.float64)
"""In which sums are added up, and noise to them."""
_HELD = 3
"""Copies of what a pass keeps: itself, what comes back, and what is made of both."""


class TrainingEnded(Refused, RuntimeError):
    """A private training that cannot go on; what was spent stays spent."""


@dataclass(frozen=True, eq=False)
class LogicalBatch:
    """The records of one step; only their trainer looks inside. Give it to `trainer.step`."""

    step: int
    _trainer: PrivateTrainer

    def __iter__(self) -> NoReturn:
        """Refuse `for x, y in trainer`: records are for the trainer alone."""
        hint = "Write `for batch in trainer: trainer.step(batch)`; losses(module, x, y) sees x, y."
        checks.fail("batch", "[LogicalBatch]", "to be given to trainer.step as it is", hint)

    def __repr__(self) -> str:
        # Not its size: that is private.
        return f"LogicalBatch(step={self.step})"


class PrivateTrainer:
    """Train a torch module with DP-SGD, and say what is proved of it.

    The trainer owns which records are in a step, how long one record's gradient may be, the noise
    and the accountant, so that they cannot disagree. The module is used as it is. Before anything
    is trained it is tried on made-up inputs (`examples` where none can be made up): what cannot be
    clipped example by example is refused.

    Parameters
    ----------
    module
        What is trained: its parameters that require a gradient. In the mode it is in.
    optimizer
        Any of torch's, over exactly these parameters. A scheduler may change its settings.
    losses
        `losses(module, *batch)`: one loss for each example, such as
        `cross_entropy(module(x), y, reduction="none")`.
    data
        A tuple of tensors or arrays whose first axis is that of the records; or a torch `Dataset`
        with a length, which gives tensors of the same shapes for all records. No `DataLoader`: the
        trainer draws the batches. Of the module's type, such as float32; labels int64.
    noise_multiplier, epsilon, target
        One of them: noise on a sum of gradients over `max_grad_norm`; or the promise at `delta`;
        or a risk such as "advantage<=0.05".
    delta
        By default 1 / rows^2, rounded down.
    max_grad_norm, clipping
        The longest gradient of one example; "flat", "per-layer" or "automatic".
    sampling
        "poisson", or "allocation": every record in one random step of every epoch.
    batch_size, sample_rate, steps_per_epoch
        The expected size of a batch, or what it follows from. Noisy sums are divided by it, never
        by the size that a batch happens to have.
    steps, epochs
        How long, one of them.
    relation
        Who is protected: a record whose part in every sum may be there or not ("zero-out"), or be
        another record's ("replace-one"). Both take the number of records for public;
        "add-or-remove-one" does not, and then rate and `batch_size` are public numbers.
    public_rows
        Under add-or-remove-one, a public number to make rate and delta of.
    max_rows_per_person
        The most records of one person, protected together.
    examples
        Public inputs, a batch of at least four, to try the module on. By default made up, of the
        records' shape and type.
    engine
        "auto", or one of "one-pass", "torch.func", "one-by-one".
    physical_batch
        Most examples in memory at once. By default what a quarter of the free memory holds.
    dtype
        In which sums are added up; by default that of the parameters, and float32 at least.
    random_state
        For experiments: batches and noise can be drawn again, and nothing is promised.
    checkpoint, checkpoint_every
        A directory for an INTERNAL state, kept at the start and then whenever the loop asks for a
        batch after so many more steps. The same call goes on from it.
    also
        What else has a state to be kept there, such as {"scheduler": scheduler}; only with
        `checkpoint`.

    Attributes
    ----------
    plan
        The public numbers: `plan.noise_multiplier`, `plan.sample_rate`, `plan.delta` and so on.
    steps_done
        Steps up to here, those before a resumed checkpoint among them; `len(trainer)` is all.
    engine
        Which way to clipped sums is taken, with `notes` on why no faster one is.

    Examples
    --------
    >>> import torch
    >>> from torch.nn.functional import cross_entropy
    >>> X, y = torch.rand(500, 8), torch.randint(2, (500,))
    >>> module = torch.nn.Linear(8, 2)
    >>> def losses(module, x, y):
    ...     return cross_entropy(module(x), y, reduction="none")
    >>> trainer = PrivateTrainer(
    ...     module, torch.optim.SGD(module.parameters(), lr=0.5), losses, (X, y),
    ...     epsilon=2.0, batch_size=50, epochs=2,
    ... )
    >>> for batch in trainer:
    ...     trainer.step(batch)
    >>> round(trainer.guarantee().epsilon, 3)
    2.0
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        losses: Losses,
        data: Any,
        *,
        noise_multiplier: float | None = None,
        epsilon: float | None = None,
        target: str | None = None,
        delta: float | None = None,
        max_grad_norm: float = 1.0,
        clipping: str = "flat",
        sampling: str = "poisson",
        batch_size: float | None = None,
        sample_rate: float | None = None,
        steps_per_epoch: int | None = None,
        steps: int | None = None,
        epochs: float | None = None,
        relation: Relation | str = Relation.ZERO_OUT,
        public_rows: int | None = None,
        max_rows_per_person: int = 1,
        examples: Any = None,
        engine: str = "auto",
        physical_batch: int | None = None,
        dtype: torch.dtype | None = None,
        random_state: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 100,
        also: Mapping[str, Any] | None = None,
    ) -> None:
        self._records = _Records.of(data)
        if not isinstance(relation, Relation):
            relation = Relation(
                checks.one_of("relation", relation, [each.value for each in Relation])
            )
        self.plan = TrainingPlan.of(
            rows=len(self._records),
            sampling=sampling,
            relation=relation,
            batch_size=batch_size,
            sample_rate=sample_rate,
            steps_per_epoch=steps_per_epoch,
            steps=steps,
            epochs=epochs,
            noise_multiplier=noise_multiplier,
            epsilon=epsilon,
            target=target,
            delta=delta,
            clipping=Clipping(clipping, max_grad_norm),
            public_rows=public_rows,
            max_rows_per_person=max_rows_per_person,
        )
        if noise_multiplier is None and self.plan.noise_multiplier > self.plan.divisor:
            told = f"noise of {self.plan.noise_multiplier:.3g} times the longest gradient is added"
            told = f"Little will be learned: {told} to a sum of about {self.plan.divisor:g}"
            warnings.warn(f"{told}. Take fewer steps, or a larger batch or budget.", stacklevel=2)
        if not isinstance(also, Mapping | None):
            hint = 'Name each, such as {"scheduler": scheduler}.'
            checks.fail("also", f"[{type(also).__name__}]", "to be a mapping", hint)
        if checkpoint is None and also:
            checks.fail("also", list(also), "only with checkpoint", "Name a directory.")
        self.module, self.optimizer = module, optimizer
        tried = self._records.like(examples, _device(module))
        found = choose(module, losses, tried, engine)
        self._engine, self.engine, self.notes = found.engine, found.engine.name, found.notes
        if engine == "auto" and found.engine.name == "one by one":
            told = "Slow: gradients are made one example at a time"
            warnings.warn(f"{told} ({'; '.join(self.notes)}).", stacklevel=2)
        self._task, self._public = found.engine.task, tuple(each[:1] for each in tried)
        _check_optimizer(optimizer, self._task)
        with self._task.unmoved():
            self._records.check_range(module, losses, tried)
        self.physical_batch = _piece(physical_batch, found.bytes_an_example, self._task)
        self._dtypes = [each.dtype for each in self._task.parameters.values()]
        first = next(iter(self._task.parameters.values()))
        self._dtype = widened(first.new_empty(0)).dtype if dtype is None else dtype
        if self._dtype not in _SUMS:
            hint = "In fewer bits a record moves a large sum by more than its gradient is long."
            checks.fail("dtype", self._dtype, "to be torch.float32 or torch.float64", hint)
        self._modes = [(name, part, part.training) for name, part in module.named_modules()]
        self._noise: Noise = CryptoNormals() if random_state is None else SeededNoise(random_state)
        key = os.urandom(32) if random_state is None else _seeded_key(random_state)
        if random_state is not None:
            what = "random_state makes its noise and batches repeatable"
            warnings.warn(f"Not private: {what}.", PrivacyLeakWarning, stacklevel=2)
        self._batches = StepSampler(
            self.plan.sampling,
            len(self._records),
            self.plan.sample_rate,
            self.plan.steps_per_epoch or 1,
            key,
        )
        self._stream = self._noise.stream("steps")
        self.steps_done = 0
        self._ran = self._resumed = False
        self._checkpoint: Checkpoint | None = None
        if checkpoint is not None:
            checks.whole("checkpoint_every", checkpoint_every, at_least=1)
            place = Path(checkpoint)
            parts = {"optimizer": optimizer, **(also or {})}
            if parts["optimizer"] is not optimizer:
                checks.fail("also", "[optimizer]", "to be what else has a state", "It is kept.")
            source = "OS" if random_state is None else f"random_state={random_state}"
            self._checkpoint = Checkpoint(
                place, self.plan, module, parts, checkpoint_every, source, self._batches
            )
            if (state := self._checkpoint.resumed(self._batches)) is not None:
                self.steps_done, self._batches = state
                self._resumed = True

    # The loop

    def __len__(self) -> int:
        """Steps in all."""
        return self.plan.steps

    def __iter__(self) -> Iterator[LogicalBatch]:
        """The batches of all steps that are left, of all epochs; give each to `step`."""
        if self._ran and self.steps_done == self.plan.steps:
            told = f"All {self.plan.steps} steps are done, and this loop does nothing"
            hint = "One loop over the trainer is the whole training: no loop over epochs around it."
            warnings.warn(f"{told}. {hint}", stacklevel=2)
        while True:
            if self._checkpoint is not None:
                # Here, not in `step`: a scheduler steps behind it, and its state belongs to this.
                self._checkpoint.keep(self.steps_done, self.plan.steps, self._batches)
            if self.steps_done >= self.plan.steps:
                return
            now = self.steps_done
            yield LogicalBatch(now, self)
            if self.steps_done == now:
                hint = "Call trainer.step(batch) once for each batch."
                checks.fail("step", now, "to be done before the next batch", hint)

    def step(self, batch: LogicalBatch) -> None:
        """Clipped sum, noise and a step of the optimizer. It returns nothing: that is private."""
        if not isinstance(batch, LogicalBatch) or batch._trainer is not self:
            hint = (
                "Pass what iterating over the trainer gives: it owns which records are in a step."
            )
            checks.fail("batch", f"[{type(batch).__name__}]", "to be of this trainer", hint)
        if batch.step != self.steps_done or batch.step >= self.plan.steps:
            now, last = self.steps_done, self.plan.steps - 1
            hint = "Each batch is for one step; take the next."
            checks.fail("batch", batch.step, f"to be that of step {now}, and at most {last}", hint)
        if self._noise.repeatable:
            # By its step, so that an experiment that was killed goes on as if it had not been.
            self._stream = self._noise.stream("steps", batch.step)
        self.apply(self.batch_sum(batch.step))
        self._move_buffers()

    def run(self, after: Callable[[int], None] | None = None) -> Guarantee | None:
        """All steps that are left; `after(step)` is called behind each, for a scheduler say."""
        for batch in self:
            self.step(batch)
            if after is not None:
                after(batch.step)
        return self.guarantee() if self.private else None

    # Its parts: sums and noise are apart, so that several processes may share a step

    def batch_sum(self, step: int) -> Clipped:
        """The sum of clipped gradients over the records of a step. INTERNAL: there is no noise."""
        self._check_unchanged()
        places, size = self._batches.of(step), self.physical_batch
        total = Clipped.nothing(self._task.parameters, self._dtype)
        device = _device(self.module)
        for start in range(0, len(places), size):
            part = self._records.taken(places[start : start + size], device)
            self._add_clipped(part, total)
        return total

    def clipped_sum(self, batch: Sequence[Tensor]) -> Clipped:
        """The sum of clipped gradients over these examples. INTERNAL: there is no noise."""
        batch = tuple(batch)
        total = Clipped.nothing(self._task.parameters, self._dtype)
        for start in range(0, len(batch[0]), self.physical_batch):
            part = tuple(each[start : start + self.physical_batch] for each in batch)
            self._add_clipped(part, total)
        return total

    def _add_clipped(self, part: Batch, total: Clipped) -> None:
        def ended(error: Exception) -> Exception:
            told = f"The module failed on a batch of step {self.steps_done} ({_kind(error)})"
            return TrainingEnded(f"{told}; what it said is not quoted: it may hold a record.")

        with without_cells(ended), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning may tell the size of a batch, or a record
            try:
                self._engine.add_clipped(part, self.plan.clipping, total.sums)
            except (Changed, NotCaptured, NotOneEach) as error:
                # Not in its words: they tell how many records are in the batch.
                raise ended(error) from None
        total.examples += len(part[0])

    def _check_unchanged(self) -> None:
        """Refuse what was not tried: other modes, or other parameters with a gradient."""
        for name, part, mode in self._modes:
            if part.training is not mode:
                what = f"to be in the mode it was tried in (training={mode})"
                hint = "Put it back before the next step, or make another trainer."
                checks.fail("module", f"[{name or type(part).__name__}]", what, hint)
        trained = ModuleTask.of(self.module, self._task.losses).parameters
        if [id(each) for each in trained.values()] != [
            id(each) for each in self._task.parameters.values()
        ]:
            hint = "Freeze and unfreeze before the trainer is made; then make another."
            checks.fail("module", "[parameters]", "to train those that it was tried with", hint)
        for (name, each), dtype in zip(trained.items(), self._dtypes, strict=True):
            if each.dtype != dtype:
                what = f"to be {_short(dtype)}, as when it was tried"
                hint = "Convert the module before the trainer is made, or make another."
                checks.fail("module", f"[{name}: {_short(each.dtype)}]", what, hint)
        _check_optimizer(self.optimizer, self._task)

    def apply(self, summed: Clipped) -> None:
        """Add the noise, divide by the public size of a batch, and let the optimizer step.

        `summed` is used up: its numbers become the gradients. The step counts as done from here on,
        even if it is interrupted: its noise may be seen.
        """
        # What is not finite shows in the sum, which takes no memory.
        total = summed.flat.sum()
        if not bool(torch.isfinite(total)) and not bool(torch.isfinite(summed.flat).all()):
            told = f"The gradients of step {self.steps_done} are not finite"
            raise TrainingEnded(f"{told}. Lower the learning rate; the budget stays spent.")
        self.steps_done += 1
        self._ran = True
        scale = self.plan.noise_multiplier * self.plan.clipping.max_grad_norm
        mean = summed.flat
        if scale:
            # In place where that can be: the sum without noise is not needed any more.
            mean = mean.to("cpu")
            self._stream.add_to(mean.numpy(), scale)
            mean = mean.to(summed.flat.device)
        mean = mean.div_(self.plan.divisor)
        parameters = self._task.parameters
        for parameter, part in zip(
            parameters.values(), parts_of(mean, parameters).values(), strict=True
        ):
            parameter.grad = part.to(parameter.dtype)
        for group in self.optimizer.param_groups:
            for each in group["params"]:
                if not each.requires_grad:
                    each.grad = None  # nothing that is not of a noisy sum is applied
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _move_buffers(self) -> None:
        """Once a step, by a public input: passes would tell how many records a batch had."""
        if self._task.moving:
            with torch.no_grad(), torch.random.fork_rng():
                self._task.loss(tuple(each.clone() for each in self._public))

    # What is proved

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return not self._noise.repeatable and self.plan.noise_multiplier > 0

    def guarantee(self, delta: float | None = None) -> Guarantee:
        """What is proved of the steps up to here: all iterates, and so the last.

        Parameters
        ----------
        delta
            Where epsilon is told; by default that of the plan.

        Raises
        ------
        TrainingEnded
            If nothing is promised: there was no noise, or it can be drawn again.
        """
        if not self.private:
            why = "there is no noise" if not self._noise.repeatable else "random_state was given"
            raise TrainingEnded(f"Nothing is promised: {why}.")
        delta = self.plan.delta if delta is None else delta
        proof = self.plan.proof(self.steps_done, self.assumes)
        if self.plan.relation is not Relation.ADD_OR_REMOVE_ONE:  # there their number is private
            proof = replace(proof, not_covered=large_delta(delta, len(self._records)))
        return proof.guarantee(delta)

    @property
    def assumes(self) -> tuple[str, ...]:
        """What a guarantee rests on that is of the module."""
        dtype = _short(next(iter(self._task.parameters.values())).dtype)
        sums = _short(self._dtype)
        found = [
            "the module treats every input as it did the inputs it was tried on: no examples meet",
            "nothing that was read of single rows or noiseless sums left the training",
            "no record makes the module fail, or a gradient that is not finite: that ends a "
            "training, and whoever sees it end learns of the record",
            f"rounding inside the training is not counted; gradients are {dtype}, sums {sums}",
            f"noise: {self._noise.name}",
        ]
        if self.plan.relation is Relation.ADD_OR_REMOVE_ONE:
            # One record more moves others to other places, where they meet other draws.
            what = "what the module itself draws (dropout) is of a generator"
            found.append(f"{what} whose state nobody outside knows")
        if self._resumed:
            what = "what a killed process made after its last checkpoint was lost"
            found.append(f"{what}, and nobody saw it: those steps were done again")
        return tuple(found)


# The records --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Records:
    """What is trained on: tensors, or a dataset that gives one record at a time."""

    tensors: Batch | None
    dataset: Any
    count: int

    @classmethod
    def of(cls, data: Any) -> _Records:
        if isinstance(data, Dataset) and not isinstance(data, torch.utils.data.TensorDataset):
            if not isinstance(data, Sized) or isinstance(data, torch.utils.data.IterableDataset):
                hint = "How many records there are decides what is proved; wrap it in a list."
                checks.fail("data", f"[{type(data).__name__}]", "to have a length", hint)
            if len(data) < 1:
                checks.fail("data", "[]", "to hold a record")
            return cls(None, data, len(data))
        if isinstance(data, torch.utils.data.TensorDataset):
            data = data.tensors
        if isinstance(data, Tensor | np.ndarray):
            data = (data,)
        if not isinstance(data, tuple | list) or not data:
            hint = "Pass (X, y), or a torch Dataset."
            if isinstance(data, torch.utils.data.DataLoader):
                hint = "Pass loader.dataset: the trainer draws the batches itself."
            checks.fail("data", f"[{type(data).__name__}]", "to be tensors or a Dataset", hint)
        tensors = tuple(_tensor(each) for each in data)
        counts = {len(each) for each in tensors}
        if len(counts) != 1 or not min(counts):
            hint = "The first axis of each is that of the records."
            checks.fail("data", "[tensors]", "to have one length, of at least 1", hint)
        return cls(tensors, None, counts.pop())

    def __len__(self) -> int:
        return self.count

    def taken(self, places: Any, device: torch.device) -> Batch:
        """These records, as a batch."""
        if self.tensors is not None:
            index = torch.as_tensor(places)
            return tuple(each[index].to(device, non_blocking=True) for each in self.tensors)

        def ended(error: Exception) -> Exception:
            told = f"The dataset failed ({type(error).__name__})"
            quiet = "what it said is not quoted: it may hold a record"
            hint = "All records must give tensors of the same shapes: pad texts to one length."
            return TrainingEnded(f"{told}; {quiet}. {hint}")

        with without_cells(ended):
            made = default_collate([self.dataset[int(place)] for place in places])
        parts = made if isinstance(made, tuple | list) else (made,)
        if not parts or not all(isinstance(each, Tensor) for each in parts):
            hint = "Let it give a tuple of tensors, or of what torch makes tensors of."
            kinds = ", ".join(type(each).__name__ for each in parts)
            checks.fail("data", f"[{kinds}]", "to give tensors for each record", hint)
        return tuple(each.to(device) for each in parts)

    def like(self, examples: Any, device: torch.device) -> Batch:
        """Public inputs, or made-up ones of the records' shape and type."""
        if examples is not None:
            parts = examples if isinstance(examples, tuple | list) else (examples,)
            return tuple(_tensor(each).to(device) for each in parts)
        first = self.taken(np.arange(1), torch.device("cpu"))
        made = [made_up(each) for each in first]
        if any(each is None for each in made):
            checks.fail("examples", None, "to be given for such records", "Pass public ones.")
        return tuple(torch.as_tensor(each).to(device) for each in made)

    def check_range(self, module: nn.Module, losses: Losses, tried: Batch) -> None:
        """Refuse labels and indices that the module does not take, as far as tensors show them."""
        if not _works(module, losses, tried):  # in float64, where it was tried, it did
            given = ", ".join(_short(each.dtype) for each in tried)
            own = ", ".join(sorted({_short(each.dtype) for each in module.parameters()}))
            hint = "Convert the data once, such as X.astype('float32') or X.float()."
            checks.fail("data", f"[{given}]", f"to be of types that the module takes ({own})", hint)
        if self.tensors is None:
            return
        for place, each in enumerate(self.tensors):
            if each.is_floating_point():
                if not bool(torch.isfinite(each).all()):
                    checks.fail("data", f"[tensor {place}]", "to hold finite numbers only")
                continue
            if each.dtype == torch.bool or each.is_complex():
                continue
            ends = torch.stack([each.min(), each.max()]).to(tried[place].device)
            batch = list(tried)
            for end in ends:
                batch[place] = end.expand_as(tried[place]).clone()
                if not _works(module, losses, tuple(batch)):
                    hint = "Labels count from 0, and indices are below the table's size."
                    where = f"[whole numbers of tensor {place}]"
                    checks.fail("data", where, "to be within what the module takes", hint)


def _works(module: nn.Module, losses: Losses, batch: Batch) -> bool:
    """Whether nothing is raised; outside, so that no traceback quotes what was raised."""
    try:
        with torch.enable_grad(), torch.random.fork_rng():  # as in training
            losses(module, *(each.clone() for each in batch))  # some change their inputs in place
    except Exception:
        return False
    return True


def _kind(error: Exception) -> str:
    known = {
        Changed: "it used its parameters otherwise than when it was tried",
        NotCaptured: "it used its parameters otherwise than when it was tried",
        NotOneEach: "losses did not return one loss for each example",
    }
    return known.get(type(error), type(error).__name__)


def _tensor(values: Any) -> Tensor:
    tensor = values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
    if not tensor.ndim:
        checks.fail("data", "[a number]", "to have an axis of records")
    return tensor.detach()


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _device(module: nn.Module) -> torch.device:
    first = next(module.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def _check_optimizer(optimizer: torch.optim.Optimizer, task: ModuleTask) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        checks.fail("optimizer", f"[{type(optimizer).__name__}]", "to be one of torch")
    if isinstance(optimizer, torch.optim.LBFGS):
        hint = "It asks for gradients again and again; use SGD or Adam."
        checks.fail("optimizer", "[LBFGS]", "to take one gradient a step", hint)
    held = {id(each) for group in optimizer.param_groups for each in group["params"]}
    trained = {id(each): name for name, each in task.parameters.items()}
    if missing := [name for key, name in trained.items() if key not in held]:
        hint = "Freeze it with requires_grad_(False), or give it to the optimizer."
        checks.fail("optimizer", f"[without {missing[0]}]", "to hold all that is trained", hint)
    others = [
        each
        for group in optimizer.param_groups
        for each in group["params"]
        if id(each) not in trained and each.requires_grad
    ]
    if others:
        hint = "What is not of the module would be trained without clipping or noise."
        checks.fail(
            "optimizer", f"[{len(others)} more]", "to hold the module's parameters only", hint
        )


def _piece(given: int | None, bytes_an_example: int, task: ModuleTask) -> int:
    if given is not None:
        return checks.whole("physical_batch", given, at_least=1)
    weights = sum(each.numel() * each.element_size() for each in task.parameters.values())
    room = _cost.free_memory() // _SHARE - 4 * weights
    return max(1, min(1 << 16, room // (_HELD * bytes_an_example)))


def _seeded_key(seed: int) -> bytes:
    checks.whole("random_state", seed)
    return np.random.SeedSequence([seed, 0x5EED]).generate_state(8, np.uint32).tobytes()
