"""Whatever single value of valid papers is changed, `verify` refuses them, or a reason stands here.

The forger of these tests is a good one: every edit is written as sordino writes, with a digest that
fits the weights and a signature by a key that the reader trusts.
"""

from __future__ import annotations

import copy
import json
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sordino import (
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRidge,
)
from sordino.estimators import methods
from sordino.estimators.model import KEPT_INSIDE
from sordino.privacy import Relation
from sordino.proofs import settings
from sordino.release import bundle, signature
from sordino.release import verify as verifier
from sordino.release.certificate import Certificate, CertificateError
from sordino.release.noise import SeededNoise
from sordino.release.verify import verify, verify_certificate

Plain = dict[str, Any]
CORPUS = Path(__file__).parents[1] / "corpus" / "bundles"
PROMISING = sorted(
    path.parent.name
    for path in CORPUS.glob("*/certificate.json")
    if json.loads(path.read_text())["guarantee"] is not None
)
EVERY_METHOD = [f"{name}-two" for name in settings.METHODS]
KEY = Ed25519PrivateKey.generate()


@dataclass(frozen=True)
class Free:
    """A value that may be changed, because nothing else in the papers can speak against it."""

    path: str
    why: str
    methods: tuple[str, ...] = tuple(settings.METHODS)
    edits: tuple[str, ...] = ("*",)

    def covers(self, method: str, path: str, edit: str) -> bool:
        known = any(fnmatch(edit, each) for each in self.edits)
        return fnmatch(path, self.path) and method in self.methods and known


OUTPUT = ("rsgd-ar", "nsgd", "bolt-on", "output-gd")
FREE = (
    Free("date", "the issuer's word"),
    Free("versions", "a library without metadata is left out", edits=("drop *",)),
    Free("versions.*", "the issuer's word; OpenDP's must fit the noise", edits=("grown",)),
    Free("dataset.name", "the owner's name for the records; only the ledger knows it"),
    Free("model.labels.*", "names, unless a description of the columns gives them too"),
    Free("model.feature_names*", "names, unless a description of the columns gives them too"),
    Free("guarantee.not_covered*", "it can only take away from the promise"),
    Free("preprocessing.declared", "the issuer's word on what nobody can see"),
    Free("preprocessing.reads*", "the issuer's word on what nobody can see"),
    Free("preprocessing.columns", "it may be left out", edits=("empty",)),
    Free("evidence.start_norm", "of public weights; no more than rounding depends on it"),
    Free(
        "model.settings.l2",
        "dp-agd's proof has none; the others may raise it",
        methods=("dp-agd", "objective", "bolt-on"),
    ),
    *(
        Free(f"model.settings.{name}", "no number of an adaptive proof", methods=("dp-agd",))
        for name in ("steps", "learning_rate", "huber_width", "data_norm")
    ),
    Free("model.settings.max_grad_norm", "above the norm it clips nothing", edits=("one", "more")),
    Free(
        "model.settings.batch_size", "batches are made equal", OUTPUT, ("grown", "shrunk", "next")
    ),
    Free("model.settings.public_rows", "near the number of rows", ("objective",)),
    *(
        Free(f"model.settings.{name}", "then it was left to a rule", edits=("null",))
        for name in ("epochs", "steps", "batch_size", "learning_rate", "average_every", "delta")
    ),
    Free("model.settings", "left to a rule, too", edits=("drop center", "drop scale")),
    Free("evidence.candidates.*", "of models that did not leave: they must only prove the same"),
)


def _values(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Everything in a JSON document, with the way to it."""
    yield path, value
    inside: Any = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    for key, each in inside:
        yield from _values(each, (*path, key))


def _edits(value: Any) -> Iterator[tuple[str, Any]]:
    """Other values for one value, by name."""
    if isinstance(value, dict):
        yield "added", {**value, "more": "1.0"}
        for key in value:
            yield f"drop {key}", {name: each for name, each in value.items() if name != key}
    elif isinstance(value, list):
        yield "longer", [*value, value[-1] if value else "more"]
        if value:
            yield "shorter", value[:-1]
        if len(value) > 1:
            yield "turned", [*value[1:], value[0]]
    elif isinstance(value, bool):
        yield from (("not", not value), ("number", int(value)), ("null", None))
    elif isinstance(value, int | float):
        kind = type(value)
        for name, factor in (("twice", 2), ("half", 0.5), ("grown", 1.05), ("shrunk", 0.95)):
            yield name, kind(value * factor)
        yield from (("next", value + 1), ("negative", -value - 1), ("null", None), ("zero", 0))
        yield "text", str(value)
    elif isinstance(value, str):
        yield from (("grown", f"{value}1"), ("empty", ""), ("none", "none"), ("null", None))
    else:
        yield from (("one", 1), ("more", 1.5), ("true", True), ("text", "more"), ("list", []))


def _written(plain: Plain) -> bytes:
    return (json.dumps(plain, indent=2, sort_keys=True) + "\n").encode()


def _with(plain: Plain, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(plain)
    at: Any = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return changed


class Forged:
    """A copy of a bundle of the corpus, or of another place, to be edited."""

    def __init__(self, name: str, tmp_path: Path, place: Path = CORPUS) -> None:
        self.path = Path(shutil.copytree(place / name, tmp_path / name))
        self.plain: Plain = json.loads((self.path / bundle.CERTIFICATE).read_text())

    def accepted(self, content: bytes) -> bool:
        """Whether a reader who trusts the forger's key accepts these papers."""
        (self.path / bundle.CERTIFICATE).write_bytes(content)
        (self.path / bundle.SIGNATURE).write_bytes(signature.sign(content, KEY))
        try:
            verify(bundle.read(self.path), public_key=KEY.public_key())
        except CertificateError:
            return False
        return True

    def slipped(self, of: str = "*", *, listed: bool = True, every: int = 1) -> list[str]:
        """Edits of single values that are accepted, and not `listed` as free.

        `every` third one, say, of those that there are.
        """
        found, method, tried = [], self.plain["method"], 0
        selected = f"evidence.candidates.{self.plain['evidence'].get('selected')}."
        for at, value in _values(self.plain):
            path = ".".join(map(str, at))
            for edit, other in _edits(value) if fnmatch(path, of) else ():
                # 0 for 0.0 is no other value; but True is no 1.
                same = other == value and isinstance(other, bool) == isinstance(value, bool)
                free = listed and any(each.covers(method, path, edit) for each in FREE)
                tried += not same
                if same or (free and not path.startswith(selected)) or tried % every:
                    continue
                if self.accepted(_written(_with(self.plain, at, other))):
                    found.append(f"{path}: {edit} ({value!r} -> {other!r})")
        return found


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_no_single_value_can_be_changed(name: str, tmp_path: Path) -> None:
    forged = Forged(name, tmp_path)
    assert forged.accepted(_written(forged.plain))
    assert forged.slipped(every=4) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISING)
def test_no_single_value_of_any_papers_can_be_changed(name: str, tmp_path: Path) -> None:
    every = 8 if name == "tuned-poisson" else 2  # a second for each
    assert Forged(name, tmp_path).slipped(every=every) == []


def test_every_free_value_stands_in_some_papers() -> None:
    for free in FREE:
        found = [
            name
            for name in PROMISING
            for plain in [json.loads((CORPUS / name / bundle.CERTIFICATE).read_text())]
            if plain["method"] in free.methods
            and any(fnmatch(".".join(map(str, at)), free.path) for at, _ in _values(plain))
        ]
        assert found, free


def of_a_softmax(tmp_path: Path, method: str) -> Forged:
    """Papers of one model of three classes."""
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(90, 2)), np.arange(90) % 3
    made = tmp_path / "made"
    made.mkdir(parents=True)
    how: dict[str, Any] = {"method": method, "classes": [0, 1, 2], "delta": 1e-5}
    PrivateLogisticRegression(**how).fit(X, y).save(made / "softmax")
    return Forged("softmax", tmp_path, made)


@pytest.mark.parametrize("method", ["noisy-gd", "dp-sgd", "output-gd"])
def test_no_single_value_of_a_softmax_can_be_changed(method: str, tmp_path: Path) -> None:
    forged = of_a_softmax(tmp_path, method)
    assert forged.plain["model"]["settings"]["multi_class"] == "softmax"
    assert forged.accepted(_written(forged.plain))
    assert forged.slipped(every=3) == []
    for path in ("model.settings.multi_class", "evidence.problems", "evidence.spec.objective*"):
        assert forged.slipped(path) == []


@pytest.mark.parametrize("method", ["noisy-gd", "output-gd"])
def test_one_against_the_rest_is_no_softmax(method: str, tmp_path: Path) -> None:
    """Neither says that it is the other, whichever values are changed together."""
    forged = of_a_softmax(tmp_path, method)
    plain = copy.deepcopy(forged.plain)
    for kind in ("logistic", "huber-svm", "mlp"):
        plain["evidence"]["spec"]["objective"]["kind"] = kind
        for settled in ("softmax", "one-vs-rest", None):
            plain["model"]["settings"]["multi_class"] = settled
            assert not forged.accepted(_written(plain))
    del plain["model"]["settings"]["multi_class"]
    assert not forged.accepted(_written(plain))
    for other in ("objective", "dp-agd"):
        plain = copy.deepcopy(forged.plain)
        plain["method"] = plain["model"]["settings"]["method"] = other
        assert not forged.accepted(_written(plain))


def asked_by_risk(tmp_path: Path, method: str = "noisy-gd") -> Forged:
    """Papers whose epsilon follows from a target; the corpus is older than that."""
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(200, 3)), np.arange(200) % 2
    how = {"target": "advantage<=0.1", "method": method, "classes": [0, 1], "delta": 1e-5}
    made = tmp_path / "made"
    made.mkdir(parents=True)
    PrivateLogisticRegression(**how).fit(X, y).save(made / "target")
    return Forged("target", tmp_path, made)


@pytest.mark.parametrize("path", ["model.settings*", "guarantee.*", "evidence.*"])
def test_no_single_value_of_papers_by_a_target_can_be_changed(path: str, tmp_path: Path) -> None:
    forged = asked_by_risk(tmp_path)
    assert forged.accepted(_written(forged.plain))
    assert forged.slipped(path, every=2) == []


@pytest.mark.parametrize(
    ("path", "every"),
    [("model.settings*", 2), ("evidence.releases*", 2), ("evidence.training*", 9)],
)
def test_no_single_value_of_papers_with_a_private_centre_can_be_changed(
    path: str, every: int, tmp_path: Path
) -> None:
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(200, 3)), np.arange(200) % 2
    how = {"method": "noisy-gd", "classes": [0, 1], "delta": 1e-5, "bounds": (-2, 2)}
    made = tmp_path / "made"
    made.mkdir(parents=True)
    model = PrivateLogisticRegression(**how, center="private", scale="private")
    model.fit(X, y).save(made / "prepared")
    forged = Forged("prepared", tmp_path, made)
    assert forged.accepted(_written(forged.plain))
    assert forged.slipped(path, every=every) == []


@pytest.mark.parametrize(
    "text",
    ["advantage<=0.099", "advantage<=0.2", "detection<=0.02@0.01", "advantage <= 0.1", "?", "", 7],
)
def test_a_target_that_was_not_asked_for_is_refused(text: object, tmp_path: Path) -> None:
    forged = asked_by_risk(tmp_path, "output-gd")
    forged.plain["model"]["settings"]["target"] = text
    assert not forged.accepted(_written(forged.plain))


def test_an_epsilon_beside_a_target_is_refused(tmp_path: Path) -> None:
    forged = asked_by_risk(tmp_path, "output-gd")
    forged.plain["model"]["settings"]["epsilon"] = forged.plain["guarantee"]["epsilon"]
    assert not forged.accepted(_written(forged.plain))


def test_a_target_that_another_version_met_by_far_is_its_own_matter(tmp_path: Path) -> None:
    """Only a risk above the target is a false claim, whoever wrote it."""
    for version, text, good in (
        ("0.0.1", "advantage<=0.3", True),
        ("0.0.1", "advantage<=0.09", False),
    ):
        forged = asked_by_risk(tmp_path / text, "output-gd")
        forged.plain["versions"]["sordino"] = version
        forged.plain["model"]["settings"]["target"] = text
        assert forged.accepted(_written(forged.plain)) is good


# Broken twins: without a check, the property above must fail


@pytest.mark.parametrize(
    ("check", "name", "path"),
    [
        ("_check_noise", "noisy-gd-two", "noise"),
        ("_check_noise", "objective-two", "noise"),
        ("_check_model", "output-gd-two", "model.settings.fit_intercept"),
        ("_check_columns", "people-0", "model.feature_names.0"),
        ("_check_record", "people-0", "ledger_entry"),
        ("_check_rows", "noisy-gd-two", "model.settings.public_rows"),
    ],
)
def test_a_verifier_without_a_check_is_caught(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, check: str, name: str, path: str
) -> None:
    forged = Forged(name, tmp_path)
    before = forged.slipped(path, listed=False)
    monkeypatch.setattr(verifier, check, lambda *_: None)
    assert len(forged.slipped(path, listed=False)) > len(before)


def test_a_verifier_that_believes_a_target_is_caught(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forged = asked_by_risk(tmp_path)
    monkeypatch.setattr(verifier, "_check_target", lambda *_: None)
    assert forged.slipped("model.settings.target")


@pytest.mark.parametrize("name", ["max_rows_per_person", "data_norm", "l2", "max_grad_norm"])
def test_a_verifier_that_does_not_compare_settings_is_caught(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    forged, path = Forged("clipped", tmp_path), f"model.settings.{name}"
    if name in ("data_norm", "l2"):  # no numbers of that one's proof
        forged = Forged("noisy-gd-two", tmp_path)
    assert forged.slipped(path) == []
    monkeypatch.setattr(verifier, "_same", lambda *_: None)
    assert forged.slipped(path)


# Forgeries of more than one value


@pytest.mark.parametrize("noise", [SeededNoise.name, "none", "none: epsilon is infinite"])
@pytest.mark.parametrize("version", ["0.0.1", None])
def test_a_promise_without_noise_is_refused_whoever_wrote_it(
    noise: str, version: str | None, tmp_path: Path
) -> None:
    forged = Forged("noisy-gd-two", tmp_path)
    forged.plain["noise"] = noise
    if version is not None:  # an older one may have had other words, but not these
        forged.plain["versions"]["sordino"] = version
    with pytest.raises(CertificateError, match="makes a promise, but says of its noise"):
        verify_certificate(Certificate.from_json(_written(forged.plain)))


def test_a_theorem_by_somebody_else_is_refused(tmp_path: Path) -> None:
    forged = Forged("nsgd-two", tmp_path)
    source = forged.plain["evidence"]["source"]
    forged.plain["evidence"]["source"] = "the best theorem there is"
    theorem = forged.plain["guarantee"]["theorem"]
    forged.plain["guarantee"]["theorem"] = theorem.replace(source, "the best theorem there is")
    assert not forged.accepted(_written(forged.plain))


@pytest.mark.parametrize(
    "content",
    [
        lambda text: text.rstrip(),
        lambda text: text.replace(": ", ":  ", 1),
        lambda text: json.dumps(json.loads(text)),
        lambda text: json.dumps(dict(reversed(json.loads(text).items())), indent=2) + "\n",
        lambda text: text.replace('"version": 1', '"version": 1 '),
    ],
)
def test_the_same_values_written_otherwise_are_refused(
    content: Callable[[str], str], tmp_path: Path
) -> None:
    forged = Forged("objective-two", tmp_path)
    text = (forged.path / bundle.CERTIFICATE).read_text()
    assert content(text) != text
    assert not forged.accepted(content(text).encode())


def _header(content: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def _file(header: dict[str, Any], body: bytes, blanks: int = 0) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode() + b" " * blanks
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def _turned(header: dict[str, Any], body: bytes) -> bytes:
    many = header["coef"]["data_offsets"][1]
    place = {"intercept": [0, len(body) - many], "coef": [len(body) - many, len(body)]}
    swapped = {name: {**header[name], "data_offsets": place[name]} for name in place}
    return _file(swapped, body[many:] + body[:many])


@pytest.mark.parametrize(
    "hidden",
    [
        lambda head, body: _file({"__metadata__": {"patient": "17"}, **head}, body),
        lambda head, body: _file({"__metadata__": {}, **head}, body),
        lambda head, body: _file(head, body, blanks=8),
        lambda head, body: _file(dict(reversed(head.items())), body),
        _turned,
    ],
)
def test_weights_with_something_hidden_beside_them_are_refused(
    hidden: Callable[[dict[str, Any], bytes], bytes], tmp_path: Path
) -> None:
    forged = Forged("objective-two", tmp_path)
    if hidden.__code__.co_names[:1] == ("save",):  # a sign where there is no intercept
        forged.plain["model"]["intercept"] = forged.plain["model"]["settings"]["fit_intercept"] = (
            False
        )
        forged.plain["evidence"]["columns"] = 5
    head, body = _header((forged.path / bundle.WEIGHTS).read_bytes())
    assert _file(head, body) == (forged.path / bundle.WEIGHTS).read_bytes()
    content = hidden(head, body)
    (forged.path / bundle.WEIGHTS).write_bytes(content)
    forged.plain["model"]["sha256"] = bundle.digest(content)
    assert not forged.accepted(_written(forged.plain))


def test_not_even_a_sign_hides_where_there_is_no_intercept(tmp_path: Path) -> None:
    forged = Forged("objective-three", tmp_path)
    found = bundle.read(forged.path)
    for intercept, good in ((np.zeros(3), True), (np.array([0.0, -0.0, 0.0]), False)):
        content = bundle.weights_file(found.coef, intercept)
        (forged.path / bundle.WEIGHTS).write_bytes(content)
        forged.plain["model"]["sha256"] = bundle.digest(content)
        assert forged.accepted(_written(forged.plain)) is good


# Honest papers are not refused


def _weights(draw: np.random.Generator) -> dict[str, Any]:
    """Of classes 0 and 1, or none."""
    both = {"class_weight": {0: 0.1, 1: 7.0}, "max_sample_weight": 3.5}
    return [{}, {"class_weight": {1: 3}}, {"max_sample_weight": 2}, both][draw.integers(4)]


def _estimator(draw: np.random.Generator) -> Any:
    """Any that fits; what a method does not take is left out."""
    method = str(draw.choice([*settings.METHODS, "auto"]))
    takes = settings.METHODS[method].takes if method != "auto" else ()
    options: dict[str, tuple[Any, ...]] = {
        "epochs": (None, 1, 3),
        "steps": (None, 1, 7),
        "batch_size": (None, 1, 33, 80),
        "learning_rate": (None, 0.01, 1),
        "average_every": (None, 1, 3),
        "max_grad_norm": (None, 0.5, 1, 40.0),
        "accountant": (None, "pld", "moments", "best"),
        "sampling": (None, "poisson", "allocation"),
    }
    given = {name: options[name][draw.integers(len(options[name]))] for name in takes}
    if given.get("steps") is not None:
        given.pop("epochs", None)
    relation = draw.choice([each.value for each in Relation])
    if relation == "add-or-remove-one":
        if method not in ("objective", "dp-sgd", "auto"):
            relation = "zero-out"
        else:
            given["public_rows"] = 90
    kind = PrivateLinearSVC if draw.random() < 0.5 else PrivateLogisticRegression
    several: dict[str, Any] = {}
    if kind is PrivateLinearSVC:
        given["huber_width"] = [0.5, 0.1, 1][draw.integers(3)]
    elif draw.random() < 0.5:
        covered = method == "auto" or settings.METHODS[method].softmax
        if given.get("max_grad_norm") is not None and method not in ("noisy-gd", "dp-sgd"):
            covered = False  # no theorem on sensitivity covers a softmax that is clipped
        several["multi_class"] = ["one-vs-rest", "auto", "softmax"][draw.integers(2 + covered)]
    targets = ("advantage<=0.3", "detection<=0.02@0.01", "reconstruction<=0.2@0.05")
    promised = {"epsilon": [0.01, 1, 3.0, 40.0][draw.integers(4)]}
    if draw.random() < 0.3:
        promised = {"target": targets[draw.integers(3)]}
    return kind(
        **promised,
        delta=[None, 1e-3, 1e-9][draw.integers(3)],
        relation=Relation(relation) if draw.random() < 0.5 else relation.upper().replace("-", "_"),
        method=method,
        l2=[0.001, 0.1, 1][draw.integers(3)],
        data_norm=[1, 0.3, 2.5][draw.integers(3)],
        classes=[[0, 1], [0, 1, 2]][draw.integers(2)],
        fit_intercept=bool(draw.integers(2)),
        max_rows_per_person=int(draw.choice([1, 1, 2])),
        **several,
        **_weights(draw),
        **given,
    )


@pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 60))]
)
def test_whatever_is_fitted_is_verified(seed: int) -> None:
    draw = np.random.default_rng(seed)
    model = _estimator(draw)
    X, y = draw.normal(size=(83, 3)), np.arange(83) % 2
    papers = model.fit(X, y).certificate_
    content = papers.to_json().encode()
    verify_certificate(Certificate.from_json(content), content)


def test_the_tables_are_those_of_the_estimators() -> None:
    regressions = (PrivateRidge, PrivateLinearRegression)
    kinds = (PrivateLogisticRegression, PrivateLinearSVC, *regressions)
    assert {kind.__name__: kind._kind for kind in kinds} == settings.ESTIMATORS
    for kind in kinds:
        own = {"huber_width" if kind is PrivateLinearSVC else settings.MULTI_CLASS}
        names = {*settings.GENERAL, *settings.HOW, *own}
        if kind in regressions:
            names = {*settings.GENERAL, "target_bounds"} - {*settings.OF_CLASSES}
            names |= {name for each in settings.REGRESSION.values() for name in each.takes}
        assert set(kind().get_params()) - set(KEPT_INSIDE) == names
        assert settings.setting_names(kind.__name__) == names
    for name, method in methods.REGRESSION.items():
        if name != "none":
            assert set(method.takes) - {"l2"} == set(settings.REGRESSION[name].takes)
    private = {name: each for name, each in methods.METHODS.items() if name in settings.METHODS}
    assert set(methods.METHODS) - set(private) == {"none", "majority"}
    for name, method in private.items():
        assert set(method.takes) - {"l2"} == set(settings.METHODS[name].takes)
