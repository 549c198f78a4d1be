"""Kind "grid": real small grids, against `summary` and against the weights themselves."""

import math
from pathlib import Path

import numpy as np
import pytest

from sordino import randomness
from sordino.data import load as load_data
from sordino.errors import InvalidArgument
from sordino.intrinsic.grid import load
from sordino.intrinsic.summary import summary
from sordino.models import build
from sordino_papers.claims import PaperRun
from sordino_papers.runs import RunStore
from sordino_papers.sgd_noise import grid

LOGISTIC = {
    "data": "digits/binary",
    "model": "logistic",
    "learning_rate": 0.5,
    "batch_size": 32,
    "steps": 90,
    "seeds": 9,
    "neighbours": 5,
    "checkpoints": 3,
    "tested": 2,
}


def bench(directory, **runs):
    named = {
        f"v2/{name}": PaperRun(f"v2/{name}", "grid", given, {}) for name, given in runs.items()
    }
    return RunStore(directory, named)


def where(settings, store):
    """Directory of the study of a grid."""
    return store.folder("grid", grid.GridSettings.read(settings).trained)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The numbers of a logistic grid, its study and the calls that told progress."""
    told = []
    here = bench(tmp_path_factory.mktemp("bench"), some=LOGISTIC)
    here.begin = lambda name: lambda done, total: told.append((done, total))
    numbers = here.numbers("v2/some")
    return numbers, load(where(LOGISTIC, here)), told


def test_numbers_are_those_of_the_summary(made):
    numbers, measured, _ = made
    whole = summary(measured)
    assert numbers["n"] == whole.measured.dataset.size == 1293
    assert numbers["delta_v2"] == whole.delta
    assert numbers["delta_v1"] == pytest.approx(math.sqrt(whole.delta))
    assert numbers["experiments"] == 9 * 5 * 2
    assert numbers["steps"].tolist() == [30, 60, 90]
    assert numbers["bound_printed"] == whole.theory.printed.value
    assert numbers["bound_holds"] == whole.theory.bound.worst
    assert numbers["bound_curve/holds"][-1] == whole.theory.bound.worst
    for init in ("vary", "fixed"):
        one = whole.of(init)
        assert numbers[f"{init}/sensitivity"] == pytest.approx(one.sensitivity, rel=1e-12)
        assert numbers[f"{init}/sigma"][0] == one.sigma["minimum"].value
        assert numbers[f"{init}/sigma_median"][0] == one.sigma["median"].value
        assert numbers[f"{init}/sigma_norm"][0] > 0
        assert np.allclose(numbers[f"{init}/delta_v"], one.delta_v.values, rtol=1e-6)
        assert np.allclose(numbers[f"{init}/by_steps/sensitivity"], one.by_steps.sensitivity)
        assert np.allclose(numbers[f"{init}/by_steps/sigma"], one.by_steps.sigma)
        assert np.allclose(
            numbers[f"{init}/p_values"], one.normality.p_values[:2], equal_nan=True, rtol=1e-5
        )


def test_a_pass_of_whole_batches_is_shorter(made):
    numbers, _, _ = made
    ratio = numbers["bound_whole_batches"] / numbers["bound_printed"]
    assert ratio == pytest.approx((1293 / 32) / (1293 // 32))


def test_pairs_are_of_replaced_records_only(made):
    numbers, measured, _ = made
    W = measured.final("vary")[:, 1:]
    by_hand = np.linalg.norm(W[:, 0] - W[:, 1], axis=1)
    assert len(numbers["vary/delta_s_pairs"]) == 5 * 4 // 2
    assert numbers["vary/delta_s_pairs"][0] == pytest.approx(by_hand.mean(), rel=1e-6)
    assert numbers["vary/delta_s_pairs_largest"][0] == pytest.approx(by_hand.max(), rel=1e-6)


def test_accuracy_is_that_of_runs_on_test_rows(made):
    numbers, measured, _ = made
    test = load_data("digits/binary").test
    objective = build(measured.spec.objective, test.features)
    every = objective.accuracy(measured.final("vary"), test.X, test.y)
    mean, low, high = numbers["vary/accuracy"]
    assert low < mean < high
    assert every.min() <= mean <= every.max()
    assert mean == pytest.approx(every.mean(), abs=0.01)  # another record matters far less


def test_progress_counts_runs(made):
    _, _, told = made
    assert told[0] == (0, 9 * 6 * 2)
    assert told[-1] == (9 * 6 * 2, 9 * 6 * 2)


def test_the_same_settings_give_the_same_numbers(made, tmp_path):
    again = bench(tmp_path, some=LOGISTIC).numbers("v2/some")
    for name, value in made[0].items():
        if name != "_seconds":
            assert np.array_equal(value, again[name], equal_nan=value.dtype.kind == "f"), name


def test_only_what_changes_the_weights_names_the_study():
    here = bench(Path("somewhere-not-made"))
    here.store = lambda *parts: parts
    other = {**LOGISTIC, "tested": 1, "accuracy_runs": 3, "follow": [0, 1], "claimed_norm": 2.0}
    assert where(LOGISTIC, here) == where(other, here)
    assert where(LOGISTIC, here) != where({**LOGISTIC, "steps": 91}, here)


def test_half_the_data_has_as_many_passes(tmp_path):
    given = {**LOGISTIC, "half": True, "init": ["vary"], "checkpoints": 1}
    here = bench(tmp_path, some=given)
    numbers = here.numbers("v2/some")
    assert numbers["n"] == 1294 // 2 - 1
    assert numbers["steps"].tolist() == [45]
    assert "fixed/sigma" not in numbers
    whole = load_data("digits/binary").train
    drawn = randomness.stream("reproduce", "half", "digits/binary").permutation(1294)[::2]
    half = whole.take(np.sort(drawn))  # drawn at random, in the order they have
    assert load(where(given, here)).dataset.sha256 == half.fingerprint


def test_a_network_has_no_bound_and_follows_its_weights(tmp_path):
    given = {
        **LOGISTIC,
        **{"model": "mlp", "hidden": 3, "seeds": 4, "neighbours": 2, "steps": 20},
        **{"checkpoints": 2, "follow": [5, 7], "init": "fixed", "tested": 1},
    }
    here = bench(tmp_path, some=given)
    numbers = here.numbers("v2/some")
    assert numbers["hidden"] == 3
    assert numbers["parameters"] == 3 * 65 + 4
    assert math.isnan(numbers["bound_printed"])
    assert len(numbers["bound_curve/holds"]) == 0
    weights = load(where(given, here)).weights("fixed")
    assert numbers["trajectory_weights"].tolist() == [5, 7]
    assert np.array_equal(numbers["fixed/trajectories"], weights[:, 0][:, :, [5, 7]])


def test_a_claimed_norm_gives_the_papers_bound_and_none_that_holds(tmp_path, monkeypatch):
    from sordino.data.catalogue.recipes import Splits
    from sordino.data.dataset import Dataset

    real = load_data("digits/binary")
    train = Dataset(real.train.X * 3, real.train.y, None, "scaled up")
    splits = Splits(train, None, None, real.recipe, ())
    given = {**LOGISTIC, "seeds": 3, "neighbours": 2, "claimed_norm": 1.0, "init": ["vary"]}
    here = bench(tmp_path, some=given)
    monkeypatch.setattr(here, "splits", lambda data, form: splits)
    numbers = here.numbers("v2/some")
    assert numbers["bound_printed"] == pytest.approx(
        2 * math.sqrt(2) * 0.5 / 32 * 90 * 32 / 1293  # 2 k L eta / B
    )
    assert math.isnan(numbers["bound_holds"])
    assert "vary/accuracy" not in numbers


def test_an_unknown_setting_is_refused():
    with pytest.raises(InvalidArgument, match="epochs"):
        grid.GridSettings.read({**LOGISTIC, "epochs": 3})
