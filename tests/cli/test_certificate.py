from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sordino.privacy import Relation
from sordino.proofs.adaptive import AdaptiveEvidence
from sordino.proofs.prepared import SumRelease, SumsEvidence
from sordino.release import bundle
from sordino.release.certificate import Certificate, Model
from sordino.release.noise import CryptoNormals, OsGaussian
from sordino.release.pipeline import PipelineCertificate, PipelineStep, pipeline_guarantee

WEIGHTS = bundle.weights_file([[0.5, -1.0]], [0.25])
EVIDENCE = AdaptiveEvidence(relation=Relation.REPLACE_ONE, columns=3, rho=0.02, clip=1.0)
SETTINGS: dict[str, Any] = {
    **dict.fromkeys(("epochs", "steps", "batch_size", "learning_rate", "average_every")),
    **dict.fromkeys(("max_grad_norm", "accountant", "public_rows")),
    **{"epsilon": 0.9, "delta": 1e-6, "relation": "replace-one", "method": "dp-agd", "l2": 0.001},
    **{"data_norm": 1.0, "fit_intercept": True, "max_rows_per_person": 1},
}
CERTIFICATE = Certificate(
    model=Model("PrivateLogisticRegression", SETTINGS, (0, 1), "int", 2, None, True, "00" * 32),
    guarantee=EVIDENCE.proof().guarantee(1e-6),
    method="dp-agd",
    evidence=EVIDENCE,
    facts=EVIDENCE.facts(),
    noise=CryptoNormals.name,
)

Run = Callable[..., tuple[int, str, str]]


def _about(weights: bytes, certificate: Certificate = CERTIFICATE) -> Certificate:
    return replace(certificate, model=replace(certificate.model, sha256=bundle.digest(weights)))


@pytest.fixture
def run(program):
    return lambda *arguments: program("certificate", *arguments)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    bundle.write(tmp_path / "model", _about(WEIGHTS), WEIGHTS)
    return tmp_path / "model"


def _edit(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = directory / bundle.CERTIFICATE
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")


def _refused(answer: tuple[int, str, str], code: int = 1) -> str:
    found, out, err = answer
    assert (found, out) == (code, "")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def test_show_says_it_in_words_or_as_json(run: Run, model: Path) -> None:
    code, out, err = run("show", model)
    assert (code, err) == (0, "")
    assert out.startswith("Verified just now")
    assert out.endswith(f"\n\n{_about(WEIGHTS)}\n")
    assert str(_about(WEIGHTS)) in run("show", model / bundle.CERTIFICATE)[1]
    code, out, err = run("show", model, "--json")
    assert out == (model / bundle.CERTIFICATE).read_text()
    assert err.startswith("Verified just now")


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v["guarantee"].update(epsilon=0.01),
        lambda v: v["model"].update(sha256="00" * 32),
        lambda v: v.update(noise="none"),
    ],
)
def test_what_does_not_hold_is_shown_as_not_verified(
    run: Run, model: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    _edit(model, change)
    code, out, err = run("show", model)
    assert (code, err) == (1, "")
    assert out.startswith("NOT VERIFIED, so nothing below is proved: ")
    assert "WHAT IS PROMISED" in out
    code, out, err = run("show", model, "--json")
    assert (code, json.loads(out)["method"]) == (1, "dp-agd")
    assert err.startswith("NOT VERIFIED")


def test_verify_accepts_what_holds(run: Run, model: Path) -> None:
    code, out, err = run("verify", model)
    assert (code, err) == (0, "")
    assert "The claim follows from the recorded numbers: epsilon <= 0.9" in out
    assert "taken on trust" in out
    assert "not forgers" in out
    code, out, _ = run("verify", model / bundle.CERTIFICATE)
    assert code == 0
    assert "The weights were not looked at" in out


def test_sign_and_verify_with_a_key_of_ones_own(run: Run, model: Path, tmp_path: Path) -> None:
    code, out, _ = run("new-key", tmp_path / "me.pem")
    assert code == 0
    assert str(tmp_path / "me.public.pem") in out
    public = tmp_path / "me.public.pem"
    assert "is not signed" in _refused(run("verify", model, "--key", public))
    code, out, err = run("sign", model, "--key", tmp_path / "me.pem")
    assert (code, err) == (0, "")
    name = out.split()[4].rstrip(":")
    code, out, _ = run("verify", model, "--key", public)
    assert code == 0
    assert f"signed by the key {name}" in out
    run("new-key", tmp_path / "other.pem", tmp_path / "other.pub")
    wrong = _refused(run("verify", model, "--key", tmp_path / "other.pub"))
    assert "signature is wrong" in wrong
    signed = (model / bundle.SIGNATURE).read_bytes()
    (model / bundle.SIGNATURE).write_bytes(bytes(64))
    assert "signature is wrong" in _refused(run("verify", model, "--key", public))
    (model / bundle.SIGNATURE).write_bytes(signed)
    _edit(model, lambda v: v.update(date="2020-02-02"))
    assert run("verify", model)[0] == 0
    assert "signature is wrong" in _refused(run("verify", model, "--key", public))


def _tampered_weights(model: Path) -> None:
    (model / bundle.WEIGHTS).write_bytes(bundle.weights_file([[0.5, -1.0]], [0.2500001]))


def _hostile_weights(model: Path) -> None:
    poison = pickle.dumps({"coef": 1})
    (model / bundle.WEIGHTS).write_bytes(poison)
    (model / bundle.CERTIFICATE).write_text(_about(poison).to_json())


def _cut_short(model: Path) -> None:
    path = model / bundle.CERTIFICATE
    path.write_bytes(path.read_bytes()[:-200])


@pytest.mark.parametrize(
    ("spoil", "part"),
    [
        (_tampered_weights, "is not what the certificate is about"),
        (_hostile_weights, "is not a safetensors file"),
        (_cut_short, "cut short"),
        (lambda m: _edit(m, lambda v: v["guarantee"].update(epsilon=0.5)), "epsilon=0.5, but"),
        (lambda m: _edit(m, lambda v: v["guarantee"].update(delta=1e-9)), "epsilon=0.89"),
        (lambda m: _edit(m, lambda v: v["guarantee"].update(unit="a whole family")), "claims unit"),
        (
            lambda m: _edit(m, lambda v: v["guarantee"].update(relation="zero-out")),
            "relation_means is something else",
        ),
        (lambda m: _edit(m, lambda v: v.update(version=2)), "version 2 of sordino-certificate"),
        (lambda m: _edit(m, lambda v: v.update(evidence=None)), "records no numbers"),
        (lambda m: (m / bundle.CERTIFICATE).unlink(), "certificate.json is missing"),
        (lambda m: (m / bundle.WEIGHTS).unlink(), "model.safetensors is missing"),
        (lambda m: (m / bundle.SIGNATURE).write_bytes(b"garbage"), "64"),
        (lambda m: (m / bundle.CERTIFICATE).write_bytes(b"[" * 10**6), "nested too deeply"),
    ],
)
def test_what_does_not_hold_is_one_sentence_and_exit_1(
    run: Run, model: Path, tmp_path: Path, spoil: Callable[[Path], object], part: str
) -> None:
    spoil(model)
    assert part in _refused(run("verify", model))
    run("new-key", tmp_path / "me.pem")
    assert part in _refused(run("sign", model, "--key", tmp_path / "me.pem"))


def test_a_relation_edited_with_its_sentence_is_refused_too(run: Run, model: Path) -> None:
    means = "one record is there or is not; how many records there are stays private"
    terms = {"relation": "add-or-remove-one", "relation_means": means}
    _edit(model, lambda v: v["guarantee"].update(terms))
    assert "claims relation='add-or-remove-one'" in _refused(run("verify", model))


def test_nothing_promised_is_shouted_and_verified_as_that(run: Run, tmp_path: Path) -> None:
    nothing = {"guarantee": None, "evidence": None, "facts": {}}
    none = replace(CERTIFICATE, why_none="epsilon is infinite.", **nothing)
    bundle.write(tmp_path / "model", _about(WEIGHTS, none), WEIGHTS)
    assert "NOTHING IS PROMISED" in run("show", tmp_path / "model")[1]
    code, out, _ = run("verify", tmp_path / "model")
    assert (code, out.startswith("NOTHING IS PROMISED")) == (1, True)
    run("new-key", tmp_path / "me.pem")
    code, _, err = run("sign", tmp_path / "model", "--key", tmp_path / "me.pem")
    assert (code, "NOTHING IS PROMISED" in err) == (0, True)


def test_wrong_usage_is_one_sentence_and_exit_2(run: Run, model: Path, tmp_path: Path) -> None:
    missing, garbage = tmp_path / "none", tmp_path / "garbage"
    garbage.write_bytes(b"garbage")
    for arguments in (
        ("show", missing),
        ("verify", missing),
        ("verify", model, "--key", missing),
        ("verify", model, "--key", garbage),
        ("sign", model, "--key", garbage),
        ("new-key", garbage),
    ):
        assert _refused(run(*arguments), code=2).startswith("Expected ")
    run("new-key", tmp_path / "me.pem")
    for arguments in (
        ("verify", model / bundle.CERTIFICATE, "--key", tmp_path / "me.public.pem"),
        ("verify", model, "--key", tmp_path / "me.pem"),
        ("sign", missing, "--key", tmp_path / "me.pem"),
        ("sign", model, "--key", tmp_path / "me.public.pem"),
    ):
        assert _refused(run(*arguments), code=2).startswith("Expected ")
    assert not (model / bundle.SIGNATURE).exists()


def test_help_teaches(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    for word in ("show", "verify", "sign", "new-key", "certificate.json", "forgers"):
        assert word in out
    helped = " ".join(run("verify", "--help")[1].split())
    assert "openssl pkeyutl -verify" in helped
    assert "sordino certificate verify model/" in helped


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; sys.argv = ['sordino', 'certificate', 'verify', '--help']\n"
        "from sordino.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = ('numpy', 'scipy', 'torch', 'safetensors', 'cryptography')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


class TestPipeline:
    """The papers of several steps are told apart from those of one model by what they say."""

    @pytest.fixture
    def papers(self, tmp_path: Path) -> Path:
        sums = SumsEvidence(
            relation=Relation.REPLACE_ONE, releases=(SumRelease("mean", 1.0, 20.0),)
        )
        step = PipelineStep(
            estimator="PrivateStandardScaler",
            kind="private",
            evidence=sums,
            delta=1e-6,
            noise=OsGaussian.name_under("1"),
        )
        whole = pipeline_guarantee((step,), CERTIFICATE)
        made = PipelineCertificate(steps=(step,), model=CERTIFICATE, guarantee=whole)
        (tmp_path / "pipeline.json").write_text(made.to_json())
        return tmp_path / "pipeline.json"

    def test_it_is_shown_and_verified(self, run, papers):
        code, shown, _ = run("show", str(papers))
        assert code == 0
        assert "Step 1: PrivateStandardScaler released" in shown
        code, out, _ = run("verify", str(papers))
        assert code == 0
        assert "all steps together" in " ".join(out.split())

    def test_a_better_claim_is_refused(self, run, papers):
        values = json.loads(papers.read_text())
        values["guarantee"]["epsilon"] = CERTIFICATE.guarantee.epsilon
        papers.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")
        code, _, error = run("verify", str(papers))
        assert code == 1
        assert "prove only" in error
        code, shown, _ = run("show", str(papers))
        assert code == 1
        assert "NOT VERIFIED" in shown

    @pytest.mark.parametrize("content", ["{", "[]", "{}", '{"schema": "sordino-pipeline"}', "7"])
    def test_what_is_neither_is_refused(self, run, papers, content):
        papers.write_text(content)
        code, _, error = run("verify", str(papers))
        assert code == 1
        assert "certificate" in error
