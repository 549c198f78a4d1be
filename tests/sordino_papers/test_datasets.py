"""Rows and columns, feature values and training curves: what is counted is what is there."""

from types import SimpleNamespace

import numpy as np
import pytest
from small_paper import ask

from sordino.errors import InvalidArgument
from sordino_papers import datasets
from sordino_papers.claims import PaperRun
from sordino_papers.runs import NotHere, RunStore, makers
from sordino_papers.sgd_noise.grid import GridSettings


def store(tmp_path, **settings):
    run = PaperRun("v2/some", "sizes", settings, {})
    return RunStore(tmp_path, {run.name: run}, data_dir=tmp_path)


def asked(numbers):
    names = ("training_size", "validation_size", "test_size", "features")
    return {name: ask(name, numbers).value for name in names}


def test_rows_and_columns_of_an_embedded_dataset(tmp_path):
    numbers = store(tmp_path, data="breast-cancer").numbers("v2/some")
    assert asked(numbers) == {
        "training_size": 410,
        "validation_size": 45,
        "test_size": 114,
        "features": 30,
    }
    assert ask("features", numbers, intercept=True).value == 31


def test_missing_files_make_the_run_not_runnable(tmp_path):
    with pytest.raises(NotHere, match=r"adult"):
        store(tmp_path, data="adult").numbers("v2/some")


def test_an_unknown_setting_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="dataset"):
        datasets.make_sizes({"dataset": "adult"}, store(tmp_path))


VALUES = {
    "dense": np.array([[-2.0, -1.0], [1.0, 2.0]]),
    "sparse": np.array([[0.0, 0.0], [0.0, 10.0]]),
}


def splits(name):
    return SimpleNamespace(train=SimpleNamespace(X=VALUES[name].astype(np.float32)))


@pytest.fixture
def values():
    settings = {"variants": {"a": "dense", "b": "sparse"}, "bins": 12}
    return datasets.make_features(settings, SimpleNamespace(splits=splits))


def test_both_share_bins_that_hold_everything(values):
    assert values["edges"][[0, -1]].tolist() == [-2, 10]
    for variant in "ab":
        assert values[f"{variant}/density"].sum() * 1.0 == pytest.approx(1)


def test_zeros_skewness_and_kurtosis(values):
    assert ask("zero_features", values, variant="b").value == 75
    assert ask("zero_features", values, variant="a").value == 0
    assert ask("feature_skewness", values, variant="a").value == pytest.approx(0)
    # By hand: of 0, 0, 0, 10 the deviations are -2.5 three times and 7.5; 2 / sqrt(3) and -2 / 3.
    assert ask("feature_skewness", values, variant="b").value == pytest.approx(2 / 3**0.5)
    found = ask("kurtosis_above", values, variant="b", other="a")
    assert found.value == pytest.approx(-2 / 3 - (34 / 4 / 2.5**2 - 3))


def test_settings_of_features_are_read_strictly():
    with pytest.raises(InvalidArgument, match="settings"):
        datasets.make_features(
            {"variants": {}, "bins": 3, "colour": 1}, SimpleNamespace(splits=splits)
        )


GRID = {
    "data": "digits/binary",
    "model": "logistic",
    "learning_rate": 0.5,
    "batch_size": 32,
    "steps": 40,
    "seeds": 4,
    "neighbours": 2,
}
SETTINGS = {
    "grids": ["a/slow", "a/fast"],
    "variants": ["slow", "fast"],
    "models": 3,
    "steps": 60,
    "checkpoints": 8,
}


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    slow = PaperRun("a/slow", "grid", {**GRID, "learning_rate": 0.005}, {})
    runs = {"a/slow": slow, "a/fast": PaperRun("a/fast", "grid", GRID, {})}
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(makers(), "grid", lambda settings, bench: {})
        return datasets.make_curves(SETTINGS, RunStore(tmp_path_factory.mktemp("bench"), runs))


@pytest.mark.slow
def test_curves_fall_and_rise_on_the_way(numbers):
    assert numbers["steps"][[0, -1]].tolist() == [1, 60]
    assert int(numbers["chosen"]) == 40
    loss, accuracy = numbers["fast/loss"], numbers["fast/accuracy"]
    assert loss.shape == accuracy.shape == (len(numbers["steps"]), 3)
    assert (loss[-1] < loss[0]).all()
    assert (accuracy[-1] > accuracy[0]).all()


@pytest.mark.slow
def test_a_loss_is_the_cross_entropy_of_the_weights(numbers, tmp_path):
    from sordino.data import load
    from sordino.sgd import train

    data = load("digits/binary").train
    spec = GridSettings.read({**GRID, "steps": 60}).spec
    weights = train(spec, data, [0])[0, 0, 0].astype(float)
    chance = 1 / (1 + np.exp(-(data.X @ weights[:-1] + weights[-1])))
    expected = -np.mean(np.where(data.y == 1, np.log(chance), np.log(1 - chance)))
    assert numbers["fast/loss"][-1, 0] == pytest.approx(expected, rel=1e-5)  # float32 weights
    assert numbers["fast/accuracy"][-1, 0] == np.mean((chance > 0.5) == data.y)


@pytest.mark.slow
def test_who_is_better_and_sooner(numbers):
    assert ask("better_at_the_end", numbers, variant="fast").value > 0
    assert ask("better_at_the_end", numbers, variant="slow").value < 0
    assert ask("better_at_the_end", numbers, variant="fast", of="loss").value > 0
    made = {"steps": np.array([1, 2, 4, 8]), "chosen": np.array(4)}
    for name, means in (("a", [0.5, 0.8, 0.9, 0.9]), ("b", [0.5, 0.6, 0.7, 0.95])):
        made[f"{name}/loss"] = made[f"{name}/accuracy"] = np.array(means)[:, None]
    assert ask("reaches_others_after", made, variant="a").value == 0.5
    assert ask("reaches_others_after", made, variant="b").value == 2.0
    made["b/accuracy"] = made["b/accuracy"] - 0.2
    assert ask("reaches_others_after", made, variant="b").value == np.inf


def test_settings_are_read_strictly(tmp_path):
    with pytest.raises(InvalidArgument, match="settings"):
        datasets.make_curves({"models": 1}, RunStore(tmp_path, {}))
