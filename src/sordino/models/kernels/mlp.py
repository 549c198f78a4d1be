"""Between the two products of the network's gradient, compiled: one pass instead of eight.

The numbers of a batch ([example, run, unit], some hundred kilobytes) are read from the nearest
cache once, where a chain of tensor operations would write and read each of them eight times.
"""

from __future__ import annotations

from sordino.models.kernels.compile import compiled
from sordino.models.kernels.link import LOGISTIC, residuals
from sordino.types import Array


@compiled
def backward(
    units: Array,
    second: Array,
    y: Array,
    weight: Array,
    squares: Array,
    clip: Array,
    clips: bool,
    gradient: Array,
    scores: Array,
    labels: Array,
) -> None:
    """From pre-activations to the gradients of both layers.

    Parameters
    ----------
    units
        Pre-activations [group, example, run x unit]; overwritten with the loss' derivative by them.
    second
        The second layer [group, run, unit + 1], its bias last.
    y, weight
        Labels and weights [group, example].
    squares
        Squared norms of the inputs [group, example]; read only where one `clips`.
    clip, clips
        Longest gradient of each example [group, example], and whether any is clipped.
    gradient
        Of the second layer, [group, run, unit + 1]: written.
    scores, labels
        Working memory, one number a run.
    """
    groups, examples, _ = units.shape
    runs, hidden = second.shape[1], second.shape[2] - 1
    zero = units.dtype.type(0)
    for g in range(groups):
        gradient[g] = zero
        for b in range(examples):
            row = units[g, b]
            for r in range(runs):
                z = second[g, r, hidden]
                for h in range(hidden):
                    z += max(row[r * hidden + h], zero) * second[g, r, h]
                scores[r] = z
            labels[:] = y[g, b]
            residuals(LOGISTIC, 0.0, scores, labels)
            if clips:
                _clipped(row, second[g], squares[g, b], clip[g, b], scores)
            for r in range(runs):
                psi = scores[r] * weight[g, b]
                gradient[g, r, hidden] += psi
                for h in range(hidden):
                    unit = row[r * hidden + h]
                    on = unit > zero
                    gradient[g, r, h] += psi * unit if on else zero
                    row[r * hidden + h] = psi * second[g, r, h] if on else zero


@compiled
def _clipped(row: Array, second: Array, squared: float, clip: float, scores: Array) -> None:
    """Shrink each run's psi so that the whole gradient of this example is no longer than `clip`.

    It is two outer products: psi times (relu'(units) v) x', and psi times the units and a 1.
    """
    runs, hidden = second.shape[0], second.shape[1] - 1
    zero, one = row.dtype.type(0), row.dtype.type(1)
    for r in range(runs):
        first, units = zero, one
        for h in range(hidden):
            unit, v = max(row[r * hidden + h], zero), second[r, h]
            first += v * v if unit > zero else zero
            units += unit * unit
        norm = abs(scores[r]) * (squared * first + units) ** row.dtype.type(0.5)
        if norm > clip:
            scores[r] *= row.dtype.type(clip) / norm
