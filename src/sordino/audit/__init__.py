"""What an attacker really sees: lower bounds on epsilon that hold with stated confidence.

`audit` plays the game (D or D'?) against any mechanism; `bounds`, `band` and `canaries` turn its
scores into an `Observation`; `worst_case` is the loss that hides nothing, `gallery` the broken
mechanisms that must be caught. Loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sordino.audit.claim import Claim

if TYPE_CHECKING:
    from sordino.audit.game import Audit, audit
    from sordino.audit.worlds import TrainedRelease

_LAZY = {
    "Audit": "sordino.audit.game",
    "TrainedRelease": "sordino.audit.worlds",
    "audit": "sordino.audit.game",
}

__all__ = ["Audit", "Claim", "TrainedRelease", "audit"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
