"""SGD's own noise, measured: what the seed hides of a record. Estimates, never guarantees.

`measure.measure` trains a grid of seeds and neighbouring datasets into a study, `grid.load`
reads it, `summary.summary` computes every statistic of it. Named here is what serves people rather
than other rooms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino import _lazy

if TYPE_CHECKING:
    from sordino.intrinsic.directional import Directional
    from sordino.intrinsic.interval import bootstrap
    from sordino.intrinsic.variability import batch_overlaps

__all__ = ["Directional", "batch_overlaps", "bootstrap"]

__getattr__, __dir__ = _lazy.public_names(
    __name__,
    {"Directional": "directional", "batch_overlaps": "variability", "bootstrap": "interval"},
)
