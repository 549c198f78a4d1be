"""The settings of many tests; and the referees: one from below beside them, an exact one."""

from __future__ import annotations

import sys
from pathlib import Path

from sordino.privacy import Relation

HERE = Path(__file__).parent
for place in (HERE, HERE.parents[1] / "benchmarks"):  # lower_bound.py and referee/ are no tests
    sys.path.insert(0, str(place))

HOW = {
    "add-remove": {"sampling": "poisson", "relation": Relation.ADD_OR_REMOVE_ONE},
    "replace": {"sampling": "poisson", "relation": Relation.REPLACE_ONE},
    "fixed-size": {"sampling": "fixed-size", "relation": Relation.REPLACE_ONE},
}
"""Batches drawn at random, by the names that `lower_bound` has for their laws."""
