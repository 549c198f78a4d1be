"""Before training: which engine serves a module, or why none may. No private row is looked at.

A clipped sum bounds what one example does only if it is a sum of clipped gradients of single
examples. Where a module lets examples meet, keeps a state of the data, or is used in a way that an
engine does not understand, a sum comes out all the same, and means nothing. So the module is tried,
in a copy, on made-up or public inputs: each engine must equal the loop over single examples, each
example's loss must be the one that it has alone, and no buffer may change with the data.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy

from sordino import checks
from sordino.errors import InvalidArgument, printable
from sordino.networks.calls import Call, NotCaptured, tensors_in
from sordino.networks.clipping import KINDS, Clipping
from sordino.networks.gradients import (
    Batch,
    Changed,
    Engine,
    Losses,
    Mapped,
    ModuleTask,
    NotOneEach,
    OneByOne,
    OnePass,
    captured,
    signature,
)
from sordino.networks.still import Still
from sordino.networks.uses import Placement

_Made = TypeVar("_Made")
ENGINES = ("auto", "one-pass", "torch.func", "one-by-one")
_LEAST = 4
"""Inputs that a trial needs: three in a batch, and one to put in another's place."""
_LARGE = 10**6
"""Weights of a network from which on fewer examples are tried at once."""
_MANY = 33
"""Examples of one larger batch: some modules do something else with many."""
_TURNS = 16
"""How often a module that draws is tried, each time with other draws."""
_SOME = slice(None, None, 5)
"""Those of it that are looked at alone, too: of every size some."""
_SIZES = (1.0, 1000.0, -1000.0, 1e-3)
"""What the examples of that batch are multiplied by, one after the other."""
_DOUBLE, _SINGLE = 1e-9, 1e-4
"""Largest difference from the loop, relative to the largest gradient, by the arithmetic."""
_NORMS = (
    "Use GroupNorm, LayerNorm or RMSNorm; or, where its statistics are public, freeze it: "
    ".eval() of this part before the trainer is made."
)


@dataclass(frozen=True)
class Tried:
    """What a trial found.

    Parameters
    ----------
    engine
        The fastest engine that equals the loop.
    notes
        Why faster ones do not serve, and what else is to be known; each one clause.
    bytes_an_example
        Memory that an example of a batch takes in a pass.
    """

    engine: Engine
    notes: tuple[str, ...]
    bytes_an_example: int


def choose(module: nn.Module, losses: Losses, inputs: Batch, engine: str = "auto") -> Tried:
    """Try the module, and return the fastest engine that is right for it.

    Parameters
    ----------
    module, losses
        What will be trained, in the mode in which it will be.
    inputs
        Made-up or public examples, at least four: what is found is told.
    engine
        One of `ENGINES`.

    Raises
    ------
    InvalidArgument
        If no engine is right, with the part of the module that is to blame, and what to do.
    """
    checks.one_of("engine", engine, ENGINES)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # batches of six are not worth waking others for
    try:
        with torch.enable_grad():  # and the mode is put back, whatever the module does to it
            return _chosen(module, losses, inputs, engine)
    finally:
        torch.set_num_threads(threads)


def _chosen(module: nn.Module, losses: Losses, inputs: Batch, engine: str) -> Tried:
    if any(each.layout != torch.strided for each in inputs):
        checks.fail("examples", "[sparse]", "to be dense tensors")
    if len({len(each) for each in inputs}) != 1:
        checks.fail("examples", "[tensors]", "to have one length")
    if len(inputs[0]) < _LEAST:
        checks.fail("examples", f"[{len(inputs[0])}]", f"to be at least {_LEAST}")
    _check_kinds(module)
    task, batch, tolerance = _copied(module, losses, inputs)
    trial = _Trial(task, batch, tolerance)
    trial.check_losses()
    trial.check_many()
    trial.check_state()
    trial.check_others()
    trial.check_gradients()
    notes = ["buffers move once a step, not with each pass"] if trial.task.moving else []
    for name in ENGINES[1:] if engine == "auto" else (engine,):
        found = trial.engine(name)
        reason = found if isinstance(found, str) else trial.differs(found)
        if reason is None:
            assert isinstance(found, Engine)
            task = ModuleTask.of(module, losses, trial.task.moving)
            return Tried(_for(found, task), tuple(notes), trial.memory())
        notes.append(f"not {name}: {reason}")
    return trial.refuse("its gradients to be those of single examples", "; ".join(notes))


def _for(engine: Engine, task: ModuleTask) -> Engine:
    """The same engine, for the module itself."""
    if isinstance(engine, OnePass):
        return OnePass(task, engine.layouts)
    return type(engine)(task)


def _copied(module: nn.Module, losses: Losses, inputs: Batch) -> tuple[ModuleTask, Batch, float]:
    """A copy in float64 if it can be had and works, or one as it is."""
    wide = tuple(each.double() if each.is_floating_point() else each for each in inputs)
    with suppress(Exception):  # a module may raise anything: then it is tried as it is
        task = ModuleTask.of(copy.deepcopy(module).double(), losses)
        with torch.random.fork_rng(), Still():
            task.loss(tuple(each.clone() for each in wide))
        return ModuleTask.of(copy.deepcopy(module).double(), losses), wide, _DOUBLE
    with suppress(Exception):
        return ModuleTask.of(copy.deepcopy(module), losses), inputs, _SINGLE
    return (
        ModuleTask.of(module, losses),
        inputs,
        _SINGLE,
    )  # nothing but buffers is changed, and put back


class _Trial:
    """One module, tried on some batches of made-up inputs."""

    def __init__(self, task: ModuleTask, inputs: Batch, tolerance: float) -> None:
        self._still = Still()
        self.task = ModuleTask(task.module, self._begun(task.losses), task.parameters)
        self.inputs, self.tolerance = inputs, tolerance
        self.wide = 2 if tolerance == _DOUBLE else 1  # what it takes more than the module will
        self.held = _buffers(task.module)
        self.state = {
            name: each.detach().clone() for name, each in self.held.items() if each is not None
        }
        named = task.module.named_parameters()
        self.weights = {name: each.detach().clone() for name, each in named}
        many = len(inputs[0])
        numbers = sum(each.numel() for each in task.parameters.values())
        most = 6 if numbers < _LARGE else 3  # so many gradients are held at once
        self.batches = [self._taken(places) for places in _orders(many, most)]
        self.batches += [_scaled(self.batches[0], factor) for factor in (-1.0, 30.0)]
        self.depends = False

    def _taken(self, places: Sequence[int]) -> Batch:
        return tuple(each[list(places)] for each in self.inputs)

    def _begun(self, losses: Losses) -> Losses:
        def begun(module: nn.Module, *batch: Tensor) -> Tensor:
            own = tuple(each.clone() for each in batch)  # a module may change its inputs in place
            self._still.begin(own)
            made = losses(module, *own)
            self._still.end()
            return made

        return begun

    def restore(self) -> None:
        """Buffers as they were, for every try."""
        for name in _buffers(self.task.module):
            owner, _, last = name.rpartition(".")
            buffers = self.task.module.get_submodule(owner)._buffers
            if name in self.held:
                buffers[last] = self.held[name]
            else:
                del buffers[last]
        with torch.no_grad():
            for name, buffer in self.held.items():
                if buffer is not None:
                    buffer.copy_(self.state[name])

    def run(self, work: Callable[[], _Made]) -> _Made:
        """Do something with the module, without chance."""
        self.restore()
        with torch.random.fork_rng():
            torch.manual_seed(self._still.turn)
            with self._still:
                return work()

    def losses(self, batch: Batch) -> Tensor:
        """The losses of a batch."""

        def work() -> Tensor:
            with torch.enable_grad():  # as in training: a module may ask for gradients itself
                return self.task.loss(batch).detach()

        return self.run(work)

    # What must hold of any engine

    def check_losses(self) -> None:
        """Each example's loss is the one it has alone, whatever it is beside; one for each."""
        finite = False
        for batch in self.batches:
            try:
                together = self.losses(batch)
                alone = torch.cat([self.losses(each) for each in _singles(batch)])
            except NotOneEach as error:
                checks.fail(
                    "losses(module, *batch)", f"[{error}]", "to be one for each", error.hint
                )
            except InvalidArgument:
                raise
            except Exception as error:
                tried = ", ".join(f"{_type(e)} {tuple(e.shape[1:])}" for e in self.inputs)
                hint = (
                    "Mend the module, losses(module, *batch) or the data; or pass public "
                    "examples=... if it needs other inputs."
                )
                what = (
                    f"to work on made-up inputs of {tried}, also on a single one ({_said(error)})"
                )
                checks.fail("module", _named(self.task.module), what, hint)
            if self._still.narrows:  # it computes in float32, whatever it is given
                self.tolerance = _SINGLE
            if not torch.isfinite(together).all():
                continue  # inputs of another size may overflow it
            finite = True
            if not _close(self.losses(batch), together, self.tolerance):
                self.refuse("to give the same for the same inputs", "It keeps a state or draws.")
            if not _close(together, alone, self.tolerance):
                self.blame(batch)
        if not finite:
            self.refuse("to have finite losses on made-up inputs", "Pass examples=... of its kind.")
        if self._still.draws:
            self.check_chance()
        self.depends = self._still.reads

    def check_chance(self) -> None:
        """The same for other draws: a module may mix by chance."""
        for self._still.turn in range(1, _TURNS):
            batch = self.batches[0]
            together = self.losses(batch)
            alone = torch.cat([self.losses(each) for each in _singles(batch)])
            if torch.isfinite(together).all() and not _close(together, alone, self.tolerance):
                self.blame(batch)
        self._still.turn = 0

    def check_many(self) -> None:
        """The same of more examples and of very different sizes: what mixes may do so seldom."""
        places = [place % len(self.inputs[0]) for place in range(_MANY)]
        plain = self._taken(places)
        for batch in (_unequal(plain), plain):
            try:
                together = self.losses(batch)[_SOME]
                some = tuple(each[_SOME] for each in batch)
                alone = torch.cat([self.losses(each) for each in _singles(some)])
            except Exception as error:
                if batch is not plain:  # inputs of another size may be beyond what it takes
                    continue
                self.refuse(f"to work on a batch of {_MANY}", f"It raised {_said(error)}.")
            finite = torch.isfinite(alone)
            if not _close(together[finite], alone[finite], self.tolerance):
                self.blame(batch)
            return

    def check_state(self) -> None:
        """Weights are not changed by a pass; buffers may be, but not with the data."""
        self._check_attributes()
        found: list[dict[str, Tensor]] = []
        for batch in self.batches[:2] + self.batches[3:]:
            self.losses(batch)
            for name, weight in self.task.module.named_parameters():
                same = weight is self.task.parameters.get(name, weight)
                if not same or not _alike(weight, self.weights.get(name)):
                    owner = name.rpartition(".")[0]
                    part = self.task.module.get_submodule(owner)
                    what = "not to change its weights when it is called: noise would not cover that"
                    _refuse_part(part, owner, what, "Change weights in the optimizer.")
            now = self.task.module.named_buffers()
            found.append({name: each.detach().clone() for name, each in now})
        self.restore()
        moving = [name for name, each in found[0].items() if not _alike(each, self.state.get(name))]
        self.task = replace(self.task, moving=tuple(moving))
        for other in found[1:]:
            for name, buffer in found[0].items():
                if not _alike(buffer, other.get(name)):
                    owner = name.rpartition(".")[0]
                    kind = _named(self.task.module.get_submodule(owner), owner)
                    what = (
                        f"to leave its buffer {name!r} alone: it would hold what was read of rows"
                    )
                    checks.fail("module", kind, what, _NORMS)

    def _check_attributes(self) -> None:
        """No attribute keeps what it was given: whoever gets the module would get that, too."""
        held = []
        for batch in self.batches[:2]:
            self.losses(batch)
            held.append(_attributes(self.task.module))
        for (owner, name), values in held[1].items():
            before = held[0].get((owner, name), [])
            if len(values) == len(before) and all(map(_alike, values, before)):
                continue
            part = self.task.module.get_submodule(owner)
            what = f"to keep nothing of its inputs, as its attribute {name!r} does"
            _refuse_part(part, owner, what, "Return it, or delete it at the end of forward.")

    def check_others(self) -> None:
        """Nothing but the module's parameters gets a gradient: that would be without noise."""
        own = {id(each) for each in self.task.module.parameters()}
        first, again = self._leaves(), self._leaves()
        kept = {id(each) for each in first}  # what a pass makes for itself is another in the next
        if others := [each for each in again if id(each) in kept and id(each) not in own]:
            hint = "Use torch.no_grad() or requires_grad_(False); or make it a part of the module."
            shape = ", ".join(str(size) for size in others[0].shape)
            what = "to give no gradient to anything but the parameters of the module it is given"
            checks.fail("losses", f"[a tensor ({shape}) that requires a gradient]", what, hint)

    def _leaves(self) -> list[Tensor]:
        """Tensors to which a backward pass would add gradients."""

        def work() -> list[Tensor]:
            with torch.enable_grad():
                todo = [self.task.loss(self.batches[0]).grad_fn]
            met: set[Any] = set()
            found = []
            while todo:
                node = todo.pop()
                if node is None or node in met:
                    continue
                met.add(node)
                if isinstance(leaf := getattr(node, "variable", None), Tensor):
                    found.append(leaf)
                todo += [each for each, _ in node.next_functions]
            return found

        return self.run(work)

    def blame(self, batch: Batch) -> NoReturn:
        """Name the first part of the module whose output for an example depends on others."""
        together = self._outputs(batch)
        alone = [self._outputs(each) for each in _singles(batch)]
        for name, output in together:
            parts = [dict(each).get(name) for each in alone]
            if any(part is None or part.shape[1:] != output.shape[1:] for part in parts):
                continue
            if len(output) != len(batch[0]) or any(
                len(part) != 1 for part in parts if part is not None
            ):
                continue
            single = torch.cat([part for part in parts if part is not None])
            if not _close(output, single, self.tolerance):
                part = self.task.module.get_submodule(name)
                self._mixes(_named(part, name), part)
        self._mixes("[losses]", None)

    def _mixes(self, name: str, part: nn.Module | None) -> NoReturn:
        what = "not to mix examples: what it gives for one depends on the others of the batch"
        hint = "Return each example's own loss, and compare no examples."
        if part is not None:
            hint = _NORMS if "Norm" in type(part).__name__ else "Compute it for each example alone."
        checks.fail("module" if part is not None else "losses", name, what, hint)

    def _outputs(self, batch: Batch) -> list[tuple[str, Tensor]]:
        found: list[tuple[str, Tensor]] = []
        hooks = []

        def hook(name: str) -> Callable[..., None]:
            def keep(part: nn.Module, inputs: Any, output: Any) -> None:
                first = next(tensors_in((output,)), None)
                if first is not None and first.ndim:
                    found.append((name, first.detach().clone()))

            return keep

        for name, part in self.task.module.named_modules():
            hooks.append(part.register_forward_hook(hook(name)))
        try:
            self.losses(batch)
        finally:
            for each in hooks:
                each.remove()
        return found

    def refuse(self, condition: str, hint: str) -> NoReturn:
        """Say what the module was expected to do."""
        checks.fail("module", _named(self.task.module), condition, hint)

    # Engines

    def check_gradients(self) -> None:
        """Some gradient is finite and not 0: else the losses are of another module."""
        found = [_largest(each) for batch in self.batches if (each := self.reference(batch))]
        if not found:
            self.refuse("to have finite gradients on made-up inputs", "Make the loss smaller.")
        if not max(found):
            hint = "Does losses(module, ...) use the module it is given, without detach()?"
            self.refuse("to have parameters whose gradient is not 0", hint)

    def reference(self, batch: Batch) -> dict[str, Tensor] | None:
        """Gradients of single examples by the loop; None where they are not finite."""
        try:
            made = self.run(partial(OneByOne(self.task).single, batch))
        except Exception as error:
            self.refuse("to have a gradient for a single example", f"It raised {_said(error)}.")
        squares = [each.square().sum() for each in made.values()]  # as norms need them
        return made if all(bool(torch.isfinite(each)) for each in squares) else None

    def engine(self, name: str) -> Engine | str:
        """The engine of that name for the copy, or why there is none."""
        if name == "one-by-one":
            return OneByOne(self.task)
        if self.depends:
            return "the module's course depends on values of the batch"
        if name == "torch.func":
            return Mapped(self.task)
        try:
            return OnePass(self.task, self._layouts())
        except (NotCaptured, Changed) as error:
            return str(error)
        except Exception as error:
            return _said(error)

    def _layouts(self) -> list[tuple[tuple[Any, ...], Placement]]:
        """Where the examples are in every call's input: where it changes with an example."""
        base = self.batches[0]
        many = len(base[0])
        calls = self._calls(base)
        others = [self._calls(_replaced(base, place, self.inputs)) for place in range(many)]
        smaller = self._calls(tuple(each[:-1] for each in base))
        for found in (*others, smaller):
            if [signature(call) for call in found] != [signature(call) for call in calls]:
                raise Changed("the parameters are used in another order for other inputs")
        pairs = zip(calls, smaller, strict=True)
        return [
            (signature(call), _layout(call, less, [each[place] for each in others], many))
            for place, (call, less) in enumerate(pairs)
        ]

    def _calls(self, batch: Batch) -> list[Call]:
        return self.run(lambda: captured(self.task, batch))

    def differs(self, engine: Engine) -> str | None:
        """How the engine differs from the loop; None if it does not."""
        for batch in self.batches:
            # Not kept: of a large network they are large.
            if (singles := self.reference(batch)) is None:
                continue
            sizes = {len(batch[0]), 1} if batch is self.batches[0] else {len(batch[0])}
            for size in sizes:
                part = tuple(each[:size] for each in batch)
                wanted = {name: each[:size] for name, each in singles.items()}
                if reason := self._differs(engine, part, wanted):
                    return reason
        return None

    def _differs(self, engine: Engine, batch: Batch, singles: dict[str, Tensor]) -> str | None:
        largest = _largest(singles) or 1.0
        try:
            made = self.run(lambda: engine.single(batch))
            for name, wanted in singles.items():
                off = (made[name] - wanted).abs().max().item() if wanted.numel() else 0.0
                if not off <= self.tolerance * largest:
                    return f"gradients of {name} differ by {off / largest:.1g} of the largest"
            norms = sum(each.flatten(1).square().sum(1) for each in map(_flat, singles.values()))
            assert isinstance(norms, Tensor)
            bound = float(norms.sqrt().median()) or 1.0
            for kind in KINDS:
                clipping = Clipping(kind, bound)
                sums = self.run(partial(engine.clipped, batch, clipping))
                for name, wanted in _clipped(singles, clipping).items():
                    off = (sums[name] - wanted).abs().max().item() if wanted.numel() else 0.0
                    if not off <= self.tolerance * bound * len(batch[0]):
                        return f"the {kind} sum of {name} differs by {off / bound:.1g} norms"
        except (NotCaptured, Changed) as error:
            return str(error)
        except Exception as error:
            return _said(error)
        return None

    def memory(self) -> int:
        """Bytes that an example of a batch takes in a pass, all that is kept for it counted."""
        batch, held = self.batches[0], []
        for size in (1, len(batch[0])):
            kept: dict[int, int] = {}

            def pack(tensor: Tensor, kept: dict[int, int] = kept) -> Tensor:
                # The tensor itself, kept by the node that made it, would keep both for ever.
                storage = tensor.untyped_storage()
                kept[storage.data_ptr()] = storage.nbytes()
                return tensor.detach()  # a pass may go back itself: gradients in the loss

            part = tuple(each[:size] for each in batch)

            def work(part: Batch = part) -> None:
                with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, _same):
                    self.task.loss(part)

            self.run(work)
            held.append(sum(kept.values()))
        return max(1, (held[1] - held[0]) // max(1, len(batch[0]) - 1) // self.wide)


# Parts of it --------------------------------------------------------------------------------------


def _check_kinds(module: nn.Module) -> None:
    """Refuse by name what is known to be wrong."""
    if not isinstance(module, nn.Module):
        checks.fail("module", f"[{type(module).__name__}]", "to be a torch module")
    for name, parameter in module.named_parameters():
        if is_lazy(parameter):
            hint = "Run it once on made-up inputs first, so that its shapes are known."
            checks.fail("module", f"[{name}]", "to have its parameters", hint)
    for name, part in module.named_modules():
        if isinstance(part, _BatchNorm) and part.training and not isinstance(part, _InstanceNorm):
            _refuse_part(part, name, "to use no statistics of the batch", _NORMS)
        if isinstance(part, _InstanceNorm) and part.track_running_stats and part.training:
            hint = "Pass track_running_stats=False."
            _refuse_part(part, name, "to keep no statistics of the data", hint)
        if isinstance(part, nn.Embedding | nn.EmbeddingBag):
            if part.max_norm is not None:
                what = "not to change its weights when they are read (max_norm)"
                _refuse_part(part, name, what, "Leave out max_norm.")
            if part.scale_grad_by_freq:
                what = "not to scale gradients by how often a word is in the batch"
                _refuse_part(part, name, what, "Leave out scale_grad_by_freq.")
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            hint = "Remove it: change what the optimizer is given, which is clipped and has noise."
            checks.fail("module", f"[{name}]", "to have no hook on its gradient", hint)
        if parameter.requires_grad and not parameter.is_floating_point():
            hint = "Train torch.view_as_real of it."
            checks.fail("module", f"[{name}]", "to have real numbers as parameters", hint)
    if not any(each.requires_grad for each in module.parameters()):
        hint = "All are frozen: unfreeze some with requires_grad_(True)."
        checks.fail("module", _named(module), "to have a parameter that requires a gradient", hint)


def _refuse_part(part: nn.Module, name: str, what: str, hint: str) -> NoReturn:
    checks.fail("module", _named(part, name), what, hint)


def _buffers(module: nn.Module) -> dict[str, Tensor | None]:
    """All that are registered, also those that are None for now."""
    return {
        f"{owner}.{last}" if owner else last: buffer
        for owner, part in module.named_modules()
        for last, buffer in part._buffers.items()
    }


def _attributes(module: nn.Module) -> dict[tuple[str, str], list[Tensor]]:
    """Numbers that parts hold in attributes which are no buffers and no parameters."""
    known = nn.Module().__dict__.keys()
    return {
        (owner, name): [each.detach().clone() for each in _numbers_in(value)]
        for owner, part in module.named_modules()
        for name, value in vars(part).items()
        if name not in known
    }


def _numbers_in(value: Any) -> Iterator[Tensor]:
    yield from tensors_in((value,))
    for each in value if isinstance(value, list | tuple) else (value,):
        if isinstance(each, float | np.ndarray):
            with suppress(TypeError):  # no numbers
                yield torch.as_tensor(each)


def _alike(one: Tensor, other: Tensor | None) -> bool:
    if other is None or one.shape != other.shape:
        return False
    return torch.equal(one.nan_to_num(), other.nan_to_num())


def _named(part: nn.Module, name: str = "") -> str:
    kind = type(part).__name__
    return f"[{printable(name, 40)}: {kind}]" if name else f"[{kind}]"


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _said(error: Exception) -> str:
    """What was raised on inputs that are public, so that it may be quoted."""
    first = ""
    with suppress(Exception):  # an exception of the module's own may fail at its text, too
        first = str(error).strip().partition("\n")[0]
    return (
        f"{type(error).__name__}: {printable(first, 120).rstrip('.')}"
        if first
        else type(error).__name__
    )


def _orders(many: int, most: int) -> list[list[int]]:
    """Places of batches: the first, those with others beside each, the other way round, few."""
    size = min(most, many - 1)
    first = list(range(size))
    later = [(place + size) % many for place in first]
    return [first, [first[0], *later[1:]], first[::-1], first[: max(2, size // 2)]]


def _scaled(batch: Batch, factor: float) -> Batch:
    """The batch with numbers of another size or sign; labels stay."""
    return tuple(each * factor if each.is_floating_point() else each for each in batch)


def _unequal(batch: Batch) -> Batch:
    """The batch with examples of very different sizes; labels stay."""
    factors = torch.tensor([_SIZES[place % len(_SIZES)] for place in range(len(batch[0]))])
    return tuple(
        each * factors.to(each).reshape(-1, *(1 for _ in each.shape[1:]))
        if each.is_floating_point()
        else each
        for each in batch
    )


def _singles(batch: Batch) -> list[Batch]:
    return [tuple(each[place : place + 1] for each in batch) for place in range(len(batch[0]))]


def _replaced(batch: Batch, place: int, inputs: Batch) -> Batch:
    """The batch with something else in one example's place."""
    found = []
    for each, other in zip(batch, inputs, strict=True):
        changed = each.clone()
        value = other[-1]
        if torch.equal(value, each[place]):
            value = other[(place + 1) % len(other)]
        changed[place] = value
        found.append(changed)
    return tuple(found)


def _layout(call: Call, less: Call, others: Sequence[Call], many: int) -> Placement:
    """The axis of a call's first input along which the examples are, and in which order."""
    if call.leaf is not None:
        return Placement()
    tensor, fewer = call.inputs[0], less.inputs[0]
    axes = range(tensor.ndim if call.kind in ("embedding", "norm", "prelu") else tensor.ndim - 1)
    fitting = [
        axis
        for axis in axes
        if tensor.shape[axis] % many == 0
        and fewer.shape[axis] * many == tensor.shape[axis] * (many - 1)
    ]
    changed = [_changed(tensor, other.inputs[0]) for other in others]
    for axis in fitting:
        fold = tensor.shape[axis] // many
        for outer in (True, False) if fold > 1 else (True,):
            layout = Placement(axis, fold, outer)
            if all(_only(layout.rows(each, many), place) for place, each in enumerate(changed)):
                return layout
    raise NotCaptured(f"the examples were not found in what goes into {call.kind} of {call.names}")


def _changed(tensor: Tensor, other: Tensor) -> Tensor:
    return tensor != other if tensor.shape == other.shape else torch.ones_like(tensor).bool()


def _only(changed: Tensor, place: int) -> bool:
    """Whether nothing changed outside this example."""
    others = torch.arange(len(changed), device=changed.device) != place
    return not bool(changed[others].any())


def _clipped(singles: dict[str, Tensor], clipping: Clipping) -> dict[str, Tensor]:
    """What an engine's sums must be, written out."""
    names = list(singles)
    groups = clipping.groups(names)
    many = len(next(iter(singles.values())))
    squares = next(iter(singles.values())).new_zeros(many, max(groups) + 1)
    for name, group in zip(names, groups, strict=True):
        squares[:, group] += _flat(singles[name]).square().sum(1)
    factors = clipping.factors(squares.sqrt())
    return {
        name: torch.tensordot(factors[:, group], singles[name], 1)
        for name, group in zip(names, groups, strict=True)
    }


def _flat(each: Tensor) -> Tensor:
    return each.reshape(len(each), -1)


def _largest(singles: dict[str, Tensor]) -> float:
    return max((float(each.abs().max()) for each in singles.values() if each.numel()), default=0.0)


def _close(found: Tensor, wanted: Tensor, tolerance: float) -> bool:
    largest = float(wanted.abs().max()) if wanted.numel() else 1.0
    return bool(((found - wanted).abs() <= tolerance * max(largest, 1e-30)).all())


def _same(kept: Tensor) -> Tensor:
    return kept
