"""`sordino ledger`: the budget of a named dataset, and what was spent of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino import checks
from sordino.cli import findings as shown
from sordino.cli import options
from sordino.cli.options import OUTPUT, PROMISE, Json, flag, option
from sordino.cli.terminal import kept, print_json, print_table, say, screen
from sordino.privacy import Relation

if TYPE_CHECKING:
    from sordino.accounting.profile import Profile
    from sordino.cli.screen import Screen
    from sordino.release.ledger import Ledger, Line, Status

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help=(
        "Keep the privacy budget of a dataset, over all releases from it.\n\n"
        "Each release costs some epsilon, and they add up: a ledger is a file that holds a budget "
        "for every dataset, by a name that you choose, and refuses the release that would exceed "
        "it. A release is recorded **before** the model leaves, and nothing is ever given back.\n\n"
        "In Python: `with Ledger('ledger.db', dataset='patients-2026'): model.fit(X, y)`\n\n"
        "`sordino ledger init ledger.db --dataset patients-2026 --epsilon 2 --delta 1e-6`\n\n"
        "`sordino ledger spend ledger.db --dataset patients-2026 --mu 0.3 --dry-run`\n\n"
        "`sordino ledger show ledger.db`"
    ),
)
File = Annotated[str, typer.Argument(metavar="FILE", help="The ledger, a file on a local disk.")]
Dataset = Annotated[
    str,
    option(
        PROMISE,
        "Your name for the data. Keep it when rows come or go: the people are the same.",
        metavar="NAME",
    ),
]
RowsPerPerson = Annotated[
    int | None,
    option(PROMISE, "The most rows of one person: what one release protects.", metavar="K"),
]
Instead = option(PROMISE, "Instead of the one on file.")


@app.command()
def init(
    file: File,
    dataset: Dataset,
    epsilon: Annotated[float, option(PROMISE, "The budget of all releases together.")],
    delta: Annotated[
        float,
        option(PROMISE, "The chance of a worse loss, of all together; well below 1 / records."),
    ],
    relation: options.RelationOption = Relation.REPLACE_ONE.value,
    max_rows_per_person: RowsPerPerson = 1,
    as_you_go: Annotated[
        bool,
        flag(
            PROMISE,
            "--as-you-go",
            "The cost of a release may be chosen after looking at earlier ones. Fewer rules of "
            "composition hold then, and the total may be larger.",
        ),
    ] = False,
) -> None:
    """Open a budget for a dataset; the file is made if it is not there.

    Every release must be accounted by the relation that is said here. The same command again
    changes nothing; other numbers are refused. What was mistyped can be
    corrected while nothing is spent: `sordino ledger amend`.

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
        relation=options.relation(relation),
        max_rows_per_person=1 if max_rows_per_person is None else max_rows_per_person,
        as_you_go=as_you_go,
    )
    new = ledger.create()
    with kept(f"The budget is open, in {ledger.path}."):
        _say_opened(ledger, new=new, as_you_go=as_you_go)


def _say_opened(ledger: Ledger, *, new: bool, as_you_go: bool) -> None:
    say(f"{ledger.status().budget.words}.")
    if new and not as_you_go:
        say(
            "By this you promise that the epsilon of every release is decided without looking at "
            "earlier models of these data. If that is not so, open the budget with --as-you-go."
        )
    if new:
        say(
            f"Written to {ledger.path}. Keep that file, which knows what was spent, and "
            f"{ledger.path.name}.seal beside it, which knows it again."
        )
    else:
        say(f"It was in {ledger.path} already; nothing was changed.")


@app.command()
def amend(
    file: File,
    dataset: Dataset,
    epsilon: Annotated[float | None, Instead] = None,
    delta: Annotated[float | None, Instead] = None,
    relation: Annotated[str | None, Instead] = None,
    max_rows_per_person: RowsPerPerson = None,
    as_you_go: Annotated[
        bool | None,
        option(PROMISE, "Whether costs may be chosen by looking.", "--as-you-go/--in-advance"),
    ] = None,
) -> None:
    """Correct a budget that nothing was recorded under; what is left out stays as it is.

    Refused once anything is spent, also by a release that failed. `show` tells what it was before.

    `sordino ledger amend ledger.db --dataset patients-2026 --delta 1e-7`
    """
    from sordino.release.ledger import Ledger

    now = Ledger(file, dataset=dataset).status().budget
    ledger = Ledger(
        file,
        dataset=dataset,
        epsilon=now.epsilon if epsilon is None else epsilon,
        delta=now.delta if delta is None else delta,
        relation=now.relation if relation is None else options.relation(relation),
        max_rows_per_person=now.rows_per_person
        if max_rows_per_person is None
        else max_rows_per_person,
        as_you_go=now.as_you_go if as_you_go is None else as_you_go,
    )
    before, after = ledger.amend(), ledger.status().budget
    with kept(f"The budget is as asked, in {ledger.path}."):
        stands = f"It is {after.words}." if after != before else "It stays so."
        say(f"It was {before.words}.", stands)


@app.command()
def show(
    file: File,
    dataset: Annotated[
        str | None, option(PROMISE, "Only this dataset. Default: all.", metavar="NAME")
    ] = None,
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
    told = [event for event in Ledger.history(file) if event.note]
    if json:
        fields = ("recorded", "kind", "dataset", "note")
        changes = [{name: getattr(event, name) for name in fields} for event in told]
        plain = [_plain(status) for status in statuses]
        print_json({"ledger": file, "budgets": plain, "changes": changes})
        return
    if not statuses:
        say(f"{file} holds no budget yet. Add one: sordino ledger init --help")
    for number, status in enumerate(statuses):
        say(*[""] * (number > 0))
        _print(status)
    for event in told:
        if event.dataset in ("", *names):
            what = f"{event.kind}; it was" if event.dataset else f"{event.kind},"
            say("", f"{event.recorded}: {what} {event.note}.")


@app.command()
def spend(
    file: File,
    dataset: Dataset,
    epsilon: Annotated[
        float | None, option(PROMISE, "An (epsilon, delta) release; with --delta.")
    ] = None,
    delta: Annotated[float | None, option(PROMISE, "0 if the release is pure.")] = None,
    mu: Annotated[
        float | None,
        option(PROMISE, "A Gaussian release: L2 sensitivity over the noise's deviation."),
    ] = None,
    rho: Annotated[float | None, option(PROMISE, "A rho-zCDP release.")] = None,
    relation: Annotated[
        str | None,
        option(PROMISE, "How it was accounted. Default: as the budget is.", metavar="RELATION"),
    ] = None,
    max_rows_per_person: RowsPerPerson = None,
    note: Annotated[str, option(PROMISE, "What was released.", metavar="TEXT")] = "",
    dry_run: Annotated[
        bool, flag(OUTPUT, "--dry-run", "Only say whether it fits, and what would be left.")
    ] = False,
) -> None:
    """Record a release that was made elsewhere, or ask whether one would fit.

    Say the most that is known of it: `--mu` for Gaussian noise composes best, then `--rho`, then
    `--epsilon` with `--delta`. Exit code 1 if it does not fit; then nothing is recorded.

    `sordino ledger spend ledger.db --dataset patients-2026 --mu 0.3 --dry-run`

    `sordino ledger spend ledger.db --dataset patients-2026 --epsilon 0.5 --delta 0
    --note "histogram of ages"`
    """
    _check_one_cost(epsilon, delta, mu, rho)
    from sordino.release.ledger import BY_HAND, Charge, Ledger

    ledger = Ledger(file, dataset=dataset)
    before = ledger.status()
    given = options.relation(relation) if relation else before.budget.relation
    rows = before.budget.rows_per_person if max_rows_per_person is None else max_rows_per_person
    profile = _profile(epsilon, delta, mu, rho, given)
    # A curve is promised at the budget's delta.
    at = before.budget.delta if delta is None else delta
    alone = profile.epsilon(at) if epsilon is None else epsilon
    charge = Charge(profile, alone, at, rows, what=note)
    if dry_run:
        ledger.check(charge)
        after = before.after(charge)
        says = "It fits, and nothing was recorded. The total would be"
    else:
        entry = ledger.record(charge)
        entry.written(BY_HAND)
        after = ledger.status()
        says = f"Recorded as {entry.id[:8]}. The total is"
    with kept("Nothing was recorded." if dry_run else f"It was recorded in {ledger.path}."):
        say(
            f"Accounted for {given.value}, {before.budget.unit}: alone it is "
            f"epsilon <= {shown.number(charge.epsilon)} at delta = {charge.delta:g}."
        )
        say(f"{says} {_spent_in_words(after)}.")
        say(f"{'Then left' if dry_run else 'Left'}: {after.left}.")


@app.command()
def head(file: File) -> None:
    """Print what stands for all that was ever written to a ledger: note it where it is safe.

    `verify --head` tells later whether the ledger went on from there: the one way to notice an
    older copy of the ledger *and* its seal. It says how many rows there are, and nothing else.

    `sordino ledger head ledger.db`
    """
    from sordino.release.ledger import Ledger, LedgerError

    found = Ledger.verify(file)
    if found is None:
        hint = "The next release adds one, or `sordino ledger reseal` now."
        raise LedgerError(
            f"Expected ledger={file} to have a seal; an older sordino made it. {hint}"
        )
    say(str(found))


@app.command()
def verify(
    file: File,
    noted: Annotated[
        str | None,
        option(PROMISE, "As `sordino ledger head` printed it once.", "--head", metavar="HEAD"),
    ] = None,
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
    say(f"Every row is as it was written and sealed; the head is {found}.")
    if noted is None:
        say("An older copy of the ledger and its seal would look the same: pass a noted --head.")
    else:
        say("It went on from the head that was noted.")


@app.command()
def reseal(file: File) -> None:
    """Take a ledger as it is, that lost its seal or is an older copy; the ledger says so for ever.

    For a ledger restored from a backup, when nothing newer is left. Record again, with `spend`,
    what was released since: else it is spent twice.

    `sordino ledger reseal ledger.db`
    """
    from sordino.release.ledger import Ledger

    done = Ledger.reseal(file)
    if done is None:
        say(f"{file} is in order under its seal; nothing was changed.")
    else:
        say(f"{file} has a new seal, and its history a row: {done.note}.")


def _check_one_cost(
    epsilon: float | None, delta: float | None, mu: float | None, rho: float | None
) -> None:
    """Refuse a cost that is said twice, not at all or by half."""
    named = {"epsilon": epsilon, "mu": mu, "rho": rho}
    given = [name for name, value in named.items() if value is not None]
    if len(given) != 1:
        hint = "Pass --epsilon with --delta, or --mu, or --rho."
        checks.fail("cost", " and ".join(given) or "nothing", "to be given once", hint)
    if (delta is None) == (epsilon is not None):
        hint = "Pass --delta with --epsilon (0 if the release is pure), and only with it."
        checks.fail("delta", delta, f"to go with {given[0]}", hint)


def _profile(
    epsilon: float | None, delta: float | None, mu: float | None, rho: float | None, of: Relation
) -> Profile:
    from sordino.accounting.profile import ApproximateProfile, GaussianProfile
    from sordino.accounting.zcdp import concentrated

    said = "as said by hand"
    if mu is not None:
        return GaussianProfile(parameter=mu, relation=of, theorem=f"Gaussian DP, {said}")
    if rho is not None:
        return concentrated(rho=rho, relation=of, theorem=f"zCDP, {said}")
    assert epsilon is not None
    assert delta is not None
    theorem = f"(epsilon, delta)-DP, {said}"
    return ApproximateProfile(budget=(epsilon, delta), relation=of, theorem=theorem)


def _print(status: Status) -> None:
    console = screen()
    say(f"{status.budget.words}.")
    if not status.entries:
        say("Nothing was spent yet.")
    else:
        _say_spent(status)
    say(f"Left: {status.left}.")
    if status.entries:
        _print_entries(console, status.entries)


def _say_spent(status: Status) -> None:
    many = len(status.entries)
    say(f"Spent: {_spent_in_words(status)}; {many:,} release{'s' * (many > 1)}.")
    if math.fsum(line.epsilon for line in status.entries) > 1.001 * status.spent.epsilon:
        say(
            "That is less than the sum of their epsilons: noise adds up like the sides of a right "
            "angle, and each epsilon below is at its own delta."
        )
    if many > 1 and not status.spent.as_you_go:
        say(
            "That rule holds if the cost of each release was fixed before looking at another; "
            "a budget opened with --as-you-go uses only rules that do without that."
        )


def _spent_in_words(status: Status) -> str:
    spent = status.spent
    epsilon = shown.number(spent.epsilon)
    return f"epsilon <= {epsilon} at delta = {spent.delta:g} (rule: {spent.rule})"


def _print_entries(console: Screen, lines: tuple[Line, ...]) -> None:
    columns = [("entry", "l"), ("recorded (UTC)", "l"), ("epsilon", "r"), ("delta", "r")]
    rows = [
        (
            *(line.id[:8], line.recorded.rstrip("Z").replace("T", " ")),
            *(shown.number(line.epsilon), f"{line.delta:g}", line.status, line.what),
        )
        for line in lines
    ]
    print_table(console, [*columns, ("status", "l"), ("what", "W")], rows)
    alike: dict[str, list[str]] = {}
    for line in lines:
        alike.setdefault(line.explanation, []).append(line.id[:8])
    for explanation, names in alike.items():
        console.print(f"  {', '.join(names)}: {explanation}", highlight=False)


def _plain(status: Status) -> dict[str, Any]:
    budget, spent = status.budget, status.spent
    gaussian = {"mu": status.largest_mu, "epsilon": status.largest_epsilon}
    return {
        "dataset": budget.dataset,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "relation": budget.relation.value,
        "rows_per_person": budget.rows_per_person,
        "as_you_go": budget.as_you_go,
        "spent": {name: getattr(spent, name) for name in ("epsilon", "delta", "rule", "as_you_go")},
        "left": {
            "epsilon": status.epsilon_left,
            "largest_gaussian": gaussian,
            "words": status.left,
        },
        # Neither the fingerprint nor the salt: they stay inside.
        "entries": [
            {
                **{name: getattr(line, name) for name in ("id", "recorded", "what")},
                **{name: getattr(line, name) for name in ("epsilon", "delta")},
                "theorem": line.profile.theorem,
                **{name: getattr(line, name) for name in ("status", "place", "pid", "host")},
                "explanation": line.explanation,
            }
            for line in status.entries
        ],
    }
