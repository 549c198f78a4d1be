"""Broken privacy that an audit must catch, each beside a correct twin that it must let pass.

A file a family: `output.py` (how far a record moves the weights), `release.py` (the noise on the
weights, and where it comes from), `steps.py` (noise in every step), `objective.py` (noise in the
objective). `entry.py` says what an entry is and holds what several share, `play.py` plays.
"""

from __future__ import annotations

from sordino.audit.gallery import objective, output, release, steps
from sordino.audit.gallery.entry import Case, GalleryEntry

__all__ = ["ENTRIES", "Case", "GalleryEntry", "named"]

ENTRIES: tuple[GalleryEntry, ...] = (
    *output.ENTRIES,
    *release.ENTRIES,
    *steps.ENTRIES,
    *objective.ENTRIES,
)


def named(name: str) -> GalleryEntry:
    """The entry of this name; another name is refused with the nearest valid one."""
    from sordino import checks

    checks.one_of("entry", name, [entry.name for entry in ENTRIES])
    return next(entry for entry in ENTRIES if entry.name == name)
