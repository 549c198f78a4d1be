"""Accuracies under noise: counted right, with the authors' vector, and asked in the paper's way."""

import numpy as np
import pytest
from small_paper import ask

from sordino.errors import InvalidArgument
from sordino_papers.claims import PaperRun
from sordino_papers.runs import RunStore, makers
from sordino_papers.sgd_noise import noise
from sordino_papers.sgd_noise.quantities import Trio

GRID = {
    "data": "digits/binary",
    "model": "logistic",
    "learning_rate": 0.5,
    "batch_size": 32,
    "steps": 60,
    "seeds": 8,
    "neighbours": 4,
}
NOISE = {
    "grid": "a/grid",
    "epsilons": [1.0, 0.5],
    "delta": 1e-5,
    "vector": 0,
    "models": 12,
    "draws": 6,
    "drawn_models": 5,
    "cases": {
        "all": {"sensitivity": 0.2, "sigma": 0.0},
        "some": {"sensitivity": 0.2, "sigma": 0.5, "maximum": True},
        "none": {"sensitivity": "vary/sensitivity", "sigma": 1e6},
    },
}


MEASURED = {
    "seeds": np.array(8),
    "neighbours": np.array(4),
    "vary/sensitivity": np.array(0.3),
    "vary/delta_s": np.linspace(0.1, 0.3, 200),
    "fixed/sensitivity": np.array(0.36),
    "fixed/delta_s": np.linspace(0.12, 0.36, 200),
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Models are trained; what the grid would have measured is made up."""
    tests = {**NOISE, "rows": "tests", "draws": 2}
    given = {"a/grid": ("grid", GRID), "a/noise": ("noise", NOISE), "a/tests": ("noise", tests)}
    runs = {name: PaperRun(name, kind, settings, {}) for name, (kind, settings) in given.items()}
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(makers(), "grid", lambda settings, bench: MEASURED)
        yield RunStore(tmp_path_factory.mktemp("bench"), runs)


@pytest.fixture(scope="module")
def numbers(bench):
    return bench.numbers("a/noise")


def test_a_row_is_right_where_the_noisy_score_has_the_sign_of_its_label():
    stream = np.random.default_rng(1)
    X, y = stream.normal(size=(50, 3)).astype(np.float32), stream.integers(0, 2, 50)
    W, vector = stream.normal(size=(4, 4)), stream.normal(size=4)
    bed = noise.Bed.of(W, X, y)
    sigmas = np.array([[0.0, 0.3], [1.0, 20.0]])
    found = bed.under(vector, sigmas)
    assert found.shape == (2, 2, 4)
    for at, sigma in np.ndenumerate(sigmas):
        scores = (W + sigma * vector) @ np.hstack([X, np.ones((50, 1))]).T
        assert found[at].tolist() == ((scores > 0) == y).sum(axis=1).tolist()
    assert bed.under(vector, sigmas, 2).tolist() == found[..., :2].tolist()
    assert bed.noiseless.tolist() == found[0, 0].tolist()


def test_the_authors_vector_is_that_of_the_legacy_generator():
    # The first numbers of numpy.random.seed(0); numpy.random.normal(), as many people know them.
    found = noise.authors_vector(0, 3)
    assert found == pytest.approx([1.76405235, 0.40015721, 0.97873798], abs=1e-8)


def test_noise_that_is_not_counted_gains_nothing_and_enough_of_it_leaves_none(numbers):
    counted = Trio.of(numbers, "all", 1.0)
    assert counted.part("gain").tolist() == [0.0] * 12
    assert np.any(counted.part("target") != counted.part("noiseless"))
    enough = Trio.of(numbers, "none", 0.5)
    assert enough.part("augmented").tolist() == enough.part("noiseless").tolist()
    assert numbers["none/sigma_augmented"].max() == 0
    some = numbers["some/sigma_augmented"] / numbers["some/sigma_target"]
    assert np.all((some > 0) & (some < 1))


def test_sigma_target_is_the_papers_formula(numbers):
    multiplier = np.sqrt(2 * np.log(1.25 / 1e-5))
    assert numbers["all/sigma_target"] == pytest.approx(multiplier * 0.2 / np.array([[1.0, 0.5]]))


def test_a_maximum_has_a_range_around_it_and_draws_have_only_the_first_level(numbers):
    levels = numbers["some/sensitivities"]
    assert levels[0] == pytest.approx(0.2)
    assert np.all(np.diff(levels[1:]) > 0)
    # A maximum from a fixed start, where all distances are 1.2 times as large.
    assert np.median(levels[1:]) == pytest.approx(1.2 * 0.2, rel=0.02)
    assert numbers["some/target"].shape == (1 + noise.LEVELS, 2, 12)
    assert numbers["drawn/some/target"].shape == (1, 2, 6, 5)
    same = {"seeds": 9, "neighbours": 9}
    for init, distance in (("vary", 2.0), ("fixed", 3.0)):
        same |= {f"{init}/delta_s": np.full(50, distance), f"{init}/sensitivity": distance}
    largest = noise.Largest.of(same, None)
    assert largest.around(10.0, known=True).tolist() == [10.0] + [15.0] * noise.LEVELS
    assert largest.around(3.0, known=False).tolist() == [3.0] * (1 + noise.LEVELS)


def test_the_largest_of_many_distances():
    uniform = {**MEASURED}
    for init in ("vary", "fixed"):
        uniform |= {f"{init}/delta_s": np.linspace(0, 1, 100_001), f"{init}/sensitivity": 1.0}
    few, many = (noise.Largest.of(uniform, size) for size in (10, 1000))
    assert few.median == pytest.approx(0.5 ** (1 / 10), abs=1e-4)
    assert noise.Largest.of(uniform, None).many == 16  # half of 8 x 4
    drawn = np.random.default_rng(0).random((4000, 2, 10)).max(axis=2)
    ends = np.quantile(drawn[:, 0] / drawn[:, 1], (0.025, 0.975))
    # Both are quantiles of a few thousand ratios, whose deviation is about 1 % there; the outermost
    # of 20 equally likely levels are the middles of a twentieth: 2.5 and 97.5 %.
    assert few.around(1.0, known=True)[[1, -1]] == pytest.approx(ends, rel=0.05)
    wide, narrow = (np.ptp(each.around(1.0, known=True)) for each in (few, many))
    assert narrow < wide / 10
    median = few.around(few.median, known=False)
    assert median[[1, -1]] == pytest.approx(np.quantile(drawn[:, 0], (0.025, 0.975)), rel=0.05)
    given = noise.NoiseSettings.read(NOISE)
    case = {"sensitivity": "largest", "sigma": 0.1, "comparisons": 10}
    assert noise.NoiseCase.of(case, given, uniform).sensitivities.tolist() == [few.median]


def test_vectors_differ_between_draws_and_models_do_not(numbers):
    held = Trio.of(numbers, "all", 0.5, "draws")
    assert np.ptp(held.part("noiseless"), axis=0).tolist() == [0.0] * 5
    assert (
        held.part("noiseless")[0].tolist()
        == Trio.of(numbers, "all", 0.5).part("noiseless")[:5].tolist()
    )
    assert np.ptp(held.part("target").mean(axis=1)) > 0


def test_the_same_settings_give_the_same_numbers(bench, numbers):
    again = noise.make(NOISE, bench)
    assert set(again) | {"_seconds", "_run"} >= set(numbers)
    for name, value in again.items():
        assert np.array_equal(value, numbers[name]), name


def test_other_test_rows_try_the_same_models_with_the_authors_vector(bench, numbers):
    found = bench.numbers("a/tests")
    assert bool(found["random_rows"])
    for name in ("noiseless", "some/target"):  # the recipe's own test rows come first
        assert found[name].tolist() == numbers[name].tolist()
    # The printed sensitivity, and one of its own for each draw.
    assert found["drawn/some/target"].shape == (2, 2, 2, 5)
    assert found["drawn/all/target"].shape == (1, 2, 2, 5)
    assert np.ptp(found["drawn/noiseless"].mean(axis=1)) > 0
    asked = ask("noisy_accuracy", found, case="some", epsilon=1.0)
    assert asked.words == "median of 2 draws"


def test_settings_are_read_strictly():
    with pytest.raises(InvalidArgument, match="settings"):
        noise.NoiseSettings.read({**NOISE, "colour": 1})
    with pytest.raises(InvalidArgument, match=r"cases\.odd"):
        noise.NoiseSettings.read({**NOISE, "cases": {"odd": {"sensitivity": 1.0}}})


# Rows as the authors made them ---------------------------------------------------------------


def test_components_are_turned_so_that_the_largest_score_is_positive():
    X = np.random.default_rng(3).exponential(size=(40, 6)) @ np.diag([3, 2, 1, 1, 1, 1.0])
    projection = noise.turn(X, 3)
    scores = projection.apply(X)
    assert (scores.max(axis=0) > -scores.min(axis=0)).all()
    variances = np.linalg.eigvalsh(np.cov(X.T))[::-1][:3]
    assert scores.var(axis=0, ddof=1) == pytest.approx(variances)


def test_other_test_rows_are_of_the_same_dataset(bench):
    own, other = list(noise.prepare(bench, "digits/binary", "tests", many=2))
    assert own[1].rows == other[1].rows
    assert own[0] is other[0]
    assert not np.array_equal(own[1].X, other[1].X)
    whole = bench.splits("digits/binary")
    parts = [part for part in (whole.train, whole.validation, whole.test) if part is not None]
    known = {(*row, label) for part in parts for row, label in zip(part.X, part.y, strict=True)}
    drawn = [(*row, label) for row, label in zip(other[1].X, other[1].y, strict=True)]
    assert set(drawn) <= known
    assert list(noise.prepare(bench, "digits/binary", "recipe", many=5))[1:] == []


def test_projections_are_many_and_need_images(bench, monkeypatch):
    stream = np.random.default_rng(0)
    pixels = noise.Pixels(
        stream.random((40, 9)), stream.integers(0, 2, 40), stream.random((8, 9)), np.zeros(8, int)
    )
    monkeypatch.setattr(noise, "_pixels", lambda *_: pixels)
    ways = [
        list(noise.prepare(bench, "x", "projections", many=3, components=4, scaled=scaled))
        for scaled in (True, False)
    ]
    assert [way[0].X.shape for way in ways[0]] == [(36, 4)] * 3  # a tenth is for validation
    assert not np.array_equal(ways[0][0][1].X, ways[0][1][1].X)
    assert ways[0][0][0].norm_bound == 1.0
    assert ways[1][0][0].norm_bound is None
    assert np.linalg.norm(ways[1][0][0].X, axis=1).max() > 1
    monkeypatch.undo()
    with pytest.raises(InvalidArgument, match="made of images"):
        next(noise.prepare(bench, "digits/binary", "projections", classes=(0, 1)))
    with pytest.raises(InvalidArgument, match="classes"):
        next(noise.prepare(bench, "cifar2", "components", classes=(0,)))


# What is asked of them -----------------------------------------------------------------------


def made(target, augmented, noiseless=(9, 9), *, drawn=None, levels=1):
    """Numbers of one case at one epsilon, 10 rows."""
    drawn = np.array(drawn if drawn is not None else [target, target])
    return {
        "rows": np.array(10),
        "positive": np.array(4),
        "epsilons": np.array([1.0]),
        "averaged": np.array(len(target)),
        "random_rows": np.array(False),
        "noiseless": np.array(noiseless),
        "c/sensitivities": np.ones(levels),
        "c/target": np.array([[target]] * levels),
        "c/augmented": np.array([[augmented]] * levels),
        "c/sigma": np.array(0.5),
        "c/sigma_target": np.array([[2.0]]),
        "drawn/noiseless": np.tile(noiseless, (len(drawn), 1)),
        "drawn/c/target": drawn[None, None],
        "drawn/c/augmented": drawn[None, None] + 1,
    }


def asked(name, numbers, **arguments):
    return ask(name, numbers, case="c", epsilon=1.0, **arguments)


def test_percent_of_gap_is_a_mean_of_ratios_where_no_gap_counts_as_none_closed():
    numbers = made([5, 8, 9], [6, 9, 9], [9, 9, 9])
    assert asked("gap_closed", numbers).value == pytest.approx(100 * (1 / 4 + 1 + 0) / 3)
    assert asked("gap_closed", numbers, of="means").value == pytest.approx(100 * 2 / 5)


def test_means_and_deviations_over_models():
    numbers = made([5, 7], [6, 7])
    assert asked("noisy_accuracy", numbers).value == pytest.approx(0.6)
    assert asked("noisy_spread", numbers).value == pytest.approx(np.std([0.5, 0.7], ddof=1))
    assert asked("gain", numbers).value == pytest.approx(0.05)
    assert ask("noiseless_accuracy", numbers).value == pytest.approx(0.9)
    found = asked("noisy_accuracy", numbers)
    assert (found.low, found.high) == pytest.approx((0.5, 0.7))  # two models, drawn again


def test_one_more_draw_lies_between_those_that_are_returned():
    drawn = [[value, value] for value in range(1, 80)]
    found = asked("noisy_accuracy", made([5, 7], [6, 7], drawn=drawn), over="draws")
    # Of 79 numbers, an 80th is as likely in each of 80 gaps: 2 of them at either end are 5 %.
    assert (found.low, found.value, found.high) == pytest.approx((0.2, 4.0, 7.8))


def test_an_interval_pools_the_equally_likely_levels_and_the_value_is_of_the_first():
    numbers = made([5, 5], [6, 6], levels=101)
    numbers["c/target"] = np.array([[[50, 50]], *([[level, level]] for level in range(100))])
    found = asked("noisy_accuracy", numbers)
    # 95 % of levels, not the union of what each of them gives: the outermost two are left out.
    assert (found.value, found.low, found.high) == pytest.approx((5.0, 0.2, 9.7))


def test_draws_of_rows_are_judged_with_sensitivities_of_their_own():
    drawn = [[value, value] for value in range(1, 80)]
    numbers = made([5, 7], [6, 7], drawn=drawn)
    own = numbers["drawn/c/target"] + 100
    numbers["drawn/c/target"] = np.concatenate([numbers["drawn/c/target"], own])
    numbers["drawn/c/augmented"] = np.repeat(numbers["drawn/c/augmented"], 2, axis=0)
    numbers["random_rows"] = np.array(True)
    found = asked("noisy_accuracy", numbers)
    assert (found.value, found.high) == pytest.approx((4.0, 17.8))
    assert found.low == 4.0  # never above the value


def test_own_vectors_against_one():
    numbers = made([5, 6], [6, 6], drawn=[[1, 2], [8, 9]])
    own = np.std([0.1, 0.2, 0.8, 0.9], ddof=1)
    found = asked("own_vectors_over_one", numbers)
    assert found.value == pytest.approx(own / np.std([0.5, 0.6], ddof=1))


def test_vectors_as_near_and_significance():
    numbers = made([5, 6], [7, 8], drawn=[[5, 6], [1, 1]])
    how = {"case": "c", "printed": [[1.0, 0.55]], "within": 0.01}
    assert ask("share_of_vectors_as_near", numbers, **how).words == "1 of 2"
    assert asked("gain_p_value", numbers).value == 0.0  # every model gains the same
    assert asked("gain_p_value", made([7, 8], [5, 6])).value == 1.0  # and loses
    assert asked("off_prevalence", numbers).value == pytest.approx(0.15)
    assert asked("off_prevalence", numbers, accuracy=0.3).value == pytest.approx(0.1)  # below it


def test_curves_against_epsilon():
    numbers = made([5, 5], [6, 6])
    for name, gains in (("c/target", [9, 5, 9]), ("c/augmented", [9, 8, 9])):
        numbers[name] = np.array([[[g, g] for g in gains]])
    numbers["epsilons"] = np.array([1.0, 2.0, 4.0])
    answers = {
        name: ask(name, numbers, case="c")
        for name in ("share_of_epsilons_gaining", "gain_rise_and_fall", "equal_over_intrinsic")
    }
    assert answers["share_of_epsilons_gaining"].words == "3 of 3"
    assert answers["gain_rise_and_fall"].value == pytest.approx(0.3)
    # equal to the noiseless model from 4 on; sigma_target of 2 at epsilon 1 is sigma_i at 4
    assert answers["equal_over_intrinsic"].value == pytest.approx(1.0)


def test_the_first_of_several_runs():
    better, worse = made([5, 5], [7, 7]), made([5, 5], [6, 6])
    found = ask("first_above_rest", better, worse, part="gain", case="c", epsilon=1.0)
    assert found.value == pytest.approx(0.1)
    worse["random_rows"] = np.array(True)  # asked over draws, whose gain is 1 of 10 rows
    found = ask("first_above_rest", worse, better, part="gain", case="c", epsilon=1.0)
    assert found.value == pytest.approx(-0.1)
