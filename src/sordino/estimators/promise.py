"""What every private fit is asked for: a budget, a relation, who is protected, public numbers."""

from __future__ import annotations

import math
from typing import Any

from sklearn.utils import check_random_state

from sordino import checks
from sordino.estimators.fit import Randomness
from sordino.estimators.leaks import warn_of_leak
from sordino.estimators.preparation import AUTO
from sordino.privacy import MOST_ROWS_PER_PERSON, Relation, default_delta


def check_budget(epsilon: Any, delta: Any) -> None:
    """Refuse a budget that no fit here can keep."""
    hint = "Pass the budget you promise, such as 1.0."
    checks.positive("epsilon", epsilon, hint, allow_infinite=True)
    hint = "All methods here need delta > 0; 1e-6 is usual, None is 1 / rows^2."
    if delta is not None and not 0 < checks.non_negative("delta", delta, hint) < 1:
        checks.fail("delta", delta, "in (0, 1)", hint)


def relation_of(given: Relation | str) -> Relation:
    """The relation, however it was spelled."""
    if isinstance(given, Relation):
        return given
    name = str(given).lower().replace("_", "-")
    return Relation(checks.one_of("relation", name, [each.value for each in Relation]))


def check_norm(given: Any) -> None:
    """Refuse what is no public norm, nor the word for one by a rule."""
    if isinstance(given, str):
        checks.one_of("data_norm", given, (AUTO,))
        return
    hint = "Pass a norm that you know without looking at the data, such as 1.0."
    if not 1e-30 < checks.positive("data_norm", given, hint) < 1e30:
        checks.fail("data_norm", given, "between 1e-30 and 1e30", hint)


def check_persons(max_rows_per_person: Any) -> None:
    """Refuse what cannot be a number of rows that are protected together."""
    rows = checks.whole("max_rows_per_person", max_rows_per_person, at_least=1)
    if rows > MOST_ROWS_PER_PERSON:
        checks.fail("max_rows_per_person", rows, f"<= {MOST_ROWS_PER_PERSON:,}")


def check_public_rows(given: Any, relation: Relation) -> None:
    """Refuse a public number of rows where the relation does not keep their number private."""
    if given is not None:
        checks.whole("public_rows", given, at_least=1)
        if relation is not Relation.ADD_OR_REMOVE_ONE:
            checks.fail("public_rows", given, "only for add-or-remove-one")


def public_size(rows: int, public_rows: Any, relation: Relation) -> int:
    """How many rows there are, or, where that is private, the public number near it."""
    if relation is not Relation.ADD_OR_REMOVE_ONE:
        return rows
    if public_rows is None:
        checks.fail("public_rows", None, "to be given for add-or-remove-one")
    return int(public_rows)


def delta_for(given: float | None, rows: int, epsilon: float) -> float:
    """The delta of a promise about so many rows; a warning where it is too large for them."""
    if given is not None and given > 0.1 / rows and math.isfinite(epsilon):
        warn_of_leak(f"delta={given:g} is above 0.1 / rows; pass less, or None")
    return default_delta(rows) if given is None else float(given)


def randomness_of(random_state: Any) -> Randomness:
    """The operating system's, or a repeatable one, with a warning."""
    if random_state is None:
        return Randomness.of_system()
    seed = check_random_state(random_state).randint(2**31)
    warn_of_leak("random_state makes the noise repeatable: this fit has no guarantee")
    return Randomness.seeded(int(seed))
