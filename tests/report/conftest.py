"""Lets tests of the report import `sample_assessment`, which is no test."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
