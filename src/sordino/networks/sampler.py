"""Which records are in which step: drawn by a key from the operating system, known to nobody.

The batch of a step is a function of the key and the step, so a training that was killed meets the
same batches when it goes on. The key is as secret as the records: it stays in the checkpoint.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np

from sordino import checks
from sordino.privacy import Sampling
from sordino.sgd.batches import drawn_below
from sordino.types import Ints

_WORD = 8
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class StepSampler:
    """The steps of a training, each with the records that are in it.

    Parameters
    ----------
    sampling
        `Sampling.POISSON`: each record in each step with chance `sample_rate`, independently.
        `Sampling.ALLOCATION`: each in one of `steps_per_epoch` steps, drawn anew every epoch.
    records
        How many there are.
    sample_rate, steps_per_epoch
        The public numbers.
    key
        256 bits; by default from the operating system.

    >>> batches = StepSampler(Sampling.ALLOCATION, records=10, steps_per_epoch=4)
    >>> sorted(int(record) for step in range(4) for record in batches.of(step))
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    sampling: Sampling
    records: int
    sample_rate: float = 1.0
    steps_per_epoch: int = 1
    key: bytes = field(default_factory=lambda: os.urandom(32), repr=False)
    _drawn: dict[int, Ints] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        checks.whole("records", self.records, at_least=1)
        checks.fraction("sample_rate", self.sample_rate)
        checks.whole("steps_per_epoch", self.steps_per_epoch, at_least=1)

    def of(self, step: int) -> Ints:
        """Records of a step, in order; there may be none."""
        if self.sampling == Sampling.ALLOCATION:
            epoch, place = divmod(step, self.steps_per_epoch)
            if epoch not in self._drawn:
                self._drawn.clear()
                draw = _Words(self.key, epoch).draw
                self._drawn[epoch] = drawn_below(self.steps_per_epoch, self.records, draw)
            return np.flatnonzero(self._drawn[epoch] == place)
        words = _Words(self.key, step)
        # A record is in where its word is below rate * 2^64, rounded down to a whole number.
        limit = int(self.sample_rate * 2.0**64)
        if limit >= 2**64:
            return np.arange(self.records)
        found = []
        for start in range(0, self.records, _AT_ONCE):
            many = min(_AT_ONCE, self.records - start)
            found.append(start + np.flatnonzero(words.draw(many) < np.uint64(limit)))
        return np.concatenate(found)


class _Words:
    """Uniform 64-bit words: the ChaCha20 keystream of a key under a number."""

    def __init__(self, key: bytes, number: int) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

        # 32 bits of block counter, from 0, and 96 of nonce.
        nonce = bytes(4) + number.to_bytes(12, "little")
        self._cipher = Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor()

    def draw(self, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return np.frombuffer(self._cipher.update(bytes(_WORD * count)), dtype=np.uint64)
