"""How anything leaves the building: sources of noise, and the one door out.

`noise.py` draws the noise that protects (and the seeded kind, which does not), `copies.py` keeps a
forked process from drawing its parent's, `release.py` adds it and states what was proved.
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
