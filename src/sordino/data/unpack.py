"""From what publishers hand out (gzip, zip, tar) to the content of one file."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

CIFAR_RECORD = 1 + 32 * 32 * 3
"""Bytes of one image in CIFAR-10's binary version: the label, then red, green, blue planes."""
CIFAR_ARRAYS = ("x_train", "y_train", "x_test", "y_test", "index_train", "index_test")


class UnpackError(Exception):
    """Downloaded bytes are not the archive they should be."""


def gunzipped(published: bytes) -> bytes:
    """Undo gzip."""
    try:
        return gzip.decompress(published)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UnpackError(f"not a gzip file ({error})") from error


def bank_csv(published: bytes) -> bytes:
    """Take bank-full.csv out of the publisher's zip, or out of the bank.zip inside that."""
    try:
        with zipfile.ZipFile(io.BytesIO(published)) as archive:
            members = archive.namelist()
            if "bank-full.csv" in members:
                return archive.read("bank-full.csv")
            if "bank.zip" in members:
                return bank_csv(archive.read("bank.zip"))
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise UnpackError(f"not a zip file ({error})") from error
    raise UnpackError("a zip file without bank-full.csv")


CIFAR_BATCHES = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}


def cifar_two_classes(published: bytes, batches: Mapping[str, str] = CIFAR_BATCHES) -> bytes:
    """Cut airplanes and birds out of the tar of CIFAR-10's binary version, as a NumPy archive.

    `batches` names the members, the test batch last, with the md5 of each.
    """
    parts = [_cifar_batch(data) for data in _cifar_members(published, batches)]
    arrays: dict[str, Any] = {}
    for part, group in (("train", parts[:-1]), ("test", parts[-1:])):
        labels = np.concatenate([labels for labels, _ in group])
        kept = np.flatnonzero((labels == 0) | (labels == 2))
        arrays[f"x_{part}"] = np.concatenate([images for _, images in group])[kept]
        arrays[f"y_{part}"] = labels[kept]
        arrays[f"index_{part}"] = kept.astype(np.uint16)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def cifar_fingerprint(content: bytes) -> bytes:
    """Return the bytes of the arrays alone: a zip archive's own bytes depend on who packed it."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return b"".join(archive[name].tobytes() for name in CIFAR_ARRAYS)
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile, zlib.error):
        # Not an archive at all: its own bytes will not match the checksum either.
        return content


def _cifar_members(published: bytes, batches: Mapping[str, str]) -> list[bytes]:
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(published)) as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                file = archive.extractfile(member) if name in batches else None
                if file is not None:
                    found[name] = file.read()
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise UnpackError(f"not a tar file ({error})") from error
    for name, expected in batches.items():
        if hashlib.md5(found.get(name, b""), usedforsecurity=False).hexdigest() != expected:
            raise UnpackError(f"a tar file whose {name} is missing or not the published one")
    return [found[name] for name in batches]


def _cifar_batch(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    records = np.frombuffer(data, dtype=np.uint8).reshape(-1, CIFAR_RECORD)
    planes = records[:, 1:].reshape(-1, 3, 32, 32)
    return records[:, 0], planes.transpose(0, 2, 3, 1)
