"""Ed25519 signatures over the exact bytes of certificate.json, with a key of the user's own.

The signature covers the weights too, whose digest the certificate holds. It is the raw 64 bytes,
as OpenSSL writes and checks them.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sordino import _files, checks
from sordino.errors import InvalidArgument
from sordino.release.certificate import CertificateError

_PathLike = str | os.PathLike[str]
_MOST_BYTES = 2**16
_HINT = "`sordino certificate new-key` and `ssh-keygen -t ed25519` make one."


def sign(content: bytes, key: Ed25519PrivateKey) -> bytes:
    """The 64 bytes of the signature."""
    return key.sign(content)


def check(content: bytes, signature: bytes, key: Ed25519PublicKey) -> None:
    """Return if `signature` is this key's over exactly these bytes.

    Raises
    ------
    CertificateError
        If it is not.
    """
    try:
        key.verify(signature, content)
    except InvalidSignature:
        text = f"The signature is wrong: the key {key_name(key)} did not sign this."
        raise CertificateError(text) from None


def key_name(key: Ed25519PublicKey) -> str:
    """A key's fingerprint, as `ssh-keygen -l` writes it."""
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    wire = base64.b64decode(key.public_bytes(*form).split()[1])
    return f"SHA256:{base64.b64encode(hashlib.sha256(wire).digest()).decode().rstrip('=')}"


def load_private(path: _PathLike, ask: Callable[[], str] | None = None) -> Ed25519PrivateKey:
    """A private key from a PEM or OpenSSH file.

    Parameters
    ----------
    path
        The file.
    ask
        Called for the passphrase, only if the key has one.

    Raises
    ------
    InvalidArgument
        If it is no Ed25519 private key, or the passphrase is wrong.
    """
    content, hint = _content(path), _HINT
    load = serialization.load_pem_private_key
    if b"OPENSSH PRIVATE KEY" in content:
        load = serialization.load_ssh_private_key
    try:
        try:
            key: object = load(content, None)
        except TypeError:  # how cryptography says that there is a passphrase
            if ask is None:
                checks.fail("key", Path(path), "to need no passphrase")
            hint = "Pass the right passphrase; one of OpenSSH also needs the package bcrypt."
            key = load(content, ask().encode())
    except InvalidArgument:
        raise
    except (ValueError, TypeError, UnsupportedAlgorithm):
        checks.fail("key", Path(path), "to be a private key that can be opened", hint)
    if not isinstance(key, Ed25519PrivateKey):
        checks.fail("key", Path(path), "to be an Ed25519 key", _HINT)
    return key


def load_public(path: _PathLike) -> Ed25519PublicKey:
    """A public key from a PEM or OpenSSH file.

    Raises
    ------
    InvalidArgument
        If it is no Ed25519 public key.
    """
    content = _content(path)
    if b"PRIVATE KEY" in content:
        checks.fail("key", Path(path), "to be a public key, and it is a private one", _HINT)
    is_pem = content.lstrip().startswith(b"-----BEGIN")
    load = serialization.load_pem_public_key if is_pem else serialization.load_ssh_public_key
    try:
        key: object = load(content.strip())
    except (ValueError, UnsupportedAlgorithm):
        checks.fail("key", Path(path), "to be a public key in PEM or OpenSSH form", _HINT)
    if not isinstance(key, Ed25519PublicKey):
        checks.fail("key", Path(path), "to be an Ed25519 key", _HINT)
    return key


def new_key(private: _PathLike, public: _PathLike, passphrase: str = "") -> Ed25519PublicKey:
    """Make a key and write both halves as PEM; the private one for its owner's eyes only.

    Raises
    ------
    InvalidArgument
        If a file is there already, or cannot be written. None is ever overwritten.
    """
    key = Ed25519PrivateKey.generate()
    lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        lock = serialization.BestAvailableEncryption(passphrase.encode())
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, lock)
    open_ = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    for path, content, mode in ((public, open_, 0o644), (private, secret, 0o600)):
        try:
            with _files.explained("key", path, "written"):
                _files.write(path, content, mode=mode, new=True)
        except BaseException:
            if path is private:  # half a key is of no use, and this half is ours
                Path(public).unlink(missing_ok=True)
            raise
    return key.public_key()


def _content(path: _PathLike) -> bytes:
    with _files.explained("key", path, "read", _HINT):
        return _files.read(path, _MOST_BYTES)
