"""How anything leaves the building: sources of noise, and the one door out.

`noise.py` draws the noise that protects (and the seeded kind, which does not), `copies.py` keeps a
forked process from drawing its parent's, `release.py` adds it and states what was proved.
"""

from sordino.mechanisms.noise import CryptoNormals, Noise, NoiseStream, OsGaussian, SeededNoise
from sordino.mechanisms.release import Release, ReleaseRefused, release

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
