"""Records with an enforced norm bound: datasets, how they are made, and their neighbours."""

from sordino.data.catalogue.recipe import Recipe, Splits
from sordino.data.catalogue.recipes import load, names, recipe
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
