"""Where noise comes from. Three sources with one interface, `Noise`:

- `OsGaussian` for what is released: exact samples on a lattice, by OpenDP. Slow, and safe.
- `CryptoNormals` for noise inside a training, millions of numbers: a cipher's keystream.
- `SeededNoise` for experiments: repeatable, and whoever knows the seed can subtract it.

A forked process has its parent's keys, and must not use them. A process id does not tell copies
apart: in nested PID namespaces, as containers have, parent and child may both be process 1, and ids
are given again. Linux can clear a page of memory in every copy, however it was made
(`MADV_WIPEONFORK`); elsewhere Python tells of its own forks, and the process id of others.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import mmap
import operator
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.release.mechanism import ReleaseRefused
from sordino.types import Floats

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext
    from opendp.mod import Measurement

_Words = npt.NDArray[np.uint64]
_Sums = npt.NDArray[np.float32] | npt.NDArray[np.float64]
_Noisy = TypeVar("_Noisy", bound=npt.NDArray[Any])
_Name = str | int
_Size = tuple[int, ...]

_LEAST_SCALE, _MOST_SCALE = 1e-300, 1e300
"""Outside, squares underflow or sums overflow, and no model of this world is meant."""
_WIPE_ON_FORK = 18
"""Linux 4.14; Python has no name for it."""
_BYTES = 8


# --- Which copy of a process this is


class Copies:
    """Counts the forks between the process that made it and the one that asks.

    No lock is needed, which a fork could leave locked for good: threads that ask at the same time
    write the same number.
    """

    def __init__(self, page: mmap.mmap | bytearray) -> None:
        self._page = page
        self._process = os.getpid()
        self._known = 0

    def here(self) -> int:
        """The number of this copy; no process that this one was copied from has it."""
        known = self._known  # before the page is read: who marks it has told what it knows
        if isinstance(self._page, bytearray) and self._process != os.getpid():
            self.wipe()
            self._process = os.getpid()
        marked = int.from_bytes(self._page[:_BYTES], "little")
        if not marked:
            marked = known + 1
            self._page[:_BYTES] = marked.to_bytes(_BYTES, "little")
        self._known = marked
        return marked

    def wipe(self) -> None:
        """What a fork does to the page, where only Python tells of it."""
        self._page[:_BYTES] = bytes(_BYTES)


def _page() -> mmap.mmap | bytearray:
    """Memory that is zero in every copy of this process; or, if there is none, plain memory."""
    if sys.platform != "linux":
        return bytearray(_BYTES)
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        page.madvise(_WIPE_ON_FORK)
    except OSError:  # an older kernel
        return bytearray(_BYTES)
    try:
        page.madvise(-1)
    except OSError:
        return page
    return bytearray(_BYTES)  # an emulator that takes any advice and follows none


_COPIES = Copies(_page())
_COPY_OF_PROCESS: dict[int, int] = {}
"""Which copy had a process id, for this process and those that it was copied from."""


def check_process_id() -> None:
    """Refuse where a process id does not tell this copy from one that it was made from.

    OpenSSL, from which OpenDP draws, seeds itself anew where the process id is another than it was,
    and has no other sign of a fork.

    Raises
    ------
    ReleaseRefused
        If noise would repeat that of another process.
    """
    if _COPY_OF_PROCESS.setdefault(os.getpid(), _COPIES.here()) != _COPIES.here():
        copy = f"This process is a copy of another with the same id ({os.getpid()})"
        raise ReleaseRefused(f"{copy}, whose noise it would repeat: spawn it instead.")


def _forked() -> None:
    _COPIES.wipe()
    _COPY_OF_PROCESS.setdefault(os.getpid(), _COPIES.here())


_COPY_OF_PROCESS[os.getpid()] = _COPIES.here()  # now: somebody else may draw from OpenDP first
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


# --- Streams and sources


class Noise(Protocol):
    """A source of noise, injected wherever noise is added.

    `repeatable` says whether somebody could draw the same noise again: then it protects nobody.
    `name` is how certificates call it.
    """

    repeatable: bool

    @property
    def name(self) -> str:
        """The source in words."""
        ...

    def stream(self, *name: _Name) -> NoiseStream:
        """Open the noise called `name`, independent of every other."""
        ...

    def perturb(self, values: npt.ArrayLike, scale: float) -> Floats:
        """`values` plus fresh, independent N(0, scale^2) on each; at scale 0 an exact copy."""
        ...


class NoiseStream(ABC):
    """An endless sequence of random numbers; no number is given twice.

    Uniform and Gumbel numbers are made of 64-bit words; normal ones are the source's own.
    """

    @property
    def positions(self) -> tuple[Position, ...]:
        """The keys that it draws with now, one a thread; none where noise has no key.

        A copy of a process has its parent's until it draws.
        """
        return ()

    @abstractmethod
    def words(self, count: int) -> _Words:
        """Uniform 64-bit words, never given before."""

    @abstractmethod
    def standard_normal(self, size: _Size) -> Floats:
        """Independent N(0, 1) numbers of this shape."""

    def uniforms(self, size: _Size) -> Floats:
        """Independent uniform numbers in (0, 1): odd multiples of 2^-53."""
        # 52 bits and a half: with 53 the largest would round to 1.
        drawn = (self.words(math.prod(size)) >> 12).astype(np.float64)
        return np.asarray((drawn + 0.5) * 2.0**-52).reshape(size)

    def gumbel(self, size: _Size) -> Floats:
        """Independent standard Gumbel numbers, with both tails down to probability 2^-64."""
        words = self.words(math.prod(size)).view(np.int64)
        # One bit picks the tail, 63 the place in it, so that neither end is cut or coarse.
        half = ((words & (2**63 - 1)) + 0.5) * 2.0**-64
        exponential = np.where(words < 0, -np.log(half), -np.log1p(-half))
        return np.asarray(-np.log(exponential)).reshape(size)

    def perturb(self, values: npt.ArrayLike, scale: float) -> Floats:
        """`values` plus independent N(0, scale^2) on each; at scale 0 an exact copy."""
        exact, scale = _checked(values, scale)
        if scale == 0:
            return exact
        with np.errstate(over="ignore"):
            return _finite(exact + scale * self.standard_normal(exact.shape))

    def add_to(self, values: _Sums, scale: float) -> None:
        """Add independent N(0, scale^2) to each of `values`, in place; at scale 0 nothing.

        It is added in float64, and the sums are rounded to the type of `values`, float32 or
        float64, once. Numbers that are refused, since they are not finite or would not be, may
        hold part of the noise.
        """
        _check_in_place(values)
        with np.errstate(over="ignore"):
            values[...] = _finite(self.perturb(values, scale).astype(values.dtype))


class Position(NamedTuple):
    """How far a stream is, for whoever has to show that no noise was given twice.

    Every stream of every process has a key of its own. A fingerprint does not tell the key.
    """

    key: str
    """The first 128 bits of a SHA-256 digest, in hexadecimal."""
    used: int
    """Bytes drawn with this key."""


class OsGaussian(NoiseStream):
    """Noise for what is released: OpenDP's Gaussian, sampled exactly, in no way repeatable.

    Every float64 is a multiple of g = 2^-1074. OpenDP turns the values into whole multiples of g
    without rounding (its k, left at -1074), adds integers from the discrete Gaussian of standard
    deviation s = scale / g, sampled exactly in whole-number arithmetic (Canonne, Kamath &
    Steinke 2020), and only then rounds to the nearest float64, which is post-processing. So the
    low bits of a float tell nothing (Mironov 2012), and OpenDP's own privacy map is that of the
    continuous Gaussian, rho = (sensitivity / scale)^2 / 2, with nothing added (`rho`).

    The same holds for the whole curve delta(epsilon) that our accountants compute for continuous
    noise. Continuous noise rounded to the lattice is as private as before rounding, since values
    are whole multiples of g and rounding commutes with whole shifts. The discrete Gaussian differs
    from the rounded one, in total variation, by at most 1 / (24 s^2) a coordinate: the error of
    the midpoint rule, the two normalisers being equal to within 2 exp(-2 pi^2 s^2) by Poisson
    summation. For d coordinates delta grows by at most (1 + e^epsilon) d / (24 s^2). With
    scale = 1e-12, s is 2e311 and that is below 1e-600; at the least scale allowed here, 1e-300,
    it is (1 + e^epsilon) d 1e-48.

    It takes about 55 microseconds a coordinate whatever the scale (5 s for 10^5). How long exactly
    depends on the noise drawn (Jin et al. 2022), so the time of one release is not to be published.
    OpenDP before 0.14.2 must not be used: a fault in its rational division biased the samples.
    Before 0.16 the last bits of a sample are mostly even ones.

    OpenDP draws its bits from OpenSSL's generator, seeded by the operating system, which nobody
    outside can seed anew. It does so itself in a forked process, if that has another process id;
    one that has not is refused, here before anything is trained.
    """

    repeatable = False

    def __init__(self) -> None:
        check_process_id()

    @property
    def name(self) -> str:
        """The source in words, with OpenDP's version."""
        return self.name_under(version("opendp"))

    @staticmethod
    def name_under(opendp: str) -> str:
        """What `name` is under this version of OpenDP: for whoever reads it in a certificate."""
        how = "discrete, exact sampling; the operating system's randomness"
        return f"OpenDP {opendp} Gaussian ({how})"

    def perturb(self, values: npt.ArrayLike, scale: float) -> Floats:
        """`values` plus independent N(0, scale^2) on each; at scale 0 an exact copy."""
        check_process_id()
        exact, scale = _checked(values, scale)
        if scale == 0 or exact.size == 0:
            return exact
        noisy = np.array(_opendp_gaussian(scale)(exact.ravel().tolist()), dtype=np.float64)
        check_process_id()  # now: a fork in between would have copied the generator
        return _finite(noisy.reshape(exact.shape))

    def stream(self, *name: _Name) -> NoiseStream:
        """The same noise; the name is not used, since nothing is ever repeated."""
        return self

    def words(self, count: int) -> _Words:
        """Uniform 64-bit words from the operating system."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)

    def standard_normal(self, size: _Size) -> Floats:
        """Independent N(0, 1) numbers of this shape."""
        return self.perturb(np.zeros(size), 1.0)

    def rho(self, sensitivity: float, scale: float) -> float:
        """What OpenDP itself proves of `perturb`: rho of zero-concentrated DP."""
        sensitivity = checks.non_negative("sensitivity", sensitivity)
        scale = checks.positive("scale", _scale(scale))
        privacy_map: Callable[[float], float] = _opendp_gaussian(scale).map
        return privacy_map(sensitivity)


_FEATURES = threading.Lock()


@contextmanager
def _contrib() -> Iterator[None]:
    """OpenDP's switch for what its committee has not reviewed: on for us, then as it was."""
    from opendp import mod

    with _FEATURES:
        was_on = "contrib" in mod.GLOBAL_FEATURES
        mod.enable_features("contrib")
        try:
            yield
        finally:
            if not was_on:
                mod.disable_features("contrib")


def _opendp_gaussian(scale: float) -> Measurement:
    # Not opendp.prelude, which loads polars, pandas and scikit-learn: 1.5 s.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance

    with _contrib():
        domain = vector_domain(atom_domain(T="f64", nan=False))
        return make_gaussian(domain, l2_distance(T="f64"), scale=scale)


class CryptoNormals:
    """Noise inside a training: as fast as an ordinary generator, and as secret as a cipher's key.

    Each stream is the keystream of ChaCha20 under a 256-bit key from the operating system, kept
    nowhere else; large requests are shared among threads, each with a key of its own. A normal
    number is half the sum of four independent Box-Muller normals, each from two 64-bit words, with
    tails down to probability 2^-64; none is infinite. The loop is compiled when first used.

    Safety in floating point: a single Box-Muller normal could be searched for among all that 53-bit
    arithmetic can make, and those betray what they were added to (Mironov 2012; Jin et al. 2022).
    A sum of four has far too many origins to search, 2^512 for each pair (Holohan & Braghin 2021).
    Neither a branch nor an address in memory depends on the words, so that time tells nothing of
    them. That defeats the attacks known; it is no proof for every bit, as `OsGaussian`'s is. In a
    training the numbers are scaled, added to gradients and summed over many steps on top of that:
    in float64, by `add_to`, which rounds once; to float32, that takes 29 more bits off.

    >>> CryptoNormals().stream().standard_normal((2, 3)).shape
    (2, 3)
    """

    repeatable = False
    name = (
        "ChaCha20 keystream keyed by the operating system; "
        "sums of four Box-Muller normals (Holohan & Braghin 2021)"
    )

    def stream(self, *name: _Name) -> NoiseStream:
        """Open a keystream with a key of its own; the name is not used, nothing is repeated."""
        return _Keystream()

    def perturb(self, values: npt.ArrayLike, scale: float) -> Floats:
        """`values` plus independent N(0, scale^2) on each, from a keystream of its own."""
        return _Keystream().perturb(values, scale)


_BLOCK = 8192
"""Normals made at a time: small enough for their words to stay in the processor's cache."""
_ZEROS = memoryview(bytes(32 * _BLOCK))
_BYTES_A_KEY = 2**36
"""Far below 2^38, where ChaCha20's 32-bit block counter would begin again."""
_LEAST_A_THREAD = 1 << 21
"""Normals worth a thread. Those of a network's step come right behind torch's products, whose
threads wait for more work on their cores: 269,322 on two threads took twice as long as on one."""


class _Key:
    """A key of the operating system, how much was drawn with it, and by which copy."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

        self.owner = _COPIES.here()  # first: a copy made in between must not own the key
        key = os.urandom(32)
        self.fingerprint = hashlib.sha256(b"sordino keystream" + key).hexdigest()[:32]
        # The key is used once, so counter and nonce may start at 0.
        cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None)
        self._cipher: CipherContext = cipher.encryptor()
        self.used = 0

    def draw(self, into: memoryview) -> None:
        """Overwrite at most len(_ZEROS) bytes."""
        self.used += len(into)
        self._cipher.update_into(_ZEROS[: len(into)], into)


class _Keystream(NoiseStream):
    """The words of one keystream. Nothing is buffered: a copy has no numbers to give again."""

    def __init__(self) -> None:
        self._key = _Key()
        self._others: list[_Keystream] = []  # of further threads

    @property
    def positions(self) -> tuple[Position, ...]:
        streams = (self, *self._others)
        return tuple(Position(each._key.fingerprint, each._key.used) for each in streams)

    def words(self, count: int) -> _Words:
        here = _COPIES.here()
        drawn = np.empty(count, dtype=np.uint64)
        most = len(_ZEROS) // _BYTES
        for start in range(0, count, most):
            self._draw(drawn[start : start + most])
        _check_uncopied(here)
        return drawn

    def standard_normal(self, size: _Size) -> Floats:
        drawn = np.zeros(size)
        self._add(drawn.reshape(-1), 1.0)
        return drawn

    def add_to(self, values: _Sums, scale: float) -> None:
        _check_in_place(values)
        scale = _scale(scale)
        if scale == 0:
            super().add_to(values, scale)
            return
        flat = values.reshape(-1)
        finite = self._add(flat, scale)
        if not np.may_share_memory(flat, values):  # rows that are apart cannot be flat
            values[...] = flat.reshape(values.shape)
        if not finite:
            _fail_finite(values.dtype)

    def _add(self, values: _Sums, scale: float) -> bool:
        """Add the noise, by several threads where it is much; False if a sum is not finite."""
        from sordino.models.kernels import normals

        here = _COPIES.here()
        threads = min(normals.THREADS, len(values) // _LEAST_A_THREAD)
        if threads < 2:
            finite = self._add_here(values, scale)
        else:
            others = self._for_more_threads(threads - 1)
            cuts = [len(values) * i // threads for i in range(threads + 1)]
            parts = [values[start:stop] for start, stop in itertools.pairwise(cuts)]
            # Threads are started anew each time: a forked process would miss those of a pool.
            with ThreadPoolExecutor(threads - 1) as pool:
                there = pool.map(_Keystream._add_here, others, parts[1:], [scale] * len(others))
                finite = self._add_here(parts[0], scale)
            _check_uncopied(here)  # first: a copy would wait for threads that it has not
            finite = all([finite, *there])
        _check_uncopied(here)
        return finite

    def _for_more_threads(self, count: int) -> list[_Keystream]:
        while len(self._others) < count:
            self._others.append(_Keystream())
        return self._others[:count]

    def _add_here(self, values: _Sums, scale: float) -> bool:
        from sordino.models.kernels import normals

        words = np.empty(normals.words_for(min(len(values), _BLOCK)), dtype=np.uint64)
        finite = True
        for start in range(0, len(values), _BLOCK):
            part = values[start : start + _BLOCK]
            drawn = words[: normals.words_for(len(part))]
            self._draw(drawn)
            finite &= normals.add_normals(drawn, part, scale)
        return finite

    def _draw(self, words: _Words) -> None:
        """Overwrite at most len(_ZEROS) bytes with words never given before."""
        into = words.view(np.uint8).data
        if self._key.used + len(into) > _BYTES_A_KEY:
            self._key = _Key()
        self._key.draw(into)
        # A forked process has its parent's key: both would draw the same noise. Asked after
        # drawing, so that a copy made in between notices too.
        while self._key.owner != _COPIES.here():
            self._key = _Key()
            self._key.draw(into)


class SeededNoise:
    """Repeatable noise for experiments: same seed, same noise. A release with it is no release.

    The n-th `perturb` of one instance draws the n-th part of a sequence that the seed determines.

    >>> bool(SeededNoise(1).perturb([0.0], 1.0) == SeededNoise(1).perturb([0.0], 1.0))
    True
    """

    repeatable = True
    name = "seeded generator, for experiments; protects nobody"

    def __init__(self, root: int) -> None:
        self.root = checks.whole("root", root)
        self._own = _SeededStream(self.root, ("perturb",))

    def stream(self, *name: _Name) -> NoiseStream:
        """Open the stream called `name` at its start."""
        return _SeededStream(self.root, ("stream", *name))

    def perturb(self, values: npt.ArrayLike, scale: float) -> Floats:
        """`values` plus independent N(0, scale^2) on each; at scale 0 an exact copy."""
        return self._own.perturb(values, scale)


class _SeededStream(NoiseStream):
    def __init__(self, root: int, name: tuple[_Name, ...]) -> None:
        # JSON keeps ("a", 1) apart from ("a1",) and 1 apart from "1"; SHA-256 spreads the rest.
        plain = [part if isinstance(part, str) else operator.index(part) for part in name]
        digest = hashlib.sha256(json.dumps(plain).encode()).digest()
        seed = np.random.SeedSequence([root, int.from_bytes(digest, "big")])
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def words(self, count: int) -> _Words:
        return self._generator.integers(2**64, size=count, dtype=np.uint64)

    def standard_normal(self, size: _Size) -> Floats:
        return self._generator.standard_normal(size)


def _checked(values: npt.ArrayLike, scale: float) -> tuple[Floats, float]:
    """A float64 copy of finite `values`, and a scale that is 0 or within range."""
    given: npt.NDArray[Any] = np.asarray(values)
    if given.dtype.kind not in "iuf":
        checks.fail("values", given.dtype, "to be real numbers")
    exact = np.array(given, dtype=np.float64)
    if not np.isfinite(exact).all():
        # OpenDP would take NaN for 0 and infinity for the largest float.
        checks.fail("values", "[...]", "to hold finite numbers only")
    return exact, _scale(scale)


def _scale(scale: float) -> float:
    scale = checks.non_negative("scale", scale)
    if scale and not _LEAST_SCALE <= scale <= _MOST_SCALE:
        checks.fail("scale", scale, f"to be 0 or in [{_LEAST_SCALE:g}, {_MOST_SCALE:g}]")
    return scale


def _check_uncopied(here: int) -> None:
    """Refuse in a copy made while noise was drawn: `here` was what `_COPIES` said before."""
    if here != _COPIES.here():
        copy = "This process was copied while it drew noise, part of which it would repeat"
        raise ReleaseRefused(f"{copy}: copy it between two draws.")


def _check_in_place(values: _Sums) -> None:
    if not isinstance(values, np.ndarray) or values.dtype not in (np.float32, np.float64):
        checks.fail("values", type(values), "to be an array of float32 or float64")
    if not values.flags.writeable:
        checks.fail("values", "[...]", "to be writeable")


def _finite(noisy: _Noisy) -> _Noisy:
    if not np.isfinite(noisy).all():
        _fail_finite(noisy.dtype)
    return noisy


def _fail_finite(dtype: np.dtype[Any]) -> NoReturn:
    checks.fail("values", "[...]", f"to stay within {dtype} with this noise")
