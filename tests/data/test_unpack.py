from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile

import numpy as np
import pytest

from sordino.data.catalogue import files
from sordino.data.sources import DownloadError


def _zip(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", ".").replace("_", "-"), data)
    return buffer.getvalue()


def test_bank_csv_is_found_in_the_zip_and_in_the_zip_inside() -> None:
    inner = _zip(bank__csv=b"small", bank_full__csv=b"full")
    assert files.bank_csv(inner) == b"full"
    assert files.bank_csv(_zip(bank__zip=inner, other__zip=b"x")) == b"full"


@pytest.mark.parametrize(
    ("published", "why"),
    [(b"no zip", "not a zip"), (_zip(bank__csv=b"small"), "without bank-full.csv")],
)
def test_a_wrong_zip_is_refused(published: bytes, why: str) -> None:
    with pytest.raises(DownloadError, match=why):
        files.bank_csv(published)


def _batch(labels: list[int], seed: int) -> tuple[bytes, np.ndarray]:
    images = np.random.default_rng(seed).integers(0, 256, (len(labels), 32, 32, 3), np.uint8)
    planes = images.transpose(0, 3, 1, 2).reshape(len(labels), -1)
    return np.hstack([np.array(labels, np.uint8)[:, None], planes]).tobytes(), images


BATCHES = {
    "data_batch_1.bin": _batch([0, 1, 2], 1),
    "data_batch_2.bin": _batch([9, 2], 2),
    "test_batch.bin": _batch([5, 0, 2], 3),
}
SUMS = {name: hashlib.md5(data).hexdigest() for name, (data, _) in BATCHES.items()}


def _tar(names: list[str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            data = BATCHES[name][0] if name in BATCHES else b"readme"
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def test_cifar_keeps_airplanes_and_birds_in_order() -> None:
    # The tar's order is not the batches' order.
    content = files.cifar_two_classes(_tar(["readme.html", *reversed(BATCHES)]), SUMS)
    first, second, test = (images for _, images in BATCHES.values())
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        assert arrays["y_train"].tolist() == [0, 2, 2]
        assert arrays["index_train"].tolist() == [0, 2, 4]
        assert np.array_equal(arrays["x_train"], [first[0], first[2], second[1]])
        assert arrays["y_test"].tolist() == [0, 2]
        assert arrays["index_test"].tolist() == [1, 2]
        assert np.array_equal(arrays["x_test"], test[1:])


def test_cifar_fingerprint_is_of_the_arrays_not_of_the_zip() -> None:
    content = files.cifar_two_classes(_tar(list(BATCHES)), SUMS)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        members = dict(arrays)
    other = io.BytesIO()
    np.savez(other, **members)
    assert other.getvalue() != content
    assert files.cifar_fingerprint(other.getvalue()) == files.cifar_fingerprint(content)
    members["x_test"] = members["x_test"] ^ 1
    changed = io.BytesIO()
    np.savez(changed, **members)
    assert files.cifar_fingerprint(changed.getvalue()) != files.cifar_fingerprint(content)


def test_cifar_fingerprint_survives_what_is_no_archive() -> None:
    for rubbish in (b"", b"rubbish", _zip(x__npy=b"not an array")):
        assert files.cifar_fingerprint(rubbish) == rubbish


@pytest.mark.parametrize(
    ("published", "sums", "why"),
    [
        (b"no tar", SUMS, "not a tar"),
        (_tar(["data_batch_1.bin", "test_batch.bin"]), SUMS, "data_batch_2.bin is missing"),
        (_tar(list(BATCHES)), {**SUMS, "test_batch.bin": "0" * 32}, "test_batch.bin is missing or"),
        (_tar(list(BATCHES))[:-200], SUMS, "tar file"),
    ],
)
def test_a_wrong_tar_is_refused(published: bytes, sums: dict[str, str], why: str) -> None:
    with pytest.raises(DownloadError, match=why):
        files.cifar_two_classes(published, sums)
