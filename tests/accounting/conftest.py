"""Lets tests import the referee beside them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for lower_bound.py, which is no test
