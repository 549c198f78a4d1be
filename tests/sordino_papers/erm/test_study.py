"""Chen, Lee & Kifer's study: pieces, old noises, what claims ask, and the file itself."""

from __future__ import annotations

import math
from importlib import resources
from types import SimpleNamespace

import numpy as np
import pytest
from small_paper import ask

from sordino.errors import InvalidArgument
from sordino.estimators.fit import FitRecords
from sordino.estimators.minimum.linear import NoMinimum, Risk
from sordino_papers.claims import PaperRun, read
from sordino_papers.erm import methods, study, timing
from sordino_papers.erm.quantities import of_method
from sordino_papers.erm.study import ErmSettings, with_constant
from sordino_papers.quantities import registry
from sordino_papers.runs import SOURCES, NotHere, RunStore, read_settings

SMALL = {
    "data": "breast-cancer",
    "form": "papers",
    "loss": "logistic",
    "l2": 0.01,
    "delta": 1e-5,
    "epsilons": [1.0, 4.0],
    "methods": ["none", "majority", "nsgd", "nsgd/tuned", "objective/2011", "sgd-ma/2016"],
    "folds": 3,
    "scored": 2,
    "draws": 3,
    "fits": {"else": 1},
    "orders": 8,
    "tried": {"nsgd": {"epochs": 2, "rate": [0.01, 0.3]}},
}


def bench(directory, **changes):
    run = PaperRun("chen/small", "erm", {**SMALL, **changes}, {})
    return RunStore(directory, {"chen/small": run})


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    made = bench(tmp_path_factory.mktemp("erm"))
    return made, made.numbers("chen/small")


def of(numbers, name, method):
    return of_method(numbers, name, method)


@pytest.mark.slow
def test_a_study_has_a_number_for_every_method_budget_and_fold(small):
    _, numbers = small
    assert numbers["accuracies"].shape == numbers["objectives"].shape == (6, 2, 2)
    assert numbers["rows"] == 410
    assert numbers["columns"] == 31  # the constant counts
    # ln(1e5) / 8 = 1.44: the old accountant cannot promise 1, whatever the noise.
    assert np.isnan(of(numbers, "accuracies", "sgd-ma/2016")).tolist() == [[True] * 2, [False] * 2]
    others = [m for m in SMALL["methods"] if m != "sgd-ma/2016"]
    assert all(np.isfinite(of(numbers, "accuracies", m)).all() for m in others)


@pytest.mark.slow
def test_references_are_what_they_say(small):
    made, numbers = small
    train = made.splits("breast-cancer", "papers").train
    from sklearn.model_selection import KFold

    held = [rest for _, rest in KFold(3, shuffle=True, random_state=0).split(train.X)]
    # Both folds' other rows have the same majority as the whole.
    shares = [max(train.y[rest].mean(), 1 - train.y[rest].mean()) for rest in held[:2]]
    np.testing.assert_allclose(of(numbers, "accuracies", "majority")[0], shares)
    assert (of(numbers, "objectives", "none") < of(numbers, "objectives", "nsgd")).all()


@pytest.mark.slow
def test_the_best_setting_is_taken_for_every_budget(small):
    made, numbers = small
    kept = made.folder("erm", ErmSettings.read(SMALL).identity)
    folds = np.stack([np.load(kept / f"nsgd-tuned-{fold}.npy")[0] for fold in range(2)])
    best = folds.mean(axis=0).max(axis=0)
    np.testing.assert_array_equal(of(numbers, "accuracies", "nsgd/tuned").mean(axis=1), best)
    np.testing.assert_array_equal(of(numbers, "accuracies", "nsgd"), folds[:, 0].T)


@pytest.mark.slow
def test_an_interrupted_study_goes_on_and_gives_the_same_numbers(small, tmp_path):
    _, whole = small
    first = bench(tmp_path, methods=["nsgd", "objective/2011"])
    first.numbers("chen/small")
    kept = first.folder("erm", ErmSettings.read(SMALL).identity)
    before = {path.name: path.stat().st_mtime_ns for path in kept.iterdir()}
    (kept / "objective-2011-1.npy").unlink()
    told = []
    second = bench(tmp_path)
    second.begin = lambda name: lambda done, total: told.append((done, total))
    again = second.numbers("chen/small")
    assert told[-1] == (10, 10)  # nsgd is the first setting of its tuned sister
    left = {path.name: path.stat().st_mtime_ns for path in kept.iterdir()}
    assert all(
        left[name] == time for name, time in before.items() if name != "objective-2011-1.npy"
    )
    for name, values in whole.items():
        if name != "_seconds":
            np.testing.assert_array_equal(values, again[name])


@pytest.mark.slow
def test_a_cluster_of_two_processes_gives_the_same_numbers(small, tmp_path, dask_processes):
    _, here = small
    there = bench(tmp_path)
    there.client = dask_processes
    numbers = there.numbers("chen/small")
    for name, values in here.items():
        if name != "_seconds":
            np.testing.assert_array_equal(values, numbers[name])


def test_unknown_settings_are_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="sead"):
        bench(tmp_path, sead=1).numbers("chen/small")
    with pytest.raises(InvalidArgument, match="tuned method"):
        bench(tmp_path, methods=["output-gd/tuned"]).numbers("chen/small")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    made = bench(tmp_path, data="ipums", form="erm", folder="ipums-us")
    made.data_dir = tmp_path
    with pytest.raises(NotHere, match=r"ipums-us/ipums\.csv"):
        made.numbers("chen/small")


def test_the_constant_is_what_a_one_would_have_become():
    raw = np.array([[1.0, 0.0, 0.5, 1.0], [0.0, 1.0, 0.2, 0.0]])
    rows = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    wanted = np.hstack([raw, np.ones((2, 1))])
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    found = with_constant(rows)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    np.testing.assert_allclose(found, wanted)


def task(**changes):
    settings = ErmSettings.read({**SMALL, "l2": 0.001, "delta": 1e-8, **changes})
    return settings.task(40_000, 100, 1.0)


def test_noises_of_old_are_those_of_their_papers():
    l2, sigma = methods.noise_2012(task())
    assert sigma == pytest.approx(math.sqrt(8 * math.log(2e8) + 4))
    assert 40_000 * (l2 - 0.001) == pytest.approx(0.5)  # 2 / 4 / epsilon
    l2, scale = methods.noise_2011(task())
    assert l2 == 0.001
    assert scale == pytest.approx(2 / (1 - math.log(1 + 0.5 / 40 + (0.25 / 40) ** 2)))


def test_chaudhuri_raises_the_regulariser_where_epsilon_is_spent():
    """Their Algorithm 2: if nothing is left, Delta more of it, and half of epsilon for noise."""
    settings = ErmSettings.read({**SMALL, "l2": 1e-6})
    asked = settings.task(1000, 10, 0.1)
    l2, scale = methods.noise_2011(asked)
    assert l2 == pytest.approx(0.25 / (1000 * (math.exp(0.1 / 4) - 1)))
    assert scale == pytest.approx(2 / 0.05)


def test_the_old_accountant_without_sampling_is_a_formula():
    noise, steps, delta, orders = 3.0, 5, 1e-6, 20
    moments = range(1, orders + 1)
    wanted = min(steps * (k + 1) / (2 * noise**2) - math.log(delta) / k for k in moments)
    found = methods.old_moments_epsilon(noise, delta, 1.0, steps, orders)
    assert found == pytest.approx(wanted, rel=1e-9)
    again = methods.old_moments_noise(wanted, delta, 1.0, steps, orders)
    assert again == pytest.approx(noise, rel=1e-5)
    assert methods.old_moments_noise(0.69, delta, 1.0, steps, orders) is None  # ln(1e6)/20


def numbers(ours, theirs, epsilons=(0.1, 1.0)):
    """Accuracies [epsilon, fold] of two methods."""
    return {
        "methods": np.array(["a", "b"]),
        "epsilons": np.array(epsilons),
        "accuracies": np.array([ours, theirs], dtype=float),
    }


def test_a_method_is_below_only_beyond_points_and_errors():
    how = {"method": "a", "other": "b", "points": 0.5, "errors": 3.0}
    level = numbers([[0.8, 0.8], [0.9, 0.9]], [[0.804, 0.804], [0.9, 0.9]])
    below = numbers([[0.8, 0.8], [0.9, 0.9]], [[0.806, 0.806], [0.9, 0.9]])
    unsure = numbers([[0.8, 0.8], [0.9, 0.9]], [[0.79, 0.84], [0.9, 0.9]])
    cannot = numbers([[0.8, 0.8], [0.9, 0.9]], [[np.nan, np.nan], [0.88, 0.88]])
    assert ask("share_not_below", level, **how).value == 1
    found = ask("share_not_below", below, **how)
    assert found.value == 0.5
    assert found.words == "above 0, level 1, below 1: 0.6 points at 0.1"
    assert ask("share_not_below", unsure, **how).value == 1  # 1.5 points, and an error of 2.5
    assert ask("share_not_below", cannot, **how).words == "above 2, level 0, below 0"
    assert ask("share_not_below", level, below, **how).value == 0.75


def test_a_surge_needs_budgets_that_cannot_be_met():
    found = numbers([[0.9, 0.9], [0.9, 0.9]], [[np.nan, np.nan], [0.89, 0.89]])
    found["methods"] = np.array(["none", "b"])
    assert ask("surge", found, method="b").value == pytest.approx(1.0)
    found["accuracies"][1, 0] = 0.8
    assert ask("surge", found, method="b").value == math.inf


def test_sensitivities_and_noise_of_section_4():
    """docs/math.md 3.3 and 3.4: golden numbers."""
    loss = {"curvature": 0.25, "l2": 0.001}
    schedule = {"batches": 4, "batch_size": 100, "epochs": 4, "rate": 1.0, "every": 2}
    restarted = ask("schedule_sensitivity", loss=loss, schedule=schedule)
    assert restarted.value == pytest.approx(0.049781207812, rel=1e-9)
    last = ask("schedule_sensitivity", loss=loss, schedule=schedule, of="last")
    assert last.value == pytest.approx(0.027421876576, rel=1e-9)
    ragged = ask("schedule_sensitivity", loss=loss, schedule={**schedule, "last": 40})
    assert ragged.value == pytest.approx(0.068554691439, rel=1e-9)
    nsgd = {**schedule, "epochs": 3, "averaged": False, "restarted": False}
    first = ask("schedule_sensitivity", loss=loss, schedule=nsgd, of="first")
    assert first.value == pytest.approx(0.0365053924436, rel=1e-9)
    budget = {"loss": loss, "schedule": schedule, "epsilon": 1.0, "delta": 1e-8}
    found = ask("schedule_noise_ratio", **budget, over="mironov", under="mixture")
    assert found.value == pytest.approx(0.29483 / 0.24150, rel=1e-4)
    found = ask("schedule_noise_ratio", **budget, over="renyi", under="worst")
    assert found.value == pytest.approx(0.25630 / 0.25390, rel=1e-4)


def test_iterations_are_counted_until_the_objective_is_near_its_minimum():
    draw = np.random.default_rng(3)
    X = draw.standard_normal((300, 6))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    risk = Risk(X, (X[:, 0] > 0).astype(float), l2=0.01)
    zero = np.zeros(6)
    best = risk.value(risk.minimise(zero, 1e-9))
    few, many = (timing._until(risk, zero, best * (1 + share)) for share in (0.2, 1e-6))
    assert 1 <= few < many < 100
    assert timing._until(risk, zero, 10 * best) == 1  # the first iterate is looked at first


@pytest.mark.slow
def test_times_are_of_every_method_and_size(tmp_path):
    settings = {
        "data": "breast-cancer",
        "form": "papers",
        "rows": [200, 400],
        "methods": ["nsgd", "objective"],
        "epsilon": 1.0,
        "delta": 1e-4,
        "l2": 0.001,
        "repeats": {"else": 1},
        "accurate": 0.01,
    }
    made = RunStore(tmp_path, {"chen/times": PaperRun("chen/times", "erm-timing", settings, {})})
    found = made.numbers("chen/times")
    assert found["seconds"].shape == (2, 2)
    assert (found["seconds"] > 0).all()
    assert np.isnan(found["passes"][1]).all()  # a minimiser is not trained by the engine
    np.testing.assert_allclose(found["steps"][0] * 20 / found["rows"], found["passes"][0], rtol=0.1)


def test_the_file_asks_for_what_there_is():
    text = resources.files("sordino_papers").joinpath("chen.toml").read_text("utf-8")
    paper = read("chen", text)
    known = registry()
    for claim in paper.claims:
        assert claim.quantity in known, claim.name
        assert set(claim.runs) <= set(paper.runs), claim.name
    names = {claim.name for claim in paper.claims}
    for claim in paper.claims:
        assert not claim.explanation or set(claim.explanation.shown_by) <= names, claim.name
    for run in paper.runs.values():
        assert run.kind in SOURCES
        for quick in (False, True):
            if run.kind == "erm":
                settings = ErmSettings.read(run.at_size(quick))
                assert all(
                    settings.tries(m.partition("/")[0]) for m in settings.methods if "tuned" in m
                )
            if run.kind == "erm-timing":
                read_settings(timing.TimingSettings, run.at_size(quick), "rows", "methods")


def on_a_fold(method):
    X = np.array([[0.5], [-0.5], [-0.4], [-0.3]], dtype=np.float32)
    records = FitRecords.of(X, np.array([1, 0, 0, 0]), 2, 1.0, True)
    settings = ErmSettings.read({**SMALL, "methods": [method], "tried": {}})
    return study._Fold(settings, method, 0, records, records)


def test_what_diverged_is_no_model_and_not_one_that_always_says_no():
    weights = np.array([[1.0, 0.0], [np.inf, 0.0], [np.nan, 0.0], [1.0, 0.0]])
    accuracy, objective = on_a_fold("nsgd")._score(weights)
    assert accuracy == 0.5
    assert np.isnan(objective)


def test_a_training_that_diverges_does_not_end_the_study(monkeypatch):
    piece = on_a_fold("nsgd")
    diverged = np.full((1, 1, 2), np.inf)
    plan = SimpleNamespace(spec="any", scale=1.0, sigma=1.0)
    monkeypatch.setattr(study, "make_plans", lambda *given: [plan])
    monkeypatch.setattr(study, "train_together", lambda *given: diverged)
    scores = piece.scores()
    assert (scores[0] == 0).all()
    assert np.isnan(scores[1]).all()


def test_a_minimum_that_is_not_found_does_not_end_the_study(monkeypatch):
    def train(*given):
        raise NoMinimum("no")

    monkeypatch.setitem(study.methods.METHODS, "objective", SimpleNamespace(train=train))
    plan = SimpleNamespace(spec=None, method="objective", scale=1.0, sigma=1.0)
    monkeypatch.setattr(study, "make_plans", lambda *given: [plan])
    scores = on_a_fold("objective").scores()
    assert (scores[0] == 0).all()
    assert np.isnan(scores[1]).all()
