"""`Certificate`: the papers of one released model, as JSON and in plain words.

It holds what was promised, every number that the proof needs (`Evidence`), and what the promise
does not cover. It is for the public: nothing in it was read from the records, except what
`preprocessing` and `guarantee.not_covered` own up to.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import math
import platform
import re
import secrets
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

import sordino
from sordino import checks, serialize
from sordino.accounting.risk import RiskTarget
from sordino.errors import InvalidArgument, Refused, filled, printable
from sordino.privacy import RELATIONS, Guarantee, rounded
from sordino.proofs.evidence import SelectionEvidence, from_plain
from sordino.proofs.prepared import MEAN, PREPARED_NORM, SQUARES, PreparedEvidence
from sordino.proofs.proof import Evidence

SCHEMA, VERSION = "sordino-certificate", 1
MOST_BYTES = 32 * 2**20
"""A longer certificate is refused unread."""
PACKAGES = (
    *("numpy", "scipy", "opendp", "cryptography", "safetensors"),
    *("scikit-learn", "dp-accounting", "torch"),
)
"""Whose versions a certificate states, beside sordino's and Python's."""
CLASSES_READ = "which classes there are was read off the labels"
"""Among `not_covered`, where nobody said which there can be."""
STEPS_FITTED = "steps before this model in a pipeline were fitted to the same rows, without noise:"
FITTED_INSIDE = "this model was fitted inside"
"""How lines among `not_covered` begin where `fit` saw that it was called so."""
SIGNATURES = "Without a checked signature, only accidents are detected, not forgers."
_LABEL_TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}
_LABELS_SHOWN = 10
_NAME_LETTERS = 80
_WIDTH = 92

_Label = bool | int | float | str


class CertificateError(Refused):
    """A certificate, bundle or signature that does not hold up; one sentence says why."""

    def __init__(self, sentence: str) -> None:
        super().__init__(printable(sentence))


def refuse(why: str) -> NoReturn:
    """Raise a `CertificateError` that says "The certificate `why`."."""
    raise CertificateError(f"The certificate {why}.")


def new_salt() -> str:
    """A fresh secret for `salted`, in hex, from the operating system."""
    return secrets.token_hex(32)


def salted(digest_hex: str, salt_hex: str) -> str:
    """HMAC-SHA256 of a digest of the records, keyed by a salt that stays SECRET; all in hex.

    Publish the result, never the salt. A plain digest would be no secret: whoever knows all records
    but one (whom differential privacy assumes) could try every candidate for the last one against
    it, and no epsilon survives that. So the salt is a secret key, drawn afresh for each release; it
    stays in the ledger. Without it a fingerprint is as good as random, and two certificates cannot
    be linked.
    """
    for name, value in (("digest", digest_hex), ("salt", salt_hex)):
        if not _is_sha256(value):  # not shown: it is secret
            checks.fail(name, "[...]", "to be a SHA-256 digest, or 32 bytes, in hex")
    return hmac.new(bytes.fromhex(salt_hex), bytes.fromhex(digest_hex), hashlib.sha256).hexdigest()


def _is_sha256(text: object) -> bool:
    return isinstance(text, str) and re.fullmatch(r"[0-9a-f]{64}", text) is not None


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
        The classes, in the order of the weights, and their type: "bool", "int", "float" or "str".
        A model that predicts a number has no labels, and "float".
    features, feature_names
        Columns of a row, and what they are called, if anything.
    intercept
        Whether one was fitted.
    sha256
        Of the bytes of model.safetensors, in hex.
    """

    estimator: str
    settings: Mapping[str, Any] = field(hash=False)
    labels: tuple[_Label, ...]
    label_type: str
    features: int
    feature_names: tuple[str, ...] | None
    intercept: bool
    sha256: str

    def __post_init__(self) -> None:
        with serialize.refusing("model", InvalidArgument):
            settings = serialize.Tree(tuple).write({"settings": self.settings})["settings"]
        names = None if self.feature_names is None else tuple(self.feature_names)
        features = checks.whole("features", self.features, at_least=1)
        intercept = checks.flag("intercept", self.intercept)
        _keep(self, settings=settings, features=features, intercept=intercept)
        _keep(self, labels=tuple(self.labels), feature_names=names)
        checks.one_of("label_type", self.label_type, tuple(_LABEL_TYPES))
        # Not shown: they may have been read off the records.
        if len(set(self.labels)) != len(self.labels) or len(self.labels) == 1:
            checks.fail("labels", f"[{len(self.labels)}]", "to be at least two, all different")
        if not self.labels and self.label_type != "float":
            checks.fail("label_type", self.label_type, "to be float where a number is predicted")
        for number, label in enumerate(self.labels, 1):
            if type(label) is not _LABEL_TYPES[self.label_type] or label != label:
                checks.fail("labels", f"[number {number}]", f"to be of type {self.label_type}")
            if isinstance(label, int) and not -(2**63) <= label < 2**63:
                checks.fail("labels", f"[number {number}]", "to fit into 64 bits")
        if names is not None and len(names) != features:
            checks.fail("feature_names", f"[{len(names)}]", f"to be {features}, one a feature")
        if not _is_sha256(self.sha256):
            checks.fail("sha256", self.sha256, "to be a SHA-256 digest in hex")

    @property
    def problems(self) -> int:
        """Rows of the weights: one for two classes or a number, else one a class."""
        return 1 if len(self.labels) <= 2 else len(self.labels)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the released weights, the intercept's among them."""
        return self.problems, self.features + self.intercept

    def classes(self) -> npt.NDArray[Any]:
        """The labels as an array."""
        return np.asarray(self.labels, dtype=_LABEL_TYPES[self.label_type])


@dataclass(frozen=True)
class FeatureMap:
    """The function by which raw inputs became rows of features, each of norm 1.

    `name` and `sha256` are those of its code and weights; `unseen` lists the classes of parts that
    the digest cannot cover. It was tried on public inputs: a row's features depend on that row
    alone. What it was made from, nobody can see: the guarantee assumes that it was made without
    the protected records.

    >>> FeatureMap("edges", "0" * 64).assumes.partition(" makes ")[0]
    'the feature map edges'
    """

    name: str
    sha256: str
    unseen: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > _NAME_LETTERS or printable(self.name) != self.name:
            checks.fail("features.name", self.name, f"to be up to {_NAME_LETTERS} plain letters")
        if not _is_sha256(self.sha256):
            checks.fail("features.sha256", self.sha256, "to be a SHA-256 digest in hex")
        if isinstance(self.unseen, str):
            checks.fail("features.unseen", self.unseen, "to be a tuple of names")
        _keep(self, unseen=tuple(self.unseen))

    @property
    def assumes(self) -> str:
        """What no check can show, in words."""
        return (
            f"the feature map {self.name} makes features of each input by itself alone (tried on"
            " public inputs only), was made without the protected records, and stays as it is"
        )


@dataclass(frozen=True)
class Preprocessing:
    """What preparing the rows read from the records, in words; no guarantee covers that.

    `declared` is False if nobody said how they were prepared. `columns` is the public description
    by which a table was turned into numbers (TOML, as `sordino.data.columns` reads it), so that
    others can prepare rows alike; empty if there is none. `features` is the public map that made
    rows of raw inputs, if one did.
    """

    declared: bool = False
    reads: tuple[str, ...] = ()
    columns: str = ""
    features: FeatureMap | None = field(default=None, metadata={"added": serialize.UNLESS_DEFAULT})

    def __post_init__(self) -> None:
        if isinstance(self.reads, str):  # tuple("abc") would be three
            checks.fail("reads", self.reads, "to be a tuple of sentences")
        _keep(self, reads=tuple(self.reads))
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
        checks.one_of("tuning", self.kind, ("none declared", "declared", "unknown"))
        declared = self.kind == "declared"
        candidates = checks.whole("candidates", self.candidates, at_least=declared)
        _keep(self, candidates=candidates)
        if bool(candidates) != declared or bool(self.runs) != declared:
            checks.fail("candidates", candidates, "and runs only where tuning is declared")


@dataclass(frozen=True)
class DatasetFacts:
    """The user's name for the records, and their fingerprint (`salted`)."""

    name: str | None = None
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        if self.fingerprint is not None and not _is_sha256(self.fingerprint):
            checks.fail("fingerprint", self.fingerprint, "to be made by certificate.salted")


def today() -> str:
    """The day, UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def versions() -> dict[str, str]:
    """Of sordino, Python and the libraries that a release uses, where they are installed."""
    installed = {"sordino": sordino.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What is known of one released model. `str` gives it in plain words.

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

    Raises
    ------
    InvalidArgument
        If the parts do not fit together.

    Examples
    --------
    >>> model = Model("PrivateLinearSVC", {}, (0, 1), "int", 3, None, False, "0" * 64)
    >>> made = Certificate(model=model, guarantee=None, why_none="A test.", method="x", noise="no")
    >>> Certificate.from_json(made.to_json()) == made
    True
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
    date: str = field(default_factory=today)
    versions: Mapping[str, str] = field(default_factory=versions, hash=False)

    def __post_init__(self) -> None:
        _keep(self, facts=dict(self.facts), versions=dict(self.versions))
        guarantee, evidence, tuning = self.guarantee, self.evidence, self.tuning
        try:
            good = datetime.date.fromisoformat(self.date).isoformat() == self.date
        except ValueError:
            good = False
        if not good:
            checks.fail("date", self.date, "to be a day such as 2026-01-31")
        if (guarantee is None) != bool(self.why_none.strip()):
            checks.fail("why_none", repr(self.why_none), "or a guarantee, exactly one of the two")
        if guarantee is not None and not math.isfinite(guarantee.epsilon):
            checks.fail("epsilon", guarantee.epsilon, "to be finite")
        if evidence is None:
            return
        if evidence.shape != self.model.shape:
            checks.fail("evidence.shape", evidence.shape, f"to be the model's, {self.model.shape}")
        selection = evidence if isinstance(evidence, SelectionEvidence) else None
        if (tuning.kind == "declared") != (selection is not None):
            checks.fail("tuning", tuning.kind, f"to fit a {evidence.kind} proof")
        if selection is not None and tuning.candidates != (many := len(selection.candidates)):
            checks.fail("candidates", tuning.candidates, f"to be the proof's, {many}")

    @property
    def asked(self) -> str:
        """The risk that was asked for instead of epsilon, in words; "" if none was."""
        with suppress(InvalidArgument):  # nobody verified it yet
            return RiskTarget.parse(self.model.settings.get("target", "")).words
        return ""

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the proof takes for granted, and what was taken for granted before it."""
        proved = () if self.guarantee is None else self.guarantee.assumes
        made = self.preprocessing.features
        return proved if made is None else (*proved, made.assumes)

    def __str__(self) -> str:
        parts = [
            ("", _title(self)),
            *_promise(self),
            ("HOW IT WAS TRAINED", _training(self)),
            ("BEFORE THE TRAINING", _before(self)),
            ("WHAT IS NOT COVERED", (f"- {line}" for line in _not_covered(self))),
        ]
        if self.guarantee is not None and self.assumes:
            parts.append(("WHAT IT ASSUMES", (f"- {line}" for line in self.assumes)))
        return "\n\n".join(_paragraph(*part) for part in (*parts, ("THE RECORD", _record(self))))

    def to_json(self) -> str:
        """Pretty, with sorted keys: equal certificates give equal text, in ASCII."""
        text = json.dumps(CERTIFICATE_FORM.write(self), indent=2, sort_keys=True, allow_nan=False)
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
            certificate: Certificate = CERTIFICATE_FORM.read(values)
            return certificate


def plain_labels(classes: npt.ArrayLike) -> tuple[tuple[_Label, ...], str]:
    """`labels` and `label_type` of a `Model` for these classes, such as an estimator's."""
    labels = tuple(np.asarray(classes).tolist())
    kinds = {type(label) for label in labels}
    names = [name for name, kind in _LABEL_TYPES.items() if kinds == {kind}]
    if not names:
        listed = ", ".join(sorted(kind.__name__ for kind in kinds))
        checks.fail("classes", f"[{listed}]", f"to be of one type: {', '.join(_LABEL_TYPES)}")
    return labels, names[0]


def _keep(part: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(part, name, value)


# --- As JSON


def _delta_means(delta: float) -> str:
    """What delta allows, in a sentence. Part of the schema, as `RELATIONS`.

    P(S) <= e^epsilon Q(S) + delta for every event S. That is weaker than "the loss exceeds epsilon
    with probability at most delta", and the same as being no worse, for the two datasets at hand,
    than a release that keeps to epsilon and with probability delta tells them apart (Kairouz, Oh &
    Viswanath 2015).
    """
    if delta == 0:
        return "the bound on epsilon holds without exception"
    return (
        "nobody learns more about a person than from a release that keeps to epsilon but, with "
        "probability delta, gives that person's records away; at delta = 1 / rows this would "
        "allow publishing one record at random, so delta must be far below that"
    )


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


GUARANTEE_FORM = serialize.Forms().record(
    Guarantee,
    # These sentences belong to the schema: another wording is another version of it.
    derived={
        "relation_means": lambda guarantee: RELATIONS[guarantee.relation],
        "delta_means": lambda guarantee: _delta_means(guarantee.delta),
    },
)
CERTIFICATE_FORM = serialize.Forms(
    {
        _Label: serialize.SettingForm(null=False, infinite=False),
        Guarantee: GUARANTEE_FORM,
        Evidence: _EvidenceForm(),
    }
).record(Certificate, derived={"schema": lambda _: SCHEMA, "version": lambda _: VERSION})


# --- In words


def _paragraph(heading: str, lines: Iterable[str]) -> str:
    indent = "  " if heading else ""
    wrapped = (
        filled(printable(line), _WIDTH, first=indent, then=indent + "    ", cut=False)
        for line in lines
    )
    return "\n".join(([heading] if heading else []) + list(wrapped))


def _title(certificate: Certificate) -> Iterator[str]:
    model, guarantee = certificate.model, certificate.guarantee
    yield f"PRIVACY CERTIFICATE of {model.estimator}, released {certificate.date}"
    labels = ", ".join(str(label) for label in model.labels[:_LABELS_SHOWN])
    labels += ", ..." * (len(model.labels) > _LABELS_SHOWN)
    drafted = any("which classes there are" in each for each in certificate.preprocessing.reads)
    if guarantee is None or drafted or CLASSES_READ in guarantee.not_covered:  # may be cells
        labels = "not shown, since they may be of the records"
    intercept = " and an intercept" if model.intercept else ""
    features = f"{model.features:,} features{intercept}"
    if not model.labels:
        yield f"The model: {features}, which predict a number"
        return
    yield f"The model: {features}, {len(model.labels)} labels ({labels})"


def _promise(certificate: Certificate) -> list[tuple[str, Iterable[str]]]:
    guarantee = certificate.guarantee
    if guarantee is None:
        warning = "Treat this model like the records themselves."
        return [("NOTHING IS PROMISED", (certificate.why_none, warning))]
    what = "the final model" if guarantee.released == "final" else "the model and all iterates"
    epsilon, delta = rounded(guarantee.epsilon), rounded(guarantee.delta)
    each = "" if guarantee.unit == "one record" else "for each of these records, "
    asked = f"Asked for: {certificate.asked}, which gives epsilon {epsilon} at delta {delta}"
    lines = [
        f"epsilon <= {epsilon} at delta = {delta}, for {what}",
        *[asked] * bool(certificate.asked),
        f"For whom: {guarantee.unit}",
        f"Against which change: {each}{RELATIONS[guarantee.relation]} ({guarantee.relation.value})",
    ]
    if guarantee.epsilon < 20:  # beyond, the factor says nothing to anybody
        times = f"{rounded(math.exp(guarantee.epsilon))} times as likely, up to delta"
        lines.append(f"epsilon = {epsilon}: that change makes no conclusion more than {times}")
    lines.append(f"delta = {delta}: {_delta_means(guarantee.delta)}")
    return [("WHAT IS PROMISED", [*lines, f"Proved by: {guarantee.theorem}"])]


def _training(certificate: Certificate) -> Iterator[str]:
    yield f"Method: {certificate.method}"
    if certificate.guarantee is not None:
        yield f"Batches: {certificate.guarantee.sampling}"
    order = {"schedule": 0, "sensitivity": 1, "noise": 2}
    for name in sorted(certificate.facts, key=lambda name: (order.get(name, 3), name)):
        yield f"{name.capitalize()}: {certificate.facts[name]}"
    yield f"Source of the noise: {certificate.noise}"
    settings = dict(sorted(certificate.model.settings.items()))
    if certificate.tuning.kind == "declared" and "epsilon" in settings:
        settings["epsilon of one training"] = settings.pop("epsilon")
    if chosen := [f"{name} {value}" for name, value in settings.items() if value is not None]:
        yield f"Settings: {', '.join(chosen)}"


def _before(certificate: Certificate) -> Iterator[str]:
    before, tuning = certificate.preprocessing, certificate.tuning
    if not before.declared:
        yield "Preparation: nobody declared it"
    elif before.reads:
        yield f"Preparation read from the records, NOT COVERED: {'; '.join(before.reads)}"
    else:
        yield "Preparation: declared to have read each row by itself alone"
    if before.columns:
        yield "Columns: by the public description in preprocessing.columns"
    if (made := before.features) is not None:
        digest = f"{made.name} (SHA-256 {made.sha256})"
        tried = "tried on public inputs alone for whether it mixes them"
        yield f"Features: by {digest}, {tried}; then divided by their norm"
        if made.unseen:
            yield f"Features: the digest cannot cover parts that are {', '.join(made.unseen)}"
    norm = certificate.model.settings.get("data_norm")
    if norm is not None and certificate.method != "majority":
        yield f"Rows: {_rows_prepared(certificate, norm)}; predictions must do the same"
    if (bounds := certificate.model.settings.get("target_bounds")) is not None:
        low, high = bounds
        yield f"Targets: cut to {low:g} to {high:g}, and so are predictions"
    if tuning.kind == "declared":
        best = f"the best of {tuning.runs}, which the guarantee pays for"
        yield f"Tuning: declared, {tuning.candidates} candidates; {best}"
    else:
        yield f"Tuning: {tuning.kind.replace('unknown', 'UNKNOWN')}"
    dataset = certificate.dataset
    yield f"Dataset: {dataset.name if dataset.name is not None else 'not named'}"
    if dataset.fingerprint is not None:
        yield f"Fingerprint: {dataset.fingerprint} (keyed by a secret that stays with the owner)"


def _rows_prepared(certificate: Certificate, norm: object) -> str:
    """What was done to each row, in order; by what is in the model's file, with the weights."""
    model, evidence = certificate.model, certificate.evidence
    if isinstance(evidence, SelectionEvidence):
        evidence = evidence.candidates[evidence.selected]
    made = evidence.releases if isinstance(evidence, PreparedEvidence) else ()
    parts = []
    if model.settings.get("bounds") is not None:
        parts.append("columns were clipped to public bounds and mapped to [-1, 1]")
    hows = {name: model.settings.get(name) for name in ("center", "scale")}
    released = {"center": MEAN, "scale": SQUARES}
    for name, what in released.items():
        if what in [each.what for each in made]:
            hows[name] = "private"
    prepared = {name: how for name, how in hows.items() if how in ("private", "public")}
    one = ", the intercept's constant 1 counted," if model.intercept and not prepared else ""
    parts.append(f"longer ones than {norm}{one} were scaled down")
    if prepared:
        by = " and ".join(f"a {how} {name}" for name, how in prepared.items())
        parts.append(f"then by {by}, and to norm {PREPARED_NORM:g} with a constant feature")
    return ", ".join(parts)


def _not_covered(certificate: Certificate) -> Iterator[str]:
    guarantee, before = certificate.guarantee, certificate.preprocessing
    yield from ["everything"] if guarantee is None else guarantee.not_covered
    yield from (f"what preparing the rows read from the records: {what}" for what in before.reads)
    if not before.declared:
        yield "how the rows were prepared: nobody declared it"
    if certificate.tuning.kind != "declared":
        yield "tuning on the same records"
    if guarantee is not None:
        counted = certificate.evidence is not None and certificate.evidence.persons_counted
        unit = "one id" if counted else guarantee.unit.removesuffix(" of one person")
        yield f"somebody with more than {unit}"
    ledger = ", beside those that the ledger adds up" if certificate.ledger_entry else ""
    yield f"other releases from the same records{ledger}"
    yield "whether the noise was added: it is taken on trust"
    yield "side channels, such as how long the training took"


def _record(certificate: Certificate) -> Iterator[str]:
    entry = certificate.ledger_entry
    yield f"Ledger: {'not recorded in one' if entry is None else f'entry {entry}'}"
    yield f"SHA-256 of model.safetensors: {certificate.model.sha256}"
    listed = sorted(certificate.versions.items(), key=lambda item: (item[0] != "sordino", item))
    yield f"Versions: {', '.join(f'{name} {version}' for name, version in listed)}"
    yield f"Signature: {SIGNATURES}"
