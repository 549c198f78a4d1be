"""Feature values: what is counted is what is there."""

from types import SimpleNamespace

import numpy as np
import pytest

from sordino.errors import InvalidArgument
from sordino_papers.own_noise import features
from sordino_papers.own_noise.features import QUANTITIES

VALUES = {
    "dense": np.array([[-2.0, -1.0], [1.0, 2.0]]),
    "sparse": np.array([[0.0, 0.0], [0.0, 10.0]]),
}


def splits(name):
    return SimpleNamespace(train=SimpleNamespace(X=VALUES[name].astype(np.float32)))


@pytest.fixture
def numbers():
    settings = {"variants": {"a": "dense", "b": "sparse"}, "bins": 12}
    return features.make(settings, SimpleNamespace(splits=splits))


def test_both_share_bins_that_hold_everything(numbers):
    assert numbers["edges"][[0, -1]].tolist() == [-2, 10]
    for variant in "ab":
        assert numbers[f"{variant}/density"].sum() * 1.0 == pytest.approx(1)


def test_zeros_skewness_and_kurtosis(numbers):
    assert QUANTITIES["zero_features"](numbers, variant="b").value == 75
    assert QUANTITIES["zero_features"](numbers, variant="a").value == 0
    assert QUANTITIES["feature_skewness"](numbers, variant="a").value == pytest.approx(0)
    # By hand: of 0, 0, 0, 10 the deviations are -2.5 three times and 7.5; 2 / sqrt(3) and -2 / 3.
    assert QUANTITIES["feature_skewness"](numbers, variant="b").value == pytest.approx(2 / 3**0.5)
    found = QUANTITIES["kurtosis_above"](numbers, variant="b", other="a")
    assert found.value == pytest.approx(-2 / 3 - (34 / 4 / 2.5**2 - 3))


def test_settings_are_read_strictly():
    with pytest.raises(InvalidArgument, match="settings"):
        features.make({"variants": {}, "bins": 3, "colour": 1}, SimpleNamespace(splits=splits))
