"""`Frozen`: a public feature map, held to the contract that privacy needs of it.

A proof about rows is a proof about their features only if the features of a row depend on that row
alone: then replacing a record replaces one row of features, whose norm is bounded. Normalising over
a batch, attention across it, dropout and running statistics all break this, without an error.
So the map is tried before any private row is shown to it, on public or made-up inputs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NoReturn

import numpy as np

from sordino import checks
from sordino.errors import InvalidArgument, printable, without_cells
from sordino.models.fingerprint import Fingerprint
from sordino.types import Array

_TRIED = 6
"""Rows of a small batch that is tried; each of them is replaced once."""
_SAME_SHAPE = 1e-6
"""How far features may differ, relative to the largest, between batches of one size."""
_OTHER_SHAPE = 1e-3
"""And where a row stands elsewhere, or in a batch of another size: sums are rounded otherwise."""
_TEXTS = (
    "a short line",
    "The quick brown fox jumps over the lazy dog.",
    "1,234.5",
    "",
    "one two three four five six seven eight nine ten",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich?",
)


class Frozen:
    """A function, transformer or torch module that turns raw inputs into rows of features.

    Parameters
    ----------
    features
        A callable; or an object with `transform`, fitted to public data; or a torch module in
        evaluation mode. It gets a batch of inputs and returns one row of numbers for each.

    Attributes
    ----------
    name, fingerprint
        What tells it from others.
    width
        Features of a row, once it was tried.

    Examples
    --------
    >>> squares = Frozen(lambda rows: rows.reshape(len(rows), -1) ** 2)
    >>> squares.check(np.ones((4, 2, 2)), batch_size=3)
    >>> squares(np.full((1, 2, 2), 3.0)), squares.width
    (array([[9., 9., 9., 9.]]), 4)
    """

    def __init__(self, features: Any) -> None:
        transforms = callable(getattr(features, "transform", None))
        if isinstance(features, type) or not (callable(features) or transforms):
            hint = "Pass a function, a fitted transformer or a torch module, not its class."
            checks.fail("features", f"[{_class_of(features)}]", "to turn inputs into rows", hint)
        self.features = features
        self.name = printable(_name_of(features), 80)
        self.width = 0
        self._transforms = transforms and not _is_module(features)
        self._check_evaluating()
        self.fingerprint = Fingerprint.of(features)

    def __call__(self, batch: Any) -> Array:
        """Features of a batch, [row, feature], float32 or float64; gradients are not kept."""
        function = self.features.transform if self._transforms else self.features
        with _without_gradients():
            made = function(_for_module(batch, self.features))
            rows = _as_array(made)
        wanted = self.width or "some"
        if rows.ndim != 2 or len(rows) != count(batch) or self.width not in (0, rows.shape[1]):
            what = f"to have {count(batch)} rows of {wanted} features each"
            checks.fail("features(batch).shape", rows.shape, what, "Flatten what it returns.")
        return rows

    def of_private(self, batch: Any, start: int) -> Array:
        """The same of private rows, the first of which is row `start`; no error quotes them."""
        end = start + count(batch) - 1
        with unquoted(start, end):
            rows = self(batch)
        if not (good := np.isfinite(rows).all(axis=1)).all():
            row = start + int(np.argmin(good))
            checks.fail("features", f"[of row {row}]", "to be finite numbers")
        return rows

    def check(self, examples: Any, batch_size: int) -> None:
        """Refuse a map whose features of a row are not a function of that row alone.

        Parameters
        ----------
        examples
            Public or made-up inputs, at least two. No private row: what is found is told.
        batch_size
            Inputs that it will be given at once.

        Raises
        ------
        InvalidArgument
            With the reason.
        """
        try:
            self._try(examples, batch_size)
        except InvalidArgument:
            raise
        except Exception as error:  # nothing here is private, so what it says may be shown
            says = printable(error, 200).rstrip(".")
            hint = "Pass public_examples=[...] if it needs other inputs than made-up ones."
            what = f"not to raise {type(error).__name__} on public inputs ({says})"
            self._refuse(what, hint)
        self.check_unchanged()

    def check_unchanged(self) -> None:
        """Refuse a map that is not what it was: weights, buffers or settings have changed."""
        self._check_evaluating()
        if Fingerprint.of(self.features) != self.fingerprint:
            self._refuse("to be frozen: something of it changed while it was used")

    def _try(self, examples: Any, batch_size: int) -> None:
        many = count(examples)
        if many < 2:
            checks.fail("public_examples", f"[{many}]", "to be at least two inputs")
        tried = np.arange(min(_TRIED, many))
        batch = take(examples, tried)
        base = self(batch)
        if not np.isfinite(base).all():
            self._refuse("to give finite numbers, on public inputs too")
        if not base.shape[1]:
            self._refuse("to give at least one feature")
        self.width = base.shape[1]
        self._compare(self(batch), base, _SAME_SHAPE, "the same for the same rows", _RANDOM)
        self(take(examples, (tried + len(tried)) % many))
        self._compare(self(batch), base, _SAME_SHAPE, "the same for the same rows later", _STATE)
        for row in tried:
            kept = np.delete(np.arange(len(tried)), row)
            for other in _others(examples, tried, int(row)):
                found = self(other)[kept]
                self._compare(found, base[kept], _SAME_SHAPE, "of each row alone", _ACROSS)
            for other in _sized(examples, tried, int(row)):
                try:
                    found = self(other)[kept]
                except Exception:  # whole numbers beyond what it knows, such as tokens
                    continue
                self._compare(found, base[kept], _SAME_SHAPE, "of each row alone", _ACROSS)
        backwards = self(take(examples, tried[::-1]))[::-1]
        self._compare(backwards, base, _OTHER_SHAPE, "the same wherever a row stands", _ACROSS)
        for size in {1, (len(tried) + 1) // 2}:
            found = self(take(examples, tried[:size]))
            self._compare(found, base[:size], _OTHER_SHAPE, "the same in smaller batches", _ACROSS)
        full = np.arange(batch_size) % len(tried)
        large, other = full.copy(), full.copy()
        other[0] = (full[0] + 1) % len(tried)
        one, two = self(take(examples, large)), self(take(examples, other))
        self._compare(two[1:], one[1:], _SAME_SHAPE, "of each row alone, in full batches", _ACROSS)
        self._compare(one, base[full], _OTHER_SHAPE, "the same in full batches", _ACROSS)

    def _compare(self, found: Array, base: Array, most: float, what: str, hint: str) -> None:
        largest = float(np.abs(base).max(initial=0.0)) or 1.0
        # Not "any above": a NaN is a difference too.
        if not (np.abs(found - base) <= most * largest).all():
            self._refuse(f"to be {what}", hint)

    def _check_evaluating(self) -> None:
        for module in _modules(self.features):
            if module.training:
                kind = type(module).__name__
                what = f"to be in evaluation mode ({kind} is in training mode)"
                self._refuse(what, "Call .eval().")

    def _refuse(self, why: str, hint: str = "") -> NoReturn:
        checks.fail("features", f"[{self.name}]", why, hint)


_RANDOM = "It draws at random, as dropout does: call .eval() on modules in it."
_STATE = "It keeps a state, such as running statistics."
_ACROSS = "A row's features depend on others of its batch, by normalising or attention across it."


def unquoted(start: int, end: int) -> AbstractContextManager[None]:
    """Raise what goes wrong with these rows without what was said: it may hold a record."""

    def told(error: Exception) -> InvalidArgument:
        what = f"The features raised {type(error).__name__} on rows {start} to {end}"
        told = f"{what}; what it said is not quoted: it may hold a record."
        return InvalidArgument(told, "features")

    return without_cells(told)


# Inputs of any kind -------------------------------------------------------------------------------


def count(inputs: Any) -> int:
    """How many there are."""
    shape = getattr(inputs, "shape", None)
    return int(shape[0]) if shape else len(inputs)


def part(inputs: Any, start: int, stop: int) -> Any:
    """Those from `start` to before `stop`, as a batch of the same kind."""
    return inputs.iloc[start:stop] if hasattr(inputs, "iloc") else inputs[start:stop]


def take(inputs: Any, places: Array) -> Any:
    """Those at these places, as a batch of the same kind."""
    if hasattr(inputs, "iloc"):
        return inputs.iloc[places]
    if isinstance(inputs, list | tuple):
        return type(inputs)([inputs[place] for place in places])
    return inputs[places.copy()]  # torch takes no array that goes backwards


def made_up(inputs: Any) -> Any:
    """A dozen inputs of the same kind and shape, which are public facts, of no record's values.

    None where it cannot be told what another input may look like: then somebody has to say.
    """
    rng, many = np.random.default_rng(0), 2 * _TRIED
    if getattr(inputs, "ndim", 1) == 1 and not _is_tensor(inputs) and _are_texts(inputs):
        texts = [_TEXTS[k % len(_TEXTS)] + "!" * (k // len(_TEXTS)) for k in range(many)]
        array = isinstance(inputs, np.ndarray)
        return np.array(texts, dtype=inputs.dtype.kind) if array else type(inputs)(texts)
    if hasattr(inputs, "columns"):
        return _table_like(inputs, rng, many)
    if hasattr(inputs, "iloc"):
        return type(inputs)(_numbers((many,), inputs.dtype, rng)) if _plain(inputs.dtype) else None
    if _is_tensor(inputs):
        torch = sys.modules["torch"]
        if inputs.dtype in (torch.bfloat16, torch.float16):
            values = _numbers((many, *inputs.shape[1:]), np.dtype("float32"), rng)
            return torch.as_tensor(values).to(inputs.dtype)
        return torch.as_tensor(made_up(np.empty((0, *inputs.shape[1:]), _numpy_dtype(inputs))))
    if hasattr(inputs, "toarray"):
        dense = _numbers((many, *inputs.shape[1:]), inputs.dtype, rng)
        return type(inputs)(dense * (rng.random(dense.shape) < 0.2))
    if isinstance(inputs, np.ndarray):
        return _numbers((many, *inputs.shape[1:]), inputs.dtype, rng)
    return None


def _are_texts(inputs: Any) -> bool:
    return count(inputs) > 0 and all(isinstance(each, str) for each in inputs)


def _numbers(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> Any:
    """Numbers between 0 and 1 and some beyond, bytes of all values, other whole ones 0 or 1."""
    if dtype.kind == "f":
        values = rng.random(shape)
        values[shape[0] // 2 :] = 3 * rng.standard_normal(values[shape[0] // 2 :].shape)
        return values.astype(dtype)
    if dtype.kind in "iub":
        return rng.integers(0, 256 if dtype == np.uint8 else 2, shape).astype(dtype)
    return None


def _table_like(table: Any, rng: np.random.Generator, many: int) -> Any:
    columns = [_numbers((many,), np.dtype(kind), rng) for kind in table.dtypes if _plain(kind)]
    if len(columns) < len(table.columns) or not hasattr(table, "set_axis"):
        return None
    made = type(table)(dict(enumerate(columns)))
    return made.set_axis(table.columns, axis="columns")


def _plain(kind: Any) -> bool:
    return isinstance(kind, np.dtype) and kind.kind in "fiub"


def _others(examples: Any, tried: Array, row: int) -> Iterator[Any]:
    """The batch that is tried, with this row replaced by something else."""
    many = count(examples)
    for place in {int(tried[row] + len(tried)) % many, int(tried[row] + 1) % many}:
        places = tried.copy()
        places[row] = place
        yield take(examples, places)


_FACTORS = (0, 30, 100, 10_000)


def _sized(examples: Any, tried: Array, row: int) -> Iterator[Any]:
    """The batch with this row of another size: by that, what depends on a batch's largest shows."""
    for factor in _FACTORS:
        batch = take(examples, tried)  # a copy
        with suppress(Exception):  # a kind that cannot be multiplied
            rows = batch.iloc if hasattr(batch, "iloc") else batch
            if isinstance(rows, np.ndarray) and rows.dtype.kind not in "fiu":
                continue
            if isinstance(rows, np.ndarray) and rows.dtype.kind != "f":
                most = np.iinfo(rows.dtype).max
                rows[row] = np.clip(rows[row].astype(np.float64) * factor, 0, min(most, 2**53))
            else:
                rows[row] = rows[row] * factor
            yield batch


# Torch, if it is there ----------------------------------------------------------------------------


def _torch() -> Any:
    """The library, if anybody has imported it: else nothing here is of it."""
    return sys.modules.get("torch")


def _is_module(thing: Any) -> bool:
    torch = _torch()
    return torch is not None and isinstance(thing, torch.nn.Module)


def _is_tensor(thing: Any) -> bool:
    torch = _torch()
    return torch is not None and isinstance(thing, torch.Tensor)


def _numpy_dtype(tensor: Any) -> Any:
    return tensor[:0].detach().cpu().numpy().dtype


def _modules(features: Any) -> Iterator[Any]:
    """Torch modules: the map itself, or what a method, partial, closure or object holds."""
    if _is_module(features):
        yield from features.modules()
    elif _torch() is not None:
        held: list[Any] = [getattr(features, name, None) for name in ("__self__", "func")]
        for cell in getattr(features, "__closure__", None) or ():
            with suppress(ValueError):  # it holds nothing yet
                held.append(cell.cell_contents)
        held += [*getattr(features, "args", ()), *getattr(features, "__dict__", {}).values()]
        for each in held:
            if _is_module(each):
                yield from each.modules()


def _without_gradients() -> AbstractContextManager[Any]:
    torch = _torch()
    return nullcontext() if torch is None else torch.no_grad()


def _for_module(batch: Any, features: Any) -> Any:
    """As a tensor of the module's type and place, if it is one; others get it as it is."""
    if not _is_module(features) or not (isinstance(batch, np.ndarray) or _is_tensor(batch)):
        return batch
    tensor = _torch().as_tensor(np.ascontiguousarray(batch) if not _is_tensor(batch) else batch)
    weights = next((each for each in features.parameters() if each.is_floating_point()), None)
    if weights is None:
        return tensor
    return tensor.to(weights.device, weights.dtype if tensor.is_floating_point() else None)


def _as_array(made: Any) -> Array:
    if _is_tensor(made):
        made = made.detach().cpu()
        made = made.dequantize() if made.is_quantized else made
        made = made.to_dense() if made.is_sparse else made
        made = made if made.dtype == _torch().float64 else made.float()
        rows: Array = made.numpy()
        return rows
    rows = np.asarray(made.toarray() if hasattr(made, "toarray") else made)
    if rows.dtype.kind not in "fiub":
        checks.fail("features(batch)", f"[{rows.dtype}]", "to be numbers")
    single = rows.dtype.kind == "f" and rows.dtype.itemsize <= 4
    return rows.astype(np.float32 if single else np.float64, copy=False)


def _name_of(features: Any) -> str:
    inner: Callable[..., Any] | Any = getattr(features, "func", features)
    owner = getattr(inner, "__self__", None)
    if owner is not None and not isinstance(owner, type) and hasattr(inner, "__name__"):
        return f"{_class_of(owner)}.{inner.__name__}"
    return str(getattr(inner, "__qualname__", None) or _class_of(inner))


def _class_of(thing: Any) -> str:
    kind = thing if isinstance(thing, type) else type(thing)
    return str(kind.__qualname__)
