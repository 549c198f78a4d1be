"""Epsilon of random allocation by other libraries: run by a Python that has them.

Reads one question as JSON from standard input, prints the epsilon (an upper bound) and the seconds
it took, imports left out. PLD_accounting: its adaptive bound, 10 % wide as it comes. Opake: one
epoch, composed with itself.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

Question = dict[str, Any]


def pld_accounting(question: Question) -> float:
    from PLD_accounting import gaussian_allocation_epsilon_range

    upper, _ = gaussian_allocation_epsilon_range(
        delta=question["delta"],
        sigma=question["noise_multiplier"],
        num_steps=int(question["steps_per_epoch"]),
        num_epochs=int(question["epochs"]),
    )
    return float(upper)


def opake(question: Question) -> float:
    import opake.accounting  # noqa: F401 - its native part is loaded by this
    from opake.api.accounting.core import _native
    from opake.api.accounting.core.discretization import DiscretizationConfig

    epoch = _native.random_allocation_gaussian_pld(
        question["noise_multiplier"],
        int(question["steps_per_epoch"]),
        1,
        DiscretizationConfig().to_native(),
    )
    return float(epoch.self_compose(int(question["epochs"])).epsilon_at(question["delta"]))


LIBRARIES = {"pld_accounting": pld_accounting, "opake": opake}

if __name__ == "__main__":
    ask = LIBRARIES[sys.argv[1]]
    question = json.load(sys.stdin)
    ask({"noise_multiplier": 5.0, "steps_per_epoch": 2, "epochs": 1, "delta": 1e-2})
    began = time.perf_counter()
    value = ask(question)
    print(json.dumps({"value": value, "seconds": time.perf_counter() - began}))
