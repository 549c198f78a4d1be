"""Lets tests import the referees: one from below beside them, an exact one of the benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
for place in (HERE, HERE.parents[1] / "benchmarks"):  # lower_bound.py and referee/ are no tests
    sys.path.insert(0, str(place))
