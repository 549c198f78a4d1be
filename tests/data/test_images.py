"""Parsers and builders of the image recipes, on small made files."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest

from sordino.data.catalogue import files, images
from sordino.data.preprocess import READS
from sordino.data.sources import CorruptFileError, RawFile, Reader

RAW = files.MNIST[0]


def _idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def _set(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 28, 28), np.uint8), rng.integers(0, 10, count, np.uint8)


TRAIN, TEST = _set(600, 1), _set(100, 2)


@pytest.fixture
def reader() -> Reader:
    arrays = (*TRAIN, *TEST)
    contents = {raw: _idx(array) for raw, array in zip(files.MNIST, arrays, strict=True)}
    return lambda raw: contents[raw]


def test_idx_is_read_in_its_shape() -> None:
    assert np.array_equal(images.parse_idx(RAW, _idx(TRAIN[0])), TRAIN[0])
    assert np.array_equal(images.parse_idx(RAW, _idx(TRAIN[1])), TRAIN[1])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is no IDX file"),
        (b"\0\0\x08", "is no IDX file"),
        (b"\0\0\x08\x03\0\0", "is no IDX file"),
        (b"\0\0\x0d" + _idx(TRAIN[1])[3:], "is no IDX file"),
        (_idx(TRAIN[1])[:-1], r"promises \(600,\) bytes and 599 follow"),
        (_idx(TRAIN[1]) + b"0", r"promises \(600,\) bytes and 601 follow"),
    ],
)
def test_a_corrupt_idx_file_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(CorruptFileError, match=why):
        images.parse_idx(RAW, content)


def test_images_and_labels_must_belong_together(reader: Reader) -> None:
    def mixed(raw: RawFile) -> bytes:
        return reader(files.MNIST[3] if raw is files.MNIST[1] else raw)

    with pytest.raises(CorruptFileError, match="one label for each image of train-images"):
        images.mnist(mixed, "papers")


def test_mnist_keeps_images_as_they_are(reader: Reader) -> None:
    parts = images.mnist(reader, "papers")
    assert parts.validation is not None
    assert parts.test is not None
    assert np.array_equal(parts.validation[0], TRAIN[0][:60].reshape(60, 784) / 255)
    assert np.array_equal(parts.train[1], TRAIN[1][60:])
    assert np.array_equal(parts.test[1], TEST[1])
    assert (parts.norm_bound, parts.image_shape, parts.reads_private_data) == (None, (28, 28), ())


def _threes_and_fives(part: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    kept = np.isin(part[1], [3, 5])
    return part[0][kept], (part[1][kept] == 5).astype(int)


def test_crop_is_the_central_square_scaled_down(reader: Reader) -> None:
    parts = images.mnist_binary_crop(reader, "papers")
    pixels, labels = _threes_and_fives(TRAIN)
    held = len(labels) // 10
    expected = pixels[held:, 9:19, 9:19].reshape(-1, 100) / 255.0
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(parts.train[0], expected)
    assert np.array_equal(parts.train[1], labels[held:])
    assert (parts.image_shape, parts.reads_private_data) == ((10, 10), ())


def test_pca_takes_its_directions_from_the_training_rows_only(reader: Reader) -> None:
    parts = images.mnist_binary_pca(reader, "papers")
    pixels, labels = _threes_and_fives(TRAIN)
    held = len(labels) // 10
    flat = pixels.reshape(-1, 784) / 255.0
    centred = flat - flat[held:].mean(axis=0)
    axes = np.linalg.svd(centred[held:], full_matrices=False)[2][:50]
    expected = centred @ axes.T
    expected /= np.maximum(1, np.linalg.norm(expected, axis=1, keepdims=True))
    assert parts.validation is not None
    np.testing.assert_allclose(np.abs(parts.train[0]), np.abs(expected[held:]), atol=1e-9)
    np.testing.assert_allclose(np.abs(parts.validation[0]), np.abs(expected[:held]), atol=1e-9)
    assert np.array_equal(parts.validation[1], labels[:held])
    assert parts.reads_private_data == (READS["directions"],)


def test_random_projection_does_not_depend_on_the_rows(reader: Reader) -> None:
    parts = images.mnist_binary_grp(reader, "papers")
    assert parts.test is not None
    assert parts.test[0].shape[1] == 50
    assert parts.reads_private_data == ()

    def other(raw: RawFile) -> bytes:
        if raw is not files.MNIST[0]:
            return reader(raw)
        return _idx(255 - TRAIN[0])

    changed = images.mnist_binary_grp(other, "papers")
    assert changed.test is not None
    assert np.array_equal(parts.test[0], changed.test[0])


def test_unscaled_rows_are_those_of_the_projection(reader: Reader) -> None:
    scaled = images.mnist_binary_grp(reader, "papers")
    parts = images.mnist_binary_grp_raw(reader, "papers")
    assert parts.norm_bound is None
    norms = np.linalg.norm(parts.train[0], axis=1, keepdims=True)
    assert norms.min() > 1
    np.testing.assert_allclose(parts.train[0] / norms, scaled.train[0], rtol=1e-12)


def _archive(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def test_cifar2_labels_birds_one() -> None:
    rng = np.random.default_rng(3)
    # Smaller than the real images, to keep the eigenvectors quick.
    content = _archive(
        x_train=rng.integers(0, 256, (80, 8, 8, 3), np.uint8),
        y_train=np.array([0, 2] * 40, np.uint8),
        x_test=rng.integers(0, 256, (4, 8, 8, 3), np.uint8),
        y_test=np.array([2, 0, 0, 2], np.uint8),
    )
    parts = images.cifar2(lambda raw: content, "papers")
    assert parts.test is not None
    assert parts.train[0].shape == (72, 50)
    assert parts.train[1].tolist() == [0, 1] * 36
    assert parts.test[1].tolist() == [1, 0, 0, 1]
    assert (np.linalg.norm(parts.test[0], axis=1) <= 1 + 1e-12).all()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"rubbish",
        _archive(x_train=np.zeros(3)),
        _archive(**dict.fromkeys(("x_train", "y_train", "x_test", "y_test"), np.array([{}]))),
    ],
    ids=["empty", "rubbish", "arrays missing", "pickled"],
)
def test_a_corrupt_or_pickled_archive_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptFileError, match="NumPy cannot read it"):
        images.parse_cifar(content)
