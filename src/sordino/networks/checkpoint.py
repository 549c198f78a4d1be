"""`Checkpoint`: the INTERNAL state of a training on disk, from which the same call goes on.

One file, written whole or not at all: weights, buffers and the optimizer's tensors as safetensors,
the rest as JSON in its header. It holds noisy iterates, which the proof covers, and the key of the
batches, which nobody may see: the directory stays inside. Noise is never kept: a new process draws
under a new key, so none is repeated.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor, nn

from sordino import _files, checks, serialize
from sordino.errors import Refused
from sordino.networks.plan import TrainingPlan
from sordino.networks.sampler import StepSampler

FILE = "INTERNAL-training.safetensors"
_SCHEMA, _VERSION = "sordino/network-checkpoint", 1
_WORDS = {
    "plan": ": epsilon, batch_size, epochs or another setting",
    "shapes": ": names or sizes of the module's tensors",
    "kinds": ": the optimizer, or what is in also=",
    "records": ": how many there are",
}
"""What may differ, as its user knows it."""
_KEY = 32
"""Bytes of the key of the batches."""


class CheckpointError(Refused, ValueError):
    """A checkpoint that cannot be gone on from."""


class Checkpoint:
    """Where a training is kept, and how often.

    Parameters
    ----------
    directory
        Made if it is missing, for its owner alone.
    plan, module
        What is trained; only the same plan goes on.
    parts
        What else has `state_dict` and `load_state_dict`: optimizer, scheduler, a moving average.
    every
        Steps between two states.
    noise
        Where noise comes from: steps with repeatable noise are no part of a private training.
    batches
        To write a first state at once, nowhere: what cannot be kept is told before training.
    """

    def __init__(
        self,
        directory: Path,
        plan: TrainingPlan,
        module: nn.Module,
        parts: Mapping[str, Any],
        every: int,
        noise: str,
        batches: StepSampler,
    ) -> None:
        self.directory, self.every = directory, every
        self._kept: int | None = None
        self._module, self._parts, self._noise = module, dict(parts), noise
        self._plan = json.loads(json.dumps(asdict(plan), default=str))
        for name, each in module.state_dict().items():
            if not isinstance(each, Tensor):
                checks.fail(
                    "module", f"[{name}: {type(each).__name__}]", "to have a state of tensors"
                )
        self._shapes = {name: _shape(each) for name, each in module.state_dict().items()}
        self._kinds = {name: type(part).__qualname__ for name, part in self._parts.items()}
        for name, part in self._parts.items():
            if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
                checks.fail(f"also[{name!r}]", f"[{type(part).__name__}]", "to have a state_dict")
        with _files.explained("checkpoint", directory, "made", noun="directory"):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._content(0, batches)

    @property
    def path(self) -> Path:
        """The file."""
        return self.directory / FILE

    def keep(self, step: int, steps: int, batches: StepSampler) -> None:
        """Keep the state, if it is time or the training begins or is done; each step's once."""
        if step == self._kept or (step % self.every and step != steps):
            return
        content = self._content(step, batches)
        with _files.explained("checkpoint", self.path, "written"):
            _files.write(self.path, content)
        self._kept = step

    def _content(self, step: int, batches: StepSampler) -> bytes:
        tensors: dict[str, Tensor] = {}
        for name, each in self._module.state_dict().items():
            tensors[f"module/{name}"] = each.detach().to("cpu").contiguous().clone()
        plain: dict[str, Any] = {}
        for name, part in self._parts.items():
            plain[name] = _taken_apart(part.state_dict(), name, tensors)
        state = {
            "schema": _SCHEMA,
            "version": _VERSION,
            "plan": self._plan,
            "shapes": self._shapes,
            "kinds": self._kinds,
            "noise": self._noise,
            "step": step,
            "records": batches.records,
            "key": batches.key.hex(),
            "parts": plain,
        }
        return save(tensors, {"state": json.dumps(state)})

    def resumed(self, batches: StepSampler) -> tuple[int, StepSampler] | None:
        """Put everything back, and return the step reached with the batches; None for a new one."""
        if not self.path.exists():
            return None
        with _files.explained("checkpoint", self.path, "read"):
            content = _files.read(self.path)
        try:
            size = int.from_bytes(content[:8], "little")
            head = serialize.parse(content[8 : 8 + size])
            state = serialize.parse(head["__metadata__"]["state"])
            tensors = load(content)
            step, key, plain = int(state["step"]), bytes.fromhex(state["key"]), state["parts"]
        except Exception as error:  # damaged in any way
            raise self._damaged(error) from None
        same = {"schema": _SCHEMA, "version": _VERSION, "plan": self._plan, "shapes": self._shapes}
        same |= {"kinds": self._kinds, "noise": self._noise, "records": batches.records}
        for name, wanted in same.items():
            if state.get(name) != wanted:
                told = (
                    f"{self.path} is of another training (its {name} differs{_WORDS.get(name, '')})"
                )
                raise CheckpointError(f"{told}: name another directory, or train the same.")
        try:
            module = {
                name[7:]: each for name, each in tensors.items() if name.startswith("module/")
            }
            if {name: _shape(each) for name, each in module.items()} != self._shapes:
                raise ValueError("other tensors")
            if len(key) != _KEY or not 0 <= step <= self._plan["steps"]:
                raise ValueError("no such step or key")
            parts = {name: _put_together(plain[name], tensors) for name in self._parts}
        except Exception as error:
            raise self._damaged(error) from None
        self._put_back(module, parts)
        self._kept = step
        return step, replace(batches, key=key, _drawn={})

    def _put_back(self, module: Mapping[str, Tensor], parts: Mapping[str, Any]) -> None:
        """All of it, or, where a part does not take its state, nothing."""
        before = {name: copy.deepcopy(part.state_dict()) for name, part in self._parts.items()}
        try:
            for name, part in self._parts.items():
                part.load_state_dict(parts[name])
        except Exception as error:
            for name, part in self._parts.items():
                part.load_state_dict(before[name])
            raise self._damaged(error) from None
        self._module.load_state_dict(module)  # its names and shapes are right

    def _damaged(self, error: Exception) -> CheckpointError:
        told = f"{self.path} is damaged ({type(error).__name__})"
        return CheckpointError(f"{told}: delete it to begin anew.")


def _shape(tensor: Tensor) -> list[Any]:
    return [str(tensor.dtype), *tensor.shape]


_TENSOR, _PAIRS, _TUPLE, _FLOAT = "tensor", "pairs", "tuple", "float"


def _taken_apart(value: Any, place: str, tensors: dict[str, Tensor]) -> Any:
    """A state as JSON, its tensors put aside."""
    if isinstance(value, Tensor):
        name = f"part/{len(tensors)}"
        tensors[name] = value.detach().to("cpu").contiguous().clone()
        return {_TENSOR: name}
    if isinstance(value, Mapping):
        return {_PAIRS: list(_pairs(value, place, tensors))}
    if isinstance(value, tuple):
        return {
            _TUPLE: [_taken_apart(each, f"{place}/{k}", tensors) for k, each in enumerate(value)]
        }
    if isinstance(value, list):
        return [_taken_apart(each, f"{place}/{k}", tensors) for k, each in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: repr(float(value))}  # JSON has none
    if value is None or isinstance(value, bool | int | float | str):
        return value
    kind = type(value).__name__
    return checks.fail("also", f"[{kind} in {place}]", "to be numbers, texts and tensors")


def _pairs(value: Mapping[Any, Any], place: str, tensors: dict[str, Tensor]) -> Iterator[list[Any]]:
    for key, each in value.items():
        if not isinstance(key, str | int):
            checks.fail("also", f"[{type(key).__name__} in {place}]", "to have texts as keys")
        yield [key, _taken_apart(each, f"{place}/{key}", tensors)]


def _put_together(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_put_together(each, tensors) for each in value]
    if isinstance(value, dict):
        ((kind, inner),) = value.items()
        if kind == _TENSOR:
            return tensors[inner]
        if kind == _FLOAT:
            return float(inner)
        if kind == _TUPLE:
            return tuple(_put_together(each, tensors) for each in inner)
        return {key: _put_together(each, tensors) for key, each in inner}
    return value
