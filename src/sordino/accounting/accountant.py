"""`Accountant`: sordino's accounting in the shape that Opacus expects of its accountants."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from sordino import checks
from sordino.accounting import subsampled
from sordino.accounting.compose import compose
from sordino.accounting.profile import Profile
from sordino.privacy import Relation

SCHEMA = 1
"""Version of what `state_dict` holds."""

_SAMPLING = "poisson"
_RELATION = Relation.ADD_OR_REMOVE_ONE
_STATE_HINT = "Pass what `state_dict` of a sordino Accountant returned."


class Accountant:
    """Counts the steps of DP-SGD and says what they spent; fits `opacus.PrivacyEngine`.

    Opacus has one convention, and so has this class: every step adds Gaussian noise to the clipped
    gradients of a Poisson sample, and neighbours differ by one record that is present or absent
    (`Relation.ADD_OR_REMOVE_ONE`). A loader that shuffles instead (`poisson_sampling=False`) is not
    covered by these numbers; `sordino.accounting.subsampled` has that case.

    Opacus asks for the shape only, so this class is no subclass of Opacus' and needs no Opacus::

        from opacus import PrivacyEngine
        from opacus.accountants import register_accountant

        register_accountant(Accountant.mechanism(), Accountant)
        engine = PrivacyEngine(accountant="sordino")

    Attributes
    ----------
    history
        (noise_multiplier, sample_rate, steps) of every stretch of equal steps, in order.
    """

    def __init__(self) -> None:
        self.history: list[tuple[float, float, int]] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count one step; noise_multiplier = std / clip, and 0 means no privacy."""
        self._count(_noise(noise_multiplier), _rate(sample_rate), 1)

    def _count(self, noise_multiplier: float, sample_rate: float, steps: int) -> None:
        if self.history and tuple(self.history[-1][:2]) == (noise_multiplier, sample_rate):
            steps += self.history.pop()[2]
        self.history.append((noise_multiplier, sample_rate, steps))

    def profile(self) -> Profile:
        """Everything the steps so far can leak, composed by their privacy loss distributions."""
        totals: Counter[tuple[float, float]] = Counter()
        for entry in self.history:
            noise_multiplier, sample_rate, steps = _entry("history", entry)
            totals[noise_multiplier, sample_rate] += steps
        return compose(
            [_steps(*pair, steps) for pair, steps in totals.items()] or [_steps(1, 1, 0)]
        )

    def get_epsilon(self, delta: float, **kwargs: Any) -> float:
        """Epsilon spent so far at `delta`, an upper bound.

        `kwargs` are settings of Opacus' own accountants (`alphas`, `eps_error`), which its engine
        hands to every accountant; they change nothing here.
        """
        return self.profile().epsilon(delta)

    def __len__(self) -> int:
        """Number of steps so far."""
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """The name to register this class by; `make_private_with_epsilon` looks it up again."""
        return "sordino"

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """What an Opacus optimizer calls after each step.

        A step over k accumulated batches may meet a record k times; one batch at k times the rate,
        which is what Opacus' own hook counts, would be too little. The noise is the sum of k
        shares of variance 1/k, so the step leaks no more than k steps with noise_multiplier /
        sqrt(k), and that is counted.
        """
        rate = _rate(sample_rate)

        def hook(optimizer: Any) -> None:
            batches = checks.whole("batches", optimizer.accumulated_iterations, at_least=1)
            noise = _noise(optimizer.noise_multiplier)
            self._count(noise / math.sqrt(batches), rate, batches)

        return hook

    def state_dict(
        self, destination: MutableMapping[str, Any] | None = None
    ) -> MutableMapping[str, Any]:
        """Everything needed to resume, as plain values that JSON can hold."""
        state = {} if destination is None else destination
        state["schema"] = SCHEMA
        state["mechanism"] = self.mechanism()
        state["sampling"] = _SAMPLING
        state["relation"] = _RELATION.value
        state["history"] = [list(_entry("history", entry)) for entry in self.history]
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Resume from what `state_dict` returned, also after a trip through JSON.

        Raises
        ------
        InvalidArgument
            If it is anything else; then nothing was changed.
        """
        if not isinstance(state_dict, Mapping) or not state_dict:
            checks.fail("state_dict", state_dict, "to be a filled dictionary", _STATE_HINT)
        known = {
            "mechanism": self.mechanism(),
            "schema": SCHEMA,
            "sampling": _SAMPLING,
            "relation": _RELATION.value,
        }
        for key, value in known.items():
            if state_dict.get(key) != value:
                name = f'state_dict["{key}"]'
                checks.fail(name, state_dict.get(key), f"to be {value}", _STATE_HINT)
        entries = checks.sequence('state_dict["history"]', state_dict.get("history"), _STATE_HINT)
        self.history = [_entry('state_dict["history"]', entry) for entry in entries or ()]


def _entry(name: str, entry: Any) -> tuple[float, float, int]:
    hint = "One entry is (noise_multiplier, sample_rate, steps)."
    if len(checks.sequence(name, entry, hint)) != 3:
        checks.fail(name, entry, "to have three numbers an entry", hint)
    noise_multiplier, sample_rate, steps = entry
    return _noise(noise_multiplier), _rate(sample_rate), checks.whole("steps", steps)


def _noise(value: float) -> float:
    hint = "It is the noise's standard deviation over the clipping norm; 0 means no privacy."
    return checks.non_negative("noise_multiplier", value, hint)


def _rate(value: float) -> float:
    hint = "It is the chance of each record to be in the batch: expected batch size / records."
    return checks.fraction("sample_rate", value, hint)


def _steps(noise_multiplier: float, sample_rate: float, steps: int) -> Profile:
    return subsampled.pld(
        noise_multiplier, sample_rate, steps, sampling=_SAMPLING, relation=_RELATION
    )
