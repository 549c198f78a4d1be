"""The raw files by name: addresses, content checksums, and how each is unpacked."""

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

from sordino.data.sources import DownloadError, RawFile

_CIFAR_RECORD = 1 + 32 * 32 * 3
"""Bytes of one image in CIFAR-10's binary version: the label, then red, green, blue planes."""
_CIFAR_ARRAYS = ("x_train", "y_train", "x_test", "y_test", "index_train", "index_test")
_CIFAR_BATCHES = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}


def unix_lines(content: bytes) -> bytes:
    """Make line ends LF, where copies of one file differ in nothing else."""
    return content.replace(b"\r\n", b"\n")


def gunzipped(published: bytes) -> bytes:
    """Undo gzip."""
    try:
        return gzip.decompress(published)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DownloadError(f"not a gzip file ({error})") from error


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
        raise DownloadError(f"not a zip file ({error})") from error
    raise DownloadError("a zip file without bank-full.csv")


def cifar_two_classes(published: bytes, batches: Mapping[str, str] = _CIFAR_BATCHES) -> bytes:
    """Cut airplanes and birds out of the tar of CIFAR-10's binary version, as a NumPy archive.

    `batches` names the members, the test batch last, with the md5 of each.
    """
    members = _cifar_members(published, batches)
    arrays: dict[str, Any] = {}
    for part, group in (("train", members[:-1]), ("test", members[-1:])):
        records = np.frombuffer(b"".join(group), dtype=np.uint8).reshape(-1, _CIFAR_RECORD)
        labels, planes = records[:, 0], records[:, 1:].reshape(-1, 3, 32, 32)
        kept = np.flatnonzero((labels == 0) | (labels == 2))
        arrays[f"x_{part}"] = planes.transpose(0, 2, 3, 1)[kept]
        arrays[f"y_{part}"] = labels[kept]
        arrays[f"index_{part}"] = kept.astype(np.uint16)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def cifar_fingerprint(content: bytes) -> bytes:
    """Return the bytes of the arrays alone: a zip archive's own bytes depend on who packed it."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return b"".join(archive[name].tobytes() for name in _CIFAR_ARRAYS)
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
        raise DownloadError(f"not a tar file ({error})") from error
    for name, expected in batches.items():
        if hashlib.md5(found.get(name, b""), usedforsecurity=False).hexdigest() != expected:
            raise DownloadError(f"a tar file whose {name} is missing or not the published one")
    return [found[name] for name in batches]


_UCI = "https://archive.ics.uci.edu/"
_UCI_FILES = _UCI + "ml/machine-learning-databases/"


def _adult(name: str, md5: str) -> RawFile:
    address = f"{_UCI_FILES}adult/{name}"
    return RawFile(f"{name}.gz", f"md5:{md5}", (address,), _UCI + "dataset/2/adult")


def _kdd(name: str, md5: str) -> RawFile:
    home = "kdd.ics.uci.edu/databases/kddcup99/"
    addresses = (f"{_UCI_FILES}kddcup99-mld/{name}", f"http://{home}{name}")
    return RawFile(name, f"md5:{md5}", addresses, f"https://{home}kddcup99.html", gunzipped)


def _mnist(name: str, sha256: str) -> RawFile:
    # The publisher's own server mostly answers 403 now; the second address is the mirror that
    # PyTorch's maintainers keep. The checksum is the publisher's for both.
    home, mirror = "http://yann.lecun.com/exdb/mnist/", "https://ossci-datasets.s3.amazonaws.com/"
    addresses = (home + name, f"{mirror}mnist/{name}")
    return RawFile(name, f"sha256:{sha256}", addresses, home, gunzipped)


ADULT_DATA = _adult("adult.data", "5d7c39d7b8804f071cdd1f2a7c460872")
ADULT_TEST = _adult("adult.test", "35238206dfdf7f1fe215bbb874adecdc")
COVTYPE = RawFile(
    "covtype.data.gz",
    "md5:71df19898bd3e11db15ae0faf4159f2c",
    (_UCI_FILES + "covtype/covtype.data.gz",),
    _UCI + "dataset/31/covertype",
    gunzipped,
)
BANK = RawFile(
    "bank-full.csv.gz",
    "sha256:d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
    (_UCI_FILES + "00222/bank.zip", _UCI + "static/public/222/bank+marketing.zip"),
    _UCI + "dataset/222/bank+marketing",
    bank_csv,
    # Copies with CRLF and with LF line ends are both around; they differ in nothing else.
    canonical=unix_lines,
)
KDD_TENTH = _kdd("kddcup.data_10_percent.gz", "eb43ac454e61166f88aad7943ef1e079")
KDD_FULL = _kdd("kddcup.data.gz", "13f75aac4e6fb218b8b2e685fb1c637c")
_MNIST_SUMS = {
    "train-images-idx3": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
MNIST = tuple(_mnist(f"{name}-ubyte.gz", sha256) for name, sha256 in _MNIST_SUMS.items())
CIFAR2 = RawFile(
    "cifar10_airplane_bird.npz",
    # Of the arrays' bytes, measured on a copy cut from batches with the published md5 sums.
    "sha256:caee6721e312fa7327f61b820ff726c0029be7bc25bf284aaecffb71e3eaf268",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    "https://www.cs.toronto.edu/~kriz/cifar.html",
    cifar_two_classes,
    fingerprint=cifar_fingerprint,
)
IPUMS = RawFile("ipums.csv", None, (), "https://www.ipums.org (an extract as in docs/guide.md)")
