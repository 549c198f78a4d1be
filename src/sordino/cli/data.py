"""`sordino data`: which datasets there are, and getting their files."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from sordino import checks
from sordino.cli.options import DataDir, option
from sordino.cli.terminal import block, print_table, say, screen

if TYPE_CHECKING:
    from sordino.data.catalogue.recipe import Recipe

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help=(
        "See and get the datasets.\n\n"
        "Raw files are looked for in `--data-dir` (or `SORDINO_DATA`), then in the cache "
        "(`SORDINO_CACHE`, else `~/.cache/sordino`), and are else downloaded from their "
        "publisher into the cache. Every copy is checked against the published checksum.\n\n"
        "docs/guide.md says how each dataset is prepared and what that reads from the records."
    ),
)

_FOR_ALL_ROWS, _FOR_LICENCES = 84, 68
"""Columns of a terminal that the list takes with all its rows, and with the licences."""


@app.command("list")
def list_recipes(data_dir: DataDir = None) -> None:
    """Show every dataset: rows, dimension, whether its files are here, licence.

    Nothing is loaded. Example: `sordino data list --data-dir ~/data`
    """
    from sordino.data.catalogue import recipes

    console = screen()
    every, licences = console.width >= _FOR_ALL_ROWS, console.width >= _FOR_LICENCES
    rows_of = "train/validation/test" if every else "train"
    rows = []
    for recipe in recipes.RECIPES.values():
        counts = (recipe.rows or ())[: None if every else 1]
        rows.append(
            (
                recipe.name,
                "/".join(f"{n:,}" for n in counts) if counts else "your file",
                str(recipe.features) if recipe.features else "-",
                _files(recipe, data_dir),
                *[recipe.publication.licence] * licences,
            )
        )
    columns = [("name", "l"), (rows_of, "r"), ("dim", "r"), ("files", "l")]
    print_table(console, [*columns, *[("licence", "l")] * licences], rows)
    said = "Files are found by name. `sordino data fetch NAME` checks their content."
    said += "" if every else " docs/guide.md and a wider terminal show more."
    say(said, hang=True)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A dataset, as `sordino data list` names it.")],
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
    file: Annotated[str, typer.Argument(help="Your table: .csv, .csv.gz or .parquet.")],
    target: Annotated[
        str | None, option(None, "The column to predict; needed.", metavar="COLUMN")
    ] = None,
) -> None:
    """Print a description of your own table, to be edited before it is used.

    Its bounds, levels and classes are READ FROM THE DATA: replace each by what is known without
    looking. What looks like identifiers, people, dates or codes is remarked upon. Then pass it as
    `--columns` to `sordino assess`, `release`, `measure` or `audit`.

    Example: `sordino data describe patients.csv --target ill > columns.toml`
    """
    typed = shlex.quote(file)
    if target is None:
        next_command = f"sordino data describe {typed} --target COLUMN > columns.toml"
        checks.fail_missing("--target COLUMN", "", f"Name the column to predict: `{next_command}`.")
    from sordino.data.table_file import draft

    drafted = draft(file, target)
    block(drafted.toml)
    if drafted.looks:
        say(
            f"Look first at what may be {drafted.looks}; remarks there say why.",
            err=True,
            hang=True,
        )
    person = " --max-rows-per-person K" if drafted.of_people else ""
    said = "Next: put in what you know without looking, delete the line read_from_data = true, then"
    say(said, err=True, hang=True)
    # Not broken into lines, so that it can be copied.
    options = f"--columns columns.toml --epsilon 1{person} --out study"
    say(f"  sordino assess --data {typed} {options}", err=True)


def _files(recipe: Recipe, data_dir: str | None) -> str:
    from sordino.data import sources

    if recipe.embedded:
        return "embedded"
    places = [sources.find(raw, data_dir)[0] for raw in recipe.files]
    for place, word in (("missing", "missing"), ("cache", "cached")):
        if place in places:
            return word
    return "data dir"
