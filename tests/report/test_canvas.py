"""The look of figures."""

from __future__ import annotations

import numpy as np
import pytest

from sordino.report import canvas


@pytest.mark.parametrize("many", [1, 5, 400, 401, 10**6])
def test_thinning_keeps_both_ends(many: int) -> None:
    at = canvas.thinned(many, 400)
    assert (at[0], at[-1]) == (0, many - 1)
    assert (np.diff(at) > 0).all()
    assert len(at) <= 400 or many == len(at)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.05, "0.05"), (1000, "1,000"), (20.0, "20"), (1e-5, "1e-5"), (2e7, "2e7"), (0, "0")],
)
def test_ticks_are_plain_numbers(value: float, text: str) -> None:
    assert canvas.plain(value) == text
