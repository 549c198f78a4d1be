"""How every loop of sordino is compiled: no interpreter lock, vectors allowed, cached on disk."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

from sordino import _files

# Sums may be reordered into vectors; infinities and NaN keep their meaning.
FAST = {"reassoc", "contract", "nsz", "arcp"}

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Compile when first called, and remember it for the next process where that is possible."""
    loop: Any = numba.njit(nogil=True, fastmath=FAST, error_model="numpy")(function)
    settings: Any = numba.config  # read when caching is enabled, for this function alone
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(Path(before or _files.cache()) / f"loops-{_sources()}")
    try:
        loop.enable_caching()
    except (RuntimeError, OSError):
        pass  # nowhere to write: compiled anew in each process
    finally:
        settings.CACHE_DIR = before
    return loop  # type: ignore[no-any-return]


@functools.cache
def _sources() -> str:
    """A digest of all compiled sources.

    Numba notices a change of the file that a function stands in, not of those it calls; a cache
    named after all of them cannot be stale.
    """
    digest = hashlib.sha256()
    package = Path(__file__).parents[2]
    for path in sorted((*package.glob("models/kernels/*.py"), *package.glob("sgd/**/*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
