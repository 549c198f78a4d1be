"""`Effort`: how much an assessment trains and attacks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How much is trained and attacked.

    Parameters
    ----------
    seeds, neighbours
        Size of the grid that measures SGD's own noise.
    audit_runs
        Runs of an attack in each of two worlds, at most.
    repeats
        Releases made to see how much accuracy varies, at each epsilon of the curve.
    points
        Epsilons on the curve of accuracy; odd, so that the target is the middle one.
    measuring, accuracy, attacking
        Seconds, about, on two cores: for the runs of one study of SGD's own noise, for all repeats
        together, and for an attack on a release.
    """

    seeds: int
    neighbours: int
    audit_runs: int
    repeats: int
    points: int
    measuring: float
    accuracy: float
    attacking: float


EFFORTS = {
    "quick": Effort(32, 16, 1_000, 5, 5, 4.0, 8.0, 25.0),
    "standard": Effort(98, 50, 40_000, 20, 7, 8.0, 15.0, 60.0),
    "thorough": Effort(200, 100, 100_000, 50, 9, 120.0, 90.0, 600.0),
}
