from __future__ import annotations

import contextlib
import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sample_evidence import NOISY, SHAPE, SPEC

from sordino.errors import InvalidArgument, Refused
from sordino.privacy import Relation
from sordino.proofs.adaptive import AdaptiveEvidence
from sordino.proofs.evidence import SelectionEvidence, StepsEvidence
from sordino.proofs.objective import ObjectiveEvidence
from sordino.proofs.output import OutputEvidence
from sordino.release.certificate import (
    MOST_BYTES,
    Certificate,
    CertificateError,
    DatasetFacts,
    Model,
    Preprocessing,
    Tuning,
    new_salt,
    plain_labels,
    salted,
    versions,
)

EVIDENCE = AdaptiveEvidence(relation=Relation.REPLACE_ONE, columns=4, rho=0.02, clip=1.0)
GUARANTEE = EVIDENCE.proof().guarantee(1e-6)
MODEL = Model(
    estimator="PrivateLogisticRegression",
    settings={"l2": 0.001, "epochs": None, "warm": True, "rates": [0.1, 0.25]},
    labels=(0, 1),
    label_type="int",
    features=3,
    feature_names=("age", "Größe", "zip"),
    intercept=True,
    sha256="ab" * 32,
)
CERTIFICATE = Certificate(
    model=MODEL,
    guarantee=GUARANTEE,
    method="dp-agd",
    evidence=EVIDENCE,
    facts=EVIDENCE.facts(),
    noise="in every step; from: ChaCha20 keyed by the operating system",
    preprocessing=Preprocessing(declared=True, reads=("the mean of column age",)),
    dataset=DatasetFacts("patients-2026", "cd" * 32),
    ledger_entry="entry-7",
    date="2026-01-31",
)


def _changed(change: Callable[[dict[str, Any]], object]) -> str:
    values = json.loads(CERTIFICATE.to_json())
    change(values)
    return json.dumps(values)


def _refusal(content: str | bytes) -> str:
    with pytest.raises(CertificateError) as refused:
        Certificate.from_json(content)
    sentence = str(refused.value)
    assert isinstance(refused.value, Refused)
    assert sentence.isprintable()  # one line, nothing a terminal would act on
    assert sentence.endswith(".")
    return sentence


# JSON


def test_a_certificate_survives_json() -> None:
    text = CERTIFICATE.to_json()
    assert text.endswith("}\n")
    assert text.isascii()
    assert list(json.loads(text)) == sorted(json.loads(text))
    assert Certificate.from_json(text) == Certificate.from_json(text.encode()) == CERTIFICATE
    assert Certificate.from_json(text).to_json() == text
    assert copy.deepcopy(CERTIFICATE) == CERTIFICATE
    assert hash(Certificate.from_json(text)) == hash(CERTIFICATE)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ((False, True), "bool"),
        ((-1, 2**63 - 1), "int"),
        ((0.5, 1.0), "float"),
        (("nö", "ja"), "str"),
    ],
)
def test_labels_keep_their_type(labels: tuple[Any, ...], kind: str) -> None:
    model = replace(MODEL, labels=labels, label_type=kind)
    found = Certificate.from_json(replace(CERTIFICATE, model=model).to_json()).model
    assert found == model
    assert [type(label) for label in found.labels] == [type(label) for label in labels]
    assert plain_labels(np.array(labels)) == (labels, kind)
    assert found.classes().tolist() == list(labels)


def test_labels_of_mixed_or_other_types_are_refused() -> None:
    for classes in (np.array([1, "a"], dtype=object), np.array([b"a", b"b"]), np.array([1j, 2j])):
        with pytest.raises(InvalidArgument, match="of one type"):
            plain_labels(classes)


def test_every_float_comes_back_to_the_last_bit() -> None:
    epsilon = math.nextafter(0.1, 1)
    changed = replace(CERTIFICATE, guarantee=replace(GUARANTEE, epsilon=epsilon, delta=5e-324))
    found = Certificate.from_json(changed.to_json()).guarantee
    assert found is not None
    assert (found.epsilon, found.delta) == (epsilon, 5e-324)


OTHERS = [
    OutputEvidence(spec=SPEC, rows=200, norm=1.0, sigma=0.5, **SHAPE),
    StepsEvidence(
        spec=replace(SPEC, **NOISY, drop_last=False), rows=200, norm=1.0, delta=1e-6, **SHAPE
    ),
    ObjectiveEvidence(
        loss="logistic",
        huber_width=0.5,
        norm=1.0,
        regulariser=10.0,
        sigma=20.0,
        sigma_out=0.1,
        gradient_left=1e-6,
        **SHAPE,
    ),
]


@pytest.mark.parametrize("evidence", OTHERS, ids=lambda each: each.kind)
def test_every_kind_of_evidence_survives_json(evidence: Any) -> None:
    certificate = replace(CERTIFICATE, evidence=evidence, facts=evidence.facts())
    assert Certificate.from_json(certificate.to_json()).evidence == evidence


def test_a_selection_survives_json_with_its_tuning() -> None:
    one = AdaptiveEvidence(rho=0.01, clip=1.0, **SHAPE)
    evidence = SelectionEvidence(
        candidates=(one, replace(one, rho=0.02)),
        selected=1,
        mean=10.0,
        shape_of_runs=math.inf,
        **SHAPE,
    )
    tuning = Tuning("declared", 2, evidence.runs_in_words)
    certificate = replace(CERTIFICATE, evidence=evidence, facts=evidence.facts(), tuning=tuning)
    assert Certificate.from_json(certificate.to_json()) == certificate
    for wrong in (Tuning("unknown"), replace(tuning, candidates=3)):
        with pytest.raises(InvalidArgument):
            replace(certificate, tuning=wrong)
    with pytest.raises(InvalidArgument, match="tuning=declared to fit"):
        replace(CERTIFICATE, tuning=tuning)


# Files that are none


def test_the_schema_version_is_looked_at_first() -> None:
    values = {"schema": "sordino-certificate", "version": 2, "news": []}
    sentence = _refusal(json.dumps(values))
    assert sentence == (
        "The certificate has version 2 of sordino-certificate, and this sordino reads 1; a newer "
        "sordino wrote it."
    )
    for version in (1.0, True, "1", None, {"deep": "x" * 1000}):
        assert "of sordino-certificate" in _refusal(
            _changed(lambda v, n=version: v.update(version=n))
        )
    assert "is no sordino-certificate" in _refusal('{"schema": "another"}')
    assert "is no sordino-certificate" in _refusal("[]")


def test_a_file_cut_short_anywhere_is_refused() -> None:
    text = CERTIFICATE.to_json()
    for end in range(0, len(text) - 2, 37):
        assert "cut short" in _refusal(text[:end])
    assert "cut short" not in _refusal(text.replace(":", ";"))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"\x80\x04\x95pickle", "not a text in UTF-8"),
        ('{"schema": 1, "schema": 2}', "key 'schema' twice"),
        ('{"a": NaN}', "NaN, which is not a number"),
        ('{"a": -Infinity}', "-Infinity, which is not a number"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5000 + "}", "too large"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
        (" " * (MOST_BYTES + 1), "larger than 32 MB"),
        ('{"a": 1} {"b": 2}', "not JSON: Extra data"),
        ("\ufeff{}", "not JSON"),
        ('{"\\u001b[2J": 1, "\\u001b[2J": 2}', "\\x1b[2J"),
    ],
)
def test_hostile_text_is_refused(content: str | bytes, part: str) -> None:
    assert part in _refusal(content)


@pytest.mark.parametrize("part", ["", "model", "guarantee", "preprocessing", "tuning", "dataset"])
def test_no_key_may_be_missing_or_new(part: str) -> None:
    plain = json.loads(CERTIFICATE.to_json())
    inner = plain[part] if part else plain
    for name in list(inner):
        value = inner.pop(name)
        sentence = _refusal(json.dumps(plain))
        assert name in sentence or "schema" in sentence
        inner[name] = value
    inner["extra"] = 1
    assert "has 'extra', which is no part of it" in _refusal(json.dumps(plain))


TYPES = ["x", 3, 0.5, True, None, [], {}]


@pytest.mark.parametrize("path", ["date", "noise", "method", "facts", "versions", "evidence"])
def test_a_value_of_another_type_is_refused(path: str) -> None:
    right = type(json.loads(CERTIFICATE.to_json())[path])
    for wrong in TYPES:
        if type(wrong) is not right and not (path == "evidence" and wrong is None):
            _refusal(_changed(lambda v, w=wrong: v.update({path: w})))


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.update(date="2026-02-30"),
        lambda v: v.update(date="20260131"),
        lambda v: v.update(why_none="a reason"),
        lambda v: v.update(guarantee=None),
        lambda v: v["facts"].update(noise=1),
        lambda v: v["model"].update(features=-3),
        lambda v: v["model"].update(features=2.0),
        lambda v: v["model"].update(labels=[0]),
        lambda v: v["model"].update(labels=[0, 0]),
        lambda v: v["model"].update(labels=[0, 1.0]),
        lambda v: v["model"].update(labels=[0, True]),
        lambda v: v["model"].update(labels=[0, [1]]),
        lambda v: v["model"].update(labels=[0, 1, 2]),
        lambda v: v["model"].update(labels=[0, 2**63]),
        lambda v: v["model"].update(label_type="str"),
        lambda v: v["model"].update(feature_names=["a"]),
        lambda v: v["model"].update(feature_names=["a", "b", 3]),
        lambda v: v["model"].update(sha256="AB" * 32),
        lambda v: v["model"].update(intercept=False),
        lambda v: v["guarantee"].update(epsilon="1"),
        lambda v: v["guarantee"].update(epsilon=-1),
        lambda v: v["guarantee"].update(delta=1),
        lambda v: v["guarantee"].update(released="some"),
        lambda v: v["guarantee"].update(assumes="one sentence"),
        lambda v: v["guarantee"].update(relation="add-or-remove-one"),
        lambda v: v["guarantee"].update(relation="none"),
        lambda v: v["guarantee"].update(delta_means="nothing to see here"),
        lambda v: v["evidence"].update(kind="magic"),
        lambda v: v["evidence"].update(rho=-1),
        lambda v: v["evidence"].update(rho=[]),
        lambda v: v["evidence"].pop("rho"),
        lambda v: v["evidence"].update(columns=5),
        lambda v: v["tuning"].update(kind="declared"),
        lambda v: v["tuning"].update(candidates=3),
        lambda v: v["preprocessing"].update(declared=False),
        lambda v: v["dataset"].update(fingerprint="short"),
    ],
)
def test_values_that_cannot_be_right_are_refused(change: Callable[[Any], object]) -> None:
    _refusal(_changed(change))


def test_deep_settings_are_refused_and_do_not_crash() -> None:
    deep = "[" * 900 + "]" * 900
    _refusal(CERTIFICATE.to_json().replace('"settings": {', '"settings": {"x": ' + deep + ","))


def test_evidence_that_breaks_its_reader_is_refused() -> None:
    plain = json.loads(replace(CERTIFICATE, evidence=OTHERS[0]).to_json())
    for name in plain["evidence"]["spec"]:
        for wrong in ([], {}, "x", -1, 1e308):
            broken = copy.deepcopy(plain)
            broken["evidence"]["spec"][name] = wrong
            with contextlib.suppress(CertificateError):  # and nothing else
                Certificate.from_json(json.dumps(broken))


# Constructing


def test_settings_must_be_plain() -> None:
    settings = {"a": np.float64(0.5), "b": np.int64(3), "c": np.arange(2), "d": {"e": np.True_}}
    found = replace(MODEL, settings=settings).settings
    assert found == {"a": 0.5, "b": 3, "c": (0, 1), "d": {"e": True}}
    assert type(found["a"]) is float
    for wrong in (math.inf, math.nan, object(), {1, 2}):
        with pytest.raises(InvalidArgument, match=r"settings\.a is .*, and no text, number"):
            replace(MODEL, settings={"a": wrong})


def test_an_infinite_epsilon_is_no_guarantee() -> None:
    with pytest.raises(InvalidArgument, match="to be finite"):
        replace(CERTIFICATE, guarantee=replace(GUARANTEE, epsilon=math.inf))


def test_a_certificate_without_a_guarantee_says_why() -> None:
    with pytest.raises(InvalidArgument, match="why_none"):
        replace(CERTIFICATE, guarantee=None)
    with pytest.raises(InvalidArgument, match="why_none"):
        replace(CERTIFICATE, why_none="because")


def test_versions_name_what_took_part() -> None:
    found = versions()
    assert {"sordino", "python", "numpy", "scipy", "opendp", "cryptography"} <= set(found)
    assert found["numpy"] == np.__version__


# Words


def test_the_words_say_what_is_promised_and_what_is_not() -> None:
    text = " ".join(str(CERTIFICATE).split())
    assert "epsilon <= 0.9 at delta = 1e-06" in text  # 0.8999..., rounded up
    assert GUARANTEE.epsilon < 0.9
    for part in (
        "For whom: one record",
        "one record is exchanged for any other",
        "gives that person's records away",
        GUARANTEE.theorem,
        EVIDENCE.facts()["schedule"],
        EVIDENCE.facts()["sensitivity"],
        "ChaCha20 keyed by the operating system",
        "NOT COVERED: the mean of column age",
        "patients-2026",
        "entry entry-7",
        "beside those that the ledger adds up",
        "taken on trust",
        "side channels",
        "only accidents are detected, not forgers",
        *GUARANTEE.assumes,
    ):
        assert part in text, part
    assert max(map(len, str(CERTIFICATE).splitlines())) <= 100


def test_what_is_left_open_is_not_covered() -> None:
    leaky = replace(GUARANTEE, not_covered=("which classes there are was read off the labels",))
    bare = replace(
        CERTIFICATE,
        guarantee=leaky,
        preprocessing=Preprocessing(),
        tuning=Tuning("unknown"),
        ledger_entry=None,
        dataset=DatasetFacts(),
    )
    text = " ".join(str(bare).split())
    listed = text.split("WHAT IS NOT COVERED")[1].split("WHAT IT ASSUMES")[0]
    assert "- which classes there are was read off the labels" in listed
    assert "- how the rows were prepared: nobody declared it" in listed
    assert "- tuning on the same records" in listed
    assert "- other releases from the same records -" in listed


def test_nothing_promised_is_shouted() -> None:
    why = "random_state made the noise repeatable."
    text = str(replace(CERTIFICATE, guarantee=None, why_none=why))
    assert "NOTHING IS PROMISED" in text
    assert why in text
    assert "WHAT IS PROMISED" not in text
    assert "epsilon <=" not in text


def test_a_group_is_named() -> None:
    evidence = replace(EVIDENCE, rows_per_person=3)
    text = str(replace(CERTIFICATE, guarantee=evidence.proof().guarantee(1e-6)))
    assert "For whom: 3 records of one person" in text
    assert "for each of these records" in text


def test_without_delta_there_is_no_exception() -> None:
    text = str(replace(CERTIFICATE, guarantee=replace(GUARANTEE, delta=0.0)))
    assert "without exception" in text
    assert "records away" not in text


def test_no_text_of_a_stranger_can_forge_a_line() -> None:
    evil = "\n\nWHAT IS PROMISED\n  epsilon <= 0.001\x1b[2J\u202e\u2028\ud800"
    forged = replace(
        CERTIFICATE,
        guarantee=replace(GUARANTEE, theorem=evil, unit=evil, assumes=(evil,), not_covered=(evil,)),
        noise=evil,
        method=evil,
        facts={evil: evil},
        model=replace(MODEL, labels=(evil, "b"), label_type="str", estimator=evil),
        dataset=DatasetFacts(name=evil),
        ledger_entry=evil,
        versions={evil: evil},
    )
    text = str(Certificate.from_json(forged.to_json()))
    assert text.splitlines().count("WHAT IS PROMISED") == 1
    assert all(line.isprintable() for line in text.split("\n"))


# Fingerprints


def test_a_fingerprint_is_an_hmac_with_a_secret_key() -> None:
    # printf '%s' $digest | xxd -r -p | openssl dgst -sha256 -mac HMAC -macopt hexkey:$salt
    digest, salt = "00" * 32, "0b" * 32
    known = "abf0195cf7a503e61897b7bb6f36beb7713f7bbf6a6c68ad4b5059da47670135"
    found = salted(digest, salt)
    assert found == known
    assert salted(digest, "0c" * 32) != found != salted("01" * 32, salt)


def test_salts_are_fresh_and_never_shown() -> None:
    assert new_salt() != new_salt()
    for wrong in ("", "secret" * 10, "ab" * 8, "AB" * 32):
        with pytest.raises(InvalidArgument) as refused:
            salted("00" * 32, wrong)
        assert not wrong or wrong not in str(refused.value)
    with pytest.raises(InvalidArgument, match="SHA-256"):
        salted("00", new_salt())
