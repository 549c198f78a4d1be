"""Keep the privacy budget of a dataset, over all releases from it.

Each release costs some epsilon, and they add up: a ledger is a file that holds a budget for every
dataset, by a name that you choose, and refuses the release that would exceed it. A release is
recorded **before** the model leaves, and nothing is ever given back.

In Python: `with Ledger('ledger.db', dataset='patients-2026'): model.fit(X, y)`

`sordino ledger init ledger.db --dataset patients-2026 --epsilon 2 --delta 1e-6`

`sordino ledger spend ledger.db --dataset patients-2026 --mu 0.3 --dry-run`

`sordino ledger show ledger.db`
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino import checks
from sordino.cli import options
from sordino.cli.options import OUTPUT, PROMISE, RELATION, Json, argument, option, relation
from sordino.cli.tables import number, pick, print_entries
from sordino.cli.terminal import add_note, print_json, say
from sordino.privacy import Relation

if TYPE_CHECKING:
    from sordino.accounting.profile import Profile
    from sordino.release.ledger import Status

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help=__doc__)
_File = Annotated[str, argument("FILE", "The ledger, a file on a local disk.")]
_Dataset = Annotated[str, option(PROMISE, "Your name for the data, to be kept.", metavar="NAME")]
_RowsPerPerson = Annotated[int | None, options.ROWS_PER_PERSON]
_GO, _EITHER = "--as-you-go", "--as-you-go/--in-advance"
_INSTEAD = option(PROMISE, "Instead of the one on file.")


@app.command()
def init(
    file: _File,
    dataset: _Dataset,
    epsilon: Annotated[float, option(PROMISE, "The budget of all releases together.")],
    delta: Annotated[float, option(PROMISE, "Of all together, well below 1 / rows.")],
    relation_: Annotated[str, RELATION] = Relation.REPLACE_ONE.value,
    max_rows_per_person: _RowsPerPerson = 1,
    as_you_go: Annotated[bool, option(PROMISE, "Costs may depend on releases.", _GO)] = False,
) -> None:
    """Open a budget for a dataset; the file is made if it is not there.

    Every release must be accounted by the relation that is said here. The same command again
    changes nothing; other numbers are refused. What was mistyped can be corrected while nothing is
    spent: `sordino ledger amend`.

    `sordino ledger init ledger.db --dataset patients-2026 --epsilon 2 --delta 1e-6`

    `sordino ledger init ledger.db --dataset visits --epsilon 4 --delta 1e-7
    --max-rows-per-person 12`
    """
    from sordino.release.ledger import Ledger

    ledger = Ledger(
        file,
        dataset=dataset,
        epsilon=epsilon,
        delta=delta,
        relation=relation(relation_),
        max_rows_per_person=1 if max_rows_per_person is None else max_rows_per_person,
        as_you_go=as_you_go,
    )
    new = ledger.create()
    with add_note(f"The budget is open, in {ledger.path}."):
        say(f"{ledger.status().budget.words}.")
        if not new:
            say(f"It was in {ledger.path} already.")
            return
        if not as_you_go:
            say("Choose costs without looking at earlier models; else --as-you-go.")
        say(f"Written to {ledger.path}. Keep it with {ledger.path.name}.seal.")


@app.command()
def amend(
    file: _File,
    dataset: _Dataset,
    epsilon: Annotated[float | None, _INSTEAD] = None,
    delta: Annotated[float | None, _INSTEAD] = None,
    relation_: Annotated[str | None, RELATION] = None,
    max_rows_per_person: _RowsPerPerson = None,
    as_you_go: Annotated[bool | None, option(PROMISE, "How costs are chosen.", _EITHER)] = None,
) -> None:
    """Correct a budget that nothing was recorded under; what is left out stays as it is.

    Refused once anything is spent, also by a release that failed. `show` tells what it was before.

    `sordino ledger amend ledger.db --dataset patients-2026 --delta 1e-7`
    """
    from sordino.release.ledger import Ledger

    now = Ledger(file, dataset=dataset).status().budget
    rows = max_rows_per_person
    ledger = Ledger(
        file,
        dataset=dataset,
        epsilon=now.epsilon if epsilon is None else epsilon,
        delta=now.delta if delta is None else delta,
        relation=now.relation if relation_ is None else relation(relation_),
        max_rows_per_person=now.rows_per_person if rows is None else rows,
        as_you_go=now.as_you_go if as_you_go is None else as_you_go,
    )
    before, after = ledger.amend(), ledger.status().budget
    with add_note(f"The budget is in {ledger.path}."):
        say(f"It was {before.words}.", f"It is {after.words}.")


@app.command()
def show(
    file: _File,
    dataset: Annotated[str | None, option(PROMISE, "Default: all.", metavar="NAME")] = None,
    json: Json = False,
) -> None:
    """Show budgets, what was spent and by which rule, what is left, and every release.

    Gaussian releases compose better than their epsilons add up, so the largest Gaussian release
    that still fits may have a larger epsilon than the one that is left.

    `sordino ledger show ledger.db --dataset patients-2026`
    """
    from sordino.release.ledger import Ledger

    names = [dataset] if dataset else [budget.dataset for budget in Ledger.datasets(file)]
    statuses = [Ledger(file, dataset=name).status() for name in names]
    events = [event for event in Ledger.history(file) if event.note]
    if json:
        changes = [pick(event, "recorded", "kind", "dataset", "note") for event in events]
        budgets = [_plain(status) for status in statuses]
        print_json({"ledger": file, "budgets": budgets, "changes": changes})
        return
    if not statuses:
        say(f"{file} holds no budget yet: sordino ledger init adds one.")
    for place, status in enumerate(statuses):
        many, spent = len(status.entries), "Nothing was spent yet."
        if many:
            spent = f"Spent: {_total(status)}; {many:,} release{'s' * (many > 1)}."
        say(*[""] * (place > 0), f"{status.budget.words}.", spent)
        if math.fsum(each.epsilon for each in status.entries) > 1.001 * status.spent.epsilon:
            say("That is less than the sum of their epsilons: noise composes.")
        if many > 1 and not status.spent.as_you_go:
            say("That rule holds if no cost was chosen by looking at another release.")
        say(f"Left: {status.left}.")
        if status.entries:
            print_entries(status.entries)
    for event in events:
        if event.dataset in ("", *names):
            what = f"{event.kind}; it was" if event.dataset else f"{event.kind},"
            say("", f"{event.recorded}: {what} {event.note}.")


@app.command()
def spend(
    file: _File,
    dataset: _Dataset,
    epsilon: Annotated[float | None, option(PROMISE, "With --delta, of any release.")] = None,
    delta: Annotated[float | None, option(PROMISE, "0 if the release is pure.")] = None,
    mu: Annotated[float | None, option(PROMISE, "Gaussian: L2 sensitivity / noise.")] = None,
    rho: Annotated[float | None, option(PROMISE, "A rho-zCDP release.")] = None,
    relation_: Annotated[str | None, RELATION] = None,
    max_rows_per_person: _RowsPerPerson = None,
    note: Annotated[str, option(PROMISE, "What was released.", metavar="TEXT")] = "",
    dry_run: Annotated[bool, option(OUTPUT, "Only say whether it fits.", "--dry-run")] = False,
) -> None:
    """Record a release that was made elsewhere, or ask whether one would fit.

    Say the most that is known of it: `--mu` for Gaussian noise composes best, then `--rho`, then
    `--epsilon` with `--delta`. Exit code 1 if it does not fit; then nothing is recorded.

    `sordino ledger spend ledger.db --dataset patients-2026 --mu 0.3 --dry-run`

    `sordino ledger spend ledger.db --dataset patients-2026 --epsilon 0.5 --delta 0
    --note "histogram of ages"`
    """
    costs = {"epsilon": epsilon, "mu": mu, "rho": rho}
    named = [name for name, value in costs.items() if value is not None]
    if len(named) != 1:
        checks.fail("cost", " and ".join(named) or "nothing", "to be --epsilon, --mu or --rho")
    if (delta is None) == (epsilon is not None):
        checks.fail("delta", delta, "to go with --epsilon and with nothing else")
    from sordino.release.ledger import Charge, Ledger
    from sordino.release.ledger.budget import BY_HAND

    ledger = Ledger(file, dataset=dataset)
    before = ledger.status()
    budget = before.budget
    by = relation(relation_) if relation_ else budget.relation
    rows = budget.rows_per_person if max_rows_per_person is None else max_rows_per_person
    profile = _profile(epsilon, delta, mu, rho, by)
    at = budget.delta if delta is None else delta  # a curve is promised at the budget's delta
    charge = Charge(profile, profile.epsilon(at) if epsilon is None else epsilon, at, rows, note)
    if dry_run:
        ledger.check(charge)
        after, kept = before.after(charge), "Nothing was recorded."
        total, left = "It fits, and nothing was recorded. The total would be", "Then left"
    else:
        entry = ledger.record(charge)
        entry.written(BY_HAND)
        after, kept = ledger.status(), f"It was recorded in {ledger.path}."
        total, left = f"Recorded as {entry.id[:8]}. The total is", "Left"
    alone = f"epsilon <= {number(charge.epsilon)} at delta = {charge.delta:g}"
    with add_note(kept):
        say(f"Accounted for {by.value}, {budget.unit}: alone it is {alone}.")
        say(f"{total} {_total(after)}.", f"{left}: {after.left}.")


@app.command()
def head(file: _File) -> None:
    """Print what stands for all that was ever written to a ledger: note it where it is safe.

    `verify --head` tells later whether the ledger went on from there: the one way to notice an
    older copy of the ledger *and* its seal. It says how many rows there are, and nothing else.

    `sordino ledger head ledger.db`
    """
    from sordino.release.ledger import Ledger, LedgerError

    found = Ledger.verify(file)
    if found is None:
        raise LedgerError(f"Expected ledger={file} to have a seal: `sordino ledger reseal`.")
    say(found)


@app.command()
def verify(
    file: _File,
    noted: Annotated[str | None, option(PROMISE, "Noted before.", "--head", metavar="HEAD")] = None,
) -> None:
    """Check every row of a ledger against its seal, and against a head that was noted elsewhere.

    Exit code 1 if rows are missing or were changed.

    `sordino ledger verify ledger.db --head 12:5f0c...`
    """
    from sordino.release.ledger import Head, Ledger

    found = Ledger.verify(file, None if noted is None else Head.parsed(noted))
    if found is None:
        say("Every row is as it was written. An older sordino made it: it has no seal yet.")
        return
    more = "It went on from the noted head."
    if noted is None:
        more = "An older copy of both files would look the same: pass a noted --head."
    say(f"Every row is as it was written and sealed; the head is {found}.", more)


@app.command()
def reseal(file: _File) -> None:
    """Take a ledger as it is, that lost its seal or is an older copy; the ledger says so for ever.

    For a ledger restored from a backup, when nothing newer is left. Record again, with `spend`,
    what was released since: else it is spent twice.

    `sordino ledger reseal ledger.db`
    """
    from sordino.release.ledger import Ledger

    event = Ledger.reseal(file)
    state = "is in order" if event is None else f"has a new seal; its history says: {event.note}"
    say(f"{file} {state}.")


def _profile(
    epsilon: float | None, delta: float | None, mu: float | None, rho: float | None, of: Relation
) -> Profile:
    from sordino.accounting.profile import ApproximateProfile, GaussianProfile
    from sordino.accounting.zcdp import concentrated

    by_hand = "as said by hand"  # written to the disk
    if mu is not None:
        return GaussianProfile(parameter=mu, relation=of, theorem=f"Gaussian DP, {by_hand}")
    if rho is not None:
        return concentrated(rho=rho, relation=of, theorem=f"zCDP, {by_hand}")
    assert epsilon is not None
    assert delta is not None
    theorem = f"(epsilon, delta)-DP, {by_hand}"
    return ApproximateProfile(budget=(epsilon, delta), relation=of, theorem=theorem)


def _total(status: Status) -> str:
    spent = status.spent
    return f"epsilon <= {number(spent.epsilon)} at delta = {spent.delta:g} (rule: {spent.rule})"


def _plain(status: Status) -> dict[str, Any]:
    """A budget for JSON: neither the fingerprint nor the salt, which stay inside."""
    return {
        **pick(status.budget, "dataset", "epsilon", "delta"),
        "relation": status.budget.relation.value,
        **pick(status.budget, "rows_per_person", "as_you_go"),
        "spent": pick(status.spent, "epsilon", "delta", "rule", "as_you_go"),
        "left": {
            "epsilon": status.epsilon_left,
            "largest_gaussian": {"mu": status.largest_mu, "epsilon": status.largest_epsilon},
            "words": status.left,
        },
        "entries": [
            {
                **pick(each, "id", "recorded", "what", "epsilon", "delta"),
                "theorem": each.profile.theorem,
                **pick(each, "status", "place", "pid", "host", "explanation"),
            }
            for each in status.entries
        ],
    }
