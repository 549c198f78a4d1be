"""`RowTable`: the rows the engine gathers from, with every neighbour's substitute among them.

Row i is the record of slot i of the base dataset, so an order of slots is an order of rows. Then
follow the records that neighbours put in, and last a row of zeros that stands for "no record".
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from sordino.data.dataset import Dataset, row_norms
from sordino.data.neighbours import EMPTY, Neighbours
from sordino.models.batched import Objective

_LANES = 32
_BLOCK = 1 << 14


@dataclass(frozen=True, eq=False)
class RowTable:
    """Model inputs, labels and presence of each row; and for each neighbour what it changes.

    Attributes
    ----------
    X, y
        Inputs [row, input] and labels [row]. For linear objectives the inputs are followed by
        zeros up to a multiple of `_LANES`, so that compiled loops have no odd ends, and rows that
        came in float32 stay so, whatever the precision of the run: the numbers are the same, and
        half as many bytes are read.
    present
        1 for a record, 0 for an empty slot or a silent record, [row].
    counted
        1 for what counts in the size of a batch: records, silent or not, [row].
    norms
        Euclidean norm of each row of X; zeros where nothing is clipped.
    weight
        Factor in [0, 1] of each row's loss, [row]; None where no record has a weight.
    slot, substitute
        For each neighbour the row it takes out (-1: none) and the row it puts in.
    has_empty
        Whether any dataset has an empty slot or a silent record.
    """

    X: torch.Tensor
    y: torch.Tensor
    present: torch.Tensor
    counted: torch.Tensor
    norms: torch.Tensor
    slot: npt.NDArray[np.int64]
    substitute: npt.NDArray[np.int64]
    has_empty: bool
    weight: torch.Tensor | None = None

    @property
    def nothing(self) -> int:
        """The row that stands for "no record"."""
        return len(self.y) - 1

    @functools.cached_property
    def replaced_by(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Who replaces a row, as linked lists: the first neighbour of each row, and the next.

        -1 ends a list: the first array is [row], the second [neighbour].
        """
        first = np.full(len(self.y), -1, dtype=np.int32)
        following = np.full(len(self.slot), -1, dtype=np.int32)
        for k in range(len(self.slot) - 1, -1, -1):
            if self.slot[k] >= 0:
                following[k] = first[self.slot[k]]
                first[self.slot[k]] = k
        return first, following

    def of(self, neighbours: slice) -> RowTable:
        """Return the same rows for some of the neighbours."""
        slot, substitute = self.slot[neighbours], self.substitute[neighbours]
        return dataclasses.replace(self, slot=slot, substitute=substitute)


def table_bytes(
    objective: Objective, dataset: Dataset, neighbours: Neighbours, dtype: torch.dtype
) -> int:
    """Memory of the table's inputs, before it is laid out."""
    rows = len(neighbours.members) + len(np.unique(neighbours.occupant)) + 1
    return rows * _columns(objective) * _kept_dtype(objective, dataset, dtype).itemsize


def lay(
    objective: Objective,
    dataset: Dataset,
    neighbours: Neighbours,
    dtype: torch.dtype,
    *,
    clips: bool = True,
) -> RowTable:
    """Lay out the table of a dataset and its neighbours, block by block; norms if one `clips`."""
    put_in, which = np.unique(neighbours.occupant, return_inverse=True)
    rows = np.concatenate([neighbours.members, put_in, [EMPTY]])
    kept = _kept_dtype(objective, dataset, dtype)
    X = torch.empty((len(rows), _columns(objective)), dtype=kept)
    y = torch.zeros(len(rows), dtype=dtype)
    norms = torch.zeros(len(rows), dtype=dtype)
    for start in range(0, len(rows), _BLOCK):
        block = slice(start, min(start + _BLOCK, len(rows)))
        there = np.flatnonzero(rows[block] >= 0) + start
        features, labels = _records(dataset, neighbours, rows[there])
        inputs, numbers = X.numpy(), y.numpy()
        inputs[block, objective.features :] = 0
        if len(there) == block.stop - start:
            inputs[block, : objective.features], numbers[block] = features, labels
        else:
            inputs[block] = 0
            inputs[there, : objective.features], numbers[there] = features, labels
        if objective.has_constant_input:
            inputs[there, objective.features] = 1
        if clips:
            norms.numpy()[block] = row_norms(inputs[block])
    return RowTable(
        X=X,
        y=y,
        present=torch.from_numpy(rows >= 0).to(dtype),
        counted=torch.from_numpy(rows != EMPTY).to(dtype),
        norms=norms,
        slot=neighbours.slot,
        substitute=len(neighbours.members) + which.astype(np.int64).reshape(-1),
        has_empty=neighbours.has_empty_slots,
        weight=_weights(dataset, neighbours, rows, dtype),
    )


def _weights(
    dataset: Dataset, neighbours: Neighbours, rows: npt.NDArray[np.int64], dtype: torch.dtype
) -> torch.Tensor | None:
    """Of these rows; those without a record have no gradient that a weight could change."""
    if dataset.weights is None:
        return None
    extra = neighbours.extra_weights
    known = np.concatenate([dataset.weights, *(() if extra is None else (extra,))])
    return torch.from_numpy(np.where(rows >= 0, known[np.maximum(rows, 0)], 1.0)).to(dtype)


def _kept_dtype(objective: Objective, dataset: Dataset, dtype: torch.dtype) -> torch.dtype:
    narrow = objective.spec.is_linear and dataset.X.dtype == np.float32
    return torch.float32 if narrow else dtype


def _columns(objective: Objective) -> int:
    inputs = objective.features + int(objective.has_constant_input)
    return inputs + (-inputs % _LANES if objective.spec.is_linear else 0)


def _records(
    dataset: Dataset, neighbours: Neighbours, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.generic]]:
    """Features and labels of these rows, some of which may be the neighbours' own."""
    if len(rows) and rows[-1] < dataset.rows and (np.diff(rows) == 1).all():
        there = slice(int(rows[0]), int(rows[-1]) + 1)
        return dataset.X[there], dataset.y[there]
    own = rows >= dataset.rows
    at = np.where(own, 0, rows)
    X, y = dataset.X[at], dataset.y[at].astype(np.float64)
    if neighbours.extra_X is not None and neighbours.extra_y is not None and own.any():
        X[own] = neighbours.extra_X[rows[own] - dataset.rows]
        y[own] = neighbours.extra_y[rows[own] - dataset.rows].astype(np.float64)
    return X, y
