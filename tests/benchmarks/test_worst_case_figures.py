from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import worst_case  # noqa: E402

from sordino.audit.worst_case import Family  # noqa: E402


def test_flat_figures_are_means_relative_to_theory() -> None:
    out = worst_case.Found(speed={100: (1000, 2.0), 1024: (50, 1.0)})
    for value in (1.6, 1.8):
        out.add("ours", 100, 2.0, value)
        out.add("ours", 1024, 4.0, value)
    for value in (2.2, math.inf):
        out.add("paper_printed", 100, 2.0, value)
    out.add("paper_restricted", 100, 2.0, 2.2)
    figures = worst_case.flat(out)
    assert figures == {
        "runs_per_s": 500.0,
        "runs_per_s_1024_steps": 50.0,
        "reach_eps2": pytest.approx(0.85),
        "reach_eps4_1024_steps": pytest.approx(0.425),
        "paper_printed_eps2": None,
        "paper_printed_eps2_none_fits": 0.5,
        "paper_restricted_eps2": pytest.approx(1.1),
    }


def test_one_small_repeat_fills_every_way() -> None:
    out, family = worst_case.Found(), Family(1.0, 1)
    size = worst_case.Size(estimate=300, bound=600)
    worst_case.repeat(family, 4.0, 0, 0, size, out)
    assert out.speed[1][0] == 1200
    assert out.values["paper_printed"][1, 4.0] == [math.inf]
    (ours,) = out.values["ours"][1, 4.0]
    assert 2.0 < ours < 4.0
    (area,) = out.values["area"][1, 4.0]
    assert area == pytest.approx(4.0, rel=0.3)
    panels = worst_case.figure_two(out, [family])
    assert [one.values[4.0] for one in panels["q = 1, T = 1"]][3] == [ours]
