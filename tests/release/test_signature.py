from __future__ import annotations

import importlib.util
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sordino.errors import InvalidArgument
from sordino.release import signature
from sordino.release.certificate import CertificateError

CONTENT = b'{"schema": "sordino-certificate"}\n'
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not here")


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    private, public = tmp_path / "me.pem", tmp_path / "me.public.pem"
    signature.new_key(private, public)
    return private, public


def test_what_was_signed_is_accepted_and_nothing_else(keys: tuple[Path, Path]) -> None:
    private, public = signature.load_private(keys[0]), signature.load_public(keys[1])
    signed = signature.sign(CONTENT, private)
    assert len(signed) == 64
    signature.check(CONTENT, signed, public)
    other = Ed25519PrivateKey.generate().public_key()
    for content, given, key in (
        (CONTENT + b" ", signed, public),
        (CONTENT, signed[:-1] + bytes([signed[-1] ^ 1]), public),
        (CONTENT, bytes(64), public),
        (CONTENT, signed, other),
    ):
        with pytest.raises(CertificateError, match="signature is wrong: the key SHA256:"):
            signature.check(content, given, key)


def test_rfc_8032s_first_vector() -> None:
    secret = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))
    assert signature.sign(b"", key).hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555"
        "fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )


@needs_openssl
def test_openssl_accepts_our_signature(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    content, signed = tmp_path / "certificate.json", tmp_path / "certificate.json.sig"
    content.write_bytes(CONTENT)
    signed.write_bytes(signature.sign(CONTENT, signature.load_private(keys[0])))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(keys[1]), "-rawin"]
    command += ["-in", str(content), "-sigfile", str(signed)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    content.write_bytes(CONTENT + b" ")
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


@needs_openssl
def test_keys_of_openssl_are_read(tmp_path: Path) -> None:
    private, public = tmp_path / "k.pem", tmp_path / "p.pem"
    make = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(private)]
    subprocess.run(make, check=True, capture_output=True)
    show = ["openssl", "pkey", "-in", str(private), "-pubout", "-out", str(public)]
    subprocess.run(show, check=True, capture_output=True)
    signed = signature.sign(CONTENT, signature.load_private(private))
    signature.check(CONTENT, signed, signature.load_public(public))


def test_openssh_keys_are_read(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    private, public = tmp_path / "id_ed25519", tmp_path / "id_ed25519.pub"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
    )
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    public.write_bytes(key.public_key().public_bytes(*form) + b" me@home\n")
    signed = signature.sign(CONTENT, signature.load_private(private))
    signature.check(CONTENT, signed, signature.load_public(public))


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not here")
def test_keys_are_named_as_ssh_keygen_names_them(tmp_path: Path) -> None:
    private = tmp_path / "id"
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(private)]
    subprocess.run(make, check=True, capture_output=True)
    show = ["ssh-keygen", "-l", "-f", str(private)]
    shown = subprocess.run(show, check=True, capture_output=True, text=True).stdout
    assert signature.key_name(signature.load_private(private).public_key()) in shown.split()
    assert signature.key_name(signature.load_public(f"{private}.pub")) in shown.split()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not here")
def test_a_locked_openssh_key_opens_or_says_what_is_missing(tmp_path: Path) -> None:
    private = tmp_path / "id"
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "s3cret", "-f", str(private)]
    subprocess.run(make, check=True, capture_output=True)
    if importlib.util.find_spec("bcrypt") is None:
        with pytest.raises(InvalidArgument, match="needs the package bcrypt"):
            signature.load_private(private, lambda: "s3cret")
    else:
        signature.load_private(private, lambda: "s3cret")
        with pytest.raises(InvalidArgument, match="the right passphrase"):
            signature.load_private(private, lambda: "wrong")


def test_a_passphrase_is_asked_for_only_if_there_is_one(
    tmp_path: Path, keys: tuple[Path, Path]
) -> None:
    def never() -> str:
        raise AssertionError("asked")

    signature.load_private(keys[0], never)
    private, public = tmp_path / "locked.pem", tmp_path / "locked.public.pem"
    made = signature.new_key(private, public, "s3cret")
    opened = signature.load_private(private, lambda: "s3cret")
    assert signature.key_name(opened.public_key()) == signature.key_name(made)
    with pytest.raises(InvalidArgument, match="the right passphrase"):
        signature.load_private(private, lambda: "wrong")
    with pytest.raises(InvalidArgument, match="the right passphrase"):
        signature.load_private(private, lambda: "")
    with pytest.raises(InvalidArgument, match="to need no passphrase"):
        signature.load_private(private)


def test_a_new_key_is_its_owners_alone_and_overwrites_nothing(
    tmp_path: Path, keys: tuple[Path, Path]
) -> None:
    private, public = keys
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    before = private.read_bytes(), public.read_bytes()
    for pair in ((private, public), (private, tmp_path / "new"), (tmp_path / "new", public)):
        with pytest.raises(InvalidArgument, match="it is there already"):
            signature.new_key(*pair)
        assert not (tmp_path / "new").exists()
    assert (private.read_bytes(), public.read_bytes()) == before
    with pytest.raises(InvalidArgument, match="there is no directory"):
        signature.new_key(tmp_path / "no" / "such", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_other_keys_and_garbage_are_refused(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    pem = serialization.Encoding.PEM
    file = tmp_path / "key"
    for key in (
        ec.generate_private_key(ec.SECP256R1()),
        ed448.Ed448PrivateKey.generate(),
        rsa.generate_private_key(65537, 2048),
    ):
        file.write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        with pytest.raises(InvalidArgument, match="to be an Ed25519 key"):
            signature.load_private(file)
        public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
        file.write_bytes(public)
        with pytest.raises(InvalidArgument, match="to be an Ed25519 key"):
            signature.load_public(file)
    for garbage in (b"", b"garbage", bytes(range(256)), b"-----BEGIN PRIVATE KEY-----\nAAAA\n"):
        file.write_bytes(garbage)
        with pytest.raises(InvalidArgument):
            signature.load_private(file)
        with pytest.raises(InvalidArgument):
            signature.load_public(file)
    with pytest.raises(InvalidArgument, match="it is a private one"):
        signature.load_public(keys[0])
    with pytest.raises(InvalidArgument, match="to be a private key"):
        signature.load_private(keys[1])
    with pytest.raises(InvalidArgument, match="to be a file"):
        signature.load_public(tmp_path / "none")
