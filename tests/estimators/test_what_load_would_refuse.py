"""What `load` would refuse is neither written nor charged, and nothing of an earlier fit stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sordino import Ledger, PrivateLogisticRegression
from sordino.errors import InvalidArgument
from sordino.release import bundle
from sordino.release.certificate import CertificateError
from sordino.release.verify import check_consistent

RNG = np.random.default_rng(1)
X = RNG.uniform(-0.5, 0.5, (200, 3))
Y = (X[:, 0] > 0).astype(int)
COLUMNS = "[columns.a]\nbounds = [0, 1]\n"
CORPUS = Path(__file__).parents[1] / "corpus" / "bundles"


class Mine(PrivateLogisticRegression):
    pass


def model(cls: Any = PrivateLogisticRegression) -> Any:
    return cls(epsilon=1.0, data_norm=1.0, classes=[0, 1])


@pytest.mark.parametrize(
    ("cls", "more"),
    [
        (PrivateLogisticRegression, {"sign": lambda content: b"x" * 63}),
        (PrivateLogisticRegression, {"sign": lambda content: None}),
        (PrivateLogisticRegression, {"columns": COLUMNS}),
        (Mine, {}),
    ],
    ids=["short signature", "no signature", "other columns", "subclass"],
)
def test_nothing_is_written_or_charged(tmp_path: Path, cls: Any, more: dict[str, Any]) -> None:
    with Ledger(tmp_path / "ledger.db", dataset="mine", epsilon=5, delta=1e-2) as book:
        with pytest.raises((InvalidArgument, CertificateError)):
            model(cls).fit_and_save(X, Y, tmp_path / "model", **more)
        assert book.status().entries == ()
    assert not (tmp_path / "model").exists()


def test_names_of_an_earlier_fit_do_not_stay(tmp_path: Path) -> None:
    made = model().fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y)
    made.fit_and_save(X, Y, tmp_path / "model")
    assert not hasattr(made, "feature_names_in_")
    made.predict(X)


@pytest.mark.parametrize("noise", ["", "Seeded generator (seed 42): repeatable", "none at all"])
def test_no_version_of_the_papers_may_name_another_noise(noise: str) -> None:
    honest = bundle.read(CORPUS / "auto-named").certificate
    check_consistent(honest)
    for version in (honest.versions["sordino"], "0.0.9"):
        forged = replace(honest, noise=noise, versions=honest.versions | {"sordino": version})
        with pytest.raises(CertificateError, match="noise"):
            check_consistent(forged)
