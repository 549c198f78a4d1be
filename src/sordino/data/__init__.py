"""Records with an enforced norm bound: datasets, how they are made, and their neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino import _lazy

if TYPE_CHECKING:
    from sordino.data.catalogue.recipes import Recipe, Splits, load, names, recipe
    from sordino.data.dataset import Dataset
    from sordino.data.sources import CorruptFileError, DataError, MissingFileError

__all__ = [
    "CorruptFileError",
    "DataError",
    "Dataset",
    "MissingFileError",
    "Recipe",
    "Splits",
    "load",
    "names",
    "recipe",
]

__getattr__, __dir__ = _lazy.public_names(
    __name__,
    {
        "CorruptFileError": "sources",
        "DataError": "sources",
        "Dataset": "dataset",
        "MissingFileError": "sources",
        "Recipe": "catalogue.recipes",
        "Splits": "catalogue.recipes",
        "load": "catalogue.recipes",
        "names": "catalogue.recipes",
        "recipe": "catalogue.recipes",
    },
)
