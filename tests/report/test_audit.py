"""The picture of an audit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sordino.accounting.profile import ApproximateProfile
from sordino.privacy import Relation
from sordino.report.drawing.roc import Roc, errors, plot

RNG = np.random.default_rng(4)
NEGATIVE, POSITIVE = RNG.normal(0, 1, 300).round(1), RNG.normal(1, 1, 200).round(1)


def test_errors_are_counted_at_every_threshold() -> None:
    alphas, betas = errors(NEGATIVE, POSITIVE)
    thresholds = [*np.unique(np.concatenate([NEGATIVE, POSITIVE])), np.inf]
    assert alphas.tolist() == pytest.approx([(t <= NEGATIVE).mean() for t in thresholds])
    assert betas.tolist() == pytest.approx([(t > POSITIVE).mean() for t in thresholds])
    assert (alphas[0], betas[0], alphas[-1], betas[-1]) == (1, 0, 0, 1)


@pytest.mark.parametrize("claimed", [True, False])
def test_one_audit_gives_one_picture(tmp_path: Path, claimed: bool) -> None:
    budget = {"relation": Relation.REPLACE_ONE, "theorem": "claimed", "budget": (1.0, 1e-5)}
    profile = ApproximateProfile(**budget) if claimed else None
    roc = Roc(NEGATIVE, POSITIVE, (0.1, 0.6), profile, "epsilon 1", "noise")
    for name in ("first.svg", "second.svg"):
        plot(roc, str(tmp_path / name))
    first, second = ((tmp_path / name).read_text() for name in ("first.svg", "second.svg"))
    assert first == second
    assert "<svg" in first
