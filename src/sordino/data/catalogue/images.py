"""Recipes made from images: MNIST, its digits 3 and 5, two classes of CIFAR-10, 8x8 digits."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino.data import preprocess
from sordino.data.catalogue import files
from sordino.data.preprocess import Form, Parts, Rows
from sordino.data.sources import CorruptFileError, RawFile, Reader
from sordino.types import Floats, Ints

_Pixels = npt.NDArray[np.uint8]

COMPONENTS = 50


def parse_idx(raw: RawFile, content: bytes) -> _Pixels:
    """Read an IDX file of unsigned bytes: images of shape (n, height, width), or labels (n,)."""
    if len(content) < 4 or content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * content[3]:
        raise CorruptFileError(raw, "it is no IDX file of bytes")
    axes = content[3]
    shape = struct.unpack(f">{axes}I", content[4 : 4 + 4 * axes])
    body = np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * axes)
    if body.size != np.prod(shape, dtype=np.int64):
        raise CorruptFileError(raw, f"its header promises {shape} bytes and {body.size} follow")
    return body.reshape(shape)


def mnist(read: Reader, form: Form) -> Parts:
    """All ten digits as 28x28 images, pixels divided by 255, no norm enforced."""
    rest, test = ((_flat(images), labels.astype(np.int64)) for images, labels in _mnist_files(read))
    return Parts(*_first_tenth(rest), test, None, (), image_shape=(28, 28))


def mnist_binary_pca(read: Reader, form: Form) -> Parts:
    """Digits 3 (label 0) and 5 (label 1), principal components."""
    return _projected(_three_or_five(read), preprocess.Projection.pca)


def mnist_binary_grp(read: Reader, form: Form) -> Parts:
    """Digits 3 (label 0) and 5 (label 1), a fixed Gaussian random projection."""
    return _projected(_three_or_five(read), _random)


def mnist_binary_grp_raw(read: Reader, form: Form) -> Parts:
    """The same projection, rows as they come out of it: v1's numbers are of these."""
    return _projected(_three_or_five(read), _random, scaled=False)


def mnist_binary_crop(read: Reader, form: Form) -> Parts:
    """Digits 3 (label 0) and 5 (label 1), the central 10x10 pixels."""
    rest, test = (
        (preprocess.clip_rows(_flat(preprocess.central_crop(images, 10))), y)
        for images, y in _three_or_five(read)
    )
    return Parts(*_first_tenth(rest), test, 1.0, (), image_shape=(10, 10))


def cifar2(read: Reader, form: Form) -> Parts:
    """CIFAR-10's airplanes (label 0) and birds (label 1), principal components."""
    arrays = parse_cifar(read(files.CIFAR2))
    parts = [
        (arrays[f"x_{part}"], (arrays[f"y_{part}"] == 2).astype(np.int64))
        for part in ("train", "test")
    ]
    return _projected(parts, preprocess.Projection.pca)


def parse_cifar(content: bytes) -> dict[str, _Pixels]:
    """Read the four arrays of the two-class CIFAR archive; pickled arrays are refused."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {key: archive[key] for key in ("x_train", "y_train", "x_test", "y_test")}
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise CorruptFileError(files.CIFAR2, f"NumPy cannot read it ({error})") from error


def _mnist_files(read: Reader) -> Iterator[tuple[_Pixels, _Pixels]]:
    for image_file, label_file in (files.MNIST[:2], files.MNIST[2:]):
        images = parse_idx(image_file, read(image_file))
        labels = parse_idx(label_file, read(label_file))
        if images.ndim != 3 or labels.shape != images.shape[:1]:
            why = f"it does not hold one label for each image of {image_file.name}"
            raise CorruptFileError(label_file, why)
        yield images, labels


def _three_or_five(read: Reader) -> Iterator[tuple[_Pixels, Ints]]:
    for images, labels in _mnist_files(read):
        kept = (labels == 3) | (labels == 5)
        yield images[kept], (labels[kept] == 5).astype(np.int64)


def _flat(images: npt.NDArray[Any]) -> Floats:
    return np.asarray(images.reshape(len(images), -1) / 255.0)


def _projected(
    parts: Iterable[tuple[_Pixels, Ints]],
    project: Callable[[Floats, int], preprocess.Projection],
    *,
    scaled: bool = True,
) -> Parts:
    rest, test = ((_flat(images), y) for images, y in parts)
    train, validation = _first_tenth(rest)
    projection = project(train[0], COMPONENTS)

    def prepared(part: Rows) -> Rows:
        X = projection.apply(part[0])
        return (preprocess.clip_rows(X) if scaled else X), part[1]

    bound, reads = 1.0 if scaled else None, projection.reads_private_data
    return Parts(prepared(train), prepared(validation), prepared(test), bound, reads)


def _first_tenth(rest: Rows) -> tuple[Rows, Rows]:
    X, y = rest
    kept, held = preprocess.first_tenth(len(X))
    return (X[kept], y[kept]), (X[held], y[held])


def _random(X: Floats, components: int) -> preprocess.Projection:
    return preprocess.Projection.random(X.shape[1], components)


def digits(read: Reader, form: Form, *, binary: bool = False) -> Parts:
    """8x8 handwritten digits, ten classes; or odd (1) against even (0): all rows, and balanced."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    # Pixels run from 0 to 16 by the publisher's definition, so nothing is read from the rows.
    X = preprocess.clip_rows(bunch.data / 16.0)
    y = bunch.target.astype(np.int64)
    y = y % 2 if binary else y
    index = preprocess.papers(len(X), 80, "digits")
    train, validation, test = ((X[part], y[part]) for part in index)
    return Parts(train, validation, test, 1.0, (), image_shape=(8, 8))
