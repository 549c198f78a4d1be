"""`Measured`: the weights of a study as arrays, for statistics. `load` reads it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.privacy import Relation
from sordino.sgd.spec import TrainSpec
from sordino.study import Study, StudyError
from sordino.types import Floats

Flags = npt.NDArray[np.bool_]


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
    _kept: tuple[Flags, Flags]

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
        found = self.study.weights(init, steps=steps)
        seeds, neighbours = self._kept
        return found[np.ix_(seeds, neighbours)].astype(np.float64)

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
        raise StudyError(
            f"Expected study={study.directory} to be made by measure. Pass another directory."
        )
    wanted = layout.inits if init is None else (init,) if isinstance(init, str) else tuple(init)
    for label in wanted:
        checks.one_of("init", label, layout.inits)
    seeds, neighbours = _whole(_done(study, wanted))
    if not seeds.any():
        failures = list(study.failures().values())
        reason = f"The first failure: {failures[0]}" if failures else ""
        raise StudyError(
            f"Expected study={study.directory} to have a finished cell for each init "
            f"({', '.join(wanted)}). Run the same command again. {reason}".rstrip()
        )
    spec = described.get("spec")
    return Measured(
        study=study,
        spec=None if spec is None else TrainSpec.from_dict(spec),
        function=described.get("function"),
        dataset=StudiedDataset(**described["dataset"], size=described["neighbours"]["size"]),
        relation=Relation(described["neighbours"]["relation"]),
        inits=wanted,
        seeds=_chosen(layout.seeds, seeds),
        neighbours=_chosen(layout.neighbours, neighbours),
        steps=layout.steps,
        left_out=_left_out(study, wanted, seeds, neighbours),
        _kept=(seeds, neighbours),
    )


def _done(study: Study, inits: Sequence[str]) -> Flags:
    """For each seed and neighbour whether it is done in every init."""
    layout = study.layout
    done = np.ones((len(layout.seeds), len(layout.neighbours)), dtype=bool)
    for cell, status in zip(study.cells(), study.status(), strict=True):
        if layout.inits[cell.init] in inits and status != "done":
            done[cell.seeds, cell.neighbours] = False
    return done


def _whole(done: Flags) -> tuple[Flags, Flags]:
    """Seeds and neighbours of a box without gaps: what has the largest share of gaps goes first."""
    seeds, neighbours = (np.ones(size, dtype=bool) for size in done.shape)
    while not (part := done[np.ix_(seeds, neighbours)]).all():
        by_seed, by_neighbour = 1 - part.mean(axis=1), 1 - part.mean(axis=0)
        if by_seed.max() >= by_neighbour.max():
            seeds[np.flatnonzero(seeds)[_last_largest(by_seed)]] = False
        else:
            neighbours[np.flatnonzero(neighbours)[_last_largest(by_neighbour)]] = False
    if not (seeds.any() and neighbours.any()):
        return np.zeros_like(seeds), np.zeros_like(neighbours)
    # Whoever was left out for gaps that are left out themselves comes back.
    seeds = np.asarray(done[:, neighbours].all(axis=1))
    return seeds, np.asarray(done[seeds].all(axis=0))


def _last_largest(shares: Floats) -> int:
    # Of equals the last: the dataset itself stands first.
    return int(np.flatnonzero(shares == shares.max())[-1])


def _chosen(labels: tuple[int, ...], kept: Flags) -> tuple[int, ...]:
    return tuple(label for label, keep in zip(labels, kept, strict=True) if keep)


def _left_out(
    study: Study, inits: Sequence[str], seeds: Flags, neighbours: Flags
) -> tuple[str, ...]:
    layout, said = study.layout, []
    failures = study.failures()
    for cell, reason in failures.items():
        if layout.inits[cell.init] in inits:
            said.append(f"{layout.name(cell)} failed: {reason}")
    missing = [c for c in study.missing() if layout.inits[c.init] in inits]
    if missing:
        said.append(f"{len(missing)} of {len(study.cells())} cells are missing")
    for name, kept in (("seeds", seeds), ("neighbours", neighbours)):
        if not kept.all():
            said.append(f"{int((~kept).sum())} of {len(kept)} {name} are left out for that")
    return tuple(said)
