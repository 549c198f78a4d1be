"""Every file of a finished assessment, damaged: the same answer, or one sentence that names it."""

from __future__ import annotations

import random
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damaged import STRUCTURE, said

import sordino
from sordino.assessment import pages
from sordino.assessment.directory import AssessmentDirectory, AssessmentError
from sordino.assessment.request import Request
from sordino.assessment.stages import accuracy
from sordino.audit.runners.outputs import OutputFile
from sordino.errors import InvalidArgument, Refused
from sordino.report.result import Attack, Estimated, OwnNoise, Proved, Release
from sordino_papers import runs

CORPUS = Path(__file__).parents[1] / "corpus" / "assessed.tar.gz"
KINDS: dict[str, type] = {
    "prove": Proved,
    "own_noise": OwnNoise,
    "release_estimate": Estimated,
    "attack_release": Attack,
    "attack_plain": Attack,
    "release": Release,
}
ASKED: dict[str, Any] = {
    "data": "breast-cancer",
    "epsilon": 2.0,
    "effort": "quick",
    "seeds": 20,
    "neighbours": 2,
    "audit_runs": 200,
}
each_damage = pytest.mark.parametrize("damage", STRUCTURE)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished assessment, as this version writes its stages."""
    root = tmp_path_factory.mktemp("corpus")
    with tarfile.open(CORPUS) as archive:
        archive.extractall(root, filter="data")
    directory = AssessmentDirectory(root / "assessed")
    for stage, kind in KINDS.items():
        found = directory.load_stage(stage, kind)
        assert found is not None
        directory.save_stage(stage, *found)
    return root / "assessed"


@pytest.fixture
def place(whole: Path, tmp_path: Path) -> Path:
    """A copy without the work of its stages."""
    return shutil.copytree(whole, tmp_path / "a", ignore=shutil.ignore_patterns("work"))


def stages(path: Path) -> list[Any]:
    """What a study that goes on takes from its files."""
    request = Request(**ASKED)
    directory = AssessmentDirectory.checked(path, request)
    state = directory._state()
    assert state is not None
    with directory.opened(request, state["fingerprint"]):
        return [directory.load_stage(stage, kind) for stage, kind in KINDS.items()]


def kept(path: Path) -> list[Path]:
    """The files that are read again; the page and its README are written anew."""
    files = (each.relative_to(path) for each in sorted(path.rglob("*")) if each.is_file())
    return [each for each in files if each.name not in ("report.html", "README.txt", ".lock")]


def refused(error: object, told: str, file: Path) -> None:
    """One sentence that names the file; nothing of numpy's advice."""
    assert isinstance(error, Refused | InvalidArgument), told
    assert str(file) in str(error) or str(file.parent) in str(error)
    assert "pickle" not in str(error)
    assert "\n" not in str(error)


def judged(use: Callable[[], object], before: object, file: Path) -> bool:
    """Whether it still answers, and then the same; else it refuses, and changes nothing."""
    content = file.read_bytes()
    found, told = said(use)
    if found == before:
        return True
    refused(found, told, file)
    assert file.read_bytes() == content
    return False


@each_damage
def test_every_kept_file(damage: str, place: Path) -> None:
    rng = random.Random(f"{damage} 1")
    page = pages.page_text(place, "json", public=False)
    before = stages(place)
    noticed = 0
    for name in kept(place):
        file = place / name
        content = file.read_bytes()
        file.write_bytes(STRUCTURE[damage](content, rng))
        if name.parts[0] in ("assessment.json", "model"):  # which takes a second
            noticed += not judged(lambda: pages.page_text(place, "json", public=False), page, file)
        else:
            noticed += not judged(lambda: stages(place), before, file)
        file.write_bytes(content)
    assert noticed > len(KINDS)  # each stage, at least


def test_stages_that_were_swapped(place: Path) -> None:
    names = sorted((place / "stages").iterdir())
    for one, other in zip(names, names[1:] + names[:1], strict=True):
        content = one.read_bytes()
        one.write_bytes(other.read_bytes())
        assert not judged(lambda: stages(place), None, one)
        one.write_bytes(content)


def test_a_study_whose_records_nobody_knows_is_not_gone_on_with(place: Path) -> None:
    request = Request.from_file(place / "study.toml")
    (place / "state.json").unlink()
    with (
        pytest.raises(AssessmentError, match=r"state.json is damaged: It is gone"),
        AssessmentDirectory.checked(place, request).opened(request, "other records"),
    ):
        pass


def test_a_study_that_does_not_say_what_it_is_about_is_damaged(place: Path) -> None:
    """What is left out of a study file is the usual; nobody asked for that here."""
    (place / "study.toml").write_text('model = "logistic"\n')
    with pytest.raises(AssessmentError, match=r"study.toml is damaged: It names no data"):
        stages(place)


def test_formats_are_compared_and_not_versions(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stages(place)
    monkeypatch.setattr(sordino, "__version__", "0.0.1")
    assert stages(place) == before
    text = (place / "state.json").read_text()
    assert '"format": 1' in text
    (place / "state.json").write_text(text.replace('"format": 1', '"format": 7'))
    with pytest.raises(AssessmentError, match=r"to have format 1, not 7 of 0.0.1"):
        stages(place)


@each_damage
def test_numbers_kept_for_a_stage(damage: str, tmp_path: Path) -> None:
    """Numpy advises to load what is damaged with pickle, which can run code."""
    rng = random.Random(f"{damage} 2")
    made = accuracy.stored(tmp_path, "x", 5, lambda: np.arange(5.0))
    file = tmp_path / "x.npy"
    file.write_bytes(STRUCTURE[damage](file.read_bytes(), rng))
    content = file.read_bytes()
    with pytest.raises(Refused, match=r"x\.npy is damaged") as told:
        accuracy.stored(tmp_path, "x", 5, lambda: made)
    refused(told.value, "", file)
    assert file.read_bytes() == content


@each_damage
def test_outputs_of_an_audit(damage: str, tmp_path: Path) -> None:
    """What a kill left is cut off; anything else is no file of ours, and not touched."""
    rng, file = random.Random(f"{damage} 3"), tmp_path / "outputs"

    def written() -> list[Any]:
        with OutputFile(file, {"mechanism": "m"}) as opened:
            return [(world, start, values.tolist()) for world, start, values in opened.blocks()]

    def blocks() -> Iterator[Any]:
        yield from written()

    written()
    with OutputFile(file, {"mechanism": "m"}) as opened:
        list(opened.blocks())
        opened.append(0, 0, np.ones((3, 2)))
    whole = written()
    file.write_bytes(STRUCTURE[damage](file.read_bytes(), rng))
    found, told = said(lambda: list(blocks()))
    if isinstance(found, list):
        assert found == whole[: len(found)]
    else:
        refused(found, told, file)


@each_damage
def test_a_kept_run_of_a_reproduction(damage: str, tmp_path: Path) -> None:
    """It is made again."""
    rng, file = random.Random(f"{damage} 4"), tmp_path / "run.npz"
    numbers = {"_seconds": runs.np.array(1.0), "_run": runs.np.array("here")}
    runs._write(file, numbers | {"x": runs.np.arange(9.0)})
    assert runs._read(file, "here") is not None
    assert runs._read(file, "elsewhere") is None  # a file that was swapped
    file.write_bytes(STRUCTURE[damage](file.read_bytes(), rng))
    assert runs._read(file, "here") is None
