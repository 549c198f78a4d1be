"""Is what the engine makes of an entry of the battery the sum that the loop gives?"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from oracle import clipped_sum, norms, single_gradients, unchanged
from torch import Tensor, nn
from zoo import Entry

from sordino.networks.clipping import KINDS, Clipping
from sordino.networks.still import Still
from sordino.networks.trial import choose

COARSE = 1e-4
"""What is still rounding in float32, where the loop rounds, too."""


def judged(
    entry: Entry,
    dtype: torch.dtype,
    seed: int = 0,
    sizes: Sequence[int] = (5,),
    kinds: Sequence[str] = KINDS,
) -> tuple[str, str]:
    """Return the name of the engine, and where its clipped sums are off ("" if nowhere).

    The module is tried on other inputs than those of the batches. All passes draw the same random
    numbers, along the first axis, too: those of an example are the same alone and in a batch.
    """
    module, still = entry.module(dtype, seed), Still()

    def losses(module: nn.Module, *batch: Tensor) -> Tensor:
        still.begin(batch)
        return entry.losses(module, *batch)

    engine = choose(module, losses, entry.batch(8, dtype, seed + 1000)).engine
    tolerance = COARSE if dtype is torch.float32 else entry.tolerance
    for size in sizes:
        batch = entry.batch(size, dtype, seed, beyond=True)
        with still:
            single = single_gradients(module, losses, batch)
        length = float(norms(single).median()) or 1.0
        for kind in kinds:
            with unchanged(module), still:
                inputs = tuple(each.clone() for each in batch)
                found = engine.clipped(inputs, Clipping(kind, length))
            for name, wanted in clipped_sum(single, kind, length).items():  # type: ignore[arg-type]
                if found[name].shape != wanted.shape:
                    return engine.name, f"{kind}, {size}: {name} is {tuple(found[name].shape)}"
                off = float((wanted - found[name]).abs().max()) if wanted.numel() else 0.0
                if not off <= tolerance * max(1.0, float(wanted.abs().max())):
                    return engine.name, f"{kind}, {size}: {name} is off by {off:.1g}"
    return engine.name, ""
