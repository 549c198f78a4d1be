"""`Record`: what is known of one cell. It is written after the cell's data, and makes it count."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from sordino.serialize import canonical

FOLDER = "cells"


@dataclass(frozen=True)
class Record:
    """That a cell is done, with the SHA-256 of each file of weights, or failed and why."""

    status: str
    digests: Mapping[str, str] = field(hash=False)
    reason: str = ""

    @classmethod
    def done(cls, files: Mapping[str, bytes]) -> Record:
        """For a cell whose weights are in these files."""
        return cls("done", {name: digest(content) for name, content in files.items()})

    @classmethod
    def failed(cls, reason: str) -> Record:
        """For a cell that has no weights."""
        return cls("failed", {}, reason)

    def encode(self, study: str, number: int) -> bytes:
        """The bytes of its file; no times, so that a second run writes the same."""
        plain = {
            "study": study,
            "cell": number,
            "status": self.status,
            "reason": self.reason,
            "sha256": dict(self.digests),
        }
        return (canonical(plain) + "\n").encode("ascii")

    @classmethod
    def decode(cls, content: bytes, study: str, number: int) -> Record | None:
        """What `encode` wrote for this cell of this study; None for anything else."""
        try:
            plain = json.loads(content.decode("ascii"))
            record = cls(plain["status"], dict(plain["sha256"]), plain["reason"])
            right = record.status in ("done", "failed")
            return record if right and record.encode(study, number) == content else None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None


def name(number: int) -> str:
    """File of the record of the cell of this number."""
    return f"{FOLDER}/{number:06d}.json"


def study_of(content: bytes) -> str | None:
    """The address of the study that a record says it belongs to."""
    try:
        return str(json.loads(content.decode("ascii"))["study"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
