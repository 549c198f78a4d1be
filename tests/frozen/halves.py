"""A study and an assessment stopped half-way, and what a whole one is."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import Any

from frozen.commands import SMALL, _people
from frozen.program import answer, bytes_of, text_file, tree

DATA = Path(__file__).parent / "data"
STUDY = ["--seeds", 4, "--neighbours", 3, "--steps", 20, "--checkpoints", 2, "--out", "study"]


def study(half: Path | None) -> dict[str, Any]:
    """A study, whole or gone on with: the same bytes."""
    _unpack(half)
    done = answer("measure", *_people(), *STUDY)
    place = Path("study")
    names = [name for name in tree(place) if not Path(name).name.startswith(".")]
    kept = [name for name in names if name.endswith(".json") or "/c." in name]
    return {
        "measure": done,
        "files": names,
        "show": answer("measure", "show", "study", "--json"),
        **{
            name: text_file(place / name) if name.endswith("json") else bytes_of(place / name)
            for name in kept
        },
    }


def assessment(half: Path | None) -> dict[str, Any]:
    """An assessment, whole or gone on with."""
    _unpack(half)
    if half is not None:
        _moved("<here>", str(Path.cwd()))
    done = answer("assess", *_people(), "--epsilon", 2, *SMALL, "--out", "assessed")
    place = Path("assessed")
    return {
        "assess": done,
        "assessment": text_file(place / "assessment.json"),
        "files": [name for name in tree(place) if not name.startswith("work/")],
        "certificate": bytes_of(place / "model" / "certificate.json"),
        "weights": bytes_of(place / "model" / "model.safetensors"),
    }


def _unpack(half: Path | None) -> None:
    if half is not None:
        with tarfile.open(half) as archive:
            archive.extractall(".", filter="data")


def make_halves(out: Path) -> None:
    """Write both halves, with the code that a later one is to go on with.

    A killed process leaves finished cells and stages, and files without a record: so a whole one
    from which records are taken away is one that was killed.
    """
    answer("measure", *_people(), *STUDY)
    _drop("study/cells", 3)
    _pack(out / "half_study.tar.gz", "study")
    answer("assess", *_people(), "--epsilon", 2, *SMALL, "--out", "assessed")
    for name in ("assessment.json", "report.html", "model/certificate.json"):
        Path("assessed", name).unlink()
    Path("assessed/model/model.safetensors").unlink()
    Path("assessed/model").rmdir()
    for stage in ("release_estimate", "attack_release", "attack_plain", "release"):
        Path(f"assessed/stages/{stage}.json").unlink()
    for work in ("attack_release", "attack_plain", "release", "release_estimate/pair-0"):
        shutil.rmtree(f"assessed/work/{work}")
    _drop("assessed/work/release_estimate/drawn/cells", 1)
    _moved(str(Path.cwd()), "<here>")
    _pack(out / "half_assessment.tar.gz", "assessed")


def _moved(old: str, new: str) -> None:
    """The table lies elsewhere: its path is corrected, as sordino asks for it."""
    asked = Path("assessed/study.toml")
    asked.write_text(asked.read_text().replace(old, new))


def _drop(cells: str, kept: int) -> None:
    for record in sorted(Path(cells).iterdir())[kept:]:
        record.unlink()


def _pack(path: Path, name: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz", compresslevel=9) as archive:
        archive.add(name)
    shutil.rmtree(name)
