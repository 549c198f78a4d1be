"""A model bundle: a directory with the weights, their certificate, and perhaps its signature.

Nothing in it can run code: weights are safetensors, the certificate is JSON.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from safetensors import numpy as safetensors

from sordino import _files, checks
from sordino.proofs.evidence import SelectionEvidence
from sordino.proofs.prepared import MEAN, SQUARES, PreparedEvidence
from sordino.release.certificate import MOST_BYTES, Certificate, CertificateError
from sordino.types import Floats

WEIGHTS, CERTIFICATE, SIGNATURE = "model.safetensors", "certificate.json", "certificate.json.sig"
_MOST_WEIGHTS_BYTES = 2**31
_SIGNATURE_BYTES = 64
_HEADER_BYTES = 2**16
"""More than safetensors needs to describe a few tensors."""
_LEAST, _MOST = 1e-150, 1e150
"""Of what rows are divided by, and of what is subtracted: beyond, scores would be no numbers."""
_BOUNDS, _PREPARED = ("low", "high"), ("center", "scale", "constant")
"""Tensors by which rows are prepared, beside the weights: one number a column, and a constant."""
_CERTIFICATE_BYTES = 2**20
"""Room that a certificate and its signature are given, far more than usual ones need."""


@dataclass(frozen=True, eq=False)
class Bundle:
    """What `read` found, checked: the weights are those that the certificate is about.

    `coef` is [problems, features], `intercept` [problems], `arrays` what rows are prepared by, if
    anything: bounds of the columns, a centre, a scale and a constant. All are read-only.
    """

    certificate: Certificate
    coef: Floats
    intercept: Floats
    certificate_bytes: bytes
    signature: bytes | None
    arrays: Mapping[str, Floats] = field(default_factory=dict)


def weights_file(
    coef: npt.ArrayLike, intercept: npt.ArrayLike, arrays: Mapping[str, npt.ArrayLike] | None = None
) -> bytes:
    """The bytes of model.safetensors: equal weights give equal bytes."""
    named = {"coef": coef, "intercept": intercept, **(arrays or {})}
    return safetensors.save(
        {name: np.ascontiguousarray(each, dtype=np.float64) for name, each in named.items()}
    )


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
    needed = 8 * weights + _HEADER_BYTES + _CERTIFICATE_BYTES
    try:
        path = Path(os.path.realpath(directory))
        parent = path.parent
        there = os.path.lexists(path)
        with suppress(FileNotFoundError):
            os.lstat(_partial(path))  # its name is longer, perhaps too long
        room = shutil.disk_usage(parent).free if parent.is_dir() else needed
    except (OSError, ValueError) as error:  # no path at all holds a zero character
        why = _files.reason(error) if isinstance(error, OSError) else error
        checks.fail(name, Path(directory), f"to be a directory that can be made ({why})")
    if there and (not path.is_dir() or any(path.iterdir())):
        checks.fail(name, path, "to be new or empty")
    if not parent.is_dir():
        checks.fail(name, path, "to be in one that exists")
    if not os.access(parent, os.W_OK | os.X_OK):
        checks.fail(name, path, "to be in one that can be written to")
    if room < needed:
        checks.fail(name, path, f"to be on a disk with room for {needed:,} bytes")
    return path


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
    _weights(certificate, weights)  # what cannot be read again is not written
    Certificate.from_json(content)
    partial = _partial(target)
    files = {WEIGHTS: weights, CERTIFICATE: content, SIGNATURE: signature}
    charged = False
    try:
        with _files.explained("bundle", target, "written", "", CertificateError, "directory"):
            partial.mkdir()
            for name, each in files.items():
                if each is not None:
                    _files.fill(partial / name, each, 0o666)
            _files.settle(partial)
        if record is not None:
            charged = True
            record()
        with _files.explained("bundle", target, "written", "", CertificateError, "directory"):
            os.replace(partial, target)
    except BaseException as error:
        if isinstance(error, Exception) or not charged:
            shutil.rmtree(partial, ignore_errors=True)
        raise
    try:
        _files.settle(target.parent)
    except OSError as error:  # it is there, whole: whoever is told otherwise would make another
        why = _files.reason(error)
        warnings.warn(f"{target} may not outlive a loss of power: {why}.", stacklevel=2)


def write_signature(directory: str | os.PathLike[str], signature: bytes) -> Path:
    """Put a signature into a bundle, in the place of another one if there is any."""
    path = Path(directory) / SIGNATURE
    with _files.explained("signature", path, "written", "", CertificateError):
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
        checks.fail("bundle", path, f"to be a directory with {WEIGHTS} and {CERTIFICATE}")
    certificate, content = read_certificate(path)
    numbers = (certificate.model.problems + len(_BOUNDS + _PREPARED)) * certificate.model.features
    most = _HEADER_BYTES + 8 * (numbers + certificate.model.problems)
    weights = _read_file(_inside(path, WEIGHTS), min(most, _MOST_WEIGHTS_BYTES))
    coef, intercept, arrays = _weights(certificate, weights)
    signature = None
    if os.path.lexists(path / SIGNATURE):
        signature = _read_file(_inside(path, SIGNATURE), _SIGNATURE_BYTES)
        if len(signature) != _SIGNATURE_BYTES:
            raise CertificateError(f"{SIGNATURE} has {len(signature)} bytes, not 64.")
    return Bundle(certificate, coef, intercept, content, signature, arrays)


def read_certificate(path: str | os.PathLike[str]) -> tuple[Certificate, bytes]:
    """The certificate of a bundle's directory, or of a file alone, and its exact bytes.

    Raises as `read`; the weights are not looked at.
    """
    content = read_papers(path)
    return Certificate.from_json(content), content


def read_papers(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a certificate, in a bundle's directory or a file alone; raises as `read`."""
    given = Path(path)
    if not given.exists():
        checks.fail("certificate", given, "to exist")
    file = _inside(given, CERTIFICATE) if given.is_dir() else given
    return _read_file(file, MOST_BYTES)


def _weights(certificate: Certificate, content: bytes) -> tuple[Floats, Floats, dict[str, Floats]]:
    """The weights in `content`, and by what rows are prepared, if the certificate is about them."""
    model = certificate.model
    if digest(content) != model.sha256:
        _refuse(f"is not what the certificate is about: SHA-256 {digest(content)}.")
    try:
        tensors = safetensors.load(content)
    except Exception as error:  # whatever the parser says of a file that somebody made
        _refuse(f"is not a safetensors file: {error}.")
    shapes = {"coef": (model.problems, model.features), "intercept": (model.problems,)}
    names = {*tensors} - {*shapes}
    if not {*shapes} <= {*tensors} or not _may_prepare(certificate, names):
        _refuse("holds other tensors than coef and intercept, and what the settings ask for.")
    shapes |= {name: (1,) if name == "constant" else (model.features,) for name in names}
    for name, shape in shapes.items():
        tensor = tensors[name]
        if tensor.dtype != np.float64 or tensor.shape != shape:
            _refuse(f"has a {name} of {tensor.dtype}, shape {tensor.shape}, not float64, {shape}.")
        if not np.isfinite(tensor).all():
            _refuse(f"has a {name} that is not finite.")
        tensor.setflags(write=False)
    coef, intercept = tensors["coef"], tensors["intercept"]
    arrays: dict[str, Floats] = {
        name: tensors[name] for name in (*_BOUNDS, *_PREPARED) if name in names
    }
    if weights_file(coef, intercept, arrays) != content:
        _refuse("holds more than coef and intercept, or has them otherwise.")
    _check_prepared(certificate, arrays)
    if certificate.guarantee is not None and not model.intercept and any(intercept.tobytes()):
        _refuse("has an intercept that the guarantee is not about.")
    return coef, intercept, arrays


def _may_prepare(certificate: Certificate, names: set[str]) -> bool:
    """Whether the tensors by which rows are prepared are those that were asked for."""
    settings, released = certificate.model.settings, _released(certificate)
    if certificate.method == "majority":  # it looks at no row
        return not names
    bounds = {*_BOUNDS} if settings.get("bounds") is not None else set()
    hows = {settings.get(name) for name in ("center", "scale")}
    if released or {"private", "public"} & hows:
        return names == bounds | {*_PREPARED}
    if certificate.guarantee is not None:
        return names == bounds
    return names in (bounds, bounds | {*_PREPARED})  # nobody says what "auto" stood for


def _check_prepared(certificate: Certificate, arrays: Mapping[str, Floats]) -> None:
    """Refuse numbers that no row can be prepared by, or that nobody asked for."""
    if "low" in arrays and not (arrays["low"] < arrays["high"]).all():
        _refuse("has a low that is not below its high.")
    for name in ("scale", "constant"):
        if name in arrays and not (arrays[name] > _LEAST).all():
            _refuse(f"has a {name} that is not above 0.")
    for name in arrays.keys() & {"low", "high", "center"}:
        if not (np.abs(arrays[name]) < _MOST).all():
            _refuse(f"has a {name} that is no bound on anything.")
    if certificate.guarantee is None or "center" not in arrays:
        return
    settings, released = certificate.model.settings, _released(certificate)
    if settings.get("center") != "public" and MEAN not in released and arrays["center"].any():
        _refuse("has a center, and none was asked for.")
    uneven = (arrays["scale"] != arrays["scale"][0]).any()
    if settings.get("scale") != "public" and SQUARES not in released and uneven:
        _refuse("has a scale, and none was asked for.")


def _released(certificate: Certificate) -> tuple[str, ...]:
    """What was released of the rows before the training, by the certificate's numbers."""
    evidence = certificate.evidence
    if isinstance(evidence, SelectionEvidence):
        evidence = evidence.candidates[evidence.selected]
    made = evidence.releases if isinstance(evidence, PreparedEvidence) else ()
    return tuple(each.what for each in made)


def _inside(directory: Path, name: str) -> Path:
    """The file's real path, which must not lead out of the directory."""
    if not os.path.lexists(directory / name):
        raise CertificateError(f"{directory} is not a complete bundle: {name} is missing.")
    real = Path(os.path.realpath(directory / name))
    if real.parent != Path(os.path.realpath(directory)):
        raise CertificateError(f"{name} leads out of {directory}.")
    return real


def _read_file(path: Path, most: int) -> bytes:
    with _files.explained("bundle", path, "read", "", CertificateError):
        content = _files.read(path, most + 1)
    if len(content) > most:
        raise CertificateError(f"{path} is larger than {most:,} bytes.")
    return content


def _refuse(why: str) -> NoReturn:
    raise CertificateError(f"{WEIGHTS} {why}")
