"""Array and callback types that every room uses: each alias once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]

Progress = Callable[[int, int], None]
"""Is told how many of how many pieces of work are done."""
