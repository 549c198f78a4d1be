"""The parts of a certificate: the model, and what happened before it was trained."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import _check
from sordino.mechanisms.fingerprint import is_sha256

LABEL_TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}
PACKAGES = (
    *("numpy", "scipy", "opendp", "cryptography", "safetensors"),
    *("scikit-learn", "dp-accounting", "torch"),
)
"""Whose versions a certificate states, beside sordino's and Python's."""
TUNINGS = ("none declared", "declared", "unknown")

CLASSES_READ = "which classes there are was read off the labels"
"""Among `not_covered`, where nobody said which there can be."""
STEPS_FITTED = "steps before this model in a pipeline were fitted to the same rows, without noise:"
FITTED_INSIDE = "this model was fitted inside"
"""How lines among `not_covered` begin where `fit` saw that it was called so."""

Label = bool | int | float | str


@dataclass(frozen=True)
class Model:
    """What was released.

    Parameters
    ----------
    estimator
        Name of the class that fitted it.
    settings
        How, as plain values: None, bool, int, finite float, str, and tuples and dicts of these.
    labels, label_type
        The classes, in the order of the weights, and their type: a key of `LABEL_TYPES`.
    features, feature_names
        Columns of a row, and what they are called, if anything.
    intercept
        Whether one was fitted.
    sha256
        Of the bytes of model.safetensors, in hex.
    """

    estimator: str
    settings: Mapping[str, Any] = field(hash=False)
    labels: tuple[Label, ...]
    label_type: str
    features: int
    feature_names: tuple[str, ...] | None
    intercept: bool
    sha256: str

    def __post_init__(self) -> None:
        _keep(self, "settings", _plain("settings", dict(self.settings)))
        _keep(self, "features", _check.whole("features", self.features, at_least=1))
        _keep(self, "intercept", _check.flag("intercept", self.intercept))
        _keep(self, "labels", tuple(self.labels))
        _check.one_of("label_type", self.label_type, tuple(LABEL_TYPES))
        if len(set(self.labels)) != len(self.labels) or len(self.labels) < 2:
            listed = f"[{len(self.labels)} of them]"  # they may have been read off the records
            _check.fail("labels", listed, "to be at least two, all different")
        for number, label in enumerate(self.labels, 1):
            if type(label) is not LABEL_TYPES[self.label_type] or label != label:
                _check.fail("labels", f"[number {number}]", f"to be of type {self.label_type}")
            if isinstance(label, int) and not -(2**63) <= label < 2**63:
                _check.fail("labels", f"[number {number}]", "to fit into 64 bits")
        if self.feature_names is not None:
            _keep(self, "feature_names", tuple(self.feature_names))
            if len(self.feature_names) != self.features:
                many = f"[{len(self.feature_names)} names]"
                _check.fail("feature_names", many, f"to be {self.features}, one a feature")
        if not is_sha256(self.sha256):
            _check.fail("sha256", self.sha256, "to be a SHA-256 digest in hex")

    @property
    def problems(self) -> int:
        """Rows of the weights: one for two classes, else one a class."""
        return 1 if len(self.labels) == 2 else len(self.labels)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the released weights, the intercept's among them."""
        return self.problems, self.features + self.intercept

    def classes(self) -> npt.NDArray[Any]:
        """The labels as an array."""
        return np.asarray(self.labels, dtype=LABEL_TYPES[self.label_type])


@dataclass(frozen=True)
class Preprocessing:
    """What preparing the rows read from the records, in words; no guarantee covers that.

    `declared` is False if nobody said how they were prepared. `columns` is the public description
    by which a table was turned into numbers (TOML, as `sordino.data.columns` reads it), so that
    others can prepare rows alike; empty if there is none.
    """

    declared: bool = False
    reads: tuple[str, ...] = ()
    columns: str = ""

    def __post_init__(self) -> None:
        _keep(self, "reads", _texts("reads", self.reads))
        try:
            tomllib.loads(self.columns)
        except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
            _check.fail("columns", "[...]", f"to be TOML ({error})")
        if self.reads and not _check.flag("declared", self.declared):
            _check.fail("declared", False, "to be True where something is said to be read")


@dataclass(frozen=True)
class Tuning:
    """How the settings were chosen.

    "none declared"; "declared": the best of a random number of `runs` (in words) over a public
    list of `candidates`, paid for in the guarantee; or "unknown".
    """

    kind: str = "none declared"
    candidates: int = 0
    runs: str = ""

    def __post_init__(self) -> None:
        _check.one_of("tuning", self.kind, TUNINGS)
        declared = self.kind == "declared"
        _keep(self, "candidates", _check.whole("candidates", self.candidates, at_least=declared))
        if bool(self.candidates) != declared or bool(self.runs) != declared:
            _check.fail("candidates", self.candidates, "and runs only where tuning is declared")


@dataclass(frozen=True)
class DatasetFacts:
    """The user's name for the records, and their fingerprint (`fingerprint.salted`)."""

    name: str | None = None
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        if self.fingerprint is not None and not is_sha256(self.fingerprint):
            _check.fail("fingerprint", self.fingerprint, "to be made by fingerprint.salted")


def plain_labels(classes: npt.ArrayLike) -> tuple[tuple[Label, ...], str]:
    """`labels` and `label_type` of a `Model` for these classes, such as an estimator's."""
    labels = tuple(np.asarray(classes).tolist())
    kinds = {type(label) for label in labels}
    names = [name for name, kind in LABEL_TYPES.items() if kinds == {kind}]
    if not names:
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        _check.fail("classes", f"[{found}]", f"to be all of one type, of {', '.join(LABEL_TYPES)}")
    return labels, names[0]


def _plain(name: str, value: Any) -> Any:
    """`value` as JSON can hold it, with tuples for lists and Python's own numbers."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(f"{name}.{key}", each) for key, each in value.items()}
    if isinstance(value, np.ndarray) and value.ndim:
        value = value.tolist()
    if not isinstance(value, Sequence):
        _check.fail(name, value, "to be plain: a finite number, a text, or a list of these")
    return tuple(_plain(name, each) for each in value)


def _texts(name: str, values: Sequence[str]) -> tuple[str, ...]:
    if isinstance(values, str):  # tuple("abc") would be three
        _check.fail(name, values, "to be a tuple of sentences")
    return tuple(values)


def _keep(part: object, name: str, value: object) -> None:
    object.__setattr__(part, name, value)
