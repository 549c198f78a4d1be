"""A budget of a ledger by the two options that name it: `--ledger FILE --dataset NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino.assessment.source import not_given

if TYPE_CHECKING:
    from sordino.mechanisms.ledger import Ledger


def check_budget(path: str | None, dataset: str | None) -> None:
    """Refuse one of the two without the other."""
    if path is None and dataset is not None:
        hint = "Pass the file that `sordino ledger init` made, or leave --dataset out."
        not_given("--ledger FILE", "with --dataset", hint)
    if path is not None and dataset is None:
        hint = f"Pass the name of the budget, as `sordino ledger show {path}` lists it."
        not_given("--dataset NAME", "with --ledger", hint)


def named_budget(
    path: str | None,
    dataset: str | None,
    *,
    relation: str = "replace-one",
    max_rows_per_person: int = 1,
) -> Ledger | None:
    """The budget of this name, if one is named; it is looked for when it is used."""
    check_budget(path, dataset)
    if path is None or dataset is None:
        return None
    from sordino.mechanisms.ledger import Ledger

    rows = max_rows_per_person
    return Ledger(path, dataset=dataset, relation=relation, max_rows_per_person=rows)
