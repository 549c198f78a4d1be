"""`Table`: the rows the engine gathers from, with every neighbour's substitute among them.

Row i is the record of slot i of the base dataset, so an order of slots is an order of rows. Then
follow the records that neighbours put in, and last a row of zeros that stands for "no record".
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from sordino.data.dataset import Dataset
from sordino.data.neighbours import EMPTY, Neighbours
from sordino.objectives.batched import Objective

LANES = 32


@dataclass(frozen=True, eq=False)
class Table:
    """Model inputs, labels and presence of each row; and for each neighbour what it changes.

    Attributes
    ----------
    X, y
        Inputs [row, input] and labels [row]. For linear objectives the inputs are followed by
        zeros up to a multiple of `LANES`, so that compiled loops have no odd ends.
    present
        1 for a record, 0 for an empty slot, [row].
    norms
        Euclidean norm of each row of X.
    slot, substitute
        For each neighbour the row it takes out (-1: none) and the row it puts in.
    has_empty
        Whether any dataset has an empty slot.
    """

    X: torch.Tensor
    y: torch.Tensor
    present: torch.Tensor
    norms: torch.Tensor
    slot: npt.NDArray[np.int64]
    substitute: npt.NDArray[np.int64]
    has_empty: bool

    @property
    def nothing(self) -> int:
        """The row that stands for "no record"."""
        return len(self.y) - 1

    def of(self, neighbours: slice) -> Table:
        """Return the same rows for some of the neighbours."""
        slot, substitute = self.slot[neighbours], self.substitute[neighbours]
        return dataclasses.replace(self, slot=slot, substitute=substitute)


def lay(
    objective: Objective, dataset: Dataset, neighbours: Neighbours, dtype: torch.dtype
) -> Table:
    """Lay out the table of a dataset and its neighbours."""
    source_X, source_y = dataset.X, dataset.y
    if neighbours.extra_X is not None:
        source_X = np.concatenate([source_X, neighbours.extra_X.astype(source_X.dtype)])
        source_y = np.concatenate([source_y, np.asarray(neighbours.extra_y)])
    put_in, which = np.unique(neighbours.occupant, return_inverse=True)
    rows = np.concatenate([neighbours.members, put_in, [EMPTY]])
    X = objective.inputs(source_X[np.maximum(rows, 0)], dtype)
    y = torch.tensor(source_y[np.maximum(rows, 0)], dtype=dtype)
    empty = torch.from_numpy(rows == EMPTY)
    X[empty] = 0
    y[empty] = 0
    if objective.spec.is_linear:
        X = torch.nn.functional.pad(X, (0, -X.shape[1] % LANES))
    return Table(
        X=X.contiguous(),
        y=y,
        present=(~empty).to(dtype),
        norms=torch.linalg.vector_norm(X, dim=1),
        slot=neighbours.slot,
        substitute=len(neighbours.members) + which.astype(np.int64).reshape(-1),
        has_empty=neighbours.has_empty_slots,
    )
