"""`Fingerprint`: what tells one public thing from another, such as a feature map with its weights.

A SHA-256 over everything that is reached from it: numbers, arrays and tensors by their content,
functions by their source text, what they close over and the globals that they name, objects by
their class and attributes. Code of installed libraries, ours among them, counts by its name, so
that a new version of numpy makes no other thing. What cannot be looked into, such as an object of
a compiled library, counts by its class alone, and is told.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import os
import sys
import sysconfig
import types
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), range, slice)
_BUILTIN = (
    *(types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType),
    *(types.MethodDescriptorType, types.ClassMethodDescriptorType, np.ufunc),
    *(types.MemberDescriptorType, types.GetSetDescriptorType),
)
_OF_A_PROCESS = {"_stop_words_id"}
"""Attributes of scikit-learn's that hold an address in memory."""
_INSTALLED = tuple(
    os.path.realpath(path) + os.sep
    for name, path in sysconfig.get_paths().items()
    if name in ("stdlib", "platstdlib", "purelib", "platlib")
)


@dataclass(frozen=True)
class Fingerprint:
    """The digest of a thing, and the classes of parts that it does not cover.

    Examples
    --------
    >>> one, again, other = np.eye(2), np.eye(2), np.zeros((2, 2))
    >>> Fingerprint.of(one.dot) == Fingerprint.of(again.dot) != Fingerprint.of(other.dot)
    True
    """

    sha256: str
    unseen: tuple[str, ...] = ()

    @classmethod
    def of(cls, thing: Any) -> Fingerprint:
        """Go through all that is reached from `thing`; nothing of it is called."""
        walk = _Walk()
        walk.take(thing)
        return cls(walk.digest.hexdigest(), tuple(sorted(walk.unseen)))


class _Walk:
    """Feeds a digest; what was met before counts by its place, so that circles end."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.unseen = set[str]()
        self._met: dict[int, tuple[int, Any]] = {}

    def take(self, thing: Any) -> None:
        """Anything."""
        if isinstance(thing, _PLAIN) and not isinstance(thing, enum.Enum):
            self._say(type(thing).__name__, repr(thing))
            return
        if id(thing) in self._met:
            self._say("again", self._met[id(thing)][0])
            return
        self._met[id(thing)] = len(self._met), thing  # held, so that its id stays its own
        if isinstance(thing, np.ndarray | np.generic):
            self._array(np.asarray(thing))
        elif _is_tensor(thing):
            self._tensor(thing)
        elif isinstance(thing, Mapping):
            self._say("mapping", _named(type(thing)), len(thing))
            for key, value in thing.items():
                self.take(key)
                self.take(value)
        elif isinstance(thing, set | frozenset):
            found = [Fingerprint.of(each) for each in thing]
            self._say("set", *sorted(each.sha256 for each in found))
            self.unseen.update(*(each.unseen for each in found))
        elif isinstance(thing, list | tuple):
            self._say(_named(type(thing)), len(thing))
            self._all(thing)
        elif isinstance(thing, types.ModuleType):
            self._say("module", thing.__name__)
            if not _installed(thing.__name__, getattr(thing, "__file__", None) or ""):
                self.unseen.add(f"module {thing.__name__}")  # its globals may be weights
        elif isinstance(thing, _BUILTIN):
            self._say("builtin", getattr(thing, "__module__", ""), _called(thing))
            owner = getattr(thing, "__self__", None)
            self.take(None if isinstance(owner, types.ModuleType) else owner)
        elif isinstance(thing, enum.Enum):
            self._say("enum", _named(type(thing)), thing.name)
        else:
            self._code_or_object(thing)

    def _code_or_object(self, thing: Any) -> None:
        if isinstance(thing, type):
            self._class(thing)
        elif _is_scripted(thing):
            for name, module in thing.named_modules():
                self._say("scripted", name, module.original_name, getattr(module, "code", ""))
            self._all((dict(thing.named_parameters()), dict(thing.named_buffers())))
        elif isinstance(thing, functools.partial):
            self._all(("partial", thing.func, thing.args, thing.keywords))
        elif isinstance(thing, types.MethodType):
            self._all(("method", thing.__func__, thing.__self__))
        elif isinstance(thing, staticmethod | classmethod):
            self._all((type(thing).__name__, thing.__func__))
        elif isinstance(thing, property):
            self._all(("property", thing.fget, thing.fset))
        elif isinstance(thing, types.FunctionType):
            self._function(thing)
        elif isinstance(thing, types.CodeType):
            self._code(thing)
        else:
            self._object(thing)

    def _say(self, *words: object) -> None:
        for word in words:
            text = str(word).encode("utf-8", "surrogatepass")
            self.digest.update(len(text).to_bytes(8, "little") + text)

    def _all(self, things: Iterable[Any]) -> None:
        for each in things:
            self.take(each)

    def _array(self, array: Any) -> None:
        self._say("array", array.dtype.str, array.shape)
        if array.dtype.hasobject:
            self._all(array.ravel().tolist())
        else:
            self.digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def _tensor(self, tensor: Any) -> None:
        self._say("tensor", tensor.dtype, tuple(tensor.shape))
        whole = tensor.detach().cpu()
        if whole.is_sparse or whole.is_quantized:
            whole = whole.to_dense() if whole.is_sparse else whole.dequantize()
        flat = whole.contiguous().reshape(-1)
        self.digest.update(flat.view(sys.modules["torch"].uint8).numpy().data)

    def _function(self, function: types.FunctionType) -> None:
        self._say("function", function.__qualname__)
        if _installed(str(function.__module__), function.__code__.co_filename):
            self._say(function.__module__)
            self._closure(function)  # what a decorator of a library was put around
            return
        try:
            self._say(inspect.getsource(function))
        except (OSError, TypeError):  # typed at a prompt, or compiled
            self._code(function.__code__)
        self._all((function.__defaults__, function.__kwdefaults__, vars(function)))
        self._closure(function)
        for name in sorted(_globals_named(function.__code__)):
            if name in function.__globals__:
                self._say("global", name)
                self.take(function.__globals__[name])

    def _closure(self, function: types.FunctionType) -> None:
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # it holds nothing yet
                self.take(cell.cell_contents)

    def _code(self, code: types.CodeType) -> None:
        self._say("code", code.co_code.hex(), *code.co_names)
        self._all(code.co_consts)

    def _class(self, cls: type) -> None:
        self._say("class", _named(cls))
        for each in cls.__mro__:
            file = getattr(sys.modules.get(each.__module__), "__file__", None)
            if each.__module__ == "builtins" or _installed(each.__module__, file or ""):
                self._say("class", _named(each))
                continue
            for name, value in sorted(vars(each).items()):
                if not name.startswith(("__", "_abc")) or isinstance(value, types.FunctionType):
                    self._say(name)
                    self.take(value)

    def _object(self, thing: Any) -> None:
        self.take(type(thing))
        state = getattr(thing, "__dict__", None)
        if state is None:  # objects of compiled code may tell their state in this way
            with suppress(Exception):
                state = thing.__getstate__()
        if isinstance(state, Mapping):
            kept = {name: each for name, each in state.items() if name not in _OF_A_PROCESS}
            state = dict(sorted(kept.items(), key=lambda item: str(item[0])))
        for cls in type(thing).__mro__ if state is not None else ():
            slots = vars(cls).get("__slots__", ())
            for name in sorted([slots] if isinstance(slots, str) else slots):
                if not name.startswith("__") and hasattr(thing, name):
                    self._all((name, getattr(thing, name)))
        if state is not None:
            self.take(state)
        elif type(thing).__module__ == "torch" or isinstance(thing, np.dtype):  # float32, cpu
            self._say(thing)
        elif type(thing) is not object:
            self.unseen.add(_named(type(thing)))


def _is_tensor(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.Tensor)


def _is_scripted(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.jit.ScriptModule)


def _named(cls: Any) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _called(thing: Any) -> str:
    return str(getattr(thing, "__qualname__", None) or getattr(thing, "__name__", ""))


def _installed(module: str, file: str) -> bool:
    if module.partition(".")[0] in ("sordino", *sys.builtin_module_names):
        return True
    return file.startswith("<frozen") or os.path.realpath(file).startswith(_INSTALLED)


def _globals_named(code: types.CodeType) -> set[str]:
    """Names that the code may look up among the globals, also inside functions that it makes."""
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*map(_globals_named, inner))
