"""The two sources that make their own normals: `CryptoNormals` and `SeededNoise`."""

from __future__ import annotations

import copy
import math
import pickle
import time

import numpy as np
import pytest
from scipy import stats

from sordino.errors import InvalidArgument
from sordino.release import CryptoNormals, SeededNoise, noise

FAR = 6.0  # standard errors: a sound source fails once in 10^9 tests


def _looks_normal(x: np.ndarray) -> None:
    n = x.size
    assert abs(x.mean()) * math.sqrt(n) < FAR
    assert abs(x.var() - 1) * math.sqrt(n / 2) < FAR
    assert abs(stats.skew(x.ravel())) * math.sqrt(n / 6) < FAR
    assert abs(stats.kurtosis(x.ravel())) * math.sqrt(n / 24) < FAR
    assert stats.kstest(x.ravel(), "norm").pvalue > 1e-9


# The keystream


def test_keystream_normals_are_normal_and_independent() -> None:
    x = CryptoNormals().stream("x").standard_normal((4000, 50))
    _looks_normal(x)
    assert abs(np.corrcoef(x.ravel()[:-1], x.ravel()[1:])[0, 1]) * math.sqrt(x.size) < FAR
    off = np.corrcoef(x.T)[np.triu_indices(50, 1)] * math.sqrt(4000)
    assert np.abs(off).max() < FAR + 1


def test_the_two_halves_of_a_pair_are_independent_beyond_correlation() -> None:
    # Cosine and sine share their radius: squares would tell if it did not cancel out.
    x = CryptoNormals().stream("x").standard_normal((8192,))
    cosine, sine = x[:4096] ** 2, x[4096:] ** 2
    assert abs(np.corrcoef(cosine, sine)[0, 1]) * math.sqrt(4096) < FAR


@pytest.mark.slow
def test_keystream_normals_hold_to_the_tails() -> None:
    x = CryptoNormals().stream("x").standard_normal((10_000_000,))
    _looks_normal(x)
    for out in (3.0, 4.0, 4.5):
        expected = stats.norm.sf(out) * x.size
        for side in (x, -x):
            beyond = np.count_nonzero(side > out)
            assert abs(beyond - expected) < FAR * math.sqrt(expected)


class _Words(noise._Keystream):
    """A keystream that gives the words it is told to."""

    def __init__(self, value: int) -> None:
        self.value = value

    def words(self, count: int) -> np.ndarray:
        return np.full(count, self.value, dtype=np.uint64)


@pytest.mark.parametrize("value", [0, 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_the_most_extreme_words_give_finite_numbers(value: int) -> None:
    stream = _Words(value)
    assert np.isfinite(stream.standard_normal((7,))).all()
    assert np.isfinite(stream.gumbel((7,))).all()
    uniforms = stream.uniforms((7,))
    assert ((uniforms > 0) & (uniforms < 1)).all()


def test_the_tails_reach_beyond_what_53_bits_allow() -> None:
    # Each summand goes to sqrt(2 ln 2^65) = 9.49, their sum over 2 to twice that.
    assert np.abs(_Words(0).standard_normal((2,))).max() > 18.9
    assert _Words(0).gumbel((1,))[0] > 44
    assert _Words(2**63).gumbel((1,))[0] < -3.8


def test_sums_of_four_have_exactly_this_formula() -> None:
    class Given(noise._Keystream):
        def words(self, count: int) -> np.ndarray:
            return np.random.default_rng(5).integers(2**64, size=count, dtype=np.uint64)

    words = Given().words(8 * 3).reshape(2, 4, 3)
    radius = np.sqrt(-2 * np.log((words[0] + 0.5) / 2.0**64))
    angle = 2 * math.pi * words[1] / 2.0**64
    pairs = [(radius * np.cos(angle)).sum(axis=0) / 2, (radius * np.sin(angle)).sum(axis=0) / 2]
    assert Given().standard_normal((6,)) == pytest.approx(np.concatenate(pairs), abs=1e-12)


def test_no_two_streams_share_anything() -> None:
    source = CryptoNormals()
    draws = [source.stream("same", 1).standard_normal((50,)) for _ in range(20)]
    assert len(np.unique(draws)) == 20 * 50


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])  # noqa: S301
def test_a_stream_cannot_be_duplicated(copied: object) -> None:
    stream = CryptoNormals().stream("x")
    with pytest.raises(TypeError):
        copied(stream)  # type: ignore[operator]


def test_a_shallow_copy_goes_on_and_repeats_nothing() -> None:
    stream = CryptoNormals().stream("x")
    stream.standard_normal((5,))
    other = copy.copy(stream)
    drawn = [s.standard_normal((5,)) for s in (stream, other, stream, other)]
    assert len(np.unique(drawn)) == 20


def test_a_key_is_changed_before_its_counter_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_BYTES_A_KEY", len(noise._ZEROS))
    stream = noise._Keystream()
    first = stream._cipher
    stream.words(len(noise._ZEROS) // 8)
    assert stream._cipher is first
    stream.words(1)
    assert stream._cipher is not first
    _looks_normal(stream.standard_normal((50_000,)))


@pytest.mark.slow
def test_five_million_normals_a_second() -> None:
    stream = CryptoNormals().stream("x")
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        stream.standard_normal((1_000_000,))
        best = min(best, time.perf_counter() - start)
    assert best < 0.2


def test_gumbel_argmax_is_softmax() -> None:
    scores = np.array([0.0, 1.0, 2.5])
    drawn = CryptoNormals().stream("x").gumbel((50_000, 3))
    counts = np.bincount((scores + drawn).argmax(axis=1), minlength=3)
    expected = np.exp(scores) / np.exp(scores).sum() * 50_000
    assert stats.chisquare(counts, expected).pvalue > 1e-9


# Seeded noise


def test_a_seed_repeats_everything() -> None:
    one, other = SeededNoise(7), SeededNoise(7)
    values = np.arange(4.0)
    for _ in range(2):
        assert np.array_equal(one.perturb(values, 2.0), other.perturb(values, 2.0))
    for draw in ("standard_normal", "uniforms", "gumbel"):
        first, second = (getattr(s.stream("a", 1), draw)((5,)) for s in (one, other))
        assert np.array_equal(first, second)


def test_seeded_noise_never_changes_between_versions() -> None:
    # python -c "import hashlib, numpy as np
    # d = int.from_bytes(hashlib.sha256(b'[\"stream\", \"noise\", 0]').digest(), 'big')
    # print(np.random.PCG64(np.random.SeedSequence([7, d])).random_raw(2))": the top 52 bits
    drawn = SeededNoise(7).stream("noise", 0).uniforms((2,))
    assert drawn.tolist() == [0.42003842922574075, 0.7868280831378142]


def test_seeds_and_names_are_independent() -> None:
    names: list[tuple[str | int, ...]] = [(), ("a", 1), ("a1",), ("a", "1"), (1, "a"), ("perturb",)]
    streams = [SeededNoise(root).stream(*name) for root in (0, 1) for name in names]
    drawn = [stream.standard_normal((3,)) for stream in streams]
    drawn += [SeededNoise(root).perturb(np.zeros(3), 1.0) for root in (0, 1)]
    assert len(np.unique(drawn)) == 3 * len(drawn)


@pytest.mark.parametrize("root", [-1, 1.5, "a", True, None])
def test_a_seed_is_a_whole_number(root: object) -> None:
    with pytest.raises(InvalidArgument, match="root"):
        SeededNoise(root)  # type: ignore[arg-type]
