"""The release's noise where our SGD trains it: on the final weights, in every step, or its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import threadpoolctl

from sordino.assessment import measured_runs
from sordino.assessment.distance import ATTACKED, Distance, Evidence, together
from sordino.assessment.measured_runs import Tally, Training
from sordino.audit.neighbour import Pair
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.intrinsic import released
from sordino.seeding import stream
from sordino.sgd import cost
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats, Progress

FEW_SEEDS = 4
"""Where a direction is out of reach: enough for one sigma over all weights."""
INDEPENDENT = "takes the noises of the models, one a class, for independent"
ALIKE = "takes every class's model to tell as much as the one measured"
EXACT_GAP = "of the distance of the two trainings over the added noise"
NO_CHANCE = "the training has no chance in it, and the noise added to its weights is all there is"
TOO_LONG = (
    "One training takes too long to be repeated as often as learning a direction needs; "
    "--thorough repeats it more often."
)


@dataclass(frozen=True, eq=False)
class ReleaseNoise:
    """What is measured of a release by our SGD.

    Parameters
    ----------
    spec, scale
        The training, and the standard deviation of the noise added to each final weight.
    starts
        Initial weights of each class's model; None where the spec makes them.
    pairs
        The attacked pair, as each of these models sees it.
    D, at
        The records as the model `at` sees them.
    parameters
        Weights of one model.
    effort, seeds, neighbours
        How much to train.
    """

    spec: TrainSpec
    scale: float
    starts: Sequence[Floats | None]
    pairs: Sequence[Pair]
    D: Dataset
    at: int
    parameters: int
    effort: str
    seeds: int
    neighbours: int

    def evidence(self, directory: Path, progress: Progress) -> Evidence:
        """Train, or go on with it, and compare."""
        if measured_runs.is_deterministic(self.spec):
            return self._computed(progress)
        return self._measured(directory, progress)

    @property
    def models(self) -> int:
        """How many are released: one, or one a class."""
        return len(self.starts)

    def _drawn(self) -> Neighbours:
        many = min(measured_runs.DRAWN, self.neighbours)
        return measured_runs.drawn(self.D, self.pairs[self.at], many)

    # Without chance ----------------------------------------------------------------------

    def _computed(self, progress: Progress) -> Evidence:
        """One run on each dataset says all."""
        drawn, total = self._drawn(), self.models + 1
        parts = []
        for place, (start, pair) in enumerate(zip(self.starts, self.pairs, strict=True)):
            progress(place, total)
            both = Training(self.spec, start).once(pair.D, measured_runs.overlay(pair))
            parts.append(self._gap(ATTACKED, both[0], both[1]))
        progress(self.models, total)
        others = Training(self.spec, self.starts[self.at]).once(self.D, drawn)
        gaps = [self._gap(_worst_of(drawn), others[0], row) for row in others[1:]]
        worst = max(gaps, key=lambda each: each.size)
        progress(total, total)
        found = [together(parts, INDEPENDENT), worst.times(math.sqrt(self.models), ALIKE)]
        return Evidence(
            telling=found,
            isotropic=found,
            words=[
                "The training has no chance in it: it was run once on each dataset, and the "
                f"distance of the weights divided by {self.scale:.4g}, the standard deviation of "
                "the noise that is added to each of them.",
                *self._models_words(drawn),
            ],
        )

    def _gap(self, of: str, first: Floats, second: Floats) -> Distance:
        return Distance(of, EXACT_GAP, released.fixed(first, second, self.scale), NO_CHANCE)

    # With chance -------------------------------------------------------------------------

    def _measured(self, directory: Path, progress: Progress) -> Evidence:
        drawn = self._drawn()
        seeds, others = self._seeds(len(drawn))
        tally = Tally(progress, 2 * self.models * seeds + len(drawn) * others)
        weights = [
            Training(self.spec, start).grid(
                pair.D, seeds, measured_runs.overlay(pair), directory / f"pair-{place}", tally
            )
            for place, (start, pair) in enumerate(zip(self.starts, self.pairs, strict=True))
        ]
        grid = None
        if others:
            training = Training(self.spec, self.starts[self.at])
            grid = training.grid(self.D, others, drawn, directory / "drawn", tally)
        with threadpoolctl.threadpool_limits(1, user_api="blas"):
            found = self._attacked(weights)
            if grid is not None:
                self._add_drawn(found, grid, _worst_of(drawn))
        found.words += self._models_words(drawn if others else None)
        return found

    def _seeds(self, datasets: int) -> tuple[int, int]:
        """Of the attacked pair, and of the records drawn (0: none are)."""
        each = cost.of_run(self.spec, self.D.rows, self.D.features)
        # With noise of known size on top there is little to learn, and the grid's seeds are enough.
        wanted = self.seeds
        if self.scale == 0:
            wanted = measured_runs.seeds_of_pair(self.seeds, self.parameters)
        pair = measured_runs.affordable(self.effort, each, 2 * self.models, wanted)
        others = measured_runs.affordable(self.effort, each, datasets, self.seeds)
        return pair or FEW_SEEDS, others

    def _attacked(self, pairs: Sequence[Floats]) -> Evidence:
        """The attacked pair, in all models."""
        seeds = len(pairs[0])
        every = np.concatenate(pairs, axis=2)
        size = released.isotropic(every, self.scale, stream=stream("estimate", "one sigma"))
        found = Evidence(isotropic=[Distance.isotropic(ATTACKED, size)], why_none=TOO_LONG)
        found.words.append(self._noise_words(seeds))
        if seeds >= released.LEAST_SEEDS:
            repeats = measured_runs.repeats(seeds, self.parameters)
            parts = [
                released.between(
                    pair[:, 0],
                    pair[:, 1],
                    self.scale,
                    stream=stream("estimate", place),
                    repeats=repeats,
                )
                for place, pair in enumerate(pairs)
            ]
            distances = [Distance.telling(ATTACKED, part.distance) for part in parts]
            found.telling.append(together(distances, INDEPENDENT))
        return found

    def _add_drawn(self, found: Evidence, grid: Floats, name: str) -> None:
        """Records of the data, each replaced by another, in the model that was measured."""
        repeats = measured_runs.repeats(len(grid), self.parameters)
        drawn = stream("estimate", "drawn")
        worst = released.worst_neighbour(grid, self.scale, stream=drawn, repeats=repeats)
        size = released.isotropic(grid, self.scale, stream=drawn, base=0)
        times = math.sqrt(self.models)
        found.telling.append(Distance.telling(name, worst.distance).times(times, ALIKE))
        found.isotropic.append(Distance.isotropic(name, size).times(times, ALIKE))

    # In words ----------------------------------------------------------------------------

    def _noise_words(self, seeds: int) -> str:
        trained = f"The release's training was repeated with {seeds:,} seeds on the attacked pair"
        if self.spec.noise_multiplier:
            return f"{trained}, its noise inside: what it leaves in the weights was measured."
        return (
            f"{trained}. To the noise that its own chance leaves in the weights comes the noise "
            f"that is added to them, of standard deviation {self.scale:.4g}: known, not measured."
        )

    def _models_words(self, drawn: Neighbours | None) -> list[str]:
        words = []
        if drawn is None:
            words.append("No other pairs were tried: that would have taken too long.")
        else:
            words.append(
                f"Beside the attacked pair, {len(drawn) - 1} other pairs were tried: the records "
                "with one drawn and replaced by another, and with the attacked one among them."
            )
        if self.models > 1:
            words.append(
                f"There are {self.models} models, one a class: distances of the attacked pair add "
                "up over them in squares, and those of other pairs, seen in one of them, are taken "
                f"for those of all: they are multiplied by the square root of {self.models}."
            )
        return words


def _worst_of(drawn: Neighbours) -> str:
    return f"the worst of {len(drawn) - 1} other pairs of datasets"
