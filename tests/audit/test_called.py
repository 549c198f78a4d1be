"""What a run is handed: the same data, whatever the runs before it did."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from sordino.audit.runners.outputs import outputs
from sordino.errors import InvalidArgument

ONE = np.array([0.0, 0.0, 1.0])


def change_list(data):
    data.append(len(data))
    return len(data)


def change_frame(data):
    data.iloc[0, 0] += 1
    return data.iloc[0, 0]


def change_inside(data):
    data["rows"].append(1)
    data["new"] = 0
    return [len(data["rows"]), len(data), *data["fixed"]]


def change_cells(data):
    data[0].append(1)
    return len(data[0])


class TestDataIsTheSameForEveryRun:
    @pytest.mark.parametrize(
        ("change", "make"),
        [
            (change_list, lambda: [1, 2]),
            (change_frame, lambda: pd.DataFrame({"a": [1, 2]})),
            (change_inside, lambda: {"rows": [], "fixed": ONE}),
            (change_cells, lambda: np.array([[], 1], dtype=object)),
        ],
    )
    def test_whatever_a_run_does_to_it(self, change, make):
        data, untouched = make(), make()
        found = outputs(lambda data, g: change(data), data, data, 30, workers=1)
        assert len(np.unique(np.stack(found).reshape(60, -1), axis=0)) == 1
        assert repr(data) == repr(untouched)

    def test_arrays_are_not_copied(self):
        def same(data, generator):
            return float(np.shares_memory(data["X"], ONE))

        assert np.stack(outputs(same, {"X": ONE}, {"X": ONE}, 20, workers=1)).all()

    def test_frames_of_an_estimator(self):
        class Greedy(BaseEstimator):
            def fit(self, X, y):
                self.coef_ = np.array([X.iloc[0, 0]])
                X.iloc[0, 0] += 1
                return self

        frame = pd.DataFrame({"a": [1.0, 2.0]})
        found = outputs(Greedy(), (frame, frame["a"]), (frame, frame["a"]), 20, workers=1)
        assert (np.stack(found) == 1).all()

    def test_a_generator_in_it_would_be_copied(self):
        data = {"X": ONE, "deep": [np.random.default_rng(0)]}
        with pytest.raises(InvalidArgument, match=r"D=\[holds a Generator\] to hold no generator"):
            outputs(lambda data, g: data["deep"][0].normal(), data, data, 20)
