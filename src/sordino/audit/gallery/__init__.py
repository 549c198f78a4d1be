"""Broken privacy that an audit must catch, each beside a correct twin that it must let pass.

A file a family: `output.py` (noise on the weights), `steps.py` (noise in every step),
`objective.py` (noise in the objective). `entry.py` says what an entry is, and plays it.
"""

from __future__ import annotations

from sordino import checks
from sordino.audit.gallery import objective, output, steps
from sordino.audit.gallery.entry import Case, GalleryEntry

__all__ = ["ENTRIES", "Case", "GalleryEntry", "find_entry"]

ENTRIES: tuple[GalleryEntry, ...] = tuple(
    each
    for family in (output, steps, objective)
    for each in vars(family).values()
    if isinstance(each, GalleryEntry)
)


def find_entry(name: str) -> GalleryEntry:
    """The entry of this name; another name is refused with the nearest valid one."""
    entries = {entry.name: entry for entry in ENTRIES}
    return entries[checks.one_of("entry", name, entries)]
