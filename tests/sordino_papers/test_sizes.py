"""Kind "sizes": rows and columns of what is really loaded."""

import pytest

from sordino.errors import InvalidArgument
from sordino_papers import sizes
from sordino_papers.bench import Bench, NotHere
from sordino_papers.claims import PaperRun


def bench(tmp_path, **settings):
    run = PaperRun("v2/some", "sizes", settings, {})
    return Bench(tmp_path, {run.name: run}, data_dir=tmp_path)


def asked(numbers):
    return {name: quantity(numbers).value for name, quantity in sizes.QUANTITIES.items()}


def test_rows_and_columns_of_an_embedded_dataset(tmp_path):
    numbers = bench(tmp_path, data="breast-cancer").numbers("v2/some")
    assert asked(numbers) == {
        "training_size": 410,
        "validation_size": 45,
        "test_size": 114,
        "features": 30,
    }
    assert sizes.QUANTITIES["features"](numbers, intercept=True).value == 31


def test_missing_files_make_the_run_not_runnable(tmp_path):
    with pytest.raises(NotHere, match=r"adult"):
        bench(tmp_path, data="adult").numbers("v2/some")


def test_an_unknown_setting_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="dataset"):
        sizes.make({"dataset": "adult"}, bench(tmp_path))
