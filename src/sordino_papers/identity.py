"""What a run depends on beside its settings: sources, packages, files without checksums."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from sordino_papers.kinds import SOURCES

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "torch")
_SOURCES = Path(__file__).parents[1]
"""Where both packages are."""


@cache
def of_kind(kind: str) -> str:
    """A digest of the sources that make it, and of the versions of what they lean on."""
    digest = hashlib.sha256()
    for name in SOURCES[kind]:
        place = _SOURCES / name
        paths = [place] if place.suffix else sorted((*place.rglob("*.py"), *place.rglob("*.toml")))
        if not paths or not place.exists():
            # The digest of nothing never changes: what an earlier code made would pass for ours.
            raise RuntimeError(f"{name} is named as a source of {kind}, and is not there.")
        for path in paths:
            digest.update(
                path.relative_to(_SOURCES).as_posix().encode() + b"\0" + path.read_bytes()
            )
    for package in _PACKAGES:
        digest.update(f"{package} {metadata.version(package)}\0".encode())
    return digest.hexdigest()[:16]


def of_files(
    settings: Mapping[str, Any], data_dir: str | os.PathLike[str] | None
) -> list[tuple[str, int, int]]:
    """Name, size and time of the user's own files.

    Published files have checksums, and are refused if they do not fit: they need no identity.
    """
    from sordino.data.catalogue.recipes import recipe
    from sordino.data.sources import data_directory, find

    data = settings.get("data")
    if not isinstance(data, str):
        return []
    parent, folder = data_directory(data_dir), settings.get("folder", "")
    place = parent / folder if parent is not None and folder else data_dir
    if folder and (parent is None or not (parent / folder).is_dir()):
        return []
    found = []
    for raw in recipe(data).files:
        path = find(raw, place)[1] if raw.digest is None else None
        if path is not None:
            status = path.stat()
            found.append((path.name, status.st_size, status.st_mtime_ns))
    return found
