"""The grid of a study: its seeds, datasets and steps; and its weights as arrays, `Measured`.

Seeds are 0..R-1 and neighbours are the first K of one permutation of the records, which depends on
their number alone: nobody chooses either after having seen a result.

Among the datasets is the one in which no record is replaced. It and each of the others differ in
ONE record of the order, as a bound on the sensitivity assumes, while two of the papers' datasets
differ in two. Of K neighbours and the dataset itself there are K pairs of the first kind, and
K (K - 1) / 2 of the papers'.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import _cost, checks
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.privacy import Relation
from sordino.randomness import RESULTS, stream
from sordino.sgd.spec import TrainSpec
from sordino.study import Study, StudyError
from sordino.types import Floats

INITS = ("vary", "fixed")
DRAWN = "drawn from the stream 'neighbours', replaced by the first record; first the data itself"

_Flags = npt.NDArray[np.bool_]
_OF_LABEL = 400  # bytes of a seed or a step, in the lists of a layout and in its file


def seed_numbers(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """0..R-1 for a number R; a list as it is, if all are different."""
    if not isinstance(seeds, Sequence | np.ndarray):
        many = checks.whole("seeds", seeds, at_least=1)
        _cost.check_memory("seeds", many, _OF_LABEL * many, "Lower seeds; 98 are usual.")
        return tuple(range(many))
    numbers = tuple(checks.whole("seed", seed) for seed in checks.sequence("seeds", seeds))
    if not numbers or len(set(numbers)) < len(numbers):
        checks.fail("seeds", list(numbers), "to be different, at least one")
    return numbers


def datasets(dataset: Dataset, neighbours: int | Neighbours) -> Neighbours:
    """The dataset itself and K neighbours, for a number K; given ones as they are."""
    if not isinstance(dataset, Dataset):
        checks.fail("dataset", type(dataset).__name__, "to be a Dataset", "Pass Dataset(X, y).")
    if isinstance(neighbours, Neighbours):
        neighbours.check_of(dataset)
        return neighbours
    many, others = checks.whole("neighbours", neighbours, at_least=1), dataset.rows - 1
    if many > others:
        checks.fail("neighbours", many, f"<= {others}, the records but the first")
    records = 1 + stream("neighbours").permutation(others)[:many]
    made = neighbouring.replace_by_first(dataset, records)
    return dataclasses.replace(
        made,
        slot=np.append(neighbouring.UNCHANGED, made.slot),
        occupant=np.append(neighbouring.EMPTY, made.occupant),
    )


def kept_steps(checkpoints: int | Sequence[int] | None, total: int) -> tuple[int, ...]:
    """Steps whose weights are kept: the last, a number of them evenly apart, or a list."""
    if checkpoints is None:
        return (total,)
    if isinstance(checkpoints, Sequence | np.ndarray):
        return tuple(checks.whole("checkpoint", step) for step in checkpoints)
    many = checks.whole("checkpoints", checkpoints, at_least=1)
    if many > total:
        checks.fail("checkpoints", many, f"<= {total}, the number of steps")
    _cost.check_memory("checkpoints", many, _OF_LABEL * many, "Lower checkpoints; 10 are usual.")
    return tuple(total * (place + 1) // many for place in range(many))


def starts(init: str | Sequence[str]) -> tuple[str, ...]:
    """Kinds of initial weights, "vary" or "fixed" or both."""
    labels = (init,) if isinstance(init, str) else tuple(checks.sequence("init", init))
    for label in labels:
        checks.one_of("init", label, INITS)
    if not labels or len(set(labels)) < len(labels):
        checks.fail("init", labels, "to be different, at least one")
    return labels


def description(
    trained: dict[str, Any], neighbours: Neighbours, how: str, *, engine: bool
) -> dict[str, Any]:
    """All that determines the weights besides seeds, steps and grouping, as plain values.

    `trained` says what is run on each dataset: {"spec": ...} or {"function": ...}; `engine`,
    whether our SGD does it, whose packages then count.
    """
    dataset, digest = neighbours.dataset, hashlib.sha256()
    for numbers in (neighbours.members, neighbours.slot, neighbours.occupant):
        digest.update(np.ascontiguousarray(numbers, dtype="<i8").tobytes())
    for extra in (neighbours.extra_X, neighbours.extra_y):
        if extra is not None:
            digest.update(np.ascontiguousarray(extra).tobytes())
    packages = ("numpy", "zarr", "numba", "torch") if engine else ("numpy", "zarr")
    # Without "+cpu" and the like, which name a build and not what it computes.
    versions = {name: metadata.version(name).partition("+")[0] for name in packages}
    return {
        "schema": 1,
        **trained,
        "dataset": {
            **{"name": dataset.name, "sha256": dataset.fingerprint},
            **{name: getattr(dataset, name) for name in ("rows", "features", "norm_bound")},
        },
        "neighbours": {
            **{"relation": neighbours.relation.value, "how": how},
            **{"size": neighbours.size, "sha256": digest.hexdigest()},
        },
        "versions": {"sordino": RESULTS, **versions},
    }


@dataclass(frozen=True)
class StudiedDataset:
    """What a study says of its dataset.

    `size` counts the records that every run is trained on: one less than `rows` where the first
    record stands in for others.
    """

    name: str
    sha256: str
    rows: int
    features: int
    norm_bound: float | None
    size: int


@dataclass(frozen=True, eq=False)
class Measured:
    """A grid of runs without gaps: every seed here was trained on every dataset here.

    Attributes
    ----------
    study
        Where it was read from.
    spec
        How our SGD trained it (its `init` is no part of it: see `inits`); None for a function.
    function
        What is known of the training function: name, source_sha256, settings; None for our SGD.
    dataset
        What is known of the records.
    relation
        How each dataset is related to the one with nothing replaced.
    inits, seeds, neighbours, steps
        Labels of the axes; of neighbours, the record that is replaced, -1 for none.
    left_out
        What is in the study and not here, in sentences: failed and missing cells, and seeds or
        neighbours left out on their account.
    """

    study: Study
    spec: TrainSpec | None
    function: dict[str, Any] | None
    dataset: StudiedDataset
    relation: Relation
    inits: tuple[str, ...]
    seeds: tuple[int, ...]
    neighbours: tuple[int, ...]
    steps: tuple[int, ...]
    left_out: tuple[str, ...]
    _kept: tuple[_Flags, _Flags]

    @property
    def base(self) -> int | None:
        """Position among `neighbours` of the dataset with nothing replaced; None if not there."""
        return self.neighbours.index(-1) if -1 in self.neighbours else None

    @property
    def parameters(self) -> int:
        """Weights of a model."""
        return self.study.layout.parameters

    def weights(self, init: str, *, steps: Sequence[int] | None = None) -> Floats:
        """Weights [seed, neighbour, step, parameter] in float64, all finite; each file checked.

        Parameters
        ----------
        init
            One of `inits`.
        steps
            Which of `steps`, in this order; None is all.
        """
        checks.one_of("init", init, self.inits)
        return self.study.weights(init, steps=steps)[np.ix_(*self._kept)].astype(np.float64)

    def final(self, init: str) -> Floats:
        """Weights [seed, neighbour, parameter] of the last step."""
        return self.weights(init, steps=[max(self.steps)])[:, :, 0]


def load(
    directory: str | os.PathLike[str] | Study, *, init: str | Sequence[str] | None = None
) -> Measured:
    """Read a study that `measure` made; cells that failed or are missing leave no gaps.

    Parameters
    ----------
    directory
        Of the study, or the study itself.
    init
        Kinds of initial weights that are needed; all of the study by default. Seeds and neighbours
        are kept that are whole in each of them.

    Raises
    ------
    StudyError
        If nothing is whole yet, or a file is damaged.
    """
    study = directory if isinstance(directory, Study) else Study.open(directory)
    layout, described = study.layout, study.description
    if "neighbours" not in described or not {"spec", "function"} & set(described):
        checks.fail("study", study.directory, "to be made by measure", error=StudyError)
    wanted = layout.inits if init is None else (init,) if isinstance(init, str) else tuple(init)
    for label in wanted:
        checks.one_of("init", label, layout.inits)
    done = np.ones((len(layout.seeds), len(layout.neighbours)), dtype=bool)
    for cell, status in zip(study.cells(), study.status(), strict=True):
        if layout.inits[cell.init] in wanted and status != "done":
            done[cell.seeds, cell.neighbours] = False
    kept = _whole(done)
    left_out = [
        f"{layout.name(cell)} failed: {reason}"
        for cell, reason in study.failures().items()
        if layout.inits[cell.init] in wanted
    ]
    if not kept[0].any():
        first = [f" The first failure: {reason}" for reason in study.failures().values()][:1]
        done_once = f"to have a finished cell for each init ({', '.join(wanted)})"
        hint = f"Run the same command again.{''.join(first)}"
        checks.fail("study", study.directory, done_once, hint, StudyError)
    if missing := sum(layout.inits[cell.init] in wanted for cell in study.missing()):
        left_out.append(f"{missing} of {len(study.cells())} cells are missing")
    labels = {}
    for name, flags in zip(("seeds", "neighbours"), kept, strict=True):
        labels[name] = tuple(np.array(getattr(layout, name))[flags].tolist())
        if not flags.all():
            left_out.append(f"{(~flags).sum()} of {len(flags)} {name} are left out for that")
    spec = described.get("spec")
    return Measured(
        study=study,
        spec=None if spec is None else TrainSpec.from_dict(spec),
        function=described.get("function"),
        dataset=StudiedDataset(**described["dataset"], size=described["neighbours"]["size"]),
        relation=Relation(described["neighbours"]["relation"]),
        inits=wanted,
        **labels,
        steps=layout.steps,
        left_out=tuple(left_out),
        _kept=kept,
    )


def _whole(done: _Flags) -> tuple[_Flags, _Flags]:
    """Seeds and neighbours of a box without gaps: what has the largest share of gaps goes first."""
    seeds, neighbours = (np.ones(size, dtype=bool) for size in done.shape)
    while not (part := done[np.ix_(seeds, neighbours)]).all():
        flags, share = seeds, 1 - part.mean(axis=1)
        if share.max() < (of_neighbours := 1 - part.mean(axis=0)).max():
            flags, share = neighbours, of_neighbours
        # Of equals the last: the dataset itself stands first.
        flags[np.flatnonzero(flags)[np.flatnonzero(share == share.max())[-1]]] = False
    if not (seeds.any() and neighbours.any()):
        return np.zeros_like(seeds), np.zeros_like(neighbours)
    # Whoever was left out for gaps that are left out themselves comes back.
    seeds = np.asarray(done[:, neighbours].all(axis=1))
    return seeds, np.asarray(done[seeds].all(axis=0))
