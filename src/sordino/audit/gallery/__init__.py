"""Broken privacy that an audit must catch, each beside a correct twin that it must let pass.

A file a family: `output.py` (the sensitivity of the final weights), `relation.py` (the wrong
neighbours), `release.py` (the noise on the weights), `noise.py` (where noise comes from),
`steps.py` (noise in every step), `objective.py` (noise in the objective). `entry.py` says what an
entry is, `pair.py` holds a pair that several share, `play.py` plays.
"""

from __future__ import annotations

from sordino.audit.gallery import noise, objective, output, relation, release, steps
from sordino.audit.gallery.entry import Case, Entry

__all__ = ["ENTRIES", "Case", "Entry", "named"]

ENTRIES: tuple[Entry, ...] = (
    *output.ENTRIES,
    *relation.ENTRIES,
    *release.ENTRIES,
    *noise.ENTRIES,
    *steps.ENTRIES,
    *objective.ENTRIES,
)


def named(name: str) -> Entry:
    """The entry of this name; another name is refused with the nearest valid one."""
    from sordino import _check

    _check.one_of("entry", name, [entry.name for entry in ENTRIES])
    return next(entry for entry in ENTRIES if entry.name == name)
