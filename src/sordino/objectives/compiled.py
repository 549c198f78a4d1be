"""How every loop of sordino is compiled: no interpreter lock, vectors allowed, cached on disk."""

from __future__ import annotations

import numba

# Sums may be reordered into vectors; infinities and NaN keep their meaning.
FAST = {"reassoc", "contract", "nsz", "arcp"}

compiled = numba.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
