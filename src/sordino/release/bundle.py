"""A model bundle: a directory with the weights, their certificate, and perhaps its signature.

Nothing in it can run code: weights are safetensors, the certificate is JSON.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from safetensors import numpy as safetensors

from sordino import _files, checks
from sordino.release.certificate import MOST_BYTES, Certificate, CertificateError, Model
from sordino.types import Floats

WEIGHTS, CERTIFICATE, SIGNATURE = "model.safetensors", "certificate.json", "certificate.json.sig"
MOST_WEIGHTS_BYTES = 2**31
SIGNATURE_BYTES = 64
_HEADER_BYTES = 2**16
"""More than safetensors needs to describe two tensors."""
_PAPERS_BYTES = 2**20
"""Room that a certificate and its signature are given, far more than usual ones need."""


@dataclass(frozen=True, eq=False)
class Bundle:
    """What `read` found, checked: the weights are those that the certificate is about.

    `coef` is [problems, features], `intercept` [problems]; both are read-only.
    """

    certificate: Certificate
    coef: Floats
    intercept: Floats
    certificate_bytes: bytes
    signature: bytes | None


def weights_file(coef: npt.ArrayLike, intercept: npt.ArrayLike) -> bytes:
    """The bytes of model.safetensors: equal weights give equal bytes."""
    tensors = {
        "coef": np.ascontiguousarray(coef, dtype=np.float64),
        "intercept": np.ascontiguousarray(intercept, dtype=np.float64),
    }
    return safetensors.save(tensors)


def digest(content: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


def check_target(
    directory: str | os.PathLike[str], name: str = "directory", weights: int = 0
) -> Path:
    """Return where a bundle can be written; ask before training, so that no training is lost.

    Parameters
    ----------
    directory, name
        Where, and what a refusal calls it.
    weights
        How many there will be, as far as is known: the disk must have room for them.

    Raises
    ------
    InvalidArgument
        If it exists and is not an empty directory, or cannot be made.
    """
    needed = 8 * weights + _HEADER_BYTES + _PAPERS_BYTES
    try:
        path = Path(os.path.realpath(directory))
        there = _exists(path)
        _exists(_partial(path))  # its name is longer, perhaps too long
        room = shutil.disk_usage(path.parent).free if path.parent.is_dir() else needed
    except (OSError, ValueError) as error:  # no path at all holds a zero character
        why = _files.reason(error) if isinstance(error, OSError) else error
        checks.fail(name, Path(directory), f"to be a directory that can be made ({why})")
    if there and (not path.is_dir() or any(path.iterdir())):
        hint = "Nothing is ever overwritten: pass a new one."
        checks.fail(name, path, "to be new or empty", hint)
    if not path.parent.is_dir():
        checks.fail(name, path, "to be in one that exists", f"Make {path.parent} first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        checks.fail(name, path, "to be in one that can be written to")
    if room < needed:
        checks.fail(name, path, f"to be on a disk with room for {needed:,} bytes", "Make room.")
    return path


def _exists(path: Path) -> bool:
    """Whether there is something, or an error of the system where there can be nothing."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def _partial(target: Path) -> Path:
    """Beside the target, the name of one that is not whole yet."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")


def write(
    directory: str | os.PathLike[str],
    certificate: Certificate,
    weights: bytes,
    *,
    signature: bytes | None = None,
    record: Callable[[], None] | None = None,
) -> None:
    """Write a bundle: all of it, or nothing.

    The files are on the disk before the directory gets its name. A program killed in between
    leaves at most a directory `.NAME.*.partial` beside it: nobody was promised that one, and no
    ledger need know of it.

    Parameters
    ----------
    directory, certificate, weights, signature
        What, and where.
    record
        Called when all files are on the disk, before the directory gets its name: a ledger is
        charged for what is as good as there. An error of it leaves nothing behind; who stops it
        leaves the partial directory, as a kill does, since it may be paid for.

    Raises
    ------
    InvalidArgument
        If `check_target` would.
    CertificateError
        If the certificate is about other weights, or the disk refuses.
    """
    target = check_target(directory)
    content = certificate.to_json().encode()
    _opened(certificate, weights)  # what cannot be read again is not written
    Certificate.from_json(content)
    partial = _partial(target)
    files = {WEIGHTS: weights, CERTIFICATE: content, SIGNATURE: signature}
    charged = False
    try:
        with _explained(target):
            partial.mkdir()
            for name, each in files.items():
                if each is not None:
                    _files.fill(partial / name, each, 0o666)
            _files.settle(partial)
        if record is not None:
            charged = True
            record()
        with _explained(target):
            os.replace(partial, target)
    except BaseException as error:
        if isinstance(error, Exception) or not charged:
            shutil.rmtree(partial, ignore_errors=True)
        raise
    try:
        _files.settle(target.parent)
    except OSError as error:  # it is there, whole: whoever is told otherwise would make another
        told = f"{target} is written, but may not outlive a loss of power: {_files.reason(error)}."
        warnings.warn(told, stacklevel=2)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """What the operating system says, as a sentence about the place."""
    try:
        yield
    except OSError as error:
        raise CertificateError(f"{path} could not be written: {_files.reason(error)}.") from error


def write_signature(directory: str | os.PathLike[str], signature: bytes) -> Path:
    """Put a signature into a bundle, in the place of another one if there is any."""
    path = Path(directory) / SIGNATURE
    with _explained(path):
        _files.write(path, signature, mode=0o666)
    return path


def read(directory: str | os.PathLike[str]) -> Bundle:
    """Read a bundle that somebody sent; no code in it can run.

    Raises
    ------
    InvalidArgument
        If there is no such directory.
    CertificateError
        If a file is missing, or leads elsewhere, or is not what the certificate says.
    """
    path = Path(directory)
    if not path.is_dir():
        checks.fail("bundle", path, "to be a directory", f"It holds {WEIGHTS} and {CERTIFICATE}.")
    certificate, content = read_certificate(path)
    most = _HEADER_BYTES + 8 * certificate.model.problems * (certificate.model.features + 1)
    weights = _read_file(_inside(path, WEIGHTS), min(most, MOST_WEIGHTS_BYTES))
    coef, intercept = _opened(certificate, weights)
    signature = None
    if os.path.lexists(path / SIGNATURE):
        signature = _read_file(_inside(path, SIGNATURE), SIGNATURE_BYTES)
        if len(signature) != SIGNATURE_BYTES:
            _refuse(f"{SIGNATURE} has {len(signature)} bytes, and an Ed25519 signature has 64.")
    return Bundle(certificate, coef, intercept, content, signature)


def read_certificate(path: str | os.PathLike[str]) -> tuple[Certificate, bytes]:
    """The certificate of a bundle's directory, or of a file alone, and its exact bytes.

    Raises as `read`; the weights are not looked at.
    """
    given = Path(path)
    if not given.exists():
        hint = f"Pass a bundle's directory, or its {CERTIFICATE}."
        checks.fail("certificate", given, "to exist", hint)
    file = _inside(given, CERTIFICATE) if given.is_dir() else given
    content = _read_file(file, MOST_BYTES)
    return Certificate.from_json(content), content


def _opened(certificate: Certificate, content: bytes) -> tuple[Floats, Floats]:
    """The weights in `content`, if they are those that the certificate is about."""
    model = certificate.model
    if digest(content) != model.sha256:
        _refuse(
            f"{WEIGHTS} is not what the certificate is about: its SHA-256 is {digest(content)}, "
            f"and {model.sha256} was certified."
        )
    try:
        tensors = safetensors.load(content)
    except Exception as error:  # whatever the parser says of a file that somebody made
        raise CertificateError(f"{WEIGHTS} is not a safetensors file: {error}.") from error
    wanted = {"coef": (model.problems, model.features), "intercept": (model.problems,)}
    if set(tensors) != set(wanted):
        _refuse(f"{WEIGHTS} holds other tensors than coef and intercept.")
    for name, shape in wanted.items():
        tensor = tensors[name]
        if tensor.dtype != np.float64 or tensor.shape != shape:
            _refuse(
                f"{name} in {WEIGHTS} is {tensor.dtype} of shape {tensor.shape}, and the "
                f"certificate is about float64 of shape {shape}."
            )
        if not np.isfinite(tensor).all():
            _refuse(f"{name} in {WEIGHTS} holds numbers that are not finite.")
        tensor.setflags(write=False)
    coef, intercept = tensors["coef"], tensors["intercept"]
    if weights_file(coef, intercept) != content:
        _refuse(f"{WEIGHTS} holds something else beside coef and intercept, or has them otherwise.")
    _check_intercept(certificate, model, intercept)
    return coef, intercept


def _check_intercept(certificate: Certificate, model: Model, intercept: Floats) -> None:
    if certificate.guarantee is not None and not model.intercept and any(intercept.tobytes()):
        _refuse(f"{WEIGHTS} has an intercept that the guarantee is not about.")


def _inside(directory: Path, name: str) -> Path:
    """The file's real path, which must not lead out of the directory."""
    if not os.path.lexists(directory / name):
        _refuse(f"{directory} is not a complete bundle: {name} is missing.")
    real = Path(os.path.realpath(directory / name))
    if real.parent != Path(os.path.realpath(directory)):
        _refuse(f"{name} leads out of {directory}.")
    return real


def _read_file(path: Path, most: int) -> bytes:
    try:
        content = _files.read(path, most + 1)
    except OSError as error:
        raise CertificateError(f"{path} could not be read: {_files.reason(error)}.") from error
    if len(content) > most:
        _refuse(f"{path} is larger than the {most:,} bytes that it can be.")
    return content


def _refuse(sentence: str) -> NoReturn:
    raise CertificateError(sentence)
