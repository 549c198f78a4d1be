"""`Writer`: code and all that it carries, as plain values, so that other code is noticed.

What a function does follows from its source, its defaults, what it closes over, the globals that it
names, and the functions and classes among those. Of other packages the version is taken instead.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import importlib.metadata
import inspect
import random
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from sordino.data.dataset import Dataset
from sordino.intrinsic.generators import is_generator

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range)
_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME")
# Functions of numpy.random and random belong to generators that everybody shares.
_SHARED = tuple(getattr(each, "__self__", None) for each in (np.random.normal, random.random))


def digest(written: Any) -> str:
    """SHA-256 of something written."""
    return hashlib.sha256(repr(written).encode()).hexdigest()


def source_sha256(code: Any) -> str | None:
    """Of the text of a function or class; None where it cannot be read."""
    try:
        return hashlib.sha256(inspect.getsource(code).encode()).hexdigest()
    except (OSError, TypeError):  # typed at a prompt, or compiled
        return None


def version(module: str) -> str | None:
    """Version of the package that a module belongs to, if it has one."""
    package = module.partition(".")[0]
    found = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(found, str):
        return found
    try:
        return importlib.metadata.version(package)
    except Exception:  # not installed, or no name at all
        return None


class Writer:
    """Writes values; looks into the code of one module, or of a package that has no version.

    Parameters
    ----------
    home
        A function or class of that module.
    """

    def __init__(self, home: Any) -> None:
        self._home = _module(home)
        self._whole_package = version(self._home) is None
        self._met: set[int] = set()

    def value(self, value: Any) -> Any:
        """A value as nested lists of plain ones.

        Raises
        ------
        TypeError
            If it is of a type that cannot be written down; the text names it.
        """
        if isinstance(value, Enum):
            return [type(value).__qualname__, value.name]
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, Mapping):
            return sorted(((str(key), self.value(each)) for key, each in value.items()), key=repr)
        if isinstance(value, list | tuple):
            return [self.value(each) for each in value]
        if isinstance(value, set | frozenset):
            return sorted((self.value(each) for each in value), key=repr)
        if isinstance(value, Dataset):
            return value.fingerprint
        if isinstance(value, np.ndarray | np.generic):
            return self._array(np.asarray(value))
        if isinstance(value, np.dtype | np.ufunc):
            return repr(value)
        return self._code(value)

    def beside(self, function: Any) -> list[Any]:
        """What a function carries beside its source."""
        code = getattr(function, "__func__", function)
        cells = getattr(code, "__closure__", None) or ()
        carried = [getattr(code, "__defaults__", None), getattr(code, "__kwdefaults__", None)]
        carried += [cell.cell_contents for cell in cells if _filled(cell)]
        carried.append(getattr(getattr(function, "__self__", None), "__dict__", None))
        found = [self.value(each) for each in carried if not _nothing(each)]
        if isinstance(code, FunctionType):
            if source_sha256(code) is None:
                found.append(_compiled(code.__code__))
            if self._is_home(code):
                found += self._globals(code)
        return found

    def beside_class(self, kind: type) -> list[Any]:
        """What a class carries beside its source: what its bases are, and its methods carry."""
        found: list[Any] = [self._class(base) for base in kind.__mro__[1:-1]]
        for name, each in sorted(vars(kind).items()) if self._is_home(kind) else ():
            inner = getattr(each, "__func__", getattr(each, "fget", each))
            if isinstance(inner, FunctionType):
                found += self.beside(inspect.unwrap(inner))
            elif not name.startswith("__") and isinstance(each, (*_PLAIN, np.ndarray)):
                found.append([name, self.value(each)])
        return found

    def _array(self, array: np.ndarray[Any, Any]) -> Any:
        if array.dtype.hasobject:
            return [array.shape, self.value(array.ravel().tolist())]
        content = np.ascontiguousarray(array).tobytes()
        return [array.dtype.str, array.shape, hashlib.sha256(content).hexdigest()]

    def _code(self, value: Any) -> Any:
        if isinstance(value, functools.partial):
            return [self.value(each) for each in (value.func, value.args, value.keywords)]
        if inspect.ismodule(value):
            return [value.__name__, version(value.__name__)]
        if inspect.isclass(value):
            return self._class(value)
        value = getattr(value, "py_func", value)  # what Numba compiled
        if inspect.isroutine(value) or hasattr(value, "__wrapped__"):
            return self._function(inspect.unwrap(value))
        if hasattr(value, "get_params") and hasattr(value, "fit"):
            return [self._class(type(value)), self.value(value.get_params(deep=False))]
        if dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
            parts = {name: getattr(value, name) for name in names}
            return [self._class(type(value)), self.value(parts)]
        raise TypeError(type(value).__name__)

    def _function(self, function: Any) -> Any:
        owner = getattr(function, "__self__", None)
        if is_generator(owner) and owner not in _SHARED:
            raise TypeError(type(owner).__name__)
        name = [_module(function), getattr(function, "__qualname__", type(function).__name__)]
        if id(function) in self._met or not isinstance(
            getattr(function, "__func__", function), FunctionType
        ):
            return [*name, version(name[0])]
        self._met.add(id(function))
        return [*name, version(name[0]), source_sha256(function), self.beside(function)]

    def _class(self, kind: type) -> Any:
        name = [_module(kind), kind.__qualname__]
        if id(kind) in self._met or name[0] == "builtins":
            return name
        self._met.add(id(kind))
        return [*name, version(name[0]), source_sha256(kind), self.beside_class(kind)]

    def _globals(self, function: FunctionType) -> list[Any]:
        found = []
        for name in sorted(set(_names(function.__code__))):
            value = function.__globals__.get(name)
            if value is None or inspect.ismodule(value):
                continue
            try:
                found.append([name, self.value(value)])
            except TypeError:
                if is_generator(value):
                    raise
                # Not to be written down; at least the text that made it is.
                found.append([name, type(value).__qualname__, _file_sha256(_module(function))])
        return found

    def _is_home(self, code: Any) -> bool:
        module = _module(code)
        if self._whole_package:
            return module.partition(".")[0] == self._home.partition(".")[0]
        return module == self._home


def _module(code: Any) -> str:
    return str(getattr(code, "__module__", None) or "")


def _names(code: CodeType) -> Iterator[str]:
    """Globals that it reads, and that the functions within it do."""
    for step in dis.get_instructions(code):
        if step.opname in _GLOBAL:
            yield str(step.argval)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


def _compiled(code: CodeType) -> list[Any]:
    """What stands for the source where there is none."""
    inner = [_compiled(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return [hashlib.sha256(code.co_code).hexdigest(), list(code.co_names), inner]


def _file_sha256(module: str) -> str | None:
    path = getattr(sys.modules.get(module), "__file__", None)
    try:
        with open(path or "", "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises where nothing is in it yet
    except ValueError:
        return False
    return True


def _nothing(value: Any) -> bool:
    return value is None or (isinstance(value, list | tuple | dict) and not value)
