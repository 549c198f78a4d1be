"""See and get the datasets.

Raw files are looked for in `--data-dir` (or `SORDINO_DATA`), then in the cache (`SORDINO_CACHE`,
else `~/.cache/sordino`), and are else downloaded from their publisher into the cache. Every copy is
checked against the published checksum.

docs/guide.md says how each dataset is prepared and what that reads from the records.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from sordino import checks
from sordino.cli.options import DataDir, argument, option
from sordino.cli.tables import print_table
from sordino.cli.terminal import block, say, screen

if TYPE_CHECKING:
    from sordino.data.catalogue.recipes import Recipe

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help=__doc__)


@app.command("list")
def list_recipes(data_dir: DataDir = None) -> None:
    """Show every dataset: rows, dimension, whether its files are here, licence.

    Nothing is loaded. Example: `sordino data list --data-dir ~/data`
    """
    from sordino.data.catalogue import recipes

    console = screen()
    every, licences = console.width >= 84, console.width >= 68
    rows = []
    for recipe in recipes.RECIPES.values():
        counts = (recipe.rows or ())[: None if every else 1]
        sizes = "/".join(f"{n:,}" for n in counts) or "your file"
        licence = [recipe.publication.licence] * licences
        dimension = str(recipe.features or "-")
        rows.append((recipe.name, sizes, dimension, _place(recipe, data_dir), *licence))
    columns = [("name", "l"), ("train/validation/test" if every else "train", "r"), ("dim", "r")]
    print_table(console, [*columns, ("files", "l"), *[("licence", "l")] * licences], rows)
    more = "" if every else " A wider terminal shows more."
    say(f"`sordino data fetch NAME` checks the content of files.{more}", hang=True)


def _place(recipe: Recipe, data_dir: str | None) -> str:
    """Where its files are, in a word."""
    from sordino.data import sources

    if recipe.embedded:
        return "embedded"
    places = [sources.find(raw, data_dir)[0] for raw in recipe.files]
    return "missing" if "missing" in places else "cached" if "cache" in places else "data dir"


@app.command()
def fetch(
    name: Annotated[str, argument(None, "A dataset, as `sordino data list` names it.")],
    data_dir: DataDir = None,
) -> None:
    """Make sure that a dataset's files are here and are the published ones.

    Files found in the data directory or the cache are checked; missing ones are downloaded into
    the cache. Example: `sordino data fetch adult`
    """
    from sordino.data import sources
    from sordino.data.catalogue import recipes

    recipe = recipes.recipe(name)
    if recipe.embedded:
        say(f"{recipe.name} comes with scikit-learn and needs no file.")
    for raw in recipe.files:
        place, path = sources.fetch(raw, data_dir)
        done = "downloaded to" if place == "missing" else "already here and correct:"
        say(f"{raw.name}: {done} {path}")


@app.command()
def describe(
    file: Annotated[str, argument(None, "Your table: .csv, .csv.gz or .parquet.")],
    target: Annotated[str | None, option(None, "To predict; needed.", metavar="COLUMN")] = None,
) -> None:
    """Print a description of your own table, to be edited before it is used.

    Its bounds, levels and classes are READ FROM THE DATA: replace each by what is known without
    looking. What looks like identifiers, people, dates or codes is remarked upon, and the column by
    which rows per person may be counted is proposed. Then pass it as `--columns` to
    `sordino assess`, `release`, `measure` or `audit`.

    Example: `sordino data describe patients.csv --target ill > columns.toml`
    """
    if target is None:
        command = f"sordino data describe {shlex.quote(file)} --target COLUMN > columns.toml"
        checks.fail_missing("--target COLUMN", "", f"`{command}`.")
    from sordino.data.table_file import draft

    drafted = draft(file, target)
    block(drafted.toml)
    if drafted.looks:
        say(f"Look first at what may be {drafted.looks}.", err=True, hang=True)
    person = " --max-rows-per-person K" if drafted.of_people else ""
    next_ = "Next: put in what you know without looking, delete read_from_data = true, then"
    say(next_, err=True, hang=True)
    # Not broken into lines, so that it can be copied.
    options = f"--columns columns.toml --epsilon 1{person} --out study"
    say(f"  sordino assess --data {shlex.quote(file)} {options}", err=True)
