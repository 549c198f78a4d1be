"""Times of steps taken by turns, and ratios within a turn: other work on the machine hits all."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Step = Callable[[], object]
Times = dict[str, list[float]]
SLOW_S = 5.0
"""A step that takes longer is timed in the first round only, without one to warm up."""


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
"""CPU time is for busy machines, with one thread: a second one that waits costs CPU time, too."""


@dataclass(frozen=True)
class Pace:
    """How often: so many rounds, each cell repeated until it lasts `cell_s` seconds of a clock."""

    rounds: int
    cell_s: float
    clock: str = "wall"

    def seconds(self, step: Step, repeats: int = 1) -> float:
        """Of one step, the mean over repeats."""
        now = CLOCKS[self.clock]
        began = now()
        for _ in range(repeats):
            step()
        return (now() - began) / repeats


def by_turns(steps: Mapping[str, Step], pace: Pace) -> Times:
    """Seconds of every step in every round. Rounds start with another step each time."""
    repeats, slow = {}, set()
    for name, step in steps.items():
        took = pace.seconds(step)
        if took > SLOW_S:
            slow.add(name)
        else:
            took = pace.seconds(step)  # the first sets up whatever is set up once
        repeats[name] = max(1, math.ceil(pace.cell_s / took)) if took else 1
    names, times = list(steps), {name: [] for name in steps}
    for turn in range(pace.rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            if name in slow:
                if turn == 0:
                    times[name].append(pace.seconds(steps[name]))
                continue
            steps[name]()  # what another step threw out of the caches comes back
            times[name].append(pace.seconds(steps[name], repeats[name]))
    return times


def ratio(times: Times, above: str, below: str) -> float:
    """Median of the ratios within rounds."""
    pairs = zip(times[above], times[below], strict=False)  # slow ones stop after the first round
    return statistics.median(one / other for one, other in pairs)
