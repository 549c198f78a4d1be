"""What can be proved of a run: plain numbers in, a `Profile` out. See docs/accounting.md.

Named here is what serves people rather than other rooms: the accountant for Opacus and events for
dp-accounting, and formulas of the papers that nothing in sordino itself needs.
"""

from typing import TYPE_CHECKING

from sordino import _lazy

if TYPE_CHECKING:
    from sordino.accounting.calibrate import most_steps
    from sordino.accounting.interop import Accountant, allocation_accountant, from_event, to_event
    from sordino.accounting.naive_strong import naive_noise_classical, strong_optimal
    from sordino.accounting.objective import joint_norm
    from sordino.accounting.zcdp import canonne_epsilon

__all__ = [
    "Accountant",
    "allocation_accountant",
    "canonne_epsilon",
    "from_event",
    "joint_norm",
    "most_steps",
    "naive_noise_classical",
    "strong_optimal",
    "to_event",
]

_HOMES = {
    "Accountant": "interop",
    "allocation_accountant": "interop",
    "canonne_epsilon": "zcdp",
    "from_event": "interop",
    "joint_norm": "objective",
    "most_steps": "calibrate",
    "naive_noise_classical": "naive_strong",
    "strong_optimal": "naive_strong",
    "to_event": "interop",
}

__getattr__, __dir__ = _lazy.public_names(__name__, _HOMES)
