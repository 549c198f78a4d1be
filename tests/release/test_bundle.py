from __future__ import annotations

import json
import os
import pickle
import stat
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from sordino.errors import InvalidArgument
from sordino.privacy import Relation
from sordino.proofs.adaptive import AdaptiveEvidence
from sordino.release import bundle
from sordino.release.certificate import Certificate, CertificateError, Model

COEF, INTERCEPT = np.array([[0.25, -3.0, 1e-300]]), np.array([0.5])
WEIGHTS = bundle.weights_file(COEF, INTERCEPT)
EXAMPLE = Path(__file__).parents[2] / "examples" / "score_bundle.py"


def _certificate(weights: bytes = WEIGHTS, **changed: Any) -> Certificate:
    model = Model(
        estimator="PrivateLogisticRegression",
        settings={},
        labels=("no", "yes"),
        label_type="str",
        features=3,
        feature_names=("a", "b", "c"),
        intercept=True,
        sha256=bundle.digest(weights),
    )
    model = replace(model, **changed)
    problems, columns = model.shape
    evidence = AdaptiveEvidence(
        relation=Relation.REPLACE_ONE, columns=columns, problems=problems, rho=0.02, clip=1.0
    )
    return Certificate(
        model=model,
        guarantee=evidence.proof().guarantee(1e-6),
        method="dp-agd",
        evidence=evidence,
        facts=evidence.facts(),
        noise="ChaCha20 keyed by the operating system",
    )


@pytest.fixture
def written(tmp_path: Path) -> Path:
    bundle.write(tmp_path / "model", _certificate(), WEIGHTS)
    return tmp_path / "model"


def _planted(directory: Path, weights: bytes, certificate: Certificate | None = None) -> Path:
    """A bundle made by somebody else: right digest, any weights."""
    directory.mkdir()
    (directory / bundle.WEIGHTS).write_bytes(weights)
    certificate = _certificate(weights) if certificate is None else certificate
    (directory / bundle.CERTIFICATE).write_text(certificate.to_json())
    return directory


def _refusal(directory: Path) -> str:
    with pytest.raises(CertificateError) as refused:
        bundle.read(directory)
    assert str(refused.value).isprintable()
    return str(refused.value)


# There and back


def test_a_bundle_comes_back_to_the_last_bit(written: Path) -> None:
    found = bundle.read(written)
    np.testing.assert_array_equal(found.coef, COEF)
    np.testing.assert_array_equal(found.intercept, INTERCEPT)
    assert (found.coef.dtype, found.coef.flags.writeable) == (np.float64, False)
    assert found.certificate == _certificate()
    assert found.certificate_bytes == (written / "certificate.json").read_bytes()
    assert found.signature is None
    assert sorted(os.listdir(written)) == ["certificate.json", "model.safetensors"]
    assert os.listdir(written.parent) == ["model"]


def test_equal_weights_are_equal_bytes_however_they_lie_in_memory() -> None:
    wide = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert bundle.weights_file(wide, np.zeros(2)) == bundle.weights_file(
        wide.copy(order="C"), [0, 0]
    )
    changed = wide.copy()
    changed[1, 2] = np.nextafter(changed[1, 2], 9)
    assert bundle.weights_file(changed, [0, 0]) != bundle.weights_file(wide, [0, 0])


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "model")
    bundle.write(tmp_path / "link", _certificate(), WEIGHTS)
    assert bundle.read(tmp_path / "model").certificate == _certificate()


def test_others_may_read_a_bundle_as_the_umask_says(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        bundle.write(tmp_path / "model", _certificate(), WEIGHTS)
    finally:
        os.umask(old)
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "model", *tmp_path.glob("*/*"))]
    assert modes == [0o755, 0o644, 0o644]


def test_targets_are_checked_before_anything_is_trained(tmp_path: Path, written: Path) -> None:
    (tmp_path / "file").touch()
    for wrong in (written, tmp_path / "file", tmp_path / "no" / "such"):
        with pytest.raises(InvalidArgument):
            bundle.check_target(wrong)
        with pytest.raises(InvalidArgument):
            bundle.write(wrong, _certificate(), WEIGHTS)
    assert bundle.check_target(tmp_path / "new") == tmp_path / "new"
    assert not (tmp_path / "new").exists()
    assert bundle.read(written).certificate == _certificate()


def test_other_weights_than_the_certified_ones_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="not what the certificate is about"):
        bundle.write(tmp_path / "m", _certificate(), bundle.weights_file(COEF, INTERCEPT + 1))
    wrong_shape = bundle.weights_file(COEF[:, :2], INTERCEPT)
    with pytest.raises(CertificateError, match="shape"):
        bundle.write(tmp_path / "m", _certificate(wrong_shape), wrong_shape)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_disk_that_refuses_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, refuse)
    with pytest.raises(CertificateError, match="No space left on device"):
        bundle.write(tmp_path / "model", _certificate(), WEIGHTS)
    assert os.listdir(tmp_path) == []


# What is not a bundle


def test_a_missing_directory_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="to be a directory"):
        bundle.read(tmp_path / "none")
    with pytest.raises(InvalidArgument, match="to exist"):
        bundle.read_certificate(tmp_path / "none")


@pytest.mark.parametrize("name", [bundle.WEIGHTS, bundle.CERTIFICATE])
def test_a_missing_file_is_named(written: Path, name: str) -> None:
    (written / name).unlink()
    assert f"{name} is missing" in _refusal(written)


def test_one_changed_bit_of_the_weights_is_seen(written: Path) -> None:
    for place in (0, 20, len(WEIGHTS) - 1):
        changed = bytearray(WEIGHTS)
        changed[place] ^= 1
        (written / bundle.WEIGHTS).write_bytes(changed)
        assert "is not what the certificate is about" in _refusal(written)
    (written / bundle.WEIGHTS).write_bytes(WEIGHTS[:-8])
    assert "is not what the certificate is about" in _refusal(written)


@pytest.mark.parametrize(
    ("tensors", "part"),
    [
        ({"coef": COEF}, "other tensors"),
        ({"coef": COEF, "intercept": INTERCEPT, "more": COEF}, "other tensors"),
        ({"coef": COEF.astype(np.float32), "intercept": INTERCEPT}, "float32"),
        ({"coef": COEF.astype(np.int64), "intercept": INTERCEPT}, "int64"),
        ({"coef": COEF.ravel(), "intercept": INTERCEPT}, "shape (3,)"),
        ({"coef": np.vstack([COEF, COEF]), "intercept": INTERCEPT}, "shape (2, 3)"),
        ({"coef": COEF, "intercept": np.zeros((1, 1))}, "shape (1, 1)"),
        ({"coef": COEF * np.nan, "intercept": INTERCEPT}, "not finite"),
        ({"coef": COEF, "intercept": INTERCEPT + np.inf}, "not finite"),
    ],
)
def test_other_tensors_are_refused(tmp_path: Path, tensors: dict[str, Any], part: str) -> None:
    assert part in _refusal(_planted(tmp_path / "b", save(tensors)))


def test_an_intercept_outside_the_proof_is_refused(tmp_path: Path) -> None:
    bare = _certificate(intercept=False)
    assert "intercept that the guarantee is not about" in _refusal(
        _planted(tmp_path / "b", WEIGHTS, bare)
    )
    zero = bundle.weights_file(COEF, [0.0])
    bundle.read(_planted(tmp_path / "c", zero, _certificate(zero, intercept=False)))


def test_weights_of_another_shape_than_the_proof_is_about_are_refused(written: Path) -> None:
    plain = json.loads((written / bundle.CERTIFICATE).read_text())
    plain["evidence"]["columns"] = 3
    (written / bundle.CERTIFICATE).write_text(json.dumps(plain))
    assert "evidence.shape=(1, 3)" in _refusal(written)


class Hostile:
    """A pickle that touches a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_is_not_run(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    for number, protocol in enumerate((0, 2, 5)):
        poison = pickle.dumps(Hostile(trap), protocol=protocol)
        planted = _planted(tmp_path / f"w{number}", poison)
        assert "not a safetensors file" in _refusal(planted)
        (planted / bundle.CERTIFICATE).write_bytes(poison)
        _refusal(planted)
    assert not trap.exists()
    pickle.loads(poison)  # noqa: S301  the trap works
    assert trap.exists()


def _with_header(header: bytes, length: int | None = None, body: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + body


@pytest.mark.parametrize(
    "weights",
    [
        b"",
        b"{}",
        _with_header(b"{}", length=2**63),
        _with_header(b"{}", length=2**40),
        _with_header(b"{" * 1000),
        _with_header(
            b'{"coef":{"dtype":"BF16","shape":[1,3],"data_offsets":[0,6]}}', body=b"x" * 6
        ),
        _with_header(b'{"coef":{"dtype":"F64","shape":[1,3],"data_offsets":[0,9000000]}}'),
        _with_header(
            b'{"coef":{"dtype":"F64","shape":[9223372036854775807,9],"data_offsets":[0,8]}}',
            body=b"x" * 8,
        ),
    ],
    ids=range(8),
)
def test_a_hostile_header_is_refused(tmp_path: Path, weights: bytes) -> None:
    assert "not a safetensors file" in _refusal(_planted(tmp_path / "b", weights))


def test_a_file_larger_than_the_model_is_refused_unread(tmp_path: Path) -> None:
    planted = _planted(tmp_path / "b", WEIGHTS)
    with (planted / bundle.WEIGHTS).open("r+b") as file:
        file.truncate(2**20)
    assert "larger than" in _refusal(planted)
    with (planted / bundle.CERTIFICATE).open("r+b") as file:
        file.truncate(2**26)  # sparse
    assert "larger than" in _refusal(planted)


@pytest.mark.parametrize("name", [bundle.WEIGHTS, bundle.CERTIFICATE, bundle.SIGNATURE])
def test_no_file_may_lead_out_of_the_bundle(written: Path, name: str) -> None:
    outside = written.parent / "outside"
    outside.write_bytes((written / name).read_bytes() if (written / name).exists() else b"x" * 64)
    (written / name).unlink(missing_ok=True)
    (written / name).symlink_to(outside)
    assert "leads out of" in _refusal(written)
    outside.unlink()
    assert "leads out of" in _refusal(written)


def test_a_pipe_is_refused_and_not_waited_for(written: Path) -> None:
    (written / bundle.WEIGHTS).unlink()
    os.mkfifo(written / bundle.WEIGHTS)
    assert "it is a pipe, not a file" in _refusal(written)


@pytest.mark.parametrize("garbage", [b"", b"short", b"x" * 63, b"x" * 65, b"x" * 10**6])
def test_a_signature_that_is_none_is_refused(written: Path, garbage: bytes) -> None:
    (written / bundle.SIGNATURE).write_bytes(garbage)
    assert bundle.SIGNATURE in _refusal(written)


# The small program


def _scored(directory: Path, rows: Path) -> subprocess.CompletedProcess[str]:
    program = (
        "import runpy, sys\n"
        f"sys.argv = ['score', {str(directory)!r}, {str(rows)!r}]\n"
        f"runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')\n"
        "assert not {'sordino', 'torch', 'sklearn'} & set(sys.modules)\n"
    )
    command = [sys.executable, "-I", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_small_program_scores_a_bundle_without_sordino(tmp_path: Path, written: Path) -> None:
    np.save(tmp_path / "rows.npy", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # scores 0.75 and -2.5
    (tmp_path / "rows.csv").write_text("c,b,a\n0,0,1\n0,1,0\n")
    for rows in ("rows.npy", "rows.csv"):
        done = _scored(written, tmp_path / rows)
        assert (done.returncode, done.stdout) == (0, "yes\nno\n"), done.stderr
        guarantee = _certificate().guarantee
        assert guarantee is not None
        assert f"epsilon = {guarantee.epsilon} at delta = 1e-06" in done.stderr
    (written / bundle.WEIGHTS).write_bytes(WEIGHTS[:-1] + b"\x00")
    done = _scored(written, tmp_path / "rows.csv")
    assert (done.returncode, done.stdout) == (1, "")
    assert "not the weights" in done.stderr
