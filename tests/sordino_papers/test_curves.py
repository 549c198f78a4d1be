"""Training curves: the loss and accuracy of the models that were trained, and who is better."""

import numpy as np
import pytest

from sordino.errors import InvalidArgument
from sordino_papers import kinds
from sordino_papers.bench import Bench
from sordino_papers.claims import PaperRun
from sordino_papers.own_noise import curves
from sordino_papers.own_noise.curves import QUANTITIES

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
        patched.setitem(kinds.makers(), "grid", lambda settings, bench: {})
        return curves.make(SETTINGS, Bench(tmp_path_factory.mktemp("bench"), runs))


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
    from sordino_papers.own_noise.grid import GridSettings

    data = load("digits/binary").train
    spec = GridSettings.read({**GRID, "steps": 60}).spec
    weights = train(spec, data, [0])[0, 0, 0].astype(float)
    chance = 1 / (1 + np.exp(-(data.X @ weights[:-1] + weights[-1])))
    expected = -np.mean(np.where(data.y == 1, np.log(chance), np.log(1 - chance)))
    assert numbers["fast/loss"][-1, 0] == pytest.approx(expected, rel=1e-5)  # float32 weights
    assert numbers["fast/accuracy"][-1, 0] == np.mean((chance > 0.5) == data.y)


@pytest.mark.slow
def test_who_is_better_and_sooner(numbers):
    assert QUANTITIES["better_at_the_end"](numbers, variant="fast").value > 0
    assert QUANTITIES["better_at_the_end"](numbers, variant="slow").value < 0
    assert QUANTITIES["better_at_the_end"](numbers, variant="fast", of="loss").value > 0
    made = {"steps": np.array([1, 2, 4, 8]), "chosen": np.array(4)}
    for name, means in (("a", [0.5, 0.8, 0.9, 0.9]), ("b", [0.5, 0.6, 0.7, 0.95])):
        made[f"{name}/loss"] = made[f"{name}/accuracy"] = np.array(means)[:, None]
    assert QUANTITIES["reaches_others_after"](made, variant="a").value == 0.5
    assert QUANTITIES["reaches_others_after"](made, variant="b").value == 2.0
    made["b/accuracy"] = made["b/accuracy"] - 0.2
    assert QUANTITIES["reaches_others_after"](made, variant="b").value == np.inf


def test_settings_are_read_strictly(tmp_path):
    with pytest.raises(InvalidArgument, match="settings"):
        curves.make({"models": 1}, Bench(tmp_path, {}))
