"""A grid whose runs start from weights that are given: recorded, and no others are accepted."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sordino.errors import InvalidArgument
from sordino.intrinsic.measure import measure
from sordino.intrinsic.measured import load
from sordino.sgd import train
from sordino.study import StudyError

START = np.array([0.3, -0.2, 0.1, 0.5, -1.0])


@pytest.fixture
def given(spec):
    return dataclasses.replace(spec, init="given")


def test_every_run_starts_there(given, people, tmp_path):
    study = measure(given, people, 3, 2, initial_weights=START, store=tmp_path / "s")
    found = load(study)
    assert found.inits == ("given",)
    from sordino.intrinsic.grid import datasets

    expected = train(given, people, range(3), datasets(people, 2), initial_weights=START)
    np.testing.assert_array_equal(found.final("given"), expected[:, :, -1])


def test_another_start_is_another_study(given, people, tmp_path):
    measure(given, people, 2, 1, initial_weights=START, store=tmp_path / "s")
    with pytest.raises(StudyError, match="initial_weights_sha256"):
        measure(given, people, 2, 1, initial_weights=START + 1e-9, store=tmp_path / "s")
    measure(given, people, 2, 1, initial_weights=list(START), store=tmp_path / "s")


def test_what_does_not_go_together_is_refused(given, spec, people, tmp_path):
    store = tmp_path / "s"
    for sentence, asked, arguments in (
        ("spec.init=given not to be given without", given, {}),
        ("initial_weights", spec, {"initial_weights": START}),
        ("init=vary to be None", given, {"initial_weights": START, "init": "vary"}),
        ("initial_weights", given, {"initial_weights": START * np.nan}),
        ("initial_weights", given, {"initial_weights": START[:2]}),
        ("to be None with train", None, {"initial_weights": START, "train": len}),
    ):
        with pytest.raises(InvalidArgument, match=sentence):
            measure(asked, people, 2, 1, store=store, **arguments)
    assert not store.exists()
