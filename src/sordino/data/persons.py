"""`Persons`: whose each row is; the draws by which rows are cut and held out.

A promise about k rows of a person needs somebody who counts them. Which k stay, and who is held
out, looks at no value of a row and at no id: each row and each person has a number of its own,
drawn from a secret of the operating system, and the smallest win.

Why secret draws and not a public rule by position: without one person's rows the rows behind them
move up, and a public rule would choose others of other people. Here every row's number is drawn by
itself, so for two tables that differ in one person there is a coupling of the draws in which what
is kept of everybody else is the same: the trainings are on neighbours, k rows apart. A mixture over
draws that does not depend on the rows is at most as revealing as its worst draw (joint convexity).
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field

import numpy as np

from sordino import checks
from sordino.types import Ints

_SECRET_BYTES = 32


def new_secret() -> bytes:
    """A secret for `Persons`, from the operating system."""
    return secrets.token_bytes(_SECRET_BYTES)


@dataclass(frozen=True, eq=False)
class Persons:
    """Whose each row is.

    Parameters
    ----------
    codes
        A number one row, the same for rows of one person; not what stands in the table.
    secret
        What all draws follow from: the same secret draws the same. Never shown: whoever knows it
        knows which rows were used.
    """

    codes: Ints = field(repr=False)
    secret: bytes = field(default_factory=new_secret, repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != _SECRET_BYTES:
            checks.fail("secret", "[...]", f"to be {_SECRET_BYTES} bytes")

    def cut(self, most: int) -> Ints:
        """Places of the rows that stay, in order: of everybody at most `most`, drawn uniformly."""
        checks.whole("most", most, at_least=1)
        rows = len(self.codes)
        order = np.lexsort((self._numbers("rows", rows), self.codes))  # by person, then drawn
        by_person = self.codes[order]
        first = np.flatnonzero(np.diff(by_person, prepend=by_person[:1] - 1))
        rank = np.arange(rows) - np.repeat(first, np.diff(first, append=rows))
        return np.sort(order[rank < most])

    def split(self, percent: int) -> tuple[Ints, Ints]:
        """Places of the first `percent` % of the rows, persons in a random order, and of the rest.

        How many rows come first follows from how many there are. Whoever is on both sides of the
        cut keeps those before it; the others are in neither part.
        """
        rows = len(self.codes)
        persons = self._numbers("persons", int(self.codes.max(initial=-1)) + 1)
        order = np.lexsort((self._numbers("split", rows), self.codes, persons[self.codes]))
        cut = rows * percent // 100
        kept, held = order[:cut], order[cut:]
        return kept, held[~np.isin(self.codes[held], self.codes[kept[-1:]])]

    def take(self, places: Ints) -> Persons:
        """Of some of the rows."""
        return Persons(self.codes[places], self.secret)

    def _numbers(self, purpose: str, many: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """So many independent numbers of 64 bits: SHAKE-256 of the secret, as a stream."""
        stream = hashlib.shake_256(purpose.encode() + b"\0" + self.secret).digest(8 * many)
        return np.frombuffer(stream, dtype="<u8").astype(np.uint64)
