"""How anything leaves the building: noise, the one mechanism that adds it, and what is said of it.

`noise.py` draws the noise that protects (and the seeded kind, which does not), `mechanism.py` adds
it and states what was proved, `certificate.py`, `bundle.py` and `signature.py` write it down,
`verify.py` checks it again, and `ledger/` adds up all releases from a dataset.
"""

from sordino.release.mechanism import Release, ReleaseRefused, release
from sordino.release.noise import CryptoNormals, Noise, NoiseStream, OsGaussian, SeededNoise

__all__ = [
    "CryptoNormals",
    "Noise",
    "NoiseStream",
    "OsGaussian",
    "Release",
    "ReleaseRefused",
    "SeededNoise",
    "release",
]
