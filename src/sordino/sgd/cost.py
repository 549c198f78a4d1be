"""What a training costs, by counting; so it is known beforehand, and the same on all machines.

Constants were measured on two cores of an ordinary machine of 2024: of another one they are a
guess, good enough to tell a minute from a year.
"""

from __future__ import annotations

from sordino.privacy import Sampling
from sordino.sgd.spec import TrainSpec

OF_NUMBER = 8.0e-10
"""Core seconds of a row's entry, in a step of SGD."""
OF_NORMAL = 2.0e-8
"""Of a random number."""
_THIN, _OF_WIDE = 4, 1.2e-10  # more datasets at once are products of matrices
_OF_SHARED = 2.0e-10  # a row's entry where all runs see all rows, as products of matrices
_OF_HIDDEN = 8.0e-10  # a row's entry of a network, for each hidden unit
_OF_STEP, _OF_HIDDEN_STEP = 3.0e-7, 1.2e-5


def of_run(spec: TrainSpec, rows: int, columns: int, datasets: int = 1) -> float:
    """Core seconds of one training on so many records, of `datasets` that share their batches."""
    steps = spec.total_steps(rows)
    entries = steps * min(spec.batch_size, rows) * columns
    if spec.objective.is_linear:
        full = spec.order == Sampling.CYCLIC and spec.batch_size >= rows
        each = _OF_SHARED if full else OF_NUMBER if datasets <= _THIN else _OF_WIDE
        parameters, work = columns, each * entries + _OF_STEP * steps / datasets
    else:
        hidden = spec.objective.hidden
        parameters = hidden * columns
        work = _OF_HIDDEN * hidden * entries + _OF_HIDDEN_STEP * steps
    return work + OF_NORMAL * parameters * (steps if spec.noise_multiplier else 1)
