"""`FeatureCache`: features of inputs that were seen before, in a directory that stays inside.

Features of private rows are as private as the rows, and so are the names of the files: each is a
digest of all inputs. The directory is INTERNAL: it is open to its owner alone (mode 0700).
"""

from __future__ import annotations

import hashlib
import io
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from sordino import _files, checks
from sordino.errors import InvalidArgument, without_cells
from sordino.models.fingerprint import Fingerprint
from sordino.models.frozen import Frozen
from sordino.types import Array

_DIGEST_BYTES = 32


class FeatureCache:
    """Keep arrays by what they were made of; one that was damaged is as good as none.

    Parameters
    ----------
    directory
        Is made if it does not exist. One that others may read is refused.
    features
        The map, every part of which must be in its digest: else another one might be taken for it.
    """

    def __init__(self, directory: str | os.PathLike[str], features: Frozen) -> None:
        path = Path(directory)
        if unseen := features.fingerprint.unseen:
            what = f"to be left out: no digest of the feature map can cover {unseen[0]}"
            checks.fail("cache", path, what)
        with _files.explained("cache", path, "written", noun="directory"):
            with suppress(FileExistsError):
                path.mkdir(mode=0o700)
            mode = os.stat(path).st_mode
        if not path.is_dir():
            checks.fail("cache", path, "to be a directory")
        if os.name == "posix" and mode & 0o077:
            hint = f"It holds what is private: chmod 700 {path}."
            checks.fail("cache", path, "to be open to its owner alone", hint)
        self._directory = path
        self._features = features

    def place(self, inputs: Any) -> Path:
        """Where the features of these inputs are, or will be."""
        with without_cells(lambda _: _no_digest(inputs)):
            found = Fingerprint.of([self._features.fingerprint.sha256, _plain(inputs)])
        if found.unseen:
            raise _no_digest(inputs)
        return self._directory / f"{found.sha256}.features"

    def read(self, place: Path, shape: tuple[int, int]) -> Array | None:
        """What was kept there, if it is whole and of this shape."""
        try:
            content = _files.read(place)
        except OSError:
            return None
        digest, body = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if hashlib.sha256(body).digest() != digest:
            return None
        rows: Array = np.load(io.BytesIO(body), allow_pickle=False)
        return rows if rows.shape == shape else None

    def keep(self, place: Path, rows: Array) -> None:
        """Write it whole or not at all, in the place of one that was damaged."""
        buffer = io.BytesIO()
        np.save(buffer, rows, allow_pickle=False)
        body = buffer.getvalue()
        with _files.explained("cache", place, "written"):
            _files.write(place, hashlib.sha256(body).digest() + body)


def _no_digest(inputs: Any) -> InvalidArgument:
    kind = type(inputs).__name__
    return InvalidArgument(f"Expected cache to be left out for inputs of type {kind}.", "cache")


def _plain(inputs: Any) -> Any:
    """A table as its columns' names, kinds and values, which have a digest; others as they are."""
    if not hasattr(inputs, "iloc"):
        return inputs
    if not hasattr(inputs, "columns"):
        return [str(inputs.dtype), inputs.to_numpy()]
    columns = (inputs.iloc[:, place] for place in range(inputs.shape[1]))
    values = [[str(column.dtype), column.to_numpy()] for column in columns]
    return [[str(name) for name in inputs.columns], values]
