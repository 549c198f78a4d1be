"""Every number of a measured grid: against numpy on a real study, and with known answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sordino import data, randomness
from sordino.accounting import gaussian
from sordino.errors import InvalidArgument
from sordino.intrinsic import summary as summaries
from sordino.intrinsic.grid import load
from sordino.intrinsic.measure import measure
from sordino.intrinsic.summary import summary
from sordino.intrinsic.theory import theory
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import Relation
from sordino.sgd import TrainSpec
from sordino.study import StudyError

STEPS = 60
SPEC = TrainSpec(ObjectiveSpec("logistic"), 0.5, 32, steps=STEPS)
ROOT2 = math.sqrt(2)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory):
    """A real study: 24 seeds, 10 neighbours and the data itself, both inits, three steps."""
    store = tmp_path_factory.mktemp("studies") / "digits"
    measure(SPEC, data.load("digits/binary").train, 24, 10, checkpoints=(20, 40, 60), store=store)
    return load(store)


@pytest.fixture(scope="module")
def found(measured):
    return summary(measured)


def pair_distances(W: np.ndarray) -> np.ndarray:
    """delta_S of [seed, neighbour, parameter], one pair at a time."""
    many = W.shape[1]
    return np.array(
        [
            np.linalg.norm(row[a] - row[b])
            for row in W
            for a in range(many)
            for b in range(a + 1, many)
        ]
    )


@pytest.mark.parametrize("init", ["vary", "fixed"])
def test_numbers_of_a_real_study_are_those_of_numpy(measured, found, init: str) -> None:
    one = found.of(init)
    W = measured.final(init)
    assert measured.neighbours[0] == -1
    assert one.neighbours == measured.neighbours[1:]  # the papers' pairs: without the data itself
    papers = W[:, 1:]
    # Weights are of order 1 and distances of order 0.01, in float64: 1e-12 is a few roundings.
    delta_s = np.sort(pair_distances(papers))
    np.testing.assert_allclose(one.delta_s.values, delta_s, rtol=1e-6, atol=1e-12)
    assert one.sensitivity == pytest.approx(delta_s[-1], rel=1e-9)
    from_base = np.linalg.norm(W[:, 1:] - W[:, :1], axis=2)
    assert one.from_base.maximum == pytest.approx(from_base.max(), rel=1e-12)
    assert one.from_base.pairs == 24 * 10
    sigmas = (papers - papers.mean(axis=0)).std(axis=(0, 2))
    assert one.sigma["minimum"].value == pytest.approx(sigmas.min(), rel=1e-12)
    assert one.sigma["median"].value == pytest.approx(np.median(sigmas), rel=1e-12)
    assert one.sigma["per-weight"].value == pytest.approx(
        papers.std(axis=0).mean(axis=1).min(), rel=1e-12
    )
    norms = np.linalg.norm(papers, axis=2)
    assert one.sigma["norm"].value == pytest.approx(norms.std(axis=0).min(), rel=1e-12)
    assert one.delta_v.pairs == 10 * 24 * 23 // 2
    assert one.delta_sv.pairs == 10 * 9 * 24 * 23 // 2


def test_epsilons_follow_from_sensitivity_and_sigma(measured, found) -> None:
    n = measured.dataset.size
    assert found.delta == 1 / n**2
    classical = math.sqrt(2 * math.log(1.25 * n**2))
    for one in found.inits:
        sigma = one.sigma["minimum"]
        for estimates, sensitivity in (
            (one.by_bound, found.theory.bound.worst),
            (one.by_printed, found.theory.printed.value),
            (one.by_observed, one.delta_s.maximum),
        ):
            mu = sensitivity / sigma.value
            assert estimates.exact.epsilon == gaussian.epsilon(mu, found.delta)
            assert estimates.printed.epsilon == pytest.approx(classical * mu, rel=1e-12)
            assert estimates.exact.low == gaussian.epsilon(sensitivity / sigma.high, found.delta)
            assert "estimate, not a guarantee" in str(estimates.exact)
        assert "lower estimate" in one.by_observed.exact.caveat
        assert "lower estimate" not in one.by_bound.exact.caveat
        # The largest pair is the one of epsilon_i*; interpolation is good to 1e-5.
        top = one.pairwise.exact[-1]
        assert top == pytest.approx(one.by_observed.exact.epsilon, rel=1e-5)


def test_distances_keep_to_the_bound(found) -> None:
    """One record differs: the bound. Two neighbours of the grid: two places, twice the bound."""
    for one in found.inits:
        assert 0 < one.from_base.maximum <= found.theory.bound.worst
        assert one.delta_s.maximum <= 2 * found.theory.bound.worst


@pytest.mark.parametrize("most", [2**29, 1])
def test_curves_over_steps_are_those_of_each_step(
    measured, found, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(summaries, "_MOST_BYTES", most)  # all steps at once, or one at a time
    one = summary(measured).of("fixed")
    curve, followed = one.by_steps, one.trajectories
    assert curve.steps == followed.steps == (20, 40, 60)
    W = measured.weights("fixed")
    for at in range(3):
        papers = W[:, 1:, at]
        assert curve.sensitivity[at] == pytest.approx(pair_distances(papers).max(), rel=1e-9)
        sigmas = (papers - papers.mean(axis=0)).std(axis=(0, 2))
        assert curve.sigma[at] == pytest.approx(sigmas.min(), rel=1e-12)
    assert curve.sensitivity[-1] == pytest.approx(one.sensitivity, rel=1e-12)
    first, second = followed.weights
    spreads = W[:, 0, -1].std(axis=0)
    assert spreads[first] == spreads.max()
    assert spreads[second] == np.sort(spreads)[-2]
    assert followed.values.shape == (20, 3, 2)
    np.testing.assert_array_equal(followed.values[:, :, 1], W[:20, 0, :, second])


def test_printed_it_is_a_table(found) -> None:
    text = str(found)
    assert repr(found) == text  # not thousands of numbers
    assert "estimate, not a guarantee" in text
    lines = text.splitlines()
    rows = {line[2:44].strip(): line[44:].split() for line in lines if line.startswith("  ")}
    assert max(map(len, lines)) <= 80
    assert rows["initial weights"] == [each.init for each in found.inits]
    assert all(len(row) == len(found.inits) for row in rows.values())
    expected = [
        [each.sigma["minimum"].value, each.sensitivity, each.by_observed.exact.epsilon]
        for each in found.inits
    ]
    names = ("sigma_i, the seed's own spread (least)", "sensitivity: largest seen")
    shown = zip(*(rows[name] for name in (*names, "epsilon of the largest seen")), strict=True)
    for values, texts in zip(expected, shown, strict=True):
        assert [float(each) for each in texts] == pytest.approx(values, rel=1e-3)


def test_the_same_study_gives_the_same_numbers(measured, found) -> None:
    again = summary(measured)
    other = summary(measured, stream=randomness.SeededStreams("another").stream)
    for one, same, else_ in zip(found.inits, again.inits, other.inits, strict=True):
        assert one.sigma == same.sigma
        assert one.worst == same.worst
        assert one.joint == same.joint
        assert one.sigma["minimum"].value == else_.sigma["minimum"].value
        assert one.sigma["minimum"].low != else_.sigma["minimum"].low
    assert found.notes == again.notes == ()


@dataclass
class Synthetic:
    """Weights with known answers, in place of a study."""

    arrays: dict[str, np.ndarray]
    neighbours: tuple[int, ...]
    spec: TrainSpec | None = None
    dataset: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(size=1000, norm_bound=None)
    )
    relation: Relation = Relation.REPLACE_ONE
    left_out: tuple[str, ...] = ()
    steps: tuple[int, ...] = (10,)
    study: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(directory=Path("synthetic"))
    )

    @property
    def inits(self) -> tuple[str, ...]:
        return tuple(self.arrays)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(range(len(next(iter(self.arrays.values())))))

    @property
    def base(self) -> int | None:
        return self.neighbours.index(-1) if -1 in self.neighbours else None

    def weights(self, init: str, steps=None) -> np.ndarray:
        return self.arrays[init][:, :, None]

    def final(self, init: str) -> np.ndarray:
        return self.arrays[init]


def shifted_gaussians(seeds: int, shift: float, sigma: float, parameters: int = 6) -> np.ndarray:
    """Four datasets in one law; the third is moved by `shift` along the first weight."""
    rng = randomness.stream("test", "summary")
    W = np.repeat(sigma * rng.standard_normal((seeds, 1, parameters)), 4, axis=1)
    W[:, 2, 0] += shift
    return W


def test_a_known_shift_and_a_known_noise_are_found() -> None:
    W = shifted_gaussians(200, shift=0.3, sigma=0.1)
    one = summary(Synthetic({"vary": W}, (5, 6, 7, 8))).of("vary")
    assert one.sensitivity == pytest.approx(0.3, rel=1e-12)
    # 1,200 numbers know their spread to 1 / sqrt(2,400) = 2%: five of those.
    assert one.sigma["minimum"].value == pytest.approx(0.1, rel=0.1)
    assert one.sigma["minimum"].low < 0.1 < one.sigma["minimum"].high
    assert 2 in one.worst.pair
    # Isotropic and directional distance are both 3 here; 200 seeds know it to about 5%.
    assert one.worst.isotropic.value == pytest.approx(3.0, rel=0.15)
    assert one.worst.distance.value == pytest.approx(3.0, rel=0.2)
    assert one.from_base is None
    assert one.by_bound is None
    assert one.by_printed is None
    np.testing.assert_array_equal(np.unique(one.delta_s.values.round(12)), [0.0, 0.3])


def test_a_quiet_direction_is_seen_by_the_directional_estimate_alone() -> None:
    """The shift is along a weight with a tenth of the noise: one sigma for all cannot see it."""
    W = shifted_gaussians(200, shift=0.0, sigma=0.1)
    W[:, :, 0] *= 0.1
    W[:, 2, 0] += 0.03
    one = summary(Synthetic({"vary": W}, (5, 6, 7, 8))).of("vary")
    assert one.worst.isotropic.value < 0.5
    assert one.worst.distance.value > 2.0  # truly 3, and a lower estimate


def test_the_data_itself_is_left_out_of_the_papers_pairs_and_compared_apart() -> None:
    W = shifted_gaussians(20, shift=0.3, sigma=0.1)
    one = summary(Synthetic({"vary": W}, (4, 6, -1, 8))).of("vary")
    assert one.neighbours == (4, 6, 8)
    assert one.sensitivity == 0
    assert one.from_base.maximum == pytest.approx(0.3, rel=1e-12)
    assert one.from_base.pairs == 20 * 3
    two = summary(Synthetic({"vary": W[:, 1:3]}, (6, -1))).of("vary")
    assert two.neighbours == (6, -1)  # one neighbour alone has no pairs
    assert two.sensitivity == pytest.approx(0.3, rel=1e-12)


def test_a_training_without_noise_has_infinite_epsilon() -> None:
    W = np.zeros((20, 3, 4))
    W[:, 1, 0] = 0.5
    found = summary(Synthetic({"fixed": W}, (1, 2, 3)))
    one = found.of("fixed")
    assert one.sigma["minimum"].value == 0
    assert one.by_observed.exact.epsilon == math.inf
    assert one.by_observed.printed.epsilon == math.inf
    assert one.worst.epsilon(found.delta).epsilon == math.inf
    assert one.pairwise is None
    assert one.joint is None
    assert any(note.startswith("No pairwise epsilon (fixed): ") for note in found.notes)


def test_where_nothing_moves_no_epsilon_is_claimed() -> None:
    one = summary(Synthetic({"fixed": np.zeros((20, 3, 4))}, (1, 2, 3))).of("fixed")
    assert one.by_observed is None
    assert one.sensitivity == 0


def test_small_grids_say_what_they_cannot_tell() -> None:
    W = shifted_gaussians(6, shift=0.3, sigma=0.1)
    found = summary(Synthetic({"vary": W}, (5, 6, 7, 8), left_out=("3 cells are missing",)))
    one = found.of("vary")
    assert one.worst is None
    assert one.joint is None
    assert one.by_observed is not None
    assert found.notes[0] == "3 cells are missing."
    assert "No theoretical bound: Nothing is proved of a training function of your own." in (
        found.notes
    )
    assert any("No directional estimate (vary): Expected seeds=6" in note for note in found.notes)


@pytest.mark.parametrize("part", [np.s_[:1], np.s_[:, :1]])
def test_one_seed_or_one_dataset_is_refused(part) -> None:
    W = shifted_gaussians(5, 0.1, 0.1)[part]
    with pytest.raises(StudyError, match="to have 2 seeds and 2 datasets"):
        summary(Synthetic({"vary": W}, (5, 6, 7, 8)[: W.shape[1]]))


def test_delta_is_checked_and_a_large_one_is_noted() -> None:
    grid = Synthetic({"vary": shifted_gaussians(5, 0.1, 0.1)}, (5, 6, 7, 8))
    for delta in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(InvalidArgument, match="delta"):
            summary(grid, delta=delta)
    assert summary(grid, delta=1e-5).delta == 1e-5
    notes = summary(grid, delta=1e-3).notes
    assert any("delta = 0.001 is large for 1,000 records" in note for note in notes)
    assert not any("is large" in note for note in summary(grid, delta=1e-5).notes)


def test_an_unknown_init_is_refused(found) -> None:
    with pytest.raises(InvalidArgument, match="vary, fixed"):
        found.of("varied")


def bound(spec: TrainSpec = SPEC, n: int = 320, steps: int = STEPS, norm: float | None = 1.0):
    return theory(spec, n, norm, steps, Relation.REPLACE_ONE)


def test_the_bound_counts_started_passes_and_smaller_batches() -> None:
    """2 L eta (passes / r + [steps are left] / B), L = sqrt(2), the rows' slack 1e-6 included."""
    step = 2 * ROOT2 * 0.5
    for n, steps, wanted in (
        (320, 60, 6 * step / 32),  # six whole passes of ten batches
        (320, 61, 7 * step / 32),  # and one started
        (310, 20, 2 * step / 22),  # the last batch has 22
        (310, 21, step * (2 / 22 + 1 / 32)),
        (320, 0, 0.0),
    ):
        found = bound(n=n, steps=steps)
        assert found.bound.worst == pytest.approx(wanted, rel=2e-6)
        assert found.bound.worst >= wanted
        assert found.printed.value == pytest.approx(step * steps / n, rel=1e-12)
        assert "not a guarantee" in str(found.printed)
        assert found.bounds[-1] == found.bound.worst
        assert found.steps[-1] == steps
        assert (np.diff(found.bounds) >= 0).all()


def test_v2_prints_the_fraction() -> None:
    """MNIST-binary, 1,850 steps of 32 on 10,397 records: 0.2516 in v2's Table 3."""
    assert round(bound(n=10_397, steps=1850).printed.value, 4) == 0.2516


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"objective": ObjectiveSpec("mlp")}, "not convex"),
        ({"objective": ObjectiveSpec("least-squares")}, "radient"),
        ({"order": "poisson"}, "Poisson"),
        ({"order": "allocation"}, "Allocation"),
        ({"learning_rate": 9.0}, "above 2 / smoothness"),
    ],
)
def test_where_no_theorem_applies_the_reason_is_told(changed: dict, reason: str) -> None:
    values = {**SPEC.to_dict(), **changed}
    found = bound(TrainSpec.from_dict(values))
    assert found.bound is None
    assert found.printed is None
    assert reason in found.reason


def test_rows_without_a_norm_bound_have_no_bound() -> None:
    assert "No bound on the rows' norm" in bound(norm=None).reason


def test_clipping_and_a_schedule_are_counted_and_have_no_printed_number() -> None:
    clipped = TrainSpec.from_dict({**SPEC.to_dict(), "max_grad_norm": 0.5})
    found = bound(clipped)
    assert found.bound.worst == pytest.approx(6 * 2 * 0.5 * 0.5 / 32, rel=1e-9)
    assert found.printed is None
    assert len(found.fractions) == 0
