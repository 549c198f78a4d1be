"""A public table beside the private one: the centre, the scale and the start are made of it alone,
and the promise is what it would be if its numbers had been written by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import sordino
from sordino import PrivateLinearSVC, PrivateLogisticRegression, tune
from sordino.errors import InvalidArgument
from sordino.release.bundle import CERTIFICATE

DELTA = 1e-5


def table(rows: int = 300, seed: int = 0, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Rows around (3, 3, 3), whose first two columns part the classes."""
    draw = np.random.default_rng(seed)
    y = draw.integers(0, classes, size=rows)
    X = 3 + 0.3 * draw.normal(size=(rows, 3))
    angle = 2 * math.pi * y / classes
    return X + np.column_stack([np.cos(angle), np.sin(angle), 0 * angle]), y


PUBLIC = table(60, seed=9)


def estimator(kind: Any = PrivateLogisticRegression, **more: Any) -> Any:
    how = {"epsilon": 1.0, "delta": DELTA, "classes": [0, 1], "bounds": (0, 6), "public": PUBLIC}
    return kind(**{**how, **more})


class TestWhatIsMadeOfIt:
    @pytest.mark.parametrize("method", ["auto", "noisy-gd", "dp-sgd", "rsgd-ar", "objective"])
    @pytest.mark.parametrize("more", [{}, {"scale": "public"}, {"public": (PUBLIC[0], None)}])
    def test_no_private_row_decides_anything(self, method: str, more: dict[str, Any]) -> None:
        X, y = table()
        found = []
        for rows in (X, -1000 * X, np.zeros_like(X), 1e200 * X, table(seed=5)[0]):
            fitting = estimator(method=method, **more)._prepare(rows, y[::-1].copy())
            assert fitting.coordinates is not None
            arrays = {name: a.tobytes() for name, a in fitting.coordinates.arrays.items()}
            found.append((fitting.plan, arrays, fitting.start.tobytes()))
        assert all(each == found[0] for each in found)

    def test_its_numbers_might_have_been_written_by_hand(self) -> None:
        """The same rows, start, plan and noise as with public arrays of the same numbers."""
        X, y = table()
        whole = estimator(scale="public", method="noisy-gd")._prepare(X, y)
        inside = np.clip(PUBLIC[0], 0, 6)
        numbers = {"center": inside.mean(axis=0), "scale": inside.std(axis=0)}
        by_hand = estimator(method="noisy-gd", public=None, **numbers)
        by_hand.initial_weights = whole.start
        other = by_hand._prepare(X, y)
        assert other.plan == whole.plan
        assert np.array_equal(other.start, whole.start)
        assert whole.start.any()
        # To a scale and back, in units of rows and of bounds: a few roundings.
        assert pytest.approx(whole.records.X, abs=1e-12) == other.records.X

    @pytest.mark.parametrize(
        ("kind", "classes"),
        [(PrivateLogisticRegression, 2), (PrivateLogisticRegression, 4), (PrivateLinearSVC, 3)],
    )
    def test_where_the_budget_is_nothing_the_model_is_the_public_one(
        self, kind: Any, classes: int
    ) -> None:
        X, y = table(2000, classes=classes)
        known = table(200, seed=9, classes=classes)
        how = {"classes": range(classes), "epsilon": 1e-3}
        model = estimator(kind, public=known, **how).fit(X, y)
        assert model.score(X, y) > 0.85  # by chance: at most 0.7

    def test_a_column_that_never_changes_is_divided_by_something(self) -> None:
        rows = PUBLIC[0].copy()
        rows[:, 2] = 3.0
        model = estimator(scale="public", public=(rows, PUBLIC[1])).fit(*table())
        assert np.isfinite(model.decision_function(table()[0])).all()
        alike = np.full((5, 3), 2.0)
        model = estimator(scale="public", public=(alike, None)).fit(*table())
        assert np.isfinite(model.decision_function(table()[0])).all()


class TestPapers:
    @pytest.mark.parametrize(
        "how",
        [
            {},
            {"scale": "public"},
            {"center": "none"},
            {"bounds": None},
            {"method": "objective"},
            {"method": "majority"},
        ],
    )
    @pytest.mark.filterwarnings("ignore:Not private. method='majority'")
    def test_a_loaded_model_sees_rows_alike_and_holds_no_table(
        self, how: dict[str, Any], tmp_path: Path
    ) -> None:
        X, y = table()
        model = estimator(**how).fit(X, y)
        place = model.save(tmp_path / "m")
        loaded = sordino.load(place)
        for rows in (X, 1e3 * X, -1e30 * X):
            assert np.array_equal(loaded.decision_function(rows), model.decision_function(rows))
        assert loaded.public is None
        assert '"public":' not in (place / CERTIFICATE).read_text()
        settings = model.certificate_.model.settings
        if "method" not in how:
            assert settings["center"] == ("none" if "center" in how else "public")
            assert settings["scale"] == ("public" if "scale" in how else "none")

    def test_scikit_learn_and_a_search_handle_it(self) -> None:
        X, y = table()
        copied = clone(estimator())
        assert copied.public[0] is not PUBLIC[0]
        assert copied.fit(X, y).privacy_.epsilon <= 1
        chosen = tune(
            [estimator(method="noisy-gd"), estimator(method="noisy-gd", public=None)],
            *(X, y),
            score=lambda model: float(model.public is not None),
            epsilon=2.0,
            delta=DELTA,
            mean_runs=9,
        )
        assert chosen.privacy_.epsilon <= 2

    def test_tables_with_names(self) -> None:
        X, y = (pd.DataFrame(each) for each in table())
        X.columns = ["a", "b", "c"]
        known = pd.DataFrame(PUBLIC[0], columns=["a", "b", "c"])
        first = estimator(public=(known, PUBLIC[1]))._prepare(X, y[0])
        assert np.array_equal(first.start, estimator()._prepare(X.to_numpy(), y[0]).start)
        with pytest.raises(InvalidArgument, match="public table"):
            estimator(public=(known[["b", "a", "c"]], PUBLIC[1])).fit(X, y[0])


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"public": PUBLIC[0]}, "(X, y)"),
        ({"public": "Smith"}, "(X, y)"),
        ({"public": (PUBLIC[0][:, :2], PUBLIC[1])}, "2 features"),
        ({"public": (PUBLIC[0], PUBLIC[1][:3])}, "60 rows, 3 labels"),
        ({"public": (PUBLIC[0], PUBLIC[1] + 1)}, "classes"),
        ({"public": (PUBLIC[0] * math.nan, PUBLIC[1])}, "NaN"),
        ({"public": (PUBLIC[0][:0], PUBLIC[1][:0])}, "0 sample"),
        ({"center": "private"}, "center"),
        ({"scale": "private"}, "scale"),
        ({"center": "public", "public": None}, "center"),
        ({"initial_weights": [0.0] * 4}, "not both"),
    ],
)
def test_bad_ones_are_refused_and_nothing_is_fitted(how: dict[str, Any], says: str) -> None:
    X, y = table(40)
    model = estimator(**how)
    before = dict(model.__dict__)
    with pytest.raises(InvalidArgument) as refused:
        model.fit(X, y)
    assert says in str(refused.value)
    assert model.__dict__ == before
