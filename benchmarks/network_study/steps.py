"""One step of training on a batch that stays, as each library does it: loss, gradients, SGD.

`trainer`, `ours` and `ours_applied` are all that knows the interface of `sordino.networks`; Opake's
steps are in opake_side.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from network_study.models import Batch
from network_study.timing import Step
from torch import Tensor, nn

CLIP, NOISE, RATE = 1.0, 1.0, 1e-3
MOST_STEPS = 100_000
"""As many as a trainer of ours is told to expect; no timing takes so many."""
MODES = ("hooks", "ghost", "functorch")
Maker = Callable[[nn.Module, Batch], Step]


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


def of_module(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The same as sordino takes it."""
    return losses(module(inputs), targets)


def sgd(module: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(module.parameters(), lr=RATE)


def plain(module: nn.Module, batch: Batch) -> Step:
    x, y = batch
    optimizer, criterion = sgd(module), nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        criterion(module(x), y).backward()
        optimizer.step()

    return step


def trainer(module: nn.Module, batch: Batch, noise: float) -> Any:
    """Of ours. Noise 0 voids its promise: for times without noise only."""
    from sordino.networks import PrivateTrainer

    return PrivateTrainer(
        *(module, sgd(module), of_module, batch),
        noise_multiplier=noise,
        max_grad_norm=CLIP,
        sampling="poisson",
        batch_size=len(batch[0]),
        steps=MOST_STEPS,
    )


def ours(noise: float) -> Maker:
    def make(module: nn.Module, batch: Batch) -> Step:
        private = trainer(module, batch, noise)
        return lambda: private.apply(private.clipped_sum(batch))

    return make


def ours_applied(noise: float) -> Maker:
    """What comes after the clipped sum only: noise, division, optimiser."""

    def make(module: nn.Module, batch: Batch) -> Step:
        private = trainer(module, batch, noise)
        summed = private.clipped_sum(batch)
        # A copy: a sum is used up.
        return lambda: private.apply(replace(summed, flat=summed.flat.clone()))

    return make


def opacus(mode: str, noise: float) -> Maker:
    """What `make_private` returns, with Opacus' own attention and LSTM where it wants them."""

    def make(module: nn.Module, batch: Batch) -> Step:
        with warnings.catch_warnings():  # of what torch renames: Opacus' business
            warnings.simplefilter("ignore")
            from opacus import PrivacyEngine
            from opacus.validators import ModuleValidator

            if not ModuleValidator.is_valid(module):
                module = ModuleValidator.fix(module)  # a copy
            x, y = batch
            made = PrivacyEngine().make_private(
                module=module,
                optimizer=sgd(module),
                criterion=nn.CrossEntropyLoss(),
                data_loader=torch.utils.data.DataLoader(
                    torch.utils.data.TensorDataset(x, y), batch_size=len(x)
                ),
                noise_multiplier=noise,
                max_grad_norm=CLIP,
                grad_sample_mode=mode,
            )
        private, optimizer = made[:2]
        criterion = made[2] if mode == "ghost" else nn.CrossEntropyLoss()

        def step() -> None:
            optimizer.zero_grad()
            criterion(private(x), y).backward()
            optimizer.step()

        return step

    return make


OURS: dict[str, Maker] = {"ours_clip": ours(0.0), "ours": ours(NOISE)}
OPACUS: dict[str, Maker] = {
    f"opacus_{mode}{ending}": opacus(mode, noise)
    for mode in MODES
    for ending, noise in (("_clip", 0.0), ("", NOISE))
}


def all_of_them() -> dict[str, Maker]:
    return {"plain": plain} | OURS | OPACUS
