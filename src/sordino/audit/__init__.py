"""What an attacker really sees: lower bounds on epsilon that hold with stated confidence.

`audit` plays the game (D or D'?) against any mechanism; `bounds`, `band` and `canaries` turn its
scores into an `Observation`; `worst_case` is the loss that hides nothing, `gallery` the broken
mechanisms that must be caught. Loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino import _lazy

if TYPE_CHECKING:
    from sordino.audit.game import Audit, audit
    from sordino.audit.pairs import Claim
    from sordino.audit.runners.trained import TrainedRelease
    from sordino.audit.worst_case import likelihood_ratio_all_iterates, linear_last_iterate

_HOMES = {
    "Audit": "game",
    "Claim": "pairs",
    "TrainedRelease": "runners.trained",
    "audit": "game",
    "likelihood_ratio_all_iterates": "worst_case",
    "linear_last_iterate": "worst_case",
}

__all__ = [
    "Audit",
    "Claim",
    "TrainedRelease",
    "audit",
    "likelihood_ratio_all_iterates",
    "linear_last_iterate",
]

__getattr__, __dir__ = _lazy.public_names(__name__, _HOMES)
