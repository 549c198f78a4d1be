"""A plain, slow, independent SGD: one run, one record at a time, in float64, from the definition.

Nothing of the engine is used but the order of slots and the noise, which are inputs here.
"""

from __future__ import annotations

import numpy as np


def gradient_one(kind, w, x, y, h=0.5):
    """Gradient of one example's data loss at w, written from the textbook."""
    x = np.append(x, 1.0)
    z = float(w @ x)
    if kind == "logistic":
        psi = 1 / (1 + np.exp(-z)) - y
    elif kind == "least-squares":
        psi = z - y
    else:
        s = 2 * y - 1
        m = s * z
        psi = -s if m < 1 - h else (0.0 if m > 1 + h else -s * (1 + h - m) / (2 * h))
    return psi * x


def sgd(spec, records, batches, w, noise=None):
    """Train on `records`: slot -> (x, y) or (x, y, weight), (x, None) for a silent one, or None.

    A weight multiplies the loss, so what is clipped is the weighted gradient.

    `batches` is a list of epochs of lists of slots. Returns the iterate after every step.
    """
    z_c = spec.noise_multiplier * (spec.max_grad_norm or 0)
    w = np.array(w, dtype=np.float64)
    trail, since, h, updates, drawn = [], [], 0, 0, 0
    for epoch, epoch_batches in enumerate(batches, start=1):
        h += 1
        for batch in epoch_batches:
            updates += 1
            total, count = np.zeros_like(w), 0
            for slot in batch:
                if records[slot] is None:
                    continue
                count += 1
                if records[slot][1] is None:  # silent: it counts, and has no gradient
                    continue
                x, y, *weight = records[slot]
                g = gradient_one(spec.objective.kind, w, x, y, spec.objective.huber_width)
                g = g * (weight[0] if weight else 1.0)
                if spec.max_grad_norm is not None:
                    g = g * min(1.0, spec.max_grad_norm / max(np.linalg.norm(g), 1e-300))
                total = total + g
            divisor = spec.batch_size if spec.divides_by_batch_size else max(count, 1)
            if noise is not None:
                total = total + z_c * noise[drawn]
            drawn += 1
            rate = spec.schedule.at(updates, h)
            w = w - rate * (total / divisor + spec.objective.l2 * w)
            if spec.radius is not None:
                w = w * min(1.0, spec.radius / np.linalg.norm(w))
            since.append(w)
            trail.append(w)
        if spec.average_every and epoch % spec.average_every == 0:
            w = np.mean(since, axis=0)
            since = []
            trail[-1] = w
        if spec.restart_every and epoch % spec.restart_every == 0:
            h = updates = 0
    return trail
