"""Steps with Opake by turns with plain ones: run by a Python that has it, in benchmarks/.

    python -m network_study.opake_side MODEL ROWS THREADS ROUNDS CELL_S CLOCK

Prints the times as JSON. Opake takes a function of one example; its clipped sums are divided by the
batch size and go to the same optimiser as a plain step's gradients.
"""

from __future__ import annotations

import json
import sys
import warnings

import torch
from network_study import timing
from network_study.models import MODELS, Batch
from network_study.steps import CLIP, NOISE, plain, sgd
from torch import nn


def opake(module: nn.Module, batch: Batch, noise: float) -> timing.Step:
    from opake.dpsgd.clipping import clipped_grad
    from opake.dpsgd.noise import gaussian_noise
    from opake.functional import make_functional
    from opake.random import random_key

    call, weights, _ = make_functional(module, partition_trainable=True)
    optimizer, named = sgd(module), dict(module.named_parameters())

    def loss(weights: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(call(weights, x.unsqueeze(0)), y.unsqueeze(0))

    clipped, clip_state = clipped_grad(
        loss, clipping_norm=CLIP, batch_argnums=(1, 2), normalize_by=float(len(batch[0]))
    )
    noised, noise_state = gaussian_noise(noise_multiplier=noise, key=random_key())

    def step() -> None:
        nonlocal clip_state, noise_state
        gradients, clip_state = clipped(weights, *batch, state=clip_state)
        if noise:
            gradients, noise_state = noised(gradients, noise_state)
        for name, gradient in gradients.pytree.items():
            named[name].grad = gradient
        optimizer.step()

    return step


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # LSTMs: "performance drop", which is what is measured
    name, rows, threads, rounds, cell_s, clock = sys.argv[1:]
    torch.set_num_threads(int(threads))
    model = MODELS[name]
    batch = model.batch(int(rows))
    steps = {
        "plain": plain(model.module(), batch),
        "opake_clip": opake(model.module(), batch, 0.0),
        "opake": opake(model.module(), batch, NOISE),
    }
    pace = timing.Pace(int(rounds), float(cell_s), clock)
    print(json.dumps(timing.by_turns(steps, pace)))
