"""`Certificate`: the papers of one released model, as JSON and in plain words.

It holds what was promised, every number that the proof needs (`Evidence`), and what the promise
does not cover. It is for the public: nothing in it was read from the records, except what
`preprocessing` and `guarantee.not_covered` own up to.
"""

from __future__ import annotations

import datetime
import json
import math
import platform
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

import sordino
from sordino import checks, serialize
from sordino.errors import InvalidArgument, Refused, printable
from sordino.privacy import RELATIONS, Guarantee
from sordino.proofs.evidence import SelectionEvidence, from_plain
from sordino.proofs.proof import Evidence
from sordino.release import certificate_words as words
from sordino.release.fingerprint import is_sha256

SCHEMA, VERSION = "sordino-certificate", 1
MOST_BYTES = 32 * 2**20
"""A longer certificate is refused unread."""
LABEL_TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}
PACKAGES = (
    *("numpy", "scipy", "opendp", "cryptography", "safetensors"),
    *("scikit-learn", "dp-accounting", "torch"),
)
"""Whose versions a certificate states, beside sordino's and Python's."""
TUNINGS = ("none declared", "declared", "unknown")

Label = bool | int | float | str


class CertificateError(Refused):
    """A certificate, bundle or signature that does not hold up; one sentence says why."""

    def __init__(self, sentence: str) -> None:
        super().__init__(printable(sentence))


def refuse(why: str) -> NoReturn:
    """Raise a `CertificateError` that says "The certificate `why`."."""
    raise CertificateError(f"The certificate {why}.")


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
        _keep(self, "settings", _plain_settings(self.settings))
        _keep(self, "features", checks.whole("features", self.features, at_least=1))
        _keep(self, "intercept", checks.flag("intercept", self.intercept))
        _keep(self, "labels", tuple(self.labels))
        checks.one_of("label_type", self.label_type, tuple(LABEL_TYPES))
        if len(set(self.labels)) != len(self.labels) or len(self.labels) < 2:
            listed = f"[{len(self.labels)} of them]"  # they may have been read off the records
            checks.fail("labels", listed, "to be at least two, all different")
        for number, label in enumerate(self.labels, 1):
            if type(label) is not LABEL_TYPES[self.label_type] or label != label:
                checks.fail("labels", f"[number {number}]", f"to be of type {self.label_type}")
            if isinstance(label, int) and not -(2**63) <= label < 2**63:
                checks.fail("labels", f"[number {number}]", "to fit into 64 bits")
        if self.feature_names is not None:
            _keep(self, "feature_names", tuple(self.feature_names))
            if len(self.feature_names) != self.features:
                many = f"[{len(self.feature_names)} names]"
                checks.fail("feature_names", many, f"to be {self.features}, one a feature")
        if not is_sha256(self.sha256):
            checks.fail("sha256", self.sha256, "to be a SHA-256 digest in hex")

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
            checks.fail("columns", "[...]", f"to be TOML ({error})")
        if self.reads and not checks.flag("declared", self.declared):
            checks.fail("declared", False, "to be True where something is said to be read")


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
        checks.one_of("tuning", self.kind, TUNINGS)
        declared = self.kind == "declared"
        _keep(self, "candidates", checks.whole("candidates", self.candidates, at_least=declared))
        if bool(self.candidates) != declared or bool(self.runs) != declared:
            checks.fail("candidates", self.candidates, "and runs only where tuning is declared")


@dataclass(frozen=True)
class DatasetFacts:
    """The user's name for the records, and their fingerprint (`fingerprint.salted`)."""

    name: str | None = None
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        if self.fingerprint is not None and not is_sha256(self.fingerprint):
            checks.fail("fingerprint", self.fingerprint, "to be made by fingerprint.salted")


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The papers of one released model. `str` gives them in plain words.

    Parameters
    ----------
    date
        Day of the release, UTC, as 2026-01-31. No time: how long a fit took is a side channel.
    model
        What was released.
    guarantee, why_none
        What was proved of it; or None, and a sentence that says why nothing is promised.
    method
        Name of the method that trained it.
    evidence, facts
        The numbers behind the proof, and what they say in words (`Evidence.facts`).
    noise
        The source it came from; how much and where is in `facts`.
    preprocessing, tuning, dataset
        What happened before, and to which records.
    ledger_entry
        Where the ledger recorded the release, if one did.
    versions
        Of the libraries that took part.
    """

    model: Model
    guarantee: Guarantee | None
    why_none: str = ""
    method: str
    evidence: Evidence | None = None
    facts: Mapping[str, str] = field(default_factory=dict, hash=False)
    noise: str
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    tuning: Tuning = field(default_factory=Tuning)
    dataset: DatasetFacts = field(default_factory=DatasetFacts)
    ledger_entry: str | None = None
    date: str = field(default_factory=lambda: today())
    versions: Mapping[str, str] = field(default_factory=lambda: versions(), hash=False)

    def __post_init__(self) -> None:
        _keep(self, "facts", dict(self.facts))
        _keep(self, "versions", dict(self.versions))
        _check_date(self.date)
        if (self.guarantee is None) != bool(self.why_none.strip()):
            hint = "Say why nothing is promised where nothing is, and only there."
            checks.fail("why_none", repr(self.why_none), "to fit the guarantee", hint)
        if self.guarantee is not None and not math.isfinite(self.guarantee.epsilon):
            hint = "Pass None instead: an infinite epsilon promises nothing."
            checks.fail("epsilon", self.guarantee.epsilon, "to be finite", hint)
        if self.evidence is not None and self.evidence.shape != self.model.shape:
            shapes = f"to be that of {len(self.model.labels)} labels and the features recorded"
            checks.fail("evidence.shape", self.evidence.shape, f"{shapes}, {self.model.shape}")
        self._check_tuning()

    def _check_tuning(self) -> None:
        selection = self.evidence if isinstance(self.evidence, SelectionEvidence) else None
        declared = self.tuning.kind == "declared"
        if self.evidence is not None and declared != (selection is not None):
            hint = "Declared tuning is proved by a selection, and by nothing else."
            checks.fail("tuning", self.tuning.kind, f"to fit a {self.evidence.kind} proof", hint)
        if selection is not None and self.tuning.candidates != len(selection.candidates):
            many = f"to be {len(selection.candidates)}, as the proof has them"
            checks.fail("candidates", self.tuning.candidates, many)

    def __str__(self) -> str:
        return words.in_words(self)

    def to_json(self) -> str:
        """Pretty, with sorted keys: equal certificates give equal text, in ASCII."""
        text = json.dumps(_FORM.write(self), indent=2, sort_keys=True, allow_nan=False)
        return text + "\n"

    @classmethod
    def from_json(cls, content: str | bytes) -> Certificate:
        """Read what `to_json` wrote, to the letter.

        Raises
        ------
        CertificateError
            For anything else, with one sentence.
        """
        with serialize.refusing("certificate", CertificateError):
            values = serialize.headed(serialize.parse(content, MOST_BYTES), SCHEMA, VERSION)
            found: Certificate = _FORM.read(values)
            return found


def today() -> str:
    """The day, UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def versions() -> dict[str, str]:
    """Of sordino, Python and the libraries that a release uses, where they are installed."""
    found = {"sordino": sordino.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def plain_labels(classes: npt.ArrayLike) -> tuple[tuple[Label, ...], str]:
    """`labels` and `label_type` of a `Model` for these classes, such as an estimator's."""
    labels = tuple(np.asarray(classes).tolist())
    kinds = {type(label) for label in labels}
    names = [name for name, kind in LABEL_TYPES.items() if kinds == {kind}]
    if not names:
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        checks.fail("classes", f"[{found}]", f"to be all of one type, of {', '.join(LABEL_TYPES)}")
    return labels, names[0]


def _plain_settings(settings: Mapping[str, Any]) -> Any:
    """`settings` as JSON can hold them, with tuples for lists and Python's own numbers."""
    with serialize.refusing("model", InvalidArgument):
        return serialize.Tree(tuple).write({"settings": settings})["settings"]


def _check_date(day: str) -> None:
    try:
        good = datetime.date.fromisoformat(day).isoformat() == day
    except ValueError:
        good = False
    if not good:
        checks.fail("date", day, "to be a day such as 2026-01-31")


def _texts(name: str, values: Sequence[str]) -> tuple[str, ...]:
    if isinstance(values, str):  # tuple("abc") would be three
        checks.fail(name, values, "to be a tuple of sentences")
    return tuple(values)


def _keep(part: object, name: str, value: object) -> None:
    object.__setattr__(part, name, value)


class _EvidenceForm(serialize.Form):
    """The numbers behind the proof."""

    def _read(self, value: Any, place: serialize.Where) -> Evidence:
        try:
            return from_plain(value)
        except Exception as error:  # numbers nobody thought of are still somebody else's
            place.refuse(f"cannot be right. {error}")

    def _write(self, value: Any, place: serialize.Where) -> dict[str, Any]:
        plain: dict[str, Any] = value.to_plain()
        return plain


_LABEL = serialize.SettingForm(null=False, infinite=False)
_GUARANTEE = serialize.Forms().record(
    Guarantee,
    # These sentences belong to the schema: another wording is another version of it.
    derived={
        "relation_means": lambda found: RELATIONS[found.relation],
        "delta_means": lambda found: words.delta_means(found.delta),
    },
)
_FORM = serialize.Forms({Label: _LABEL, Guarantee: _GUARANTEE, Evidence: _EvidenceForm()}).record(
    Certificate, derived={"schema": lambda made: SCHEMA, "version": lambda made: VERSION}
)
