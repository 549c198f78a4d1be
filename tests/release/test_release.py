from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from sordino.accounting.profile import ApproximateProfile, GaussianProfile
from sordino.errors import InvalidArgument
from sordino.privacy import Relation
from sordino.proofs.proof import Proof, unit_of
from sordino.release import (
    CryptoNormals,
    NoiseStream,
    OsGaussian,
    ReleaseRefused,
    SeededNoise,
    release,
)

DELTA = 1e-5
WEIGHTS = np.array([[0.1, -2.0, 3e-7], [-0.0, 5e-324, 1e6]])


class Spy:
    """A source that counts what it is asked for."""

    name = "a spy"

    def __init__(self, *, repeatable: bool = False, answer: object = None) -> None:
        self.repeatable = repeatable
        self.answer = answer
        self.asked: list[tuple[npt.NDArray[np.float64], float]] = []

    def perturb(self, values: npt.ArrayLike, scale: float) -> npt.NDArray[np.float64]:
        exact = np.asarray(values)
        self.asked.append((exact.copy(), scale))
        return exact + 1 if self.answer is None else self.answer  # type: ignore[return-value]

    def stream(self, *name: str | int) -> NoiseStream:
        raise AssertionError("a release opens no stream")


def _proof(mu: float = 1.0, **changed: object) -> Proof:
    profile = GaussianProfile(relation=Relation.REPLACE_ONE, theorem="a theorem", parameter=mu)
    settings = {"profile": profile, "sampling": "permute-once", "assumes": ("one", "two")}
    return Proof(**{**settings, **changed})  # type: ignore[arg-type]


EPSILON = _proof().guarantee(DELTA).epsilon
PROMISE = {"epsilon": EPSILON, "delta": DELTA, "scale": 0.5}


# What was proved


def test_a_proof_becomes_a_guarantee_at_each_delta() -> None:
    proof = _proof(released="all", unit=unit_of(3))
    for delta in (1e-9, 1e-5, 0.1):
        guarantee = proof.guarantee(delta)
        assert guarantee.epsilon == proof.profile.epsilon(delta)
        assert guarantee.delta == delta
    assert guarantee.relation is Relation.REPLACE_ONE
    assert guarantee.theorem == "a theorem"
    assert guarantee.sampling == "permute-once"
    assert guarantee.assumes == ("one", "two")
    assert guarantee.released == "all"
    assert guarantee.unit == "3 records of one person"


def test_a_proof_is_of_the_final_model_and_one_record_unless_said() -> None:
    assert (_proof().released, _proof().unit) == ("final", unit_of(1)) == ("final", "one record")


@pytest.mark.parametrize(
    "wrong", [{"profile": 1.0}, {"released": "some"}, {"assumes": "one sentence"}]
)
def test_a_proof_refuses_what_is_none(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        _proof(**wrong)


# The door


def test_the_source_is_asked_once_with_the_exact_weights_and_the_scale() -> None:
    spy = Spy()
    out = release(WEIGHTS, proof=_proof(), noise=spy, **PROMISE)
    [(values, scale)] = spy.asked
    assert values.tobytes() == WEIGHTS.tobytes()
    assert scale == 0.5
    assert np.array_equal(out.value, WEIGHTS + 1)
    assert out.guarantee == _proof().guarantee(DELTA)
    assert out.noise == "N(0, 0.5^2) on the output, on every weight; from: a spy"


def test_a_guarantee_carries_everything_that_was_proved() -> None:
    proof = _proof(unit="2 records of one person", released="all")
    guarantee = release(WEIGHTS, proof=proof, noise=Spy(), **PROMISE).guarantee
    assert guarantee is not None
    assert guarantee.epsilon == EPSILON
    assert (guarantee.relation, guarantee.theorem) == (Relation.REPLACE_ONE, "a theorem")
    assert (guarantee.unit, guarantee.assumes) == ("2 records of one person", ("one", "two"))
    assert (guarantee.sampling, guarantee.released) == ("permute-once", "all")


@pytest.mark.parametrize("proof", [None, _proof(), _proof(1e9)])
@pytest.mark.parametrize("weights", [WEIGHTS, np.float64(0.3), np.zeros(0)])
def test_an_infinite_epsilon_gives_the_exact_bytes(
    proof: Proof | None, weights: npt.NDArray[np.float64]
) -> None:
    spy = Spy()
    out = release(weights, proof=proof, epsilon=math.inf, delta=DELTA, noise=spy, scale=0.5)
    assert out.value.tobytes() == weights.tobytes()
    assert out.value.shape == np.shape(weights)
    assert out.guarantee is None
    assert out.noise == "none: epsilon is infinite"
    assert spy.asked == []


def test_less_proved_than_promised_is_refused_and_no_noise_drawn() -> None:
    spy = Spy()
    for epsilon in (EPSILON * (1 - 1e-6), EPSILON / 2, 1e-9):
        with pytest.raises(ReleaseRefused, match="which was promised"):
            release(WEIGHTS, proof=_proof(), epsilon=epsilon, delta=DELTA, noise=spy, scale=0.5)
    with pytest.raises(ReleaseRefused, match="inf"):
        release(WEIGHTS, proof=_proof(math.inf), noise=spy, **PROMISE)
    with pytest.raises(ReleaseRefused, match="which was promised"):
        release(WEIGHTS, proof=_proof(), epsilon=EPSILON, delta=DELTA / 2, noise=spy, scale=0.5)
    assert spy.asked == []


def test_rounding_of_the_proof_is_forgiven() -> None:
    epsilon = EPSILON * (1 - 1e-12)
    args = {"epsilon": epsilon, "delta": DELTA, "scale": 0.5}
    guarantee = release(WEIGHTS, proof=_proof(), noise=Spy(), **args).guarantee  # type: ignore[arg-type]
    assert guarantee is not None
    assert guarantee.epsilon == EPSILON


def test_nothing_proved_is_refused() -> None:
    spy = Spy()
    with pytest.raises(ReleaseRefused, match="Expected proof=None"):
        release(WEIGHTS, proof=None, noise=spy, **PROMISE)
    assert spy.asked == []


def test_pure_privacy_at_delta_zero() -> None:
    profile = ApproximateProfile(relation=Relation.ZERO_OUT, theorem="t", budget=(1.0, 0.0))
    out = release(
        WEIGHTS, proof=_proof(profile=profile), epsilon=1.0, delta=0.0, noise=Spy(), scale=1.0
    )
    assert out.guarantee is not None
    assert out.guarantee.epsilon == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("epsilon", [EPSILON, math.inf])
def test_a_model_that_diverged_is_refused_in_one_sentence(bad: float, epsilon: float) -> None:
    spy = Spy()
    weights = np.array([1.0, bad])
    with pytest.raises(ReleaseRefused) as refusal:
        release(weights, proof=_proof(), epsilon=epsilon, delta=DELTA, noise=spy, scale=0.5)
    # Neither where nor how many.
    assert str(refusal.value) == ("Expected weights=[...] to be finite. Try a smaller step.")
    assert spy.asked == []


def test_public_reasons_come_before_the_weights_are_looked_at() -> None:
    with pytest.raises(ReleaseRefused, match="Expected proof=None"):
        release([math.nan], proof=None, noise=Spy(), **PROMISE)
    with pytest.raises(ReleaseRefused, match="scale"):
        release([math.nan], proof=_proof(), **{**PROMISE, "scale": 0.0}, noise=Spy())


def test_no_noise_anywhere_is_refused() -> None:
    with pytest.raises(ReleaseRefused, match="nothing is protected"):
        release(WEIGHTS, proof=_proof(), **{**PROMISE, "scale": 0.0}, noise=Spy())


def test_noise_inside_the_training_needs_none_at_the_door() -> None:
    spy = Spy()
    args = {**PROMISE, "scale": 0.0}
    out = release(WEIGHTS, proof=_proof(), noise=spy, already_inside="in every step", **args)
    assert out.value.tobytes() == WEIGHTS.tobytes()
    assert out.guarantee == _proof().guarantee(DELTA)
    assert out.noise == "in every step; from: a spy"
    assert spy.asked == []


def test_noise_inside_and_on_the_output() -> None:
    spy = Spy()
    out = release(WEIGHTS, proof=_proof(), noise=spy, already_inside="linear term", **PROMISE)
    assert len(spy.asked) == 1
    assert out.noise == "linear term and N(0, 0.5^2) on the output, on every weight; from: a spy"


@pytest.mark.parametrize("inside", ["", "in every step"])
def test_repeatable_noise_promises_nothing(inside: str) -> None:
    args = {**PROMISE, "scale": 0.0 if inside else 0.5}
    spy = Spy(repeatable=True)
    out = release(WEIGHTS, proof=_proof(), noise=spy, already_inside=inside, **args)
    assert out.guarantee is None
    assert np.array_equal(out.value, WEIGHTS if inside else WEIGHTS + 1)


def test_repeatable_noise_is_held_to_the_same_promise() -> None:
    with pytest.raises(ReleaseRefused):
        release(WEIGHTS, proof=_proof(2.0), noise=SeededNoise(0), **PROMISE)


@pytest.mark.parametrize("answer", [np.zeros(2), np.full((2, 3), math.nan)])
def test_a_source_that_breaks_its_word_releases_nothing(answer: object) -> None:
    with pytest.raises(ReleaseRefused, match="noise=Spy"):
        release(WEIGHTS, proof=_proof(), noise=Spy(answer=answer), **PROMISE)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"epsilon": epsilon} for epsilon in (0.0, -1.0, math.nan, "1")),
        *({"delta": delta} for delta in (1.0, -0.1, math.nan)),
        *({"scale": scale} for scale in (-1.0, math.inf, math.nan)),
    ],
)
def test_arguments_without_meaning_are_refused(wrong: dict[str, float]) -> None:
    spy = Spy()
    with pytest.raises(InvalidArgument):
        release(WEIGHTS, proof=_proof(), noise=spy, **{**PROMISE, **wrong})
    assert spy.asked == []


@pytest.mark.parametrize("weights", [["a"], [1j], [None], [True]])
def test_weights_are_real_numbers(weights: list[object]) -> None:
    for epsilon in (EPSILON, math.inf):
        with pytest.raises(InvalidArgument, match="real numbers"):
            release(weights, proof=_proof(), **{**PROMISE, "epsilon": epsilon}, noise=Spy())  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [EPSILON, math.inf])
@pytest.mark.parametrize("inside", ["", "in every step"])
def test_what_left_is_a_read_only_copy(epsilon: float, inside: str) -> None:
    weights = WEIGHTS.copy()
    args = {**PROMISE, "epsilon": epsilon, "scale": 0.0 if inside else 0.5}
    out = release(weights, proof=_proof(), noise=Spy(), already_inside=inside, **args)
    with pytest.raises(ValueError, match="read-only"):
        out.value[0] = 1.0
    assert not np.shares_memory(out.value, weights)
    weights[:] = 7.0
    assert not (out.value == 7.0).any()
    with pytest.raises(AttributeError):
        out.guarantee = None  # type: ignore[misc]


@pytest.mark.parametrize("source", [OsGaussian(), CryptoNormals()])
def test_real_sources_at_the_door(source: OsGaussian | CryptoNormals) -> None:
    weights = np.linspace(-1, 1, 2000)
    out = release(weights, proof=_proof(), noise=source, **PROMISE)
    again = release(weights, proof=_proof(), noise=source, **PROMISE)
    assert out.guarantee == _proof().guarantee(DELTA)
    assert abs((out.value - weights).std() / 0.5 - 1) < 6 / math.sqrt(2 * 2000)
    assert not (out.value == again.value).any()
    assert out.noise.endswith(source.name)
