from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sordino.data
from sordino.data.catalogue import recipes
from sordino.data.catalogue.recipes import Recipe
from sordino.data.sources import DataError, MissingFileError, RawFile
from sordino.errors import InvalidArgument

EMBEDDED = ("digits", "digits/binary", "breast-cancer", "diabetes")

# v2, Table 1: training, validation and test size, d.
TABLE_1 = {
    "cifar2": ((9_000, 1_000, 2_000), 50),
    "mnist-binary": ((10_397, 1_155, 1_902), 50),
    "adult": ((29_305, 3_256, 16_281), 100),
    "forest": ((378_783, 42_086, 74_272), 49),
}
# v2, Table 2: logistic regression (rate, steps), network (rate, steps, hidden size).
TABLE_2 = {
    "cifar2": ((0.5, 2000), (0.5, 2500, 10)),
    "mnist-binary": ((0.5, 1850), (0.5, 4750, 10)),
    "adult": ((0.5, 3400), (0.5, 1850, 8)),
    "forest": ((1.0, 8400), (0.5, 3500, 10)),
}
# v2, Table 2, column P: parameters of the one-hidden-layer network.
PARAMETERS = {"cifar2": 521, "mnist-binary": 521, "adult": 817, "forest": 511}


@pytest.mark.parametrize("name", TABLE_1)
def test_recipes_carry_the_papers_sizes_and_settings(name: str) -> None:
    recipe = recipes.recipe(name)
    network = recipe.network
    assert network is not None
    assert (recipe.rows, recipe.features) == TABLE_1[name]
    assert (recipe.learning_rate, recipe.steps) == TABLE_2[name][0]
    assert (network.learning_rate, network.steps, network.hidden_size) == TABLE_2[name][1]
    assert recipe.batch_size == network.batch_size == (50 if name == "forest" else 32)
    features, hidden = TABLE_1[name][1], network.hidden_size
    assert (features + 1) * hidden + hidden + 1 == PARAMETERS[name]


def test_the_variants_of_mnist_have_the_settings_of_their_paper() -> None:
    assert recipes.recipe("mnist-binary/grp").learning_rate == 0.1
    assert recipes.recipe("mnist-binary/crop").features == 100
    mnist = recipes.recipe("mnist")
    assert (mnist.rows, mnist.features) == ((54_000, 6_000, 10_000), 784)
    assert (mnist.learning_rate, mnist.batch_size, mnist.steps) == (0.1, 32, 1000)


def test_pca_is_what_mnist_binary_means() -> None:
    assert recipes.recipe("mnist-binary/pca") is recipes.recipe("mnist-binary")


def test_every_recipe_is_complete() -> None:
    for name, recipe in recipes.RECIPES.items():
        assert recipe.name == name
        assert recipe.embedded == (name in EMBEDDED)
        assert recipe.publication.licence
        assert recipe.publication.citation


def test_an_unknown_recipe_is_answered_with_the_nearest_names() -> None:
    with pytest.raises(
        InvalidArgument, match=r"name=mnist-binry to be one of .* mean mnist-binary"
    ):
        sordino.data.load("mnist-binry")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"form": "ern"}, "form=ern to be one of papers, erm. Did you mean erm"),
        ({"form": "erm"}, "form=erm to be papers for digits. Only adult, bank"),
        ({"dtype": "float16"}, "dtype=float16 to be one of float32, float64"),
        ({"data_dir": "/no/such/place"}, "data_dir=/no/such/place to be a directory"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, str], why: str) -> None:
    name = "adult" if "data_dir" in arguments else "digits"
    with pytest.raises(InvalidArgument, match=why):
        sordino.data.load(name, **arguments)


@pytest.mark.parametrize("name", EMBEDDED)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_embedded_sets_need_no_file_and_are_as_promised(cache: Path, name: str, dtype: str) -> None:
    splits = sordino.data.load(name, dtype=dtype)
    _check_promises(splits)
    assert splits.train.X.dtype == dtype
    assert splits.train.norm_bound == 1.0
    assert not cache.exists()


def _check_promises(splits: sordino.data.Splits) -> None:
    recipe = splits.recipe
    assert splits.validation is not None
    assert splits.test is not None
    parts = (splits.train, splits.validation, splits.test)
    assert tuple(part.rows for part in parts) == recipe.rows
    assert {part.features for part in parts} == {recipe.features}
    assert splits.reads_private_data == recipe.reads_private_data
    assert {part.name for part in parts} == {recipe.name}
    if recipe.target_bounds is not None:
        low, high = recipe.target_bounds
        assert all(low < part.y.min() < part.y.max() < high for part in parts)
        return
    assert all(set(np.unique(part.y)) == set(np.unique(splits.train.y)) for part in parts)


def test_digits_are_images_on_the_sphere() -> None:
    ten, two = sordino.data.load("digits").train, sordino.data.load("digits/binary").train
    assert ten.image_shape == two.image_shape == (8, 8)
    assert set(ten.y) == set(range(10))
    assert np.array_equal(ten.X, two.X)
    assert np.array_equal(ten.y % 2, two.y)
    np.testing.assert_allclose(np.linalg.norm(ten.X, axis=1), 1, rtol=1e-6)


def test_a_load_is_always_the_same() -> None:
    first, again = (sordino.data.load("breast-cancer").train.fingerprint for _ in range(2))
    assert first == again


def test_load_finds_a_users_extract_in_the_data_directory(cache: Path, tmp_path: Path) -> None:
    text = "AGE,SEX,LABEL\n" + "".join(f"{20 + i},{i % 2},{i % 3 % 2}\n" for i in range(40))
    (tmp_path / "ipums.csv").write_text(text)
    splits = sordino.data.load("ipums", data_dir=tmp_path)
    assert splits.test is not None
    assert (splits.train.rows, splits.test.rows, splits.train.features) == (29, 8, 2)
    everything = sordino.data.load("ipums", data_dir=tmp_path, form="erm")
    assert (everything.train.rows, everything.validation, everything.test) == (40, None, None)
    assert len(everything.reads_private_data) == 2


def test_a_missing_extract_says_what_to_put_where(cache: Path) -> None:
    with pytest.raises(MissingFileError, match=r"ipums\.csv .*an extract.*docs/guide\.md"):
        sordino.data.load("ipums")


def test_load_downloads_what_is_nowhere(
    cache: Path, publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"0.5,1\n" * 3
    publisher.pages["x"] = content
    digest = "md5:" + hashlib.md5(content).hexdigest()
    raw = RawFile("x.csv.gz", digest, (publisher.url("x"),), "home")
    seen: list[bytes] = []
    original = recipes.recipe("digits")

    def build(read: object, form: object) -> object:
        seen.append(read(raw))  # type: ignore[operator]
        return original.build(read, form)  # type: ignore[arg-type]

    made: Recipe = replace(original, name="made", files=(raw,), build=build)  # type: ignore[arg-type]
    monkeypatch.setitem(recipes.RECIPES, "made", made)
    sordino.data.load("made")
    assert seen == [content]
    assert gzip.decompress((cache / "x.csv.gz").read_bytes()) == content


def test_data_errors_are_one_kind() -> None:
    assert issubclass(sordino.data.MissingFileError, DataError)
    assert issubclass(sordino.data.CorruptFileError, DataError)
