"""Events in and out, beside dp-accounting's own accountants."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import dp_accounting as dp
import pytest
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from sordino.accounting import dp_sgd, gaussian
from sordino.accounting.interop import from_event, to_event
from sordino.accounting.profile import ApproximateProfile
from sordino.errors import InvalidArgument, NotApplicable
from sordino.privacy import Relation

THEIRS = {
    Relation.ADD_OR_REMOVE_ONE: dp.NeighboringRelation.ADD_OR_REMOVE_ONE,
    Relation.REPLACE_ONE: dp.NeighboringRelation.REPLACE_ONE,
    Relation.ZERO_OUT: dp.NeighboringRelation.REPLACE_SPECIAL,
}
DELTA = 1e-5


def normal(noise: float) -> Any:
    return dp.GaussianDpEvent(noise)


def sampled(rate: float, noise: float) -> Any:
    return dp.PoissonSampledDpEvent(rate, normal(noise))


def repeated(event: Any, count: int) -> Any:
    return dp.SelfComposedDpEvent(event, count)


def without_replacement(records: int, batch: int, noise: float) -> Any:
    return dp.SampledWithoutReplacementDpEvent(records, batch, normal(noise))


MIXED = dp.ComposedDpEvent([repeated(sampled(0.02, 1.1), 200), sampled(0.1, 2.0), normal(5.0)])


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    "event",
    [
        normal(1.7),
        repeated(normal(8.0), 9),
        repeated(dp.ComposedDpEvent([sampled(0.05, 1.5), normal(20.0), dp.NoOpDpEvent()]), 30),
        MIXED,
    ],
    ids=str,
)
def test_epsilon_is_that_of_their_pld(event: Any, relation: Relation) -> None:
    theirs = PLDAccountant(THEIRS[relation]).compose(event).get_epsilon(DELTA)
    ours = from_event(event, relation)
    assert ours.relation is relation
    # Their grid of 1e-4 rounds up.
    assert ours.epsilon(DELTA) == pytest.approx(theirs, rel=1e-3, abs=2e-4)


@pytest.mark.parametrize("relation", list(Relation))
def test_nothing_and_everything(relation: Relation) -> None:
    assert from_event(dp.NoOpDpEvent(), relation).epsilon(DELTA) == 0
    assert from_event(dp.ComposedDpEvent([]), relation).epsilon(DELTA) == 0
    assert from_event(repeated(normal(1.0), 0), relation).epsilon(DELTA) == 0
    assert from_event(sampled(0.0, 1.0), relation).epsilon(DELTA) == 0
    for lost in (dp.NonPrivateDpEvent(), normal(0.0), sampled(0.5, 0.0)):
        event = dp.ComposedDpEvent([sampled(0.1, 1.0), dp.ZCDpEvent(0.1), lost])
        assert from_event(event, relation).epsilon(DELTA) == math.inf
        assert to_event(from_event(event, relation)) == dp.NonPrivateDpEvent()


def test_replacing_a_record_doubles_the_gaussian_sensitivity() -> None:
    ours = from_event(normal(2.0), Relation.REPLACE_ONE).epsilon(DELTA)
    assert ours == pytest.approx(gaussian.epsilon(1.0, DELTA))
    # The trap: their RDP under REPLACE_ONE is that of add-or-remove, far below the exact value.
    theirs = RdpAccountant(neighboring_relation=THEIRS[Relation.REPLACE_ONE])
    assert theirs.compose(normal(2.0)).get_epsilon(DELTA) < 0.6 * ours


def test_batches_of_fixed_size_are_those_of_a_plain_convolution() -> None:
    event = repeated(without_replacement(100_000, 1_000, 2.0), 1000)
    ours = from_event(event, Relation.REPLACE_ONE).epsilon(DELTA)
    # The loss law of docs/math.md 2.2 in buckets of 2.5e-5 with its mean kept, by a plain FFT.
    assert 2.198910 <= ours <= 2.198910 * (1 + 1e-4)


def test_batches_of_fixed_size_do_not_hide_a_size() -> None:
    with pytest.raises(NotApplicable, match="replace-one"):
        from_event(without_replacement(1000, 10, 1.0), Relation.ADD_OR_REMOVE_ONE)


def test_zcdp_is_converted_as_theirs_and_is_less_than_gaussian_dp() -> None:
    event = dp.ComposedDpEvent([dp.ZCDpEvent(0.2, 0.1), repeated(dp.ZCDpEvent(0.05), 4)])
    ours = from_event(event, Relation.REPLACE_ONE).epsilon(DELTA)
    theirs = RdpAccountant().compose(event).get_epsilon(DELTA)
    assert 0.97 * theirs <= ours <= 1.001 * theirs
    # mu-GDP implies mu^2/2-zCDP, never the other way.
    assert from_event(dp.ZCDpEvent(0.5), Relation.ZERO_OUT).epsilon(DELTA) > gaussian.epsilon(
        1.0, DELTA
    )


def test_zcdp_composes_with_other_events() -> None:
    event = dp.ComposedDpEvent([dp.ZCDpEvent(0.2), repeated(sampled(0.02, 1.1), 200)])
    ours = from_event(event, Relation.ADD_OR_REMOVE_ONE).epsilon(DELTA)
    theirs = RdpAccountant().compose(event).get_epsilon(DELTA)
    assert 0.97 * theirs <= ours <= 1.001 * theirs


@pytest.mark.parametrize(
    ("event", "named"),
    [
        (dp.LaplaceDpEvent(1.0), "LaplaceDpEvent"),
        (dp.UnsupportedDpEvent(), "UnsupportedDpEvent"),
        (dp.PoissonSampledDpEvent(0.1, dp.LaplaceDpEvent(1.0)), "LaplaceDpEvent"),
        (dp.PoissonSampledDpEvent(0.1, repeated(normal(1.0), 2)), "PoissonSampledDpEvent"),
        (dp.SampledWithReplacementDpEvent(100, 10, normal(1.0)), "SampledWithReplacementDpEvent"),
    ],
    ids=str,
)
def test_an_unsupported_event_is_named_with_what_to_do(event: Any, named: str) -> None:
    inside = dp.ComposedDpEvent([normal(1.0), repeated(event, 3)])
    with pytest.raises(NotApplicable, match=f"{named}.*Supported are GaussianDpEvent.*ZCDpEvent"):
        from_event(inside, Relation.REPLACE_ONE)


@pytest.mark.parametrize(
    "event",
    [
        dp.PoissonSampledDpEvent(0.1, dp.ComposedDpEvent([dp.GaussianDpEvent(1.0)] * 2)),
        MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.5, 0.5]),
    ],
    ids=["composed inside", "mixture"],
)
def test_events_with_lists_in_them_are_refused_by_name(event: Any) -> None:
    for nested in (event, dp.SelfComposedDpEvent(event, 3), dp.ComposedDpEvent([event, event])):
        with pytest.raises(NotApplicable, match="There is no profile for"):
            from_event(nested, Relation.ADD_OR_REMOVE_ONE)


def test_arguments_are_checked() -> None:
    with pytest.raises(InvalidArgument, match="event=gaussian"):
        from_event("gaussian", Relation.REPLACE_ONE)
    with pytest.raises(InvalidArgument, match="relation=replace-one to be a Relation"):
        from_event(normal(1.0), "replace-one")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="noise_multiplier=-1"):
        from_event(normal(-1.0), Relation.REPLACE_ONE)
    with pytest.raises(InvalidArgument, match="sample_size=20 <= 10"):
        from_event(without_replacement(10, 20, 1.0), Relation.REPLACE_ONE)
    with pytest.raises(InvalidArgument, match="count=-2"):
        from_event(repeated(normal(1.0), -2), Relation.REPLACE_ONE)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    "event",
    [
        dp.NoOpDpEvent(),
        dp.NonPrivateDpEvent(),
        dp.ZCDpEvent(0.3, 0.01),
        sampled(0.013, 1.1),
        repeated(sampled(1 / 3, 0.7), 77),
        MIXED,
        *(normal(noise) for noise in (0.3, 1.1, 4.9, 49.0, 0.7, 1 / 3)),
    ],
    ids=str,
)
def test_events_come_back_as_they_went_in(event: Any, relation: Relation) -> None:
    assert to_event(from_event(event, relation)) == event


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ZERO_OUT])
def test_batches_of_fixed_size_come_back_in_lowest_terms(relation: Relation) -> None:
    event = repeated(without_replacement(50_000, 256, 1.1), 40)
    back = to_event(from_event(event, relation))
    assert back == repeated(without_replacement(3125, 16, 1.1), 40)
    assert from_event(back, relation).epsilon(DELTA) == from_event(event, relation).epsilon(DELTA)


def test_equal_steps_are_told_together() -> None:
    event = dp.ComposedDpEvent([sampled(0.1, 1.0), normal(4.0), repeated(sampled(0.1, 1.0), 2)])
    back = to_event(from_event(repeated(event, 4), Relation.ADD_OR_REMOVE_ONE))
    assert back == dp.ComposedDpEvent([repeated(sampled(0.1, 1.0), 12), normal(2.0)])


def test_their_accountant_reads_our_profile() -> None:
    relation = Relation.REPLACE_ONE
    profile = dp_sgd.pld(1.2, 0.02, 100, sampling="poisson", relation=relation)
    theirs = PLDAccountant(THEIRS[relation]).compose(to_event(profile)).get_epsilon(DELTA)
    assert theirs == pytest.approx(profile.epsilon(DELTA), rel=1e-3)


def test_what_has_no_event_is_refused() -> None:
    arguments: dict[str, Any] = {"relation": Relation.REPLACE_ONE, "theorem": "test"}
    with pytest.raises(NotApplicable, match="ApproximateLoss"):
        to_event(ApproximateProfile(budget=(1.0, 1e-6), **arguments))
    moments = dp_sgd.rdp(1.0, 0.1, 10, sampling="poisson", relation=Relation.REPLACE_ONE)
    with pytest.raises(NotApplicable, match=r"RenyiProfile.*dp_sgd\.pld"):
        to_event(moments)
    shuffled = dp_sgd.pld(1.0, 0.3, 10, sampling="shuffle", relation=Relation.REPLACE_ONE)
    with pytest.raises(NotApplicable, match="GaussianLoss"):
        to_event(shuffled)


def test_importing_it_does_not_import_dp_accounting() -> None:
    code = "import sys, sordino.accounting.interop; sys.exit('dp_accounting' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
